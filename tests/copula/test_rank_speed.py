"""Automatic rank, hidden cells, rows solved once, threads, thin tables."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_digits

from colspace import CopulaImputer
from colspace.copula import _estep, _predict, _solved, _table
from colspace.copula._encode import distinct_values, training_block
from colspace.copula._estep import Factors, Rows, Work
from colspace.copula._fit import first_noise, generous_factors
from colspace.copula._marginals import build_chain
from colspace.copula._rank import chosen, hidden_likelihood, hide_cells, some_cells, unclear
from colspace.copula._step import State
from colspace.datasets import make_copula


def low_rank(n, p, k, noise=0.3, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    Z = rng.standard_normal((n, k)) @ W.T + np.sqrt(noise) * rng.standard_normal((n, p))
    return np.where(rng.random(Z.shape) < missing, np.nan, Z), Z, W


def mixed(n=600, seed=0):
    X, _, _ = low_rank(n, 9, 2, seed=seed)
    levels = np.where(np.isnan(X), np.nan, np.digitize(X, [-0.8, 0.1, 0.9]))
    X[:, ::3] = levels[:, ::3]
    return X


# ---------------------------------------------------------------------- rank


@pytest.mark.parametrize(("noise", "missing"), [(0.3, 0.2), (0.5, 0.4), (0.1, 0.4)])
def test_many_rows_have_the_rank_they_were_made_of(noise, missing):
    X, _, _ = low_rank(6000, 30, 4, noise, missing, seed=1)
    auto, given = CopulaImputer(random_state=0).fit(X), CopulaImputer(4, random_state=0).fit(X)
    assert auto.rank_ == auto.n_components_ == auto.loadings_.shape[1] == 4
    assert auto.n_iter_ <= 2 * given.n_iter_
    np.testing.assert_allclose(auto.correlation_, given.correlation_, atol=0.01)
    assert given.rank_ == 4


def test_mixed_kinds_have_their_rank():
    X, *_ = make_copula(4000, 30, 4, kind="ordinal", rng=0)
    assert CopulaImputer(random_state=0).fit(X).rank_ == 4


def test_hidden_cells_choose_where_strengths_go_on():
    """Pictures have no rank: more factors than can be told from noise predict better, within .01 of the best."""
    complete = load_digits().data[:200]
    hidden = np.random.default_rng(0).random(complete.shape) < 0.3
    X = np.where(hidden, np.nan, complete)
    varied = np.nan_to_num(X).std(axis=0) > 0.5
    X, complete = X[:, varied], complete[:, varied]
    gaps = np.isnan(X)
    spread = np.abs(complete - np.nanmedian(X, axis=0))[gaps].mean()

    def error(k):
        model = CopulaImputer(k, random_state=0).fit(X)
        return model, np.abs(model.transform(X) - complete)[gaps].mean() / spread

    auto, found = error("auto")
    assert auto.n_components_ > auto.rank_
    assert found < error(auto.rank_)[1] - 0.01
    assert found < min(error(k)[1] for k in (16, 32)) + 0.01


def test_a_clear_rank_asks_no_hidden_cells():
    W = np.full((20, 1), np.sqrt(0.7))
    clear = Factors(W, np.zeros((20, 1, 1)), np.full(20, 0.3))
    few, many = np.full(20, 100.0), np.full(20, 1e5)
    assert not unclear(clear, few, 14)
    weak = np.hstack([W, 0.1 * np.tile([[1.0], [-1.0]], (10, 1))])
    faint = Factors(weak, np.zeros((20, 2, 2)), np.full(20, 0.29))
    assert unclear(faint, few, 14)
    assert not unclear(faint, many, 14)


@pytest.mark.parametrize(("second", "expected"), [(0.1, False), (0.02, True)])
def test_strengths_that_fall_steeply_are_not_clear(second, expected):
    """The second factor is six times the edge of the noise and more, in both; but the first is 7 and 35 times as strong."""
    W = np.sqrt([0.7, second]) * np.tile([[1.0, 1.0], [1.0, -1.0]], (10, 1))
    assert unclear(Factors(W, np.zeros((20, 2, 2)), np.full(20, 0.05)), np.full(20, 400.0), 14) == expected


def test_a_rank_that_ends_where_it_began_is_not_clear():
    W = np.full((20, 1), np.sqrt(0.7))
    clear = Factors(W, np.zeros((20, 1, 1)), np.full(20, 0.3))
    assert not unclear(clear, np.full(20, 1e5), 2)
    assert unclear(clear, np.full(20, 1e5), 1)


def test_generous_start_keeps_the_noise_of_exact_correlations():
    _, _, W = low_rank(2, 20, 3)
    R = W @ W.T
    np.fill_diagonal(R, 1.0)
    counts = np.full((20, 20), 1e6)
    found = generous_factors(R * counts, counts, 10, np.full(20, 1e6))
    assert found.shape == (20, 3)
    np.testing.assert_allclose(found @ found.T, W @ W.T, atol=0.02)


# ---------------------------------------------------------------------- hidden cells


def block_of(X):
    kinds = ["ordinal" if j % 3 == 0 else "continuous" for j in range(X.shape[1])]
    chain = build_chain(distinct_values(X), kinds)
    return training_block(X, chain), chain


def cells_of(block):
    return sorted(zip(block.rows.row.tolist(), block.rows.column.tolist(), strict=True))


def test_which_cells_are_hidden_depends_on_their_row_alone():
    X = mixed()
    block, chain = block_of(X)
    gone = chosen(block, 0.1)
    assert 0.08 < gone.mean() < 0.12
    assert np.ptp(np.bincount(block.rows.column[gone], minlength=9)) < 40
    table = np.zeros(X.shape, dtype=bool)
    table[block.rows.row, block.rows.column] = gone
    order = np.random.default_rng(0).permutation(len(X))[:250]
    part = training_block(X[order], chain)
    again = np.zeros((250, 9), dtype=bool)
    again[part.rows.row, part.rows.column] = chosen(part, 0.1)
    np.testing.assert_array_equal(again, table[order])


def test_hidden_cells_and_the_rest_are_all():
    block, _ = block_of(mixed())
    kept, _ = hide_cells(block, 0.3, (), Work())
    assert sorted(cells_of(kept) + cells_of(kept.held)) == cells_of(block)
    assert len(kept.exact) + len(kept.censored) == len(kept.rows.row)
    for part in (kept, kept.held):
        assert set(part.rows.column[part.censored] % 3) == {0}
    same = some_cells(block, np.ones(len(block.rows.row), dtype=bool))
    np.testing.assert_array_equal(same.node, block.node)


@pytest.mark.parametrize("weighted", [False, True])
def test_likelihood_of_hidden_cells_is_that_of_the_normal_law(weighted):
    X, _, W = low_rank(40, 6, 2)
    chain = build_chain(distinct_values(X), ["continuous"] * 6)
    weight = np.arange(1.0, 41.0) if weighted else None
    block, _ = hide_cells(training_block(X, chain, weight), 0.3, (), Work())
    state = State(Factors(W, np.zeros((6, 2, 2)), np.full(6, 0.3)), chain)
    Z = np.full(X.shape, np.nan)
    whole = training_block(X, chain)
    Z[whole.rows.row, whole.rows.column] = chain.z[whole.node]
    S = W @ W.T + 0.3 * np.eye(6)
    total = count = 0.0
    for i in range(40):
        w = 1.0 if weight is None else weight[i]
        on = block.rows.column[block.rows.row == i]
        for j in block.held.rows.column[block.held.rows.row == i]:
            gain = np.linalg.solve(S[np.ix_(on, on)], S[on, j])
            m, v = gain @ Z[i, on], S[j, j] - gain @ S[on, j]
            total += w * multivariate_normal(m, v).logpdf(Z[i, j])
            count += w
    np.testing.assert_allclose(hidden_likelihood(block, state, Work()), [total, count], rtol=1e-10)


# ---------------------------------------------------------------------- rows solved once


@pytest.fixture
def solves(monkeypatch):
    """How many blocks are solved; nothing is remembered from before."""
    calls, real = [], _predict.row_laws
    monkeypatch.setattr(_solved, "SOLVED", _solved.Solved())
    monkeypatch.setattr(_predict, "row_laws", lambda *a: calls.append(1) or real(*a))
    return calls


def test_rows_of_a_table_are_solved_once(solves):
    X = mixed()
    model = CopulaImputer(2, random_state=0).fit(X)
    model.transform(X)
    blocks = len(solves)
    assert blocks > 0
    lower, upper = model.interval(X)
    model.reliability(X)
    model.sample(X, 2, random_state=0)
    model.latent(X)
    assert len(solves) == blocks
    _solved.SOLVED.tables = ()
    fresh = model.interval(X)
    np.testing.assert_array_equal(lower, fresh[0])
    np.testing.assert_array_equal(upper, fresh[1])


def test_what_is_remembered_is_never_stale(solves):
    X = mixed()
    model = CopulaImputer(2, random_state=0).fit(X)
    first = model.transform(X)
    first[:] = 0.0
    row = int(np.flatnonzero(np.isnan(X).any(axis=1) & ~np.isnan(X[:, 1]))[0])
    X[row, 1] += 1.5
    changed = model.transform(X)
    _solved.SOLVED.tables = ()
    np.testing.assert_array_equal(changed, model.transform(X))
    other = clone(model).set_params(n_components=3).fit(X)
    assert not np.array_equal(other.latent(X), model.latent(X)[:, :2])
    blocks = len(solves)
    other.fit(X[:300])
    other.transform(X)
    assert len(solves) > blocks


def test_what_is_remembered_goes_with_the_model_and_into_no_pickle(solves):
    X = mixed()
    model = CopulaImputer(2, random_state=0).fit(X)
    model.transform(X[:400])
    assert not _solved.SOLVED.tables
    before = len(pickle.dumps(model))
    model.transform(X)
    assert len(pickle.dumps(model)) == before
    assert len(_solved.SOLVED.tables) == 1
    del model
    assert not _solved.SOLVED.tables


def test_each_model_has_a_table_as_far_as_memory_goes(solves, monkeypatch):
    X = mixed()
    one, two = (CopulaImputer(k, random_state=0).fit(X) for k in (2, 3))
    for model in (one, two):
        model.transform(X)
    blocks = len(solves)
    for model in (one, two):
        model.reliability(X)
    assert len(solves) == blocks
    one.transform(X[::-1])
    assert len(_solved.SOLVED.tables) == 2  # of one, the latest
    sizes = [table.size for table in _solved.SOLVED.tables]
    three = CopulaImputer(1, random_state=0).fit(X)
    monkeypatch.setattr(_solved, "_MOST", max(sizes))
    three.transform(X)
    assert sum(table.size for table in _solved.SOLVED.tables) <= max(sizes)
    blocks = len(solves)
    three.reliability(X)
    assert len(solves) == blocks


def test_fingerprints_tell_tables_apart():
    X = mixed()
    assert _solved.fingerprint(X) == _solved.fingerprint(X.copy(order="F"))
    assert _solved.fingerprint(X) != _solved.fingerprint(X[:, ::-1])
    one, two = sparse.csr_array(np.eye(3)), sparse.csr_array(np.eye(3)[[1, 0, 2]])
    assert _solved.fingerprint(one) != _solved.fingerprint(two)
    assert _solved.fingerprint(X[:0]) != _solved.fingerprint(X[:, :0])


# ---------------------------------------------------------------------- threads and thin tables


@pytest.mark.parametrize("jobs", [2, 3, -1])
def test_threads_change_no_bit(jobs, monkeypatch):
    X = mixed(6000)
    one = CopulaImputer(2, random_state=0).fit(X)
    more = CopulaImputer(2, n_jobs=jobs, random_state=0).fit(X)
    np.testing.assert_array_equal(one.loadings_, more.loadings_)
    np.testing.assert_array_equal(one.noise_variance_, more.noise_variance_)
    np.testing.assert_array_equal(one.transform(X), more.transform(X))


def test_no_threads_are_refused():
    with pytest.raises(ValueError, match="n_jobs=0 must be a number of threads"):
        CopulaImputer(2, n_jobs=0).fit(mixed(50))


@pytest.mark.parametrize(("single", "near"), [(False, 1e-12), (True, 3e-6)])
def test_pairs_of_thin_tables(single, near, monkeypatch):
    rng = np.random.default_rng(0)
    row, column = np.nonzero(rng.random((90, 40)) < 0.1)
    rows, left, right = Rows(90, 40, row, column), rng.standard_normal((90, 5)), rng.standard_normal((40, 5))
    monkeypatch.setattr(_estep, "_TILE", 7 * 40)
    expected = (left[row] * right[column]).sum(axis=1)
    assert not rows.dense
    np.testing.assert_allclose(rows.pairs(left, right, single=single), expected, atol=near)
    np.testing.assert_allclose(rows.table(expected).toarray()[row, column], expected)


def test_thin_tables_fit_as_dense_ones_do(monkeypatch):
    X, *_ = make_copula(800, 40, 2, kind="ordinal", missing=0.85, rng=0)
    row, column = np.nonzero(~np.isnan(X))
    thin = sparse.csr_array((X[row, column], (row, column)), shape=X.shape)
    found = CopulaImputer(2, random_state=0, kinds="ordinal").fit(thin)
    monkeypatch.setattr("colspace.copula._estep.THIN", 0.0)
    monkeypatch.setattr("colspace.copula._encode.THIN", 0.0)
    dense = CopulaImputer(2, random_state=0, kinds="ordinal").fit(thin)
    np.testing.assert_allclose(found.correlation_, dense.correlation_, atol=1e-6)


def test_frames_of_floats_are_read_as_others_are(monkeypatch):
    X, _, _ = low_rank(300, 6, 2)
    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(300) * 2)
    frame.attrs["source"] = "survey"
    before = frame.copy()
    model = CopulaImputer(2, random_state=0).fit(frame)
    filled = model.transform(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert filled.attrs == {"source": "survey"}
    filled.iloc[0, 0] = 99.0
    pd.testing.assert_frame_equal(frame, before)
    filled = model.transform(frame)
    monkeypatch.setattr(_table, "_float_frame", lambda *a: None)
    again = clone(model).fit(frame)
    np.testing.assert_array_equal(again.loadings_, model.loadings_)
    pd.testing.assert_frame_equal(again.transform(frame), filled)


def test_first_noise_is_what_the_other_columns_leave():
    rng = np.random.default_rng(0)
    w = rng.uniform(0.5, 0.9, 8)
    R = np.outer(w, w)
    np.fill_diagonal(R, 1.0)
    found = first_noise(R.copy(), 0.01)
    for j in range(8):
        rest = np.delete(np.arange(8), j)
        left = 1.0 - R[j, rest] @ np.linalg.solve(R[np.ix_(rest, rest)], R[rest, j])
        assert found[j] == pytest.approx(left)
        assert found[j] > 1.0 - w[j] ** 2  # more than its noise
    np.testing.assert_array_equal(first_noise(R.copy(), 0.2), 0.3)  # correlations too uncertain
    np.testing.assert_array_equal(first_noise(np.ones((3, 3)), 0.01), 0.3)  # singular


@pytest.mark.parametrize("seed", range(2))
def test_columns_of_much_noise_are_no_factors(seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((6000, 4)) @ rng.standard_normal((4, 25)) + rng.standard_normal((6000, 25))
    X = np.where(rng.random(Z.shape) < 0.2, np.nan, Z)
    model = CopulaImputer(nonlinear=False, correlation="factors", random_state=0).fit(X)
    assert model.rank_ == 4
