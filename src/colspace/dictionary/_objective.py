"""What a supervised dictionary minimises, and its gradients.

Rows are samples: X (n x p) is rebuilt as H W' from codes H (n x r) and a dictionary W (p x r), and the labels have
activations a = X W B + Z G + c (filter) or a = H B + Z G + c (feature) with covariates Z (n x q):

    L = sum_i v_i loss(a_i, y_i) + sum_i w_i (xi ||x_i - W h_i||^2 + l1 |h_i|_1) + l2 (R + ||G||^2),

R = ||W B||^2 (filter) or sum_i w_i ||B'h_i||^2 (feature), as in (10) and (12). Both are sums over pairs of atoms; ``apart`` is the
share of R in which an atom meets itself alone, sum_k ||w_k||^2 ||b_k||^2, so that equal atoms of opposite effects cost something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from .._rows import chunk_rows, dask_partitions, is_dask, reduce_rows
from ..factor import eigh
from ..moments import Additive
from ._codes import nonnegative_codes
from ._losses import Array, Logistic, Loss
from ._products import backward, forward, row_energy

Model = Literal["filter", "feature"]


@dataclass(frozen=True)
class Problem:
    """The data and the terms; made by ``make_problem``."""

    X: Any
    Y: Any
    Z: Any
    weight: Any
    label_weight: Any
    loss: Loss
    model: Model
    xi: float
    l1: float
    l2: float
    fit_intercept: bool
    chunk: int | None
    apart: float = 0.0
    rows: Any = None  # Partitions of rows that stay where they are: X, Y, Z and weights are then outlines
    opening: Any = None  # and this the sums of a first pass
    moment: Array | None = None  # X' diag(w) X, where it pays (see with_moment)

    def paired(self, products: Array) -> Array:
        """Products of atoms, codes or coefficients (r x r) as the ridge weighs their pairs."""
        return (
            (1.0 - self.apart) * products + self.apart * np.diag(np.diag(products))
            if self.apart
            else products
        )

    @property
    def n_outputs(self) -> int:
        """K, the number of activations."""
        return int(self.Y.shape[1])

    @property
    def whole(self) -> bool:
        """Whether X is multiplied in one go: slices of a CSR matrix would be copies."""
        return self.chunk is None and sparse.issparse(self.X)

    @cached_property
    def direct(self) -> bool:
        """Whether products with X need no slices: they would make no copy of it."""
        X = self.X
        if self.chunk is not None or sparse.issparse(X):
            return self.whole
        return (
            isinstance(X, np.ndarray)
            and X.dtype in (np.float64, np.float32)
            and (X.flags.c_contiguous or X.flags.f_contiguous)
        )

    @cached_property
    def energy(self) -> float:
        """sum_i w_i ||x_i||^2."""
        return energy(self, self.weight) if self.opening is None else float(self.opening.energy)


class State(NamedTuple):
    """Dictionary W (p x r), codes H (n x r), coefficients B (r x K), covariate coefficients G (q x K), intercept (K)."""

    W: Array
    H: Array
    B: Array
    G: Array
    intercept: Array


class Coefficients(NamedTuple):
    """A state without its codes."""

    W: Array
    B: Array
    G: Array
    intercept: Array


@dataclass(frozen=True)
class Solution:
    """Where a solver ended: the state, the objective after each iteration, and why it stopped."""

    state: State
    history: tuple[float, ...]
    reason: str
    converged: bool


def make_problem(
    X: Any,
    Y: Any,
    covariates: Any = None,
    *,
    loss: Loss | None = None,
    model: Model = "filter",
    xi: float = 1.0,
    l1: float = 0.0,
    l2: float = 0.0,
    weight: Any = None,
    label_weight: Any = None,
    fit_intercept: bool = True,
    chunk: int | None = None,
    apart: float = 0.0,
) -> Problem:
    """Checked problem; X may be a Dask array (labels and covariates are loaded). ``weight`` (w) counts rows in the whole objective, ``label_weight`` (v / w) in the labels' loss alone."""
    if model not in ("filter", "feature"):
        msg = (
            f"model={model!r} is unknown; use 'filter' (labels from X W) or 'feature' (labels from the codes)"
        )
        raise ValueError(msg)
    for name, value in (("xi", xi), ("l1", l1), ("l2", l2)):
        if not (np.isfinite(value) and value >= 0):
            msg = f"{name}={value} must be a number >= 0"
            raise ValueError(msg)
    n = X.shape[0]
    if sparse.issparse(X) and X.format != "csr":
        X = X.tocsr()
    if Y.ndim != 2 or Y.shape[0] != n:
        msg = f"Y has shape {Y.shape}; it must be n x K with n = {n}, the rows of X (see one_hot)"
        raise ValueError(msg)
    Y, Z = (np.asarray(a) if is_dask(a) else a for a in (Y, covariates))
    Z = np.zeros((n, 0)) if Z is None else Z
    if Z.ndim != 2 or Z.shape[0] != n:
        msg = f"covariates have shape {Z.shape}; they must be n x q with n = {n}, the rows of X"
        raise ValueError(msg)
    w = _weights(weight, n, "weight")
    v = w * _weights(label_weight, n, "label_weight")
    return Problem(X, Y, Z, w, v, loss or Logistic(), model, xi, l1, l2, fit_intercept, chunk, apart)


def rows_of(problem: Problem, rows: Any) -> Problem:
    """The problem of some rows."""
    parts = {name: getattr(problem, name)[rows] for name in ("X", "Y", "Z", "weight", "label_weight")}
    return replace(problem, moment=None, **parts)


def _weights(weight: Any, n: int, name: str) -> Array:
    if weight is None:
        return np.ones(n)
    w = np.asarray(weight, dtype=np.float64)
    wrong = w[~(np.isfinite(w) & (w >= 0))]
    if w.shape != (n,) or wrong.size:
        what = f"holds {wrong[0]:g}" if w.shape == (n,) else f"has shape {w.shape}"
        msg = f"{name} {what}; it must be {n} finite numbers >= 0, one per row"
        raise ValueError(msg)
    return w


@dataclass(frozen=True)
class Sums(Additive):
    """Sums over rows: with s_i = W'x_i (filter) or h_i (feature) and k_i = v_i loss'(a_i),

    ``label`` of v loss, ``cross`` of w h'W'x, ``gram`` of w h h', ``size`` of w |h|_1, ``xh`` of w x h', ``xk`` of x k'
    (filter alone), ``sk`` of s k', ``zk`` of z k', ``k`` of k.
    """

    label: float
    cross: float
    gram: Array
    size: float
    xh: Array
    xk: Array
    sk: Array
    zk: Array
    k: Array


@dataclass(frozen=True)
class Pass:
    """``Pass(...)(X, Y, Z, w, v[, H, X W])``: the sums of a chunk; with ``inverse`` of W'W the codes are X W (W'W)^-1.

    With ``positive`` they are the best nonnegative ones; without ``atoms`` nothing is summed that X' is multiplied for.
    """

    loss: Loss
    model: Model
    at: Coefficients
    inverse: Array | None = None
    positive: bool = False
    atoms: bool = True

    def __call__(self, X: Any, Y: Any, Z: Any, w: Array, v: Array, H: Any = None, xw: Any = None) -> Sums:
        """Sums of one chunk."""
        W, B, G, intercept = self.at
        xw = forward(X, W) if xw is None else xw
        codes = xw if not self.atoms else xw @ self.inverse if self.inverse is not None else H
        if self.positive and self.atoms:
            codes = nonnegative_codes(xw, W.T @ W)[0]
        s = xw if self.model == "filter" else codes
        a = s @ B + Z @ G + intercept
        k = v[:, None] * self.loss.slope(a, Y)
        wh = w[:, None] * codes
        right = np.hstack([wh, k]) if self.model == "filter" else wh
        r = W.shape[1]
        both = backward(X, right) if self.atoms else np.zeros((0, r))
        return Sums(
            float(v @ self.loss.value(a, Y)),
            float(np.sum(wh * xw)),
            codes.T @ wh,
            float(np.abs(wh).sum()),
            both[:, :r],
            both[:, r:],
            s.T @ k,
            Z.T @ k,
            k.sum(axis=0),
        )


def row_sums(
    problem: Problem,
    at: Coefficients,
    H: Array | None,
    inverse: Array | None = None,
    xw: Array | None = None,
    **options: bool,
) -> Sums:
    """The sums of all rows, by chunks; ``xw`` = X W when it is known, ``options`` are those of the pass."""
    if problem.rows is not None:
        return over_rows(problem, Pass(problem.loss, problem.model, at, inverse, **options))
    arrays = [problem.X, problem.Y, problem.Z, problem.weight, problem.label_weight]
    if H is not None:
        arrays += [H] if xw is None else [H, xw]
    statistic = Pass(problem.loss, problem.model, at, inverse)
    if problem.whole:
        return statistic(*arrays)
    return reduce_rows(statistic, *arrays, chunk=problem.chunk)


def over_rows(problem: Problem, statistic: Callable[..., Any]) -> Any:
    """The sum of ``statistic(X, Y, Z, w, v)`` over rows that stay where they are."""
    return reduce_rows(statistic, problem.rows, chunk=problem.chunk)


def rebuilding(problem: Problem, cross: float, gram: Array, inner: Array) -> float:
    """sum_i w_i ||x_i - W h_i||^2 from sum w h'W'x, sum w h h' and W'W."""
    return problem.energy - 2.0 * cross + float(np.vdot(gram, inner))


def assemble(
    problem: Problem, label: float, cross: float, gram: Array, inner: Array, B: Array, G: Array
) -> float:
    """L without its L1 term, from the labels' loss, sum w h'W'x, sum w h h', W'W and the coefficients."""
    pairs = problem.paired(inner if problem.model == "filter" else gram)
    ridge = float(np.vdot(B, pairs @ B) + np.vdot(G, G))
    return label + problem.xi * rebuilding(problem, cross, gram, inner) + problem.l2 * ridge


def value_of(problem: Problem, at: Coefficients, sums: Sums) -> float:
    """L without its L1 term."""
    W, B, G, _ = at
    return assemble(problem, sums.label, sums.cross, sums.gram, W.T @ W, B, G)


def gradient_of(problem: Problem, at: Coefficients, sums: Sums) -> Coefficients:
    """Gradients in W, B, G and the intercept: (15), (16) and the ridge."""
    W, B, G, _ = at
    dW = 2.0 * problem.xi * (W @ sums.gram - sums.xh)
    if problem.model == "filter":
        dW += sums.xk @ B.T + 2.0 * problem.l2 * (W @ problem.paired(B @ B.T))
        inner = W.T @ W
    else:
        inner = sums.gram
    dB = sums.sk + 2.0 * problem.l2 * (problem.paired(inner) @ B)
    dG = sums.zk + 2.0 * problem.l2 * G
    return Coefficients(dW, dB, dG, sums.k if problem.fit_intercept else np.zeros_like(sums.k))


def without_codes(state: State) -> Coefficients:
    """W, B, G and the intercept."""
    return Coefficients(state.W, state.B, state.G, state.intercept)


def projections(problem: Problem, W: Array) -> Array:
    """X W, by chunks."""
    X = problem.X
    if problem.direct:
        return forward(X, W)
    if is_dask(X):
        import dask

        parts = dask_partitions(X)[0]
        done = dask.compute(*(dask.delayed(forward, pure=False)(part, W) for part in parts))
        return np.concatenate(done)
    step = problem.chunk or chunk_rows(X)
    return np.concatenate([forward(X[i : i + step], W) for i in range(0, X.shape[0], step)])


def transposed(problem: Problem, right: Array) -> Array:
    """X' right, by chunks."""
    if problem.direct:
        return backward(problem.X, right)
    return reduce_rows(backward, problem.X, right, chunk=problem.chunk)


def image(problem: Problem, Q: Array) -> Array:
    """X' diag(w) X Q, by chunks."""
    if problem.rows is not None:
        return np.asarray(over_rows(problem, partial(_image, Q=Q)))
    return transposed(problem, problem.weight[:, None] * projections(problem, Q))


def _image(X: Any, Y: Any, Z: Any, w: Array, v: Array, *, Q: Array) -> Array:
    return backward(X, w[:, None] * forward(X, Q))


def energy(problem: Problem, weight: Array) -> float:
    """sum_i weight_i ||x_i||^2."""
    return float(reduce_rows(row_energy, problem.X, weight, chunk=problem.chunk))


def activations(problem: Problem, state: State, xw: Array | None = None) -> Array:
    """X W B + Z G + c, or H B + Z G + c."""
    s = state.H if problem.model == "feature" else projections(problem, state.W) if xw is None else xw
    return s @ state.B + problem.Z @ state.G + state.intercept


def codes_gradient(problem: Problem, state: State, xw: Array | None = None) -> Array:
    """Gradient in H, its L1 term apart: 2 xi w (H W'W - X W), and k B' + 2 l2 w H B B' in the feature model."""
    W, H, B, _, _ = state
    xw = projections(problem, W) if xw is None else xw
    w = problem.weight[:, None]
    gradient = 2.0 * problem.xi * w * (H @ (W.T @ W) - xw)
    if problem.model == "feature":
        slope = problem.loss.slope(activations(problem, state), problem.Y)
        gradient += (problem.label_weight[:, None] * slope) @ B.T
        gradient += 2.0 * problem.l2 * w * (H @ problem.paired(B @ B.T))
    return gradient


def objective(problem: Problem, state: State, xw: Array | None = None) -> float:
    """L whole; ``xw`` = X W when it is known."""
    W, H, B, G, _ = state
    xw = projections(problem, W) if xw is None else xw
    wh = problem.weight[:, None] * H
    label = float(problem.label_weight @ problem.loss.value(activations(problem, state, xw), problem.Y))
    smooth = assemble(problem, label, float(np.vdot(wh, xw)), H.T @ wh, W.T @ W, B, G)
    return smooth + problem.l1 * float(np.abs(wh).sum())


def value_and_gradient(problem: Problem, state: State) -> tuple[float, State]:
    """L and all its gradients, the L1 term left out of both."""
    at, xw = without_codes(state), projections(problem, state.W)
    sums = row_sums(problem, at, state.H, xw=xw)
    d = gradient_of(problem, at, sums)
    gradient = State(d.W, codes_gradient(problem, state, xw), d.B, d.G, d.intercept)
    return value_of(problem, at, sums), gradient


def inverse_gram(W: Array) -> Array:
    """(W'W)^-1, or its pseudo-inverse."""
    values, V = eigh(W.T @ W)
    kept = values > 1e-15 * float(values.max(initial=0.0))
    return (V[:, kept] / values[kept]) @ V[:, kept].T


def best_codes(problem: Problem, W: Array) -> Array:
    """Least-squares codes X W (W'W)^-1."""
    return projections(problem, W) @ inverse_gram(W)
