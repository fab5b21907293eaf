"""Inputs that the fuzz found, each by itself: what was wrong with them before is named beside them."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from colspace import (
    BilinearPairRegressor,
    CopulaImputer,
    JointReduction,
    PairRegressor,
    PrincipalHessian,
    ReducedRank,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
    SupervisedDictionaryClassifier,
    SupervisedDictionaryRegressor,
)
from colspace._containers import as_column
from colspace.pairs._kernel import excess_distances, kernel_rows
from colspace.scores import GaussianScore, HyperbolicScore, KernelScore, StudentScore

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    return X, X[:, 0] + 0.1 * rng.standard_normal(40)


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


# ---------------------------------------------------------------------- refused by name


@pytest.mark.parametrize("y", [3.0, "y", np.zeros((40, 2, 2))], ids=["number", "text", "three dimensions"])
@pytest.mark.parametrize("model", [SlicedInverse(), ReducedRank(), SupervisedDictionaryRegressor()])
def test_a_response_of_no_rows(model, y, data):  # IndexError, numpy's words
    with pytest.raises(ValueError, match=r"y has [03] dimensions; give one value per row"):
        model.fit(data[0], y)


@pytest.mark.parametrize("odd", [1, 2.5, True])
def test_labels_of_two_kinds(odd, data):  # '<' not supported between instances
    y = np.array(["a", odd] * 20, dtype=object)
    for held in (y, y.tolist(), pd.Series(y)):
        with pytest.raises(ValueError, match=rf"y.* mixes text and values of type {type(odd).__name__}"):
            SteinReduction().fit(data[0], held)


def test_text_with_gaps_is_of_one_kind():
    assert as_column(np.array(["a", None, np.nan], dtype=object)).values.tolist()[0] == "a"


def test_no_label_at_all(data):  # IndexError
    with pytest.raises(ValueError, match=r"y is empty: no class is there|inconsistent numbers of samples"):
        SlicedInverse(response="labels").fit(data[0], [])


@pytest.mark.parametrize("weight", [1e308, 5e-324])
@pytest.mark.parametrize(
    "model", [SlicedInverse(), SupervisedDictionaryRegressor(), GaussianScore(), CopulaImputer(1)]
)
def test_weights_whose_sums_are_no_numbers(model, weight, data):  # overflow in a cumulative sum
    with pytest.raises(ValueError, match=r"sample_weight goes up to .*; divide them by"):
        model.fit(*data, sample_weight=np.full(40, weight))


def test_weights_that_are_text(data):
    with pytest.raises(ValueError, match="sample_weight holds 'a'; give one number per row"):
        SlicedInverse().fit(*data, sample_weight=["a"] * 40)


def test_numbers_for_a_classifier_and_labels_for_a_regressor(data):
    X, y = data
    with pytest.raises(ValueError, match=r"Unknown label type.*Remedies: SupervisedDictionaryRegressor"):
        SupervisedDictionaryClassifier().fit(X, y)
    with pytest.raises(
        ValueError, match=r"y holds 'a', no number; SupervisedDictionaryClassifier takes labels"
    ):
        SupervisedDictionaryRegressor().fit(X, ["a", "b"] * 20)


@pytest.mark.parametrize("model", [SupervisedDictionaryRegressor(), SupervisedDictionaryClassifier()])
@pytest.mark.parametrize("lazy", [False, True])
def test_dictionary_of_a_cell_out_of_proportion(model, lazy, data):  # overflow in matmul, an objective of NaN
    X, y = data[0].copy(), (data[1] > 0).astype(float)
    X[3, 2] = 1e200
    with pytest.raises(ValueError, match=r"column 2 holds 1e\+200"):
        model.fit(da.from_array(X, chunks=(20, 4)) if lazy else X, y)


def test_dictionary_of_next_to_nothing(data):
    with pytest.raises(ValueError, match=r"largest entry of X is .*multiply X by a constant"):
        SupervisedDictionaryRegressor().fit(data[0] * 1e-200, data[1])


@pytest.mark.parametrize("model", [SupervisedDictionaryRegressor(), SteinReduction(1), PairRegressor(1)])
def test_responses_whose_squares_overflow(model, data):
    X, y = data
    y = np.where(np.arange(40) == 0, 1e300, y)
    arguments = (X, X[:5], np.outer(y, np.arange(1, 6))) if isinstance(model, PairRegressor) else (X, y)
    with pytest.raises(ValueError, match=r"([yY] (holds|spreads over) .*|sums over Y )overflow"):
        model.fit(*arguments)


def test_coefficients_that_overflow(data):
    with pytest.raises(ValueError, match="coefficients overflow float32"):
        ReducedRank().fit(data[0].astype(np.float32) * 1e-20, data[1] * 1e30)


@pytest.mark.parametrize("grid", [{"ridges": ("a",)}, {"weights": ()}, {"ridges": (np.nan,)}])
def test_grids_of_no_numbers(grid, data):
    with pytest.raises(ValueError, match=f"{next(iter(grid))}=.*: give one or more values of at least 0"):
        SteinReductionCV(1, **grid).fit(*data)


@pytest.mark.parametrize("model", [StudentScore(), HyperbolicScore(dispersion=np.eye(2))])
def test_laws_that_collapse(model):  # "columns are in units so small"
    X = np.zeros((30, 2))
    if isinstance(model, StudentScore):
        X[:2] = [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="so many rows of X are equal that the likelihood has no maximum"):
        model.fit(X)


@pytest.mark.parametrize("model", [PairRegressor(1), BilinearPairRegressor(1)])
def test_pairs_are_in_memory(model, data):  # AttributeError, numpy's words
    X = data[0]
    with pytest.raises(TypeError, match=r"A is a Dask collection .*give A.compute\(\)"):
        model.fit(da.from_array(X, chunks=(10, 4)), X[:5], np.ones((40, 5)))


# ---------------------------------------------------------------------- rows that are out of all proportion to those of fit


@pytest.mark.parametrize("model", [GaussianScore(), StudentScore(), KernelScore()])
def test_scores_of_rows_far_off(model, data):  # NaN
    X = data[0]
    model.fit(X * 1e-60)
    with pytest.raises(ValueError, match=r"column 1 holds 1e\+300"):
        model.score_function(np.array([[0.0, 1e300, 0.0, 0.0]]))


@pytest.mark.parametrize("model", [SlicedInverse(1), ReducedRank(1)])
@pytest.mark.parametrize("sparsely", [False, True])
def test_embeddings_of_rows_far_off(model, sparsely, data):  # infinity
    model.fit(data[0] * 1e-60, data[1])
    far = np.array([[1e300, 0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"column 0 holds 1e\+300"):
        model.transform(sparse.csr_array(far) if sparsely else far)


def test_pairs_far_off(data):
    X = data[0]
    model = BilinearPairRegressor(1).fit(X * 1e-100, X[:9], X @ X[:9].T)
    with pytest.raises(ValueError, match=r"column 1 holds 1e\+300"):
        model.predict(np.array([[0.0, 1e300, 0.0, 0.0]]))


# ---------------------------------------------------------------------- fitted


def test_two_kinds_of_sparse_matrices(data):  # np.matrix: operands could not be broadcast
    X = sparse.random(60, 5, 0.5, random_state=0)
    y = X.toarray()[:, 0] + np.arange(60) / 60
    found = [
        SlicedInverse(1, shrinkage="auto").fit(kind(X), y).components_
        for kind in (sparse.csr_matrix, sparse.csr_array, lambda X: X.toarray())
    ]
    np.testing.assert_allclose(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], atol=1e-8)


def test_fewer_rows_of_a_class_than_folds(data):  # n_splits=5 cannot be greater
    X, _ = data
    assert np.isfinite(SteinReductionCV(1).fit(X[:6], ["a", "b", "c"] * 2).components_).all()
    assert np.isfinite(SteinReductionCV(1).fit(X[:4], ["a", "b", "c", "d"]).components_).all()


def test_weights_of_zero_in_the_span_of_rows():  # division by zero
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((8, 30)), rng.standard_normal(8)
    weight = np.array([0, 1, 1, 2, 1, 1, 0, 1.0])
    kept = weight > 0
    every = [[a, b] for a, b in (([1, 2, 3, 4], [5, 7]), ([3, 4, 5, 7], [1, 2]))]
    moved = [[np.searchsorted(np.flatnonzero(kept), part) for part in pair] for pair in every]
    one = SteinReductionCV(1, cv=every).fit(X, y, sample_weight=weight)
    two = SteinReductionCV(1, cv=moved).fit(X[kept], y[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-8)


@pytest.mark.parametrize("X", [np.zeros((20, 3)), np.full((20, 3), 1e-300) * np.arange(20)[:, None]])
def test_cross_validation_of_next_to_nothing(X):  # invalid value in divide
    try:
        model = SteinReductionCV(1).fit(X, np.arange(20.0))
    except ValueError as refused:
        assert "column" in str(refused)  # noqa: PT017
    else:
        assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("model", [SteinReduction(1), PrincipalHessian(1), StructuredOLS(1)])
def test_labels_of_rows_that_do_not_count(model):  # label 'c' was not among the classes
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] > 0, "a", "b")
    y[[2, 50]] = "c"
    weight = np.ones(60)
    weight[[2, *range(40, 60)]] = 0.0
    lazy = [da.from_array(a, chunks=(20, *a.shape[1:])) for a in (X, y, weight)]
    one = model.fit(*lazy[:2], sample_weight=lazy[2]).components_
    two = model.fit(X, y, sample_weight=weight).components_
    np.testing.assert_allclose(np.abs(one), np.abs(two), atol=1e-8)


def test_negative_weights_in_a_partition(data):
    X, y = (da.from_array(a, chunks=(20, *a.shape[1:])) for a in data)
    weight = da.from_array(np.where(np.arange(40) == 30, -1.0, 1.0), chunks=20)
    with pytest.raises(ValueError, match=r"in partition 1 .*sample_weight of row 10 is -1"):
        SlicedInverse(1).fit(X, y, sample_weight=weight)


def test_steins_method_reads_labels_of_dask(
    data,
):  # "class labels in chunks: give all classes at the first call"
    X, y = data
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.5])]
    lazy = da.from_array(X, chunks=(10, 4)), da.from_array(labels, chunks=10)
    one, two = SteinReduction(2).fit(*lazy), SteinReduction(2).fit(X, labels)
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-8)


def test_a_dask_array_of_objects(data):  # Cannot cast ufunc 'subtract'
    X, y = data
    lazy = da.from_array(X.astype(object), chunks=(10, 4))
    np.testing.assert_allclose(
        SteinReduction(1).fit(lazy, da.from_array(y, chunks=10)).components_,
        SteinReduction(1).fit(X, y).components_,
        atol=1e-10,
    )


def test_columns_whose_values_are_as_small_as_numbers_are():  # NaN in slopes between them
    rng = np.random.default_rng(3)
    X = pl.DataFrame(rng.integers(-5, 6, (40, 4)) * 5e-324)
    assert np.isfinite(np.asarray(CopulaImputer(1, max_iter=2).fit_transform(X))).all()


@pytest.mark.parametrize("unit", [1e-200, 5e-320])
def test_kernels_of_entities_next_to_each_other(unit):  # ZeroDivisionError
    E = np.arange(6.0).reshape(3, 2) * unit
    plain = kernel_rows(excess_distances(E / unit, E / unit, 2.0))
    np.testing.assert_allclose(kernel_rows(excess_distances(E, E, 2.0 * unit)), plain, rtol=1e-2)


def test_dictionary_of_zeros_by_low_rank_steps():  # ARPACK: starting vector is zero
    y = np.arange(20) % 2
    model = SupervisedDictionaryClassifier(1, solver="lpgd", max_iter=2).fit(np.zeros((20, 6)), y)
    assert np.isfinite(model.predict_proba(np.zeros((2, 6)))).all()


def test_units_of_pairs_beyond_squares():  # a deviation of zero
    rng = np.random.default_rng(4)
    A, B = rng.standard_normal((12, 3)), rng.standard_normal((9, 2))
    Y = A[:, :1] @ B[:, :1].T
    one = BilinearPairRegressor(1).fit(A, B, Y).predict(A, B)
    two = BilinearPairRegressor(1).fit(A * 1e-300, B, Y).predict(A * 1e-300, B)
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_published_units_of_a_huge_cell(data):  # overflow in the squares of singular values
    X = data[0].copy()
    X[0, 0] = 1e150
    model = JointReduction(1, whiten=None, n_selected=2)
    try:
        found = model.fit(X, data[1]).components_
    except ValueError as refused:
        assert "overflow" in str(refused)  # noqa: PT017
    else:
        assert np.isfinite(found).all()


@pytest.mark.parametrize("estimator", [SteinReduction(1), SlicedInverse(1), JointReduction(1)], ids=str)
def test_a_huge_cell_under_tiny_weights(estimator):  # Input covariance contains NaN
    X = np.random.default_rng(0).standard_normal((30, 2))
    X[3, 1] = 1e160
    with pytest.raises(ValueError, match=r"column 1 holds"):
        estimator.fit(X, X[:, 0] ** 2 + X[:, 0], sample_weight=np.full(30, 1e-30))
