"""Columns that know the response without error: most often the response itself, in other words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._response import DeterminedResponseWarning
from ._ridge import ResponseMap

Array = NDArray[np.float64]

_EXACT = 1e-9  # share of its variance that a column may keep to itself


@dataclass(frozen=True)
class Known:
    """E[x v'] of every column with the mapped responses v, of so many rows."""

    cross: Array
    response: ResponseMap
    labels: bool
    count: float

    def columns(self, scale: Array) -> tuple[list[int], list[int]]:
        r"""Columns of deviation ``scale`` that determine a response, and those with one value in every class.

        With standardised or whitened v the share of a column that v knows is :math:`|E[x v]|^2 / s^2`; it is one for
        :math:`x = a + b\,y`, and for labels where a column does not vary within classes. Distinct means of the classes then
        give the label.
        """
        q = self.cross.shape[1]
        if self.count < 3 * (q + 1):  # few rows: everything fits
            return [], []
        C = self.cross / np.where(scale > 0, scale, np.inf)[:, None]
        if not self.labels:
            return np.flatnonzero((C**2).max(axis=1) > 1 - _EXACT).tolist(), []
        flat = np.flatnonzero((C**2).sum(axis=1) > 1 - _EXACT)
        means = np.sort(C[flat] @ np.linalg.pinv(self.response.map) / self.response.mean, axis=1)
        distinct = np.diff(means, axis=1).min(axis=1, initial=np.inf) > 1e-6
        return flat[distinct].tolist(), flat[~distinct].tolist()


def warn_known(known: Known, scale: Array, names: Sequence[object]) -> None:
    """Name the columns that give the response away."""
    whole, flat = known.columns(scale)
    said = [f"column {names[i]!r} determines y" for i in whole]
    said += [f"column {names[i]!r} has one value in every class of y" for i in flat]
    if said:
        shown = "; ".join(said[:5]) + ("; ..." if len(said) > 5 else "")
        warnings.warn(
            f"{shown}. Directions and scores rest on it: drop it if it is y in other words",
            DeterminedResponseWarning,
            stacklevel=6,
        )
