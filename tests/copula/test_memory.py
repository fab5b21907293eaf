"""Blocks in few bytes, tables of knots, sweeps of one triangle, a sample for the rank, and what a fit holds at once."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from colspace import CopulaImputer
from colspace._threads import plain_products
from colspace.copula import _fit
from colspace.copula._em import noise_edge
from colspace.copula._encode import distinct_values, training_block
from colspace.copula._estep import Factors, Work, _solved_by_roots, _solved_by_sweeps, fresh
from colspace.copula._lookup import Lookup
from colspace.copula._marginals import build_chain
from colspace.copula._packed import Packed, packed, packed_blocks
from colspace.copula._passes import LocalRows, Passes
from colspace.copula._rank import hide_cells
from colspace.copula._step import State, start_sites, step
from colspace.datasets import make_copula

KINDS = ["ordinal", "continuous", "continuous"] * 3


def table(n=700, seed=0):
    X = make_copula(n, 9, 2, noise=0.3, rng=seed).X
    X[:, ::3] = np.where(np.isnan(X[:, ::3]), np.nan, np.digitize(X[:, ::3], [-0.8, 0.1, 0.9]))
    return X


def state_of(X):
    chain = build_chain(distinct_values(X), KINDS)
    W = np.random.default_rng(1).standard_normal((9, 2)) * 0.5
    return State(Factors(W, np.zeros((9, 2, 2)), 1.0 - np.einsum("pi,pi->p", W, W).clip(0, 0.9)), chain)


def same(one, other):
    for name in ("exact", "node", "part", "censored", "level", "tau", "nu"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("n", "p", "row", "column", "flat", "bounds"):
        np.testing.assert_array_equal(getattr(one.rows, name), getattr(other.rows, name), err_msg=name)
    assert (one.weight is None) == (other.weight is None)


# ---------------------------------------------------------------------- blocks


def test_a_packed_block_opens_as_it_was():
    X = table()
    state = state_of(X)
    block = start_sites(training_block(X, state.chain, np.arange(1.0, 701.0)), state)
    hidden, _ = hide_cells(block, 0.2, (), fresh)
    for each in (block, hidden):
        small = packed(each)
        assert isinstance(small, Packed)
        opened = small.opened(Work())
        same(opened, each)
        assert small.flat.itemsize == small.node.itemsize == 2
    same(small.opened(Work()).held, hidden.held)
    numbers = training_block(X[:, 1:3], build_chain(distinct_values(X[:, 1:3]), ["continuous"] * 2))
    assert packed(numbers).exact is None
    same(packed(numbers).opened(Work()), numbers)


def test_large_places_take_four_bytes():
    X = np.random.default_rng(0).standard_normal((1200, 80))
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    chain = build_chain(distinct_values(X), ["continuous"] * 80)
    small = packed(training_block(X, chain))
    assert small.flat.itemsize == 4
    assert small.part is not None  # values between knots
    same(small.opened(Work()), training_block(X, chain))


def test_thin_blocks_stay_as_they_are():
    X = table()
    X[:, 1:][np.random.default_rng(0).random((700, 8)) < 0.9] = np.nan
    chain = build_chain(distinct_values(X), KINDS)
    assert packed(training_block(X, chain)) is not None
    assert not isinstance(packed(training_block(X, chain)), Packed)


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_that_are_looked_up_together_are_those_of_their_rows(weighted):
    X = table(1000)
    chain = build_chain(distinct_values(X), KINDS)
    weight = np.arange(1.0, 1001.0) if weighted else None
    blocks = list(packed_blocks(X, chain, weight, 90))
    assert len(blocks) == 12
    for i, block in enumerate(blocks):
        rows = slice(90 * i, 90 * i + 90)
        alone = training_block(X[rows], chain, None if weight is None else weight[rows])
        same(block.opened(Work()), alone)
        if weighted:
            np.testing.assert_array_equal(block.weight, weight[rows])


def test_passes_over_packed_blocks_are_those_over_blocks():
    X = table()
    state = state_of(X)
    parts = [X[:300], X[300:]]
    plain = Passes([training_block(part, state.chain) for part in parts])
    small = Passes([packed(training_block(part, state.chain)) for part in parts])
    for passes in (plain, small):
        passes.update(_fit.restart, state)
    for knots in (False, True, False):
        one, other = (passes.update(step, state, knots) for passes in (plain, small))
        np.testing.assert_array_equal(one.factors.A, other.factors.A)
        np.testing.assert_array_equal(one.nodes.linear, other.nodes.linear)
        np.testing.assert_array_equal(one.loose, other.loose)
    for block, before in zip(small.blocks, plain.blocks, strict=True):
        np.testing.assert_array_equal(block.tau, before.tau)
        np.testing.assert_array_equal(block.nu, before.nu)


def test_a_fit_holds_twice_its_table_and_what_a_few_blocks_need():
    X = make_copula(60_000, 12, 2, rng=0).X
    blocks = 14e6
    model = CopulaImputer(2, correlation="factors", nonlinear=False, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X)
        fit = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        model.transform(X)
        filled = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fit < 2 * X.nbytes + blocks
    assert filled < 2 * X.nbytes + blocks


# ---------------------------------------------------------------------- products and threads


@pytest.mark.parametrize("k", [1, 5, 13, 17])
def test_rows_are_solved(k):
    rng = np.random.default_rng(k)
    root = rng.standard_normal((7, k, k + 3))
    A, b = root @ root.transpose(0, 2, 1), rng.standard_normal((7, k))
    inverse = np.linalg.inv(np.eye(k) + A)
    i, j = np.triu_indices(k)
    for solve in (_solved_by_sweeps, _solved_by_roots):
        V, t = A[:, i, j].T.copy(), np.zeros((k, 7))
        solve(V, b.T.copy(), t, Work())
        np.testing.assert_allclose(V.T, inverse[:, i, j], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(t.T, np.einsum("nij,nj->ni", inverse, b), rtol=1e-8, atol=1e-10)


def test_a_precision_that_is_none_is_refused():
    V = np.full((91, 1), -5.0)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        _solved_by_roots(V, np.ones((13, 1)), np.zeros((13, 1)), Work())


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_products_have_one_thread_and_others_what_they_had():
    before = threads()
    assert set(plain_products(threads)()) == {1}
    assert threads() == before


@pytest.mark.parametrize("method", ["sample", "score", "score_samples", "latent", "probabilities"])
def test_all_that_is_asked_has_one_thread_in_products(method, monkeypatch):
    """Threads that wait for each other's small products take many times the work."""
    X = make_copula(40, 4, 1, rng=0).X
    model, seen = CopulaImputer(1, random_state=0).fit(X), []
    read = CopulaImputer._encode
    monkeypatch.setattr(CopulaImputer, "_encode", lambda self, X: (seen.extend(threads()), read(self, X))[1])
    with threadpool_limits(2, "blas"):
        getattr(model, method)(X)
    assert set(seen) == {1}


# ---------------------------------------------------------------------- tables of knots


@pytest.mark.parametrize("crowded", [False, True])
def test_a_table_of_knots_is_interpolation_to_the_last_bit(crowded):
    rng = np.random.default_rng(0)
    knots = np.unique(
        np.concatenate([rng.standard_normal(300), 1e-3 * rng.standard_normal(50 if crowded else 2)])
    )
    values = np.cumsum(rng.random(len(knots))) ** 3
    look = Lookup(knots, values)
    x = np.concatenate(
        [
            4 * rng.standard_normal(5000),
            knots,
            np.nextafter(knots, -9),
            np.nextafter(knots, 9),
            [np.inf, -np.inf],
        ]
    )
    np.testing.assert_array_equal(look(x), np.interp(x, knots, values))
    assert (look.first is None) == crowded
    assert np.isnan(look(np.full(500, np.nan))).all()


@pytest.mark.parametrize("knots", [[1.0], [-1e308, 1e308], [0.0, 5e-324], [0.0, 1e-310, 2e-310]])
def test_knots_that_have_no_table_are_searched(knots):
    knots = np.array(knots)
    values = np.arange(len(knots)) + 1.0
    x = np.linspace(-1, 1, 5000)
    np.testing.assert_array_equal(Lookup(knots, values)(x), np.interp(x, knots, values))


# ---------------------------------------------------------------------- a sample for the rank


def test_enough_cells_are_those_with_the_least_edge():
    p = 30
    assert noise_edge(p, np.full(p, _fit.ENOUGH * p)) < 0.1001
    assert noise_edge(p, np.full(p, 0.9 * _fit.ENOUGH * p)) > 0.1001


@pytest.mark.parametrize("kind", ["continuous", "ordinal"])
def test_many_rows_begin_with_some_of_them(kind, monkeypatch):
    X = make_copula(4200, 12, 2, kind=kind, noise=0.3, rng=0).X
    imputer = CopulaImputer(correlation="factors", nonlinear=False, random_state=0)
    whole = clone(imputer).fit(X)
    monkeypatch.setattr(_fit, "ENOUGH", 60)
    sizes, real = [], _fit.early_factors
    monkeypatch.setattr(_fit, "early_factors", lambda *a, **k: sizes.append(a[2]) or real(*a, **k))
    part = clone(imputer).fit(X)
    assert len(sizes) == 1
    np.testing.assert_allclose(sizes[0], (~np.isnan(X)).mean(axis=0))
    assert part.rank_ == whole.rank_ == 2
    assert part.n_iter_ <= whole.n_iter_
    np.testing.assert_allclose(part.correlation_, whole.correlation_, atol=0.02)
    imputer.set_params(n_components=2).fit(X)
    assert len(sizes) == 1


def test_thinned_passes_are_over_some_blocks_and_change_none():
    X = table(5000)
    state = state_of(X)
    passes = LocalRows(X).passes(state.chain, 2)
    assert len(passes.blocks) > 2
    some = passes.thinned(2)
    assert len(some.blocks) == -(-len(passes.blocks) // 2)
    before = [block.tau for block in passes.blocks]
    some.update(_fit.restart, state)
    assert all(block.tau is old for block, old in zip(passes.blocks, before, strict=True))
