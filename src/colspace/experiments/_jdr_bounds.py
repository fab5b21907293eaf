"""The bounds of the joint-reduction papers, as numbers, for their two models.

With u = U'a, v = V'b standard Gaussian in r dimensions and f the mean of y given both, the theorems need
Q = E[u f v'], sigma^2 = E||u f v' - Q||^2, tau_0^2 = E f^2, tau_1^2 = E||u f||^2 = tau_2^2 and a bound on Var[y | a, b].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..metrics import proxy_variance


@dataclass(frozen=True)
class Constants:
    """What a link contributes to the bounds; Q is ``q`` times the identity."""

    rank: int
    q: float
    sigma2: float
    tau02: float
    tau12: float
    noise2: float

    def light(self) -> float:
        """r^2 Var + sigma^2."""
        return self.rank**2 * self.noise2 + self.sigma2

    def mixed(self) -> float:
        """r Var + tau_1^2."""
        return self.rank * self.noise2 + self.tau12


def bilinear(rank: int, noise2: float = 1.0) -> Constants:
    """f = u'v: Q = I, sigma^2 = r (r + 2)^2 - r, tau_0^2 = r, tau_1^2 = r (r + 2).

    Examples
    --------
    >>> from colspace.experiments._jdr_bounds import bilinear
    >>> bilinear(5).sigma2, bilinear(5).tau12
    (240, 35)
    """
    r = rank
    return Constants(r, 1.0, r * (r + 2) ** 2 - r, r, r * (r + 2), noise2)


def rbf(rank: int) -> Constants:
    """f = exp(-||u - v||^2), y Bernoulli: Q = 0.4 5^(-r/2) I, and Gaussian integrals for the others; Var is at most 1/4.

    Examples
    --------
    >>> from colspace.experiments._jdr_bounds import rbf
    >>> round(rbf(2).q, 6), round(rbf(2).tau02, 6)
    (0.08, 0.111111)
    """
    r, q, tau02 = rank, 0.4 * 5.0 ** (-rank / 2), 3.0**-rank
    both = tau02 * (r * 19 / 27 + r * (r - 1) * 25 / 81)
    return Constants(r, q, both - r * q**2, tau02, tau02 * r * 5 / 9, 0.25)


def theorem_one(c: Constants, n1: int, n2: int, m: int) -> float:
    """Bound on E||X0 - UQV'||_F^2 (Theorem 1), an equality where Var[y | a, b] is constant."""
    link = (c.sigma2, c.tau02, c.tau12, c.tau12)
    return proxy_variance(m, (n1, n2), c.rank, noise=c.noise2, link=link)


def bilinear_error(c: Constants, n1: int, n2: int, m: int) -> float:
    """Bound on E d(U, U^) for the bilinear link: 2 sqrt((c + 1) r (n1 + 2)(n2 + 2)/m) with Var = c r."""
    return 2.0 * math.sqrt((c.noise2 + c.rank) * (n1 + 2) * (n2 + 2) / m)


def selection_error(c: Constants, n1: int, n2: int, s1: int, s2: int, m: int) -> float:
    """Bound on E||X2 - X||_F after the first two projections (Theorem 2 of the earlier version)."""
    logs = math.log(n1), math.log(n2)
    return (
        2 * math.sqrt(c.light() / m)
        + 8 * math.sqrt(2 * s1 * s2 * logs[0] * logs[1] * (c.noise2 + c.tau02) / m)
        + 4 * math.sqrt(2 * s1 * s2 * c.mixed() / m) * (math.sqrt(logs[1]) + math.sqrt(logs[0]))
    )


def light_tails(c: Constants) -> tuple[float, float]:
    """(C, c) with P(|y| >= t) <= C exp(-c t) for the bilinear link: Chernoff with E exp(y/2)."""
    return 2.0 * math.exp(c.noise2 / 8) * (1 - 0.25) ** (-c.rank / 2), 0.5


def light_tail_error(c: Constants, n1: int, n2: int, m: int) -> float:
    """Bound on E||U^S^V^' - X||_F under light tails (Theorem 3 of the earlier version)."""
    large = light_tails(c)[0] + 2
    logs = math.log(m) * math.log(n1 + n2) ** 2
    return (
        2 * math.sqrt(c.light() / m)
        + 512 * math.sqrt(2) * large * logs * math.sqrt((n1 + n2) * c.rank / m)
        + 2 * math.sqrt(c.mixed() / m) * (math.sqrt(n2) + math.sqrt(n1))
    )
