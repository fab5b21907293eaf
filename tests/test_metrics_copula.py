import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from colspace.metrics import calibration_error, coverage, nrmse, smae

NAN = np.nan


def test_nrmse_by_hand():
    true, estimated = np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[1.0, 1.0], [4.0, 4.0]])
    assert_allclose(nrmse(true, estimated), np.sqrt(5 / 25), rtol=1e-14)
    mask = np.array([[False, True], [False, True]])
    assert_allclose(nrmse(true, estimated, mask), np.sqrt(1 / 20), rtol=1e-14)
    assert nrmse(true, np.zeros((2, 2))) == 1.0
    estimated[0, 0] = NAN  # outside the mask
    assert_allclose(nrmse(true, estimated, mask), np.sqrt(1 / 20), rtol=1e-14)


def test_smae_by_hand():
    observed = np.array([[1.0, 5.0, 0.0], [3.0, NAN, 1.0], [5.0, 7.0, 1.0], [NAN, NAN, 0.0], [NAN, 6.0, 1.0]])
    true = np.array([[1.0, 5.0, 0.0], [3.0, 9.0, 1.0], [5.0, 7.0, 1.0], [7.0, NAN, 0.0], [4.0, 6.0, 1.0]])
    estimated = np.where(np.isnan(observed), 5.0, observed)
    # medians 3 and 6; column 0: (2 + 1) / (4 + 1), column 1: 4 / 3, column 2: nothing to evaluate
    assert_allclose(smae(true, estimated, observed, per_column=True), [3 / 5, 4 / 3, NAN], rtol=1e-14)
    assert_allclose(smae(true, estimated, observed), (3 / 5 + 4 / 3) / 2, rtol=1e-14)
    medians = np.where(np.isnan(observed), np.nanmedian(observed, axis=0), observed)
    assert_allclose(smae(true, medians, observed), 1.0, rtol=1e-14)


def test_coverage_by_hand():
    lower, upper = np.array([[0.0, -np.inf], [2.0, 1.0]]), np.array([[1.0, 5.0], [np.inf, 1.0]])
    true = np.array([[1.0, 5.1], [2.0, 1.0]])
    assert coverage(lower, upper, true) == 0.75
    assert coverage(lower, upper, true, np.array([[True, True], [False, False]])) == 0.5


def test_calibration_error_by_hand():
    p, y = np.array([0.05, 0.1, 0.15, 0.95, 1.0]), np.array([0, 0, 1, 1, 1])
    # bins [0, .1): .05; [.1, .2): |1 - .25| / 2 each; [.9, 1]: |2 - 1.95|
    assert_allclose(calibration_error(p, y), (0.05 + 0.75 + 0.05) / 5, rtol=1e-12)
    assert_allclose(calibration_error(p, y, n_bins=1), abs(3 - p.sum()) / 5, rtol=1e-12)
    assert_allclose(calibration_error(p[:4].reshape(2, 2), y[:4].reshape(2, 2) == 1), 0.85 / 4, rtol=1e-12)


def test_calibration_error_of_true_probabilities_is_small():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    y = rng.random(len(p)) < p
    assert calibration_error(p, y) < 0.004
    assert calibration_error(p**2, y) > 0.1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nrmse([1.0], [1.0, 2.0]), "one shape"),
        (lambda: nrmse([0.0], [1.0]), "all true values are zero"),
        (lambda: nrmse([NAN], [1.0]), "NaN"),
        (lambda: nrmse([1.0, 2.0], [1.0, 2.0], [1, 0]), "mask must be boolean"),
        (lambda: nrmse([1.0], [1.0], [False]), "nrmse needs at least one cell"),
        (lambda: smae([[1.0]], [[1.0]], [[1.0]]), "at least one cell that is NaN"),
        (lambda: smae([[1.0]], [[1.0]], [[NAN]]), "column 0 has no observed cell"),
        (lambda: smae([[1.0], [1.0]], [[1.0], [1.0]], [[NAN], [1.0]]), "never wrong"),
        (lambda: smae([1.0], [1.0], [1.0]), "tables of one shape"),
        (lambda: coverage([0.0], [NAN], [1.0]), "not defined for NaN"),
        (lambda: coverage([0.0], [1.0, 2.0], [1.0]), "coverage compares"),
        (lambda: coverage([0.0], [1.0], [1.0], [False]), "coverage needs at least one cell"),
        (lambda: calibration_error([1.5], [1]), "between 0 and 1"),
        (lambda: calibration_error([0.5], [2]), "outcomes 0 or 1"),
        (lambda: calibration_error([0.5], [1], n_bins=0), "n_bins=0"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_inputs_are_left_alone():
    table = np.array([[1.0, NAN], [2.0, 3.0], [NAN, 4.0]])
    before = table.copy()
    filled = np.where(np.isnan(table), 0.0, table)
    smae(filled + 1.0, filled, table)
    assert_array_equal(table, before)
