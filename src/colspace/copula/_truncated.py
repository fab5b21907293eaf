"""Moments of a standard normal restricted to an interval, in every tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]
Take = Callable[..., Any]

_NARROW, _FAR, _NEAR = 0.3, -8.0, 4.0  # closed forms cancel in narrow intervals and in far ones
_BEYOND = 40.0  # where the density is zero
_OUT = 8.0  # place up to which the variance beyond it has all its digits
_CHUNK = 1 << 13  # values that a cache holds
_REACH = 45.0  # exp(-45) is nothing beside one
_LEAST = 1e-16  # width, relative to the place, that rounding leaves
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_ROOT = 1.0 / np.sqrt(2 * np.pi)


class Truncated(NamedTuple):
    """Mean and variance, and the densities at both ends relative to the mass between them."""

    mean: Array
    variance: Array
    at_low: Array
    at_high: Array


def truncated_moments(low: Array, high: Array, take: Take | None = None) -> Truncated:
    r"""Mean and variance of a standard normal between ``low`` and ``high``.

    .. math:: E = \frac{\phi(a) - \phi(b)}{\Phi(b) - \Phi(a)}, \qquad
        V = 1 + \frac{a \phi(a) - b \phi(b)}{\Phi(b) - \Phi(a)} - E^2 ,

    by these formulas where they are safe, by simpler ones where one end is infinite, by Gauss-Legendre nodes in narrow or far intervals. ``take(name, size)`` gives
    arrays for the results and on the way (default: new ones).

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.copula._truncated import truncated_moments
    >>> found = truncated_moments(np.array([-1.0, 37.0]), np.array([1.0, np.inf]))
    >>> np.round(found.mean, 4), np.round(found.variance, 6)
    (array([ 0.   , 37.027]), array([0.291125, 0.000727]))
    """
    n = len(low)
    named = take or (lambda name, size: np.empty(size))
    out = Truncated(*(named(f"truncated {name}", n) for name in Truncated._fields))
    spare = [named(f"truncated spare {i}", min(n, _CHUNK)) for i in range(4)]
    for i in range(0, n, _CHUNK):
        part = slice(i, i + _CHUNK)
        size = len(low[part])
        _moments(low[part], high[part], [x[part] for x in out], [x[:size] for x in spare])
    return out


def _moments(low: Array, high: Array, parts: list[Array], spare: list[Array]) -> None:
    """Each value by itself by the formulas that its ends ask for; those that most ask for are used on all first."""
    below = np.isneginf(low)
    u = np.negative(low, out=spare[0])
    np.copyto(u, high, where=below)
    np.minimum(u, _BEYOND, out=u)
    one = (below | np.isposinf(high)) & (u > -_OUT)
    np.maximum(u, -_OUT, out=u)
    few = np.flatnonzero(~one)
    if 2 * few.size <= len(low):
        _one_sided(u, below, parts, spare[1])
        some = [np.empty(few.size) for _ in range(8)]
        _between(low[few], high[few], some[:4], some[4:])
    else:
        few = np.flatnonzero(one)
        some = [np.empty(few.size) for _ in range(5)]
        _one_sided(u[few], below[few], some[:4], some[4])
        _between(low, high, parts, spare)
    for whole, each in zip(parts, some[:4], strict=True):
        whole[few] = each


def _one_sided(u: Array, below: NDArray[np.bool_], out: list[Array], ratio: Array) -> None:
    r"""Up to u (``below``), or from -u on, into ``out``: with :math:`h = \phi(u) / \Phi(u)` the mean is -h or h, the variance 1 - h (h + u)."""
    mean, variance, at_low, at_high = out
    np.multiply(u, u, out=ratio)
    ratio *= -0.5
    np.exp(ratio, out=ratio)
    ratio *= _ROOT
    ratio /= ndtr(u, out=variance)
    np.add(ratio, u, out=variance)
    variance *= ratio
    np.subtract(1.0, variance, out=variance)
    np.multiply(ratio, below, out=at_high)
    np.subtract(ratio, at_high, out=at_low)
    np.subtract(at_low, at_high, out=mean)


def _between(low: Array, high: Array, parts: list[Array], spare: list[Array]) -> None:
    a, b = np.maximum(low, -_BEYOND, out=spare[0]), np.minimum(high, _BEYOND, out=spare[1])
    np.subtract(b, a, out=spare[2])
    hard = np.flatnonzero((spare[2] < _NARROW) | (b < _FAR) | (a > _NEAR))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        _closed(a, b, parts, spare[2], spare[3])
    if hard.size:
        a, b = low[hard], high[hard]
        flip = b > -a  # look at the left tail only
        mean, variance, at_a, at_b = _by_nodes(np.where(flip, -b, a), np.where(flip, -a, b))
        for whole, some in zip(
            parts,
            (np.where(flip, -mean, mean), variance, np.where(flip, at_b, at_a), np.where(flip, at_a, at_b)),
            strict=True,
        ):
            whole[hard] = some


def log_mass(low: Array, high: Array) -> Array:
    """log(Phi(high) - Phi(low)) without underflow."""
    flip = high > -low
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    hard = (b - a < _NARROW) | (b < _FAR)
    easy = ~hard
    out = np.empty_like(a)
    out[easy] = np.log(ndtr(b[easy]) - ndtr(a[easy]))
    if hard.any():
        half, _, density = _stretch(a[hard], b[hard])
        out[hard] = np.log(_ROOT * half * density.sum(axis=1)) - 0.5 * b[hard] ** 2
    return out


def _closed(a: Array, b: Array, out: list[Array], scale: Array, product: Array) -> None:
    """The closed forms, into ``out``; the other two are room for work."""
    mean, variance, at_a, at_b = out
    ndtr(b, out=scale)
    scale -= ndtr(a, out=product)
    np.divide(_ROOT, scale, out=scale)
    for end, density in ((a, at_a), (b, at_b)):
        np.multiply(end, end, out=density)
        density *= -0.5
        np.exp(density, out=density)
        density *= scale
    np.subtract(at_a, at_b, out=mean)
    np.multiply(a, at_a, out=variance)
    variance -= np.multiply(b, at_b, out=product)
    variance -= np.multiply(mean, mean, out=product)
    variance += 1.0


def _stretch(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Half length, offsets from b and weighted densities relative to phi(b) on the stretch that matters.

    b is at most about zero and the density grows towards it.
    """
    size = np.maximum(-b, 1.0)
    half = 0.5 * np.clip(b - a, _LEAST * size, _REACH / size)
    offset = half[:, None] * (_NODES - 1.0)
    return half, offset, _WEIGHTS * np.exp(-offset * (b[:, None] + 0.5 * offset))


def _by_nodes(a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    half, offset, density = _stretch(a, b)
    mass = density.sum(axis=1)
    shift = (density * offset).sum(axis=1) / mass
    variance = (density * (offset - shift[:, None]) ** 2).sum(axis=1) / mass
    at_b = 1.0 / (half * mass)
    return b + shift, variance, at_b * np.exp(np.minimum(0.5 * (b - a) * (b + a), 0.0)), at_b
