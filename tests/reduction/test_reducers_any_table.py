"""Tables as they come: units, singular and wide tables, numbers too large, all reducers alike."""

from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from reducers_tables import BLOCKS, REDUCERS, VARIANTS, embedding, quiet, small_table
from scipy import sparse
from sklearn.base import clone

from colspace import (
    ConstantColumnWarning,
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SingularCovarianceWarning,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
)
from colspace.factor import FactorizationError, break_ties, eigh, left_singular, singular_values, svd
from colspace.factor import _linalg as linalg_module
from colspace.reduction import _span as span_module
from colspace.scores import GaussianScore

ids = lambda e: type(e).__name__


@pytest.fixture(scope="module")
def data():
    return small_table()


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((30, 50)) * 10.0 ** rng.uniform(-3, 3, 50)
    Y = np.column_stack([X[:, 0] / X[:, 0].std(), rng.standard_normal(30)]) + 0.1 * rng.standard_normal(
        (30, 2)
    )
    return X, Y


# ---------------------------------------------------------------- units


@pytest.mark.parametrize("estimator", [*REDUCERS, *VARIANTS[:2], *VARIANTS[5:]], ids=str)
@pytest.mark.parametrize("reach", [8, 99])
def test_units_do_not_matter(estimator, reach, data):
    X, y = data
    units = 10.0 ** np.linspace(-reach, reach, 6)[[3, 0, 5, 1, 4, 2]]
    plain, odd = quiet(estimator, X, y), quiet(estimator, X * units, y * 10.0**reach)
    one, other = embedding(plain, X), embedding(odd, X * units)
    for a, b in zip(one.T, other.T, strict=True):
        assert abs(np.corrcoef(a, b)[0, 1]) > 0.999999


@pytest.mark.parametrize("estimator", REDUCERS, ids=ids)
def test_one_cell_out_of_all_proportion_is_named(estimator, data):
    X, y = data
    X = X.copy()
    X[5, 2] = -1e200
    frame = pd.DataFrame(X, columns=list("abcdef"))
    for table, name in ((X, "2"), (frame, "'c'"), (sparse.csr_array(X), "2")):
        with pytest.raises(ValueError, match=rf"column {name} holds -1e\+200.*overflow"):
            clone(estimator).fit(table, y)
    lazy = da.from_array(X, chunks=(50, 6))
    with pytest.raises(ValueError, match=r"in partition 0 .*column 2 holds -1e\+200.*overflow"):
        clone(estimator).fit(lazy, y)
    with pytest.raises(ValueError, match=r"y holds -?1.49.*e\+308"):
        clone(estimator).fit(data[0], 1.5e308 * np.sin(np.arange(150)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", REDUCERS, ids=ids)
def test_numbers_on_which_lapack_never_returns(estimator):
    X = np.array(
        [
            [
                1.3463439e300,
                1.07646988e-301,
                1.28370191e-300,
                -4.36161746e-301,
                9.03851183e-301,
                -1.0204952e-300,
            ],
            [
                -9.14404702e298,
                -1.3658279e-300,
                1.41831425e-300,
                -9.28502272e-301,
                -5.97385374e-301,
                5.92011109e-301,
            ],
            [
                -7.58766289e299,
                -2.02613789e-300,
                6.02094477e-301,
                -2.36038019e-301,
                9.27732485e-301,
                -1.07658332e-300,
            ],
        ]
    )
    y = np.array([5.53885176e-300, -5.39332147e-300, -5.48735257e-300])
    with pytest.raises(ValueError, match=r"column 0 holds 1.34634e\+300"):
        clone(estimator).set_params(**({"shrinkage": 0.1} if hasattr(estimator, "shrinkage") else {})).fit(
            X, y
        )


# ---------------------------------------------------------------- the door to LAPACK


def test_the_door_falls_back_and_says_so(monkeypatch):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((7, 4))
    reference = np.linalg.svd(M, full_matrices=False)
    modules = {np.linalg: "gesdd", linalg_module.linalg: ""}
    originals = {module: module.svd for module in modules}
    calls = []

    def fail(times):
        calls.clear()

        def stub(A, *arguments, own, original, **options):
            calls.append(options.get("lapack_driver", own))
            if len(calls) <= times:
                raise np.linalg.LinAlgError
            return original(A, *arguments, **options)

        for module, own in modules.items():
            monkeypatch.setattr(module, "svd", partial(stub, own=own, original=originals[module]))

    for times in (0, 1, 2):
        expected = ["gesdd", "gesdd", "gesvd"][: times + 1]
        fail(times)
        U, s, Vt = svd(M)
        np.testing.assert_allclose(U * s @ Vt, M, atol=1e-12)
        np.testing.assert_allclose(s, reference[1])
        assert calls == expected
        fail(times)
        np.testing.assert_allclose(singular_values(M), reference[1])
        assert calls == expected
    fail(3)
    with pytest.raises(FactorizationError, match=r"7 x 4\) could not be factored.*Remedies"):
        svd(M)


def test_the_door_refuses_what_is_not_finite():
    for function in (svd, eigh, singular_values):
        with pytest.raises(FactorizationError, match=r"not finite.*Remedy"):
            function(np.array([[1.0, np.nan], [0.0, 1.0]]))


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_the_door_takes_any_scale(scale):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((5, 5))
    S = M + M.T
    np.testing.assert_allclose(singular_values(M * scale) / scale, np.linalg.svd(M, compute_uv=False))
    values, vectors = eigh(S * scale)
    np.testing.assert_allclose(values / scale, np.linalg.eigvalsh(S))
    np.testing.assert_allclose(vectors * (values / scale) @ vectors.T, S, atol=1e-12)
    np.testing.assert_allclose(eigh(S * scale, 2)[0] / scale, np.linalg.eigvalsh(S)[-2:])


def test_ties_are_broken_by_the_second_matrix():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    tie = np.diag([1.0, 5.0, 3.0, 2.0, 4.0])
    H = Q @ np.diag([2.0, 1.0, 1.0, 1.0, 0.0]) @ Q.T
    values, vectors = np.linalg.eigh(H)
    U = break_ties(values[::-1], vectors[:, ::-1], 3, tie)
    np.testing.assert_allclose(np.abs(U[:, 0] @ Q[:, 0]), 1.0)
    inner = Q[:, 1:4].T @ tie @ Q[:, 1:4]
    expected = np.linalg.eigvalsh(inner)[::-1]
    np.testing.assert_allclose(np.diag(U[:, 1:].T @ tie @ U[:, 1:]), expected[:2])
    # zero singular values count as ties, and a thin matrix is completed
    U, s = left_singular(rng.standard_normal((5, 1)), 2, tie)
    off = np.eye(5) - np.outer(U[:, 0], U[:, 0])
    assert s[1] == 0
    np.testing.assert_allclose(U[:, 1] @ tie @ U[:, 1], np.linalg.eigvalsh(off @ tie @ off)[-1])


# ---------------------------------------------------------------- singular tables


@pytest.mark.parametrize("estimator", [*REDUCERS, *VARIANTS[5:7]], ids=str)
def test_a_combination_of_columns_changes_nothing(estimator, data):
    X, y = data
    more = np.column_stack([X, 1e3 * (X[:, 0] - X[:, 1])])
    if getattr(estimator, "blocks", None) is not None:
        estimator = clone(estimator).set_params(blocks={"a": [0, 1, 2, 6], "b": [3, 4, 5]})
    whole = clone(estimator)
    exact = {"moments": "all"} if isinstance(estimator, JointReduction) else {"shrinkage": None}
    exact = {"score_model": "gaussian"} if isinstance(estimator, SteinReduction) else exact
    exact = {} if isinstance(estimator, (ReducedRank, SteinReductionCV)) else exact
    estimator, whole = (clone(e).set_params(**exact) for e in (estimator, whole))
    if not isinstance(estimator, SteinReductionCV):  # its ridges are all positive
        with pytest.warns(SingularCovarianceWarning, match="combination of others"):
            whole.fit(more, y)
        one, other = (
            embedding(quiet(estimator.set_params(**_blocks(estimator)), X, y), X),
            embedding(whole, more),
        )
        for a, b in zip(one.T, other.T, strict=True):
            assert abs(np.corrcoef(a, b)[0, 1]) > 1 - 1e-5
    assert (
        np.isfinite(whole.fit(more, y).components_).all() if isinstance(estimator, SteinReductionCV) else True
    )


def _blocks(estimator):
    return {"blocks": BLOCKS} if getattr(estimator, "blocks", None) is not None else {}


@pytest.mark.parametrize("estimator", REDUCERS, ids=ids)
def test_a_constant_column_gets_no_loading(estimator, data):
    X, y = data
    flat = np.insert(X, 2, 0.1, axis=1)
    with pytest.warns(ConstantColumnWarning, match="1 constant column") as seen:
        model = clone(estimator).fit(flat, y)
    assert sum(issubclass(w.category, ConstantColumnWarning) for w in seen) == 1
    assert (np.abs(model.components_[:, 2]) < 1e-12).all()
    assert model.scale_[2] == 0.0
    np.testing.assert_allclose(np.delete(model.scale_, 2), X.std(axis=0))
    plain = quiet(estimator, X, y)
    np.testing.assert_allclose(np.abs(embedding(model, flat)), np.abs(embedding(plain, X)), atol=1e-6)


# ---------------------------------------------------------------- wide tables


WIDE = [
    JointReduction(2, shrinkage=0.3),
    JointReduction(2, shrinkage="auto"),
    JointReduction(2, shrinkage=0.3, blocks={"a": slice(0, 35), "b": slice(35, 50)}),
    JointReduction(2, whiten="diagonal"),
    JointReduction(1, shrinkage=0.3, moments="linear"),
    PrincipalHessian(2, shrinkage=0.3),
    SlicedInverse(2, n_slices=5, shrinkage="auto"),
    SlicedAverage(2, n_slices=5, shrinkage=0.5),
    StructuredOLS(1, shrinkage=0.3),
    StructuredOLS(2, shrinkage=0.3, blocks={"a": slice(0, 35), "b": slice(35, 50)}),
    ReducedRank(2, alpha=0.3),
    ReducedRank(1, alpha=2.0, weighting="inverse"),
    SteinReduction(2),
    SteinReduction(2, standardize=False),
    SteinReduction(2, order="both", score_model=GaussianScore(ridge=0.5)),
    SteinReduction(2, score_model=GaussianScore(ridge=np.inf)),
    SteinReductionCV(2, cv=3),
    SteinReductionCV(2, cv=3, standardize=False),
]


@pytest.mark.parametrize("estimator", WIDE, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_span_of_the_rows_gives_what_the_columns_give(estimator, weighted, wide, monkeypatch):
    X, Y = wide
    weights = np.random.default_rng(0).uniform(0.5, 2, 30) if weighted else None
    inside = quiet(estimator, X, Y, sample_weight=weights)
    monkeypatch.setattr(span_module, "is_wide", lambda *_: False)
    outside = quiet(estimator, X, Y, sample_weight=weights)
    np.testing.assert_allclose(inside.mean_, outside.mean_)
    np.testing.assert_allclose(inside.scale_, outside.scale_)
    D = X.std(axis=0)
    np.testing.assert_allclose(inside.components_ * D, outside.components_ * D, atol=1e-7)
    for name in ("shrinkage_", "ridge_", "cv_errors_"):
        if hasattr(outside, name):
            assert getattr(inside, name) == pytest.approx(getattr(outside, name), rel=1e-6)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_without_a_ridge_the_inverse_is_that_of_the_span(kind, wide):
    """Linear moments of whitened rows by the pseudo-inverse of the correlation matrix."""
    X, Y = wide
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    v = (Y[:, 0] - Y[:, 0].mean()) / Y[:, 0].std()
    table = X if kind == "dense" else sparse.csr_array(X)
    with pytest.warns(SingularCovarianceWarning, match=r"30 rows and 50 columns.*Better: shrinkage='auto'"):
        model = JointReduction(1, moments="linear").fit(table, Y[:, 0])
    expected = np.linalg.pinv(Z.T @ Z / 30, rcond=1e-10, hermitian=True) @ Z.T @ v / 30
    found = model.components_[0] * X.std(axis=0)
    np.testing.assert_allclose(abs(found @ expected), np.linalg.norm(found) * np.linalg.norm(expected))
    with pytest.raises(ValueError, match="more rows than columns are needed: 30 rows"):
        JointReduction(1, moments="linear", shrinkage=0.0).fit(table, Y[:, 0])


@pytest.mark.filterwarnings("ignore::colspace.SingularCovarianceWarning")
def test_rows_span_few_directions(wide):
    X, Y = wide
    for estimator in (JointReduction(4), PrincipalHessian(4), SlicedAverage(4), SteinReduction(4)):
        with pytest.raises(ValueError, match=r"n_components=4 is more than the 3 direction\(s\) that 4 rows"):
            quiet(estimator, X[:4], Y[:4])


# ---------------------------------------------------------------- tests of the rank, slices and folds without memory


@pytest.mark.parametrize(("moments", "near_by"), [("all", 1e-8), ("auto", 1e-2)])
def test_rank_test_of_lazy_and_sparse_tables(moments, near_by):
    model = JointReduction(moments=moments)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.standard_normal(1500)
    near = model.rank_test(X, y, random_state=0, n_permutations=39)
    lazy = da.from_array(X, chunks=(400, 6))
    for table in (lazy, sparse.csr_array(X)):
        far = model.rank_test(table, y, random_state=0, n_permutations=39)
        assert far.n_components == near.n_components == 2
        np.testing.assert_allclose(far.spectrum, near.spectrum, rtol=near_by)
        np.testing.assert_allclose(
            far.null_spectrum.mean(axis=0)[:3], near.null_spectrum.mean(axis=0)[:3], rtol=0.15
        )
        again = model.rank_test(table, y, random_state=0, n_permutations=39)
        np.testing.assert_array_equal(far.null_statistics, again.null_statistics)
    noise = model.rank_test(
        lazy, np.random.default_rng(11).standard_normal(1500), random_state=0, n_permutations=39
    )
    assert noise.n_components == 0


def test_cross_validated_stein_of_a_lazy_table(data):
    X, y = data
    Y = np.column_stack([y, X[:, 3] - y])
    Y[np.arange(150) % 3 == 1] = np.nan
    lazy = SteinReductionCV(2, cv=4).fit(da.from_array(X, chunks=(150, 3)), da.from_array(Y, chunks=(150, 2)))
    turn = np.arange(100) % 4
    folds = [(np.flatnonzero(turn != k), np.flatnonzero(turn == k)) for k in range(4)]
    near = SteinReductionCV(2, cv=folds).fit(X, Y)
    np.testing.assert_allclose(lazy.cv_errors_, near.cv_errors_, rtol=1e-8)
    np.testing.assert_allclose(lazy.components_, near.components_, atol=1e-8)
    with pytest.raises(TypeError, match="give their number"):
        SteinReductionCV(2, cv=folds).fit(da.from_array(X, chunks=(50, 6)), Y)


def test_slices_of_a_lazy_response_beyond_the_exact():
    """More than 10,000 values of y: slices from summaries, off by a thousandth of the rows at most."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 4))
    y = X[:, 0] + 0.5 * rng.standard_normal(30_000)
    near = SlicedInverse(1).fit(X, y).components_
    far = SlicedInverse(1).fit(da.from_array(X, chunks=(7_000, 4)), y).components_
    np.testing.assert_allclose(far, near, atol=2e-3)
