"""The three elliptical laws with their parameters and draws."""

import numpy as np
from scipy import optimize, stats

from colspace.scores import GaussianScore, HyperbolicScore, StudentScore

LAWS = ["gaussian", "student", "hyperbolic"]
MODELS = [GaussianScore, StudentScore, HyperbolicScore]
DF, CHI, PSI = 9.0, 1.7, 2.9


def parameters(p, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((p, p)) + 2 * np.eye(p)
    return rng.standard_normal(p), A


def known(law, p):
    """A law with every parameter given; fit has nothing to learn."""
    mu, A = parameters(p)
    C = A @ A.T
    model = {
        "gaussian": lambda: GaussianScore(location=mu, covariance=C),
        "student": lambda: StudentScore(df=DF, location=mu, covariance=C),
        "hyperbolic": lambda: HyperbolicScore(chi=CHI, psi=PSI, location=mu, dispersion=C),
    }[law]()
    return model.fit(np.random.default_rng(1).standard_normal((2, p)))


def mixing(law, n, rng, p, df=DF, chi=CHI, psi=PSI):
    """w of x = mu + sqrt(w) A z; A A' is the covariance (Gaussian, t) or the dispersion (hyperbolic)."""
    if law == "gaussian":
        return np.ones(n)
    if law == "student":
        return (df - 2) / rng.chisquare(df, n)
    law = stats.geninvgauss((p + 1) / 2, np.sqrt(chi * psi), scale=np.sqrt(chi / psi))
    return law.rvs(n, random_state=rng)


def draw(law, n, p, rng, mu=None, A=None, **shape):
    if mu is None:
        mu, A = parameters(p)
    w = mixing(law, n, rng, p, **shape)
    return mu + np.sqrt(w)[:, None] * (rng.standard_normal((n, p)) @ A.T)


def per_row_T(model, X):
    return np.stack([model.second_moment(x[None], np.ones(1)) for x in X])


def z_scores(terms):
    """Means of terms over rows in units of their standard errors."""
    return terms.mean(axis=0) / (terms.std(axis=0) / np.sqrt(len(terms)))


def unpack(theta, p):
    L = np.zeros((p, p))
    L[np.tril_indices(p)] = theta[p : p + p * (p + 1) // 2]
    L[np.diag_indices(p)] = np.exp(np.diag(L))
    return theta[:p], L, theta[p + p * (p + 1) // 2 :]


def direct_maximum(X, log_density, extra):
    """Largest mean log-likelihood that a general optimiser finds from a few starts."""
    p = X.shape[1]
    best = -np.inf
    for first in extra:
        start = np.concatenate([X.mean(axis=0), np.zeros(p * (p + 1) // 2), first])
        found = optimize.minimize(lambda t: -log_density(X, *unpack(t, p)).mean(), start, method="BFGS")
        best = max(best, -found.fun)
    return best
