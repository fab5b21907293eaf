"""From a table and the options of ``colspace atoms`` to the columns that it needs, and a split of its rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._table import LEAVE, refuse_gaps, text_columns

_MOST_CLASSES = 100


@dataclass(frozen=True)
class Task:
    """The columns of the dictionary (numbers, or texts), covariates, and the labels; the table is as it was read."""

    frame: Any
    label: str
    y: Any
    texts: list[str]
    features: list[str]
    numbers: list[str]
    categories: list[str]
    ids: list[str] = field(default_factory=list)

    @property
    def used(self) -> list[str]:
        """Columns that the model reads."""
        return [*(self.texts or self.features), *self.numbers, *self.categories]


def make_task(
    frame: Any,
    label: str,
    texts: Sequence[str],
    covariates: Sequence[str],
    drop: Sequence[str],
    ids: Sequence[str] = (),
) -> Task:
    """Take a table apart and check that atoms can be learned from it."""
    from .._blocks import not_a_column, parse_columns

    frame.columns = [str(c) for c in frame.columns]
    names = list(frame.columns)
    for option, given in (("--label", [label]), ("--text", texts), ("--id", ids)):
        for name in given:
            if name not in names:
                msg = f"{option}: {not_a_column(name, names)}"
                raise ValueError(msg)
    chosen: list[str] = []
    for text in covariates:
        parts = [text] if text in names else [part.strip() for part in text.split(",")]
        for part in parts:
            chosen += [names[j] for j in parse_columns(part, len(names), names, what="--covariates")]
    dropped = {names[j] for pattern in drop for j in parse_columns(pattern, len(names), names, what="--drop")}
    _check_once(label, texts, chosen, dropped, ids)
    y = _labels(frame[label], label)
    numbers, categories = _covariates(frame, chosen)
    rest = [name for name in names if name not in {label, *texts, *chosen, *dropped, *ids}]
    if texts:
        _check_texts(frame, texts)
        if rest:
            shown = ", ".join(map(repr, rest))
            warnings.warn(f"columns not used (name them in --covariates to use them): {shown}", stacklevel=2)
        return Task(frame, label, y, list(texts), [], numbers, categories, list(ids))
    if not rest:
        msg = "no columns are left for the atoms beside those of --label, --covariates, --id and --drop"
        raise ValueError(msg)
    _refuse_text(frame[rest])
    refuse_gaps(frame[rest], "in X", LEAVE)
    return Task(frame, label, y, [], rest, numbers, categories, list(ids))


def _check_once(
    label: str, texts: Sequence[str], covariates: Sequence[str], dropped: set[str], ids: Sequence[str]
) -> None:
    uses = [("--label", label), *(("--text", name) for name in texts), *(("--id", name) for name in ids)]
    uses += [("--covariates", name) for name in covariates] + [("--drop", name) for name in sorted(dropped)]
    seen: dict[str, str] = {}
    for option, name in uses:
        if name in seen:
            both = f"by {option} twice" if seen[name] == option else f"by {seen[name]} and by {option}"
            msg = f"column {name!r} is named {both}; name it once"
            raise ValueError(msg)
        seen[name] = option


def _labels(column: Any, name: str) -> Any:
    from sklearn.utils.multiclass import type_of_target

    gaps = int(column.isna().sum())
    if gaps:
        msg = f"--label {name}: {gaps} of {len(column)} labels are missing; drop those rows first"
        raise ValueError(msg)
    values = column.to_numpy(dtype=object) if column.dtype.kind not in "biuf" else column.to_numpy()
    if values.dtype == object:
        values = np.array([str(v) for v in values])
    counts = column.value_counts()
    if type_of_target(values) == "continuous" or len(counts) > _MOST_CLASSES:
        msg = (
            f"--label {name} has {len(counts)} distinct values and looks like a number to be predicted, but labels are "
            "classes; cut it into classes, or use SupervisedDictionaryRegressor in Python"
        )
        raise ValueError(msg)
    if len(counts) < 2:
        msg = f"--label {name} has one class, {counts.index[0]!r}; two or more are needed"
        raise ValueError(msg)
    return values


def _covariates(frame: Any, chosen: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names of covariates that are numbers (truth values too) and of those that are categories."""
    import pandas as pd

    numbers, categories = [], []
    for name in chosen:
        column = frame[name]
        if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
            numbers.append(name)
            continue
        gaps = int(column.isna().sum())
        if gaps:
            warnings.warn(
                f"covariate {name!r}: {gaps} empty cells are a level of their own, 'missing'", stacklevel=3
            )
        categories.append(name)
    refuse_gaps(frame[numbers], "in --covariates", "drop those rows, or leave the covariates out")
    return numbers, categories


def _check_texts(frame: Any, texts: Sequence[str]) -> None:
    import pandas as pd

    for name in texts:
        filled = frame[name].dropna()
        if len(filled) and pd.to_numeric(filled, errors="coerce").notna().all():
            msg = f"--text {name} holds numbers; name a column of text"
            raise ValueError(msg)
    joined = join_texts(frame[list(texts)])
    empty = int((joined.str.strip() == "").sum())
    if empty == len(joined):
        msg = f"--text {', '.join(texts)}: all {empty} texts are empty; name a column of text"
        raise ValueError(msg)
    if empty:
        warnings.warn(f"{empty} of {len(joined)} texts are empty", stacklevel=3)


# What follows is part of the saved pipeline, so that new rows are read as those of the fit were.


def join_texts(frame: Any) -> Any:
    """The texts of each row side by side, empty cells as empty text.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._atoms_table import join_texts
    >>> join_texts(pd.DataFrame({"title": ["a", None], "body": ["b", "c"]})).tolist()
    ['a b', ' c']
    """
    columns = [frame[name].astype(object).where(frame[name].notna(), "").astype(str) for name in frame]
    joined = columns[0]
    for column in columns[1:]:
        joined = joined + " " + column
    return joined


def as_levels(frame: Any) -> Any:
    """Cells as text, an empty one as the level "missing", a whole number without a point.

    Examples
    --------
    >>> import pandas as pd
    >>> from colspace.cli._atoms_table import as_levels
    >>> as_levels(pd.DataFrame({"town": ["Rome", None], "code": [7.0, None]})).to_numpy().tolist()
    [['Rome', '7'], ['missing', 'missing']]
    """
    import pandas as pd

    new = {}
    for name in frame:
        column = frame[name]
        if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():  # numbers of a column that has gaps
            column = column.astype("Int64")
        new[name] = column.astype(object).where(column.notna(), "missing").astype(str)
    return pd.DataFrame(new, index=frame.index)


def as_numbers(frame: Any) -> Any:
    """Numbers and truth values as floats."""
    return frame.astype(float)


def _refuse_text(X: Any) -> None:
    bad = text_columns(X)
    if bad:
        msg = (
            f"{len(bad)} column(s) are not numbers: {', '.join(bad.values())}. Name one as --text for topics, name them in --covariates, "
            "carry them along with --id, or leave them out with --drop"
        )
        raise ValueError(msg)


# ---------------------------------------------------------------------- rows


def split_rows(task: Task, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit and rows held out, stratified by label; rows with equal text stay together."""
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(task.y))
    if share == 0:
        return rows, rows[:0]
    groups = _groups(join_texts(task.frame[task.texts])) if task.texts else rows
    _, first = np.unique(groups, return_index=True)
    labels, counts = np.unique(task.y[first], return_counts=True)
    what = "distinct text" if task.texts else "row"
    if counts.min() < 2:
        msg = f"class {labels[counts.argmin()]} has one {what}, which cannot be both fitted and held out; use --test 0"
        raise ValueError(msg)
    held = round(share * len(first))
    if not len(labels) <= held <= len(first) - len(labels):
        msg = (
            f"--test {share:g} holds out {held} of {len(first)} {what}s, but {len(labels)} classes must be in both parts; "
            "choose another share, or --test 0 to fit all rows"
        )
        raise ValueError(msg)
    _, test = train_test_split(groups[first], test_size=held, stratify=task.y[first], random_state=seed)
    out = np.isin(groups, test)
    lost = np.setdiff1d(task.y, task.y[~out])
    if lost.size:
        msg = f"class {lost[0]} has only texts that other classes have too, and all are held out; try another --seed"
        raise ValueError(msg)
    return rows[~out], rows[out]


def _groups(texts: Any) -> NDArray[np.intp]:
    """A number for each distinct text, whatever its case and white space."""
    import pandas as pd

    plain = pd.Series([" ".join(text.lower().split()) for text in texts])
    return np.asarray(pd.factorize(plain)[0], dtype=np.intp)


def check_image(task: Task, image_shape: tuple[int, int] | None) -> None:
    """Refuse a shape that the columns do not have."""
    if image_shape is not None and image_shape[0] * image_shape[1] != len(task.features):
        height, width = image_shape
        msg = (
            f"--image-shape {height}x{width} has {height * width} pixels, but {len(task.features)} columns are left for the "
            "atoms; name others in --covariates or --drop"
        )
        raise ValueError(msg)
