"""The Gram form, products, the choice of a solver, seeds, units and stability."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from colspace import SupervisedDictionaryClassifier as Classifier
from colspace._random import generator
from colspace.dictionary import _fit as fitting
from colspace.dictionary import _objective as obj
from colspace.dictionary._eliminated import eliminated, with_moment
from colspace.dictionary._losses import Squared, one_hot
from colspace.dictionary._products import backward, forward, second_moment
from colspace.dictionary._stability import matched_cosines
from colspace.dictionary._start import _subspace, leading_directions


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, (3, 5, 8)))[:300]
    return X[rows] / 16, y[rows]


def make(n=60, p=12, r=3, K=2, seed=0, dtype=np.float64, **options):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((n, p)).astype(dtype), rng.standard_normal((n, 2))
    w, v = rng.integers(0, 4, n).astype(float), rng.random(n)
    Y = one_hot(rng.integers(0, K + 1, n), K + 1)
    problem = obj.make_problem(X, Y, Z, xi=0.3, l2=0.7, weight=w, label_weight=v, **options)
    parts = [rng.standard_normal(shape) for shape in ((p, r), (r, K), (2, K), (K,))]
    return problem, obj.Coefficients(*parts)


@pytest.mark.parametrize("loss", [None, Squared()])
@pytest.mark.parametrize("chunk", [None, 7])
def test_the_gram_form_has_the_same_value_and_gradient(loss, chunk):
    problem, at = make(loss=loss, chunk=chunk)
    gram = with_moment(problem, 3)
    X = problem.X
    np.testing.assert_allclose(gram.moment, X.T @ (problem.weight[:, None] * X), rtol=1e-12, atol=1e-12)
    (one, d), (two, e) = eliminated(problem, at), eliminated(gram, at)
    assert one == pytest.approx(two, rel=1e-12)
    for a, b in zip(d, e, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_gram_form_is_for_dense_tables_with_more_rows_than_columns():
    tall, _ = make()
    assert with_moment(tall, 3).moment is not None
    wide, _ = make(n=20, p=12)
    assert with_moment(wide, 3).moment is None
    thin = obj.make_problem(sparse.csr_array(tall.X), tall.Y)
    assert with_moment(thin, 3).moment is None
    many, _ = make(n=2000, p=300)
    assert with_moment(many, 2).moment is None  # two atoms are as quick without it
    assert with_moment(many, 3).moment is not None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 4])
def test_products(dtype, k):
    rng = np.random.default_rng(0)
    A, W, R = (
        rng.standard_normal((30, 9)).astype(dtype),
        rng.standard_normal((9, k)),
        rng.standard_normal((30, k)),
    )
    w = rng.random(30)
    rtol = 1e-12 if dtype == np.float64 else 1e-4
    for X in (A, np.asfortranarray(A), A[::2].copy(), sparse.csr_array(A)):
        n = X.shape[0]
        dense = X.toarray() if sparse.issparse(X) else X
        np.testing.assert_allclose(forward(X, W), dense @ W, rtol=rtol, atol=1e-5 if rtol > 1e-10 else 1e-12)
        np.testing.assert_allclose(
            backward(X, R[:n]), dense.T @ R[:n], rtol=rtol, atol=1e-5 if rtol > 1e-10 else 1e-12
        )
        M = second_moment(X, None, None, w[:n], None)
        np.testing.assert_allclose(
            M, (dense.T * w[:n]) @ dense, rtol=rtol, atol=1e-4 if rtol > 1e-10 else 1e-12
        )
        assert forward(X, W).dtype == backward(X, R[:n]).dtype == M.dtype == np.float64


@pytest.mark.parametrize("shape", [(200, 30), (40, 90)])
@pytest.mark.parametrize("csr", [False, True])
def test_the_start_does_not_depend_on_the_seed(shape, csr):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) * np.geomspace(3, 1, shape[1])
    problem = obj.make_problem(sparse.csr_array(X) if csr else X, np.zeros((shape[0], 1)))
    problem = with_moment(problem, 4)
    exact = np.linalg.svd(X)[2][:4]
    for seed in range(2):
        V, values = leading_directions(problem, 4, np.random.default_rng(seed))
        np.testing.assert_allclose(np.abs(np.sum(V.T * exact, axis=1)), 1.0, atol=1e-6)
        np.testing.assert_allclose(values, np.linalg.svd(X)[1][:4] ** 2, rtol=1e-7)
        assert V[np.abs(V).argmax(axis=0), range(4)].min() > 0


def test_subspace_iterations_stop_at_eigenvectors():
    X = np.random.default_rng(0).standard_normal((60, 30)) * np.geomspace(10, 0.1, 30)
    problem = obj.make_problem(X, np.zeros((60, 1)))
    V, values = _subspace(problem, 3, np.random.default_rng(1).standard_normal((30, 13)))
    np.testing.assert_allclose(X.T @ (X @ V), V * values, atol=1e-5 * values[0])


@pytest.mark.parametrize(
    ("options", "csr", "solver"),
    [
        ({}, False, "lbfgs"),
        ({"model": "feature"}, False, "lbfgs"),
        ({"positive": True}, False, "bcd"),
        ({"positive": True, "model": "feature"}, False, "bcd"),
        ({}, True, "lbfgs"),
        ({"positive": True}, True, "bcd"),
        ({"positive": True, "xi": 0.0}, False, "lbfgs"),
        ({"bounds": {"dictionary": 1.0}}, False, "bcd"),
    ],
)
def test_the_automatic_solver(digits, options, csr, solver):
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five iterations do not converge
        fit = Classifier(2, max_iter=5, random_state=0, **options).fit(sparse.csr_array(X) if csr else X, y)
    assert fit.solver_ == solver


def test_large_sparse_tables_are_solved_by_blocks(monkeypatch, digits):
    X, y = digits
    monkeypatch.setattr(fitting, "_LARGE", np.count_nonzero(X))
    assert Classifier(2, tol=1e-2).fit(sparse.csr_array(X), y).solver_ == "bcd"
    monkeypatch.setattr(fitting, "_LARGE", np.count_nonzero(X) + 1)
    assert Classifier(2, tol=1e-2).fit(sparse.csr_array(X), y).solver_ == "lbfgs"


def test_single_precision_has_the_same_fit(digits):
    X, y = digits
    one, two = (Classifier(4, tol=1e-6).fit(X.astype(t), y) for t in (np.float64, np.float32))
    assert two.objective_ == pytest.approx(one.objective_, rel=1e-4)
    assert matched_cosines(one.components_, two.components_).min() > 0.999
    assert two.components_.dtype == np.float32


# ---------------------------------------------------------------------- units


def test_a_column_far_above_the_others_is_named(digits):
    X, y = digits
    table = np.column_stack([X[:, 20:40], 1e6 * X[:, 28] + 1.0])
    with pytest.warns(
        UserWarning, match=r"column\(s\) 20: root mean square up to .* times that of the median"
    ) as seen:
        Classifier(2).fit(table, y)
    assert seen[0].filename == __file__
    da = pytest.importorskip("dask.array")
    with pytest.warns(UserWarning, match=r"column\(s\) 20: root mean square"):
        Classifier(2).fit(da.from_array(table, chunks=(100, 21)), y)
    Classifier(2, covariates=[20], l2=1.0).fit(table, y)  # as a covariate it needs no atom: no warning
    with pytest.warns(UserWarning, match=r"column\(s\) 1: root"):
        Classifier(1).fit(table[:, [8, 20]], y)


# ---------------------------------------------------------------------- stability


def test_matched_cosines_are_the_best_of_all_pairings():
    rng = np.random.default_rng(0)
    for _ in range(5):
        A, B = rng.standard_normal((4, 6)), rng.standard_normal((4, 6))
        cosine = np.abs(A @ B.T) / np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))
        best = max(permutations(range(4)), key=lambda order: sum(cosine[range(4), order]))
        np.testing.assert_allclose(matched_cosines(A, B), cosine[range(4), best])


def test_stability_is_that_of_fits_to_rows_drawn_with_replacement(digits):
    X, y = digits
    weight = np.random.default_rng(3).integers(0, 3, len(y)).astype(float)
    options = {"xi": 0.05, "l2": 0.1, "tol": 1e-9, "max_iter": 5000}
    fit = Classifier(2, n_bootstraps=2, random_state=7, **options).fit(X, y, sample_weight=weight)
    rng, cosines = generator(7), []
    for _ in range(2):
        rows = rng.integers(0, len(y), len(y))
        other = Classifier(2, **options).fit(X[rows], y[rows], sample_weight=weight[rows])
        cosines.append(matched_cosines(fit.components_, other.components_))
    np.testing.assert_allclose(fit.stability_, np.mean(cosines, axis=0), atol=1e-4)
    assert not hasattr(Classifier(2).fit(X, y), "stability_")


def test_atoms_of_noise_are_unstable_and_those_of_a_factor_are_not():
    rng = np.random.default_rng(0)
    factor = np.outer(5 * rng.standard_normal(200), np.ones(20) / np.sqrt(20))
    X = factor + rng.standard_normal((200, 20))
    fit = Classifier(3, n_bootstraps=5, xi=1.0, random_state=0).fit(X, rng.integers(0, 2, 200))
    assert fit.stability_[0] > 0.99
    assert fit.stability_[1:].max() < 0.95
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="n_bootstraps=5 draws rows, which a Dask table has not at hand"):
        fit.fit(da.from_array(X), rng.integers(0, 2, 200))


def test_squares_beyond_single_precision_are_summed_in_double():
    X = np.array([[1e25, 1.0], [0.0, 2.0]], dtype=np.float32)
    found = second_moment(X, None, None, np.ones(2), None)
    np.testing.assert_allclose(found, X.astype(float).T @ X.astype(float), rtol=1e-6)
