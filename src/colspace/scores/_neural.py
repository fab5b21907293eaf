"""Scores by a small network (needs the torch extra)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._overflow import finite_result
from .._random import generator
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._validation import feature_names
from ._base import Array, ScoreModel, per_row
from ._standard import deviations, require_variation, warn_flat

_CHUNK = 1024  # rows
_PATIENCE = 20  # epochs without a better held-out loss


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as reason:
        msg = "NeuralScore needs PyTorch, which is not installed; pip install 'colspace[torch]'"
        raise ImportError(msg) from reason
    return torch


class NeuralScore(ScoreModel):
    r"""Scores by a network trained with score matching.

    A perceptron on standardised columns models :math:`g = \nabla \log P`; it starts at the score of a standard
    normal. The score is :math:`s = -g`.

    "denoising" learns the score of P smoothed by noise whose deviation is a part ``noise`` of each column's own, so that
    units do not matter: for a Gaussian this is ``GaussianScore(ridge=noise**2)``. Constant columns get a score of zero.

    Parameters
    ----------
    objective : {"denoising", "sliced", "exact"}, default="denoising"
        "exact" minimises :math:`\frac12\|g\|^2 + \operatorname{div} g` (one backward pass per column), "sliced"
        replaces the divergence by that along one random direction per row, "denoising" regresses on the noise
        added to the rows.
    hidden : sequence of int, default=(128, 128)
        Widths of the layers.
    noise : float, default=0.1
        Standard deviation of the noise of "denoising", in units of ``standardize``.
    standardize : bool, default=True
        The noise of a column is a part of its own deviation. False: of the root mean variance of all columns, the same
        for every column, so that a column of small variance gets a small score; then units matter.
    max_epochs : int, default=200
        A tenth of the rows is held out (from 50 rows on); training stops after 20 epochs without a better loss
        there and the best weights are kept.
    batch_size : int, default=128
    learning_rate : float, default=0.001
        Of Adam.
    tol : float, default=1e-4
        What counts as a better loss, relative.
    random_state : int, RandomState or None, default=None
        Draws the weights, batches, noise and held-out rows.

    Attributes
    ----------
    mean_, scale_ : ndarray (n_features,)
        Of the columns, noise included; a scale of zero is a constant column.
    noise_ : ndarray (n_features,)
        Standard deviation of the noise in units of the data; 0 unless "denoising".
    weights_ : list of ndarray
        The linear part, then matrix and shift of every layer.
    loss_curve_, validation_curve_ : list of float
        Per epoch; without held-out rows the second is empty.
    n_iter_ : int
        Epochs.

    References
    ----------
    Hyvärinen, "Estimation of non-normalized statistical models by score matching", JMLR 2005.
    Vincent, "A connection between score matching and denoising autoencoders", Neural Computation 2011.
    Song, Garg, Shi and Ermon, "Sliced score matching", UAI 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.scores import NeuralScore
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> NeuralScore(random_state=0).fit(X).score_function(X).shape  # doctest: +SKIP
    (500, 2)
    """

    _why_in_memory = "every batch is drawn from all rows"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "objective": [StrOptions({"denoising", "sliced", "exact"})],
        "hidden": [tuple, list],
        "noise": [Interval(Real, 0, None, closed="neither")],
        "standardize": ["boolean"],
        "max_epochs": [whole(1)],
        "batch_size": [whole(1)],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        objective: str = "denoising",
        hidden: Sequence[Any] = (128, 128),
        noise: float = 0.1,
        standardize: bool = True,
        max_epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.objective = objective
        self.hidden = hidden
        self.noise = noise
        self.standardize = standardize
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network on rows of X; y is ignored.

        Parameters
        ----------
        X : array or DataFrame (n_samples, n_features)
        sample_weight : array (n_samples,) or None
            Weights of rows in the loss and in means and deviations. Zero is a row absent, and a constant changes nothing;
            two is a row twice in every loss, but batches and held-out rows are drawn by number of rows.
        """
        torch = _import_torch()
        X, weight = self._rows_to_fit(X, 2, sample_weight)
        if not all(whole(1).is_satisfied_by(h) for h in self.hidden):
            msg = f"hidden={self.hidden!r} must hold whole numbers, the widths of the layers, each at least 1"
            raise ValueError(msg)
        rng = generator(self.random_state)
        names = feature_names(self)
        self.mean_, deviation = deviations(X, weight, names)
        varying = deviation > 0
        require_variation(varying)
        warn_flat(varying, names, stacklevel=4)
        size = np.ones_like(deviation) * float(np.sqrt(np.mean(deviation**2)))
        noisy = self.objective == "denoising"
        self.noise_ = self.noise * (deviation if self.standardize else size * varying) if noisy else 0 * size
        self.scale_ = np.hypot(deviation, self.noise_)
        Z = (X[:, varying] - self.mean_[varying]) / self.scale_[varying]
        share = np.ones(len(Z)) if weight is None else weight / weight.mean()
        order = rng.permutation(len(Z))
        held_out = len(Z) // 10 if len(Z) >= 50 else 0
        train, test = order[held_out:], order[:held_out]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            self._train(torch, *(torch.from_numpy(a[rows]) for rows in (train, test) for a in (Z, share)))
        return self

    def _start(self, torch: Any, p: int) -> list[Any]:
        """The linear part -I, then layers of which the last is zero."""
        weights = [-torch.eye(p, dtype=torch.float64)]
        widths = [p, *self.hidden, p]
        for i, (a, b) in enumerate(pairwise(widths)):
            size = a**-0.5 if i < len(self.hidden) else 0.0
            weights.append(size * torch.randn(a, b, dtype=torch.float64))
            weights.append(torch.zeros(b, dtype=torch.float64))
        return weights

    @staticmethod
    def _forward(torch: Any, weights: list[Any], Z: Any) -> Any:
        """g on the standardised scale."""
        out = Z
        for i in range(1, len(weights), 2):
            out = out @ weights[i] + weights[i + 1]
            if i + 2 < len(weights):
                out = torch.nn.functional.silu(out)
        return Z @ weights[0] + out

    def _loss(self, torch: Any, weights: list[Any], Z: Any, draw: Any, share: Any = 1.0) -> Any:
        """Mean loss over rows of the given shares; ``draw`` is the noise or the directions."""
        return (share * self._losses(torch, weights, Z, draw)).mean()

    def _losses(self, torch: Any, weights: list[Any], Z: Any, draw: Any) -> Any:
        """Loss of every row."""
        if self.objective == "denoising":
            varying = self.scale_ > 0
            size = torch.from_numpy(self.noise_[varying] / self.scale_[varying])
            g = self._forward(torch, weights, Z + size * draw)
            return 0.5 * ((size * g + draw) ** 2).sum(dim=1)
        Z = Z.detach().requires_grad_()
        g = self._forward(torch, weights, Z)
        if self.objective == "sliced":
            (slope,) = torch.autograd.grad((g * draw).sum(), Z, create_graph=True)
            return 0.5 * (g**2).sum(dim=1) + (slope * draw).sum(dim=1)
        trace = 0.0
        for j in range(Z.shape[1]):
            (slope,) = torch.autograd.grad(g[:, j].sum(), Z, create_graph=True)
            trace = trace + slope[:, j]
        return 0.5 * (g**2).sum(dim=1) + trace

    def _train(self, torch: Any, Z: Any, share: Any, held_out: Any, held_share: Any) -> None:
        weights = [w.requires_grad_() for w in self._start(torch, Z.shape[1])]
        adam = torch.optim.Adam(weights, lr=self.learning_rate)
        judge_draws = torch.randn_like(held_out)
        best, best_weights, waited = np.inf, [w.detach().clone() for w in weights], 0
        self.loss_curve_: list[float] = []
        self.validation_curve_: list[float] = []
        for _ in range(self.max_epochs):
            total = 0.0
            order = torch.randperm(len(Z))
            for start in range(0, len(Z), self.batch_size):
                rows = order[start : start + self.batch_size]
                batch = Z[rows]
                adam.zero_grad()
                loss = self._loss(torch, weights, batch, torch.randn_like(batch), share[rows])
                loss.backward()
                adam.step()
                total += float(loss.detach()) * len(batch)
            self.loss_curve_.append(total / len(Z))
            if not np.isfinite(self.loss_curve_[-1]):
                msg = (
                    f"the loss is {self.loss_curve_[-1]} after {len(self.loss_curve_)} epochs: training diverges. "
                    f"Remedy: a smaller learning_rate (now {self.learning_rate})"
                )
                raise ValueError(msg)
            if not len(held_out):
                best_weights = weights
                continue
            judged = float(self._loss(torch, weights, held_out, judge_draws, held_share).detach())
            self.validation_curve_.append(judged)
            waited += 1
            if judged < best - self.tol * abs(best) or not np.isfinite(best):
                waited = 0
            if judged < best:
                best, best_weights = judged, [w.detach().clone() for w in weights]
            if waited >= _PATIENCE:
                break
        self.n_iter_ = len(self.loss_curve_)
        self.weights_ = [w.detach().numpy().copy() for w in best_weights]

    @property
    def _varying(self) -> Any:
        check_is_fitted(self)
        return self.scale_ > 0

    def _standardised(self, X: Any) -> tuple[Any, list[Any], Array]:
        varying = self._varying
        Z = (self._checked(X)[:, varying] - self.mean_[varying]) / self.scale_[varying]
        torch = _import_torch()
        return torch, [torch.from_numpy(w) for w in self.weights_], Z

    @finite_result
    def score_function(self, X: Any) -> Array:
        """The scores s = -g of rows, n x p."""
        torch, weights, Z = self._standardised(X)
        out = np.empty_like(Z)
        with torch.no_grad():
            for start in range(0, len(Z), _CHUNK):
                rows = slice(start, start + _CHUNK)
                out[rows] = self._forward(torch, weights, torch.from_numpy(Z[rows])).numpy()
        scores = np.zeros((len(Z), len(self.scale_)))
        scores[:, self._varying] = out / -self.scale_[self._varying]
        return scores

    @finite_result
    def second_moment(self, X: Any, weights: Array) -> Array:
        """Sum over rows of w T(x), T = g g' + grad g, its symmetric part; one backward pass per column."""
        torch, network, Z = self._standardised(X)
        weights = per_row(weights, len(Z), "weights")
        W = weights.reshape(len(Z), -1)
        p = Z.shape[1]
        out = np.zeros((W.shape[1], p, p))
        for start in range(0, len(Z), _CHUNK):
            rows = slice(start, start + _CHUNK)
            z = torch.from_numpy(Z[rows]).requires_grad_()
            g = self._forward(torch, network, z)
            for b in range(p):
                (slope,) = torch.autograd.grad(g[:, b].sum(), z, retain_graph=True)
                out[:, :, b] += W[rows].T @ slope.numpy()
            G = g.detach().numpy()
            for k in range(len(out)):
                out[k] += G.T @ (W[rows, k, None] * G)
        varying = self._varying
        scale = self.scale_[varying]
        moments = np.zeros((len(out), len(varying), len(varying)))
        out = (out + out.transpose(0, 2, 1)) / (2.0 * np.outer(scale, scale))
        moments[:, varying[:, None] & varying] = out.reshape(len(out), -1)
        return moments[0] if weights.ndim == 1 else moments
