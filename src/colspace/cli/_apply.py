"""Saved models on new tables."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._atoms_fit import beside
from ._gaps import takes_gaps
from ._join import read_tables
from ._levels import indicators_among, indicators_of, lacking, unlike


def kind_of(model: Any) -> str:
    """What a fitted model does with new rows.

    Examples
    --------
    >>> from colspace import CopulaImputer, JointReduction
    >>> from colspace.cli._apply import kind_of
    >>> kind_of(CopulaImputer()), kind_of(JointReduction(1))
    ('imputer', 'reducer')
    """
    for method, kind in (
        ("interval", "imputer"),
        ("rank", "pairs"),
        ("predict_proba", "classifier"),
        ("predict", "regressor"),
    ):
        if hasattr(type(model), method) and (kind in ("imputer", "pairs") or hasattr(model, method)):
            return kind
    if hasattr(model, "transform"):
        return "reducer"
    msg = f"{type(model).__name__} has neither transform nor predict; apply takes reducers, imputers, dictionaries and pairs"
    raise TypeError(msg)


def match_columns(there: Sequence[str], wanted: Sequence[str] | None, count: int | None) -> list[str]:
    """The columns of the fit among those of a table; all that are missing are named, with the nearest.

    Examples
    --------
    >>> from colspace.cli._apply import match_columns
    >>> match_columns(["b", "a", "z"], ["a", "b"], 2)
    ['a', 'b']
    """
    if wanted is None:
        if count is not None and len(there) != count:
            msg = f"the model was fitted on {count} columns without names and the table has {len(there)}; carry others along with --id"
            raise ValueError(msg)
        return list(there)
    missing = [name for name in wanted if name not in set(there)]
    if missing:
        free = unlike(there, wanted)
        shown = [lacking(name, free) for name in missing]
        msg = f"{len(missing)} of the {len(wanted)} columns of the fit are not in the table: {', '.join(dict.fromkeys(shown))}"
        raise ValueError(msg)
    return list(wanted)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@dataclass(frozen=True)
class Rows:
    """New rows for a model: its file's header, the tables, and how they are read."""

    header: Mapping[str, Any]
    tables: Sequence[str]
    ids: Sequence[str] = ()
    marks: Sequence[str] = ()
    encoding: str | None = None
    remembered: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        header: Mapping[str, Any],
        tables: Sequence[str],
        ids: Sequence[str],
        marks: Sequence[str],
        encoding: str | None,
    ) -> Rows:
        """Rows whose gaps are also what --na named at the fit, which a note says."""
        from ._say import note

        known = header["about"].get("gap_marks", [])
        if not _is_texts(known):
            msg = f"the model's header has gap_marks {str(known)[:40]!r}, which colspace does not write"
            raise ValueError(msg)
        more = [mark for mark in known if mark not in marks]
        if more and tables:
            note(f"cells that are {', '.join(more)} are gaps, as at the fit (--na)")
        return cls(header, tables, ids, [*marks, *more], encoding, more)

    def hush(self) -> None:
        """Say nothing of marks that no cell is, where the fit gave them."""
        for mark in self.remembered:
            warnings.filterwarnings("ignore", f"--na {re.escape(mark)} is in no cell")

    @property
    def about(self) -> Mapping[str, Any]:
        """What the model says of its fit; what reading the tables rests on is checked."""
        about = dict(self.header["about"])
        for name in ("texts", "left_columns", "responses", "warnings"):
            if name in about and not _is_texts(about[name]):
                msg = (
                    f"the model's header has {name} {str(about[name])[:40]!r}, which colspace does not write"
                )
                raise ValueError(msg)
        told = about.get("tables", [])
        if not isinstance(told, list) or not all(
            isinstance(t, dict) and isinstance(t.get("name"), str) and isinstance(t.get("renamed"), dict)
            for t in told
        ):
            msg = f"the model's header has tables {str(told)[:40]!r}, which colspace does not write"
            raise ValueError(msg)
        names = about.get("names", {})
        if not isinstance(names, dict) or not _is_texts(list(names.values())):
            msg = f"the model's header has names {str(names)[:40]!r}, which colspace does not write"
            raise ValueError(msg)
        return about

    def read(self, more: Sequence[str] = ()) -> tuple[Any, Any]:
        """The model's columns, and those of --id and of ``more`` that are there."""
        about = self.about
        joined = read_tables(
            self.tables,
            self.ids,
            self.marks,
            self.encoding,
            texts=about.get("texts", []),
            told=about.get("tables", []),
        )
        wanted = self.header["columns"]
        frame = indicators_of(joined.frame, wanted or ())
        names = list(frame.columns)
        match_columns(names, list(self.ids), None)
        kept = [*self.ids, *(name for name in more if name in names and name not in (wanted or ()))]
        columns = match_columns([n for n in names if n not in kept], wanted, self.header["n_features"])
        return frame[columns], frame[list(dict.fromkeys(kept))]


def embed_large(model: Any, rows: Rows, target: str) -> int | None:
    """Write the embedding of a large table chunk by chunk: how many rows; None where the table is to be read at once."""
    from ..io._files import is_stream
    from ..io._source import open_sources
    from ..io._stream import open_stream, write_chunks
    from ..io._tables import check_encoding
    from ._say import step
    from ._table import Choice

    wanted = rows.header["columns"]
    if len(rows.tables) > 1 or rows.tables[0] == "-" or is_stream(rows.tables[0]) or wanted is None:
        return None
    sources = open_sources(rows.tables[0])
    check_encoding(sources, rows.encoding)
    stream = open_stream(sources, rows.marks, rows.encoding)
    if stream is None or any(indicators_among(wanted, stream.names)):
        return None
    if _numbers(model, wanted) != wanted:  # words, which chunks of numbers do not have
        return None
    from ._chunks import Streamed

    match_columns(stream.names, list(rows.ids), None)
    features = match_columns([n for n in stream.names if n not in rows.ids], wanted, len(wanted))
    data = Streamed(stream, Choice(features, [], list(rows.ids)), False, 0)
    with step("embedding", stream.rows) as advance:
        return write_chunks(data.embedding(model, advance), target)


def embed(model: Any, rows: Rows) -> Any:
    """Ids and embedding."""
    import numpy as np

    from ._table import refuse_unfit

    X, kept = rows.read()
    refuse_unfit(X[_numbers(model, list(X))], gaps=takes_gaps(model))
    embedding = np.asarray(model.transform(X if rows.header["columns"] is not None else X.to_numpy()))
    return beside(kept, dict(zip(model.get_feature_names_out(), embedding.T, strict=True)))


def predict(model: Any, rows: Rows) -> Any:
    """Ids, prediction, and for labels the probability of each."""
    from ._table import refuse_unfit

    X, kept = rows.read()
    refuse_unfit(X[_numbers(model, list(X))])
    X = X if rows.header["columns"] is not None else X.to_numpy()
    name, guess = str(rows.about.get("label", "prediction")), model.predict(X)
    found = {name: guess} if guess.ndim == 1 else {f"{name}{k}": column for k, column in enumerate(guess.T)}
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(X)
        found |= {f"p_{label}": chances[:, k] for k, label in enumerate(model.classes_)}
    return beside(kept, found)


def _numbers(model: Any, columns: list[str]) -> list[str]:
    """Columns that must be numbers: all of them, or those that an encoder takes as such; one made elsewhere sees to its own."""
    encoder: Any = model.steps[0][1] if hasattr(model, "steps") else None
    if not hasattr(encoder, "transformers_"):
        return columns
    parts = {name: list(used) for name, _, used in encoder.transformers_}
    if "atoms" not in parts:
        return []
    worded = hasattr(encoder.named_transformers_["atoms"][-1], "vocabulary_")
    return [*([] if worded else parts["atoms"]), *parts.get("numbers", [])]


def read_gaps(model: Any, rows: Rows) -> tuple[Any, Any]:
    """Cells as they are written, and the imputer's columns as values with gaps."""
    from ._cells import join_cells

    _, cells = join_cells(rows.tables, rows.ids, rows.encoding, told=rows.about.get("tables", []))
    names = [name for name in cells.values if name not in rows.ids]
    match_columns(list(cells.values), list(rows.ids), None)
    wanted = getattr(model, "feature_names_in_", None)
    columns = match_columns(names, None if wanted is None else [str(n) for n in wanted], model.n_features_in_)
    cells = cells.without([name for name in names if name not in columns])
    if rows.marks:
        cells = cells.with_gaps(rows.marks, columns)
    cells = cells.as_numbers(columns, [])
    return cells, cells.values[columns]


def fill(model: Any, rows: Rows, targets: Sequence[str], asked: Any) -> list[Any]:
    """The filled table, with the intervals or draws that are asked for; cells that are there stay as they are written."""
    from ..copula._checks import check_share
    from ._cells import as_written

    check_share("level", asked.level)
    cells, X = read_gaps(model, rows)
    wanted = getattr(model, "feature_names_in_", None)
    as_text = as_written(targets[0])
    given = X if wanted is not None else X.to_numpy()
    if asked.draws is not None:
        return [
            cells.filled(_framed(drawn, X), as_text=as_text)
            for drawn in model.sample(given, asked.draws, random_state=asked.seed)
        ]
    bounds = {}
    if asked.intervals:
        kinds = zip(X, model.kinds_, strict=True)
        gaps = [name for name, kind in kinds if kind != "id" and X[name].isna().any()]
        cells.refuse_ends(gaps)
        lower, upper = (_framed(end, X) for end in model.interval(given, asked.level))
        bounds = {name: (lower[name], upper[name]) for name in gaps}
    return [cells.filled(_framed(model.transform(given), X), bounds, as_text=as_text)]


def _framed(values: Any, like: Any) -> Any:
    return (
        values if hasattr(values, "columns") else type(like)(values, index=like.index, columns=like.columns)
    )


def partners(model: Any, rows: Rows, top: int) -> Any:
    """The best partners of new left entities."""
    from ._say import note

    count, names = model.Y_.shape[1], rows.about.get("names", {})
    if top > count:
        note(f"--top {top} is more than the {count} right entities; all of them are ranked")
    ranked = model.rank(left_entities(rows), k=min(top, count))
    return ranked.rename(columns={side: names[side] for side in ("left", "right") if side in names})


def left_entities(rows: Rows) -> Any:
    """Features of new left entities, as the fit had them."""
    from ._pairs_tables import entities, open_tables, refuse_text

    if len(rows.tables) > 1:
        msg = f"{len(rows.tables)} tables are given, and partners are ranked for the entities of one"
        raise ValueError(msg)
    given = open_tables({"TABLE": rows.tables[0]}, rows.ids, rows.marks, rows.encoding)
    wanted = rows.about.get("left_columns")
    A = indicators_of(entities(given["TABLE"]), wanted or ())
    return refuse_text(rows.tables[0], A[match_columns(list(A.columns), wanted, rows.header["n_features"])])
