"""Inductive matrix completion."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import entity_work, small_products
from .._validation import warn_constant
from ..factor import spectral_norm
from ._bilinear_fit import Objective, alternating_ridge, quasi_newton
from ._features import (
    SIDES,
    check_features,
    check_same_columns,
    check_same_names,
    embedded,
    refuse_overflow,
    sides,
    unpack,
)
from ._kernel import CHUNK
from ._links import Links, check_links
from ._ranking import assemble, check_k, ranked_frame, require_pandas, scores_frame, top_of_blocks
from ._reduce import count_of
from ._summary import PairsSummary

Array = NDArray[np.float64]

_ROWS = 4096


class BilinearPairRegressor(PairsSummary, BaseEstimator):
    r"""Scores of pairs as a low-rank bilinear form of their features (inductive matrix completion).

    .. math:: \min_{U, V} \sum_{(i,j)} \ell(y_{ij},\, a_i^\top U V^\top b_j)
              + \tfrac{\lambda}{2} (\|U\|^2 + \|V\|^2)

    over observed pairs, with standardised features and a constant on each side. Squared loss over all pairs, each
    counted once, is solved by alternating ridge regressions in closed form on small matrices; otherwise by L-BFGS.

    Parameters
    ----------
    n_components : int or None, default=None
        Columns of U and V; None: 10, or all that fewer features give.
    alpha : float, default=0.1
        Penalty relative to the largest singular value of A'YB: at 1 features are (about) not used at all.
    loss : {"squared", "logistic"}, default="squared"
        "logistic" takes scores between 0 and 1 and predicts probabilities.
    max_iter : int, default=200
    tol : float, default=1e-6
        Relative change of the objective at which to stop.

    Attributes
    ----------
    factors_ : dict of "left" and "right" to ndarray (1 + features, n_components)
        For the constant and the standardised features.
    alpha_ : float
        The penalty itself.
    objective_ : float
    n_iter_ : int

    References
    ----------
    Natarajan and Dhillon (2014), "Inductive matrix completion for predicting gene-disease associations",
    Bioinformatics 30.

    Examples
    --------
    >>> from colspace import BilinearPairRegressor
    >>> from colspace.datasets import make_pairs
    >>> from colspace.metrics import recall_at_k
    >>> A, B, Y, _ = make_pairs(300, 200, rng=0)
    >>> model = BilinearPairRegressor(3).fit(A[:250], B, Y[:250])
    >>> recall_at_k(Y[250:], model.predict(A[250:]), k=20) > 0.3
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions({"squared", "logistic"})],
        "max_iter": [whole(1)],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 0.1,
        loss: str = "squared",
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.loss = loss
        self.max_iter = max_iter
        self.tol = tol

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(entity_work)
    def fit(self, A: Any, B: Any = None, Y: Any = None, mask: Any = None, sample_weight: Any = None) -> Self:
        """Learn both factors; parameters as in `PairRegressor.fit`."""
        A, B, Y, mask, sample_weight = unpack(A, B, Y, mask, sample_weight)
        left, right = check_features(A, "left"), check_features(B, "right")
        check_same_names(Y, left, right)
        check_same_names(mask, left, right, "mask")
        check_same_names(sample_weight, left, right, "sample_weight")
        links = check_links(Y, mask, (len(left.values), len(right.values)), sample_weight)
        r = count_of(self.n_components, (left.values.shape[1], right.values.shape[1]), "bilinear")
        if self.loss == "logistic" and (links.Y.data.min() < 0 or links.Y.data.max() > 1):
            low, high = links.Y.data.min(), links.Y.data.max()
            msg = f"loss='logistic' takes scores between 0 and 1, got {low:g} to {high:g}; use Y > 0, or loss='squared'"
            raise ValueError(msg)
        features = dict(zip(SIDES, (left, right), strict=True))
        for side, X in features.items():
            refuse_overflow(X, side)
        self.n_features_in_ = left.values.shape[1]
        self.n_features_ = {side: X.values.shape[1] for side, X in features.items()}
        self.feature_names_ = {side: X.columns for side, X in features.items()}
        self.entities_ = {
            side: None if X.names is None else np.asarray(X.names, dtype=object)
            for side, X in features.items()
        }
        self.mean_ = {
            side: X.values[0] + (X.values - X.values[0]).mean(axis=0) for side, X in features.items()
        }
        self.scale_ = {}
        for side, X in features.items():
            spread = np.ptp(X.values, axis=0)  # exactly zero for constants, unlike the deviation
            warn_constant(spread, X.columns or range(len(spread)))
            unit = np.where(spread > 0, spread, 1.0)  # so that no square leaves float64
            self.scale_[side] = np.where(
                spread > 0, unit * ((X.values - X.values[0]) / unit).std(axis=0), 1.0
            )
        Z = {side: self._standardise(X.values, side) for side, X in features.items()}
        self._solve(Z["left"], Z["right"], links, r)
        self.embedding_ = {side: Z[side] @ self.factors_[side] for side in SIDES}
        return self

    def _solve(self, A: Array, B: Array, links: Links, r: int) -> None:
        max_iter, tol = int(self.max_iter), float(self.tol)
        # c Y with penalty c alpha has the factors of Y times sqrt(c) and c^2 times its objective
        unit = float(np.abs(links.Y.data).max()) if self.loss == "squared" else 1.0
        links = replace(links, Y=links.Y / unit)
        top = spectral_norm(A[:, 1:].T @ (links.scores @ B[:, 1:]))
        alpha = float(self.alpha) * (top if top > 0 else 1.0)
        if self.loss == "squared" and links.counted is None:
            found = alternating_ridge(A, B, links.Y, r, alpha, max_iter, tol)
        else:
            found = quasi_newton(Objective(A, B, links, self.loss, alpha, r), max_iter, tol)
        if not found.converged:
            warnings.warn(
                f"the objective was still changing by more than tol={tol:g} after {found.n_iter} iterations; use a "
                "larger max_iter or tol",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.alpha_ = alpha * unit
        self.factors_ = {"left": found.U * np.sqrt(unit), "right": found.V * np.sqrt(unit)}
        self.objective_, self.n_iter_ = found.objective * unit**2, found.n_iter

    def _standardise(self, X: Array, side: str) -> Array:
        return np.hstack([np.ones((len(X), 1)), (X - self.mean_[side]) / self.scale_[side]])

    def _embed(self, X: Any, side: str) -> tuple[Any, Array]:
        check_is_fitted(self, "factors_")
        if X is None:
            return self.entities_[side], self.embedding_[side]
        found = check_features(X, side)
        check_same_columns(found, side, self.n_features_[side], self.feature_names_[side])
        return found.names, embedded(lambda X: self._standardise(X, side) @ self.factors_[side], found)

    def _blocks(self, E: Array, F: Array) -> Iterator[tuple[slice, slice, Array]]:
        rows = max(1, min(_ROWS, CHUNK // len(F)))
        for i in range(0, len(E), rows):
            scores = E[i : i + rows] @ F.T
            whole = slice(i, min(i + rows, len(E))), slice(0, len(F))
            yield *whole, expit(scores) if self.loss == "logistic" else scores

    def predict(self, A: Any = None, B: Any = None) -> Any:
        """Scores of all pairs of a row of A and a row of B; parameters and result as in `PairRegressor.predict`."""
        A, B = sides(A, B)
        (rows, E), (columns, F) = self._embed(A, "left"), self._embed(B, "right")
        scores = assemble(self._blocks(E, F), (len(E), len(F)))
        return scores_frame(scores, rows, columns) if hasattr(A, "iloc") or hasattr(B, "iloc") else scores

    def rank(self, A: Any = None, B: Any = None, k: int = 10) -> Any:
        """The k best partners of each row of A as a DataFrame; as in `PairRegressor.rank`."""
        require_pandas("rank")
        A, B = sides(A, B)
        (rows, E), (columns, F) = self._embed(A, "left"), self._embed(B, "right")
        check_k(k, len(F))
        return ranked_frame(*top_of_blocks(self._blocks(E, F), len(E), int(k)), rows, columns)
