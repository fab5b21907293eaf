"""Rows that are solved once for many columns: what they say of each is what they say of it alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix

from colspace import CopulaImputer
from colspace.copula import _curved, _fit, _forest, _nominal
from colspace.copula import _word_learning as learning
from colspace.copula._checks import tolerance
from colspace.copula._encode import known_rows
from colspace.copula._nominal import group_law, hidden_group, level_laws
from colspace.copula._row_laws import row_laws


@pytest.fixture(scope="module")
def survey():
    """Three columns of words and two of levels, which two factors tell, and numbers, one of which bends."""
    rng = np.random.default_rng(5)
    n = 250
    t = rng.standard_normal((n, 2))
    told = t @ rng.standard_normal((2, 9)) + 0.5 * rng.standard_normal((n, 9))
    frame = pd.DataFrame(told[:, :3], columns=list("abc"))
    frame["bowl"] = t[:, 0] ** 2 + 0.1 * rng.standard_normal(n)
    for name, column in zip(("soil", "crop", "farm"), told[:, 3:6].T, strict=True):
        frame[name] = np.array([f"{name} {i}" for i in range(4)])[np.digitize(column, [-1.0, 0.0, 1.0])]
    for name, column in zip(("grade", "steps"), told[:, 6:8].T, strict=True):
        frame[name] = np.digitize(column, [-1.0, 0.5, 1.5]).astype(float)
    X = frame.mask(rng.random(frame.shape) < 0.15)
    return X, CopulaImputer(2, nonlinear=True, correlation="factors", random_state=0).fit(X)


@pytest.fixture(scope="module")
def solved(survey):
    X, model = survey
    cells = model._part(model._encode(X)[0])
    own = model._odds
    return cells, own, row_laws(known_rows(cells, own.state.chain, own.columns, own.labels), own)


def test_columns_that_are_hidden_are_those_whose_sites_are_left_out(survey, solved):
    """The precision of a row's factors, summed cell by cell over all others, and inverted."""
    cells, model, laws = solved
    f, k = model.factors, model.factors.rank
    assert f.C.any()
    group = survey[1]._columns.groups[1]
    at = np.flatnonzero(~np.isnan(cells[:, group.start]))[::20]
    q = laws.without(at, group.latents)
    i, j = np.triu_indices(k)
    row, column = laws.known.rows.row, laws.known.rows.column
    for n, one in enumerate(at):
        precision, shift = np.eye(k), np.zeros(k)
        for c in np.flatnonzero(row == one):
            w = column[c]
            if not group.start <= w < group.latents.stop:
                precision += laws.tau[c] * (np.outer(f.W[w], f.W[w]) + f.C[w])
                shift += laws.nu[c] * f.W[w]
        cover = np.linalg.inv(precision)
        assert_allclose(q.t[n], cover @ shift, atol=1e-10)
        assert_allclose(q.V[n], cover[i, j], atol=1e-10)


def test_groups_told_together_are_told_as_each_by_itself(survey, solved, monkeypatch):
    """Beside rows that are solved anew without the group: sites of other levels hardly know of it; in blocks of any size."""
    cells, model, _ = solved
    groups = survey[1]._columns.groups
    there = [np.flatnonzero(~np.isnan(cells[:, group.start])) for group in groups]
    there[2] = there[2][50:90]
    whole = {i: (at, q.t, mean) for i, at, q, mean in learning.told_without(cells, there, model, groups)}
    assert list(whole) == [0, 1, 2]
    for (i, (at, t, mean)), group in zip(whole.items(), groups, strict=True):
        assert (at == there[i]).all()
        odds, rest = hidden_group(learning.hide(cells[at], group), model, group)
        gone = np.isnan(np.delete(cells[at], group.latents, axis=1))
        assert_allclose(np.delete(mean, group.latents, axis=1)[gone], rest[gone], atol=0.1)
        found = next(
            learning.odds_without(q, m, model, group)
            for one, _, q, m in learning.told_without(cells, there, model, groups)
            if one == i
        )
        assert np.abs(found - odds).max() < 0.05 * odds.std()
        assert t.shape == (len(at), model.factors.rank)
    monkeypatch.setattr(learning, "rows_per_block", lambda *_: 7)
    for i, group in enumerate(groups):
        parts = [part for part in learning.told_without(cells, there, model, groups) if part[0] == i]
        assert (np.concatenate([at for _, at, _, _ in parts]) == there[i]).all()
        assert_allclose(np.concatenate([mean for *_, mean in parts]), whole[i][2], atol=1e-9)
        assert group.width == 4


def test_sparse_tables_have_no_groups_to_tell(survey):
    _, model = survey
    assert level_laws(csr_matrix((3, 2)), model._odds, model._columns, (), ()) == []


def test_columns_of_levels_told_together_see_gaps_as_corrections_fill_them(survey, solved):
    X, model = survey
    cells, point, steps = solved[0], model._point, model._columns.steps
    assert point.curved is not None
    assert [group.classes for group in steps] == [4, 4]
    there = [np.flatnonzero(~np.isnan(cells[:, group.start])) for group in steps]
    found = learning.steps_without(cells, there, point, steps)
    for i, group in enumerate(steps):
        odds, rest = hidden_group(learning.hide(cells[there[i]], group), point, group)
        assert np.abs(np.exp(found[i][0]) - np.exp(odds)).max() < 0.02
        off = np.abs(found[i][1] - rest)
        assert np.mean(off > 0.05) < 0.005  # a tree may go the other way at a threshold
        plain = learning.steps_without(cells, there, replace(point, curved=None), steps)
        assert np.abs(plain[i][1] - rest).max() > 0.2  # what the corrections say is in it
    assert len(X) == len(cells)


@pytest.mark.parametrize("rows", [7, 250])
def test_levels_of_all_groups_at_once_are_those_of_each(survey, rows, monkeypatch):
    """All gaps of a table, and a table of which few rows have any, in one block or many."""
    X, model = survey
    if rows == 7:
        monkeypatch.setattr(_nominal, "_AT_ONCE", 40)
    words = [name for name in X if X[name].dtype.kind in "OU" or str(X[name].dtype) == "str"]
    few = X.copy()
    few.iloc[20:, [X.columns.get_loc(name) for name in words]] = few[words].mode().iloc[0].to_numpy()
    for table in (X, few):
        values = model._encode(table)[0]
        groups = model._columns.groups
        for law, group, known in zip(
            level_laws(values, model._odds, model._columns, groups, model._words),
            groups,
            model._words,
            strict=True,
        ):
            at = np.flatnonzero(np.isnan(values[:, group.column]))
            assert (law.rows == at).all()
            alone = group_law(model._columns.expand(values[at]), model._odds, group, known)
            assert_allclose(law.probability, alone[:, group.kind] * group.share, atol=1e-8)


def test_wide_tables_take_a_cell_out_nearly_as_narrow_ones_do(solved, monkeypatch):
    _, model, laws = solved
    where = np.flatnonzero(laws.known.rows.column == 0)
    monkeypatch.setattr(_curved, "_BROAD", 100)
    swept = _curved.without(laws, model, where)
    monkeypatch.setattr(_curved, "_BROAD", 1)
    q = _curved.without(laws, model, where)
    rows = laws.known.rows.row[where]
    assert_allclose(q.t, laws.without(rows, slice(0, 1)).t, atol=1e-12)
    moved = np.abs(laws.posterior.t[rows] - swept.t).mean()
    assert 0 < np.abs(q.t - swept.t).mean() < 0.25 * moved  # sites of levels know a little of the cell


# ---------------------------------------------------------------------- wide tables


def many_columns(rows, seed=0):
    """Of more columns than later trees look at two that tell y."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, _forest.TOLD + 6))
    y = 2.0 * (X[:, 4] > 0) + X[:, 9] + 0.1 * rng.standard_normal(rows)
    return X, y


@pytest.mark.parametrize("rows", [150, 2000])
def test_later_trees_look_at_the_columns_that_told_most(monkeypatch, rows):
    X, y = many_columns(rows)
    monkeypatch.setattr(_forest, "TOLD", 2)
    forest, outside = _forest.grow(X, y, None, np.random.default_rng(1), wide=True)
    first, trees = (_forest.FIRST, _forest.TREES) if rows < 1500 else (_forest.FEWER_FIRST, _forest.FEWER)
    assert len(forest.roots) == trees
    splits = forest.left != np.arange(len(forest.left))
    late = np.arange(len(splits)) >= forest.roots[first]
    assert set(np.unique(forest.feature[splits & late])) == {4, 9}
    assert len(np.unique(forest.feature[splits & ~late])) > 20
    assert np.mean((outside - y) ** 2) < 0.3 * np.var(y)


def test_columns_that_told_most_are_those_whose_splits_took_most_variance_away():
    from sklearn.tree import ExtraTreeRegressor

    X, y = many_columns(300)
    trees = [ExtraTreeRegressor(random_state=i).fit(X, y) for i in range(4)]
    told = np.zeros(X.shape[1])
    for each in trees:
        tree, out = each.tree_, np.zeros(X.shape[1])
        size, left = tree.weighted_n_node_samples * tree.impurity, tree.children_left
        for node in np.flatnonzero(left >= 0):
            out[tree.feature[node]] += size[node] - size[left[node]] - size[tree.children_right[node]]
        told += out / out.sum()
    found = _forest.most_telling([each.tree_ for each in trees])
    assert found.tolist() == sorted(np.argsort(-told)[: _forest.TOLD])
    assert {4, 9} <= set(found.tolist())


def test_few_columns_and_tables_without_words_keep_all_trees_and_columns():
    X, y = many_columns(1600)
    few = np.ascontiguousarray(X[:, : _forest.TOLD])
    for table, wide in ((X, False), (few, True)):
        forest, _ = _forest.grow(table, y, None, np.random.default_rng(1), wide=wide)
        assert len(forest.roots) == _forest.TREES
        assert len(np.unique(forest.feature)) == table.shape[1]


@pytest.mark.parametrize("words", [True, False])
def test_tables_mostly_of_words_have_the_factors_that_are_found(words, monkeypatch):
    """No others are tried: what more of them would tell is told by slopes and forests."""
    asked = []
    monkeypatch.setattr(_fit, "unclear", lambda *_: True)
    monkeypatch.setattr(
        _fit, "best_rank", lambda passes, state, *_, **__: asked.append(1) or state.factors.rank
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((120, 4)), columns=list("abcd"))
    frame["w"] = np.array(["u", "v", "w", "x", "y"] if words else ["u", "v", "w"])[
        rng.integers(3 + 2 * words, size=120)
    ]
    CopulaImputer(nonlinear=False, correlation="factors", random_state=0).fit(frame)
    assert len(asked) == int(not words)


def test_wide_tables_of_words_have_one_round(solved, monkeypatch):
    X, model, _ = solved
    correct, tried = _curved.correct, []
    monkeypatch.setattr(
        _curved,
        "correct",
        lambda cell, *given, **how: tried.append(cell.column) or correct(cell, *given, **how),
    )
    apart = np.arange(len(model.columns)) > 3
    for told, most in ((1, 1), (50, 2)):
        monkeypatch.setattr(_curved, "TOLD", told)
        tried.clear()
        found = _curved.learn_curved(X, model, None, np.random.default_rng(0), apart, wide=True)
        assert (found.gain > 0.03).any()
        times = np.bincount(tried)
        assert (times[:4] >= 1).all()
        assert (times[:4] > 1).any() == (most > 1)


def test_factors_of_words_may_stop_earlier():
    assert tolerance("ep", ["nominal"] * 3 + ["continuous"] * 2, None) == 1e-2
    assert tolerance("ep", ["nominal"] * 2 + ["continuous"] * 2, None) == 4e-3
    assert tolerance("ep", ["nominal"] + ["continuous"] * 2, None) == 2e-3
