"""Tables of one side for KernelPairRegressor: one or several, with a metric each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import warn_constant
from ._features import Features, fill_with, filled, refuse_overflow
from ._similarity import METRICS, check_new_side, check_side


def metrics_of(metric: Any, side: str, n: int = 1) -> tuple[str, ...]:
    """Metrics of a side, one for each of n tables."""
    given = metric[side] if isinstance(metric, dict) and side in metric else metric
    names = (given,) if isinstance(given, str) else given
    if isinstance(names, dict) or not names or not all(name in METRICS for name in names):
        msg = (
            f"metric={metric!r} must be one of {', '.join(METRICS)}, a list of some, or a dict of 'left' and 'right' to one "
            "or a list"
        )
        raise ValueError(msg)
    return tuple(names) * n if len(names) == 1 else tuple(names)


def tables_of(X: Any, side: str, metric: Any) -> list[tuple[Any, str]]:
    """Tables of a side with a metric each."""
    several = isinstance(X, list | tuple) and bool(X) and all(len(np.shape(table)) == 2 for table in X)
    tables = list(X) if several else [X] * len(metrics_of(metric, side))
    metrics = metrics_of(metric, side, len(tables))
    if len(metrics) != len(tables):
        msg = (
            f"metric={metric!r} names {len(metrics)} kernels, but the {side} side has {len(tables)} tables; give one metric for "
            "all or one for each"
        )
        raise ValueError(msg)
    return list(zip(tables, metrics, strict=True))


def read_tables(X: Any, side: str, metric: Any, impute: bool) -> tuple[list[Features], list[Any]]:
    """Tables of one side, checked, of the same entities; and the imputers of their gaps, or None."""
    found: list[Features] = []
    imputers = []
    for table, name in tables_of(X, side, metric):
        imputer = None
        if impute and name != "precomputed":
            table, imputer = filled(table, side)
        one = check_side(table, side, name)
        if name != "precomputed":
            refuse_overflow(one, side)
            warn_constant(np.ptp(one.values, axis=0), one.columns or range(one.values.shape[1]))
        found.append(one)
        imputers.append(imputer)
    _same_entities(found, side)
    return found, imputers


def read_new_tables(
    X: Any, side: str, metric: Any, imputers: list[Any], n: int, like: list[Any], entities: Any
) -> list[Features]:
    """The same of other entities: as many tables, with the columns of fit."""
    given = tables_of(X, side, metric)
    if len(given) != len(imputers):
        msg = f"the {side} side has {len(given)} tables, but fit had {len(imputers)}; give as many"
        raise ValueError(msg)
    found = []
    for (table, name), imputer, columns in zip(given, imputers, like, strict=True):
        filled_in = table if imputer is None else fill_with(imputer, table)
        found.append(check_new_side(filled_in, side, name, n, columns, entities))
    _same_entities(found, side)
    return found


def _same_entities(found: list[Features], side: str) -> None:
    for one in found[1:]:
        if len(one.values) != len(found[0].values):
            sizes = f"{len(found[0].values)} and {len(one.values)}"
            msg = f"the tables of the {side} side have {sizes} entities; give the same entities in each"
            raise ValueError(msg)
        if one.names is not None and list(one.labels()) != list(found[0].labels()):
            msg = (
                f"the tables of the {side} side name different entities, or in another order; sort them alike"
            )
            raise ValueError(msg)
