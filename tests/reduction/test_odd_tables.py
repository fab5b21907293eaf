"""Legitimate but odd tables: wide and narrow blocks together, gaps, weights of zero, splitters of any kind."""

import warnings

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import RepeatedKFold, TimeSeriesSplit

from colspace import (
    ConstantColumnWarning,
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SingularCovarianceWarning,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
)
from colspace._response import rank_transform
from colspace.reduction import _joint_fit as joint_module
from colspace.reduction import _span as span_module
from colspace.reduction._proxies import Unfolded, threshold_counts, threshold_rank
from colspace.scores import GaussianScore

ids = lambda e: type(e).__name__


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 60)) * 10.0 ** rng.uniform(-2, 2, 60)
    y = X[:, 50] / X[:, 50].std() + 0.5 * rng.standard_normal(30)
    return X, y


@pytest.fixture(scope="module")
def tall():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4)) + 2.0
    return X, X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(60)


@pytest.mark.parametrize("column", ["constant", "combination"])
@pytest.mark.parametrize("whiten", ["full", "diagonal", None])
def test_a_useless_column_beside_a_wide_block(column, whiten, wide):
    X, y = wide
    X = X.copy()
    X[:, 55] = 3.0 if column == "constant" else X[:, 50] - X[:, 51]
    wide_block, rest = list(range(39, -1, -1)), list(range(40, 50))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = JointReduction(
            1,
            blocks={"b": [51, 55, 50, 52], "a": wide_block, "drop": [*rest, 53, 54, *range(56, 60)]},
            whiten=whiten,
            moments="all",
        ).fit(X, y)
    kinds = [w.category for w in seen]
    assert kinds.count(SingularCovarianceWarning) == (whiten == "full")
    assert kinds.count(ConstantColumnWarning) == (column == "constant")
    assert not model.components_[:, [*rest, 53, 54, *range(56, 60)]].any()
    if column == "combination" and whiten != "full":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        without = JointReduction(
            1,
            blocks={"b": [51, 50, 52], "a": wide_block, "drop": [*rest, *range(53, 60)]},
            whiten=whiten,
            moments="all",
        ).fit(X, y)
    ours, theirs = model.transform(X), without.transform(X)
    for k in range(2):
        assert abs(np.corrcoef(ours[:, k], theirs[:, k])[0, 1]) > 1 - 1e-8


@pytest.mark.parametrize(
    "estimator",
    [JointReduction(1, moments="all"), PrincipalHessian(1, shrinkage=None), ReducedRank(1)],
    ids=ids,
)
def test_a_wide_table_that_does_not_vary(estimator):
    with pytest.warns(ConstantColumnWarning), pytest.warns(SingularCovarianceWarning):
        model = clone(estimator).fit(np.ones((5, 9)), np.arange(5.0) ** 2)
    assert not model.components_.any()


def test_groups_of_a_wide_table(wide):
    X, _ = wide
    groups = np.repeat(["u", "v", "w"], 10)
    y = np.where(groups == "u", np.random.default_rng(0).standard_normal(30), 1.0)
    with pytest.warns(SingularCovarianceWarning):
        model = StructuredOLS(1, shrinkage=None).fit(X, y, groups=groups)
    within = X - np.repeat([X[i : i + 10].mean(axis=0) for i in (0, 10, 20)], 10, axis=0)
    scale = X.std(axis=0)
    Z = within / scale
    beta = np.linalg.pinv(Z.T @ Z) @ (Z[:10].T @ (y[:10] - y[:10].mean())) / scale
    cosine = model.components_[0] @ (beta * scale**2)
    cosine /= np.linalg.norm(model.components_[0] * scale) * np.linalg.norm(beta * scale)
    assert abs(cosine) > 1 - 1e-6


def test_the_noise_of_a_wide_table_is_that_of_its_columns(wide):
    X, y = wide
    options = {"whiten": "diagonal", "blocks": {"a": slice(0, 40), "b": slice(40, 60)}}
    span = JointReduction("threshold", **options).fit(X, y)
    plain = JointReduction("threshold", n_selected={"a": 40, "b": 20}, **options).fit(X, y)
    assert span.n_components_ == plain.n_components_ < 20
    np.testing.assert_allclose(
        span.components_, plain.components_, atol=1e-10 * np.abs(plain.components_).max()
    )


def test_many_rows_of_a_wide_table_are_sketched_without_their_products(wide, monkeypatch):
    X, y = wide

    def refuse(*_):
        msg = "products of rows were formed"
        raise AssertionError(msg)

    monkeypatch.setattr(span_module, "_coordinates", refuse)
    monkeypatch.setattr(joint_module, "_WIDE", 20)
    model = JointReduction(1, whiten="diagonal", random_state=0).fit(X, y)
    assert model.solver_ == "randomized"
    with pytest.raises(AssertionError, match="products of rows"):
        JointReduction(1, whiten="diagonal", solver="exact").fit(X, y)
    monkeypatch.setattr(joint_module, "_WIDEST_FULL", 20)
    with pytest.raises(ValueError, match="30 x 30 covariance"):
        JointReduction(1).fit(X, y)


def test_ledoit_wolf_may_find_that_nothing_need_be_shrunk():
    X = np.outer(np.tile([1.0, -1.0], 20), [1.0, 1.0, 2.0])
    with pytest.warns(SingularCovarianceWarning):
        model = PrincipalHessian(1, shrinkage="auto").fit(X, np.arange(40.0) ** 2)
    assert 0 < model.shrinkage_ < 1e-6


# ------------------------------------------------------------------------------------------------ weights


def test_weighted_ranks():
    y = np.array([[3.0, 1.0], [1.0, 1.0], [3.0, 5.0], [2.0, 0.0]])
    times = np.array([1, 3, 2, 1])
    repeated = rank_transform(np.repeat(y, times, axis=0))
    np.testing.assert_allclose(np.repeat(rank_transform(y, times.astype(float)), times, axis=0), repeated)
    np.testing.assert_allclose(rank_transform(y[:, 0], np.full(4, 2.5)), rank_transform(y[:, 0]))


@pytest.mark.parametrize(
    "estimator", [JointReduction(1), SteinReduction(1), PrincipalHessian(1), StructuredOLS(1)], ids=ids
)
def test_ranks_of_weighted_rows(estimator, tall):
    X, y = tall
    times = np.arange(60) % 3
    if isinstance(estimator, SteinReduction):
        y = np.where(np.arange(60) % 7 == 0, np.nan, y)
    estimator = clone(estimator).set_params(response="rank")
    weighted = clone(estimator).fit(X, y, sample_weight=times).components_
    repeated = clone(estimator).fit(np.repeat(X, times, axis=0), np.repeat(y, times)).components_
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)


@pytest.mark.parametrize(
    "estimator", [JointReduction(1), SteinReduction(1), SlicedInverse(1), ReducedRank(1)], ids=ids
)
def test_weights_of_lazy_tables(estimator, tall):
    X, y = tall
    lazy = da.from_array(X, chunks=(20, 4)), da.from_array(y, chunks=20)

    def fit(weights):
        return clone(estimator).fit(*lazy, sample_weight=da.from_array(weights, chunks=20)).components_

    late = np.repeat([0.0, 1.0], [20, 40])
    np.testing.assert_allclose(fit(late), clone(estimator).fit(X[20:], y[20:]).components_, atol=1e-12)
    with pytest.raises(ValueError, match="sample_weight of row 3 is -2; weights must be at least 0"):
        fit(np.where(np.arange(60) == 43, -2.0, 1.0))
    with pytest.raises(ValueError, match="zero in every row"):
        fit(np.zeros(60))


@pytest.mark.parametrize("columns", [4, 80])
def test_rows_of_weight_zero_are_in_no_fold(columns, tall):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((60, columns)), tall[1]
    weights = np.where(np.arange(60) % 3, rng.uniform(0.5, 2.0, 60), 0.0)
    kept = weights > 0
    options = {"n_components": 1, "ridges": (1.0, 10.0)}
    model = SteinReductionCV(**options).fit(X, y, sample_weight=weights)
    without = SteinReductionCV(**options).fit(X[kept], y[kept], sample_weight=weights[kept])
    np.testing.assert_allclose(model.cv_errors_, without.cv_errors_)
    np.testing.assert_allclose(model.components_, without.components_, atol=1e-12)
    # folds given as rows of the table are of those rows
    first, last = np.arange(40), np.arange(40, 60)
    model = SteinReductionCV(**options, cv=[(first, last)]).fit(X, y, sample_weight=weights)
    count = int(kept[:40].sum())
    folds = [(np.arange(count), np.arange(count, kept.sum()))]
    without = SteinReductionCV(**options, cv=folds).fit(X[kept], y[kept], sample_weight=weights[kept])
    np.testing.assert_allclose(model.cv_errors_, without.cv_errors_)


# ------------------------------------------------------------------------------------------------ Stein


@pytest.mark.parametrize("gaps", [False, True])
def test_labels_that_come_late_in_a_lazy_table(gaps, tall):
    X, _ = tall
    y = np.repeat(["b", "a", "c"], 20).astype(object)
    weights = np.ones(60)
    if gaps:
        y[::4], weights[1::4] = None, 0.0
    lazy = da.from_array(X, chunks=(20, 4)), da.from_array(y, chunks=20)
    model = SteinReduction(2).fit(*lazy, sample_weight=weights)
    np.testing.assert_allclose(
        model.components_, SteinReduction(2).fit(X, y, sample_weight=weights).components_, atol=1e-11
    )
    folds = SteinReductionCV(2, cv=3).fit(*lazy)
    assert np.isfinite(folds.cv_errors_).all()


@pytest.mark.parametrize(
    "cv", [TimeSeriesSplit(3, gap=2), RepeatedKFold(n_splits=2, n_repeats=31, random_state=0)], ids=ids
)
def test_folds_train_on_the_rows_of_the_splitter(cv, tall):
    X, y = tall
    model = SteinReductionCV(1, cv=cv, ridges=(2.0,)).fit(X, y)
    total, count = 0.0, 0
    for train, test in cv.split(X):
        known = np.full(60, np.nan)
        known[train] = y[train]
        options = {"score_model": GaussianScore(ridge=2.0), "whiten": False, "unlabeled_weight": 0.0}
        stein = SteinReduction(1, n_groups=None, **options).fit(X, known)
        Z = stein.transform(X)
        line = LinearRegression().fit(Z[train], y[train])
        total += np.sum((y[test] - line.predict(Z[test])) ** 2)
        count += len(test)
    np.testing.assert_allclose(model.cv_errors_, [[total / count / y.var()]], rtol=1e-9)


def test_labels_on_every_fifth_row_are_dealt_out_to_all_folds():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((500, 5))
    Y = np.full((500, 3), np.nan)
    Y[::5] = X[::5, :3]
    assert SteinReduction("moments").fit(X, Y).n_components_ == 3


def test_a_singular_covariance_is_said_once_when_the_rank_is_looked_for(tall):
    X, y = tall
    for rule in ("auto", "moments"):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            SteinReduction(rule, score_model=GaussianScore()).fit(np.column_stack([X, X[:, 0]]), y)
        assert [w.category for w in seen].count(SingularCovarianceWarning) == 1


def test_a_given_location_holds_in_a_wide_table(wide):
    X, y = wide
    Z = X / X.std(axis=0)
    location = np.linspace(-1.0, 1.0, 60)
    score = GaussianScore(location=location, ridge=1.0)
    model = SteinReduction(1, order=2, score_model=score, whiten=False).fit(Z, y)
    P = np.linalg.inv(np.cov(Z.T, bias=True) + np.eye(60))
    D = Z - location
    H = P @ (D.T * (y - y.mean())) @ D @ P
    _, vectors = np.linalg.eigh(H @ H)
    assert abs(vectors[:, -1] @ model.components_[0]) > 1 - 1e-9


# ------------------------------------------------------------------------------------------------ messages


@pytest.mark.parametrize("estimator", [JointReduction(1), SteinReduction(1)], ids=ids)
def test_what_overflows_is_named(estimator, tall):
    X, y = tall
    far = np.where(np.arange(60) == 50, -1e200, y)
    with pytest.raises(ValueError, match="y holds -1e\\+200, and sums of squares"):
        clone(estimator).fit(da.from_array(X, chunks=(20, 4)), da.from_array(far, chunks=20))
    with pytest.raises(ValueError, match="sample_weight goes up to 1e\\+308"):
        clone(estimator).fit(X, y, sample_weight=np.full(60, 1e308))
    cell = X.copy()
    cell[2, 1] = -1e200
    with pytest.raises(ValueError, match="column 1 holds -1e\\+200"):
        clone(estimator).fit(cell, y)


def test_a_stream_that_waits_says_what_helps(wide):
    X, y = wide
    model = JointReduction(1, moments="all").partial_fit(X, y)
    with pytest.raises(
        NotFittedError, match=r"30 rows, 60 columns. Remedies: more rows, or shrinkage in \(0, 1\]"
    ):
        model.transform(X)
    assert model.set_params(shrinkage=0.1).partial_fit(X, y).transform(X).shape == (30, 1)


# ------------------------------------------------------------------------------------------------ noise


def test_the_edge_of_the_noise():
    owner = np.array([-1, 0, 0])
    for widths, rows, columns in ((None, 2, 3), ((8,), 8, 1 + 2 * 4)):
        edge = 1.05 * (np.sqrt(rows) + np.sqrt(columns)) / np.sqrt(50)
        for factor, found in ((0.999, 0), (1.001, 1)):
            matrix = np.array([[edge * factor, 0.0, 0.0], [0.0, 0.1 * edge, 0.0]])
            unfolded = [Unfolded(matrix, owner, np.array([0, 0, 1]))]
            assert threshold_rank(unfolded, 50, 2, widths) == found


def test_thresholds_of_folds_know_how_many_rows_they_have(tall, monkeypatch):
    seen = []

    def spy(unfolded, count, *args, **options):
        seen.append(count)
        return threshold_counts(unfolded, count, *args, **options)

    monkeypatch.setattr(joint_module, "threshold_counts", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        JointReduction(1, whiten="diagonal", n_selected="auto").fit(*tall)
    assert set(seen[:-1]) == {48.0}
    assert seen[-1] == 60


@pytest.mark.parametrize("whiten", ["full", "diagonal", None])
def test_means_and_deviations_of_a_wide_table(whiten, wide):
    X, y = wide
    model = JointReduction(1, whiten=whiten, shrinkage=0.5 if whiten == "full" else None).fit(X, y)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(model.scale_, X.std(axis=0))
