"""Sets that the blocks live in, projections on them, and the radius of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ._losses import Array

_HAIR = 1.0 - 4.0 * np.finfo(np.float64).eps
_EDGE = 1e-12  # relative distance from a sphere that counts as on it


@dataclass(frozen=True)
class Region:
    """{x >= 0 if ``positive``, ||x||_F <= ``norm``}."""

    positive: bool = False
    norm: float = np.inf

    def __post_init__(self) -> None:
        if not self.norm > 0:
            msg = f"norm={self.norm} of a region must be > 0 (infinity: no bound)"
            raise ValueError(msg)

    def project(self, x: Array, threshold: Array | float = 0.0) -> Array:
        """Nearest point of the set; with ``threshold`` t the minimum of ||z - x||^2 / 2 + sum t |z| on it."""
        priced = isinstance(threshold, np.ndarray) or threshold != 0.0
        if self.positive:
            x = np.maximum(x - threshold if priced else x, 0.0)
        elif priced:
            x = np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)
        if not isfinite(self.norm):
            return x
        size = float(np.linalg.norm(x))
        if size > self.norm:
            x = x * (self.norm / size)
            while np.linalg.norm(x) > self.norm:
                x = x * _HAIR
        return x

    def contains(self, x: Array) -> bool:
        """Whether x lies in the set, exactly."""
        return not (self.positive and bool(np.any(x < 0))) and float(np.linalg.norm(x)) <= self.norm

    def descent(self, x: Array, gradient: Array, thrift: Array | float = 0.0) -> float:
        """Steepest descent of f + sum thrift |x| at x by a unit feasible direction: the measure (17).

        It is the norm of -gradient projected on the tangent cone.
        """
        if self.positive:
            v = -gradient - thrift
            v = np.where(x > 0, v, np.maximum(v, 0.0))
        else:
            at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - thrift, 0.0)
            v = -np.where(x != 0, gradient + thrift * np.sign(x), at_zero)
        size = float(np.linalg.norm(x))
        if size >= self.norm * (1.0 - _EDGE):
            outward = float(np.sum(v * x))
            if outward > 0:
                v = v - outward / size**2 * x
        return float(np.linalg.norm(v))


@dataclass(frozen=True)
class Regions:
    """A set for each block: W, H, B, and G with the intercept."""

    dictionary: Region = Region()
    codes: Region = Region()
    coefficients: Region = Region()
    covariates: Region = Region()


BOUNDED = ("dictionary", "codes", "coefficients", "covariates")  # blocks of the descent
PRODUCTS = "products"  # the lifted matrix


def check_bounds(given: Mapping[str, Any] | None) -> dict[str, float]:
    """Norms by block, each a finite number > 0."""
    bounds: dict[str, float] = {}
    for name, norm in (given or {}).items():
        if name not in (*BOUNDED, PRODUCTS):
            msg = f"bounds names {name!r}; it takes {', '.join(map(repr, BOUNDED))} and, for solver='lpgd', {PRODUCTS!r}"
            raise ValueError(msg)
        number = isinstance(norm, Real) and not isinstance(norm, bool | np.bool_)
        if not (number and isfinite(norm) and norm > 0):
            msg = f"bounds of {name!r} is {norm!r}; give a finite number > 0, or leave {name!r} out for no bound"
            raise ValueError(msg)
        bounds[name] = float(norm)
    return bounds


NONNEGATIVE = Regions(dictionary=Region(positive=True), codes=Region(positive=True))


@dataclass(frozen=True)
class Radius:
    """r_k = scale / (k^power log(k + 1)^logs), in units of a block's norm at the start, or as it is if ``absolute``.

    Its sum must be infinite and the sum of its squares finite. The published radius is absolute and falls like 1/k:
    ``Radius(power=1.0, logs=0.0, absolute=True)``.
    """

    scale: float = 1.0
    power: float = 0.5
    logs: float = 1.0
    absolute: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            msg = f"scale={self.scale} of the radius must be a number > 0"
            raise ValueError(msg)
        rule = f"radius 1 / (k^{self.power:g} log(k + 1)^{self.logs:g})"
        if not (self.power < 1 or (self.power == 1 and self.logs <= 1)):
            msg = f"{rule} has a finite sum, so steps may end too early; use power < 1, or power = 1 and logs <= 1"
            raise ValueError(msg)
        if not (self.power > 0.5 or (self.power == 0.5 and self.logs > 0.5)):
            msg = (
                f"{rule} has squares with an infinite sum, so steps may not settle; "
                "use power > 1/2, or power = 1/2 and logs > 1/2"
            )
            raise ValueError(msg)

    def __call__(self, k: int) -> float:
        """r_k for k = 1, 2, ..."""
        return float(self.scale / (k**self.power * np.log(k + 1.0) ** self.logs))


def nearest(x: Array, region: Region, centre: Array, radius: float, threshold: Array | float = 0.0) -> Array:
    """``region.project`` on the part of the set within ``radius`` of ``centre``, a point of it.

    With s in [0, 1] the answer is project(c + s (x - c), s t), at the s whose distance from c is the radius.
    """
    free = region.project(x, threshold)
    if not isfinite(radius) or np.linalg.norm(free - centre) <= radius:
        return free
    away = x - centre

    def at(s: float) -> Array:
        return region.project(centre + s * away, s * threshold)

    s = brentq(lambda s: float(np.linalg.norm(at(s) - centre)) - radius, 0.0, 1.0, xtol=1e-14, rtol=1e-12)
    found = at(s)
    reach = float(np.linalg.norm(found - centre))
    if reach > radius:
        found = region.project(centre + (radius / reach) * (found - centre))
    return found
