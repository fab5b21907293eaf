import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from colspace.metrics import nrse, prediction_mse, ssim

REFERENCE = Path(__file__).parent / "reference"


def test_nrse_is_the_mean_of_relative_errors():
    X = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])
    assert nrse(X, X) == 0.0
    assert nrse(X, np.zeros_like(X)) == 1.0
    assert_allclose(nrse(X, X * [[1.1], [0.5], [1.0]]), (0.1 + 0.5) / 3, rtol=1e-12)


def test_nrse_takes_images_and_ignores_their_shape():
    rng = np.random.default_rng(0)
    X, X_hat = rng.standard_normal((2, 5, 4, 3))
    assert nrse(X, X_hat) == nrse(X.reshape(5, -1), X_hat.reshape(5, -1))
    assert_allclose(nrse(7 * X, 7 * X_hat), nrse(X, X_hat), rtol=1e-12)


def test_ssim_closed_forms():
    rng = np.random.default_rng(1)
    A = rng.uniform(0, 1, (9, 7))
    assert_allclose(ssim(A, A), 1.0, rtol=1e-14)
    # constant images: no variance, so only the luminance term is left
    a, b, c1 = 0.2, 0.7, 0.01**2
    flat = np.ones((5, 5))
    assert_allclose(ssim(a * flat, b * flat, data_range=1), (2 * a * b + c1) / (a**2 + b**2 + c1), rtol=1e-12)
    # the same mean and a reflected deviation: only the structure term is left, with its sign turned
    deviation = A - A.mean()
    c2, v = 0.03**2, deviation.var()
    assert_allclose(
        ssim(0.5 + deviation, 0.5 - deviation, data_range=1), (c2 - 2 * v) / (c2 + 2 * v), rtol=1e-12
    )


def test_ssim_symmetry_scale_and_stacks():
    rng = np.random.default_rng(2)
    A, B = rng.uniform(0, 255, (2, 4, 6, 6))
    assert_allclose(ssim(A, B, data_range=255), ssim(B, A, data_range=255), rtol=1e-12)
    assert_allclose(ssim(A / 255, B / 255, data_range=1), ssim(A, B, data_range=255), rtol=1e-12)
    each = [ssim(a, b, data_range=255) for a, b in zip(A, B, strict=True)]
    assert_allclose(ssim(A, B, data_range=255), np.mean(each), rtol=1e-12)
    assert ssim(A[0], B[0]) == ssim(A[0], B[0], data_range=np.ptp(A[0]))


def test_ssim_equals_scikit_image_with_one_window():
    """One flat window over all of an image, with divisor N, is the definition without windows."""
    spec = importlib.util.spec_from_file_location("make_ssim", REFERENCE / "make_ssim.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    known = json.loads((REFERENCE / "ssim.json").read_text())
    image, other = module.make_images(known["seed"])
    assert image.shape == (known["side"], known["side"])
    assert_allclose(ssim(image, other, data_range=255), known["ssim"], rtol=1e-12)


def test_prediction_mse_sums_over_responses():
    rng = np.random.default_rng(3)
    Y, Y_hat = rng.standard_normal((2, 30, 16))
    assert_allclose(prediction_mse(Y, Y_hat), 16 * np.mean((Y - Y_hat) ** 2), rtol=1e-12)
    assert_allclose(prediction_mse(Y[:, 0], Y_hat[:, 0]), np.mean((Y - Y_hat)[:, 0] ** 2), rtol=1e-12)


@pytest.mark.parametrize("metric", [nrse, ssim, prediction_mse])
def test_metrics_refuse_what_they_cannot_compare(metric):
    A = np.ones((3, 3))
    with pytest.raises(ValueError, match=r"one shape, got \(3, 3\) and \(3, 2\)"):
        metric(A, A[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        metric(A, np.where(np.eye(3) > 0, np.nan, 1.0))
    with pytest.raises(ValueError, match="at least one row"):
        metric(A[:0], A[:0])


def test_errors_name_the_remedy():
    with pytest.raises(ValueError, match="row 1 of X is zero"):
        nrse([[1.0], [0.0]], [[1.0], [1.0]])
    with pytest.raises(ValueError, match="data_range=0 must be positive"):
        ssim(np.ones((3, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="stack"):
        ssim(np.ones(3), np.ones(3))
