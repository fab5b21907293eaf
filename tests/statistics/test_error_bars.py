"""Errors of directions: the jackknife beside fits without each group of rows, and beside simulated truth.

Small versions of benchmarks/error_bars.py.
"""

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.impute import SimpleImputer

from colspace import (
    CopulaImputer,
    HoleyReduction,
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    StructuredOLS,
)
from colspace._random import generator
from colspace.datasets import make_bilinear
from colspace.metrics import nsee
from colspace.reduction import _groups, _jackknife
from colspace.reduction._gaps import refitted
from colspace.scores import GaussianScore, StudentScore

P = 6
TWO = {"a": slice(0, 3), "b": slice(3, 6)}
# one estimator of each kind; StructuredOLS has directions within slices, which those of all rows define
MODELS = {
    "joint": JointReduction(2, moments="all", n_groups=8),
    "blocks": JointReduction(1, blocks=TWO, moments=("linear", "hessian"), n_groups=8),
    "stein": SteinReduction(2, n_groups=8),
    "stein2": SteinReduction(2, order=2, n_groups=8),
    "phd": PrincipalHessian(2, n_groups=8),
    "sols": StructuredOLS(1, blocks=TWO, n_groups=8),
    "rank": ReducedRank(2, n_groups=8),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, P)) @ rng.standard_normal((P, P)) + 3.0
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = np.column_stack([Z[:, 0] + Z[:, 1] ** 2, Z[:, 3] * Z[:, 4] + Z[:, 1]])
    return X, Y + 0.1 * rng.standard_normal(Y.shape)


def blocks_of(model):
    """Directions (columns x directions) and their errors, block by block."""
    if hasattr(model, "loadings_"):
        return [(L, model.loadings_error_ and model.loadings_error_[b]) for b, L in model.loadings_.items()]
    errors = model.components_error_
    return [(model.components_.T, errors if errors is None else errors.T)]


@pytest.mark.parametrize("name", MODELS)
def test_errors_are_those_of_fits_without_each_group(name, table):
    """se^2 = (K - 1)/K sum |theta_-k - mean|^2, every theta_-k from rows alone, turned to the fit."""
    X, Y = table
    model = MODELS[name].fit(X, Y)
    # at the ridge of all rows: R + ridge I is 1 + ridge times the mean of R and I in which a number is a weight
    ridge = getattr(model, "ridge_", 0.0)
    found = {"n_groups": None}
    if isinstance(model, SteinReduction):
        found["score_model"] = GaussianScore(ridge=ridge)
    elif hasattr(model, "shrinkage_") and ridge:
        found["shrinkage"] = model.shrinkage_
    units = np.sqrt(1 + ridge) if "shrinkage" in found else 1.0
    others = [
        clone(model).set_params(**found).fit(np.delete(X, rows, axis=0), np.delete(Y, rows, axis=0))
        for _, rows in _groups.deal(X, 8)
    ]
    for b, (L, error) in enumerate(blocks_of(model)):
        columns = list(TWO.values())[b] if len(blocks_of(model)) > 1 else slice(None)
        C = np.cov(X.T, bias=True)[columns, columns]
        C = C if name == "sols" else C + ridge * np.diag(np.diag(C))
        turned = []
        for other in others:
            M = blocks_of(other)[b][0] / units
            U, _, Vt = np.linalg.svd(M.T @ C @ L)
            turned.append(M @ U @ Vt)
        D = np.stack(turned)
        assert_allclose(error, np.sqrt(7 / 8 * np.sum((D - D.mean(axis=0)) ** 2, axis=0)), rtol=1e-6)
    assert model.n_groups_ == 8
    assert model.errors_note_ == ""


@pytest.mark.parametrize("name", ["joint", "stein", "phd", "rank"])
def test_containers_of_the_same_rows_have_the_same_errors(name, table):
    X, Y = table
    model = MODELS[name]
    expected = model.fit(X, Y).components_error_.copy()
    once = da.from_array(X, chunks=X.shape)
    for rows, y, weights in (
        (sparse.csr_matrix(X), Y, None),
        (once, da.from_array(Y, chunks=Y.shape), None),
        (X, Y, np.ones(len(X))),
    ):
        assert_allclose(model.fit(rows, y, sample_weight=weights).components_error_, expected, rtol=1e-6)


def test_streams_keep_the_groups(table):
    X, Y = table
    whole = JointReduction(2, moments="all", n_groups=8).fit(X, Y).components_error_.copy()
    assert_allclose(
        JointReduction(2, moments="all", n_groups=8).fit(iter([(X, Y)])).components_error_, whole, rtol=1e-6
    )
    assert_allclose(
        JointReduction(2, moments="all", n_groups=8).partial_fit(X, Y).components_error_, whole, rtol=1e-6
    )
    # other deals of the same rows: as errors of eight groups differ among themselves
    for model in (
        JointReduction(2, moments="all", n_groups=8),
        SteinReduction(2, score_model="gaussian", n_groups=8),
    ):
        once = clone(model).fit(X, Y).components_error_
        for i in range(0, len(X), 40):
            model.partial_fit(X[i : i + 40], Y[i : i + 40])
        assert model.n_groups_ == 8
        assert 0.6 < np.median(model.components_error_ / once) < 1.6


def test_rows_in_order_change_nothing():
    X, y, blocks, _ = make_bilinear(3000, 6, 1, rng=0)
    X = np.round(X, 6)
    found = [
        np.mean(
            list(JointReduction(1, moments="all", blocks=blocks).fit(X[o], y[o]).expected_error_.values())
        )
        for o in (np.arange(3000), np.argsort(y), np.argsort(X[:, 0]))
    ]
    assert max(found) < 1.35 * min(found)


@pytest.mark.parametrize("law", ["normal", "skewed"])
@pytest.mark.parametrize(
    "options",
    [{"moments": "all"}, {"moments": "joint", "whiten": "diagonal", "n_selected": 4}],
    ids=["all", "selected"],
)
def test_joint_errors_cover(law, options):
    held, true, claimed = [], [], []
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 2)))[0]
    U = np.vstack([U, np.zeros((4, 2))])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2500, 16)) if law == "normal" else rng.exponential(size=(2500, 16)) - 1
        y = np.sum((X[:, :8] @ U) * (X[:, 8:] @ U), axis=1) + 0.5 * rng.standard_normal(2500)
        model = JointReduction(2, blocks={"a": slice(0, 8), "b": slice(8, 16)}, **options).fit(X, y)
        for b, L in model.loadings_.items():
            W, _, Vt = np.linalg.svd(U.T @ L)
            off = np.abs(U @ W @ Vt - L) <= stats.t.ppf(0.975, 19) * model.loadings_error_[b]
            held.append(off[np.abs(L).max(axis=1) > 0].mean())
            true.append(nsee(U, L) ** 2)
            claimed.append(model.expected_error_[b] ** 2)
    assert 0.9 < np.mean(held) < 0.985
    assert 0.85 < np.sqrt(np.mean(claimed) / np.mean(true)) < 1.25


def test_errors_of_the_classics_cover():
    u = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 1)))[0]
    links = {
        SlicedInverse(1): lambda v: np.exp(v),
        SlicedAverage(1, n_slices=5): lambda v: v**2,
        PrincipalHessian(1): lambda v: v**2,
        SteinReduction(1): lambda v: v + v**3 / 5,
        ReducedRank(1): lambda v: v,
        StructuredOLS(1): lambda v: np.tanh(v),
    }
    for model, link in links.items():
        held, true, claimed = [], [], []
        for seed in range(25):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((1500, 6))
            model.fit(X, link(X @ u)[:, 0] + 0.3 * rng.standard_normal(1500))
            L, error = blocks_of(model)[0]
            held.append(np.mean(np.abs(u * np.sign(u.T @ L) - L) <= stats.t.ppf(0.975, 19) * error))
            true.append(nsee(u, L) ** 2)
            expected = model.expected_error_
            claimed.append((expected["x"] if isinstance(expected, dict) else expected) ** 2)
        assert 0.9 < np.mean(held) < 0.99, model
        assert 0.8 < np.sqrt(np.mean(claimed) / np.mean(true)) < 1.3, model


@pytest.mark.filterwarnings("ignore:no gap after component")
@pytest.mark.parametrize(
    "model", [JointReduction(2, moments="all"), SlicedInverse(2), SteinReduction(2, order=2)]
)
def test_no_signal_is_said(model):
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        model.fit(rng.standard_normal((1000, 20)), rng.standard_normal(1000))
        expected = model.expected_error_
        found.append(expected["x"] if isinstance(expected, dict) else expected)
    assert np.mean(found) > 0.8


def test_spaces_of_halves():
    rng = np.random.default_rng(0)
    chance = _jackknife.half_error(rng.standard_normal((20, 12, 2)))
    assert_allclose(chance, np.sqrt(1 - 2 / 12), rtol=0.1)
    U = np.linalg.qr(rng.standard_normal((40, 2)))[0]
    noise = [U + 0.05 * rng.standard_normal(U.shape) for _ in range(20)]  # tangent^2 .05^2 * 38 a direction
    assert _jackknife.half_error(np.stack(noise)) == pytest.approx(np.sqrt(0.05**2 * 38 / 2), rel=0.35)


def test_off_is_said(table, monkeypatch):
    X, Y = table
    for model, reason in (
        (JointReduction(1, moments="all", n_groups=None), "n_groups=None"),
        (SlicedInverse(1, n_groups=None), "n_groups=None"),
        (JointReduction(1, moments="all", solver="randomized", random_state=0), "solver='exact'"),
        (JointReduction(1, n_groups=None), "n_groups=None"),
        (SteinReduction(1, score_model=StudentScore(df=5.0)), "gaussian"),
    ):
        model.fit(X, Y[:, 0])
        assert reason in model.errors_note_
        assert model.components_error_ is model.expected_error_ is None
        assert model.n_groups_ == 0
    monkeypatch.setattr(_groups, "GROUP_BYTES", 9_000)
    assert JointReduction(1, moments="all").fit(X, Y[:, 0]).n_groups_ == 13  # of 672 bytes each
    monkeypatch.setattr(_groups, "GROUP_BYTES", 5_000)
    model = JointReduction(1, moments="all").fit(X, Y[:, 0])
    assert "20 groups of rows would take" in model.errors_note_
    assert model.loadings_error_ is None


def test_few_rows_and_wide_tables_and_rare_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 120))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    for model in (
        JointReduction(1, moments="all", shrinkage="auto"),
        SlicedInverse(1, shrinkage="auto"),
        PrincipalHessian(1, shrinkage="auto"),
        SteinReduction(1),
        StructuredOLS(1, shrinkage="auto"),
        ReducedRank(1, alpha=1.0),
    ):
        model.fit(X, y)
        assert model.errors_note_ == ""
        assert model.components_error_.shape == model.components_.shape == (1, 120)
        assert np.isfinite(model.components_error_).all()
    few = SteinReduction(1, score_model=GaussianScore(ridge=1.0)).fit(X[:5, :3], y[:5])
    assert few.n_groups_ == 5
    labels = np.array(["a"] * 19 + ["b"] * 20 + ["c"])
    for model in (SlicedInverse(1), SlicedAverage(1), JointReduction(1, moments="all")):
        model.fit(X[:, :3], labels)
        assert np.isfinite(model.components_error_).all()


def test_automatic_rank_and_selection_have_errors():
    X, y, blocks, _ = make_bilinear(3000, 8, 1, rng=0, n_active=3)
    for options in (
        {"n_components": "auto"},
        {"n_components": "moments"},
        {"n_components": 1, "n_selected": "auto", "whiten": "diagonal"},
    ):
        model = JointReduction(blocks=blocks, moments="all", **options).fit(X, y)
        assert model.n_groups_ == 20
        assert model.components_error_.shape == model.components_.shape
        assert all(0 < e < 0.3 for e in model.expected_error_.values())


def test_errors_of_a_table_with_gaps_cover():
    held, true, claimed = [], [], []
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 1)))[0]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((1500, 12))
        y = (X[:, :6] @ U)[:, 0] * (X[:, 6:] @ U)[:, 0] + 0.5 * rng.standard_normal(1500)
        X[rng.random(X.shape) < 0.3] = np.nan
        reducer = JointReduction(1, moments="all", blocks={"a": slice(0, 6), "b": slice(6, 12)})
        model = HoleyReduction(CopulaImputer(1, random_state=0), reducer, n_refits=2, random_state=0).fit(
            X, y
        )
        assert model.missing_share_ == pytest.approx(0.3, abs=0.02)
        for b, L in model.loadings_.items():
            T = U * float(np.sum(U * L))  # lengths are those of the filled table
            error = model.loadings_error_[b]
            assert (error >= model.reducer_.loadings_error_[b]).all()
            held.append(np.mean(np.abs(T - L) <= stats.t.ppf(0.975, 19) * error))
            true.append(nsee(U, L) ** 2)
            claimed.append(model.expected_error_[b] ** 2)
    assert 0.92 < np.mean(held) < 0.985
    # 16 squared errors of five dimensions: their mean has a standard error of 16 %, its root one of 8 %
    assert 0.8 < np.sqrt(np.mean(claimed) / np.mean(true)) < 1.25


def test_the_imputer_without_groups_of_rows(table):
    """Errors squared are the reducer's and those of a jackknife of the imputer alone, by hand; any imputer, any container."""
    X, Y = table[0][:200].copy(), table[1][:200, :1]
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.3] = np.nan
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    reducer = ReducedRank(1, alpha=1.0)
    model = HoleyReduction(SimpleImputer(), reducer, n_refits=4, random_state=0).fit(X, Y)
    group = generator(0).permutation(200) % 4
    L = model.reducer_.components_.T
    found = []
    for k in range(4):
        filled = SimpleImputer().fit(X[group != k]).transform(X)
        M = clone(reducer).fit(filled, Y).components_.T
        D = model.scale_[:, None]
        found.append(M * np.sum(M * L * D**2) / np.sum((M * D) ** 2))
    more = 3 / 4 * np.sum((np.array(found) - np.mean(found, axis=0)) ** 2, axis=0).T
    assert more.max() > 0
    expected = np.sqrt(model.reducer_.components_error_**2 + more)
    assert_allclose(model.components_error_, expected, rtol=1e-8)
    assert model.expected_error_ > model.reducer_.expected_error_
    for other in (frame, pl.from_pandas(frame)):
        again = HoleyReduction(SimpleImputer(), reducer, n_refits=4, random_state=0).fit(other, Y)
        own = (
            again.components_error_**2 - again.reducer_.components_error_**2
        )  # the reducer deals its groups by itself
        assert_allclose(own, more, rtol=1e-6, atol=1e-12)


def test_a_copula_is_fitted_again_without_its_forests():
    """From where it is, with its factors and its share of the full correlation, it fills as a fit from anew does."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((500, 6))
    for j in range(1, 6):  # a chain, of no few factors
        Z[:, j] = 0.8 * Z[:, j - 1] + 0.6 * Z[:, j]
    X = np.column_stack([Z, Z[:, 0] ** 2 + 0.2 * rng.standard_normal(500)])
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = CopulaImputer(random_state=0).fit(X)
    assert imputer.nonlinear_gain_[6] > 0.1
    assert imputer._point.joint is not None
    gone = np.isnan(X)
    whole = CopulaImputer(nonlinear=False, random_state=0).fit(X).mean(X)[gone]
    for first in (0, 250):
        rows = np.r_[0:first, first + 100 : 500]
        again = refitted(imputer, X[rows], {})
        assert again.n_components_ == imputer.n_components_
        assert again._point.share == imputer._point.share
        assert again._point.curved is None
        anew = CopulaImputer(nonlinear=False, random_state=0).fit(X[rows]).mean(X)[gone]
        moved = np.sqrt(np.mean((anew - whole) ** 2))  # by the rows that are gone
        assert np.sqrt(np.mean((again.mean(X)[gone] - anew) ** 2)) < 0.6 * moved
    few = np.where(np.arange(7) < 1, X, 1.0)  # a single column that varies: factors must go
    with pytest.warns(UserWarning, match="constant"):
        assert np.isfinite(refitted(imputer, few, {}).mean(few)).all()


def test_an_imputer_that_cannot_do_without_some_rows():
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = X @ [1.0, 2.0, 0.0]
    X[1:, 2] = np.nan
    X[0, 2] = 1.0

    class Strict(SimpleImputer):
        def fit(self, X, y=None):
            if np.isnan(X).all(axis=0).any():
                msg = "a column without a value"
                raise ValueError(msg)
            return super().fit(X)

    reducer = JointReduction(1, moments="linear", shrinkage="auto")
    with pytest.warns(UserWarning, match="constant"):
        model = HoleyReduction(Strict(), reducer, random_state=0).fit(X, y)
    assert model.errors_note_ == "without some group of the rows there is no fit: a column without a value"
    assert model.components_error_ is model.loadings_error_ is model.expected_error_ is None


def test_a_table_without_gaps_is_the_reducers_own(table):
    X, Y = table
    model = HoleyReduction(reducer=SlicedInverse(2), random_state=0).fit(X, Y[:, 0])
    alone = SlicedInverse(2).fit(X, Y[:, 0])
    assert_allclose(model.components_, alone.components_, rtol=1e-8)
    assert_allclose(model.components_error_, alone.components_error_, rtol=1e-6)
    assert model.expected_error_ == pytest.approx(alone.expected_error_)
    with pytest.raises(TypeError, match="Dask"):
        model.fit(da.from_array(X), Y[:, 0])
