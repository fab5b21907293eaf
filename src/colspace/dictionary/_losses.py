"""Losses of the labels: multinomial with any score function, and squares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


class Loss(Protocol):
    """Loss of labels Y (n x K) at activations a (n x K), row by row."""

    def value(self, a: Array, Y: Array) -> Array:
        """Loss of each row."""
        ...

    def slope(self, a: Array, Y: Array) -> Array:
        """Derivatives by the activations (n x K)."""
        ...

    def hessian(self, a: Array, Y: Array) -> Array:
        """Second derivatives (n x K x K)."""
        ...

    def curvature(self, n_outputs: int) -> float | None:
        """A bound on the eigenvalues of the Hessian, None where it has none."""
        ...

    def mean(self, a: Array) -> Array:
        """What is expected of the labels: probabilities of all classes, or the response itself."""
        ...


@dataclass(frozen=True)
class Multinomial:
    """-log g_y(a) with g_j = h(a_j) / (1 + sum h), g_0 = 1 / (1 + sum h) for a positive score function h."""

    h: Callable[[Array], Array]
    first: Callable[[Array], Array]
    second: Callable[[Array], Array]
    bound: float | None = None

    def value(self, a: Array, Y: Array) -> Array:
        """-sum_j y_j log h(a_j) + log(1 + sum h)."""
        h = self.h(a)
        return np.log1p(h.sum(axis=1)) - np.sum(Y * np.log(h), axis=1)

    def slope(self, a: Array, Y: Array) -> Array:
        """h'_j / (1 + sum h) - y_j h'_j / h_j: equation (14)."""
        h, first = self.h(a), self.first(a)
        return first / (1.0 + h.sum(axis=1, keepdims=True)) - Y * first / h

    def hessian(self, a: Array, Y: Array) -> Array:
        """diag(h'' / S - y (h'' / h - (h' / h)^2)) - h' h'' / S^2 with S = 1 + sum h."""
        h, first, second = self.h(a), self.first(a), self.second(a)
        total = 1.0 + h.sum(axis=1, keepdims=True)
        diagonal = second / total - Y * (second / h - (first / h) ** 2)
        part = first / total
        return diagonal[:, :, None] * np.eye(a.shape[1]) - part[:, :, None] * part[:, None, :]

    def curvature(self, n_outputs: int) -> float | None:
        """The bound that was given."""
        return self.bound

    def mean(self, a: Array) -> Array:
        """Probabilities of the classes 0..K."""
        h = self.h(a)
        whole = np.column_stack([np.ones(len(a)), h])
        return whole / whole.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Logistic:
    """The multinomial loss with h = exp, safe for activations of any size."""

    def value(self, a: Array, Y: Array) -> Array:
        """log(1 + sum exp a) - y'a."""
        if a.shape[1] == 1:
            return np.logaddexp(0.0, a[:, 0]) - Y[:, 0] * a[:, 0]
        top = np.maximum(a.max(axis=1), 0.0)
        total = np.exp(-top) + np.exp(a - top[:, None]).sum(axis=1)
        return top + np.log(total) - np.sum(Y * a, axis=1)

    def slope(self, a: Array, Y: Array) -> Array:
        """g - y."""
        return expit(a) - Y if a.shape[1] == 1 else self.mean(a)[:, 1:] - Y

    def hessian(self, a: Array, Y: Array) -> Array:
        """diag(g) - g g'."""
        g = self.mean(a)[:, 1:]
        return g[:, :, None] * np.eye(a.shape[1]) - g[:, :, None] * g[:, None, :]

    def curvature(self, n_outputs: int) -> float | None:
        """1/4 for two classes, 1/2 for more."""
        return 0.25 if n_outputs == 1 else 0.5

    def mean(self, a: Array) -> Array:
        """Probabilities of the classes 0..K."""
        whole = np.column_stack([np.zeros(len(a)), a])
        whole = np.exp(whole - whole.max(axis=1, keepdims=True))
        return whole / whole.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Squared:
    """||y - a||^2: the linear-regression versions (7) and (9)."""

    def value(self, a: Array, Y: Array) -> Array:
        """||y - a||^2."""
        return np.sum((a - Y) ** 2, axis=1)

    def slope(self, a: Array, Y: Array) -> Array:
        """2 (a - y)."""
        return 2.0 * (a - Y)

    def hessian(self, a: Array, Y: Array) -> Array:
        """2 I."""
        return np.broadcast_to(2.0 * np.eye(a.shape[1]), (len(a), a.shape[1], a.shape[1])).copy()

    def curvature(self, n_outputs: int) -> float | None:
        """2."""
        return 2.0

    def mean(self, a: Array) -> Array:
        """The activations."""
        return a


def one_hot(classes: Any, n_classes: int) -> Array:
    """Classes 0..K as n x K: class 0, the reference, is a row of zeros."""
    codes = np.asarray(classes)
    if n_classes < 2:
        msg = f"labels of {n_classes} class(es); a classifier needs at least 2"
        raise ValueError(msg)
    if codes.min() < 0 or codes.max() >= n_classes:
        msg = f"class codes run from {codes.min()} to {codes.max()}; they must lie in 0..{n_classes - 1}"
        raise ValueError(msg)
    return (codes[:, None] == np.arange(1, n_classes)).astype(np.float64)
