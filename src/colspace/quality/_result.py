"""The outcome of a comparison: rows, a table of text, and one sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

ALL, NONE = "all columns", "no columns"
LEVEL = 0.05
_LARGE = 0.2  # R2 that noise hardly reaches
_DIGITS = 3  # of scores in words


@dataclass(frozen=True)
class ReductionScore:
    """One row of a comparison.

    Attributes
    ----------
    method : str
    n_components : int or None
        Directions per block; None where nothing is reduced to a chosen number.
    n_columns : int
        Columns that the reader sees.
    score, error : float
        Mean over folds of the best reader's score on rows left out, and its standard error.
    difference, difference_error : float
        Score minus that of the first method with as many directions (or the number that serves it best), paired by folds.
    reader : str
        The best reader.
    seconds : float
        CPU seconds of one fit; those of joint reduction for further numbers of directions leave out what they share.
    folds : tuple of float
        Score in each fold.
    failed : str or None
        Why there is no score.
    """

    method: str
    n_components: int | None
    n_columns: int
    score: float
    error: float
    difference: float
    difference_error: float
    reader: str
    seconds: float
    folds: tuple[float, ...]
    failed: str | None = None


def standard_error(values: Array) -> float:
    """Standard error of a mean; NaN of a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def cross_chosen(scores: Array) -> NDArray[np.intp]:
    """For each fold (row) the column that is best on the other folds: a choice that has not seen the fold.

    Examples
    --------
    >>> import numpy as np
    >>> cross_chosen(np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    array([1, 0, 0])
    """
    total = np.where(np.isnan(scores).any(axis=0), -np.inf, scores.sum(axis=0))
    return np.array([np.argmax(total - np.nan_to_num(row)) for row in scores])


def is_above(gain: Array, weights: Array | None, level: float) -> bool:
    """One-sided t test that the mean gain of rows is positive.

    Examples
    --------
    >>> import numpy as np
    >>> [is_above(np.array([1.0, 1.0, 1.0, 0.5]) - c, None, 0.05) for c in (0.0, 0.8)]
    [True, False]
    """
    w = np.ones(len(gain)) if weights is None else weights
    w = w / w.sum()
    mean = float(w @ gain)
    error = float(np.sqrt(np.sum(w**2 * (gain - mean) ** 2)))
    return len(gain) > 1 and bool(mean > max(1e-12, stats.t.ppf(1 - level, len(gain) - 1) * error))


@dataclass(frozen=True)
class ReductionComparison:
    """Scores of several reductions on rows left out, and what they say.

    Attributes
    ----------
    rows : tuple of ReductionScore
    metric : str
        "R2", "accuracy" or "balanced accuracy".
    n_samples, n_features, n_folds : int
    above_chance : dict of str to bool
        Whether each method reads y better than no columns do: t test over the rows left out at level .05 over the number of
        methods, reader and number of directions chosen on the other folds.
    notes : tuple of str
        What was left out, and why.
    response : str
        What y is called in ``sentence``.
    """

    rows: tuple[ReductionScore, ...]
    metric: str
    n_samples: int
    n_features: int
    n_folds: int
    above_chance: dict[str, bool]
    notes: tuple[str, ...] = ()
    response: str = "y"

    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([{k: v for k, v in asdict(row).items() if k != "folds"} for row in self.rows])

    def row(self, method: str, n_components: int | None = None) -> ReductionScore:
        """The row of a method, with as many directions or, without a number, with those that serve it best."""
        found = [
            r
            for r in self.rows
            if r.method == method and n_components in (None, r.n_components) and not r.failed
        ]
        if not found:
            msg = f"no row of {method!r} with n_components={n_components}; methods: {', '.join(self.methods)}"
            raise KeyError(msg)
        return max(found, key=lambda r: r.score)

    @property
    def methods(self) -> list[str]:
        """Names of the methods, ours first."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @property
    def enough(self) -> ReductionScore | None:
        """The first method's row with the fewest directions that is within a standard error of its best row."""
        mine = [r for r in self.rows if r.method == self.methods[0] and not r.failed]
        if not mine:
            return None
        best = max(mine, key=lambda r: r.score)
        for row in mine:
            loss = np.subtract(best.folds, row.folds)
            if loss.mean() <= (standard_error(loss) if len(loss) > 1 else 0.0):
                return row
        return best

    @property
    def sentence(self) -> str:
        """What the numbers say, in one sentence."""
        ours, row = self.methods[0], self.enough
        base = "chance" if self.metric == "balanced accuracy" else self._nothing
        working = [
            m for m in self.methods if m != NONE and any(r.method == m and not r.failed for r in self.rows)
        ]
        if not working:
            return f"No method could be fitted: {next(r.failed for r in self.rows if r.failed)}"
        best = max((self.row(m) for m in working), key=lambda r: r.score)
        if not any(self.above_chance.values()):
            return self._unsure(best, base)
        if row is None or not self.above_chance[ours]:
            seen = max(
                (self.row(m) for m, above in self.above_chance.items() if above), key=lambda r: r.score
            )
            return f"{ours[0].upper() + ours[1:]} predicts {self.response} no better than {base}, but {self._named(seen)} does."
        count = "one direction" if row.n_components == 1 else f"{row.n_components} directions"
        start = f"With {count}" + (" per block" if row.n_columns != row.n_components else "")
        if row.n_components is None:
            start = "As it is,"
        text = f"{start} {ours} reads {self.response} with {self.metric} {_plus_minus(row)} on rows left out"
        rivals = []
        for method in working[1:]:
            found = [
                r for r in self.rows if r.method == method and r.n_components in (None, row.n_components)
            ]
            label = f"all {self.n_features} columns" if method == ALL else method
            rivals += [f"{label} {r.score:.3f}" for r in found if not r.failed]
        text += (", " + ", ".join(rivals)) if rivals else ""
        return text + self._ending(row) + "."

    def _unsure(self, best: ReductionScore, base: str) -> str:
        """Where no method is above chance: noise, or a lead that hangs on few rows."""
        nothing = self.row(NONE).score
        if self.metric != "R2" or not best.score - nothing > _LARGE:
            return (
                f"No method predicts {self.response} better than {base} on rows left out: take the loadings as noise (best: "
                f"{self._named(best)}; no columns {nothing:.3f})."
            )
        return (
            f"No method surely predicts {self.response} better than {base} on rows left out, though the best seems to "
            f"({self._named(best)}; no columns {nothing:.3f}): few rows decide, so take the loadings with care; "
            "response='rank' lets all rows count alike."
        )

    @property
    def _nothing(self) -> str:
        return "its mean" if self.metric == "R2" else "its most frequent class"

    @staticmethod
    def _named(row: ReductionScore) -> str:
        width = "" if row.n_components is None else f" with {row.n_components}"
        return f"{row.method}{width}, {_plus_minus(row)}"

    def _ending(self, row: ReductionScore) -> str:
        """What more directions would bring, and who is ahead."""
        more = [
            r for r in self.rows if r.method == row.method and (r.n_components or 0) > (row.n_components or 0)
        ]
        ending = "; more directions gain nothing" if more else ""
        if not more and any(r.method == row.method and r is not row for r in self.rows):
            ending = "; more directions may gain"
        same = [r for r in self.rows if r.method != row.method and not r.failed]
        same = [r for r in same if r.n_components == row.n_components or r.method == ALL]
        ahead = [r for r in same if np.mean(d := np.subtract(r.folds, row.folds)) > 2 * standard_error(d)]
        if ahead:
            leader = max(ahead, key=lambda r: r.score)
            d = np.subtract(leader.folds, row.folds)
            if round(float(d.mean()), _DIGITS) > 0:
                ending += (
                    f"; {leader.method} ahead by {d.mean():.{_DIGITS}f} ± {standard_error(d):.{_DIGITS}f}"
                )
        return ending

    def __str__(self) -> str:
        readers = ", ".join(dict.fromkeys(r.reader for r in self.rows if r.reader))
        head = f"{self.metric} on rows left out ({self.n_samples} x {self.n_features}, {self.n_folds} folds; read by {readers})"
        titles = ("method", "directions", "columns", self.metric, "±", f"minus {self.methods[0]}", "ms a fit")
        cells = [titles, *(self.cells(r) for r in self.rows)]
        sizes = [max(len(line[i]) for line in cells) for i in range(len(titles))]
        lines = [
            "  ".join(
                c.ljust(s) if i == 0 else c.rjust(s) for i, (c, s) in enumerate(zip(line, sizes, strict=True))
            )
            for line in cells
        ]
        return "\n".join([head, "", *(line.rstrip() for line in lines), "", self.sentence, *self.notes])

    @staticmethod
    def cells(row: ReductionScore) -> tuple[str, ...]:
        """A row as text."""
        difference = ""
        if np.isfinite(row.difference) and row.difference_error == row.difference_error:
            difference = f"{row.difference:+.3f} ± {row.difference_error:.3f}"
        return (
            row.method,
            "" if row.n_components is None else str(row.n_components),
            str(row.n_columns),
            "failed" if row.failed else f"{row.score:.3f}",
            "" if row.failed else f"{row.error:.3f}",
            difference,
            f"{1e3 * row.seconds:.1f}" if row.seconds else "",
        )


def _plus_minus(row: ReductionScore) -> str:
    return f"{row.score:.3f} ± {row.error:.3f}"
