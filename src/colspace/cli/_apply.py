"""Saved models on new tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any


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
        shown = []
        for name in missing:
            near = get_close_matches(name, there, 1)
            shown.append(repr(name) + (f" (is it {near[0]!r}?)" if near else ""))
        msg = (
            f"{len(missing)} of the {len(wanted)} columns of the fit are not in the table: {', '.join(shown)}"
        )
        raise ValueError(msg)
    return list(wanted)


def _read(header: Mapping[str, Any], table: str, ids: Sequence[str], encoding: str | None) -> tuple[Any, Any]:
    """The model's columns and those of --id."""
    from ..io import read_table

    texts = header["about"].get("texts", [])
    frame = read_table(table, text=[*ids, *texts], encoding=encoding)
    frame.columns = [str(name) for name in frame.columns]
    names = [name for name in frame.columns if name not in ids]
    match_columns(list(frame.columns), list(ids), None)
    return frame[match_columns(names, header["columns"], header["n_features"])], frame[list(ids)]


def _beside(ids: Any, found: Mapping[str, Any]) -> Any:
    """--id columns and new ones side by side."""
    both = [name for name in ids if name in found]
    if both:
        msg = f"{both[0]!r} is a column of the result and of --id; rename that of the table"
        raise ValueError(msg)
    return ids.assign(**found)


def embed(model: Any, header: Mapping[str, Any], table: str, ids: Sequence[str], encoding: str | None) -> Any:
    """Ids and embedding."""
    import numpy as np

    from ._table import refuse_unfit

    X, kept = _read(header, table, ids, encoding)
    refuse_unfit(X)
    embedding = np.asarray(model.transform(X if header["columns"] is not None else X.to_numpy()))
    return _beside(kept, dict(zip(model.get_feature_names_out(), embedding.T, strict=True)))


def predict(
    model: Any, header: Mapping[str, Any], table: str, ids: Sequence[str], encoding: str | None
) -> Any:
    """Ids, prediction, and for labels the probability of each."""
    X, kept = _read(header, table, ids, encoding)
    X = X if header["columns"] is not None else X.to_numpy()
    name = str(header["about"].get("label", "prediction"))
    found = {name: model.predict(X)}
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(X)
        found |= {f"p_{label}": chances[:, k] for k, label in enumerate(model.classes_)}
    return _beside(kept, found)


def fill(
    model: Any,
    table: str,
    ids: Sequence[str],
    targets: Sequence[str],
    *,
    intervals: bool,
    level: float,
    draws: int | None,
    seed: int,
    encoding: str | None,
) -> list[Any]:
    """The filled table, with intervals, or draws of it; cells that are there stay as they are written."""
    from ..copula._checks import check_share
    from ._cells import read_cells

    check_share("level", level)
    cells = read_cells(table, encoding)
    names = [name for name in cells.values if name not in ids]
    match_columns(list(cells.values), list(ids), None)
    wanted = getattr(model, "feature_names_in_", None)
    columns = match_columns(names, None if wanted is None else [str(n) for n in wanted], model.n_features_in_)
    cells = cells.without([name for name in names if name not in columns]).as_numbers(columns, [])
    X = cells.values[columns]
    as_text = not str(targets[0]).lower().endswith((".parquet", ".pq"))
    given = X if wanted is not None else X.to_numpy()
    if draws is not None:
        return [
            cells.filled(_framed(drawn, X), as_text=as_text)
            for drawn in model.sample(given, draws, random_state=seed)
        ]
    filled = cells.filled(_framed(model.transform(given), X), as_text=as_text)
    if intervals:
        ends = dict(zip(("lower", "upper"), model.interval(given, level), strict=True))
        for name in [name for name in X if X[name].isna().any()]:
            for end, bound in ends.items():
                filled[f"{name}__{end}"] = cells.column(name, _framed(bound, X)[name], as_text=as_text)
    return [filled]


def _framed(values: Any, like: Any) -> Any:
    return (
        values if hasattr(values, "columns") else type(like)(values, index=like.index, columns=like.columns)
    )


def partners(model: Any, header: Mapping[str, Any], table: str, top: int, encoding: str | None) -> Any:
    """The best partners of new left entities, whose ids are in the first column."""
    from ..io._source import open_source
    from ._pairs_tables import entities

    A = entities(open_source(table), "TABLE", encoding)
    wanted = header["about"].get("left_columns")
    return model.rank(A[match_columns(list(A.columns), wanted, header["n_features"])], k=top)
