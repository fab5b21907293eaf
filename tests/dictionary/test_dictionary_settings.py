"""Automatic settings, weights, thresholds and the path of xi, each against its formula."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import sparse_encode
from sklearn.model_selection import cross_val_predict

from colspace import SupervisedDictionaryClassifier as Classifier
from colspace import SupervisedDictionaryRegressor as Regressor
from colspace.dictionary._fit import canonical
from colspace.dictionary._losses import one_hot
from colspace.dictionary._objective import State, make_problem, objective
from colspace.dictionary._thresholds import best_threshold
from colspace.dictionary._units import sum_columns


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, [3, 5, 8])
    return X[keep][:150] / 16.0, y[keep][:150]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(0).integers(0, 4, 150).astype(float)


def test_automatic_terms_are_those_of_the_docstring(digits, weights):
    X, y = digits
    length = np.average(np.sum(X**2, axis=1), weights=weights)
    fit = Classifier(2, class_weight="balanced", random_state=0).fit(X, y, sample_weight=weights)
    spread = X - np.average(X, axis=0, weights=weights)
    inner = np.average(np.sum(spread**2, axis=1), weights=weights)
    np.testing.assert_allclose([fit.xi_, fit.l2_], [np.log(3) / length, 0.01 * inner])
    topics = Classifier(2, xi="topics", fit_intercept=False, random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose([topics.xi_, topics.l2_], [10 * np.log(3) / length, 0.01 * length])
    even = {k: weights.sum() / (3 * weights[y == k].sum()) for k in (3, 5, 8)}
    same = Classifier(2, class_weight=even, random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(same.predict_proba(X), fit.predict_proba(X), atol=1e-3)
    two = np.column_stack([5.0 * X[:, 20], y])
    fit = Regressor(2, model="feature").fit(X, two, sample_weight=weights)
    spread = two - np.average(two, axis=0, weights=weights)
    variance = np.average(np.sum(spread**2, axis=1), weights=weights)
    np.testing.assert_allclose([fit.xi_, fit.l2_], [variance / length, 0.001])
    fit = Regressor(2, fit_intercept=False).fit(X, two)
    assert np.all(fit.intercept_ == 0.0)
    level = np.mean(np.sum(two**2, axis=1))
    np.testing.assert_allclose(fit.xi_, level / np.mean(np.sum(X**2, axis=1)))


@pytest.mark.parametrize("E", [Classifier, Regressor])
def test_weights_count_as_repetitions(digits, weights, E):
    X, y = digits
    rows = np.repeat(np.arange(150), weights.astype(int))
    options = {"class_weight": "balanced", "threshold": "youden"} if E is Classifier else {}
    y = y == 3 if E is Classifier else y + X[:, 20]
    one = E(2, random_state=0, tol=1e-10, **options).fit(X, y, sample_weight=weights)
    many = E(2, random_state=0, tol=1e-10, **options).fit(X[rows], y[rows])
    for name in ("objective_", "xi_", "reconstruction_error_"):
        np.testing.assert_allclose(getattr(one, name), getattr(many, name), rtol=1e-4)
    H = one.transform(X[rows])
    left = np.sum((X[rows] - H @ one.components_) ** 2) / np.sum(X[rows] ** 2)
    np.testing.assert_allclose(one.reconstruction_error_, left, rtol=1e-6)
    if E is Classifier:
        np.testing.assert_allclose(one.predict_proba(X), many.predict_proba(X), atol=1e-2)
        np.testing.assert_allclose(one.threshold_, many.threshold_, atol=1e-2)
    else:
        np.testing.assert_allclose(one.predict(X), many.predict(X), atol=1e-2)


def test_the_path_goes_down_from_the_largest_xi(digits, monkeypatch):
    X, y = digits
    seen = []
    plain = Classifier._fit

    def noted(self, X, y, sample_weight=None, start=None):
        seen.append((self.xi, start is None))
        return plain(self, X, y, sample_weight, start)

    monkeypatch.setattr(Classifier, "_fit", noted)
    path = Classifier(2).xi_path(X, y, [1.0, 10.0, 0.1])
    assert seen == [(10.0, True), (1.0, False), (0.1, False)]
    proba = path.models[1].predict_proba(X)[np.arange(150), np.searchsorted([3, 5, 8], y)]
    np.testing.assert_allclose(path.label_loss[1], -np.mean(np.log(proba)))
    np.testing.assert_allclose(path.score[1], path.models[1].score(X, y))
    automatic = Classifier(2).fit(X, y).xi_
    np.testing.assert_allclose(Classifier(2).xi_path(X, y).xi[[0, -1]], automatic * np.array([1e-3, 100.0]))
    two = np.column_stack([y, X[:, 20]])
    path = Regressor(2).xi_path(X, two, [1.0])
    loss = np.mean(np.sum((two - path.models[0].predict(X)) ** 2, axis=1))
    np.testing.assert_allclose(path.label_loss, [loss])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rule", ["youden", "f1"])
def test_thresholds_are_the_best_of_all(rule, seed):
    rng = np.random.default_rng(seed)
    truth = rng.random(40) < 0.2
    p = np.round(rng.uniform(0.05, 0.95, 40) + 0.1 * truth, 2)  # with ties
    w = rng.integers(0, 3, 40).astype(float)

    def merit(cut):
        found = p >= cut
        hits, missed = w[truth & found].sum(), w[truth & ~found].sum()
        false, rest = w[~truth & found].sum(), w[~truth & ~found].sum()
        return (
            2 * hits / (2 * hits + missed + false)
            if rule == "f1"
            else hits / (hits + missed) - false / (false + rest)
        )

    np.testing.assert_allclose(merit(best_threshold(rule, truth, p, w)), max(map(merit, p)))


def test_a_threshold_that_no_row_deserves():
    truth = np.array([1, 1, 0, 0])
    p = np.array([0.1, 0.2, 0.3, 0.4])  # the wrong way round: all or none is best
    assert best_threshold("youden", truth, p) == 0.05


def test_one_weight_for_all_rows_is_no_weight(digits):
    X, y = digits
    y = y == 3
    for cv in (None, 3):
        model = Classifier(2, threshold="f1", threshold_cv=cv, random_state=0)
        np.testing.assert_allclose(
            model.fit(X, y, sample_weight=1.0).threshold_, model.fit(X, y).threshold_, rtol=1e-6
        )


@pytest.mark.parametrize("kind", ["default", "pandas", "polars"])
def test_rebuilt_rows_are_an_array_whatever_the_codes_are(digits, kind):
    X, y = digits
    fit = Classifier(3, random_state=0).fit(X, y).set_output(transform=kind)
    rebuilt = fit.reconstruct(X[:4])
    assert isinstance(rebuilt, np.ndarray)
    np.testing.assert_allclose(rebuilt, np.asarray(fit.transform(X[:4])) @ fit.components_)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("positive", [False, True])
def test_one_form_of_equal_fits(digits, weights, model, positive):
    X, y = digits
    rng = np.random.default_rng(3)
    draw = rng.exponential if positive else rng.standard_normal
    state = State(
        draw(size=(64, 3)) * [5.0, 1.0, 0.01],
        draw(size=(150, 3)) * [0.01, 1.0, 7.0],
        rng.standard_normal((3, 2)),
        np.zeros((0, 2)),
        rng.standard_normal(2),
    )
    problem = make_problem(
        X, one_hot(np.searchsorted([3, 5, 8], y), 3), model=model, xi=0.3, l2=0.2, weight=weights
    )
    same = canonical(problem, state, positive)
    np.testing.assert_allclose(objective(problem, same), objective(problem, state))
    np.testing.assert_allclose(same.H @ same.W.T, state.H @ state.W.T)
    energy = (weights[:, None] * same.H).T @ same.H
    assert np.all(np.diff(np.diag(energy)) < 0)
    np.testing.assert_allclose(np.linalg.norm(same.W, axis=0), 1.0)
    if positive:
        assert same.W.min() >= 0
        assert same.H.min() >= 0
    else:
        np.testing.assert_allclose(same.W.T @ same.W, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(energy, np.diag(np.diag(energy)), atol=1e-8 * energy.max())
        assert np.all(same.W[np.abs(same.W).argmax(axis=0), np.arange(3)] > 0)
    lost = state._replace(W=state.W * [1.0, 0.0, 1.0])  # an atom of zeros
    kept = canonical(problem, lost, positive)
    np.testing.assert_allclose(objective(problem, kept), objective(problem, lost))


@pytest.mark.parametrize("positive", [False, True])
def test_codes_of_a_model_with_a_price_are_those_of_the_lasso(digits, positive):
    X, y = digits
    fit = Classifier(3, l1=0.4, xi=0.8, positive=positive, tol=1e-4, random_state=0).fit(X, y)
    peer = sparse_encode(
        X, fit.components_, algorithm="lasso_cd", alpha=0.4 / 1.6, positive=positive, max_iter=10000
    )
    assert np.mean(peer == 0) > 0.05
    np.testing.assert_allclose(fit.transform(X), peer, atol=2e-3)


def test_weights_reach_the_folds_of_a_threshold(digits, weights):
    X, y = digits
    cut = Classifier(2, threshold="f1", threshold_cv=3, random_state=0).fit(X, y == 3, weights).threshold_
    params = {"sample_weight": weights}
    plain = Classifier(2, random_state=0)
    p = cross_val_predict(plain, X, y == 3, cv=3, method="predict_proba", params=params)[:, 1]
    np.testing.assert_allclose(cut, best_threshold("f1", y == 3, p, weights), rtol=1e-6)


def test_codes_of_atoms_that_are_not_orthonormal_are_least_squares(digits):
    X, y = digits
    fit = Classifier(3, bounds={"dictionary": 0.5}, xi=1.0, tol=1e-3).fit(X, y)
    W = fit.components_.T
    assert not np.allclose(W.T @ W, np.eye(3))
    np.testing.assert_allclose(fit.transform(X), np.linalg.lstsq(W, X.T)[0].T, atol=1e-8)


def test_the_path_of_a_regressor_is_around_its_automatic_xi(digits):
    X, _ = digits
    y = 40.0 * X[:, 20]
    path = Regressor(2, tol=1e-3).xi_path(X, y)
    np.testing.assert_allclose(path.xi, np.var(y) / np.mean(np.sum(X**2, axis=1)) * np.logspace(-3, 2, 11))


@pytest.mark.parametrize("csr", [False, True])
def test_squares_of_single_precision_are_summed_in_double(csr):
    X = np.array([[1e25, 0.0], [3e25, 2.0]], dtype=np.float32)
    sums = sum_columns(sparse.csr_array(X) if csr else X, np.array([1.0, 2.0]))
    np.testing.assert_allclose(sums.square, [1.9e51, 8.0], rtol=1e-6)
    np.testing.assert_allclose(sums.total, [7e25, 4.0], rtol=1e-6)
