"""The published bound on the error of an imputation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..factor import singular_values, spectral_norm


def error_bound(
    loadings: Any, noise: float, observed: Any, *, lipschitz: float = 1.0, probability: float = 0.95
) -> float:
    r"""Mean squared error of one row's imputation that holds with the given probability (Theorem 3).

    With sigma^2 the noise, t = -log(1 - probability) and L the Lipschitz constant of g,

    .. math:: \mathrm{MSE} \le L^2 \sigma^2 \Big(\sqrt{1 + \frac{1 - \sigma^2}{\sigma^2 + \lambda_k^2(W_O)}}
        + \sqrt{\Big(1 + \frac{\lambda_1^2(W_M)}{\sigma^2 + \lambda_k^2(W_O)}\Big) \frac{2t}{|M|}}\Big)^2 ,

    the lambdas being singular values of the loadings of observed and missing columns.

    Parameters
    ----------
    loadings : array (p, k)
        Rows of squared length 1 - noise.
    noise : float
        sigma^2, common to all columns.
    observed : bool array (p,)
        Which columns of the row are observed.
    lipschitz : float, default=1.0
        Of g, the same for all missing columns.
    probability : float, default=0.95

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.copula import error_bound
    >>> W = np.sqrt(0.9 / 2) * np.ones((100, 2)) * np.where(np.arange(100)[:, None] % 2, 1, [1, -1])
    >>> round(error_bound(W, 0.1, np.arange(100) < 60), 2)
    0.23
    """
    W = np.asarray(loadings, dtype=np.float64)
    observed = np.asarray(observed, dtype=bool)
    fits = W.ndim == 2 and observed.shape == W.shape[:1] and lipschitz > 0
    if not (fits and 0 < noise < 1 and 0 < probability < 1):
        msg = (
            f"loadings of shape {W.shape}, noise={noise}, observed of shape {observed.shape}, "
            f"probability={probability}, lipschitz={lipschitz}: loadings are columns x factors, with one flag per row; noise "
            "and probability lie between 0 and 1, lipschitz above 0"
        )
        raise ValueError(msg)
    missing = int((~observed).sum())
    if not missing:
        return 0.0
    k = W.shape[1]
    smallest = singular_values(W[observed])[-1] ** 2 if observed.sum() >= k else 0.0
    largest = spectral_norm(W[~observed]) ** 2
    t = -np.log1p(-probability)
    first = np.sqrt(1 + (1 - noise) / (noise + smallest))
    second = np.sqrt((1 + largest / (noise + smallest)) * 2 * t / missing)
    return float(lipschitz**2 * noise * (first + second) ** 2)
