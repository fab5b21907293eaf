"""Parameters of supervised dictionaries, and what they make of the columns of a table."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._blocks import parse_columns
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, whole
from .._validation import check_table, feature_names
from ._losses import Array
from ._regions import Radius, check_bounds
from ._setup import keep
from ._tables import check_kept, check_range, columns_of_dask, known_rows, split_columns

_APART = 0.1  # share of the ridge that keeps nonnegative atoms from cancelling each other


class DictionarySettings(BaseEstimator):
    """What is given, checked, and which columns make atoms."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "model": [StrOptions({"filter", "feature"})],
        "solver": [StrOptions({"auto", "lbfgs", "bcd", "lpgd"})],
        "xi": [Interval(Real, 0, None, closed="left"), StrOptions({"auto", "topics"})],
        "positive": ["boolean"],
        "l1": [Interval(Real, 0, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "apart": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "covariates": "no_validation",
        "fit_intercept": ["boolean"],
        "coding": [StrOptions({"refit", "plain", "labels"})],
        "bounds": [dict, None],
        "radius": [Radius, None],
        "step": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [whole(1)],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_bootstraps": [whole(0)],
        "random_state": ["random_state"],
        "verbose": ["boolean"],
    }

    n_components: Any
    model: Any
    solver: str
    xi: Any
    positive: bool
    l1: float
    l2: Any
    apart: Any
    covariates: Any
    fit_intercept: bool
    coding: str
    bounds: Any
    radius: Radius | None
    step: float | None
    max_iter: int
    tol: float
    n_bootstraps: int
    random_state: Any
    verbose: bool
    n_features_in_: int

    def __init__(
        self,
        n_components: int = 2,
        *,
        model: str = "filter",
        solver: str = "auto",
        xi: float | str = "auto",
        positive: bool = False,
        l1: float = 0.0,
        l2: float | str = "auto",
        apart: float | str = "auto",
        covariates: Any = None,
        fit_intercept: bool = True,
        coding: str = "refit",
        bounds: Any = None,
        radius: Any = None,
        step: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-5,
        n_bootstraps: int = 0,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    def _read(self, X: Any) -> Any:
        """X of a fit, its columns sorted into atoms' and covariates'."""
        X = check_table(self, X, reset=True, min_rows=2)
        if not is_dask(X):
            check_range(X, feature_names(self))
        p = self.n_features_in_
        skip = np.zeros(0, dtype=np.intp)
        if self.covariates is not None and np.size(self.covariates):
            skip = parse_columns(self.covariates, p, feature_names(self), what="covariates")
        self.covariate_columns_ = skip
        self.dictionary_columns_ = np.setdiff1d(np.arange(p), skip)
        if len(self.dictionary_columns_) == 0:
            msg = f"all {p} columns are covariates, which leaves none to make atoms of; name fewer in covariates="
            raise ValueError(msg)
        if is_dask(X) and self.n_bootstraps:
            msg = (
                f"n_bootstraps={self.n_bootstraps} draws rows, which a Dask table has not at hand. Remedies: n_bootstraps=0, or a "
                "sample of rows in memory"
            )
            raise ValueError(msg)
        if is_dask(X) and not self._by_sums:
            X = known_rows(X)
            check_kept(X, self._kept_per_row(1), self._why_kept)
        if not is_dask(X) or not self._by_sums:
            self._check_size(X.shape[0])
        return X

    def _check_size(self, n: int) -> None:
        wide, skipped = len(self.dictionary_columns_), len(self.covariate_columns_)
        if self.n_components > min(n, wide):
            msg = (
                f"n_components={self.n_components} is more than {n} sample(s) or {wide} column(s) allow "
                f"(n_samples = {n}, n_features = {wide + skipped}, of which {skipped} are covariates); "
                f"use at most {min(n, wide)}"
            )
            raise ValueError(msg)

    @property
    def _by_sums(self) -> bool:
        """Whether a Dask table is fitted by sums over its rows alone: codes must have a closed form."""
        bounded = self.l1 > 0 or self.bounds or self.radius is not None or self.step is not None
        rebuilt = isinstance(self.xi, str) or self.xi > 0
        return self.model == "filter" and self.solver in ("auto", "lbfgs") and not bounded and rebuilt

    def _kept_per_row(self, n_outputs: int) -> int:
        """Numbers that other solvers keep for each row: its code, labels, covariates and weights."""
        return self.n_components + n_outputs + len(self.covariate_columns_) + 2

    @property
    def _why_kept(self) -> str:
        return f"model={self.model!r} with solver={self.solver!r}, l1={self.l1:g} keeps codes of all rows"

    def _columns(self, X: Any) -> tuple[Any, Array]:
        """The columns of the atoms (a view where they lie side by side) and the covariates."""
        return (columns_of_dask if is_dask(X) else split_columns)(
            X, self.dictionary_columns_, self.covariate_columns_
        )

    def _warn_copies(self, copies: NDArray[np.bool_]) -> None:
        """Say which covariates (rows) are also columns of the dictionary."""
        labels = feature_names(self) or range(self.n_features_in_)
        for k, j in np.argwhere(copies):
            pair = labels[self.covariate_columns_[k]], labels[self.dictionary_columns_[j]]
            warnings.warn(
                f"covariate {pair[0]!r} is a copy of column {pair[1]!r} of the dictionary, so their effects cannot be told "
                "apart; drop one of them",
                UserWarning,
                stacklevel=7,
            )

    def _check_settings(self) -> None:
        check_bounds(self.bounds)
        if self.model == "filter" and self.coding != "refit":
            msg = f"coding={self.coding!r} is a setting of model='feature'; leave it at 'refit' for model='filter'"
            raise ValueError(msg)
        if self.apart != "auto" and self.apart > 0:
            if not self.positive:
                msg = (
                    f"apart={self.apart:g} is for nonnegative atoms: free ones can be turned without any change of the fit. "
                    "Remedies: positive=True, or apart='auto'"
                )
                raise ValueError(msg)
            if self.l2 == 0:
                msg = f"apart={self.apart:g} is a share of the ridge, and l2=0 is none; give l2 > 0, or apart='auto'"
                raise ValueError(msg)

    @property
    def _apart(self) -> float:
        if self.apart == "auto":
            return _APART if self.positive else 0.0
        return float(self.apart)

    @property
    def _as_published(self) -> bool:
        """Whether blocks, bounds and steps are to be those of the problem as it is written, in the units of y."""
        return (
            bool(self.bounds) or self.step is not None or (self.radius is not None and self.radius.absolute)
        )
