"""How well gaps are filled, on cells that were observed and hidden."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._random import generator

MOST_ROWS = 5_000
_FEWEST = 20  # observed cells of a column, under which none is hidden
_LEVELS = ("binary", "nominal")
_LEFT_OUT = ("constant", "id")


@dataclass(frozen=True)
class ColumnCheck:
    """Hidden cells of one column.

    Attributes
    ----------
    column : str
    kind : str
    cells : int
        How many were hidden.
    error, base : float
        Mean absolute error, and that of the column's median; of levels without numbers the share that is wrong, and that of the
        commonest level.
    cover : float
        Share of the cells inside their intervals; NaN of levels.
    """

    column: str
    kind: str
    cells: int
    error: float
    base: float
    cover: float

    @property
    def ratio(self) -> float:
        """Error over that of the median or the commonest level; below 1 is better."""
        return self.error / self.base if self.base > 0 else float("nan")


@dataclass(frozen=True)
class ImputationCheck:
    """What `check_imputation` found.

    Attributes
    ----------
    rows : list of ColumnCheck
    n_samples : int
        Rows of the table that were used.
    level : float
        Of the intervals.
    """

    rows: list[ColumnCheck]
    n_samples: int
    level: float

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        cells = sum(row.cells for row in self.rows)
        if not cells:
            return f"No cells could be hidden: columns need {_FEWEST} observed cells, and rows another one."
        numbers = [row for row in self.rows if row.kind not in _LEVELS]
        words = [row for row in self.rows if row.kind in _LEVELS]
        said = []
        if numbers:
            count = np.array([row.cells for row in numbers], dtype=float)
            ratio = np.array([row.ratio for row in numbers])
            seen = ~np.isnan(ratio)
            if seen.any():
                mean = 100 * np.average(ratio[seen], weights=count[seen])
                said.append(f"numbers are off by {mean:.0f} % of what their column's median is off")
            inside = [(row.cover, row.cells) for row in numbers if not np.isnan(row.cover)]
            if inside:
                cover = np.average([c for c, _ in inside], weights=[n for _, n in inside])
                said.append(f"{100 * self.level:g} % intervals hold {100 * cover:.0f} %")
        if words:
            count = np.array([row.cells for row in words], dtype=float)
            right = 100 * (1 - np.average([row.error for row in words], weights=count))
            mode = 100 * (1 - np.average([row.base for row in words], weights=count))
            said.append(f"{right:.0f} % of levels are right (the commonest: {mode:.0f} %)")
        return f"Of {cells:,} hidden cells " + ", ".join(said) + "."

    def plain(self) -> dict[str, Any]:
        """Numbers and text, for JSON; what does not exist is None."""
        rows = [{**asdict(row), "ratio": row.ratio} for row in self.rows]
        for row in rows:
            row.update({k: None for k, v in row.items() if isinstance(v, float) and np.isnan(v)})
        return {"sentence": self.sentence, "rows_used": self.n_samples, "level": self.level, "columns": rows}


def check_imputation(
    imputer: Any,
    X: Any,
    *,
    share: float = 0.1,
    level: float = 0.95,
    max_rows: int = MOST_ROWS,
    random_state: Any = 0,
) -> ImputationCheck:
    """Hide observed cells, fit the imputer again without them, and compare what it fills in with what was there.

    Parameters
    ----------
    imputer : CopulaImputer
        Its settings are used; it is not changed.
    X : DataFrame of pandas, or array
        Table with gaps.
    share : float
        Of the observed cells, to hide; columns with fewer than 20 keep all, and every row keeps one.
    level : float
        Probability of the intervals that are checked.
    max_rows : int
        Of more rows a sample is used.
    random_state : int, Generator or None

    Returns
    -------
    ImputationCheck

    Examples
    --------
    >>> from colspace import CopulaImputer, check_imputation
    >>> from colspace.datasets import make_copula
    >>> X, _, _ = make_copula(300, 8, 2, rng=0)
    >>> found = check_imputation(CopulaImputer(2, random_state=0), X)
    >>> bool(sum(row.error for row in found.rows) < 0.9 * sum(row.base for row in found.rows))
    True
    """
    if not 0 < share < 1:
        msg = f"share={share!r} must lie between 0 and 1, e.g. 0.1"
        raise ValueError(msg)
    rng = generator(random_state)
    frame = _sample(X, max_rows, rng)
    hidden = hide(frame.notna().to_numpy(), share, rng)
    model = clone(imputer).set_params(verbose=False)
    if not hidden.any():
        return ImputationCheck([], len(frame), level)
    holes = frame.mask(hidden)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to the whole table has given them
        model.fit(holes)
        filled = model.transform(holes)
        lower, upper = model.interval(holes, level)
    rows = []
    for j, (name, kind) in enumerate(zip(frame, model.kinds_, strict=True)):
        if hidden[:, j].any() and kind not in _LEFT_OUT:
            columns = (table.iloc[:, j] for table in (frame, filled, lower, upper))
            rows.append(_column(str(name), kind, hidden[:, j], *columns))
    return ImputationCheck(rows, len(frame), level)


def _sample(X: Any, most: int, rng: np.random.Generator) -> Any:
    """The table as a DataFrame, of many rows some."""
    import pandas as pd

    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    if len(frame) > most:
        frame = frame.iloc[np.sort(rng.choice(len(frame), most, replace=False))]
    return frame.reset_index(drop=True)


def hide(there: NDArray[np.bool_], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Observed cells to hide: a share of each column with enough of them, never all of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.quality._imputation import hide
    >>> there = np.ones((40, 3), dtype=bool)
    >>> hide(there, 0.1, np.random.default_rng(0)).sum(axis=0)
    array([4, 4, 4])
    """
    draw = np.where(there, rng.random(there.shape), np.inf)
    count = there.sum(axis=0)
    wanted = np.where(count >= _FEWEST, np.rint(share * count).astype(int), 0)
    order = draw.argsort(axis=0).argsort(axis=0)
    hidden = there & (order < wanted)
    bare = ~(there & ~hidden).any(axis=1)
    first = np.where(hidden, draw, -np.inf).argmax(axis=1)
    hidden[bare, first[bare]] = False
    return np.asarray(hidden)


def _column(name: str, kind: str, hidden: Any, true: Any, filled: Any, lower: Any, upper: Any) -> ColumnCheck:
    from pandas.api import types

    seen, truth, found = true[~hidden].dropna(), true[hidden], filled[hidden]
    number = types.is_numeric_dtype(true) or true.dtype.kind in "Mm"
    cells = int(hidden.sum())
    if kind in _LEVELS or not number:
        commonest = seen.mode().iloc[0]
        wrong = float((truth.astype(object) != found.astype(object)).mean())
        kind = kind if kind in _LEVELS else "nominal"
        return ColumnCheck(name, kind, cells, wrong, float((truth != commonest).mean()), float("nan"))
    t, f, s, low, high = (floats(c) for c in (truth, found, seen, lower[hidden], upper[hidden]))
    inside = float(((t >= low) & (t <= high)).mean()) if kind != "ordinal" else float("nan")
    return ColumnCheck(
        name, kind, cells, float(np.abs(f - t).mean()), float(np.abs(np.median(s) - t).mean()), inside
    )


def floats(column: Any) -> NDArray[np.float64]:
    """Numbers; dates in some unit."""
    unit = {"M": "M8[us]", "m": "m8[us]"}.get(column.dtype.kind)
    return np.asarray(column.to_numpy(dtype=float) if unit is None else column.to_numpy(unit).astype(float))
