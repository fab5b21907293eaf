"""Errors of directions under moments="auto": the group solve beside fits from rows, containers, and simulated truth."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

from colspace import JointReduction
from colspace._response import ResponseEncoder
from colspace.metrics import nsee
from colspace.reduction import _auto, _auto_cells, _auto_errors, _groups
from colspace.reduction._auto_choice import Variant
from colspace.reduction._auto_groups import choose_deal
from colspace.reduction._auto_kernel import KernelGradients
from colspace.reduction._auto_rows import RowSample
from colspace.reduction._auto_tiles import RowDeal
from colspace.reduction._gradient import fit_kernel
from colspace.reduction._source import Source

TWO = {"a": slice(0, 3), "b": slice(3, 6)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = (
        rng.exponential(size=(500, 6))
        @ (np.eye(6) + 0.3 * rng.standard_normal((6, 6)))
        * 10.0 ** np.arange(-3, 3)
    )
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = np.column_stack([Z[:, 0] * Z[:, 4] + 0.5 * Z[:, 1], Z[:, 3] ** 2 + Z[:, 2]])
    return X, Y + 0.5 * rng.standard_normal(Y.shape)


@pytest.fixture
def caught(monkeypatch):
    """What the last fit gave to the jackknife: sums, the solver, directions."""
    seen = {}
    original = _auto_errors.leave_out

    def catch(sums, solve, full, metrics, **options):
        seen.update(sums=sums, fit=solve.__self__, full=full, metrics=metrics)
        return original(sums, solve, full, metrics, **options)

    monkeypatch.setattr(_auto_errors, "leave_out", catch)
    return seen


def root_of(S, power):
    e, U = np.linalg.eigh(S)
    return (U * e**power) @ U.T


def by_hand(X, Y, rest, fit, sampled, columns):
    """The stack of some rows from the rows themselves, in symmetric whitened coordinates of their own."""
    ridges, n = fit.ridges, len(rest)
    V = ridges.response(Y)
    Z, mean = X[rest] - X[rest].mean(axis=0), X.mean(axis=0)
    D = Z.std(axis=0)
    Z = Z / D
    V0 = V[rest] - V[rest].mean(axis=0)
    # residuals of the ridge on all columns, of all rows: plus what leaving out rows changes
    error = ridges.joint.path.loo(X, V)[0][:, 0]

    def coefficients(rows):
        scale = X[rows].std(axis=0)
        A = (X[rows] - X[rows].mean(axis=0)) / scale
        v = V[rows] - V[rows].mean(axis=0)
        m = len(A)
        return np.linalg.solve(A.T @ A / m + ridges.joint.ridge * np.eye(6), A.T @ v / m) / scale[:, None]

    shift = coefficients(rest) - coefficients(np.arange(len(X)))
    roots = [
        root_of(Z[:, c].T @ Z[:, c] / n + ridge.ridge * np.eye(len(c)), -0.5)
        for c, ridge in zip(columns, ridges.blocks, strict=True)
    ]
    A = np.hstack([Z[:, c] @ root for c, root in zip(columns, roots, strict=True)])
    S = np.cov(A.T, bias=True)
    third = X - mean
    mapped = np.hstack([third[:, c] / D[c] @ root for c, root in zip(columns, roots, strict=True)])
    H = []
    for j in range(V.shape[1]):
        r = error[rest, j] - error[rest, j].mean()
        h = (A.T * r) @ A / n - (mapped.T * (third @ shift[:, j])) @ mapped / len(X)
        H.append(h)
    # the noise of the rest in coordinates of all rows, brought to those of the rest
    noise_rows = np.sum(error**2, axis=1)
    whole_roots = [
        root_of(np.corrcoef(X[:, c].T) + ridge.ridge * np.eye(len(c)), -0.5)
        for c, ridge in zip(columns, ridges.blocks, strict=True)
    ]
    whole = np.hstack(
        [third[:, c] / X[:, c].std(axis=0) @ root for c, root in zip(columns, whole_roots, strict=True)]
    )
    noise_rows = noise_rows * np.sum(whole**2, axis=1)
    noise = (mapped[rest].T * noise_rows[rest]) @ mapped[rest] / n**2
    both = fit.v_kernel + fit.v_moments
    # gradients in units of the columns
    kept = sampled > 0
    scores = third[fit.order] @ shift
    products = fit.kernel.products(kept, -(scores - scores.mean(axis=0)), [slice(0, 6)])[0].dense
    start, maps = 0, []
    for ridge, width in zip(ridges.blocks, ridges.widths, strict=True):
        maps.append(ridge.axes.map / np.sqrt(width))
    gradients = []
    for c, T, root in zip(columns, maps, roots, strict=True):
        s = slice(start, start + len(c))
        start = s.stop
        back = np.linalg.inv(root) @ (D[c][:, None] * T)
        gradients.append(back @ products[s, s] @ back.T)
    trace = sum(np.trace(g) for g in gradients)
    found, start = [], 0
    for b, (c, ridge, root) in enumerate(zip(columns, ridges.blocks, roots, strict=True)):
        s = slice(start, start + len(c))
        start = s.stop
        rho, U = fit.spoken[b]
        T = A[:, s].T @ V0 / n
        if fit.alpha is None:  # the block's part of the ridge on all columns
            T = np.linalg.solve(root, D[c][:, None] * coefficients(rest)[c])
        T = T @ U
        T = T / np.linalg.norm(T, axis=0)
        G = (T * rho) @ T.T + 2 * fit.v_kernel**2 / both * gradients[b] / trace
        second = sum(h[s] @ h[s].T for h in H) - noise[s, s]
        e, W = np.linalg.eigh(second)
        second = (W * np.maximum(e, 0)) @ W.T
        G += 2 * fit.v_moments**2 / both * second / np.trace(second)
        R = Z[:, c].T @ Z[:, c] / n
        G += fit.fill[b] * R / ridge.axes.values.max()
        found.append((root @ np.linalg.eigh(G)[1][:, ::-1][:, : fit.r]) / D[c][:, None])
    assert S.shape == (6, 6)
    return found


@pytest.mark.parametrize(("blocks", "alpha"), [(None, 0.0), (TWO, 0.0), (TWO, None)])
def test_the_group_solve_is_the_fit_on_the_other_rows(blocks, alpha, table, caught, monkeypatch):
    """At the same ridges, weights, label directions and kernel: from the sums and from the rows, to 1e-8."""
    monkeypatch.setattr(_auto, "choose_variant", lambda *_: Variant(0, alpha))
    X, Y = table
    columns = [np.arange(6)] if blocks is None else [np.arange(3), np.arange(3, 6)]
    model = JointReduction(2, blocks=blocks).fit(X, Y)
    fit, sums = caught["fit"], caught["sums"]
    assert min(model.parts_.values()) > 0
    assert fit.alpha == alpha
    places = np.hstack(
        [
            ridge.axes.coordinates(X) / np.sqrt(len(c))
            for ridge, c in zip(fit.ridges.blocks, columns, strict=True)
        ]
    )
    order = np.array([np.argmin(np.sum((places - row) ** 2, axis=1)) for row in fit.kernel.fit.rows])
    object.__setattr__(fit, "order", order)
    for k, part in list(sums.parts.items())[:3]:
        rest = np.sort(order[part.sampled == 0])
        total = sums.total - part
        assert len(rest) == total.count
        expected = by_hand(X, Y, rest, fit, total.sampled, columns)
        for L, M in zip(fit.solve(total), expected, strict=True):
            signs = np.sign(np.sum(L * M, axis=0))
            assert_allclose(L, M * signs, rtol=1e-8, atol=1e-8 * np.abs(L).max(), err_msg=str(k))
    for L, M in zip(fit.solve(sums.total), caught["full"], strict=True):
        assert_allclose(np.abs(L), np.abs(M), rtol=1e-6)


def test_wide_blocks_are_solved_without_their_matrices(monkeypatch):
    """The operators of wide blocks beside their matrices."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(900, 40))
    y = X[:, 0] + (X[:, 21] - 1) * (X[:, 22] - 1) + X[:, 1] * X[:, 23] + 0.3 * rng.standard_normal(900)
    model = JointReduction(2, blocks={"a": slice(0, 20), "b": slice(20, 40)})
    dense = model.fit(X, y).components_error_.copy()
    assert min(model.parts_.values()) > 0
    monkeypatch.setattr(_auto_errors, "_DENSE", 10)
    wide = model.fit(X, y).components_error_
    kept = dense > 0
    assert np.median(np.abs(wide[kept] / dense[kept] - 1.0)) < 0.05
    e, U = np.linalg.eigh((X[:60].T @ X[:60]) / 60)
    found = _auto_errors.krylov_vectors(lambda x: U @ (e[:, None] * (U.T @ x)), U[:, -2:] + 0.05)
    assert_allclose(np.abs(found), np.abs(U[:, ::-1][:, :2]), atol=0.02)


def test_errors_are_the_jackknife_of_the_group_solve(table, caught):
    X, Y = table
    model = JointReduction(2, n_groups=8).fit(X, Y)
    fit, sums = caught["fit"], caught["sums"]
    (L,), (metric,) = caught["full"], caught["metrics"]
    assert_allclose(L.T @ metric(L), np.eye(2), atol=1e-10)
    turned = []
    for part in sums.parts.values():
        M = fit.solve(sums.total - part)[0]
        U, _, Vt = np.linalg.svd(M.T @ metric(L))
        turned.append(M @ U @ Vt)
    D = np.stack(turned)
    weights = [(sums.total.count / part.count - 1) / 8 for part in sums.parts.values()]
    expected = np.sqrt(np.tensordot(weights, (D - D.mean(axis=0)) ** 2, 1))
    assert_allclose(model.loadings_error_["x"], expected, rtol=1e-8)
    assert model.n_groups_ == len(D) == 8


@pytest.fixture(scope="module")
def kernel():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 3))
    R = np.column_stack([np.sin(2 * A[:, 0]), A[:, 1] * A[:, 2]]) + 0.1 * rng.standard_normal((80, 2))
    w = rng.integers(1, 4, 80).astype(float)
    return A, R, w, fit_kernel(A, R, w, keep_inverse=True)


def test_coefficients_without_rows_are_those_of_a_fit_without_them(kernel):
    _, R, w, fit = kernel
    kept = np.arange(80) % 5 > 0
    shift = np.random.default_rng(1).standard_normal(R.shape)
    change, smooth = KernelGradients(fit, w).change(np.flatnonzero(~kept), shift)
    assert_allclose(smooth, fit.kernel @ change, rtol=1e-7, atol=1e-9)
    found = fit.coefficients + change
    system = fit.kernel[np.ix_(kept, kept)] + np.diag(fit.ridge / w[kept])
    assert_allclose(found[kept], np.linalg.solve(system, (R + shift)[kept]), rtol=1e-7)
    assert not found[~kept].any()


def test_gradients_without_rows(kernel):
    A, R, w, fit = kernel
    whole = KernelGradients(fit, w)
    none = np.zeros_like(R)

    def products(kept, shift, block=slice(0, 3)):
        (found,) = whole.products(kept, shift, [block])
        x = np.eye(block.stop - block.start)
        assert_allclose(found @ x, found.dense, rtol=1e-10)
        assert_allclose(found.diagonal, np.diag(found.dense), rtol=1e-10)
        scale = np.arange(1.0, len(x) + 1)
        assert_allclose(
            found.scaled(scale).times(3.0).dense, 3 * found.dense * np.outer(scale, scale), rtol=1e-10
        )
        return found.dense

    assert_allclose(products(np.ones(80, dtype=bool), none), fit.gradient_products(w), rtol=1e-10)
    half = np.arange(80) % 2 > 0  # many rows: exact
    alpha = fit.coefficients + whole.change(np.flatnonzero(~half), none)[0]
    rows, expected = A[half], np.zeros((3, 3))
    for j in range(2):
        for i, x in enumerate(rows):
            k = np.exp(-fit.gamma * np.sum((rows - x) ** 2, axis=1))
            g = 2 * fit.gamma * (alpha[half, j] * k) @ (rows - x)
            expected += w[half][i] / w[half].sum() * np.outer(g, g)
    assert_allclose(products(half, none), expected, rtol=1e-8)
    # few rows: the derivative along a change of the responses, by differences
    step = np.random.default_rng(2).standard_normal(R.shape)

    def derivative(change):
        numeric = np.zeros((3, 3))
        for sign in (1, -1):
            for a in (fit.coefficients + sign * 1e-4 * change).T:
                g = fit.gradient(a)
                numeric += sign * (g.T * (w / w.sum())) @ g / 2e-4
        return numeric

    everything = np.ones(80, dtype=bool)
    found = (products(everything, 1e-4 * step) - products(everything, -1e-4 * step)) / 2e-4
    assert_allclose(found, derivative(whole.change(np.arange(0), step)[0]), rtol=1e-6, atol=1e-9)
    # few rows gone: gradients of the others at the coefficients of all, and that derivative
    most = np.arange(80) % 7 > 0
    share = np.where(most, w, 0.0) / w[most].sum()
    expected = sum((g.T * share) @ g for g in fit.gradients)
    expected += derivative(whole.change(np.flatnonzero(~most), step)[0])
    assert_allclose(products(most, step), expected, rtol=1e-6, atol=1e-9)
    assert_allclose(products(most, step, slice(1, 3)), expected[1:, 1:], rtol=1e-6, atol=1e-9)


def test_containers_have_the_same_errors(table):
    X, Y = table
    model = JointReduction(2, blocks=TWO)
    expected = model.fit(X, Y).components_error_.copy()
    space = dict(model.expected_error_)
    assert model.errors_note_ == ""
    assert model.components_error_.shape == model.components_.shape
    assert {b: e.shape for b, e in model.loadings_error_.items()} == {"a": (3, 2), "b": (3, 2)}
    order = np.random.default_rng(0).permutation(len(X))
    for rows, y, weights in (
        (sparse.csr_matrix(X), Y, None),
        (da.from_array(X, chunks=(97, 6)), da.from_array(Y, chunks=(97, 2)), None),
        (X, Y, np.ones(len(X))),
        (X[order], Y[order], None),
        (iter([(X[:100], Y[:100]), (X[100:], Y[100:])]), None, None),
    ):
        model.fit(rows, y, sample_weight=weights)
        assert_allclose(model.components_error_, expected, rtol=1e-5)
        assert model.expected_error_ == pytest.approx(space, rel=1e-5)


def test_weights_and_labels_and_wide_tables(table):
    X, Y = table
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(X))
    labels = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], [-0.5, 0.5])]
    wide = np.random.default_rng(1).standard_normal((50, 90))
    for model, rows, y, w in (
        (JointReduction(2), X, Y, weights),
        (JointReduction(2, blocks=TWO), X, labels, None),
        (JointReduction(1), wide, wide[:, 0] * 3 + wide[:, 1], None),
        (JointReduction(1, blocks={"a": slice(0, 60), "b": slice(60, 90)}), wide, labels[:50], None),
    ):
        model.fit(rows, y, sample_weight=w)
        assert model.errors_note_ == ""
        assert np.isfinite(model.components_error_).all()
        assert model.components_error_.shape == model.components_.shape
        assert all(0 < e < 1 for e in model.expected_error_.values())


def test_rows_that_repeat_are_not_kept_together():
    """A table of few different rows: errors as those of the published moments, not of 32 clusters."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (4000, 4)).astype(float)
    y = X @ [1.0, 0.5, 0.0, 0.0] + rng.integers(0, 2, 4000)
    found = [
        JointReduction(1, moments=m, response="numbers").fit(X, y).expected_error_["x"]
        for m in ("auto", "linear")
    ]
    assert 0.5 < found[0] / found[1] < 2
    assert found[0] < 0.1
    deal = RowDeal(20, by_key=False)
    assert np.bincount(deal(X, np.zeros(4000, dtype=np.uint64)), minlength=20).min() > 120


@pytest.mark.parametrize("narrow", [0, 256])
def test_sums_of_cells_are_those_of_their_rows(narrow, monkeypatch):
    monkeypatch.setattr(_auto_cells, "_NARROW", narrow)
    rng = np.random.default_rng(0)
    A, R, V = (rng.standard_normal((90, k)) for k in (4, 2, 3))
    w, cell = rng.uniform(0.5, 2.0, 90) * (rng.random(90) > 0.2), rng.integers(6, size=90)
    cell[cell == 4] = 5
    blocks = (slice(0, 1), slice(1, 4))
    totals = _auto_cells.CellTotals(6, 4, 2, 3, weighted=True, blocks=blocks)
    for rows in (slice(0, 40), slice(40, 90)):
        totals.add_unsorted(A[rows], R[rows], V[rows], w[rows], cell[rows])
    found = totals.groups().parts
    assert sorted(found) == [0, 1, 2, 3, 5]
    for k, part in found.items():
        a, r, v, u = A[cell == k], R[cell == k], V[cell == k], w[cell == k]
        m = part.moments
        assert m.rows == np.count_nonzero(u)
        for mine, spec, arrays in (
            (m.count, "i->", (u,)),
            (m.x, "i,ij->j", (u, a)),
            (m.y, "i,ij->j", (u, r)),
            (m.yy, "i,ij,ik->jk", (u, r, r)),
            (m.xy, "i,ij,ik->jk", (u, a, r)),
            (m.xx[0, 0], "i,ij,ik->jk", (u, a, a)),
            (m.xyx[0, 0], "i,il,ij,ik->ljk", (u, r, a, a)),
            (part.cross, "i,ij,ik->jk", (u, a, v)),
            (part.response, "i,ij->j", (u, v)),
        ):
            assert_allclose(mine, np.einsum(spec, *arrays), atol=1e-12)
        for b, s in enumerate(blocks):
            noise = np.einsum("i,il,im,ij,ik->jk", u, r**2, a**2, a[:, s], a[:, s])
            assert_allclose(part.noise[b], noise, atol=1e-11)
    noise = totals.noise_sums()
    assert_allclose(noise[1:, 1:], sum(part.noise[1] for part in found.values()), atol=1e-11)
    assert not noise[0, 1:].any()


@pytest.mark.parametrize("n_groups", [20, 8])
def test_groups_do_not_change_directions(n_groups, table):
    """Groups within folds, which stand for them, and others."""
    X, Y = table
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(X))
    for blocks in (None, TWO):
        found, plain = (
            JointReduction(2, blocks=blocks, n_groups=k).fit(X, Y, sample_weight=weights)
            for k in (n_groups, None)
        )
        assert_allclose(found.components_, plain.components_, rtol=1e-10, atol=1e-12)
        assert found.parts_ == pytest.approx(plain.parts_, rel=1e-10)


def test_groups_lie_within_folds():
    keys = np.random.default_rng(0).integers(2**63, size=5000).astype(np.uint64)
    number = RowDeal(20, by_key=True).of_keys(keys)
    assert_allclose(number % 5, keys % np.uint64(5))
    assert np.bincount(number, minlength=20).min() > 180
    assert set(RowDeal(8, by_key=True).of_keys(keys)) == set(range(8))


@pytest.mark.parametrize(
    ("shared", "copies", "by_key"), [(0, 0, True), (0.1, 0, True), (0.3, 0, False), (0, 0.05, False)]
)
def test_keys_in_common_are_no_copies(shared, copies, by_key):
    """Different rows that happen to share a key may share a group; copies of one row may not."""
    n = 1000
    keys = np.arange(n, dtype=np.uint64)
    keys[: int(shared * n)] = 0
    weights = np.ones(n)
    counts = weights.copy()
    counts[: int(copies * n)] = 2
    sample = RowSample(np.sort(keys), np.zeros((n, 1)), np.zeros((n, 1)), weights, counts)
    deal, note = choose_deal(20, 1, Source(np.zeros((n, 1)), np.zeros((n, 1)), ResponseEncoder()), sample)
    assert (deal.by_key, deal.k, note) == (by_key, 20, "")


def test_a_column_that_one_row_has(table):
    X, Y = table
    rare = np.zeros((len(X), 1))
    rare[7] = 1.0
    model = JointReduction(1).fit(np.hstack([X, rare]), Y[:, 0])
    assert model.errors_note_ == ""
    assert np.isfinite(model.components_error_).all()


def test_memory_that_is_short_is_said(table, monkeypatch):
    X, Y = table
    monkeypatch.setattr(_groups, "GROUP_BYTES", 12_000)  # groups of 6 x 6 x 3 numbers and some more
    assert JointReduction(1).fit(X, Y[:, 0]).n_groups_ == 10
    monkeypatch.setattr(_groups, "GROUP_BYTES", 3_000)
    model = JointReduction(1).fit(X, Y[:, 0])
    assert "20 groups of rows would take" in model.errors_note_
    assert model.loadings_error_ is model.components_error_ is model.expected_error_ is None
    assert "n_groups=None" in JointReduction(1, n_groups=None).fit(X, Y[:, 0]).errors_note_


def test_intervals_cover_and_the_expected_error_is_the_true_one():
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 2)))[0]
    held, true, claimed = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 6))
        u = X @ U
        model = JointReduction(2).fit(X, u[:, 0] + 0.6 * u[:, 1] ** 2 + 0.5 * rng.standard_normal(300))
        L = model.loadings_["x"]
        A, _, Bt = np.linalg.svd(U.T @ L)
        t = stats.t.ppf(0.975, model.n_groups_ - 1)
        held.append(np.mean(np.abs(U @ A @ Bt - L) <= t * model.loadings_error_["x"]))
        true.append(nsee(U, L))
        claimed.append(model.expected_error_["x"])
    assert 0.9 < np.mean(held) < 0.985
    assert 0.8 < np.sqrt(np.mean(np.square(claimed)) / np.mean(np.square(true))) < 1.25


def test_without_signal_the_expected_error_is_large():
    rng = np.random.default_rng(0)
    found = [
        JointReduction(2).fit(rng.standard_normal((1000, 10)), rng.standard_normal(1000)).expected_error_["x"]
        for _ in range(3)
    ]
    assert np.mean(found) > 0.8
    rows = rng.standard_normal((800, 1)) * 3 + rng.standard_normal(
        (800, 6)
    )  # well-known directions that mean nothing
    noise = [JointReduction(1).fit(rows, rng.standard_normal(800)) for _ in range(12)]
    silent = [m.expected_error_["x"] for m in noise if not max(m.parts_.values()) > 0]
    assert silent
    assert_allclose(silent, np.sqrt(5 / 6))
