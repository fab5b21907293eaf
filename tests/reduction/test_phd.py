"""Principal Hessian directions."""

from __future__ import annotations

import numpy as np
import pytest
from classics_tables import assert_same_span, correlated_table, stored_reference

from colspace import (
    JointReduction,
    PrincipalHessian,
)
from colspace.metrics import nsee


@pytest.fixture(scope="module")
def reference():
    return stored_reference()


@pytest.fixture(scope="module")
def data():
    return correlated_table()


@pytest.mark.parametrize("residuals", [False, True])
def test_phd_equals_statsmodels(residuals, reference):
    X, y, stored = reference
    known = stored["phd_residuals" if residuals else "phd"]
    for r in (1, 2, 3):
        model = PrincipalHessian(r, residuals=residuals, shrinkage=None).fit(X, y)
        assert_same_span(model.components_.T, np.array(known["directions"])[:, :r])
    # statsmodels divides the covariance by m - 1
    np.testing.assert_allclose(model.eigenvalues_ * 199 / 200, known["eigenvalues"][:3], rtol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, "auto"])
@pytest.mark.parametrize("columns", [slice(0, 1), slice(0, 2)])
def test_phd_equals_joint_reduction(shrinkage, columns, data):
    X, Y = data
    phd = PrincipalHessian(2, shrinkage=shrinkage).fit(X, Y[:, columns])
    joint = JointReduction(2, moments="joint", shrinkage=shrinkage).fit(X, Y[:, columns])
    assert_same_span(phd.components_.T, joint.components_.T, atol=1e-10)


def test_phd_labels(data):
    X, Y = data
    labels = np.array(["low", "mid", "high"])[np.digitize(Y[:, 1], np.quantile(Y[:, 1], [0.3, 0.6]))]
    phd, joint = (
        PrincipalHessian(2, shrinkage=None).fit(X, labels),
        JointReduction(2, moments="joint").fit(X, labels),
    )
    assert_same_span(phd.components_.T, joint.components_.T, atol=1e-10)


def test_phd_signs_and_whitening(data):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 4))
    model = PrincipalHessian(2, shrinkage=None).fit(X, X[:, 0] ** 2 - 2 * X[:, 1] ** 2)
    assert np.sign(model.eigenvalues_).tolist() == [-1, 1]
    np.testing.assert_allclose(np.cov(model.transform(X).T, bias=True), np.eye(2), atol=1e-10)
    # mean Hessian of the link: 2 and -4; sampling error about 1/sqrt(m) times the moments' spread
    np.testing.assert_allclose(model.eigenvalues_, [-4, 2], atol=0.6)


def test_phd_residuals_remove_the_linear_part():
    """A strong linear trend of skewed columns misleads pHd; its residual form does not see it."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(4000, 5))
    y = 10 * X[:, 0] + (X[:, 1] - 1) ** 2
    truth = np.eye(5)[:, 1]
    assert nsee(truth, PrincipalHessian(1).fit(X, y).components_.T) > 0.9
    assert nsee(truth, PrincipalHessian(1, residuals=True).fit(X, y).components_.T) < 0.15


def test_phd_residuals_of_a_linear_response(data):
    X, _ = data
    with pytest.warns(UserWarning, match=r"linear function of X .*Remedies: residuals=False"):
        model = PrincipalHessian(residuals=True).fit(X, X @ np.arange(6.0))
    np.testing.assert_allclose(
        model.components_, PrincipalHessian().fit(X, X @ np.arange(6.0)).components_, rtol=1e-10
    )
