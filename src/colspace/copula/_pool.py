"""Rubin's rules."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Array = NDArray[np.float64]


class Pooled(NamedTuple):
    """Estimate, standard error, degrees of freedom and interval."""

    estimate: Array
    standard_error: Array
    df: Array
    lower: Array
    upper: Array


def pool(estimates: Any, variances: Any, *, level: float = 0.95, complete_df: float = np.inf) -> Pooled:
    r"""Combine an analysis of m completed tables by Rubin's rules.

    With Q the estimates, U their variances and B the variance of Q between tables,

    .. math:: \bar Q = \tfrac1m \sum Q, \quad T = \bar U + (1 + \tfrac1m) B, \quad
        \nu = (m - 1) \Big(1 + \frac{\bar U}{(1 + 1/m) B}\Big)^2 ,

    nu lowered for small samples as Barnard and Rubin do when ``complete_df`` is given.

    Parameters
    ----------
    estimates : array (m, ...)
        One estimate, or several, from each table.
    variances : array (m, ...)
        Their squared standard errors.
    level : float, default=0.95
    complete_df : float, default=inf
        Degrees of freedom that the analysis would have without gaps.

    Examples
    --------
    >>> from colspace.copula import pool
    >>> found = pool([1.0, 1.2, 0.9, 1.1], [0.04, 0.05, 0.04, 0.05])
    >>> round(float(found.estimate), 3), round(float(found.standard_error), 3)
    (1.05, 0.257)
    """
    Q, U = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if Q.shape != U.shape or Q.ndim < 1 or len(Q) < 2 or (U < 0).any():
        msg = (
            f"estimates of shape {Q.shape} and variances of shape {U.shape}: give the same shape, at least two "
            "tables along the first axis, and variances of at least 0"
        )
        raise ValueError(msg)
    if not np.isfinite(Q).all() or not np.isfinite(U).all():
        msg = "estimates or variances are not finite; every table must give numbers, so leave out what failed"
        raise ValueError(msg)
    if not 0 < level < 1 or not complete_df > 0:
        msg = f"level={level!r} must lie between 0 and 1, e.g. 0.95, and complete_df={complete_df!r} above 0"
        raise ValueError(msg)
    m = len(Q)
    within, between = U.mean(axis=0), Q.var(axis=0, ddof=1)
    added = (1 + 1 / m) * between
    total = within + added
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, added / total, 0.0)
        df = np.where(share > 0, (m - 1) / share**2, np.inf)
        if np.isfinite(complete_df):
            seen = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
            df = 1 / (1 / df + 1 / seen)
    error = np.sqrt(total)
    reach = student.ppf(0.5 + 0.5 * level, df) * error
    estimate = Q.mean(axis=0)
    return Pooled(estimate, error, df, estimate - reach, estimate + reach)
