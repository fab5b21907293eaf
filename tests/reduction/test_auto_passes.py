"""The passes of moments="auto": tiles, sums and selections against what is computed at once, and what they cost."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from colspace import JointReduction
from colspace._blocks import parse_blocks
from colspace.reduction import _tiles
from colspace.reduction._auto import SecondPlan, row_keys
from colspace.reduction._auto_linear import BlockPlan, first_pass, learn_ridges
from colspace.reduction._auto_parts import FormPlan, PartsPlan, Residuals, moments_part
from colspace.reduction._auto_rows import RowKeys, SamplePlan, largest_kept
from colspace.reduction._auto_tiles import FOLDS
from colspace.reduction._gradient import inverse_diagonal, median_distance, squared_distances, weighted_median
from colspace.reduction._source import Source

BLOCKS = {"a": slice(0, 4), "b": slice(4, 7)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((900, 7)) @ (np.eye(7) + 0.3 * rng.standard_normal((7, 7))) + np.arange(7)
    Y = np.column_stack([X[:, 0] + X[:, 1] * X[:, 5], X[:, 2] ** 2 - X[:, 6]]) + rng.standard_normal((900, 2))
    return X, Y, rng.integers(1, 4, 900).astype(float)


def parts_of(X, Y, weights=None, blocks=BLOCKS):
    source = Source.of(X, Y, None, "test", tails=False, weights=weights)
    blocks = parse_blocks(blocks, X.shape[1])
    return source, blocks, learn_ridges(source, blocks)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(_tiles, "tile_rows", lambda width: 128)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("blocks", [None, BLOCKS])
def test_leave_one_out_sums_of_tiles(table, blocks, kind, small_tiles):
    X, Y, w = table
    X = X.astype(np.float32).astype(float)
    source, parsed, _ = parts_of(X, Y, w, blocks)
    start = first_pass(source, parsed)
    found = start.plan(kind(X), Y, w)
    V = start.response(Y)
    assert len(found.paths) == (1 if blocks is None else 3)
    for path, sums in zip(start.paths, found.paths, strict=True):
        part = X[:, path.axes.columns] - path.axes.mean
        for k, ridge in enumerate(path.ridges):
            inverse = path.axes.map @ np.diag(1 / (path.axes.values + ridge)) @ path.axes.map.T
            keep = 1 - (1 + np.einsum("ij,jk,ik->i", part, inverse, part)) / w.sum()
            cross = part.T @ (V * w[:, None]) / w.sum()
            error = (V - part @ inverse @ cross) / keep[:, None]
            np.testing.assert_allclose(sums.error[k], w @ error**2, rtol=1e-8)
            np.testing.assert_allclose(
                sums.agreement[k], (V * w[:, None]).T @ (V - error), rtol=1e-7, atol=1e-7
            )


def test_the_second_pass_has_the_sums_and_the_sample(table, small_tiles):
    X, Y, w = table
    source, blocks, _ = parts_of(X, Y, w)
    start = first_pass(source, blocks)
    keys = row_keys(source, blocks, start, 0)
    found = SecondPlan(start.plan, SamplePlan(keys))(X, Y, w)
    np.testing.assert_allclose(found.loo.paths[-1].error, start.plan(X, Y, w).paths[-1].error, rtol=1e-12)
    order = np.argsort(keys(X, Y))
    np.testing.assert_array_equal(found.sample.keys, keys(X, Y)[order])
    np.testing.assert_array_equal(found.sample.X, X[order])
    np.testing.assert_array_equal(found.sample.weights, w[order])


@pytest.mark.parametrize("blocks", [None, BLOCKS])
def test_residuals_are_leave_one_out_errors(table, blocks, small_tiles):
    X, Y, _ = table
    _, _, ridges = parts_of(X, Y, None, blocks)
    A, R = Residuals(ridges.blocks, ridges.joint, ridges.response)(X, Y)
    np.testing.assert_allclose(R, ridges.joint.path.loo(X, ridges.response(Y))[0][:, 0], atol=1e-11)
    np.testing.assert_allclose(
        A, np.hstack([ridge.axes.coordinates(X) / ridge.root for ridge in ridges.blocks]), atol=1e-11
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_the_third_pass(table, weighted, small_tiles):
    X, Y, w = table
    weights = w if weighted else None
    w = w if weighted else np.ones(900)
    source, blocks, ridges = parts_of(X, Y, weights)
    keys = row_keys(source, blocks, ridges, 0)
    rows = Residuals(ridges.blocks, ridges.joint, ridges.response)
    found = PartsPlan(rows, keys, BlockPlan(ridges))(X, Y, weights)
    A, R = rows(X, Y)
    fold = keys(X, Y) % np.uint64(FOLDS)
    for k, part in enumerate(found.residuals.folds):
        a, r, v = A[fold == k], R[fold == k], w[fold == k]
        assert part.count == pytest.approx(v.sum())
        assert part.rows == len(a)
        np.testing.assert_allclose(part.xx[0, 0], (a.T * v) @ a, atol=1e-8)
        np.testing.assert_allclose(part.xyx[0, 0], np.einsum("n,nq,ni,nj->qij", v, r, a, a), atol=1e-8)
        np.testing.assert_allclose(part.xy, a.T @ (r * v[:, None]), atol=1e-9)
        np.testing.assert_allclose(part.x, v @ a, atol=1e-9)
        np.testing.assert_allclose(part.y, v @ r, atol=1e-9)
        np.testing.assert_allclose(part.yy, (r.T * v) @ r, atol=1e-9)
    noise = (A.T * (w * np.sum(R**2, axis=1) * np.sum(A**2, axis=1))) @ A
    for s in (slice(0, 4), slice(4, 7)):
        np.testing.assert_allclose(found.residuals.noise[s, s], noise[s, s], atol=1e-7)
    V = ridges.response(Y)
    F = [V - ridge.path.loo(X, V)[0][:, 0] for ridge in ridges.blocks]
    together = np.hstack([V, *F])
    np.testing.assert_allclose(found.blocks.gram, (together.T * w) @ together, atol=1e-8)
    np.testing.assert_allclose(found.blocks.toward[0], (A[:, :4].T * w) @ F[1], atol=1e-8)
    np.testing.assert_allclose(found.blocks.toward[1], (A[:, 4:].T * w) @ F[0], atol=1e-8)
    alone = BlockPlan(ridges)(X, Y, weights)
    np.testing.assert_allclose(alone.gram, found.blocks.gram, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_forms_explain_row_by_row(table, weighted, small_tiles):
    X, Y, w = table
    weights = w if weighted else None
    w = w if weighted else np.ones(900)
    source, blocks, ridges = parts_of(X, Y, weights)
    keys = row_keys(source, blocks, ridges, 0)
    _, explained = moments_part(source, ridges.blocks, ridges.joint, ridges.response, keys, 1)
    A, R = Residuals(ridges.blocks, ridges.joint, ridges.response)(X, Y)
    fold = keys(X, Y) % np.uint64(FOLDS)
    centred = R - w @ R / w.sum()
    f = np.zeros_like(R)
    for k in range(FOLDS):
        train = fold != k
        v = w[train] / w[train].sum()
        a, r = A[train] - v @ A[train], R[train] - v @ R[train]
        for j in range(2):
            values, U = np.linalg.eigh((a.T * (v * r[:, j])) @ a)
            for i in np.argsort(-np.abs(values))[:2]:
                mean = v @ (a @ U[:, i]) ** 2
                f[~train, j] += values[i] * ((A[~train] @ U[:, i]) ** 2 - mean)
    cross, square = w @ (centred * f), w @ f**2
    expected = np.sum(np.maximum(cross, 0) ** 2 / square) / w.sum()
    assert expected > 0.05
    assert explained == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("blocks", "passes"), [(None, 4), (BLOCKS, 4)])
def test_rows_are_read_four_times(table, blocks, passes, monkeypatch):
    X, Y, _ = table
    seen = []
    reduce = Source.reduce

    def counted(self, statistic, chunk=None):
        seen.append(self.X is X)
        return reduce(self, statistic, chunk)

    monkeypatch.setattr(Source, "reduce", counted)
    JointReduction(1, blocks=blocks, n_groups=None).fit(X, Y)
    assert sum(seen) == passes


def test_tiles_do_not_change_the_result(table, monkeypatch):
    X, Y, w = table
    whole = JointReduction(2, blocks=BLOCKS).fit(X, Y, sample_weight=w)
    monkeypatch.setattr(_tiles, "tile_rows", lambda width: 100)
    small = JointReduction(2, blocks=BLOCKS).fit(X, Y, sample_weight=w)
    np.testing.assert_allclose(small.transform(X), whole.transform(X), atol=1e-9)


def test_blocks_in_any_order_of_columns(table):
    """All columns in blocks that are not side by side: as if the table had been ordered."""
    X, Y, _ = table
    a, b = [0, 2, 6, 3], [5, 1, 4]
    mixed = JointReduction(2, blocks={"a": a, "b": b}).fit(X, Y)
    ordered = JointReduction(2, blocks=BLOCKS).fit(X[:, a + b], Y)
    assert mixed.parts_ == pytest.approx(ordered.parts_, rel=1e-8)
    np.testing.assert_allclose(mixed.transform(X), ordered.transform(X[:, a + b]), atol=1e-8)


@pytest.mark.parametrize("blocks", [None, {"a": slice(0, 12), "b": slice(12, 20)}])
def test_passes_take_no_new_memory(blocks):
    """What a second chunk asks for, some numbers per row of a tile, leaves no room for a copy of 4,096 rows of 160 bytes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 20))
    y = X[:, 0] + X[:, 1] * X[:, 15] + rng.standard_normal(40_000)
    source, parsed, ridges = parts_of(X, y, None, blocks)
    start = first_pass(source, parsed)
    keys = row_keys(source, parsed, start, 0)
    rows = Residuals(ridges.blocks, ridges.joint, ridges.response)
    forms = (
        tuple(np.ones((20, 80)) for _ in range(FOLDS)),  # so many that a buffer of their values would show
        *(tuple(np.ones(shape) for _ in range(FOLDS)) for shape in ((1, 80), 1)),
    )
    third = PartsPlan(rows, keys, None if blocks is None else BlockPlan(ridges))
    for plan in (start.plan, third, FormPlan(rows, keys, *forms)):
        for half in (slice(0, 20_000), slice(20_000, 40_000)):
            plan(X[half], y[half, None])  # buffers have their size
        tracemalloc.start()
        plan(X[20_000:], y[20_000:, None])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4096 * 175, type(plan).__name__


def test_the_smallest_different_keys():
    rng = np.random.default_rng(0)
    for n, high in ((10, 50), (500, 60), (500, 10**6), (3000, 40)):
        keys = rng.integers(0, high, n).astype(np.uint64)
        different = np.unique(keys)
        assert largest_kept(keys, 50) == different[min(50, len(different)) - 1]
    keys = RowKeys(np.arange(2), np.zeros(2), np.ones(2), None)
    assert SamplePlan(keys).chosen(np.zeros(0, dtype=np.uint64), np.zeros((0, 2)), np.zeros((0, 1)), None)


def test_medians_of_distances():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 7, 10, 31):
        D = squared_distances(rng.standard_normal((n, 2)))
        assert median_distance(D, np.ones(n)) == np.median(D)
    for values in (rng.standard_normal(120_000), rng.integers(0, 5, 120_000).astype(float), np.arange(9.0)):
        w = rng.integers(1, 5, len(values)).astype(float)
        assert weighted_median(values, w) == np.quantile(values, 0.5, weights=w, method="inverted_cdf")
    one_heavy = np.r_[np.ones(60_000), 1e6]
    assert weighted_median(np.r_[rng.random(60_000), 7.0], one_heavy) == 7.0


def test_the_diagonal_of_an_inverse():
    A = np.random.default_rng(0).standard_normal((9, 6))
    S = A.T @ A
    np.testing.assert_allclose(
        inverse_diagonal(np.linalg.inv(np.linalg.cholesky(S))), np.diag(np.linalg.inv(S))
    )
