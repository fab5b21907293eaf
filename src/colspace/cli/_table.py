"""From a table and the options to X, y and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parts:
    """The columns that are reduced, the response, and the columns that are carried along."""

    X: Any
    y: Any
    ids: Any
    responses: Any

    def with_embedding(self, estimator: Any) -> Any:
        """Ids, embedding and responses side by side."""
        import numpy as np
        import pandas as pd

        names = list(estimator.get_feature_names_out())
        embedding = pd.DataFrame(np.asarray(estimator.transform(self.X)), index=self.X.index, columns=names)
        both = [c for c in (*self.ids, *self.responses) if c in names]
        if both:
            msg = f"{both[0]!r} is a column of the embedding and of the table; rename that of the table"
            raise ValueError(msg)
        return pd.concat([self.ids, embedding, self.responses], axis=1)


def split_table(
    frame: Any,
    responses: Sequence[str],
    ids: Sequence[str],
    drop: Sequence[str],
    blocks: dict[str, list[str]],
    drop_rest: bool,
    *,
    unlabelled: bool = False,
) -> Parts:
    """Take a table apart and check that it can be reduced; ``unlabelled`` allows gaps in the response."""
    from .._blocks import parse_blocks, parse_columns

    frame.columns = [str(c) for c in frame.columns]
    missing = [name for name in (*responses, *ids) if name not in frame.columns]
    if missing:
        known = ", ".join(map(repr, frame.columns[:8])) + (", ..." if frame.shape[1] > 8 else "")
        msg = f"no column is called {missing[0]!r}. Columns: {known}"
        raise ValueError(msg)
    X = frame.drop(columns=[*responses, *ids])
    names = list(X.columns)
    dropped = {int(c) for pattern in drop for c in parse_columns(pattern, len(names), names, what="--drop")}
    X = X.iloc[:, [c for c in range(len(names)) if c not in dropped]]
    if X.shape[1] == 0:
        msg = "no columns are left beside those of --response, --id and --drop"
        raise ValueError(msg)
    if blocks:
        names = list(X.columns)
        found = parse_blocks({**blocks, "drop": "*"} if drop_rest else blocks, len(names), names)
        X = X.iloc[:, sorted(int(c) for columns in found.columns for c in columns)]
    y = frame[responses[0]] if len(responses) == 1 else frame[list(responses)]
    _refuse_gaps(frame[list(responses)], "in the response", "drop those rows first", missing=not unlabelled)
    refuse_unfit(X)
    return Parts(X, y, frame[list(ids)], frame[list(responses)])


def refuse_unfit(X: Any) -> None:
    """Refuse columns that a reduction cannot take."""
    _refuse_text(X)
    _refuse_gaps(X, "in X", "fill them in, drop those rows, or leave the columns out with --drop")


def _refuse_text(X: Any) -> None:
    import pandas as pd

    bad = [name for name, dtype in X.dtypes.items() if not pd.api.types.is_numeric_dtype(dtype)]
    if not bad:
        return
    examples = []
    for name in bad[:5]:
        odd = X[name][pd.to_numeric(X[name], errors="coerce").isna() & X[name].notna()]
        examples.append(f"{name!r} (e.g. {str(odd.iloc[0])!r})" if len(odd) else repr(name))
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    msg = (
        f"{len(bad)} column(s) are not numbers: {', '.join(examples)}{more}. Leave them out with --drop, carry them "
        "along with --id, or name one as --response"
    )
    raise ValueError(msg)


def _refuse_gaps(columns: Any, where: str, remedy: str, *, missing: bool = True) -> None:
    import numpy as np

    infinite = columns.select_dtypes("float").apply(np.isinf)
    kinds = [("missing", columns.isna().sum())] if missing else []
    for word, gaps in (*kinds, ("infinite", infinite.sum())):
        found = {name: int(count) for name, count in gaps.items() if count}
        if found:
            shown = ", ".join(f"{name!r} ({count})" for name, count in list(found.items())[:8])
            more = f" and {len(found) - 8} more" if len(found) > 8 else ""
            msg = f"{word} values {where} in {len(found)} column(s): {shown}{more}; {remedy}"
            raise ValueError(msg)
