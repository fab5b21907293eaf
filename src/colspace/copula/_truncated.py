"""Moments of a standard normal restricted to an interval, in every tail."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

_NARROW, _FAR, _NEAR = 0.3, -8.0, 4.0  # closed forms cancel in narrow intervals and in far ones
_BEYOND = 40.0  # where the density is zero
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


def truncated_moments(low: Array, high: Array) -> Truncated:
    r"""Mean and variance of a standard normal between ``low`` and ``high``.

    .. math:: E = \frac{\phi(a) - \phi(b)}{\Phi(b) - \Phi(a)}, \qquad
        V = 1 + \frac{a \phi(a) - b \phi(b)}{\Phi(b) - \Phi(a)} - E^2 ,

    by these formulas where they are safe, by Gauss-Legendre nodes in narrow or far intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.copula._truncated import truncated_moments
    >>> found = truncated_moments(np.array([-1.0, 37.0]), np.array([1.0, np.inf]))
    >>> np.round(found.mean, 4), np.round(found.variance, 6)
    (array([ 0.   , 37.027]), array([0.291125, 0.000727]))
    """
    mean, variance, at_low, at_high = (np.empty(len(low)) for _ in range(4))
    for i in range(0, len(low), _CHUNK):
        part = slice(i, i + _CHUNK)
        mean[part], variance[part], at_low[part], at_high[part] = _moments(low[part], high[part])
    return Truncated(mean, variance, at_low, at_high)


def _moments(low: Array, high: Array) -> tuple[Array, ...]:
    a, b = np.maximum(low, -_BEYOND), np.minimum(high, _BEYOND)
    hard = np.flatnonzero((b - a < _NARROW) | (b < _FAR) | (a > _NEAR))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parts = _closed(a, b)
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
    return parts


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


def _closed(a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    scale = ndtr(b)
    scale -= ndtr(a)
    np.divide(_ROOT, scale, out=scale)
    at_a, at_b = _density(a), _density(b)
    at_a *= scale
    at_b *= scale
    mean = at_a - at_b
    variance = a * at_a
    variance -= b * at_b
    variance -= mean * mean
    variance += 1.0
    return mean, variance, at_a, at_b


def _density(a: Array) -> Array:
    """exp(-a^2 / 2)."""
    out = a * a
    out *= -0.5
    return np.exp(out, out=out)


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
