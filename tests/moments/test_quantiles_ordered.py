"""Rows that count once are summarised without sums, and as rows of weight one are."""

import numpy as np
import pytest

from colspace.moments import column_quantiles


@pytest.mark.parametrize("kind", ["distinct", "rounded", "heaps at the ends", "few levels", "gaps"])
def test_ordered_points_are_those_of_unit_weights(kind: str) -> None:
    rng = np.random.default_rng(0)
    x = {
        "distinct": rng.standard_normal(50_000),
        "rounded": np.round(3 * rng.standard_normal(200_001), 4),
        "heaps at the ends": np.r_[np.zeros(5000), rng.random(20_000), np.ones(700)],
        "few levels": rng.integers(0, 5, 1000).astype(float),
        "gaps": np.where(rng.random(40_000) < 0.3, np.nan, rng.random(40_000)),
    }[kind]
    here, there = column_quantiles(x), column_quantiles(x, np.ones(len(x)))
    assert len(here.parts) == len(there.parts) == 1
    a, b = here.parts[0], there.parts[0]
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-12)
    assert a.level == b.level
    assert a.error == pytest.approx(b.error)
