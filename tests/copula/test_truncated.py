"""Truncated normal moments against high-precision arithmetic."""

import mpmath as mp
import numpy as np
import pytest

from colspace.copula._truncated import log_mass, truncated_moments

HARD = [
    (-np.inf, -37.0),
    (37.0, np.inf),
    (37.0, 37.0 + 1e-5),
    (-1e-5, 1e-5),
    (0.0, 1e-5),
    (-37.3, -37.0),
    (5.0, 5.29),
    (5.0, 5.31),
    (-8.1, -8.0),
    (-7.9, -7.5),
    (3.9, np.inf),
    (4.1, np.inf),
    (-0.1, np.inf),
    (-60.0, -50.0),
    (-16.0, 40.0),
    (-300.0, -200.0),
    (2.0, 2.3),
]


def exact(low, high):
    with mp.workdps(80):
        a, b = (mp.mpf(x) if np.isfinite(x) else mp.sign(x) * mp.inf for x in (low, high))
        density = [mp.npdf(x) if mp.isfinite(x) else mp.mpf(0) for x in (a, b)]
        mass = mp.ncdf(-a) - mp.ncdf(-b) if a > 0 else mp.ncdf(b) - mp.ncdf(a)
        moment = [x * f if mp.isfinite(x) else mp.mpf(0) for x, f in zip((a, b), density, strict=True)]
        mean = (density[0] - density[1]) / mass
        variance = 1 + (moment[0] - moment[1]) / mass - mean**2
        return [float(v) for v in (mean, variance, density[0] / mass, density[1] / mass, mp.log(mass))]


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 5.0])
def test_moments_in_every_tail(scale):
    rng = np.random.default_rng(0)
    cases = np.array(HARD) if scale == 0 else np.sort(scale * rng.standard_normal((60, 2)), axis=1)
    reference = np.array([exact(*case) for case in cases])
    found = truncated_moments(cases[:, 0], cases[:, 1])
    np.testing.assert_allclose(found.mean, reference[:, 0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.variance, reference[:, 1], rtol=3e-9)
    np.testing.assert_allclose(found.at_low, reference[:, 2], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(found.at_high, reference[:, 3], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(log_mass(cases[:, 0], cases[:, 1]), reference[:, 4], rtol=1e-9, atol=1e-14)


def test_no_truncation_and_mirror():
    whole = truncated_moments(np.array([-np.inf]), np.array([np.inf]))
    assert (whole.mean[0], whole.variance[0]) == (0.0, 1.0)
    low, high = np.array([0.3, 4.5, -2.0]), np.array([0.5, 6.0, 1.0])
    one, other = truncated_moments(low, high), truncated_moments(-high, -low)
    np.testing.assert_allclose(one.mean, -other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.at_low, other.at_high, rtol=1e-12)


def test_many_values_are_taken_in_chunks():
    low = np.linspace(-3, 2, 20_000)
    whole = truncated_moments(low, low + 1)
    some = truncated_moments(low[9_000:9_010], low[9_000:9_010] + 1)
    np.testing.assert_array_equal(whole.mean[9_000:9_010], some.mean)


def test_one_infinite_end():
    ends = np.r_[np.linspace(-29.5, 29.5, 60), -30.5, -45.0]
    cases = np.r_[[(-np.inf, u) for u in ends], [(-u, np.inf) for u in ends]]
    reference = np.array([exact(*case) for case in cases])
    found = truncated_moments(cases[:, 0], cases[:, 1])
    np.testing.assert_allclose(found.mean, reference[:, 0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.variance, reference[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found.at_low, reference[:, 2], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(found.at_high, reference[:, 3], rtol=1e-9, atol=1e-13)


def test_each_value_is_told_by_itself():
    """Whether most of those beside it have one end or two."""
    rng = np.random.default_rng(0)
    low, high = np.sort(2 * rng.standard_normal((2, 900)), axis=0)
    low[:300], high[300:600] = -np.inf, np.inf
    for some in (np.arange(700), np.arange(500, 900), np.arange(590, 610)):
        whole, part = truncated_moments(low, high), truncated_moments(low[some], high[some])
        for one, other in zip(whole, part, strict=True):
            np.testing.assert_array_equal(one[some], other)
