import tracemalloc

import numpy as np
import pytest
from kernel_reference import finite_gradient, table
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from colspace import ConstantColumnWarning
from colspace._random import generator
from colspace.scores import KernelScore
from colspace.scores import _kernel as kernel_module
from colspace.scores import _kernel_fields as fields
from colspace.scores._kernel_fields import median_distance

METHODS = ["nu", "tikhonov", "landweber", "spectral", "stein", "ssge"]


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize("method", ["nu", "tikhonov", "spectral"])
def test_field_is_the_gradient_of_its_potential(method, kernel):
    X, rows = table(40, 3), table(6, 3, seed=5)
    model = KernelScore(method=method, kernel=kernel, regularization=0.05).fit(X)
    np.testing.assert_allclose(
        finite_gradient(model.potential, rows), -model.score_function(rows), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize(
    ("method", "curl_free"), [("nu", True), ("nu", False), ("spectral", True), ("ssge", True)]
)
@pytest.mark.parametrize("standardize", [True, False])
def test_divergence_and_second_moment_by_finite_differences(
    method, curl_free, kernel, standardize, monkeypatch
):
    monkeypatch.setattr(fields, "_CHUNK", 100)  # several chunks of rows
    X, rows = table(30, 3), table(8, 3, seed=6)
    model = KernelScore(method=method, curl_free=curl_free, kernel=kernel, regularization=0.05)
    model.set_params(standardize=standardize).fit(X)
    g = -model.score_function(rows)
    J = -finite_gradient(model.score_function, rows)
    np.testing.assert_allclose(model.divergence(rows), np.trace(J, axis1=1, axis2=2), rtol=1e-6, atol=1e-6)
    if curl_free and method != "ssge":  # gradients stay gradients in other units
        np.testing.assert_allclose(J, J.transpose(0, 2, 1), atol=1e-6)
    T = g[:, :, None] * g[:, None] + (J + J.transpose(0, 2, 1)) / 2
    weights = np.random.default_rng(0).standard_normal((8, 2))
    moment = model.second_moment(rows, weights)
    np.testing.assert_allclose(moment, np.einsum("ik,iab->kab", weights, T), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(moment, moment.transpose(0, 2, 1))
    np.testing.assert_allclose(model.second_moment(rows, weights[:, 1]), moment[1], atol=1e-12)
    unit = X.std(axis=0) if standardize else np.ones(3)
    loss = 0.5 * ((g * unit) ** 2).sum(axis=1).mean() + np.einsum("iaa,a->i", J, unit**2).mean()
    assert model.score_matching_loss(rows) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(
        model.first_moment(rows, weights), model.score_function(rows).T @ weights, atol=1e-12
    )


@pytest.mark.parametrize("method", ["nu", "tikhonov"])
def test_strong_regularisation_and_a_wide_kernel_point_away_from_the_mean(method):
    """s tends to a positive multiple of x - mean: the heavily smoothed score is PCA's."""
    X = table(200, 4)
    model = KernelScore(method=method, regularization=1.0, bandwidth=300.0, standardize=False).fit(X)
    s, d = model.score_function(X), X - X.mean(axis=0)
    c = (s * d).sum() / (d * d).sum()
    assert c > 0
    assert np.linalg.norm(s - c * d) < 1e-3 * np.linalg.norm(s)


@pytest.mark.parametrize(
    ("method", "curl_free", "band"),
    [
        ("nu", True, 0.2),
        ("nu", False, 0.15),
        ("tikhonov", False, 0.15),
        ("landweber", True, 0.2),
        ("spectral", False, 0.2),
        ("ssge", True, 0.25),
        ("stein", True, 0.15),
    ],
)
def test_gaussian_scores_are_found(method, curl_free, band):
    """Mean squared error on new rows; the scores themselves have mean square 1."""
    rng = np.random.default_rng(0)
    fresh = rng.standard_normal((1000, 2))
    errors = []
    for n in (100, 800):
        model = KernelScore(method=method, curl_free=curl_free, random_state=0)
        model.fit(rng.standard_normal((n, 2)))
        errors.append(np.mean((model.score_function(fresh) - fresh) ** 2))
    assert errors[1] < band
    assert errors[1] < errors[0]


def test_second_moment_follows_steins_identity():
    """E[y T(x)] is the mean Hessian of the link; y = x1 x2 has [[0, 1], [1, 0]]."""
    X = np.random.default_rng(3).standard_normal((800, 2))
    model = KernelScore(curl_free=False, method="tikhonov", random_state=0).fit(X)
    M = model.second_moment(X, X[:, 0] * X[:, 1]) / 800
    assert 0.6 < M[0, 1] < 1.4
    assert abs(M[0, 0]) < 0.3
    assert abs(M[1, 1]) < 0.3


@pytest.mark.parametrize(("method", "curl_free"), [("nu", True), ("tikhonov", False)])
def test_auto_beats_both_ends_of_the_grid_on_a_mixture(method, curl_free):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 2)) + np.where(rng.random(700) < 0.5, 2.0, -2.0)[:, None]
    X, fresh = X[:350], X[350:]
    model = KernelScore(method=method, curl_free=curl_free, random_state=0).fit(X)
    assert model.regularization_ == model.grid_[np.argmin(model.losses_)]
    assert model.grid_[0] > model.regularization_ > model.grid_[-1]
    best = model.score_matching_loss(fresh)
    for end in (model.grid_[0], model.grid_[-1]):
        other = clone(model).set_params(regularization=float(end)).fit(X)
        assert not hasattr(other, "grid_")
        assert best < other.score_matching_loss(fresh)
    assert not hasattr(model.set_params(regularization=0.1).fit(X), "losses_")


@pytest.mark.parametrize("n", [10, 1001])
def test_held_out_losses_are_means_over_rows_left_out(n, monkeypatch):
    """Four folds, one of them from 1,000 rows on; each row counts once."""
    monkeypatch.setattr(kernel_module, "_grid", lambda method: np.array([0.5, 0.3]))
    X = table(n, 2)
    model = KernelScore(method="tikhonov", curl_free=False, standardize=False)
    model.set_params(random_state=np.random.RandomState(0)).fit(X)
    rng = generator(np.random.RandomState(0))
    median_distance(X, rng)
    parts = np.array_split(rng.permutation(n), 4)[: 1 if n > 1000 else 4]
    for strength, loss in zip(model.grid_, model.losses_, strict=True):
        total = 0.0
        for part in parts:
            fit = clone(model).set_params(regularization=strength, bandwidth=model.bandwidth_)
            total += len(part) * fit.fit(np.delete(X, part, axis=0)).score_matching_loss(X[part])
        assert loss == pytest.approx(total / sum(map(len, parts)), rel=1e-6)


def test_normalised_regularisation_is_free_of_scale():
    X = table(60, 3)
    s = KernelScore(regularization=0.02).fit(X).score_function(X)
    big = KernelScore(regularization=0.02).fit(100 * X).score_function(100 * X)
    np.testing.assert_allclose(100 * big, s, rtol=1e-8, atol=1e-10)


def test_parameters_set_after_fit_wait_for_the_next_fit():
    X = table(30, 2)
    model = KernelScore(regularization=0.1).fit(X)
    s = model.score_function(X)
    np.testing.assert_array_equal(model.set_params(kernel="rbf", curl_free=False).score_function(X), s)


def test_steps_follow_the_regularisation():
    X = table(30, 2)
    assert KernelScore(regularization=float(np.exp(-5))).fit(X).n_iter_ == 13
    assert KernelScore(regularization=1.0).fit(X).n_iter_ == 1
    assert KernelScore(method="landweber", regularization=0.01).fit(X).n_iter_ == 100


def test_many_steps_do_not_diverge():
    X = table(60, 80)
    model = KernelScore(regularization=1e-6).fit(X)
    assert model.n_iter_ == 1000
    close = KernelScore(method="tikhonov", regularization=1e-6).fit(X)
    assert np.abs(model.score_function(X)).max() < 10 * np.abs(close.score_function(X)).max()


def test_memory_stays_at_a_few_matrices():
    n, p = 600, 400
    X = table(n, p)
    for method in ("nu", "tikhonov"):
        model = KernelScore(method=method, regularization=0.05, bandwidth=30.0)
        tracemalloc.start()
        model.fit(X)
        model.score_function(X)
        peak = tracemalloc.get_traced_memory()[1]
        model.second_moment(X, X[:, 0])
        moment_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * (6 * n * n + 10 * n * p)
        assert moment_peak < 8 * (9 * n * n + 10 * n * p + 4 * p * p)


def test_max_samples_takes_a_random_sample():
    X = table(300, 2)
    model = KernelScore(max_samples=50, regularization=0.05, random_state=0).fit(X)
    assert model.centres_.shape == (50, 2)
    assert {tuple(row) for row in model.centres_} <= {tuple(row) for row in X}
    assert KernelScore(max_samples=500, regularization=0.05).fit(X).centres_.shape == (300, 2)
    np.testing.assert_array_equal(clone(model).fit(X).coef_, model.coef_)


def test_too_many_rows_name_the_memory_and_the_remedy(monkeypatch):
    with pytest.raises(ValueError, match=r"25000 rows.*20 GB.*max_samples"):
        KernelScore().fit(np.zeros((25000, 1)))
    monkeypatch.setattr(kernel_module, "_MAX_ROWS", 10)
    with pytest.raises(ValueError, match="max_samples"):
        KernelScore().fit(table(11, 2))


def test_inert_regularisation_warns():
    X = table(50, 20)
    top = KernelScore(regularization=0.1).fit(X).lambda_max_
    with pytest.warns(UserWarning, match=r"times the kernel's largest eigenvalue .* normalize=True"):
        KernelScore(normalize=False, regularization=20 * top).fit(X)
    with pytest.warns(UserWarning, match="a value below 1"):
        KernelScore(method="tikhonov", regularization=30.0).fit(X)


def test_impossible_requests_are_refused():
    X = table(20, 2)
    with pytest.raises(ValueError, match="needs normalize=True"):
        KernelScore(normalize=False).fit(X)
    with pytest.raises(ValueError, match="diverges on the raw kernel"):
        KernelScore(normalize=False, regularization=0.1, bandwidth=0.01).fit(X)
    with pytest.raises(ValueError, match="share of the kernel's trace"):
        KernelScore(method="ssge", regularization=1.5).fit(X)
    with pytest.raises(ValueError, match="above the largest eigenvalue"):
        KernelScore(method="spectral", curl_free=False, regularization=3.0).fit(X)
    with pytest.raises(ValueError, match="all rows are equal"):
        KernelScore(regularization=0.1).fit(np.ones((5, 3)))
    with pytest.raises(ValueError, match="curl_free=True"):
        KernelScore(curl_free=False, regularization=0.1).fit(X).potential(X)
    with pytest.raises(ValueError, match=r"weights has shape \(3,\)"):
        KernelScore(regularization=0.1).fit(X).second_moment(X, np.ones(3))
    with pytest.raises(ValueError, match="'method' parameter"):
        KernelScore(method="other").fit(X)
    with pytest.raises(NotFittedError):
        KernelScore().score_function(X)


def test_few_rows_and_repeated_rows():
    for n in (2, 3, 5):
        model = KernelScore(random_state=0).fit(table(n, 2))
        assert np.isfinite(model.score_function(table(4, 2))).all()
    X = np.repeat(table(6, 2), 20, axis=0)  # most distances are zero
    assert np.isfinite(KernelScore(random_state=0).fit(X).score_function(X)).all()


def test_two_rows_leave_nothing_to_judge_on():
    model = KernelScore(random_state=0).fit(table(2, 2))
    assert np.isinf(model.losses_).all()
    assert model.regularization_ == model.grid_[0]


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_extreme_units_are_borne_or_refused(kernel):
    X, w = table(40, 2), np.random.default_rng(0).standard_normal(40)
    model = KernelScore(kernel=kernel, regularization=0.05)
    T = clone(model).fit(X).second_moment(X, w)
    for unit in (np.full(2, 1e-100), np.full(2, 1e100), np.array([1e8, 1e-8])):
        again = clone(model).fit(unit * X).second_moment(unit * X, w)
        np.testing.assert_allclose(np.outer(unit, unit) * again, T, rtol=1e-6)
    with pytest.raises(ValueError, match=r"overflows.*column 1 has the value .*e\+1.*Remedy: rescale"):
        clone(model).fit(X * [1.0, 1e160])
    raw = clone(model).set_params(standardize=False)
    for unit in (1e-29, 1e29):
        np.testing.assert_allclose(
            unit * clone(raw).fit(unit * X).score_function(unit * X),
            clone(raw).fit(X).score_function(X),
            rtol=1e-8,
        )
    for unit in (1e-40, 1e40):
        with pytest.raises(ValueError, match=r"bandwidth of .*e.40.*Remedy: rescale"):
            clone(raw).fit(unit * X)


def test_standardised_is_the_published_choice_on_standardised_columns():
    X = table(40, 3) * [1.0, 100.0, 0.01]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = KernelScore(random_state=0).fit(X)
    published = KernelScore(random_state=0, standardize=False).fit(Z)
    np.testing.assert_allclose(
        model.score_function(X) * X.std(axis=0), published.score_function(Z), rtol=1e-9
    )
    assert model.regularization_ == published.regularization_


@pytest.mark.parametrize("p", [2, 30])
@pytest.mark.parametrize("curl_free", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_two_is_a_row_twice(method, curl_free, p):
    rng = np.random.default_rng(3)
    X, rows = table(18, p), table(5, p, seed=4)
    w = rng.integers(0, 3, 18).astype(float)
    model = KernelScore(method=method, curl_free=curl_free, kernel="rbf", regularization=0.1, bandwidth=3.0)
    weighted = clone(model).fit(X, sample_weight=w)
    repeated = clone(model).fit(np.repeat(X, w.astype(int), axis=0))
    s = repeated.score_function(rows)
    # all divide by Lanczos' eigenvalue, a little too small; steps feel it most
    tolerance = 1e-2 if method in ("nu", "landweber") else 1e-5
    np.testing.assert_allclose(weighted.score_function(rows), s, atol=tolerance * np.abs(s).max())
    again = clone(model).fit(X, sample_weight=7 * w)
    np.testing.assert_allclose(again.score_function(rows), weighted.score_function(rows), rtol=1e-9)
    plain = clone(model).fit(X[w > 0]).score_function(rows)
    assert np.abs(plain - s).max() > 3 * tolerance * np.abs(s).max()
    J = -finite_gradient(weighted.score_function, rows)
    np.testing.assert_allclose(weighted.divergence(rows), np.trace(J, axis1=1, axis2=2), rtol=1e-5, atol=1e-6)
    if curl_free and method not in ("stein", "ssge"):
        np.testing.assert_allclose(
            finite_gradient(weighted.potential, rows), -weighted.score_function(rows), rtol=1e-6, atol=1e-7
        )


def test_weights_reach_the_bandwidth_and_the_choice_of_the_regularisation():
    rng = np.random.default_rng(3)
    X, w = table(31, 2), rng.integers(1, 4, 31).astype(float)
    repeated = np.repeat(X, w.astype(int), axis=0)
    model = KernelScore(random_state=0).fit(X, sample_weight=w)
    assert model.bandwidth_ == pytest.approx(
        KernelScore(random_state=0, regularization=0.1).fit(repeated).bandwidth_, rel=1e-12
    )
    same = KernelScore(random_state=0).fit(X, sample_weight=np.full(31, 3.0))
    np.testing.assert_allclose(same.losses_, KernelScore(random_state=0).fit(X).losses_, rtol=1e-9)
    assert abs(model.losses_[0] / same.losses_[0] - 1) > 1e-3
    # the loss of a fold is the mean over its rows, each as often as its weight
    folds = np.array_split(_after_median(X, w), 4)
    total = 0.0
    for part in folds:
        rest = np.setdiff1d(np.arange(31), part)
        fit = KernelScore(standardize=False, regularization=float(model.grid_[0]), bandwidth=model.bandwidth_)
        Z = (X - model.location_) / model.deviation_
        fit.fit(Z[rest], sample_weight=w[rest])
        total += w[part].sum() * fit.score_matching_loss(np.repeat(Z[part], w[part].astype(int), axis=0))
    assert model.losses_[0] == pytest.approx(total / w.sum(), rel=1e-9)


def _after_median(X, w):
    rng = generator(0)
    median_distance(X, rng, weight=w)
    return rng.permutation(len(X))


def test_constant_columns_get_a_score_of_zero():
    X = np.insert(table(40, 2), 1, 0.1, axis=1)
    model = KernelScore(regularization=0.05)
    with pytest.warns(ConstantColumnWarning, match="1 constant column.*score of zero: 1") as caught:
        s = model.fit(X).score_function(X)
    assert caught[0].filename == __file__
    without = clone(model).fit(X[:, [0, 2]])
    np.testing.assert_allclose(s[:, [0, 2]], without.score_function(X[:, [0, 2]]))
    assert not s[:, 1].any()
    T = model.second_moment(X, np.ones(40))
    np.testing.assert_allclose(T[np.ix_([0, 2], [0, 2])], without.second_moment(X[:, [0, 2]], np.ones(40)))
    assert not T[1].any()


def test_weights_and_responses_are_checked():
    X = table(20, 2)
    model = KernelScore(regularization=0.1).fit(X)
    with pytest.raises(ValueError, match=r"Y has shape \(3,\).*20 rows"):
        model.first_moment(X, np.ones(3))
    with pytest.raises(ValueError, match="Y contains NaN"):
        model.first_moment(X, np.full(20, np.nan))
    with pytest.raises(ValueError, match="weights contains NaN"):
        model.second_moment(X, np.full(20, np.nan))


@pytest.mark.parametrize("method", METHODS[1:])  # the default: tests/contract
def test_scikit_learn_checks(method):
    results = check_estimator(KernelScore(method=method), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
