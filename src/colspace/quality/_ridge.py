"""Ridge regression whose ridge is chosen by leaving rows out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._validation import check_weights
from ..factor import eigh

Array = NDArray[np.float64]


class LooRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression with the ridge of least leave-one-out error, one for all responses, as `sklearn.linear_model.RidgeCV` finds it.

    With centred rows :math:`X = A V^\top` along the axes of :math:`X^\top X = V S V^\top` the error of leaving row i out is
    :math:`(y_i - a_i^\top (S + \alpha)^{-1} A^\top y)/(1 - 1/n - a_i^\top (S + \alpha)^{-1} a_i)`; where columns are as many as rows, from
    :math:`X X^\top = Q S Q^\top`, without the axis of the mean, :math:`(Q D Q^\top y)_i/(Q D Q^\top)_{ii}` with
    :math:`D = \alpha (S + \alpha)^{-1}`. The leverages for all ridges are one product.

    Parameters
    ----------
    alphas : sequence or array of float, default=(0.1, 1.0, 10.0)
        Above zero.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.quality import LooRidge
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> LooRidge().fit(X, X[:, 0]).coef_.shape
    (4,)
    """

    def __init__(self, alphas: Sequence[float] | Array = (0.1, 1.0, 10.0)) -> None:
        self.alphas = alphas

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the coefficients; a row of weight two pulls as two do, and is left out as one."""
        alphas = _ridges(self.alphas)
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        Y, w = np.asarray(y, dtype=np.float64), check_weights(sample_weight, X)
        w = np.ones(len(X)) if w is None else w
        centre, level = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
        root = np.sqrt(w)[:, None]
        X, V = (X - centre) * root, (Y - level).reshape(len(X), -1) * root
        wide = X.shape[1] >= len(X) - 1
        axes, values, rest = _dual(X, root, alphas) if wide else _primal(X, root, alphas)
        A = axes if wide else X @ axes
        cross, taken = A.T @ V, 1.0 / (values[:, None] + alphas)  # axes x responses, axes x ridges
        errors = []
        for k in range(len(alphas)):
            error = A @ (taken[:, [k]] * alphas[k] * cross) if wide else V - A @ (taken[:, [k]] * cross)
            errors.append(np.mean((error / rest[:, [k]]) ** 2))
        best = int(np.argmin(errors))
        self.alpha_ = float(alphas[best])
        along = axes @ (taken[:, [best]] * cross)
        coef = X.T @ along if wide else along
        self.coef_ = coef[:, 0] if Y.ndim == 1 else coef.T
        self.intercept_ = level - centre @ coef if Y.ndim > 1 else float(level - centre @ coef[:, 0])
        return self

    def predict(self, X: Any) -> Any:
        """Responses of rows."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.coef_.T + self.intercept_


def _ridges(alphas: Sequence[float] | Array) -> Array:
    """The ridges to choose from as an array."""
    found = np.asarray(alphas, dtype=np.float64)
    if found.ndim != 1 or not found.size or not ((found > 0) & np.isfinite(found)).all():
        msg = f"alphas={alphas!r} must be one or more finite numbers above 0, as in (0.1, 1.0, 10.0)"
        raise ValueError(msg)
    return found


def _primal(X: Array, root: Array, alphas: Array) -> tuple[Array, Array, Array]:
    """Axes of the columns, their values, and one minus the leverage of every row for every ridge."""
    values, axes = eigh(X.T @ X)
    values = np.maximum(values, 0.0)
    A = X @ axes
    A *= A
    share = root**2 / np.sum(root**2)
    return axes, values, np.maximum(1.0 - share - A @ (1.0 / (values[:, None] + alphas)), 1e-14)


def _dual(X: Array, root: Array, alphas: Array) -> tuple[Array, Array, Array]:
    """Axes of the rows but for that of the mean, their values, and one minus the leverages, which may be next to nothing."""
    K = X @ X.T
    mean = root / np.linalg.norm(root)
    K += max(2.0 * np.trace(K), 1.0) * mean @ mean.T  # the largest by far, and so the last
    values, axes = (part[..., :-1] for part in eigh(K))
    values = np.maximum(values, 0.0)
    return axes, values, (axes * axes) @ (alphas / (values[:, None] + alphas))
