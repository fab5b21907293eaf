"""Several blocks with more columns than rows: leading axes, where rows left out speak for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

from colspace import DeterminedResponseWarning, JointReduction, stack_blocks
from colspace._blocks import parse_blocks
from colspace.reduction import _auto, _auto_choice
from colspace.reduction._auto import fit_auto
from colspace.reduction._auto_choice import Variant, leading_count
from colspace.reduction._auto_linear import learn_ridges
from colspace.reduction._source import Source, gathered


def factors(seed: int, n: int = 60, p: int = 200):
    """Three blocks of three strong factors and a weaker one that knows y; all else is noise."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((3, 4, p)) * np.array([1.0, 1.0, 1.0, 0.5])[:, None]
    y = rng.standard_normal(n)
    tables = {}
    for name, L in zip("abc", loadings, strict=True):
        scores = rng.standard_normal((n, 4))
        scores[:, 3] += y
        tables[name] = scores @ L + 1.5 * rng.standard_normal((n, p))
    X, blocks = stack_blocks(tables)
    return X, y, blocks


def standard(X):
    return StandardScaler().fit_transform(X)


def above_mean(X, blocks):
    """How many principal variances of every block are above their mean."""
    found = {}
    for name, columns in blocks.items():
        variances = np.linalg.svd(standard(X[:, columns]), compute_uv=False)[: len(X) - 1] ** 2
        found[name] = int(np.sum(variances > variances.mean()))
    return found


@pytest.fixture(scope="module")
def table():
    return factors(0)


def test_axes_above_the_mean_lead():
    assert (
        leading_count(np.array([5.0, 3.0, 1.9, 0.1, 0.0, 0.0])) == 2
    )  # zeros do not count in the mean of 2.5
    assert leading_count(np.ones(4)) == 0  # none leads


def test_leading_axes_are_a_fit_on_half_whitened_pca_scores(table, monkeypatch):
    X, y, blocks = table
    monkeypatch.setattr(_auto_choice, "_ALPHAS", (0.5,))
    model = JointReduction(2, blocks=blocks, n_groups=None).fit(X, y)
    assert model.n_axes_ == above_mean(X, blocks)
    scores = {}
    for b, columns in blocks.items():
        A = PCA(model.n_axes_[b]).fit_transform(standard(X[:, columns]))
        scores[b] = A / np.sqrt(A.std(axis=0))
    table, mine = stack_blocks(scores)
    source = Source.of(table, y, None, "test", tails=False)
    source = replace(source, unit=True, n_columns=(200, 200, 200))
    small = fit_auto(source, parse_blocks(mine, table.shape[1]), 2, variant=Variant(0, 0.5))
    for A, Z, L in zip(np.split(model.transform(X), 3, axis=1), scores.values(), small.loadings, strict=True):
        assert_allclose(np.abs(A), np.abs(Z @ L), rtol=1e-6, atol=1e-7)


def test_leading_axes_are_taken_where_they_err_less(monkeypatch):
    X, y, blocks = factors(0, n=660)
    model = JointReduction(1, blocks=blocks, n_groups=None).fit(X[:60], y[:60])
    assert model.n_axes_ == above_mean(X[:60], blocks)
    monkeypatch.setattr(_auto_choice, "wide_blocks", lambda *_: [False] * 3)
    plain = JointReduction(1, blocks=blocks, n_groups=None).fit(X[:60], y[:60])
    assert plain.n_axes_ == dict.fromkeys("abc", 59)

    def error(m):
        A, B = (np.column_stack([np.ones(len(t)), m.transform(t)]) for t in (X[:60], X[60:]))
        return np.mean((y[60:] - B @ np.linalg.lstsq(A, y[:60], rcond=None)[0]) ** 2)

    assert error(model) < 0.9 * error(plain)


def test_a_response_in_small_axes_keeps_them():
    """What y follows is one of many small axes, and the leading one knows nothing of it."""
    rng = np.random.default_rng(1)
    tables = {}
    for name in "ab":
        common = rng.standard_normal((40, 1)) + 0.1 * rng.standard_normal((40, 60))
        tables[name] = np.hstack([rng.standard_normal((40, 20)), common])
    X, blocks = stack_blocks(tables)
    y = tables["a"][:, 0] + tables["b"][:, 1] + 0.1 * rng.standard_normal(40)
    assert JointReduction(1, blocks=blocks, n_groups=None).fit(X, y).n_axes_ == {"a": 39, "b": 39}


def test_a_gain_within_a_standard_error_is_none(table, monkeypatch):
    X, y, blocks = table
    draws = np.random.default_rng(0).standard_normal(60)
    asked = {}

    def errors(self, start, steps, alphas, r):
        leading = len(steps) == 1
        found = 10.0 + (draws[self.test] - asked["gain"] if leading else np.zeros(len(self.test)))
        return np.tile(found, (len(steps) * len(alphas), 1))

    monkeypatch.setattr(_auto_choice.HeldOut, "errors", errors)
    least = draws.mean() + draws.std() / np.sqrt(60)
    for asked["gain"], cut in ((least - 0.01, False), (least + 0.01, True)):
        model = JointReduction(1, blocks=blocks, n_groups=None).fit(X, y)
        assert (model.n_axes_["a"] < 59) == cut


# ---------------------------------------------------------------------- blocks that share one ridge


def two_blocks(n: int, seed: int = 0):
    """y is a sum of columns of two blocks that go together."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, 8)) * np.geomspace(0.1, 10, 8)
    B = rng.standard_normal((n, 6)) + 0.1 * A[:, 2:]
    y = A[:, 3] / 0.72 - B[:, 0] + B[:, 4] + 0.5 * rng.standard_normal(n)
    X, blocks = stack_blocks({"a": A, "b": B})
    return X, y, blocks


def test_joint_parts_are_the_coefficients_of_a_ridge_on_all_columns():
    X, y, blocks = two_blocks(90)
    X[:, 5] = 1.0  # constant columns have no part
    ridges = learn_ridges(Source.of(X, y, None, "test", tails=False), parse_blocks(blocks, X.shape[1]))
    penalty = len(X) * ridges.joint.ridge
    expected = Ridge(penalty).fit(standard(X), standard(y[:, None])).coef_.reshape(-1, 1)
    found = [
        ridge.axes.map / ridge.root @ part
        for ridge, part in zip(ridges.blocks, ridges.joint_parts(), strict=True)
    ]
    assert_allclose(np.vstack(found) * X.std(axis=0)[:, None], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("labels", [False, True])
def test_blocks_share_a_ridge_where_that_reads_numbers_better(labels, monkeypatch):
    X, y, blocks = two_blocks(1120)
    y = np.where(y > 0, "high", "low") if labels else y
    chosen = []

    def choose(*args):
        chosen.append(_auto_choice.choose_variant(*args))
        return chosen[-1]

    def quality():
        model = JointReduction(1, blocks=blocks, n_groups=None).fit(X[:120], y[:120])
        reader = LinearRegression().fit(model.transform(X[:120]), y[:120])
        return reader.score(model.transform(X[120:]), y[120:])

    monkeypatch.setattr(_auto, "choose_variant", choose)
    if labels:
        JointReduction(1, blocks=blocks, n_groups=None).fit(X[:120], y[:120])
        assert chosen[0].alpha is not None
        return
    shared = quality()
    assert chosen[0].alpha is None
    monkeypatch.setattr(_auto, "choose_variant", lambda *_: Variant())
    whole = RidgeCV().fit(standard(X)[:120], y[:120]).score(standard(X)[120:], y[120:])
    assert shared > whole - 0.01
    assert shared > quality() + 0.03


def test_one_block_and_narrow_blocks_keep_all_axes(table, monkeypatch):
    X, y, _ = table
    assert JointReduction(1, n_groups=None).fit(X, y).n_axes_ == {"x": 59}
    monkeypatch.setattr(_auto, "choose_variant", lambda *_: Variant(0, 0.0, leading=True))
    parts = {"wide": slice(0, 60), "narrow": slice(60, 119), "drop": "*"}
    model = JointReduction(1, blocks=parts, n_groups=None).fit(X, y)
    assert model.n_axes_ == {"wide": above_mean(X, {"wide": slice(0, 60)})["wide"], "narrow": 59}
    assert model.transform(X).shape == (60, 2)
    assert JointReduction(1, n_groups=None).fit(X, y).n_axes_ == {"x": 59}


def test_order_units_and_errors(table):
    X, y, blocks = table
    model = JointReduction(1, blocks=blocks).fit(X, y)
    assert model.n_axes_ == above_mean(X, blocks)
    rng = np.random.default_rng(0)
    order, unit = rng.permutation(60), 10.0 ** rng.integers(-3, 4, X.shape[1])
    other = JointReduction(1, blocks=blocks).fit((X * unit)[order], 5 * y[order] - 2)
    assert_allclose(np.abs(other.components_ * unit), np.abs(model.components_), rtol=1e-6, atol=1e-9)
    assert_allclose(other.components_error_ * unit, model.components_error_, rtol=1e-4, atol=1e-9)
    assert model.components_error_.max() < 1.0
    assert all(0 < e < 1 for e in model.expected_error_.values())


def test_weights_are_copies():
    X, y, blocks = factors(1, n=40)
    w = np.random.default_rng(0).integers(1, 3, 40)
    copies = np.repeat(np.arange(40), w)
    weighted = JointReduction(1, blocks=blocks, n_groups=None).fit(X, y, sample_weight=w.astype(float))
    copied = JointReduction(1, blocks=blocks, n_groups=None).fit(X[copies], y[copies])
    assert weighted.n_axes_ == copied.n_axes_
    assert max(weighted.n_axes_.values()) < 10
    assert_allclose(np.abs(weighted.components_), np.abs(copied.components_), rtol=1e-6, atol=1e-9)


def test_a_column_that_is_the_response_is_named(table, monkeypatch):
    X, y, blocks = table
    X = X.copy()
    X[:, 7] = y
    monkeypatch.setattr(_auto, "choose_variant", lambda *_: Variant(0, 0.0, leading=True))
    with pytest.warns(DeterminedResponseWarning, match="column 7 determines y"):
        model = JointReduction(1, blocks=blocks, n_groups=None).fit(X, y)
    assert max(model.n_axes_.values()) < 59


@pytest.mark.parametrize("kind", ["array", "frame", "CSR", "labels", "weights"])
def test_dask_finds_what_memory_finds(kind, table):
    """No more rows than a block has columns: the rows are gathered, and the same axes chosen."""
    da = pytest.importorskip("dask.array")
    X, y, blocks = table
    y = np.where(y > 0, "high", "low") if kind == "labels" else y
    w = np.where(np.arange(60) % 7 == 0, 0.0, 1.0) if kind == "weights" else None
    model = JointReduction(1, blocks=blocks, n_groups=8)
    here = model.fit(X, y, sample_weight=w)
    axes, found, errors = here.n_axes_, here.components_, here.components_error_
    lazy = da.from_array(X, chunks=(25, 250))
    if kind == "CSR":
        lazy = lazy.rechunk((25, -1)).map_blocks(sparse.csr_matrix)
    elif kind == "frame":
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        lazy = dd.from_pandas(pd.DataFrame(X, columns=[f"x{j}" for j in range(600)]), npartitions=3)
    there = model.fit(lazy, y, sample_weight=w)
    assert there.n_axes_ == axes
    if kind in ("array", "frame"):
        assert max(axes.values()) < 10
    assert_allclose(there.components_, found, rtol=1e-8, atol=1e-11)
    assert_allclose(there.components_error_, errors, rtol=1e-6, atol=1e-9)


def test_tall_dask_collections_stay_where_they_are():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    blocks = parse_blocks({"a": slice(0, 20), "b": slice(20, 30)}, 30)
    source = Source.of(da.from_array(X, chunks=(15, 30)), X[:, 0], None, "test", tails=False)
    assert gathered(source, blocks.widths) is source
    assert gathered(source, (60,)).X.shape == (60, 30)
    assert gathered(source, (59,)) is source
    few = replace(source, weights=(np.arange(60) < 20).astype(float))
    assert gathered(few, blocks.widths).X.shape == (20, 30)
    broken = X.copy()
    broken[40, 3] = np.nan
    source = replace(source, X=da.from_array(broken, chunks=(15, 30)))
    with pytest.raises(ValueError, match=r"in partition 2 of the Dask collection: Input.*NaN"):
        gathered(source, (60,))


@pytest.mark.parametrize("wide", [True, False])
def test_a_class_of_one_row_does_not_end_the_choice(wide):
    """The fold that holds a class's only row leaves a constant indicator to the others: it is no response there."""
    rng = np.random.default_rng(0)
    z = rng.choice([-1.0, 1.0], 40)
    X = z[:, None] + rng.standard_normal((40, 60 if wide else 36))
    y = np.where(z > 0, "a", "b").astype(object)
    y[7] = "rare"
    two = y != "rare"
    model = JointReduction(1, n_groups=None).fit(X, y)
    plain = JointReduction(1, n_groups=None).fit(X[two], y[two])
    assert abs(np.corrcoef(model.transform(X)[two].T, plain.transform(X)[two].T)[0, 1]) > 0.9
    X2, blocks = stack_blocks({"a": X, "b": rng.standard_normal(X.shape)})
    assert np.isfinite(JointReduction(1, blocks=blocks, n_groups=None).fit(X2, y).components_).all()
