"""JointReduction: solvers, several blocks, selection, rank, shrinkage and response."""

import tracemalloc
import warnings

import dask.array as da
import numpy as np
import pytest
from joint_tables import SAME, difference, mixed_bilinear, whitened
from scipy import sparse
from sklearn.covariance import ledoit_wolf_shrinkage

from colspace import JointReduction, stack_blocks
from colspace.datasets import make_additive, make_bilinear, make_even
from colspace.metrics import nsee


@pytest.fixture(scope="module")
def data():
    return mixed_bilinear()


# ---------------------------------------------------------------- solvers


@pytest.mark.parametrize("solver", ["randomized", "countsketch"])
@pytest.mark.parametrize("moments", ["joint", "all", "linear"])
@pytest.mark.parametrize("whiten", ["full", "diagonal", None])
def test_randomised_solvers_converge_to_the_exact_one(data, solver, moments, whiten):
    X, y, blocks = data
    r = 1 if moments == "linear" else 2
    for response in (y, np.column_stack([y, X[:, 2] * X[:, 9]])):
        exact = JointReduction(r, blocks=blocks, moments=moments, whiten=whiten).fit(X, response)
        sketched = JointReduction(
            r, blocks=blocks, moments=moments, whiten=whiten, solver=solver, n_power=40, random_state=0
        ).fit(X, response)
        assert sketched.solver_ == solver
        assert difference(exact.loadings_, sketched.loadings_) < 1e-6
        for b in blocks:
            np.testing.assert_allclose(exact.singular_values_[b], sketched.singular_values_[b], rtol=1e-6)


def test_randomised_is_reproducible_and_streams_dask(data):
    X, y, blocks = data
    options = {
        "blocks": blocks,
        "solver": "randomized",
        "whiten": "diagonal",
        "random_state": 7,
        "n_power": 0,
    }
    one, two = (JointReduction(2, **options).fit(X, y) for _ in range(2))
    assert difference(one.loadings_, two.loadings_) == 0.0
    lazy = JointReduction(2, **options).fit(da.from_array(X, chunks=(400, 12)), y)
    assert difference(one.loadings_, lazy.loadings_) < SAME


@pytest.mark.parametrize("solver", ["randomized", "countsketch"])
@pytest.mark.parametrize("whiten", ["full", "diagonal", None])
def test_sparse_sketches_are_centred_implicitly(solver, whiten):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((800, 16)) < 0.3, 5 + rng.standard_normal((800, 16)), 0.0)  # means far from zero
    Y = np.column_stack([X[:, 0] * X[:, 9] + X[:, 1], X[:, 2] ** 2])
    blocks = {"a": slice(0, 8), "b": slice(8, 16)}
    options = {"blocks": blocks, "solver": solver, "whiten": whiten, "random_state": 0, "n_power": 1}
    for moments in ("joint", "all"):
        for response in (Y[:, 0], Y):
            dense = JointReduction(2, moments=moments, **options).fit(X, response)
            csr = JointReduction(2, moments=moments, **options).fit(sparse.csr_array(X), response)
            assert difference(dense.loadings_, csr.loadings_) < SAME


def test_auto_solver_switches_by_width():
    rng = np.random.default_rng(0)
    S = sparse.random_array((6000, 5000), density=0.0005, rng=rng, format="csr")
    with pytest.warns(UserWarning, match="constant column"):
        model = JointReduction(2, whiten="diagonal", random_state=0).fit(S, rng.standard_normal(6000))
    assert model.solver_ == "randomized"
    assert JointReduction(2).fit(rng.standard_normal((50, 5)), rng.standard_normal(50)).solver_ == "exact"


def test_wide_sparse_table_is_never_dense():
    rng = np.random.default_rng(0)
    m, n = 20_000, 5_000
    S = sparse.random_array((m, 2 * n), density=0.001, rng=rng, format="csr")
    y = rng.standard_normal(m)
    blocks = {"a": slice(0, n), "b": slice(n, 2 * n)}
    tracemalloc.start()
    JointReduction(2, blocks=blocks, whiten="diagonal", random_state=0).fit(S, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6 < 8 * m * 2 * n / 20


# ---------------------------------------------------------------- three blocks


def three_blocks(link, m=6000, n=6, seed=0):
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((m, n)) for _ in range(3)]
    truth = {name: np.linalg.qr(rng.standard_normal((n, 1)))[0] for name in "abc"}
    u, v, w = (t @ truth[name] for t, name in zip(tables, "abc", strict=True))
    X, blocks = stack_blocks(dict(zip("abc", tables, strict=True)))
    return X, link(u, v, w).ravel() + rng.standard_normal(m), blocks, truth


def test_pairwise_proxies_and_tensor():
    X, y, blocks, truth = three_blocks(lambda u, v, w: u * v + v * w + u * w)
    assert nsee(truth, JointReduction(1, blocks=blocks, moments="joint").fit(X, y).loadings_) < 0.1
    X, y, blocks, truth = three_blocks(lambda u, v, w: u * v * w)
    assert nsee(truth, JointReduction(1, blocks=blocks, moments="tensor").fit(X, y).loadings_) < 0.15


def test_tensor_is_the_hosvd_of_the_whitened_proxy():
    X, y, blocks, _ = three_blocks(lambda u, v, w: u * v * w, m=500)
    parts = [whitened(X[:, s]) for s in blocks.values()]
    v = (y - y.mean()) / y.std()
    T = np.einsum("m,mi,mj,mk->ijk", v, *(z for z, _ in parts)) / len(y)
    model = JointReduction(2, blocks=blocks, moments="tensor").fit(X, y)
    for mode, (name, (_, C)) in enumerate(zip(blocks, parts, strict=True)):
        U = np.linalg.svd(np.moveaxis(T, mode, 0).reshape(6, -1))[0][:, :2]
        assert difference({name: model.loadings_[name]}, {name: np.linalg.inv(C.T) @ U}) < SAME
    two = {"a": slice(0, 6), "b": slice(6, 12), "drop": "*"}
    one = JointReduction(2, blocks=two, moments="tensor").fit(X, y)
    other = JointReduction(2, blocks=two, moments="joint").fit(X, y)
    assert difference(one.loadings_, other.loadings_) < SAME


# ---------------------------------------------------------------- selection, rank, shrinkage, response


@pytest.mark.parametrize("moments", ["joint", "all"])
def test_selection_keeps_exact_counts_and_finds_the_columns(moments):
    X, y, blocks, truth = make_bilinear(6000, (20, 15), 2, n_active=4, rng=0)
    model = JointReduction(
        2, blocks=blocks, whiten="diagonal", moments=moments, n_selected={"a": 4, "b": 5}
    ).fit(X, y)
    assert {b: len(s) for b, s in model.selected_.items()} == {"a": 4, "b": 5}
    for b, s in blocks.items():
        active = np.flatnonzero(truth[b].any(axis=1)) + s.start
        assert set(active) <= set(model.selected_[b].tolist())
        assert (np.flatnonzero(model.loadings_[b].any(axis=1)) + s.start).tolist() == model.selected_[
            b
        ].tolist()


def test_selection_as_printed():
    X, y, blocks, _ = make_bilinear(2000, 12, 2, n_active=4, rng=1)
    a, b = X[:, :12] - X[:, :12].mean(axis=0), X[:, 12:] - X[:, 12:].mean(axis=0)
    X0 = (a * (y - y.mean())[:, None]).T @ b / len(y)
    X1 = np.where(np.abs(X0) >= np.sort(np.abs(X0), axis=0)[-4], X0, 0)
    X2 = np.where(np.linalg.norm(X1, axis=0) >= np.sort(np.linalg.norm(X1, axis=0))[-5], X1, 0)
    norms = np.linalg.norm(X2, axis=1)
    X3 = np.where((norms >= np.sort(norms)[-4])[:, None], X2, 0)
    U, _, Vt = np.linalg.svd(X3)
    model = JointReduction(
        2, blocks=blocks, whiten=None, moments="joint", n_selected={"a": 4, "b": 5}, selection="paper"
    ).fit(X, y)
    assert difference(model.loadings_, {"a": U[:, :2], "b": Vt[:2].T}) < SAME


@pytest.mark.parametrize("rule", ["auto", "threshold"])
def test_rank_and_selection_are_found(rule):
    X, y, blocks, truth = make_bilinear(8000, 15, 3, n_active=6, rng=0)
    model = JointReduction(rule, blocks=blocks, whiten="diagonal", moments="joint", n_selected=rule).fit(X, y)
    assert model.n_components_ == 3
    for b, s in blocks.items():
        active = set(np.flatnonzero(truth[b].any(axis=1)) + s.start)
        assert len(active ^ set(model.selected_[b].tolist())) <= 1
    assert JointReduction(rule, blocks=blocks).fit(X, y).n_components_ == 3


def test_selection_uses_the_cross_validated_threshold(monkeypatch):
    X, y, blocks, _ = make_bilinear(1500, 30, 2, rng=0)
    model = JointReduction(2, blocks=blocks, whiten="diagonal", n_selected="auto")
    counts = []
    for factor in (0.6, 1.6):
        monkeypatch.setattr("colspace.reduction._joint_fit.shape_by_folds", lambda *_, f=factor: (2, f))
        counts.append(sum(len(s) for s in model.fit(X, y).selected_.values()))
    assert counts[0] > counts[1]


def test_rank_of_moments_agrees_between_array_and_dask(data):
    X, y, blocks = data
    one = JointReduction("moments", blocks=blocks).fit(X, y)
    two = JointReduction("moments", blocks=blocks).fit(da.from_array(X, chunks=(500, 12)), y)
    assert one.n_components_ == two.n_components_ == 2


@pytest.mark.parametrize("rule", ["moments", "threshold"])
def test_no_signal_warns_and_keeps_one(data, rule):
    X, y, blocks = data
    with pytest.warns(UserWarning, match="nothing stands out of the noise"):
        model = JointReduction(rule, blocks=blocks).fit(X, np.random.default_rng(0).permutation(y))
    assert model.n_components_ == 1


def test_shrinkage_lets_columns_outnumber_rows():
    X, y, blocks, _ = make_bilinear(60, 40, 1, rng=0)
    with pytest.raises(ValueError, match="more rows than columns are needed"):
        JointReduction(1, blocks={"x": slice(0, 80)}, shrinkage=0.0).fit(X, y)
    model = JointReduction(1, blocks=blocks, shrinkage="auto").fit(X, y)
    for b, s in blocks.items():
        Z = (X[:, s] - X[:, s].mean(axis=0)) / X[:, s].std(axis=0)
        assert model.shrinkage_[b] == pytest.approx(ledoit_wolf_shrinkage(Z, assume_centered=True))
    ridge = JointReduction(1, shrinkage=0.5).fit(X, y)
    assert np.isfinite(ridge.transform(X)).all()
    diagonal = JointReduction(1, blocks=blocks, whiten="diagonal").fit(X, y)
    limit = JointReduction(1, blocks=blocks, shrinkage=1.0).fit(X, y)
    assert difference(diagonal.loadings_, limit.loadings_) < SAME


def test_rank_response_rescues_heavy_tails():
    X, y, blocks, truth = make_bilinear(10_000, 8, 1, rng=0)
    y = y + np.random.default_rng(1).standard_cauchy(len(y))
    with pytest.warns(UserWarning, match=r"heavy-tailed.*response='rank'"):
        plain = JointReduction(1, blocks=blocks).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranked = JointReduction(1, blocks=blocks, response="rank").fit(X, y)
        bounded = JointReduction(1, blocks=blocks, response=np.arctan).fit(X, y)
    assert nsee(truth, plain.loadings_) > 0.5
    assert nsee(truth, ranked.loadings_) < 0.2
    assert nsee(truth, bounded.loadings_) < 0.2


@pytest.mark.parametrize(
    ("make", "r", "found", "missed"),
    [(make_bilinear, 2, 0.15, "hessian"), (make_even, 2, 0.2, "joint"), (make_additive, 1, 0.15, "joint")],
)
def test_all_moments_find_every_parity(make, r, found, missed):
    X, y, blocks, truth = make(16_000, 15, r, rng=0)
    assert nsee(truth, JointReduction(r, blocks=blocks).fit(X, y).loadings_) < found
    assert nsee(truth, JointReduction(r, blocks=blocks, moments=missed).fit(X, y).loadings_) > 0.5
