"""Kernels written out in full, block by block."""

import numpy as np
from scipy.linalg import eigh

from colspace.scores import _kernel_solvers as solvers
from colspace.scores._kernel_fields import Radial
from colspace.scores._kernel_system import MARGIN


def table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) @ np.diag(np.linspace(0.7, 1.6, p)) + rng.standard_normal(p)


def explicit_kernel(X, kernel, *, curl_free):
    """The np x np matrix, and div_x K(x_i, x_j), block by block."""
    n, p = X.shape
    K, divergence = np.zeros((n, p, n, p)), np.zeros((n, n, p))
    for i in range(n):
        for j in range(n):
            d = X[i] - X[j]
            r = np.array(d @ d)
            d0, d1, d2, d3 = kernel.derivatives(r, 0, 1, 2, 3)
            if curl_free:
                K[i, :, j] = -2 * d1 * np.eye(p) - 4 * d2 * np.outer(d, d)
                divergence[i, j] = -d * (4 * (p + 2) * d2 + 8 * r * d3)
            else:
                K[i, :, j] = d0 * np.eye(p)
                divergence[i, j] = 2 * d1 * d
    return K.reshape(n * p, n * p), divergence


def finite_gradient(function, X, h=1e-5):
    """Derivatives of a function of rows: result[..., a] is that in column a."""
    steps = h * np.eye(X.shape[1])
    return np.stack([(function(X + e) - function(X - e)) / (2 * h) for e in steps], axis=-1)


def dense_reference(X, rows, model):
    """g at rows through the np x np matrix and the filter on its eigenvalues: -R(L) zeta, extended to new rows."""
    n, p = X.shape
    kernel = Radial(model.kernel, model.bandwidth_)
    curl_free = model.curl_free and model.method not in ("stein", "ssge")
    both = np.vstack([X, rows])
    K, divergence = explicit_kernel(both, kernel, curl_free=curl_free)
    K = K.reshape(len(both), p, len(both), p)
    zeta = divergence[:n].mean(axis=0)
    scale = model.lambda_max_ * MARGIN if model.normalize else 1.0
    M = K[:n, :, :n].reshape(n * p, n * p) / (n * scale)
    values, vectors = eigh(M)
    inside = vectors.T @ zeta[:n].ravel() / scale
    lam = model.regularization_
    if model.method == "stein" and not model.normalize:
        lam = lam / n
    if model.method in ("tikhonov", "stein"):
        filtered = 1 / (values + lam)
    elif model.method == "landweber":
        filtered = (1 - (1 - values) ** model.n_iter_) / values
    elif model.method == "nu":
        f = last = np.zeros_like(values)
        for t in range(1, model.n_iter_ + 1):
            u, w = solvers._nu_weights(t, model.nu)
            f, last = f + u * (f - last) + w * (1 - values * f), f
        filtered = f
    elif model.method == "spectral":
        filtered = np.where(values >= lam, 1 / values, 0)
    else:  # every eigenvalue of the n x n matrix stands p times here
        once = np.sort(values)[::-1][::p]
        kept = np.searchsorted(np.cumsum(once), (1 - lam) * once.sum()) + 1
        filtered = np.where(values >= once[kept - 1] * (1 - 1e-9), 1 / values, 0)
    on_sample = -(vectors @ (filtered * inside)).reshape(n, p)
    # R(L) zeta = R(0) zeta + (R(L) - R(0)) / L . L zeta: the part in the kernel's span has coefficients
    at_zero = {
        "tikhonov": 1 / lam,
        "stein": 1 / lam,
        "landweber": model.n_iter_,
        "spectral": 0.0,
        "ssge": 0.0,
    }
    if model.method == "nu":
        f = last = 0.0
        for t in range(1, model.n_iter_ + 1):
            u, w = solvers._nu_weights(t, model.nu)
            f, last = f + u * (f - last) + w, f
        at_zero["nu"] = f
    a = at_zero[model.method]
    coef = -vectors @ ((filtered - a) / values * inside)
    away = K[n:, :, :n].reshape(len(rows) * p, n * p) @ coef / (n * scale)
    return on_sample, -a * zeta[n:] / scale + away.reshape(len(rows), p)
