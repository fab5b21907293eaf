"""The estimators against formulas written out, closed forms and scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, recall_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from colspace import SupervisedDictionaryClassifier as Classifier
from colspace import SupervisedDictionaryRegressor as Regressor
from colspace.dictionary import Multinomial, Radius
from colspace.dictionary._fit import _shrunken_codes
from colspace.metrics import principal_angles


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, [3, 5, 8])
    return X[keep][:240] / 16.0, y[keep][:240]


@pytest.fixture(scope="module")
def mixed():
    """Nonnegative rows with a covariate that carries part of the label."""
    rng = np.random.default_rng(5)
    H, W = rng.exponential(size=(200, 3)), rng.exponential(size=(3, 12))
    X = H @ W + 0.1 * rng.uniform(size=(200, 12))
    age = rng.uniform(-1, 1, 200)
    y = (H[:, 0] - H[:, 1] + 2.0 * age + 0.3 * rng.standard_normal(200) > 0).astype(int)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)])
    frame.insert(4, "age", age)
    return frame, np.where(y == 1, "yes", "no")


def written_out(model, X, Z, y, H):
    """The objective of the class docstring."""
    W = model.components_.T
    if len(model.classes_) == 2:
        B, G, c = model._state.B, model._state.G, model._state.intercept
    else:
        B, G, c = (part[..., :] for part in (model._state.B, model._state.G, model._state.intercept))
    s = X @ W if model.model == "filter" else H
    a = np.column_stack([np.zeros(len(X)), s @ B + Z @ G + c])
    place = np.searchsorted(model.classes_, y)
    loss = np.log(np.exp(a).sum(axis=1)) - a[np.arange(len(y)), place]
    ridge = np.sum((W @ B if model.model == "filter" else H @ B) ** 2)
    if model.positive:
        sizes = np.sum(W**2, axis=0) if model.model == "filter" else np.sum(H**2, axis=0)
        ridge = 0.9 * ridge + 0.1 * sizes @ np.sum(B**2, axis=1)
    ridge += np.sum(G**2)
    return loss.sum() + model.xi_ * np.sum((X - H @ W.T) ** 2) + model.l2_ * ridge


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("positive", [False, True])
def test_the_objective_is_the_one_of_the_docstring(mixed, model, positive):
    frame, y = mixed
    fit = Classifier(3, model=model, positive=positive, covariates="age", xi=0.5, l2=0.1)._fit(frame, y)
    X, Z = frame.drop(columns="age").to_numpy(), frame[["age"]].to_numpy()
    np.testing.assert_allclose(written_out(fit, X, Z, y, fit._state.H), fit.objective_, rtol=1e-9)
    np.testing.assert_allclose(
        fit.reconstruction_error_, np.sum((X - fit._state.H @ fit.components_) ** 2) / np.sum(X**2), rtol=1e-6
    )


def test_a_fit_is_a_minimum(mixed):
    frame, y = mixed
    fit = Classifier(2, covariates="age", tol=1e-13, xi=0.5, l2=0.1)._fit(frame, y)
    X, Z = frame.drop(columns="age").to_numpy(), frame[["age"]].to_numpy()
    rng = np.random.default_rng(0)
    base = fit._state
    for _ in range(10):
        values = []
        for t in (-1e-4, 0.0, 1e-4):
            moved = clone(fit).fit(frame, y)
            noise = np.random.default_rng(int(rng.integers(1000)))
            W, H, B, G, c = (part + t * noise.standard_normal(part.shape) for part in base)
            moved.components_, moved._state = W.T, base._replace(B=B, G=G, intercept=c)
            values.append(written_out(moved, X, Z, y, H))
        assert values[1] <= min(values) + 1e-9 * values[1]


def test_full_rank_is_logistic_regression(mixed):
    frame, y = mixed
    X = frame.drop(columns="age").to_numpy()
    fit = Classifier(12, l2=0.5, xi=1.0, tol=1e-14, max_iter=5000).fit(X, y)
    peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(fit.coef_ @ fit.components_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(fit.predict_proba(X), peer.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("n_responses", [1, 2])
def test_full_rank_is_ridge_regression(mixed, n_responses):
    frame, _ = mixed
    X = frame.to_numpy()
    rng = np.random.default_rng(1)
    Y = 100.0 + 30.0 * X @ rng.standard_normal((13, n_responses)) + rng.standard_normal((200, n_responses))
    y = Y[:, 0] if n_responses == 1 else Y
    fit = Regressor(13, l2=2.0, tol=1e-14, max_iter=5000).fit(X, y)
    peer = Ridge(alpha=2.0).fit(X, y)
    np.testing.assert_allclose(fit.coef_ @ fit.components_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(fit.predict(X), peer.predict(X), atol=1e-3)
    assert np.shape(fit.intercept_) == np.shape(peer.intercept_)


def test_probabilities_are_the_softmax_of_what_the_attributes_say(digits):
    X, y = digits
    fit = Classifier(4, positive=True).fit(X, y)
    a = X @ fit.components_.T @ fit.coef_.T + fit.intercept_
    np.testing.assert_allclose(fit.predict_proba(X), softmax(a, axis=1), atol=1e-10)
    np.testing.assert_allclose(fit.decision_function(X), a, atol=1e-8)
    np.testing.assert_allclose(np.exp(fit.predict_log_proba(X)), fit.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(fit.coef_[0], 0.0)


def test_free_atoms_are_orthonormal_and_codes_uncorrelated(digits):
    X, y = digits
    fit = Classifier(4).fit(X, y)
    np.testing.assert_allclose(fit.components_ @ fit.components_.T, np.eye(4), atol=1e-10)
    H = fit.transform(X)
    gram = H.T @ H
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-6 * gram[0, 0])
    assert np.all(np.diff(np.diag(gram)) <= 0)
    np.testing.assert_allclose(fit.reconstruct(X), H @ fit.components_)


def test_nonnegative_atoms_are_unit_and_their_codes_best(digits):
    X, y = digits
    fit = Classifier(6, positive=True).fit(X, y)
    assert fit.components_.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(fit.components_, axis=1), 1.0)
    H = fit.transform(X)
    slope = (H @ fit.components_ - X) @ fit.components_.T
    assert H.min() >= 0
    assert slope.min() > -1e-8
    np.testing.assert_allclose(H * slope, 0.0, atol=1e-8)


def test_large_xi_gives_principal_components_and_small_xi_the_labels(digits):
    X, y = digits
    loose = Classifier(3, xi=1e4).fit(X, y)
    _, s, Vt = np.linalg.svd(X, full_matrices=False)
    assert principal_angles(loose.components_.T, Vt[:3].T).max() < 0.01
    best = 1.0 - np.sum(s[:3] ** 2) / np.sum(s**2)
    np.testing.assert_allclose(loose.reconstruction_error_, best, rtol=1e-4)
    keen = Classifier(3, xi=1e-6).fit(X, y)
    assert keen.score(X, y) > 0.99 > loose.score(X, y)
    assert keen.reconstruction_error_ > loose.reconstruction_error_


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize("model", ["filter", "feature"])
def test_units_do_not_matter(digits, scale, model):
    X, y = digits
    one, two = (Classifier(3, model=model, tol=1e-9).fit(s * X, y) for s in (1.0, scale))
    np.testing.assert_allclose(one.reconstruction_error_, two.reconstruction_error_, rtol=0.02)
    assert np.abs(one.predict_proba(X) - two.predict_proba(scale * X)).mean() < 0.02


def test_units_of_the_response_do_not_matter(mixed):
    frame, _ = mixed
    X = frame.drop(columns="age").to_numpy()
    y = X[:, 0] - X[:, 1]
    one = Regressor(3, xi=0.5, l1=0.2, positive=True, tol=1e-5, random_state=0).fit(X, y)
    two = Regressor(3, xi=0.5 * 2**20, l1=0.2 * 2**20, positive=True, tol=1e-5, random_state=0).fit(
        X, 1024.0 * y
    )
    np.testing.assert_allclose(1024.0 * one.predict(X), two.predict(X))
    np.testing.assert_allclose(2**20 * one.objective_, two.objective_)
    np.testing.assert_allclose(one.xi_, 0.5)
    flat = Regressor(2, xi=0.5).fit(X, np.full(200, 3.0))
    np.testing.assert_allclose(flat.predict(X), 3.0)


def test_covariates_skip_the_dictionary(mixed):
    frame, y = mixed
    fit = Classifier(3, positive=True, covariates=["age"]).fit(
        frame, y
    )  # age is negative in half of the rows
    assert fit.components_.shape == (3, 12)
    assert fit.covariate_coef_.shape == (1, 1)
    assert fit.covariate_coef_[0, 0] > 1.0
    assert list(fit.covariate_columns_) == [4]
    without = Classifier(3, positive=True).fit(frame.drop(columns="age"), y)
    assert fit.score(frame, y) > without.score(frame.drop(columns="age"), y) + 0.05
    by_place = Classifier(3, positive=True, covariates=[4]).fit(frame.to_numpy(), y)
    np.testing.assert_array_equal(by_place.predict_proba(frame.to_numpy()), fit.predict_proba(frame))
    thin = Classifier(3, positive=True, covariates=[4]).fit(sparse.csr_array(frame.to_numpy()), y)
    np.testing.assert_allclose(thin.predict_proba(frame.to_numpy()), fit.predict_proba(frame), atol=0.01)


@pytest.mark.filterwarnings("ignore:solver='lpgd' is not sure")
@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("solver", ["bcd", "lpgd", "lbfgs"])
def test_ten_classes_with_covariates_by_every_solver(model, solver):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    best = Classifier(10, model=model, covariates=slice(60, 64), xi=1.0).fit(X, y)
    fit = Classifier(
        10, model=model, solver=solver, covariates=slice(60, 64), xi=1.0, max_iter=3000, tol=1e-6
    )
    fit.fit(X, y)
    assert fit.covariate_coef_.shape == (10, 4)
    assert fit.objective_ < 1.1 * best.objective_
    assert fit.score(X, y) > 0.9


def test_lpgd_says_whether_its_theorem_holds(digits):
    X, y = digits
    with pytest.warns(UserWarning, match="not sure to reach the best fit: an intercept has no penalty"):
        Classifier(2, solver="lpgd", xi=1.0).fit(X, y)
    fit = Classifier(2, solver="lpgd", xi=500.0, l2=500.0, fit_intercept=False, tol=1e-12).fit(X, y == 3)
    assert "step of the theorem" in fit.reason_
    best = Classifier(2, xi=500.0, l2=500.0, fit_intercept=False, tol=1e-13).fit(X, y == 3)
    np.testing.assert_allclose(fit.objective_, best.objective_, rtol=1e-6)


def test_refitted_coefficients_are_stationary_for_plain_codes(digits):
    X, y = digits
    options = {"model": "feature", "positive": True, "xi": 0.5, "l2": 0.1, "random_state": 0}
    fit = Classifier(5, **options).fit(X, y)
    H = fit.transform(X)
    B = fit.coef_[1:].T
    k = softmax(H @ fit.coef_.T + fit.intercept_, axis=1)[:, 1:] - (y[:, None] == fit.classes_[1:])
    gram = 0.9 * H.T @ H + 0.1 * np.diag(np.sum(H**2, axis=0))
    np.testing.assert_allclose(H.T @ k + 0.2 * gram @ B, 0.0, atol=1e-3)
    joint = Classifier(5, **options, coding="plain").fit(X, y)
    np.testing.assert_array_equal(joint.components_, fit.components_)
    np.testing.assert_allclose(joint.coef_[1:].T, joint._state.B)


@pytest.mark.parametrize("positive", [False, True])
def test_codes_under_each_label_against_a_fine_grid(mixed, positive):
    frame, y = mixed
    X = frame.drop(columns="age").to_numpy()
    fit = Classifier(1, model="feature", coding="labels", positive=positive, xi=0.05, l2=0.1).fit(X, y)
    codes, costs = fit.label_codes(X[:5])
    w, b, c = fit.components_[0], fit._state.B[0, 0], fit._state.intercept[0]
    grid = np.linspace(0.0 if positive else -60.0, 60.0, 400001)
    for i in range(5):
        for j, sign in enumerate((1.0, -1.0)):
            a = grid * b + c
            cost = np.logaddexp(0.0, sign * a) + 0.1 * (grid * b) ** 2
            cost += 0.05 * (np.sum(X[i] ** 2) - 2.0 * grid * (X[i] @ w) + grid**2 * (w @ w))
            np.testing.assert_allclose(costs[i, j], cost.min(), rtol=1e-6)
            np.testing.assert_allclose(codes[i, j, 0], grid[np.argmin(cost)], atol=1e-3)
    np.testing.assert_allclose(fit.decision_function(X[:5]), costs[:, 0] - costs[:, 1])


@pytest.mark.parametrize("l1", [0.0, 0.5])
@pytest.mark.parametrize("positive", [False, True])
def test_codes_under_each_label_are_best_for_the_objective_of_the_fit(mixed, positive, l1):
    frame, y = mixed
    X = frame.drop(columns="age").to_numpy()
    options = {"model": "feature", "coding": "labels", "xi": 0.05, "l2": 2.0, "tol": 1e-5, "random_state": 0}
    fit = Classifier(3, positive=positive, l1=l1, **options).fit(X, y)
    X = X[:20]
    codes, costs = fit.label_codes(X)
    W, (_, _, B, _, c) = fit.components_.T, fit._state
    pairs = B @ B.T
    if positive:
        pairs = 0.9 * pairs + 0.1 * np.diag(np.diag(pairs))
    for j, truth in enumerate((0.0, 1.0)):
        H = codes[:, j]
        a = H @ B + c
        share = np.logaddexp(0.0, (1.0 - 2.0 * truth) * a[:, 0]) + 0.05 * np.sum((X - H @ W.T) ** 2, axis=1)
        share += 2.0 * np.sum(H * (H @ pairs), axis=1) + l1 * np.sum(np.abs(H), axis=1)
        np.testing.assert_allclose(costs[:, j], share)
        slope = (expit(a) - truth) @ B.T + 4.0 * H @ pairs + 0.1 * (H @ W.T - X) @ W
        moved = H - slope  # a proximal step does not move the best codes
        still = (
            np.maximum(moved - l1, 0.0) if positive else np.sign(moved) * np.maximum(np.abs(moved) - l1, 0.0)
        )
        np.testing.assert_allclose(still, H, atol=1e-4)


def test_codes_with_a_price_are_those_of_the_lasso():
    rng = np.random.default_rng(2)
    D, X = rng.standard_normal((4, 9)), rng.standard_normal((30, 9))
    peer = sparse_encode(X, D, algorithm="lasso_lars", alpha=1.5)
    np.testing.assert_allclose(_shrunken_codes(X @ D.T, D @ D.T, 1.5), peer, atol=1e-6)


def test_a_price_makes_sparse_codes_within_the_bound(digits):
    X, y = digits
    fit = Classifier(4, positive=True, l1=5.0, xi=1.0, tol=1e-5).fit(X, y)
    assert fit.solver_ == "bcd"
    assert np.linalg.norm(fit.components_) <= 2.0 + 1e-12
    free = Classifier(4, positive=True, bounds={"dictionary": 2.0}, xi=1.0, tol=1e-5).fit(X, y)
    assert np.mean(fit.transform(X) == 0) > np.mean(free.transform(X) == 0)


@pytest.mark.parametrize("rule", ["youden", "f1"])
def test_thresholds_against_all_of_them(mixed, rule):
    frame, y = mixed
    X = frame.drop(columns="age").to_numpy()
    fit = Classifier(2, threshold=rule).fit(X, y)
    p, truth = fit.predict_proba(X)[:, 1], y == "yes"

    def merit(found):
        if rule == "f1":
            return f1_score(truth, found)
        return recall_score(truth, found) + recall_score(~truth, ~found)

    best = max(merit(p >= cut) for cut in p)
    np.testing.assert_allclose(merit(fit.predict(X) == "yes"), best)
    held_out = clone(fit).set_params(threshold_cv=4).fit(X, y)
    assert 0 < held_out.threshold_ < 1
    assert held_out.threshold_ != fit.threshold_


def test_class_weights_move_the_labels_and_not_the_rebuilding(mixed):
    frame, y = mixed
    X = frame.drop(columns="age").to_numpy()
    rare = np.flatnonzero(y == "yes")[:20]
    keep = np.r_[np.flatnonzero(y == "no"), rare]
    counts = {label: np.sum(y[keep] == label) for label in ("no", "yes")}
    even = Classifier(2, class_weight="balanced").fit(X[keep], y[keep])
    same = Classifier(2, class_weight={k: len(keep) / (2 * v) for k, v in counts.items()}).fit(
        X[keep], y[keep]
    )
    np.testing.assert_array_equal(even.predict_proba(X), same.predict_proba(X))
    plain = Classifier(2).fit(X[keep], y[keep])
    assert even.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_like_atoms_do_not_cancel_each_other():
    rng = np.random.default_rng(0)
    W = rng.gamma(0.2, size=(3, 40))
    H = rng.exponential(size=(300, 3))
    X = np.maximum(H @ W + 0.05 * rng.standard_normal((300, 40)), 0.0)
    y = X[:, ::2].sum(axis=1) - X[:, 1::2].sum(axis=1) + 0.3 * rng.standard_normal(300) > 0
    fit = Classifier(5, positive=True, random_state=0, xi=0.01).fit(X, y)
    own = np.linalg.norm(fit.coef_)  # atoms have length 1
    assert own < 2.0 * np.linalg.norm(fit.coef_ @ fit.components_)


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_weights_of_nonnegative_fits_count_as_repetitions(digits, model):
    X, y = digits
    w = np.random.default_rng(0).integers(0, 3, len(X))
    one = Classifier(3, model=model, positive=True).fit(X, y, sample_weight=w)
    two = Classifier(3, model=model, positive=True).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(one.objective_, two.objective_, rtol=1e-3)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=0.05)


def test_another_score_function(mixed):
    frame, y = mixed
    X = frame.drop(columns="age").to_numpy()
    h = Multinomial(
        lambda a: np.logaddexp(0.0, a),
        lambda a: 1.0 / (1.0 + np.exp(-a)),
        lambda a: np.exp(-np.abs(a)) / (1.0 + np.exp(-np.abs(a))) ** 2,
    )
    fit = Classifier(2, score_function=h).fit(X, y)
    value = np.logaddexp(0.0, X @ fit.components_.T @ fit.coef_[0] + fit.intercept_[0])
    np.testing.assert_allclose(fit.predict_proba(X)[:, 1], value / (1.0 + value))
    assert fit.score(X, y) > 0.7


def test_the_path_trades_rebuilding_for_labels(digits):
    X, y = digits
    path = Classifier(4).xi_path(X, y)
    assert len(path.xi) == 11
    assert np.all(np.diff(path.reconstruction_error) <= 1e-4)
    assert np.all(np.diff(path.label_loss) >= -1e-3)
    assert path.score[0] > path.score[-1]
    for xi, model in zip(path.xi[::5], path.models[::5], strict=True):
        cold = Classifier(4, xi=float(xi)).fit(X, y)
        assert model.objective_ <= 1.01 * cold.objective_
        assert model.xi_ == xi
        assert model._state.H.size == 0
    chosen = Regressor(2).xi_path(X, X[:, 20], xis=[10.0, 0.1])
    assert chosen.reconstruction_error[0] <= chosen.reconstruction_error[1]


def test_sparse_equals_dense_and_is_never_dense(digits, monkeypatch):
    X, y = digits
    thin = sparse.csr_array(X)
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    for model in ("filter", "feature"):
        for positive in (False, True):
            one = Classifier(3, model=model, positive=positive).fit(thin, y)
            two = Classifier(3, model=model, positive=positive).fit(X, y)
            np.testing.assert_allclose(one.objective_, two.objective_, rtol=1e-3)
            np.testing.assert_allclose(one.predict_proba(thin), two.predict_proba(X), atol=0.05)


def test_float32_stays(digits):
    X, y = digits
    fit = Classifier(3).fit(X.astype(np.float32), y)
    assert fit.components_.dtype == fit.transform(X.astype(np.float32)).dtype == np.float32


def test_search_and_cross_validation(digits):
    X, y = digits
    search = GridSearchCV(Classifier(positive=True), {"n_components": [2, 5]}, cv=3).fit(X, y)
    assert search.best_params_ == {"n_components": 5}
    assert cross_val_score(Classifier(5, model="feature", positive=True), X, y, cv=3).mean() > 0.9


def refuses(message, X, y, E=Classifier, **options):
    with pytest.raises(ValueError, match=message):
        E(**options).fit(X, y)


def test_bad_input(digits, mixed):
    X, y = digits
    frame, labels = mixed
    refuses("Negative values in data .* shift X", X - 1.0, y, positive=True)
    refuses("y has 1 class, 3; .*StratifiedKFold", X[y == 3], y[y == 3])
    refuses("n_components=65 is more than", X, y, n_components=65)
    refuses("of which 12 are covariates", frame, labels, covariates="x*", n_components=2)
    refuses("all 13 columns are covariates", frame, labels, covariates=slice(None))
    refuses("names a column twice", frame, labels, covariates=["age", "age"])
    refuses("matches no column|no column", frame, labels, covariates="weight")
    refuses("xi.*in the range", X, y, xi=-1.0)
    refuses("l1.*in the range", X, y, l1=-1.0)
    refuses("contains NaN", np.where(X > 0.9, np.nan, X), y)
    refuses("Input y contains NaN", X, np.where(y == 3, np.nan, y))
    refuses("threshold='f1' is for two classes, but y has 3", X, y, threshold="f1")
    refuses("coding='labels' is a setting of model='feature'", X, y, coding="labels")
    refuses("coding='labels' compares classes", X, X[:, 3], E=Regressor, model="feature", coding="labels")
    refuses("class_weight names 4", X, y, class_weight={4: 2.0})
    refuses("class_weight of 5 is -2.0; give a finite", X, y, class_weight={3: 1.0, 5: -2.0})
    with pytest.raises(ValueError, match="sample_weight of row 0 is -1; weights must be at least 0"):
        Classifier().fit(X, y, sample_weight=-np.ones(240))
    refuses("threshold_cv=4 tunes a threshold, but threshold=0.5", X, y == 3, threshold_cv=4)
    for gap in (None, np.nan, pd.NA):
        words = y.astype(str).astype(object)
        words[[1, 7]] = gap
        refuses("Input y contains NaN: 2 of 240 labels are missing", X, words)
    refuses("solver='lpgd' works on products", X, y, solver="lpgd", positive=True)
    refuses("solver='lbfgs' takes no bound", X, y, solver="lbfgs", l1=1.0)
    refuses("radius is a setting of solver='bcd'", X, y, solver="lbfgs", radius=Radius())
    with pytest.raises(ValueError, match="finite sum"):
        Radius(power=1.5)
    with pytest.raises(ValueError, match="infinite sum"):
        Radius(power=0.3)
    rare = np.where(np.arange(len(X)) < 3, 1, 0)
    refuses("smallest class has 3 row", X, rare, threshold="youden", threshold_cv=5)
    with pytest.raises(ValueError, match="label_codes is for model='feature'"):
        Classifier().fit(X, y).label_codes(X)
    with pytest.raises(ValueError, match="numbers > 0"):
        Classifier().xi_path(X, y, xis=[1.0, 0.0])
    with pytest.warns(ConvergenceWarning, match="max_iter=2 reached.* larger max_iter"):
        Classifier(max_iter=2).fit(X, y)
    twice = frame.assign(copy=frame["age"])
    with pytest.warns(UserWarning, match="covariate 'age' is a copy of column 'copy'"):
        Classifier(covariates="age").fit(twice, labels)


def test_a_radius_holds_the_steps(digits):
    X, y = digits
    options = {"positive": True, "solver": "bcd", "max_iter": 10, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="max_iter=10 reached"):
        free = Classifier(3, **options).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=10 reached"):
        held = Classifier(3, radius=Radius(scale=0.001), **options).fit(X, y)
    assert np.all(np.diff(held.history_) <= 0)
    assert held.history_[0] == free.history_[0]
    assert held.history_[0] - held.history_[-1] < 0.1 * (free.history_[0] - free.history_[-1])


def test_blobs_with_negative_values():
    X, y = make_blobs(150, 6, centers=3, random_state=0)
    assert Classifier(2).fit(X, y).score(X, y) > 0.95
