"""The few private names of scikit-learn that the library leans on, in one place."""

from numbers import Integral
from typing import Any

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

__all__ = ["HasMethods", "Interval", "StrOptions", "_fit_context", "whole"]


class _Whole(Interval):
    """An interval of whole numbers in which True is not one."""

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


def whole(low: int, high: int | None = None) -> Interval:
    """The constraint of a parameter that counts something: a whole number from ``low`` on, up to ``high``.

    Examples
    --------
    >>> [whole(1).is_satisfied_by(value) for value in (1, True, 0, 1.0)]
    [True, False, False, False]
    >>> str(whole(1))
    'an int in the range [1, inf)'
    """
    return _Whole(Integral, low, high, closed="left" if high is None else "both")
