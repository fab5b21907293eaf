"""The classics: pHd, SIR, SAVE, sOLS and reduced-rank regression."""

from __future__ import annotations

import importlib.util
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.linalg import eigh, sqrtm
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from colspace import (
    ConstantColumnWarning,
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    StructuredOLS,
    stack_blocks,
)
from colspace._blocks import parse_blocks
from colspace.factor import full_whitener
from colspace.metrics import nsee, principal_angles
from colspace.reduction._sliced import (
    average_kernel,
    collect_slices,
    inverse_kernel,
    make_slicer,
    slice_edges,
)
from colspace.reduction._source import Source

REFERENCE = Path(__file__).parents[1] / "reference"
ALL = [PrincipalHessian, SlicedInverse, SlicedAverage, StructuredOLS, ReducedRank]
TRANSFORMERS = ALL[:4]
ids = lambda e: type(e).__name__ if not isinstance(e, type) else e.__name__


def projector(directions):
    """Orthogonal projector on the span of the columns."""
    Q = np.linalg.qr(np.asarray(directions, dtype=float))[0]
    return Q @ Q.T


def assert_same_span(a, b, atol=1e-8):
    np.testing.assert_allclose(projector(a), projector(b), atol=atol)


def whitened(X):
    """Centred X and the symmetric inverse root of its covariance (1/m)."""
    Z = X - X.mean(axis=0)
    values, vectors = eigh(Z.T @ Z / len(Z))
    return Z, vectors / np.sqrt(values) @ vectors.T


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("make_dimred", REFERENCE / "make_dimred.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stored = json.loads((REFERENCE / "dimred.json").read_text())
    X, y = module.make_data(stored["seed"])
    return X, y, stored


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 6)) @ (np.eye(6) + 0.3 * rng.standard_normal((6, 6))) + 2.0
    Y = np.column_stack([np.tanh(X[:, 0] - X[:, 1]), X[:, 2] ** 2 / 4]) + 0.1 * rng.standard_normal((400, 2))
    return X, Y


# ---------------------------------------------------------------- scikit-learn's contract


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        *(e() for e in ALL),
        PrincipalHessian(residuals=True),
        StructuredOLS(n_slices=3),
        ReducedRank(alpha=0.1, weighting="inverse"),
    ],
    ids=str,
)
def test_estimator_checks(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_pandas_in_pandas_out(estimator, data):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(6)], index=np.arange(400) * 2)
    model = estimator(n_components=1).set_output(transform="pandas")
    out = model.fit(frame, Y[:, 0]).transform(frame)
    assert list(out.columns) == [f"{estimator.__name__.lower()}0"]
    assert out.index.equals(frame.index)
    np.testing.assert_array_equal(model.get_feature_names_out(), out.columns)
    np.testing.assert_allclose(out, estimator(n_components=1).fit(X, Y[:, 0]).transform(X), atol=1e-12)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_float32_stays(estimator, data):
    X, Y = data
    wide, narrow = (estimator(n_components=1).fit(X.astype(t), Y[:, 0]) for t in (np.float64, np.float32))
    assert narrow.components_.dtype == np.float32
    assert narrow.transform(X.astype(np.float32)).dtype == np.float32
    assert wide.transform(X).dtype == np.float64
    assert_same_span(narrow.components_.T, wide.components_.T, atol=1e-4)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_csr_equals_dense(estimator, data):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, (300, 5)) * rng.uniform(0.5, 1.5, (300, 5))
    y = np.tanh(X[:, 0]) + np.cos(2 * X[:, 1]) + 0.1 * rng.standard_normal(300)
    dense, csr = estimator(n_components=1).fit(X, y), estimator(n_components=1).fit(sparse.csr_array(X), y)
    assert_same_span(dense.components_.T, csr.components_.T, atol=1e-9)
    np.testing.assert_allclose(csr.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-9)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_chunks_do_not_matter(estimator, data, monkeypatch):
    X, Y = data
    whole = (
        estimator(n_components=2).fit(X, Y)
        if estimator is not StructuredOLS
        else estimator(2, n_slices=4).fit(X, Y)
    )
    monkeypatch.setattr("colspace.reduction._sliced.CHUNK_BYTES", 1)
    monkeypatch.setattr("colspace.reduction._source.CHUNK_BYTES", 1)
    parts = clone(whole).fit(X, Y)
    np.testing.assert_allclose(parts.components_, whole.components_, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_equivariant(estimator, data):
    """Columns in other units and mixed: the embedding is the same up to sign."""
    X, Y = data
    A = np.random.default_rng(1).standard_normal((6, 6))
    exact = {} if estimator is ReducedRank else {"shrinkage": None}
    plain = estimator(n_components=1, **exact).fit(X, Y[:, 1])
    mixed = estimator(n_components=1, **exact).fit(X @ A + 7.0, 100.0 * Y[:, 1] - 3.0)
    cosine = np.sum(plain.transform(X) * mixed.transform(X @ A + 7.0)) / 400
    np.testing.assert_allclose(abs(cosine), 1.0, atol=1e-8)


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_pickle_and_pipeline(estimator, data):
    X, Y = data
    model = estimator(n_components=1).fit(X, Y[:, 0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))
    assert make_pipeline(estimator(n_components=1), LinearRegression()).fit(X, Y[:, 0]).score(X, Y[:, 0]) > -1


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("estimator", ALL, ids=ids)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(X[3, 2] == X, np.nan, X), y), "NaN"),
        (lambda X, y: (X, np.where(y == y[5], np.nan, y)), "NaN"),
        (lambda X, y: (X, np.ones_like(y)), "constant"),
        (lambda X, y: (X[:1], y[:1]), "1 sample"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "requires y"),
        (lambda X, y: (X[:5], y[:5]), "more rows than columns.*Remedies"),
        (lambda X, y: (np.column_stack([X, np.full(len(X), 0.1)]), y), r"constant column.*\[6\].*Remedies"),
        (lambda X, y: (np.column_stack([X, X[:, 0] - X[:, 1]]), y), "combination of others.*Remedies"),
        (lambda X, y: ([X, X], y), "stack_blocks"),
    ],
    ids=[
        "nan",
        "nan in y",
        "constant y",
        "one row",
        "lengths",
        "no y",
        "wide",
        "constant",
        "dependent",
        "list",
    ],
)
@pytest.mark.filterwarnings("ignore:5 rows in 5 slices", "ignore::colspace.ConstantColumnWarning")
def test_bad_input(estimator, change, message, data):
    X, Y = data
    exact = {"alpha": 0.0} if estimator is ReducedRank else {"shrinkage": 0.0}
    with pytest.raises((ValueError, TypeError), match=message):
        estimator(n_components=1, **exact).fit(*change(X.copy(), Y[:, 0].copy()))


@pytest.mark.parametrize("estimator", ALL, ids=ids)
def test_too_many_components(estimator, data):
    X, Y = data
    with pytest.raises(ValueError, match=r"n_components=7 is more than .*lower n_components"):
        estimator(n_components=7).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="n_components"):
        estimator(n_components=0).fit(X, Y[:, 0])


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=ids)
def test_shrinkage_takes_wide_and_constant(estimator):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((40, 50)), np.ones(40)])
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    with pytest.warns(ConstantColumnWarning, match="50"):
        model = estimator(n_components=1, shrinkage="auto").fit(X, y)
    assert 0 < model.shrinkage_ <= 1
    assert abs(model.components_[0, -1]) < 1e-10


def test_groups_refuse_dask(data):
    da = pytest.importorskip("dask.array")
    X, Y = data
    with pytest.raises(TypeError, match=r"with groups needs all rows in memory.*load it"):
        StructuredOLS().fit(da.from_array(X, chunks=(100, 6)), Y[:, 0], groups=X[:, 0] > 0)


@pytest.mark.parametrize(
    "model",
    [
        PrincipalHessian(1),
        PrincipalHessian(1, residuals=True, shrinkage="auto"),
        SlicedInverse(2, n_slices=7, shrinkage="auto"),
        SlicedAverage(2, n_slices=7),
        StructuredOLS(2, n_slices=5),
        StructuredOLS(blocks={"a": [3, 1], "b": [0, 5], "drop": "*"}),
        ReducedRank(2),
        ReducedRank(1, alpha=0.3, weighting="inverse"),
    ],
    ids=str,
)
def test_dask_equals_memory(model, data):
    da = pytest.importorskip("dask.array")
    X, Y = data
    lazy = da.from_array(X, chunks=(90, 4))
    near, far = clone(model).fit(X, Y), clone(model).fit(lazy, da.from_array(Y, chunks=(90, 2)))
    np.testing.assert_allclose(far.components_, near.components_, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(far.transform(lazy).compute(), near.transform(X), atol=1e-9)
    if hasattr(model, "predict"):
        np.testing.assert_allclose(far.predict(lazy).compute(), near.predict(X), atol=1e-9)


# ---------------------------------------------------------------- pHd


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


# ---------------------------------------------------------------- slices


def slice_numbers(y, n_slices, weights=None):
    values, inverse = np.unique(y, return_inverse=True)
    edges = slice_edges(values, np.bincount(inverse, weights).astype(float), n_slices)
    return np.searchsorted(edges, y), len(edges) + 1


def test_slices_are_equal_parts_of_the_order():
    y = np.random.default_rng(0).standard_normal(103)
    numbers, count = slice_numbers(y, 10)
    assert count == 10
    assert sorted(np.bincount(numbers)) == [10] * 7 + [11] * 3
    numbers, _ = slice_numbers(y[:100], 10)
    for h, part in enumerate(np.array_split(np.argsort(y[:100]), 10)):
        assert set(np.flatnonzero(numbers == h)) == set(part)


@pytest.mark.parametrize("seed", range(10))
def test_slices_of_weighted_rows_are_those_of_repeated_ones(seed):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_normal(50), int(rng.integers(0, 3)))
    weights = rng.integers(1, 4, size=50)
    whole, _ = slice_numbers(np.repeat(y, weights), 7)
    np.testing.assert_array_equal(np.repeat(slice_numbers(y, 7, weights)[0], weights), whole)
    np.testing.assert_array_equal(slice_numbers(y, 7, 0.1 * weights)[0], slice_numbers(y, 7, weights)[0])


@pytest.mark.parametrize("seed", range(20))
def test_slices_keep_ties_and_order(seed):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_normal(60) * rng.choice([0.5, 2, 10]))
    n_slices = int(rng.integers(2, 12))
    numbers, count = slice_numbers(y, n_slices)
    assert sorted(set(numbers)) == list(range(count))
    assert count <= max(n_slices, 1)
    order = np.argsort(y)
    assert (np.diff(numbers[order]) >= 0).all()
    assert all(len(set(numbers[y == v])) == 1 for v in y)
    if len(np.unique(y)) <= n_slices:
        assert count == len(np.unique(y))
    elif len(np.unique(y)) > 1:
        assert count >= 2


def test_labels_are_slices(data):
    X, Y = data
    codes = np.digitize(Y[:, 0], [-0.5, 0.5])
    by_name = SlicedInverse(2).fit(X, np.array(["a", "b", "c"])[codes])
    by_label = SlicedInverse(2, response="labels").fit(X, codes)
    by_number = SlicedInverse(2).fit(X, codes)
    assert by_name.n_slices_ == by_label.n_slices_ == by_number.n_slices_ == 3
    np.testing.assert_allclose(by_name.components_, by_number.components_, atol=1e-12)
    np.testing.assert_allclose(by_label.components_, by_number.components_, atol=1e-12)


def test_few_slices_carry_few_directions(data):
    X, Y = data
    with pytest.warns(UserWarning, match="n_components=2, but 2 slices carry at most 1"):
        model = SlicedInverse(2).fit(X, Y[:, 0] > 0)
    assert model.n_components_ == 1
    assert model.transform(X).shape == (400, 1)
    assert SlicedAverage(2).fit(X, Y[:, 0] > 0).n_components_ == 2


def test_thin_slices_warn(data):
    X, Y = data
    with pytest.warns(UserWarning, match="20 rows in 15 slices"):
        SlicedAverage(1, n_slices=15).fit(X[:20], Y[:20, 0])


def test_heavy_tails_do_not_matter(data):
    """Slices see only the order of y."""
    X, Y = data
    for estimator in (SlicedInverse, SlicedAverage):
        plain = estimator().fit(X, Y[:, 0])
        np.testing.assert_array_equal(estimator().fit(X, np.exp(20 * Y[:, 0])).components_, plain.components_)


def test_sir_equals_statsmodels(reference):
    X, y, stored = reference
    known = stored["sir"]
    for r in (1, 2, 3):
        model = SlicedInverse(r, n_slices=stored["n_slices"], shrinkage=None).fit(X, y)
        assert_same_span(model.components_.T, np.array(known["directions"])[:, :r])
    np.testing.assert_allclose(model.eigenvalues_, known["eigenvalues"][:3], rtol=1e-9)


def test_save_equals_statsmodels(reference):
    """statsmodels divides slice covariances by n_h - 1: equal once that is put right."""
    X, y, stored = reference
    known = stored["save"]
    source = Source.of(X, y, None, "test")
    m = collect_slices(
        source, parse_blocks(None, 5), make_slicer(source, stored["n_slices"]), second=True
    ).total
    w = full_whitener(m.covariance, m.rows)
    kernel = average_kernel(m.weights, np.eye(5), w.both_sides(m.slice_covariances * 20 / 19, w))
    values, vectors = eigh(kernel)
    assert_same_span(w.loadings(vectors[:, ::-1][:, :2]), np.array(known["directions"])[:, :2])
    np.testing.assert_allclose(values[::-1] * 20, known["eigenvalues"], rtol=1e-9)
    # with our divisor the plane is nearly the same
    model = SlicedAverage(2, n_slices=stored["n_slices"], shrinkage=None).fit(X, y)
    assert principal_angles(np.array(known["directions"])[:, :2], model.components_.T).max() < 0.1


@pytest.mark.parametrize("q", [1, 2])
def test_sliced_by_hand(q, data):
    """The kernels as sums over slices of whitened rows, responses pooled."""
    X, Y = data
    Z, root = whitened(X)
    Z = Z @ root
    inverse, average = np.zeros((6, 6)), np.zeros((6, 6))
    for y in Y.T[:q]:
        place = np.ceil((np.argsort(np.argsort(y)) + 0.5) / 400 * 7)
        for part in (np.flatnonzero(place == h) for h in range(1, 8)):
            mean = Z[part].mean(axis=0)
            spread = np.eye(6) - np.cov(Z[part].T, bias=True)
            inverse += len(part) / 400 * np.outer(mean, mean)
            average += len(part) / 400 * spread @ spread
    for estimator, kernel in ((SlicedInverse, inverse), (SlicedAverage, average)):
        values, vectors = eigh(kernel)
        model = estimator(2, n_slices=7, shrinkage=None).fit(X, Y[:, :q])
        np.testing.assert_allclose(model.eigenvalues_, values[::-1][:2], rtol=1e-10)
        assert_same_span(model.components_.T, root @ vectors[:, -2:], atol=1e-10)


def test_inverse_kernel_on_one_slice():
    np.testing.assert_allclose(inverse_kernel(np.array([0.5]), np.array([[2.0], [0.0]])), [[2, 0], [0, 0]])


@pytest.mark.parametrize(
    ("estimator", "link", "band"),
    [
        (SlicedInverse, lambda a, b: np.exp(a / 2) + 3 * np.tanh(b), 0.17),
        (SlicedAverage, lambda a, b: a**2 + 2 * b**2, 0.08),
        (PrincipalHessian, lambda a, b: a**2 - b**2, 0.1),
    ],
    ids=["sir", "save", "phd"],
)
def test_recovery(estimator, link, band):
    """5000 rows, 8 columns, two directions: the error stays within a band about twice its mean."""
    errors = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        U = np.linalg.qr(rng.standard_normal((8, 2)))[0]
        X = rng.standard_normal((5000, 8))
        y = link(*(X @ U).T) + 0.2 * rng.standard_normal(5000)
        errors.append(nsee(U, estimator(2).fit(X, y).components_.T))
    assert np.mean(errors) < band


# ---------------------------------------------------------------- sOLS


BLOCKS = {"a": [4, 0], "b": [1, 2, 5], "drop": [3]}


def test_sols_is_least_squares_in_parts(data):
    X, Y = data
    model = StructuredOLS(blocks=BLOCKS, shrinkage=None).fit(X, Y[:, 0])
    coef = LinearRegression().fit(X[:, [4, 0, 1, 2, 5]], Y[:, 0]).coef_
    assert_same_span(model.loadings_["a"], coef[:2, None], atol=1e-10)
    assert_same_span(model.loadings_["b"], coef[2:, None], atol=1e-10)
    assert model.get_feature_names_out().tolist() == ["a__0", "b__0"]
    np.testing.assert_allclose(model.transform(X).std(axis=0), 1.0)
    assert not model.components_[:, 3].any()
    whole = StructuredOLS(shrinkage=None).fit(X, Y[:, 0])
    assert_same_span(whole.components_.T, LinearRegression().fit(X, Y[:, 0]).coef_[:, None], atol=1e-10)


def by_hand(X, directions, parts, r):
    """Leading directions of each block's parts in the metric of its covariance."""
    found = []
    for columns in parts:
        root = np.real(sqrtm(np.cov(X[:, columns].T, bias=True)))
        U = np.linalg.svd(root @ directions[columns])[0]
        found.append(np.linalg.solve(root, U[:, :r]))
    return found


@pytest.mark.parametrize("q", [1, 2])
def test_sols_slices_by_hand(q, data):
    X, Y = data
    Z = X - X.mean(axis=0)
    S = Z.T @ Z / 400
    cross = []
    for y in Y.T[:q]:
        y = (y - y.mean()) / y.std()
        cross.append(Z.T @ y / 400)
        place = np.ceil((np.argsort(np.argsort(y)) + 0.5) / 400 * 3)
        for part in (np.flatnonzero(place == h) for h in (1, 2, 3)):
            cross.append(Z[part].T @ (y[part] - y[part].mean()) / 400)
    directions = np.linalg.solve(S, np.column_stack(cross))
    model = StructuredOLS(2, blocks={"a": [4, 0, 3], "b": [1, 2, 5]}, n_slices=3, shrinkage=None).fit(
        X, Y[:, :q]
    )
    assert model.n_directions_ == 4 * q
    for L, expected in zip(
        model.loadings_.values(), by_hand(X, directions, ([4, 0, 3], [1, 2, 5]), 2), strict=True
    ):
        assert_same_span(L, expected, atol=1e-9)


def test_sols_groups_by_hand(data):
    X, Y = data
    groups = np.array(["u", "v", "w"])[np.digitize(X[:, 0], [1.5, 2.5])]
    X = X + 5.0 * (groups == "v")[:, None]
    R, y = X.copy(), Y[:, 0].copy()
    for g in "uvw":
        R[groups == g] -= X[groups == g].mean(axis=0)
        y[groups == g] -= Y[groups == g, 0].mean()
    cross = np.column_stack([R[groups == g].T @ y[groups == g] for g in "uvw"])
    directions = np.linalg.solve(R.T @ R, cross)
    blocks = {"a": [4, 0, 3], "b": [1, 2, 5]}
    model = StructuredOLS(2, blocks=blocks, shrinkage=None).fit(X, Y[:, 0], groups=groups)
    assert model.n_directions_ == 3
    for L, expected in zip(model.loadings_.values(), by_hand(R, directions, blocks.values(), 2), strict=True):
        assert_same_span(L, expected, atol=1e-9)
    np.testing.assert_allclose(
        StructuredOLS(2, blocks=blocks, shrinkage=None).fit_transform(X, Y[:, 0], groups=groups),
        model.transform(X),
    )


def test_sols_two_responses_are_two_directions(data):
    X, Y = data
    model = StructuredOLS(2, shrinkage=None).fit(X, Y)
    assert_same_span(model.components_.T, LinearRegression().fit(X, Y).coef_.T, atol=1e-10)


def test_sols_too_many_directions(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"n_components=2 is more than the 1 least-squares.*raise n_slices"):
        StructuredOLS(2).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="more than the 2 columns of block 'a'"):
        StructuredOLS(3, blocks=BLOCKS, n_slices=5).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="more than the 1 least-squares"):  # y does not vary within slices
        StructuredOLS(2, n_slices=5, response="numbers").fit(X, np.round(Y[:, 0]))
    with pytest.raises(ValueError, match="class labels"):
        StructuredOLS(n_slices=2).fit(X, np.where(Y[:, 0] > 0, "a", "b"))
    with pytest.raises(ValueError, match="groups contains missing"):
        StructuredOLS().fit(X, Y[:, 0], groups=np.where(X[:, 0] > 0, 1.0, np.nan))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        StructuredOLS().fit(X, Y[:, 0], groups=np.ones(3))
    positive = Y[:, 0] > 0
    split = np.column_stack([X, positive])  # constant within groups
    with pytest.warns(ConstantColumnWarning), pytest.raises(ValueError, match=r"constant column.*\[6\]"):
        StructuredOLS(shrinkage=0.0).fit(split, Y[:, 0], groups=positive)
    with pytest.warns(ConstantColumnWarning, match="6"):
        model = StructuredOLS().fit(split, Y[:, 0], groups=positive)
    assert abs(model.components_[0, 6]) < 1e-12


def test_sols_prefix_and_stack(data):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"{b}__{i}" for b in "ab" for i in range(3)])
    by_prefix = StructuredOLS(blocks="prefix").fit(frame, Y[:, 0])
    stacked, blocks = stack_blocks([X[:, :3], X[:, 3:]])
    np.testing.assert_allclose(
        by_prefix.transform(frame), StructuredOLS(blocks=blocks).fit_transform(stacked, Y[:, 0])
    )


def test_sols_recovery():
    """Groups with different signs of one direction: the whole sees nothing, groups do."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6))
    groups = rng.integers(2, size=4000)
    y = np.where(groups, 1, -1) * (X[:, 0] + X[:, 3]) + 0.5 * rng.standard_normal(4000)
    blocks = {"a": slice(0, 3), "b": slice(3, 6)}
    truth = {"a": np.eye(3)[:, 0], "b": np.eye(3)[:, 0]}
    assert nsee(truth, StructuredOLS(blocks=blocks).fit(X, y, groups=groups).loadings_) < 0.05
    # without groups the two slopes cancel and only noise is left
    assert np.max([s[0] for s in StructuredOLS(blocks=blocks).fit(X, y).singular_values_.values()]) < 0.1


# ---------------------------------------------------------------- reduced rank


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((150, 5)) @ (np.eye(5) + 0.4 * rng.standard_normal((5, 5))) + 1.0
    B = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    return X, X @ B + rng.standard_normal((150, 4)) @ np.diag([1, 2, 0.5, 3]) - 2.0


@pytest.mark.parametrize("weighting", ["unit", "identity", "inverse"])
def test_full_rank_is_least_squares(weighting, several):
    X, Y = several
    model, other = ReducedRank(4, weighting=weighting).fit(X, Y), LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, other.intercept_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-10)


@pytest.mark.parametrize("weighting", ["unit", "identity", "inverse"])
def test_full_rank_is_ridge_on_standardised_columns(weighting, several):
    X, Y = several
    alpha, D = 0.3, X.std(axis=0)
    model = ReducedRank(4, alpha=alpha, weighting=weighting).fit(X, Y)
    other = Ridge(alpha * len(X)).fit(X / D, Y)
    np.testing.assert_allclose(model.coef_ * D, other.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), other.predict(X / D), atol=1e-10)


def test_one_response(several):
    X, Y = several
    model, other = ReducedRank().fit(X, Y[:, 0]), LinearRegression().fit(X, Y[:, 0])
    assert model.coef_.shape == (5,)
    assert isinstance(model.intercept_, float)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-10)
    column = ReducedRank().fit(X, Y[:, :1])
    assert column.coef_.shape == (1, 5)
    assert column.predict(X).shape == (150, 1)
    with pytest.raises(ValueError, match=r"n_components=2 .* 1 response\(s\)"):
        ReducedRank(2).fit(X, Y[:, 0])


def loss(X, Y, B, penalty, gamma):
    R = Y - X @ B
    return np.trace(R @ gamma @ R.T) / len(X) + np.trace(B.T @ penalty @ B @ gamma)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("weighting", ["unit", "identity", "inverse"])
@pytest.mark.parametrize("r", [1, 2])
def test_rank_r_minimises(alpha, weighting, r, several):
    """No rank-r coefficients do better: descent from random starts and from the solution."""
    X, Y = several
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    S = X.T @ X / len(X)
    penalty = alpha * np.diag(np.diag(S))
    gamma = {
        "unit": np.diag(1 / Y.var(axis=0)),
        "identity": np.eye(4),
        "inverse": np.linalg.inv(Y.T @ Y / len(Y)),
    }[weighting]
    C = X.T @ Y / len(X)

    def objective(v):
        P, Q = v[: 5 * r].reshape(5, r), v[5 * r :].reshape(r, 4)
        gradient = 2 * ((S + penalty) @ P @ Q - C) @ gamma
        return loss(X, Y, P @ Q, penalty, gamma), np.concatenate(
            [(gradient @ Q.T).ravel(), (P.T @ gradient).ravel()]
        )

    model = ReducedRank(r, alpha=alpha, weighting=weighting).fit(X, Y)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == r
    ours = loss(X, Y, model.coef_.T, penalty, gamma)
    rng = np.random.default_rng(0)
    starts = [rng.standard_normal(9 * r) for _ in range(6)]
    found = [minimize(objective, s, jac=True, method="BFGS", options={"gtol": 1e-9}) for s in starts]
    best = min(found, key=lambda f: f.fun)
    np.testing.assert_allclose(ours, best.fun, rtol=1e-8)
    B = best.x[: 5 * r].reshape(5, r) @ best.x[5 * r :].reshape(r, 4)
    np.testing.assert_allclose(model.coef_.T, B, atol=1e-4)


def test_ridge_is_augmented_data(several):
    """Rank-r ridge is rank-r least squares on the data with sqrt(m penalty) D beneath."""
    X, Y = several
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    ridge = np.sqrt(0.2 * len(X)) * np.diag(X.std(axis=0))
    XX, YY = np.vstack([X, ridge]), np.vstack([Y, np.zeros((5, 4))])
    full = np.linalg.lstsq(XX, YY, rcond=None)[0]
    V = np.linalg.svd(XX @ full, full_matrices=False)[2][:2].T
    model = ReducedRank(2, alpha=0.2, weighting="identity").fit(X, Y)
    np.testing.assert_allclose(model.coef_.T, full @ V @ V.T, atol=1e-10)


def test_singular_values_in_the_units_of_the_weighting(several):
    X, Y = several
    Z, W = whitened(X)
    cross = Z.T @ (Y - Y.mean(axis=0)) / len(X)
    for weighting, scaled in (("identity", cross), ("unit", cross / Y.std(axis=0))):
        model = ReducedRank(3, weighting=weighting).fit(X, Y)
        np.testing.assert_allclose(model.singular_values_, np.linalg.svd(W @ scaled)[1][:3], rtol=1e-10)


def test_units_of_responses_do_not_matter_by_default(several):
    X, Y = several
    units = np.array([1e-6, 1.0, 1e40, 1e-40])
    model, scaled = (ReducedRank(2, alpha=0.1).fit(X, t) for t in (Y, Y * units))
    np.testing.assert_allclose(scaled.predict(X) / units, model.predict(X), rtol=1e-9)


def test_inverse_weighting_is_cca(several):
    X, Y = several
    Zx, Wx = whitened(X)
    Zy, Wy = whitened(Y)
    U, s, _ = np.linalg.svd(Wx @ (Zx.T @ Zy / len(X)) @ Wy)
    model = ReducedRank(2, weighting="inverse").fit(X, Y)
    np.testing.assert_allclose(model.singular_values_, s[:2], rtol=1e-10)
    assert_same_span(model.components_.T, Wx @ U[:, :2], atol=1e-9)
    other = CCA(2, scale=False, tol=1e-12, max_iter=5000).fit(X, Y)
    assert_same_span(model.components_.T, other.x_rotations_, atol=1e-5)
    scaled = ReducedRank(2, weighting="inverse").fit(X, Y * [1, 10, 100, 0.1])
    np.testing.assert_allclose(scaled.predict(X) / [1, 10, 100, 0.1], model.predict(X), atol=1e-9)


def test_rrr_parts_fit_together(several):
    X, Y = several
    model = ReducedRank(2, alpha=0.1, weighting="inverse").fit(X, Y)
    np.testing.assert_allclose(model.coef_, model.y_loadings_ @ model.components_, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_.T + model.intercept_, atol=1e-10)
    np.testing.assert_allclose(
        model.predict(X), model.transform(X) @ model.y_loadings_.T + Y.mean(axis=0), atol=1e-10
    )


def test_rrr_wide_with_ridge():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((30, 60)), np.ones(30)])
    Y = X[:, :3] + 0.1 * rng.standard_normal((30, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConstantColumnWarning)
        model = ReducedRank(3, alpha=0.5).fit(X, Y)
    D = np.append(X[:, :60].std(axis=0), 1.0)
    np.testing.assert_allclose(model.coef_ * D, Ridge(0.5 * 30).fit(X / D, Y).coef_, atol=1e-9)


def test_rrr_bad_responses(several):
    X, Y = several
    with pytest.raises(ValueError, match=r"class labels.*Remedies"):
        ReducedRank().fit(X, np.where(Y[:, 0] > 0, "a", "b"))
    with pytest.raises(ValueError, match=r"weighting='inverse'.*Remedies: weighting='identity'"):
        ReducedRank(weighting="inverse").fit(X, np.column_stack([Y, Y[:, 0] + Y[:, 1]]))
    with pytest.raises(ValueError, match="'alpha' parameter"):
        ReducedRank(alpha=-1.0).fit(X, Y)


def test_rrr_recovery():
    """Rank 2 of 6 responses, little noise in 10 columns: the plane is found, and beats full rank on new rows."""
    rng = np.random.default_rng(0)
    A, C = rng.standard_normal((10, 2)), rng.standard_normal((2, 6))
    X, new = rng.standard_normal((150, 10)), rng.standard_normal((2000, 10))
    Y = X @ A @ C + 3 * rng.standard_normal((150, 6))
    model, full = ReducedRank(2, weighting="identity").fit(X, Y), ReducedRank(6).fit(X, Y)
    assert nsee(A, model.components_.T) < 0.2
    error = [np.mean((m.predict(new) - new @ A @ C) ** 2) for m in (model, full)]
    assert error[0] < 0.7 * error[1]


@pytest.mark.parametrize("model", [PrincipalHessian(1), StructuredOLS(), ReducedRank()], ids=ids)
def test_dask_constant_response(model, data):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(data[0], chunks=(90, 6))
    with pytest.raises(ValueError, match="y is constant"):
        model.fit(lazy, da.full(400, 0.1, chunks=90))
