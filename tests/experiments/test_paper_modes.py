"""Modes of the papers on cases small enough to do by hand.

Elsewhere: the published EM, its stopping measure and its rank in tests/copula/test_published.py; second order without labels and with
some, after (2.12) of paper 001, in tests/reduction/test_stein_own.py; selection, thresholds and known laws on data in
tests/reduction/test_joint_known.py; options without effect in tests/contract/test_options.py; Youden's level in test_sdl.py.
"""

import numpy as np
import pytest

from colspace import JointReduction
from colspace.metrics import proxy_nsee_bound, proxy_variance

# a' = (a1 / 2, a2), y - 3/2 = (-1, 1, 3, -3) / 2: the proxy is (1/4) sum a' y' b = -(2, 1) / 4, of length sqrt(5) / 4
X = np.array([[2.0, 0, 1], [0, 1, 1], [2, 1, -1], [0, 0, 2]])
Y = np.array([1.0, 2, 3, 0])
KNOWN = {
    "blocks": {"a": [0, 1], "b": [2]},
    "moments": "joint",
    "mean": {"a": [0.0, 0.0], "b": [0.0]},
    "covariance": {"a": np.diag([4.0, 1.0]), "b": np.eye(1)},
    "n_groups": None,
}


def test_known_mean_and_covariance():
    """U' = (2, 1) / sqrt(5), so that U = C^-T U' points along (1, 1)."""
    model = JointReduction(1, **KNOWN).fit(X, Y)
    np.testing.assert_allclose(np.abs(model.loadings_["a"][:, 0]), [5**-0.5, 5**-0.5], rtol=1e-12)
    # singular values are of a response of unit variance, here 5/4
    np.testing.assert_allclose(model.singular_values_["a"], np.sqrt(5) / 4 / np.sqrt(5 / 4), rtol=1e-12)
    # with known variances 1 and 16 U' points along (4, 1/4) and U along (4, 1/16)
    model = JointReduction(1, **{**KNOWN, "covariance": {"a": np.diag([1.0, 16.0]), "b": np.eye(1)}}).fit(
        X, Y
    )
    np.testing.assert_allclose(model.loadings_["a"][0] / model.loadings_["a"][1], 4 * 16, rtol=1e-12)


@pytest.mark.parametrize(("eta", "whole"), [(1.11, 1), (1.12, 0)])
def test_singular_values_above_half_of_eta(eta, whole):
    """sqrt(5) / 4 = .559 lies between 1.11 / 2 and 1.12 / 2; where none is above, one direction is kept with a warning."""
    model = JointReduction("threshold", eta=eta, **KNOWN)
    if whole:
        assert model.fit(X, Y).n_components_ == 1
    else:
        with pytest.warns(UserWarning, match="nothing stands out"):
            model.fit(X, Y)


def test_variance_and_bound_of_theorem_one():
    """One column each, y = ab + e: Var(a y b) = E a^4 b^4 + Var(e) E a^2 b^2 - 1 = 9 + 1 - 1; twice its root over m rows bounds the error."""
    assert proxy_variance(9, (1, 1), 1, noise=1.0) == pytest.approx(1.0)
    assert proxy_nsee_bound(36, (1, 1), 1, noise=1.0) == pytest.approx(2 * np.sqrt(9 / 36))
    # after Theorem 1, Var = c r: 2 sqrt((c + 1) r (n1 + 2)(n2 + 2) / m), here over sqrt(r), is no less
    exact = proxy_nsee_bound(100, (4, 6), 2, noise=2.0)  # 24 * 2 + 30 + 2 * 4 * 2 + (4 + 2) * 8 = 142
    assert exact == pytest.approx(2 * np.sqrt(142 / 100 / 2))
    assert exact <= 2 * np.sqrt((1 + 1) * 2 * 6 * 8 / 100 / 2)
