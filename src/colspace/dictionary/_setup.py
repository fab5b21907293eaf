"""What the estimators hand around: parameters, a problem with its data, a path of fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ._losses import Array
from ._objective import Problem


@dataclass(frozen=True)
class XiPath:
    """Fits over a grid of xi, each begun at the one before.

    ``reconstruction_error`` is ||X - H W'||^2 / ||X||^2, ``label_loss`` the mean loss of the labels, ``score`` that of the
    estimator, all on the rows of the fit.
    """

    xi: Array
    reconstruction_error: Array
    label_loss: Array
    score: Array
    models: tuple[Any, ...]


class Setup(NamedTuple):
    """What is fitted: the checked table, y and weights, and the problem, in which y is (y - shift) / sqrt(unit).

    ``null_loss`` is the mean loss of a constant prediction.
    """

    table: Any
    y: NDArray[Any]
    weight: Array | None
    problem: Problem
    null_loss: float
    unit: float = 1.0
    shift: Array | float = 0.0


def keep(estimator: BaseEstimator, given: dict[str, Any]) -> None:
    """The arguments of ``__init__``, its ``locals()``, as attributes of the same names: nothing is checked or changed there."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)
