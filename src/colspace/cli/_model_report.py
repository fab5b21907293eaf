"""Pages of saved models, with new rows or without."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ._apply import Rows, kind_of, left_entities, read_gaps
from ._python import model_code

_TOP = 10  # partners of each entity


def report_of(model: Any, rows: Rows, name: str) -> Any:
    """The page of a model; ``rows.tables`` may be none."""
    about = rows.about
    source = ", ".join(rows.tables) if rows.tables else str(about.get("table", name))
    shared = {
        "source": source,
        "facts": _facts(about, name),
        "notes": [str(text) for text in about.get("warnings", [])],
        "command": str(about.get("line", "")),
    }
    kind = kind_of(model)
    _refuse_others(model, name)
    columns = [str(column) for column in rows.header["columns"] or ()] if kind == "reducer" else []
    code: Callable[..., str] = partial(model_code, name, rows.tables, kind, ids=rows.ids, columns=columns)
    renamed = len(rows.tables) > 1 and any(told["renamed"] for told in about.get("tables", []))
    if rows.marks or renamed or (kind == "pairs" and _of_words(rows)):
        code = _no_code
    shared["python"] = code()
    if kind == "imputer":
        return _imputer(model, rows, shared, code)
    if kind == "pairs":
        return _pairs(model, rows, shared)
    if kind == "reducer":
        return _reducer(model, rows, shared)
    return _dictionary(model, rows, shared)


def _no_code(**_: Any) -> str:
    """What the table is read with has no short Python."""
    return ""


def _of_words(rows: Rows) -> bool:
    """Whether columns of the model are indicators, which tables do not have as they are."""
    columns = rows.about.get("left_columns", rows.header["columns"])
    return any("=" in name for name in columns or ())


def _refuse_others(model: Any, name: str) -> None:
    """Refuse models of other libraries, and pipelines but those of ``colspace atoms``."""
    steps = getattr(model, "steps", [("", model)])
    first, last = steps[0][1], steps[-1][1]
    encoded = len(steps) == 1 or "atoms" in getattr(first, "named_transformers_", {})
    if not encoded or not type(last).__module__.startswith("colspace."):
        what = type(model).__name__ if encoded else f"pipeline that ends in {type(last).__name__}"
        msg = f"{name} is a {what}; a page is of one estimator of colspace: save that one, without steps before it"
        raise ValueError(msg)


def _facts(about: Mapping[str, Any], name: str) -> dict[str, Any]:
    told = {"model": name, "fitted on": about.get("table"), "rows of the fit": about.get("rows")}
    told["response taken as"] = about.get("response_taken_as")
    told["seed"] = about.get("seed")
    return {key: value for key, value in told.items() if value is not None}


def _reducer(model: Any, rows: Rows, shared: dict[str, Any]) -> Any:
    from ..report._reduction import reduction_report
    from ._gaps import filled, takes_gaps
    from ._table import refuse_unfit

    about, holey = rows.about, takes_gaps(model)
    X, y = None, None
    if rows.tables:
        X, others = rows.read(more=about.get("responses", []))
        refuse_unfit(X, gaps=holey)
        X = filled(model, X) if holey else X
        there = [name for name in about.get("responses", []) if name in others]
        if there and others[there].notna().all(axis=None):
            y = others[there[0]] if len(there) == 1 else others[there]
    return reduction_report(
        model.reducer_ if holey else model,
        X,
        y,
        quality=about.get("quality"),
        rank_test=about.get("rank_test"),
        seed=int(about.get("seed", 0)),
        **shared,
    )


def _imputer(model: Any, rows: Rows, shared: dict[str, Any], code: Callable[..., str]) -> Any:
    from ..report._imputation import imputation_report
    from ._filled import summary_of

    quality = rows.about.get("hidden_cells")
    if not rows.tables:
        return imputation_report(model, quality=quality, **shared)
    X = read_gaps(model, rows)[1]
    shared["python"] = code(dates=[name for name in X if X[name].dtype.kind == "M"])
    level = 0.95 if quality is None else float(quality["level"])
    lower, upper = model.interval(X, level)
    summary = summary_of(model, X, X, lower, upper, level)
    return imputation_report(
        model,
        X,
        summary=summary,
        filled=model.transform(X),
        lower=lower,
        upper=upper,
        quality=quality,
        **shared,
    )


def _dictionary(model: Any, rows: Rows, shared: dict[str, Any]) -> Any:
    from ..report._atoms import NEW_ROWS, atoms_report
    from ._atoms_fit import encoded_names, scores_of

    about = rows.about
    label = str(about.get("label", "y"))
    scores, held_out = about.get("scores"), int(about.get("held_out", 0))
    encoder, atoms, names, worded = None, model, None, False
    if hasattr(model, "steps"):
        encoder, atoms = model[:-1], model.steps[-1][1]
        first, more = encoded_names(model.steps[0][1])
        names, worded = [*first, *more], bool(about.get("texts"))
    frame = X = None
    if rows.tables:
        frame, others = rows.read(more=[label])
        X = frame if encoder is None else encoder.transform(frame)
        y = None
        if label in others and hasattr(model, "predict_proba") and others[label].notna().all():
            y = _known(others[label], model.classes_)
        if y is not None:
            found = scores_of(y, model.predict(frame), model.predict_proba(frame), model.classes_)
            name = f"{NEW_ROWS}{len(y):,} rows"
            scores, held_out = {**(scores or {}), name: found}, held_out if scores else len(y)
    return atoms_report(
        atoms,
        X,
        frame,
        label=label,
        names=names,
        words=worded,
        scores=scores,
        held_out=held_out,
        rows=about.get("fitted"),
        **shared,
    )


def _known(column: Any, classes: Any) -> Any:
    """Labels of new rows as those of the fit; None, and a warning, where one is not among them."""
    try:
        y = column.astype(
            str if classes.dtype.kind == "U" else classes.dtype
        ).to_numpy()  # <U3 would cut words
    except ValueError:  # words in the place of numbers
        y = column.to_numpy()
    seen = set(classes)
    new = [repr(value) for value in dict.fromkeys(y.tolist()) if value not in seen]
    if new:
        warnings.warn(
            f"{column.name!r} has {len(new)} label(s) that the fit has not seen, so these rows are not scored: {', '.join(new[:5])}",
            stacklevel=2,
        )
    return None if new else y


def _pairs(model: Any, rows: Rows, shared: dict[str, Any]) -> Any:
    import pandas as pd

    from ..report._partners import partners_report
    from ._pairs_say import settings_of

    about = rows.about
    wanted = left_entities(rows) if rows.tables else None
    quality = about.get("held_out")
    return partners_report(
        model,
        model.rank(wanted, k=min(_TOP, model.Y_.shape[1])),
        shape=model.Y_.shape,
        links=int(model.Y_.nnz),
        settings=settings_of(model),
        tables={rows.tables[0]: wanted} if rows.tables else None,
        wanted=wanted,
        quality=pd.DataFrame(quality) if quality else None,
        at=about.get("recall_at"),
        **shared,
    )
