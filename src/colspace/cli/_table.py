"""From a table and the options to X, y and back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

#: What else can be done about cells that cannot be used, where columns may be left out and where a model needs all of them.
LEAVE = "drop those rows, or leave the columns out with --drop"
LEAVE_ROWS = "or drop those rows"
_FIRST = {
    "missing": "fill them with colspace impute",
    "infinite": "give --na inf or --na -inf if they stand for gaps",
}


@dataclass(frozen=True)
class Choice:
    """Names of the columns that are reduced, of the responses, and of those that are carried along."""

    features: list[str]
    responses: list[str]
    ids: list[str]


@dataclass(frozen=True)
class Parts:
    """The columns that are reduced, the response, and the columns that are carried along."""

    X: Any
    y: Any
    ids: Any
    responses: Any
    rows: int | None = None  # of the table that this is a sample of
    words: Mapping[str, list[str]] = field(default_factory=dict)  # columns of words and their indicators

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.X) if self.rows is None else self.rows

    def labelled(self) -> Parts:
        """The rows that have a response; refuses where none has."""
        kept = self.responses.notna().all(axis=1)
        if kept.all():
            return self
        if not kept.any():
            raise ValueError(no_response(list(self.responses)))
        return replace(
            self, X=self.X[kept], y=self.y[kept], ids=self.ids[kept], responses=self.responses[kept]
        )

    def with_embedding(self, estimator: Any) -> Any:
        """Ids, embedding and responses side by side."""
        import numpy as np
        import pandas as pd

        names = embedding_names(estimator, [*self.ids, *self.responses])
        embedding = pd.DataFrame(np.asarray(estimator.transform(self.X)), index=self.X.index, columns=names)
        return pd.concat([self.ids, embedding, self.responses], axis=1)


def embedding_names(estimator: Any, others: Sequence[str]) -> list[str]:
    """Names of the embedding's columns; refuses those that another column of the result has."""
    names = [str(name) for name in estimator.get_feature_names_out()]
    both = [name for name in others if name in names]
    if both:
        msg = f"{both[0]!r} is a column of the embedding and of the table; rename that of the table"
        raise ValueError(msg)
    return names


def choose_columns(
    names: Sequence[str],
    responses: Sequence[str],
    ids: Sequence[str],
    drop: Sequence[str],
    blocks: dict[str, list[str]],
    *,
    drop_rest: bool,
) -> Choice:
    """Which column of a table is what."""
    from .._blocks import not_a_column, parse_blocks, parse_columns

    for option, wanted in (("--response", responses), ("--id", ids)):
        for name in wanted:
            if name not in names:
                msg = f"{option}: {not_a_column(name, names)}"
                raise ValueError(msg)
    rest = [name for name in names if name not in {*responses, *ids}]
    dropped = {int(c) for pattern in drop for c in parse_columns(pattern, len(rest), rest, what="--drop")}
    rest = [name for c, name in enumerate(rest) if c not in dropped]
    if not rest:
        msg = "no columns are left beside those of --response, --id and --drop"
        raise ValueError(msg)
    if blocks:
        found = parse_blocks({**blocks, "drop": "*"} if drop_rest else blocks, len(rest), rest)
        rest = [rest[c] for c in sorted(int(c) for columns in found.columns for c in columns)]
    return Choice(rest, list(responses), list(ids))


def no_response(names: Sequence[str]) -> str:
    """What to say where no row can be learned from."""
    return f"no row has a value in {', '.join(map(repr, names))}, the response; name another column as --response"


def rows_note(count: int) -> str:
    """What becomes of rows without a response, empty where there are none."""
    if not count:
        return ""
    return f"{count:,} row{'s' * (count > 1)} without a response: embedded, but no part of the fit"


def split_table(frame: Any, choice: Choice) -> Parts:
    """Take a table apart and check that it can be reduced.

    Columns of words become indicators of their levels; gaps stay, also those of the response.
    """
    from ._levels import with_indicators

    X, words = with_indicators(frame[choice.features])
    responses = frame[choice.responses]
    y = responses.iloc[:, 0] if len(choice.responses) == 1 else responses
    refuse_gaps(responses, "in the response", LEAVE_ROWS, missing=False)
    refuse_unfit(X, gaps=True, fitted=False)
    return Parts(X, y, frame[choice.ids], responses, words=words)


def refuse_unfit(X: Any, *, gaps: bool = False, fitted: bool = True) -> None:
    """Refuse columns that a reduction (that is ``fitted``, or else is to be) cannot take; ``gaps``: it can take gaps."""
    if bad := text_columns(X):
        raise ValueError(not_numbers(bad, fitted=fitted))
    refuse_gaps(X, "in X", LEAVE_ROWS if fitted else LEAVE, missing=not gaps)


def text_columns(X: Any) -> dict[str, str]:
    """Columns that hold other than numbers and truth values, and how each is shown: with an example."""
    from pandas import api, to_numeric

    from ..io._text import telling_cell

    examples = {}
    for name, dtype in X.dtypes.items():
        truth = api.types.infer_dtype(X[name], skipna=True) == "boolean"  # objects where there are gaps
        if api.types.is_numeric_dtype(dtype) or truth:
            continue
        odd = X[name][to_numeric(X[name], errors="coerce").isna() & X[name].notna()]
        examples[str(name)] = f"{name!r} (e.g. {telling_cell(odd)[:40]!r})" if len(odd) else repr(name)
    return examples


def not_numbers(examples: Mapping[str, str], *, fitted: bool) -> str:
    """What to say of columns that are not numbers, all of them, with options that can be pasted; a model that is ``fitted`` needs them.

    Examples
    --------
    >>> from colspace.cli._table import not_numbers
    >>> print(not_numbers({"who": "'who' (e.g. 'p0')", "left at": "'left at'"}, fitted=False))
    2 column(s) are not numbers: 'who' (e.g. 'p0'), 'left at'. Leave them out: --drop who --drop 'left at'; or carry them along with --id,
    name one as --response, or give what stands for a gap with --na
    """
    found = f"{len(examples)} column(s) are not numbers: {', '.join(examples.values())}"
    if fitted:
        return f"{found}. The model was fitted on numbers: give these, or what stands for a gap with --na"
    drop = " ".join(f"--drop {shlex.quote(name)}" for name in examples)
    return (
        f"{found}. Leave them out: {drop}; or carry them along with --id, name one as --response, or give what stands for a "
        "gap with --na"
    )


def refuse_gaps(columns: Any, where: str, leave: str, *, missing: bool = True) -> None:
    """Refuse missing and infinite values; all columns that have some are named."""
    import numpy as np

    infinite = columns.select_dtypes("float").apply(np.isinf)
    kinds = [("missing", columns.isna().sum())] if missing else []
    for word, gaps in (*kinds, ("infinite", infinite.sum())):
        found = {str(name): int(count) for name, count in gaps.items() if count}
        if found:
            raise ValueError(gaps_found(word, found, where, leave))


def gaps_found(word: str, found: Mapping[str, int], where: str, leave: str) -> str:
    """What to say of columns with missing or infinite cells, all of them; ``leave``: what else than to fill them.

    Examples
    --------
    >>> from colspace.cli._table import LEAVE_ROWS, gaps_found
    >>> gaps_found("missing", {"end": 3}, "in X", LEAVE_ROWS)
    "missing values in X in 1 column(s): 'end' (3); fill them with colspace impute, or drop those rows"
    """
    shown = ", ".join(f"{name!r} ({count})" for name, count in found.items())
    return f"{word} values {where} in {len(found)} column(s): {shown}; {_FIRST[word]}, {leave}"
