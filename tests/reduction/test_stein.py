"""SteinReduction: formulas, equivalences between inputs, labels that are missing, warnings and errors."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA

from colspace import PrincipalHessian, ReducedRank, SteinReduction, SteinReductionCV
from colspace.datasets import make_multiple_response
from colspace.metrics import procrustes_distance
from colspace.reduction._stein_cv import folds_of
from colspace.reduction._stein_path import GaussianPath
from colspace.reduction._stein_sums import stein_from_tables
from colspace.scores import GaussianScore, KernelScore, ScoreModel, StudentScore

PUBLISHED = {"score_model": "gaussian", "whiten": False, "whiten_response": False, "standardize": False}
SAME = 1e-9


class Delegated(ScoreModel):
    """A score model that hides what it is, so that the route for any score is taken."""

    def __init__(self, inner=None):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner_ = (self.inner or GaussianScore()).fit(X)
        self.n_features_in_ = X.shape[1]
        return self

    def score_function(self, X):
        return self.inner_.score_function(X)

    def second_moment(self, X, weights):
        return self.inner_.second_moment(X, weights)


def read_out_error(Z, Y, Z_test, Y_test):
    """Squared error on further rows of the least-squares regression of Y on an embedding."""
    design, test = (np.column_stack([np.ones(len(z)), z]) for z in (Z, Z_test))
    return np.sum((Y_test - test @ np.linalg.lstsq(design, Y, rcond=None)[0]) ** 2)


def projector(model):
    Q = np.linalg.qr(np.asarray(model.components_, dtype=float).T)[0]
    return Q @ Q.T


def difference(one, other):
    return np.linalg.norm(projector(one) - projector(other))


def span(U):
    Q = np.linalg.qr(U)[0]
    return Q @ Q.T


def root(C, power):
    values, vectors = np.linalg.eigh(C)
    return (vectors * values**power) @ vectors.T


@pytest.fixture(scope="module")
def data():
    X, Y, B = make_multiple_response(600, 8, 6, 2, rng=0)
    return X, Y, B


@pytest.fixture(scope="module")
def half(data):
    """Two thirds of the rows unlabelled."""
    X, Y, _ = data
    Y = Y.copy()
    Y[np.arange(600) % 3 > 0] = np.nan
    return X, Y


def test_first_order_as_published(data):
    X, Y, _ = data
    S = np.linalg.solve(np.cov(X.T, bias=True), (X - X.mean(axis=0)).T)
    U = np.linalg.svd(S @ (Y - Y.mean(axis=0)) / 600)[0][:, :2]
    model = SteinReduction(2, **PUBLISHED).fit(X, Y)
    assert np.linalg.norm(projector(model) - span(U)) < SAME


def test_first_order_default_whitens_both_sides(data):
    X, Y, _ = data
    C, Cy = np.cov(X.T, bias=True), np.cov(Y.T, bias=True)
    cross = (X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)) / 600
    U = np.linalg.svd(root(C, -0.5) @ cross @ root(Cy, -0.5))[0][:, :2]
    model = SteinReduction(2, score_model="gaussian").fit(X, Y)
    assert np.linalg.norm(projector(model) - span(root(C, -0.5) @ U)) < SAME
    canonical = ReducedRank(2, weighting="inverse").fit(X, Y)
    assert difference(model, canonical) < 1e-7


def test_second_order_as_published_and_stacked(data):
    X, Y, _ = data
    P = np.linalg.inv(np.cov(X.T, bias=True))
    s = (X - X.mean(axis=0)) @ P
    T = s[:, :, None] * s[:, None, :] - P
    H = np.einsum("nj,nab->jab", Y - Y.mean(axis=0), T) / 600
    values, vectors = np.linalg.eigh(H.mean(axis=0))
    U = vectors[:, np.argsort(-np.abs(values))[:2]]
    published = {"order": 2, **PUBLISHED}
    paper = SteinReduction(2, combine="mean", **published).fit(X, Y)
    assert np.linalg.norm(projector(paper) - span(U)) < SAME
    stacked = SteinReduction(2, **published).fit(X, Y)
    assert np.linalg.norm(projector(stacked) - span(np.linalg.svd(np.hstack(H))[0][:, :2])) < SAME


def test_second_order_of_one_response_is_the_principal_hessian(data):
    X, Y, _ = data
    stein = SteinReduction(2, order=2).fit(X, Y[:, 5])
    assert difference(stein, PrincipalHessian(2).fit(X, Y[:, 5])) < 1e-7


@pytest.mark.parametrize("order", [1, 2, "both"])
@pytest.mark.parametrize("inner", [GaussianScore(), GaussianScore(ridge=2.0)])
def test_moment_route_equals_the_route_of_any_score(data, half, order, inner):
    for X, Y in (data[:2], half):
        for options in (
            {},
            {"whiten": False},
            {"whiten_response": False, "whiten": False},
            {"unlabeled_weight": 0.0},
        ):
            if inner.ridge == "auto" and np.isnan(Y).any() and "unlabeled_weight" not in options:
                continue  # a flat block: no unlabelled direction to compare
            options = {"whiten": False, **options}  # the ridge of a hidden score is not known to the metric
            one = SteinReduction(2, order=order, score_model=inner, n_groups=None, **options).fit(X, Y)
            two = SteinReduction(2, order=order, score_model=Delegated(inner), **options).fit(X, Y)
            assert difference(one, two) < 1e-7


def test_semi_supervised_blend(half):
    X, Y = half
    known = ~np.isnan(Y[:, 0])
    C, Cy = np.cov(X.T, bias=True), np.cov(Y[known].T, bias=True)
    P = np.linalg.inv(C + np.trace(C) / 8 * np.eye(8))
    cross = np.cov(X[known].T, Y[known].T, bias=True)[:8, 8:]
    unlabelled = P @ C
    for whiten_response, labelled in ((True, P @ cross @ root(Cy, -0.5)), (False, P @ cross)):
        rho = np.linalg.norm(labelled, 2) / np.linalg.norm(unlabelled, 2)
        for weight, scale in ((0.5, 0.5 * rho), ("paper", 1.0)):
            gram = labelled @ labelled.T + scale**2 * unlabelled @ unlabelled.T
            model = SteinReduction(
                2,
                unlabeled_weight=weight,
                score_model=GaussianScore(ridge=1.0),
                whiten_response=whiten_response,
                standardize=False,
            ).fit(X, Y)
            U = np.linalg.eigh(gram)[1][:, ::-1][:, :2]
            assert np.linalg.norm(projector(model) - span(U)) < SAME


def test_unlabelled_rows_sharpen_the_law_of_x(half):
    X, Y = half
    known = ~np.isnan(Y[:, 0])
    both = SteinReduction(2, unlabeled_weight=0.0, score_model=GaussianScore()).fit(X, Y)
    assert both.n_labeled_ == known.sum()
    np.testing.assert_allclose(both.score_model_.covariance_, np.cov(X.T, bias=True), atol=1e-10)
    np.testing.assert_allclose(both.mean_, X.mean(axis=0))


@pytest.mark.parametrize("score_model", ["gaussian", GaussianScore(), GaussianScore(ridge=3.0), Delegated()])
def test_without_labels_the_result_is_pca(data, score_model):
    X, _, _ = data
    with pytest.warns(UserWarning, match="directions are those of PCA"):
        model = SteinReduction(3, score_model=score_model, standardize=False).fit(X)
    assert difference(model, PCA(3).fit(X)) < 1e-6
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(PCA(3).fit_transform(X)), atol=1e-6)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.warns(UserWarning, match="directions are those of PCA"):
        model = SteinReduction(3, score_model=score_model).fit(X * 10.0 ** np.arange(-4, 4))
    embedding = model.transform(X * 10.0 ** np.arange(-4, 4))
    np.testing.assert_allclose(np.abs(embedding), np.abs(PCA(3).fit_transform(Z)), atol=1e-6)


# ---------------------------------------------------------------- one result from every kind of input


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("order", [1, 2])
def test_partial_fit_csr_and_dask_equal_fit(half, mean, order):
    X, Y = half
    X = X + mean * X.std(axis=0)
    options = {"order": order, "score_model": GaussianScore(ridge=1.0), "n_groups": 3}
    whole = SteinReduction(2, **options).fit(X, Y)
    stream = SteinReduction(2, **options)
    for i in range(0, 600, 150):
        stream.partial_fit(X[i : i + 150], Y[i : i + 150])
    routes = {
        "partial_fit": stream,
        "csr": SteinReduction(2, **options).fit(sparse.csr_array(X), Y),
        "dask": SteinReduction(2, **options).fit(
            da.from_array(X, chunks=(130, 3)), da.from_array(Y, chunks=(130, 6))
        ),
        "frames": SteinReduction(2, **options).fit(
            dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")), npartitions=3),
            dd.from_pandas(pd.DataFrame(Y, columns=list("uvwxyz")), npartitions=3),
        ),
    }
    for name, model in routes.items():
        assert difference(whole, model) < 1e-9, name
        assert model.n_labeled_ == 200, name


@pytest.mark.parametrize("order", [1, 2])
def test_a_given_law_streams_and_takes_dask(half, order):
    X, Y = half
    law = StudentScore(df=8.0, location=X.mean(axis=0), covariance=np.cov(X.T, bias=True))
    options = {"order": order, "score_model": law, "unlabeled_weight": 0.2}
    whole = SteinReduction(2, **options).fit(X, Y)
    stream = SteinReduction(2, **options)
    for i in range(0, 600, 200):
        stream.partial_fit(X[i : i + 200], Y[i : i + 200])
    lazy = SteinReduction(2, **options).fit(
        da.from_array(X, chunks=(130, 8)), da.from_array(Y, chunks=(130, 6))
    )
    assert difference(whole, stream) < SAME
    assert difference(whole, lazy) < SAME
    assert whole.score_model_.df_ == 8.0


@pytest.mark.parametrize("score_model", [StudentScore(), "auto"])
def test_laws_are_fitted_to_partitions(score_model):
    X, Y, _ = make_multiple_response(600, 8, 6, 2, law="student", df=5.0, rng=0)
    options = {"score_model": score_model, "random_state": 0}
    near = SteinReduction(2, **options).fit(X, Y)
    far = SteinReduction(2, **options).fit(
        da.from_array(X, chunks=(150, 8)), da.from_array(Y, chunks=(150, 6))
    )
    assert type(near.score_model_) is type(far.score_model_)
    assert difference(near, far) < 1e-6


def test_every_way_to_leave_a_label_out(data):
    X, Y, _ = data
    labels = np.where(Y[:, 0] > np.median(Y[:, 0]), "high", "low")
    gone = np.arange(600) % 4 == 0
    options = {"score_model": GaussianScore(ridge=1.0), "unlabeled_weight": 0.3}
    as_none = labels.astype(object)
    as_none[gone] = None
    as_nan = labels.astype(object)
    as_nan[gone] = np.nan
    as_na = pd.Series(labels, dtype="string")
    as_na[gone] = pd.NA
    models = [SteinReduction(1, **options).fit(X, y) for y in (as_none, as_nan, as_na)]
    numbers = np.where(gone, np.nan, (labels == "low").astype(float))
    models.append(SteinReduction(1, response="labels", **options).fit(X, numbers))
    assert {m.n_labeled_ for m in models} == {450}
    for other in models[1:]:
        assert difference(models[0], other) < SAME


def test_streamed_labels(data):
    X, Y, _ = data
    labels = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], np.quantile(Y[:, 0], [0.3, 0.6]))]
    stream = SteinReduction(2)
    with pytest.warns(UserWarning, match="sees rows once"):
        stream.partial_fit(X[:300], labels[:300], classes=["a", "b", "c"])
    stream.partial_fit(X[300:], labels[300:])
    assert difference(stream, SteinReduction(2, score_model="gaussian").fit(X, labels)) < SAME


# ---------------------------------------------------------------- statistics


def test_defaults_beat_the_published_choices():
    errors = {"default": [], "published": []}
    for seed in range(5):
        X, Y, B = make_multiple_response(1500, 15, 10, 2, rng=seed)
        for name, options in (
            ("default", {}),
            ("published", PUBLISHED),
        ):
            model = SteinReduction(2, **options).fit(X, Y)
            errors[name].append(procrustes_distance(B, model.components_.T))
    assert np.median(errors["default"]) < 0.5 * np.median(errors["published"])
    assert np.median(errors["default"]) < 0.1


def test_second_order_finds_even_links_that_the_first_misses():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 8))
    Y = np.column_stack([X[:, 0] ** 2, X[:, 1] ** 2 - X[:, 0] ** 2]) + 0.2 * rng.standard_normal((3000, 2))
    truth = np.eye(8)[:, :2]
    assert procrustes_distance(truth, SteinReduction(2, order=2).fit(X, Y).components_.T) < 0.15
    assert procrustes_distance(truth, SteinReduction(2, order="both").fit(X, Y).components_.T) < 0.15
    assert procrustes_distance(truth, SteinReduction(2, order=1).fit(X, Y).components_.T) > 0.5


def test_the_right_law_matters_for_heavy_tails():
    errors = {"student": [], "gaussian": []}
    for seed in range(3):
        X, Y, B = make_multiple_response(3000, 10, 6, 2, law="student", df=5.0, rng=seed)
        options = {"order": 2, "response": "rank"}
        for name, law in (("student", StudentScore()), ("gaussian", GaussianScore())):
            model = SteinReduction(2, score_model=law, **options).fit(X, Y)
            errors[name].append(procrustes_distance(B, model.components_.T))
    assert np.median(errors["student"]) < 0.5 * np.median(errors["gaussian"])


def test_auto_score_says_which(data):
    X, Y, B = make_multiple_response(1500, 6, 4, 2, law="student", df=5.0, rng=0)
    model = SteinReduction(2, score_model="auto", response="rank", random_state=0).fit(X, Y)
    assert type(model.score_model_).__name__ == "StudentScore"
    assert set(model.held_out_log_density_) == {"gaussian", "student", "hyperbolic"}
    assert procrustes_distance(B, model.components_.T) < 0.6


@pytest.mark.parametrize("rule", ["auto", "moments"])
@pytest.mark.parametrize("order", [1, 2])
def test_rank_by_rule(order, rule):
    X, Y, _ = make_multiple_response(6000, 10, 10, 3, rng=1)
    assert SteinReduction(rule, order=order, response="rank").fit(X, Y).n_components_ == 3
    hidden = SteinReduction(rule, order=order, response="rank", score_model=Delegated()).fit(X, Y)
    assert hidden.n_components_ == 3


# ---------------------------------------------------------------- cross-validation


def test_cross_validation_refits_the_score_in_every_fold(half):
    X, Y = half
    model = SteinReductionCV(2, ridges=(0.3, 3.0), weights=(0.0, 1.0), cv=3).fit(X, Y)
    rows = np.flatnonzero(~np.isnan(Y[:, 0]))
    Z = (Y[rows] - Y[rows].mean(axis=0)) / Y[rows].std(axis=0)
    expected = np.zeros((2, 2))
    for fold in np.array_split(np.arange(200), 3):
        train = np.setdiff1d(np.arange(200), fold)
        hidden = Y.copy()
        hidden[rows[fold]] = np.nan
        for i, ridge in enumerate((0.3, 3.0)):
            for j, weight in enumerate((0.0, 1.0)):
                inner = SteinReduction(
                    2, score_model=GaussianScore(ridge=ridge), unlabeled_weight=weight, whiten=False
                ).fit(X, hidden)
                E = inner.transform(X[rows])
                expected[i, j] += read_out_error(E[train], Z[train], E[fold], Z[fold])
    np.testing.assert_allclose(model.cv_errors_, expected / (200 * 6), rtol=1e-6)
    assert (model.ridge_, model.unlabeled_weight_) in [(r, w) for r in (0.3, 3.0) for w in (0.0, 1.0)]
    assert model.cv_errors_.min() < 1.0
    assert difference(model, model.estimator_) == 0.0


@pytest.mark.filterwarnings("ignore:no gap", "ignore:.*heavy")
@pytest.mark.parametrize("order", [1, "both"])
def test_path_of_ridges_equals_one_fit_at_a_time(order):
    X, Y, _ = make_multiple_response(150, 90, 4, 2, rng=5)
    Y[60:] = np.nan
    model = SteinReduction(3, order=order, whiten=False, n_groups=None)
    model.n_features_in_ = X.shape[1]
    folds = folds_of(model, X, Y, None, 2)
    path = GaussianPath(stein_from_tables(folds.tables.whole, None, folds.scale), model._options(), False, 90)
    for ridge in (0.5, 10.0, np.inf):
        for weight, V in zip((0.2, 2.0), path.directions(ridge * folds.unit, (0.2, 2.0), 3), strict=True):
            one = clone(model).set_params(score_model=GaussianScore(ridge=ridge), unlabeled_weight=weight)
            assert (
                np.linalg.norm(projector(one.fit(X, Y)) - span(path.basis @ V / folds.scale[:, None])) < 1e-6
            )


def test_cross_validation_leaves_out_what_the_responses_cannot_show(half):
    X, Y = half
    assert SteinReductionCV(3, ridges=(1.0,)).fit(X, Y[:, :1]).weights_.tolist() == [0.1, 0.3, 1.0]
    assert SteinReductionCV(3, ridges=(1.0,)).fit(X, Y).weights_.tolist() == [0.0, 0.1, 0.3, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridges": ()}, "ridges="),
        ({"weights": (-1.0,)}, "weights="),
        ({"ridges": (np.nan,)}, "at least 0"),
    ],
)
def test_cross_validation_refuses_empty_or_negative_grids(half, options, message):
    with pytest.raises(ValueError, match=message):
        SteinReductionCV(2, **options).fit(*half)


def test_cross_validation_refuses_a_zero_ridge_on_a_singular_covariance():
    X, Y, _ = make_multiple_response(40, 60, 4, 2, rng=5)
    for wide in (X, np.hstack([X[:, :9], X[:, :1]])):
        with pytest.raises(ValueError, match="only ridges > 0"):
            SteinReductionCV(2, ridges=(0.0, 1.0)).fit(wide, Y)


def test_published_ridge_is_the_largest_eigenvalue_of_noise():
    X, Y, _ = make_multiple_response(50, 200, 4, 2, rng=5)
    ridge = GaussianScore(ridge=9.0)
    published = SteinReduction(2, score_model="gaussian")
    assert difference(published.fit(X, Y), SteinReduction(2, score_model=ridge).fit(X, Y)) < SAME
    tall, Z, _ = make_multiple_response(300, 200, 4, 2, rng=5)
    score = published.fit(tall, Z).score_model_
    R = np.corrcoef(tall.T) + (1 + np.sqrt(200 / 300)) ** 2 * np.eye(200)
    D = tall.std(axis=0)
    np.testing.assert_allclose(score.precision_, np.linalg.inv(R) / D / D[:, None], rtol=1e-8, atol=1e-12)


def test_infinite_ridge_is_the_covariance_with_y(data):
    X, Y, _ = data
    cross = np.cov(X.T, Y.T, bias=True)[:8, 8:] / Y.std(axis=0)
    model = SteinReduction(2, score_model=GaussianScore(ridge=np.inf), whiten=False, standardize=False)
    plain = model.set_params(whiten_response=False).fit(X, Y)
    U = np.linalg.svd(cross * Y.std(axis=0))[0][:, :2]
    assert np.linalg.norm(projector(plain) - span(U)) < SAME


# ---------------------------------------------------------------- warnings and errors


def test_warnings(data, half):
    X, Y, _ = data
    with pytest.warns(UserWarning, match="flat, as it is for every exact score"):
        model = SteinReduction(2, score_model=GaussianScore()).fit(*half)
    assert model.unlabeled_weight_ == 0.0
    with pytest.warns(UserWarning, match=r"more than the 1 direction\(s\) that the responses can show"):
        SteinReduction(2).fit(X, Y[:, 0])
    rng = np.random.default_rng(0)
    round_ = np.linalg.qr(rng.standard_normal((600, 4)))[0]
    with pytest.warns(UserWarning, match="no gap after component 1"):
        SteinReduction(1).fit(round_, round_[:, :2] * 3)
    with pytest.warns(UserWarning, match="pseudo-inverse in the second order"):
        SteinReduction(2, order=2, score_model=GaussianScore(pseudo_inverse=True)).fit(X, Y)
    flat = np.column_stack([X, np.full(600, 3.0)])
    with pytest.warns(UserWarning, match="constant column"):
        SteinReduction(2, score_model=GaussianScore(ridge=1.0)).fit(flat, Y)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda X, Y: (X[:6], Y[:6]),
            {"score_model": GaussianScore(ridge=0)},
            r"more rows than columns.*ridge",
        ),
        (
            lambda X, Y: (np.hstack([X, X[:, :1]]), Y),
            {"score_model": GaussianScore(ridge=0)},
            "singular.*ridge",
        ),
        (lambda X, Y: (np.where(X > 3, np.nan, X), Y), {}, "Input X contains NaN"),
        (lambda X, Y: (X, Y * np.nan), {}, "all of y is missing.*y=None"),
        (lambda X, Y: (X, np.column_stack([Y[:, 0], np.ones(600)])), {}, "column 1 of y is constant"),
        (lambda X, Y: (X, Y), {"n_components": 9}, "n_components=9 is more than the 8 columns"),
        (lambda X, Y: (X, Y), {"order": 3}, "'order' parameter"),
        (lambda X, Y: (X, Y), {"score_model": "cauchy"}, "'score_model' parameter"),
        (lambda X, Y: (X, Y), {"unlabeled_weight": -1.0}, "'unlabeled_weight' parameter"),
        (lambda X, Y: (X, Y[:-1]), {}, "inconsistent numbers of samples"),
    ],
)
def test_bad_input(data, change, options, message):
    X, Y = change(*data[:2])
    with pytest.raises(ValueError, match=message):
        SteinReduction(**options).fit(X, Y)


def test_rows_labelled_in_part(data):
    X, Y, _ = data
    Y = Y.copy()
    Y[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"1 row\(s\) have some responses and miss others \(first: row 4\)"):
        SteinReduction().fit(X, Y)


def test_a_score_of_the_wrong_shape(data):
    class Wrong(Delegated):
        def score_function(self, X):
            return np.zeros(len(X))

    X, Y, _ = data
    with pytest.raises(ValueError, match=r"score_function of Wrong gave shape \(2,\)"):
        SteinReduction(score_model=Wrong()).fit(X, Y)


def test_what_needs_rows_in_memory(data):
    X, Y, _ = data
    lazy = da.from_array(X, chunks=(200, 8))
    with pytest.raises(TypeError, match="rows in memory"):
        SteinReduction(score_model=KernelScore()).fit(lazy, da.from_array(Y, chunks=(200, 6)))
    with pytest.raises(TypeError, match="keeps a sparse table sparse"):
        SteinReduction(score_model=StudentScore()).fit(sparse.csr_array(X), Y)
    with pytest.raises(ValueError, match="partial_fit needs score_model='gaussian'"):
        SteinReduction(score_model=StudentScore()).partial_fit(X, Y)
    for rule in ("auto", "moments"):
        with pytest.raises(ValueError, match="give a number here"):
            SteinReduction(rule).fit(lazy, da.from_array(Y, chunks=(200, 6)))
        with pytest.raises(ValueError, match="give a number here"):
            SteinReduction(rule).fit(X)
    with pytest.raises(ValueError, match="at least two"):
        SteinReductionCV().fit(X, np.where(np.arange(600) == 0, 1.0, np.nan))
