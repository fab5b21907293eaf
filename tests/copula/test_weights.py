"""Weights of rows: two is a row twice, zero is a row that is not there."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from colspace import CopulaImputer
from colspace.copula import _fit
from colspace.copula._encode import distinct_values, training_block
from colspace.copula._estep import Factors, Work
from colspace.copula._marginals import build_chain
from colspace.copula._paper import paper_step
from colspace.copula._step import State, start_sites, start_table, step


def mixed(n=90, seed=0):
    """Continuous, truncated, ordinal and binary columns of two factors, a fifth missing, and whole weights."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 8)) + 0.5 * rng.standard_normal((n, 8))
    X = Z.copy()
    X[:, 2] = np.maximum(Z[:, 2], -0.3)
    X[:, 3:6] = np.digitize(Z[:, 3:6], [-1, 0, 1])
    X[:, 6] = Z[:, 6] > 0
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, rng.integers(0, 4, n)


KINDS = dict(enumerate(["continuous", "continuous", "lower", *["ordinal"] * 3, "binary", "continuous"]))


def same(one, other, X, atol=1e-8):
    assert one.kinds_ == other.kinds_
    assert one.n_iter_ == other.n_iter_
    np.testing.assert_allclose(one.correlation_, other.correlation_, atol=atol)
    np.testing.assert_allclose(one.noise_variance_, other.noise_variance_, atol=atol)
    for a, b in zip(one.interval(X), other.interval(X), strict=True):
        np.testing.assert_allclose(a, b, atol=100 * atol)
    np.testing.assert_allclose(one.transform(X), other.transform(X), atol=100 * atol)


@pytest.mark.parametrize("knots", [False, True])
def test_sums_of_a_block_are_those_of_repeated_rows(knots, monkeypatch):
    X, w = mixed()
    monkeypatch.setattr("colspace.copula._marginals.MAX_KNOTS", 7)  # cells between knots
    kept = w > 0
    chain = build_chain(distinct_values(X[kept], w[kept].astype(float)), list(KINDS.values()))
    again = build_chain(distinct_values(X.repeat(w, axis=0)), list(KINDS.values()))
    for field in ("x", "z", "gap", "weight", "level_count"):
        np.testing.assert_allclose(getattr(chain, field), getattr(again, field), rtol=1e-12)
    rng = np.random.default_rng(1)
    state = State(
        Factors(0.4 * rng.standard_normal((8, 2)), np.tile(0.01 * np.eye(2), (8, 1, 1)), np.full(8, 0.4)),
        chain,
    )
    one = start_sites(training_block(X[kept], chain, w[kept].astype(float)), state)
    many = start_sites(training_block(X.repeat(w, axis=0), chain), state)
    table, weighted = start_table(one, chain)
    every, _ = start_table(many, chain)
    np.testing.assert_allclose(table.T @ weighted, every.T @ every)
    work = Work()
    for _ in range(3):  # sites go their way, in arrays that are used again
        one, found = step(one, state, knots, work)
        many, wanted = step(many, state, knots)
        compare(found, wanted)
    paper = State(Factors(state.factors.W, 0 * state.factors.C, state.factors.noise), chain)
    compare(paper_step(one, paper)[1], paper_step(many, paper)[1])


def compare(found, wanted):
    if hasattr(found, "__dataclass_fields__"):
        for name in found.__dataclass_fields__:
            compare(getattr(found, name), getattr(wanted, name))
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"n_components": 2}, {"method": "paper", "n_components": 2}, {"n_components": 2, "noise": "common"}],
    ids=str,
)
def test_a_weight_of_two_is_a_row_twice_and_zero_none(options):
    X, w = mixed()
    model = CopulaImputer(random_state=0, **options)
    weighted, repeated = model.fit(X, sample_weight=w), clone(model).fit(X.repeat(w, axis=0))
    rows = X[w > 0]
    same(weighted, repeated, rows)
    assert weighted.score(X[w > 0], sample_weight=w[w > 0]) == pytest.approx(
        repeated.score(X.repeat(w, axis=0)), rel=1e-9
    )
    same(clone(model).fit(X, sample_weight=w > 0), clone(model).fit(rows), rows, atol=1e-10)


def test_halves_of_doubled_rows_are_the_rows_and_ones_are_nothing():
    X, _ = mixed()
    plain = CopulaImputer(2, kinds=KINDS, random_state=0).fit(X)
    halves = clone(plain).fit(np.vstack([X, X]), sample_weight=np.full(180, 0.5))
    same(halves, plain, X)
    same(clone(plain).fit(X, sample_weight=np.ones(90)), plain, X, atol=1e-12)


def test_sparse_tables_and_wide_ones(monkeypatch):
    """Both ways to start, and products of sparse blocks."""
    X, w = mixed(200, seed=3)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    row, column = np.nonzero(~np.isnan(X))
    table = sparse.csr_array((X[row, column], (row, column)), shape=X.shape)
    monkeypatch.setattr("colspace.copula._estep.THIN", 0.99)
    monkeypatch.setattr(_fit, "_NARROW", 3)
    model = CopulaImputer(2, kinds=KINDS, random_state=0).fit(table, sample_weight=w)
    again = clone(model).fit(X.repeat(w, axis=0))
    same(model, again, X[w > 0])


def test_a_constant_changes_no_loadings_of_the_published_method_and_sharpens_the_others():
    X, w = mixed(300, seed=1)
    w = w + 1.0
    paper = CopulaImputer(2, method="paper", kinds=KINDS, random_state=0).fit(X, sample_weight=w)
    more = clone(paper).fit(X, sample_weight=16 * w)
    np.testing.assert_allclose(paper.correlation_, more.correlation_, atol=1e-7)
    ours = CopulaImputer(2, kinds=KINDS, random_state=0).fit(X, sample_weight=w)
    more = clone(ours).fit(X, sample_weight=16 * w)
    np.testing.assert_allclose(ours.correlation_, more.correlation_, atol=0.05)
    width = [np.subtract(*m.interval(X)[::-1])[:, :2][np.isnan(X[:, :2])].mean() for m in (ours, more)]
    assert width[1] < width[0]


def test_score_is_a_weighted_mean():
    X, w = mixed()
    model = CopulaImputer(2, kinds=KINDS, random_state=0).fit(X)
    rows, cells = np.array([model.score(X[[i]]) for i in range(90)]), (~np.isnan(X)).sum(axis=1)
    assert model.score(X, sample_weight=w) == pytest.approx(float(rows @ (w * cells) / (w @ cells)))
    assert model.score(X) == pytest.approx(float(rows @ cells / cells.sum()))


def test_routed_through_a_pipeline_and_a_search():
    X, w = mixed()
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    alone = CopulaImputer(2, kinds="continuous", random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        imputer = clone(alone).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        steps = make_pipeline(imputer, PCA(1)).fit(frame, sample_weight=w)
        search = GridSearchCV(imputer, {"n_components": [1, 2]}, cv=[(np.arange(60), np.arange(60, 90))])
        search.fit(X, sample_weight=w)
    np.testing.assert_allclose(
        steps[0].correlation_, clone(alone).fit(X, sample_weight=w).correlation_, atol=1e-12
    )
    fold = clone(alone).fit(X[:60], sample_weight=w[:60])
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(fold.score(X[60:], sample_weight=w[60:]))


def test_weights_that_leave_nothing():
    X, w = mixed()
    with pytest.raises(ValueError, match=r"row 3 is -1; weights must be at least 0"):
        CopulaImputer().fit(X, sample_weight=np.where(np.arange(90) == 3, -1, w))
    with pytest.raises(ValueError, match="at least one non-zero"):
        CopulaImputer().fit(X, sample_weight=0 * w)
    with pytest.raises(ValueError, match=r"one of a positive sample_weight \(1\).*at least 2 rows"):
        CopulaImputer().fit(X, sample_weight=np.arange(90) == 5)
    with pytest.raises(ValueError, match="shape"):
        CopulaImputer().fit(X, sample_weight=w[:5])
