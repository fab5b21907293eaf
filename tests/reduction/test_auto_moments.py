"""moments="auto": each part against brute force, and the whole on any table."""

from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge as RidgeRegression
from sklearn.linear_model import RidgeCV

from colspace import JointReduction
from colspace._blocks import parse_blocks
from colspace.datasets import make_additive, make_bilinear, make_even
from colspace.metrics import nsee
from colspace.reduction import _gradient
from colspace.reduction._auto import bends_more, fit_auto
from colspace.reduction._auto_linear import learn_ridges, linear_part
from colspace.reduction._auto_parts import Residuals, moments_part
from colspace.reduction._auto_rows import RowKeys, RowSample, SamplePlan, standard_norms
from colspace.reduction._auto_stack import stack
from colspace.reduction._gradient import fit_kernel, one_kernel, same_kernel, squared_distances, tune_kernel
from colspace.reduction._ridge import GRID, response_map
from colspace.reduction._source import Source
from colspace.reduction._span import row_span
from colspace.reduction._spool import spool


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = (
        rng.standard_normal((60, 5))
        @ (np.eye(5) + 0.4 * rng.standard_normal((5, 5)))
        * 10.0 ** np.arange(-2, 3)
    )
    y = X[:, 0] * 50 + (X[:, 1] * 5) ** 2 + rng.standard_normal(60)
    return X, np.column_stack([y, X[:, 4] / 100 + rng.standard_normal(60)])


def source_of(X, y, weights=None):
    return Source.of(X, y, None, "test", tails=False, weights=weights)


def by_leaving_out(X, V, ridge, weights):
    """Errors when one copy of a row is gone, each by a fit of its own on standardised columns."""
    D = np.sqrt(np.average((X - np.average(X, axis=0, weights=weights)) ** 2, axis=0, weights=weights))
    Z, n = X / D, weights.sum()
    errors = np.zeros_like(V)
    for i in range(len(X)):
        w = weights.astype(float).copy()
        w[i] -= 1
        # the penalty of all rows, as the leverages have it
        model = RidgeRegression(n * ridge, solver="cholesky").fit(Z, V, sample_weight=w)
        errors[i] = V[i] - model.predict(Z[i : i + 1])[0]
    return errors


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_errors_are_those_of_refits(data, weighted):
    X, Y = data
    weights = np.random.default_rng(0).integers(1, 4, 60) if weighted else None
    source = source_of(X, Y, weights)
    blocks = parse_blocks(None, 5)
    ridges = learn_ridges(source, blocks)
    w = np.ones(60) if weights is None else weights
    V = ridges.response(Y)
    path = ridges.blocks[0].path
    np.testing.assert_allclose(
        path.loo(X, V)[0][:, 0], by_leaving_out(X, V, path.ridges[0], w), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(w @ V, 0, atol=1e-9)
    np.testing.assert_allclose(np.average(V**2, axis=0, weights=w), 1)


def test_leave_one_out_errors_of_a_wide_table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 80))
    y = X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(30)
    span = row_span(source_of(X, y), parse_blocks(None, 80), whiten=False)
    joint = learn_ridges(span.source, span.blocks).joint
    V = ((y - y.mean()) / y.std())[:, None]
    assert joint.ridge < 1e-6  # nearly exact fits, of which nothing is held out but the leverages
    found = joint.path.loo(span.source.X, V)[0][:, 0]
    np.testing.assert_allclose(found, by_leaving_out(X, V, joint.ridge, np.ones(30)), rtol=1e-4, atol=1e-6)


def test_the_ridge_has_the_least_error_of_the_grid(data):
    X, Y = data
    ridges = learn_ridges(source_of(X, Y), parse_blocks(None, 5))
    V = ridges.response(Y)
    found = [np.mean(by_leaving_out(X, V, ridge, np.ones(60)) ** 2) for ridge in GRID]
    assert ridges.joint.ridge == pytest.approx(GRID[int(np.argmin(found))])
    assert ridges.joint.r2 == pytest.approx(1 - min(found), rel=1e-6)


def test_labels_become_white_indicators():
    labels = np.array(["a", "b", "c"])[np.random.default_rng(0).integers(0, 3, 90)]
    Y = (labels[:, None] == np.unique(labels)).astype(float)
    response = response_map(Y.mean(axis=0), np.cov(Y.T, bias=True), labels=True)
    V = response(Y)
    assert V.shape == (90, 2)
    np.testing.assert_allclose(V.T @ V / 90, np.eye(2), atol=1e-12)


def test_one_response_gives_the_direction_of_ridge(data):
    X, Y = data
    y = Y[:, 0]
    ridges = learn_ridges(source_of(X, y), parse_blocks(None, 5))
    ridge = ridges.blocks[0]
    G = linear_part(ridge.whitened_cross, ridge.agreement)
    values, U = np.linalg.eigh(G)
    assert values[-1] == pytest.approx(ridge.agreement[0, 0])
    np.testing.assert_allclose(values[:-1], 0, atol=1e-12)
    direction = ridge.axes.map @ (U[:, -1] / ridge.root)
    D = X.std(axis=0)
    known = RidgeRegression(60 * ridge.ridge, solver="cholesky").fit(X / D, y).coef_ / D
    assert abs(direction @ known) == pytest.approx(
        np.linalg.norm(direction) * np.linalg.norm(known), rel=1e-9
    )


def test_kernel_errors_are_those_of_refits(monkeypatch):
    rng = np.random.default_rng(0)
    A, R = rng.standard_normal((25, 3)), rng.standard_normal((25, 2))
    w = rng.integers(1, 4, 25).astype(float)
    fit = fit_kernel(A, R, w)
    K, n = np.exp(-fit.gamma * squared_distances(A)), w.sum()
    total = 0.0
    for i in range(25):
        v = w.copy()
        v[i] -= 1
        keep = v > 0
        alpha = np.linalg.solve(K[np.ix_(keep, keep)] + fit.ridge * np.diag(1 / v[keep]), R[keep])
        total += w[i] * np.sum((R[i] - K[i, keep] @ alpha) ** 2)
    assert fit.error == pytest.approx(total / (2 * n), rel=1e-8)
    factor, share = tune_kernel(squared_distances(A), R, w)
    repeated = np.repeat(np.arange(25), w.astype(int))
    again = tune_kernel(squared_distances(A)[np.ix_(repeated, repeated)], R[repeated], np.ones(len(repeated)))
    assert (factor, share) == again


def test_gradients_are_differences():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((30, 2))
    R = (A[:, :1] ** 2 - 1) + 0.1 * rng.standard_normal((30, 1))
    fit = fit_kernel(A, R, np.ones(30))

    def value(x):
        return np.exp(-fit.gamma * np.sum((fit.rows - x) ** 2, axis=1)) @ fit.coefficients[:, 0]

    step = 1e-6
    G = np.array([[(value(a + step * e) - value(a - step * e)) / (2 * step) for e in np.eye(2)] for a in A])
    np.testing.assert_allclose(fit.gradient_products(np.ones(30)), G.T @ G / 30, rtol=1e-6, atol=1e-9)


def test_second_moments_leave_out_products_of_a_row_with_itself():
    """sum_c H_c H_c' without its diagonal terms, by the double sum over different rows."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((90, 3))
    y = X[:, 0] ** 2 + 0.3 * rng.standard_normal(90)
    source, blocks = source_of(X, y), parse_blocks(None, 3)
    ridges = learn_ridges(source, blocks)
    keys = RowKeys(np.arange(3), ridges.mean, 1 / ridges.scale, ridges.response)
    (G,), explained = moments_part(source, ridges.blocks, ridges.joint, ridges.response, keys, 1)
    A, R = Residuals(ridges.blocks, ridges.joint, ridges.response)(X, y[:, None])
    r = R[:, 0]
    H = (A.T * (r - r.mean())) @ A / 90 - 0.0
    noise = sum(r[i] ** 2 * (A[i] @ A[i]) * np.outer(A[i], A[i]) for i in range(90)) / 90**2
    centred = A - A.mean(axis=0)
    H = (centred.T * (r - r.mean())) @ centred / 90
    values, U = np.linalg.eigh(H @ H.T - noise)
    expected = (U * np.maximum(values, 0)) @ U.T
    np.testing.assert_allclose(G, expected / np.trace(expected), atol=1e-9)
    assert 0.3 < explained < 1.0


def test_forms_that_point_the_wrong_way_explain_nothing():
    """Of noise, forms of the other folds and the residual of a fold are as often against each other as along."""
    rng = np.random.default_rng(0)
    found = [
        JointReduction(1, n_groups=None)
        .fit(rng.standard_normal((80, 3)), rng.standard_normal(80))
        .parts_["moments"]
        for _ in range(40)
    ]
    assert 15 <= found.count(0.0) <= 30  # of 40, and 10 if both ways counted


def test_the_stack_by_its_formula():
    L, K, H = np.diag([1.0, 0, 0]), np.diag([0, 1.0, 0]), np.diag([0, 0, 1.0])
    G = stack(L, K, 0.3, H, 0.1, np.array([4.0, 2.0, 1.0]))
    expected = np.array([1.0, 2 * 0.09 / 0.4, 2 * 0.01 / 0.4])
    np.testing.assert_allclose(np.diag(G), expected + 0.01 * np.array([1, 0.5, 0.25]))
    np.testing.assert_allclose(
        np.diag(stack(0 * L, None, 0.0, None, 0.0, np.array([4.0, 2.0, 1.0]))),
        0.01 * np.array([1, 0.5, 0.25]),
    )


# ---------------------------------------------------------------- rows by what they hold


def test_keys_follow_the_content_of_rows(data):
    X, Y = data
    ridges = learn_ridges(source_of(X, Y), parse_blocks(None, 5))
    keys = RowKeys(np.arange(5), ridges.mean, 1 / ridges.scale, ridges.response)
    order = np.random.default_rng(0).permutation(60)
    np.testing.assert_array_equal(keys(X[order], Y[order]), keys(X, Y)[order])
    np.testing.assert_array_equal(keys(sparse.csr_array(X), Y), keys(X, Y))
    assert len(np.unique(keys(X, Y))) == 60
    assert len(np.unique(keys(X, Y) % np.uint64(5))) == 5
    np.testing.assert_allclose(standard_norms(X, ridges.mean, 1 / ridges.scale).mean(), 5.0)


def test_samples_merge_and_count_copies(data, monkeypatch):
    X, Y = data
    monkeypatch.setattr("colspace.reduction._auto_rows.KERNEL_ROWS", 20)
    ridges = learn_ridges(source_of(X, Y), parse_blocks(None, 5))
    plan = SamplePlan(RowKeys(np.arange(5), ridges.mean, 1 / ridges.scale, ridges.response))
    whole = plan(X, Y)
    assert len(whole.keys) == 20
    parts = plan(X[40:], Y[40:]) + (plan(X[:10], Y[:10]) + plan(X[10:40], Y[10:40]))
    np.testing.assert_array_equal(whole.X, parts.X)
    twice = plan(np.vstack([X, X[:30]]), np.vstack([Y, Y[:30]]))
    np.testing.assert_array_equal(twice.X, whole.X)
    copies = [(X[:30] == row).all(axis=1).any() for row in whole.X]
    np.testing.assert_array_equal(twice.weights, 1 + np.array(copies))
    empty = plan(X[:0], Y[:0])
    np.testing.assert_array_equal((empty + whole).X, whole.X)
    assert isinstance(empty, RowSample)


def test_chunks_are_spooled():
    rng = np.random.default_rng(0)
    chunks = [(rng.standard_normal((n, 3)), rng.standard_normal(n)) for n in (4, 1, 6)]
    X, y, w = spool(iter(chunks), lambda X, first: X)
    np.testing.assert_array_equal(X, np.vstack([c[0] for c in chunks]))
    np.testing.assert_array_equal(y, np.concatenate([c[1] for c in chunks]))
    assert w is None
    thin, _, w = spool(
        iter([(sparse.csr_array(a), b, np.full(len(b), 2.0)) for a, b in chunks]), lambda X, first: X
    )
    assert sparse.issparse(thin)
    np.testing.assert_array_equal(w, np.full(11, 2.0))
    with pytest.raises(TypeError, match="some chunks are sparse"):
        spool(iter([chunks[0], (sparse.csr_array(chunks[1][0]), chunks[1][1])]), lambda X, first: X)
    with pytest.raises(ValueError, match=r"y has 3 rows, but X has 4 rows in chunk 0"):
        spool(iter([(chunks[0][0], chunks[0][1][:3])]), lambda X, first: X)


# ---------------------------------------------------------------- the whole


@pytest.fixture(scope="module")
def mixed():
    """Skewed columns in odd units; y linear in one, curved in another."""
    rng = np.random.default_rng(3)
    X = np.exp(rng.standard_normal((1800, 8))) * 10.0 ** rng.uniform(-3, 3, 8)
    Z = np.log(X / X.mean(axis=0))
    return X, 2 * Z[:, 0] + (Z[:, 1] + 0.5) ** 2 + 0.3 * rng.standard_normal(1800)


BLOCKS = {"a": slice(0, 4), "b": slice(4, 8)}


@pytest.mark.parametrize("blocks", [None, BLOCKS])
def test_one_result_from_every_kind_of_input(mixed, blocks):
    X, y = mixed
    whole = JointReduction(2, blocks=blocks).fit(X, y)
    order = np.random.default_rng(0).permutation(1800)
    weights = np.random.default_rng(1).integers(0, 3, 1800)
    chunks = ((X[i : i + 500], y[i : i + 500]) for i in range(0, 1800, 500))
    lazy = da.from_array(X, chunks=(700, 8))
    others = {
        "dask": JointReduction(2, blocks=blocks).fit(lazy, y),
        "csr": JointReduction(2, blocks=blocks).fit(sparse.csr_array(X), y),
        "chunks": JointReduction(2, blocks=blocks).fit(chunks),
        "order": JointReduction(2, blocks=blocks).fit(X[order], y[order]),
        "units": JointReduction(2, blocks=blocks).fit(X * 10.0 ** np.arange(8), 1e5 * y),
    }
    for name, other in others.items():
        table = X * 10.0 ** np.arange(8) if name == "units" else X
        np.testing.assert_allclose(other.transform(table), whole.transform(X), atol=1e-7, err_msg=name)
        assert other.parts_ == pytest.approx(whole.parts_, abs=1e-9)
    one = JointReduction(2, blocks=blocks).fit(X, y, sample_weight=weights)
    two = JointReduction(2, blocks=blocks).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(one.transform(X), two.transform(X), atol=1e-8)


def test_parts_say_what_speaks():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 6))
    noise = 0.5 * rng.standard_normal(1000)
    linear = JointReduction(1).fit(X, X[:, 0] + noise)
    assert linear.parts_["linear"] == pytest.approx(0.8, abs=0.05)
    assert linear.parts_["gradients"] + linear.parts_["moments"] < 0.02
    curved = JointReduction(1).fit(X, X[:, 0] ** 2 + noise)
    assert curved.parts_["linear"] < 0.02
    assert curved.parts_["moments"] > 0.5
    assert curved.parts_["gradients"] > 0.5
    assert nsee(np.eye(6)[:, 0], curved.components_.T) < 0.1
    nothing = JointReduction(1).fit(X, rng.standard_normal(1000))
    assert max(nothing.parts_.values()) < 0.03
    assert set(linear.ridge_) == {"x"}


def test_parts_of_copies_of_a_response_are_those_of_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 6))
    y = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.standard_normal(600)
    one, two = (JointReduction(2, n_groups=None).fit(X, Y).parts_ for Y in (y, np.column_stack([y, y])))
    assert min(one.values()) > 0.2
    assert two["linear"] == pytest.approx(one["linear"], rel=1e-9)
    assert two["gradients"] == pytest.approx(one["gradients"], rel=1e-9)
    assert two["moments"] == pytest.approx(one["moments"], rel=0.05)  # its folds see the rows of y


@pytest.mark.filterwarnings("ignore::colspace.HeavyTailWarning")
def test_third_moments_of_skewed_columns_do_not_pass_for_curvature():
    rng = np.random.default_rng(1)
    X = rng.exponential(size=(2000, 6))
    y = X[:, 0] + 0.5 * (X[:, 1] - 1) ** 2 + 0.3 * rng.standard_normal(2000)
    truth = np.eye(6)[:, :2]
    auto, published = (
        nsee(truth, JointReduction(2, moments=m).fit(X, y).components_.T) for m in ("auto", "all")
    )
    assert auto < 0.15
    assert auto < 0.7 * published


@pytest.mark.parametrize(
    ("make", "r", "most"), [(make_bilinear, 3, 1.03), (make_even, 3, 1.03), (make_additive, 1, 0.95)]
)
def test_published_laws_lose_nothing(make, r, most):
    errors = np.zeros((3, 2))
    for seed in range(3):
        X, y, blocks, truth = make(3000, 20, r, rng=seed)
        for k, moments in enumerate(("auto", "all")):
            errors[seed, k] = nsee(
                truth, JointReduction(r, blocks=blocks, moments=moments).fit(X, y).loadings_
            )
    assert errors[:, 0].mean() < most * errors[:, 1].mean()


def test_blocks_share_the_directions_of_the_response():
    """Two blocks that know the same classes: one direction each, and together they tell all three apart."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 300)
    means = np.array([[1, 0], [-0.5, 0.87], [-0.5, -0.87]]) * 2
    tables = [means[codes] @ rng.standard_normal((2, 10)) + rng.standard_normal((300, 10)) for _ in range(2)]
    model = JointReduction(1, blocks={"a": slice(0, 10), "b": slice(10, 20)}).fit(
        np.hstack(tables), codes.astype(str)
    )
    Z = model.transform(np.hstack(tables))
    centres = np.array([Z[codes == k].mean(axis=0) for k in range(3)])
    assert np.linalg.matrix_rank(centres - centres.mean(axis=0), tol=0.3) == 2


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((140, 2))
    X = scores @ rng.standard_normal((2, 400)) + rng.standard_normal((140, 400))
    y = np.where(scores[:, 0] > 0, "yes", "no")
    model = JointReduction(2, blocks={"a": slice(0, 200), "b": slice(200, 400)}).fit(X[:60], y[:60])
    Z = model.transform(X[60:])[:, 0]
    centre = model.transform(X[:60])[:, 0]
    cut = (centre[y[:60] == "yes"].mean() + centre[y[:60] == "no"].mean()) / 2
    side = centre[y[:60] == "yes"].mean() > cut
    assert np.mean(((cut < Z) == side) == (y[60:] == "yes")) > 0.85


@pytest.mark.parametrize(
    "options",
    [{"shrinkage": 0.1}, {"solver": "exact"}, {"whiten": "diagonal"}, {"n_components": "threshold"}],
)
def test_options_of_published_moments_ask_for_them(options, mixed):
    X, y = mixed
    model = JointReduction(**options).fit(X, y)
    assert not hasattr(model, "parts_")
    published = JointReduction(**{"moments": "all", **options}).fit(X, y)
    np.testing.assert_array_equal(model.components_, published.components_)


def test_partial_fit_says_what_it_uses(mixed):
    X, y = mixed
    with pytest.warns(UserWarning, match="sees rows once and uses the published moments"):
        model = JointReduction(2).partial_fit(X, y)
    np.testing.assert_allclose(
        model.components_, JointReduction(2, moments="all").fit(X, y).components_, atol=1e-9
    )


def test_fit_is_a_function_of_its_own(data):
    X, Y = data
    solution = fit_auto(source_of(X, Y[:, 0]), parse_blocks(None, 5), 2)
    model = JointReduction(2).fit(X, Y[:, 0])
    np.testing.assert_allclose(np.abs(solution.loadings[0].T), np.abs(model.components_))
    assert model.ridge_ == {"x": solution.ridges[0]}


def test_blocks_that_know_the_same_do_not_say_the_same():
    """One direction each of two that both blocks see alike: the second block leaves the first's to it."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, 600)
    means = np.array([[1, 0], [-0.5, 0.7], [-0.5, -0.7]]) * 2
    L = rng.standard_normal((2, 10))
    X = np.hstack([means[codes] @ L + rng.standard_normal((600, 10)) for _ in range(2)])
    Z = JointReduction(1, blocks={"a": slice(0, 10), "b": slice(10, 20)}).fit_transform(X, codes.astype(str))
    assert abs(np.corrcoef(Z.T)[0, 1]) < 0.5


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_blocks_in_another_order_than_the_columns(form):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 6)) * 10.0 ** np.arange(-3, 3) + 5
    y = 1e3 * X[:, 0] + X[:, 4] / 3 + (X[:, 2] - 5) ** 2
    model = JointReduction(1, blocks={"a": [0, 1, 2], "b": [3, 4, 5]}, n_groups=None).fit(form(X), y)
    turned = JointReduction(1, blocks={"a": [3, 4, 5], "b": [0, 1, 2]}, n_groups=None).fit(
        form(X[:, [3, 4, 5, 0, 1, 2]]), y
    )
    assert turned.parts_ == pytest.approx(model.parts_)
    for name in "ab":
        np.testing.assert_allclose(turned.loadings_[name], model.loadings_[name], rtol=1e-6)


def test_fits_of_other_numbers_of_directions_share_the_kernel_regression(monkeypatch):
    X, y, _, _ = make_bilinear(300, 3, 1, rng=0)
    apart = [JointReduction(h, n_groups=None).fit(X, y) for h in (1, 2)]
    fits = []
    monkeypatch.setattr(_gradient, "fit_kernel", lambda *a, **k: fits.append(k) or fit_kernel(*a, **k))
    with one_kernel():
        together = [JointReduction(h, n_groups=None).fit(X, y) for h in (1, 2)]
    assert len(fits) == 1
    for one, other in zip(apart, together, strict=True):
        assert np.array_equal(one.components_, other.components_)


def test_another_kernel_regression_is_fitted_anew():
    rng = np.random.default_rng(0)
    A, R, w = rng.standard_normal((30, 3)), rng.standard_normal((30, 1)), np.ones(30)
    with one_kernel():
        first = same_kernel(A, R, w)
        assert same_kernel(A.copy(), R.copy(), w.copy()) is first
        changed = [(A + 1e-9, R, w), (A, R + 1e-9, w), (A, R, 2 * w), (A[1:], R[1:], w[1:])]
        for given in changed:
            assert same_kernel(*given) is not same_kernel(A, R, w)
        assert same_kernel(A, R, w).inverse is None
        assert same_kernel(A, R, w, keep_inverse=True) is not same_kernel(A, R, w)
    assert same_kernel(A, R, w) is not same_kernel(A, R, w)


def test_columns_keep_their_ridge_where_little_is_linear_and_nothing_bends():
    """Alike columns of a common factor that says little of the labels, beside columns that say nothing."""
    ours, plain = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        factor = rng.standard_normal(2300)
        X = np.column_stack(
            [factor[:, None] + 0.7 * rng.standard_normal((2300, 6)), rng.standard_normal((2300, 20))]
        )
        y = 0.35 * factor + rng.standard_normal(2300)
        model = JointReduction(1, n_groups=None).fit(X[:300], y[:300])
        ridge = RidgeCV(np.logspace(0, 5, 16)).fit(X[:300], y[:300])
        ours.append(abs(np.corrcoef(model.transform(X[300:])[:, 0], factor[300:])[0, 1]))
        plain.append(abs(np.corrcoef(ridge.predict(X[300:]), factor[300:])[0, 1]))
        assert model.parts_["linear"] < 0.15
    assert np.mean(ours) > np.mean(plain) - 0.05


def test_columns_are_whitened_where_more_bends_than_is_linear():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 6)) @ (np.eye(6) + 0.5)
    y = X[:, 0] ** 2 + 0.1 * X[:, 1] + 0.3 * rng.standard_normal(600)
    model = JointReduction(1).fit(X, y - X @ np.linalg.lstsq(X, y, rcond=None)[0])
    assert model.ridge_["x"] < 1e-5


def test_what_bends_counts_above_what_is_linear_and_chance():
    def bends(linear, gradients, moments):
        parts = {"linear": linear, "gradients": gradients, "moments": moments}
        return bends_more(SimpleNamespace(parts=parts), 100.0)

    assert not bends(0.0, 0.03, 0.0)  # chance reaches 4 / 100
    assert bends(0.0, 0.05, 0.0)
    assert bends(0.0, 0.0, 0.05)
    assert not bends(0.2, 0.1, 0.19)
    assert bends(0.2, 0.1, 0.21)
