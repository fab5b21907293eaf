"""CopulaImputer: gaps of mixed tables filled, with intervals, reliabilities and draws."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._progress import track
from .._random import generator
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context
from ._fit import CopulaModel, fit_copula, table_values
from ._kinds import choose_kinds
from ._predict import (
    draws,
    explained,
    impute,
    intervals,
    latent_means,
    reliabilities,
    row_log_likelihood,
    within,
)
from ._table import Layout, decode_table, encode_table, float_table, read_table

Array = NDArray[np.float64]


class CopulaImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Fill the gaps of a table of any mixture of kinds by a low-rank Gaussian copula.

    Every column is a monotone function of a latent normal one, and those share a few factors:

    .. math:: x_j = g_j(z_j), \qquad z = W t + e, \quad t \sim N(0, I_k), \; e_j \sim N(0, \sigma_j^2),
        \quad \lVert w_j \rVert^2 + \sigma_j^2 = 1 .

    g_j is learned from the column: increasing for numbers, a step function for levels. A gap is filled by
    :math:`g_j(E[z_j \mid \text{observed}])`, the conditional median; ``mean`` gives the conditional mean.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors. "auto" fits a generous number with shrunken loadings and counts those that remain.
    method : {"ep", "paper"}, default="ep"
        "ep": expectation propagation, empirical-Bayes loadings, marginals learned with the factors. "paper": the published EM with
        empirical marginals.
    noise : {"column", "common"}, default="column"
        One noise variance per column, or one for all ("paper" always has one).
    kinds : "auto", a kind, or mapping of columns to kinds, default="auto"
        Kinds are "continuous", "ordinal", "binary", "count", "lower", "upper", "two-sided" (the last three: truncated, with a
        share of values at the limit); a list of levels in order makes a column of strings ordinal. Columns that
        are not named are found automatically; ``kinds_`` shows them.
    clip : bool, default=False
        Keep imputations of continuous columns inside the observed range.
    tol : float or None, default=None
        Stop when W W' changes by less than this, relatively; None: 1e-3 ("ep") or 1e-2 ("paper").
    max_iter : int, default=200
        Iterations of each of the (at most three) rounds.
    warm_start : bool, default=False
        Start from the loadings of the last fit where their shape is the same.
    random_state : int, RandomState or None, default=None
        Of the randomised SVD that starts the loadings.
    verbose : bool, default=False
        Draw a progress bar on a terminal.

    Attributes
    ----------
    loadings_ : ndarray (n_features, n_components)
        W, with W'W diagonal and decreasing.
    components_ : ndarray (n_components, n_features)
        W'.
    noise_variance_ : ndarray (n_features,)
    correlation_ : ndarray (n_features, n_features)
        W W' + diag(noise): the latent correlation.
    kinds_ : tuple of str
    n_components_ : int
    n_iter_ : int
        Iterations of all rounds.

    References
    ----------
    Matrix completion with quantified uncertainty through low rank Gaussian copula (the paper of the method).

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import CopulaImputer
    >>> from colspace.datasets import make_copula
    >>> X, complete, truth = make_copula(200, 30, 2, rng=0)
    >>> model = CopulaImputer().fit(X)
    >>> model.n_components_
    2
    >>> filled = model.transform(X)
    >>> lower, upper = model.interval(X, level=0.9)
    >>> gaps = np.isnan(X)
    >>> inside = (lower <= complete) & (complete <= upper)
    >>> bool(0.85 < inside[gaps].mean() < 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "method": [StrOptions({"ep", "paper"})],
        "noise": [StrOptions({"column", "common"})],
        "kinds": [str, dict, None],
        "clip": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["boolean"],
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        method: str = "ep",
        noise: str = "column",
        kinds: str | Mapping[Any, Any] = "auto",
        clip: bool = False,
        tol: float | None = None,
        max_iter: int = 200,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.noise = noise
        self.kinds = kinds
        self.clip = clip
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn marginals and factors; y is ignored.

        Parameters
        ----------
        X : array with NaN, DataFrame (pandas, polars), sparse matrix (absent: missing) or Dask collection
        """
        values, layout = self._read(X)
        distinct = table_values(values)
        kinds = choose_kinds(distinct, layout.hints, self.kinds, layout.labels)
        active = np.array([kind != "constant" for kind in kinds])
        rank = self._rank(int(active.sum()))
        tol = self.tol or (1e-3 if self.method == "ep" else 1e-2)
        start = self.loadings_[active] if self.warm_start and hasattr(self, "loadings_") else None
        with track(3 * self.max_iter, "copula", show=self.verbose) as advance:
            model = fit_copula(
                values if active.all() else values[:, np.flatnonzero(active)],
                [d for d, keep in zip(distinct, active, strict=True) if keep],
                [k for k, keep in zip(kinds, active, strict=True) if keep],
                n_components=rank,
                method=self.method,
                common=self.noise == "common",
                tol=tol,
                max_iter=self.max_iter,
                rng=self.random_state,
                start=start,
                tick=advance,
            )
        self._store(model, layout, kinds, active, distinct)
        if not all(trace.converged for trace in model.traces):
            last = next(t for t in model.traces if not t.converged)
            warnings.warn(
                f"EM has not converged: W W' still changed by {last.changes[-1]:.3g} in iteration {len(last.changes)}, "
                f"more than tol={tol:g}. Remedies: a larger max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _rank(self, width: int) -> int | None:
        if width < 2:
            msg = (
                f"{width} column(s) that vary: a copula needs at least two, so that one can tell about another; "
                "use sklearn.impute.SimpleImputer for a single one"
            )
            raise ValueError(msg)
        if isinstance(self.n_components, str):
            return None
        if self.n_components >= width:
            msg = (
                f"n_components={self.n_components} must be less than the {width} columns that vary; "
                f"use at most {width - 1}, or 'auto'"
            )
            raise ValueError(msg)
        return int(self.n_components)
