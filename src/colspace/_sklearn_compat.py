"""The few private names of scikit-learn that the library leans on, in one place."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._set_output import (
    ADAPTERS_MANAGER,
    _get_output_config,
    check_library_installed,
    get_columns,
)

__all__ = ["HasMethods", "Interval", "StrOptions", "_fit_context", "at_least", "for_output", "whole"]


class _Numbers(Interval):
    """An interval of numbers in which True is not one."""

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
    return _Numbers(Integral, low, high, closed="left" if high is None else "both")


def at_least(low: float) -> Interval:
    """The constraint of a parameter that is a number from ``low`` on, infinity included.

    Examples
    --------
    >>> [at_least(1).is_satisfied_by(value) for value in (1.5, np.inf, True, 0.5)]
    [True, True, False, False]
    """
    return _Numbers(Real, low, np.inf, closed="both")


class _ArrowAdapter:
    """``set_output(transform="pyarrow")``: embeddings and filled tables as Arrow tables."""

    container_lib = "pyarrow"

    def create_container(self, X_output: Any, X_original: Any, columns: Any, inplace: bool = True) -> Any:
        arrow = check_library_installed("pyarrow")
        if self.is_supported_container(X_output):
            found = X_output
        elif hasattr(X_output, "__arrow_c_stream__"):
            found = arrow.table(X_output)
        else:
            values = np.asarray(X_output)
            found = arrow.table({str(j): values[:, j] for j in range(values.shape[1])})
        names = get_columns(columns)
        return found if names is None else self.rename_columns(found, names)

    def is_supported_container(self, X: Any) -> bool:
        return isinstance(X, check_library_installed("pyarrow").Table)

    def rename_columns(self, X: Any, columns: Any) -> Any:
        return X.rename_columns([str(name) for name in columns])

    def hstack(self, Xs: Any) -> Any:
        arrow = check_library_installed("pyarrow")
        names = [name for X in Xs for name in X.column_names]
        return arrow.Table.from_arrays([column for X in Xs for column in X.columns], names=names)


ADAPTERS_MANAGER.register(_ArrowAdapter())


def for_output(estimator: Any, table: Any) -> Any:
    """A table that scikit-learn can wrap: Arrow becomes pandas where that is asked for, everything else stays."""
    arrow = type(table).__module__.startswith("pyarrow")
    if arrow and _get_output_config("transform", estimator)["dense"] == "pandas":
        return table.to_pandas()
    return table
