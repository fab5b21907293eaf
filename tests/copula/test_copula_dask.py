"""The copula on Dask: the same result as in memory, graphs of one size, and workers that die."""

import os
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.callbacks import Callback
from scipy import sparse
from sklearn.base import clone

from colspace import ConstantColumnWarning, CopulaImputer
from colspace.copula import _fit, _passes
from colspace.copula._step import step
from colspace.moments import _quantiles


def mixed(n=330, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 8)) + 0.5 * rng.standard_normal((n, 8))
    X = Z.copy()
    X[:, 2] = np.maximum(Z[:, 2], -0.3)
    X[:, 3:6] = np.digitize(Z[:, 3:6], [-1, 0, 1])
    X[:, 6] = Z[:, 6] > 0
    X[:, 7] = rng.poisson(np.exp(Z[:, 7] / 2) * 8)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.fixture(scope="module")
def table():
    return mixed()


def model(**options):
    return CopulaImputer(2, random_state=0, **options)


@pytest.fixture(scope="module")
def in_memory(table):
    """Fits of the table in memory, each once for all collections."""
    fits = {}

    def once(options, weights):
        key = str(options), weights is not None
        if key not in fits:
            fits[key] = model(**options).fit(table, sample_weight=weights)
        return fits[key]

    return once


def csr(rows):
    """Stored cells are the observed ones."""
    row, column = np.nonzero(~np.isnan(rows))
    return sparse.csr_matrix((rows[row, column], (row, column)), shape=rows.shape)


def collections(X, w):
    """Dask collections of the same rows, with weights in memory or as collections of their own."""
    array = da.from_array(X, chunks=(100, -1))
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(w=w)
    cuts = [0, 0, 120, 120, 250, len(X)]  # two partitions without rows
    parts = dd.from_map(lambda a, b: frame.iloc[a:b], cuts[:-1], cuts[1:], meta=frame.iloc[:0])
    return {
        "array": (array, w),
        "array by columns": (da.from_array(X, chunks=(100, 3)), da.from_array(w, chunks=45)),
        "frame": (parts.drop(columns="w"), parts["w"]),
        "frame and array": (parts.drop(columns="w"), w),
        "csr": (array.map_blocks(csr, dtype=float, meta=sparse.csr_matrix((0, 8))), w),
    }


@pytest.mark.parametrize("kind", ["array", "array by columns", "frame", "frame and array", "csr"])
@pytest.mark.parametrize("options", [{}, {"method": "paper"}], ids=["ep", "paper"])
def test_fit_equals_that_in_memory(table, in_memory, kind, options):
    w = np.random.default_rng(1).integers(0, 4, len(table)).astype(float)
    X, weights = collections(table, w)[kind]
    kept = table[w > 0]
    rows = pd.DataFrame(kept, columns=list("abcdefgh")) if hasattr(X, "columns") else kept
    for one, other in ((None, None), (w, weights)):
        local = in_memory(options, one)
        far = model(**options).fit(X, sample_weight=other)
        assert far.kinds_ == local.kinds_
        assert far.n_iter_ == local.n_iter_
        np.testing.assert_allclose(far.correlation_, local.correlation_, atol=1e-8)
        np.testing.assert_allclose(np.asarray(far.transform(rows)), local.transform(kept), atol=1e-6)


def test_the_client_never_holds_the_table(table, monkeypatch):
    """Only sums and summaries come back, and the source is read twice: for the marginals and for the blocks."""
    monkeypatch.setattr(da.Array, "compute", lambda *a, **k: pytest.fail("the table was loaded"))
    monkeypatch.setattr(da.Array, "__array__", lambda *a, **k: pytest.fail("the table was loaded"))
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    X = da.from_array(table, chunks=(100, -1)).map_blocks(read, dtype=float, meta=np.empty((0, 8)))
    with dask.config.set(scheduler="threads", num_workers=2):
        model().fit(X)
    assert sum(reads) == 2 * len(table)


def test_graphs_do_not_grow(table):
    """Every iteration is a graph of as many tasks as the one before, and a few for each partition."""
    sizes = []
    X = da.from_array(table, chunks=(40, -1))
    with dask.config.set(scheduler="sync"), Callback(start=lambda graph: sizes.append(len(graph))):
        found = model(tol=1e-5).fit(X)
    passes = sizes[-2 * found.n_iter_ :]
    assert found.n_iter_ > 10
    assert len(set(passes[::2])) == len(set(passes[1::2])) == 1
    assert max(passes) <= 8 * len(X.chunks[0])


def test_beyond_the_capacity_marginals_are_close(monkeypatch):
    """1,200 rows with 100 points: the stated error of shares is .04, and loadings are as near."""
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((1200, 2)) @ rng.standard_normal((2, 6)) + 0.6 * rng.standard_normal((1200, 6))
    X = np.column_stack([np.exp(Z[:, :4]), np.maximum(Z[:, 4:], -0.5)])
    X[rng.random(X.shape) < 0.2] = np.nan
    local = model().fit(X)
    monkeypatch.setattr(_quantiles, "CAPACITY", 100)
    far = model().fit(da.from_array(X, chunks=(200, -1)))
    assert far.kinds_ == local.kinds_ == ("continuous",) * 4 + ("lower",) * 2
    np.testing.assert_allclose(far.correlation_, local.correlation_, atol=0.01)
    off = (far.transform(X) - local.transform(X))[np.isnan(X)]
    assert np.abs(off).mean() < 0.02 * np.nanstd(X, axis=0).mean()


def test_more_levels_than_are_kept(monkeypatch):
    """Whole numbers are continuous then, and levels that were asked for are refused by name."""
    monkeypatch.setattr(_quantiles, "CAPACITY", 30)
    rng = np.random.default_rng(0)
    X = da.from_array(
        np.column_stack([rng.integers(0, 50, 400), *rng.standard_normal((3, 400))]).astype(float), chunks=100
    )
    assert CopulaImputer(1).fit(X).kinds_[0] == "continuous"
    for kinds in ({0: "count"}, {0: list(range(50))}):
        with pytest.raises(ValueError, match="column 0 has more than"):
            CopulaImputer(1, kinds=kinds).fit(X)


def test_errors_name_the_partition_and_the_column(table):
    X = table.copy()
    X[250, 1] = np.inf
    with pytest.raises(ValueError, match=r"partition 2 .*column 1 contains infinity"):
        model().fit(da.from_array(X, chunks=(100, -1)))
    w = np.ones(len(table))
    w[120] = -1
    with pytest.raises(ValueError, match=r"partition 1 .*weights must be at least 0"):
        model().fit(da.from_array(table, chunks=(100, -1)), sample_weight=da.from_array(w, chunks=100))
    with pytest.raises(ValueError, match=r"row 120 is -1"):
        model().fit(da.from_array(table, chunks=(100, -1)), sample_weight=w)
    with pytest.raises(ValueError, match="no rows"):
        model().fit(da.from_array(table, chunks=(100, -1)), sample_weight=da.zeros(len(table), chunks=100))


def test_constant_columns_are_left_out(table):
    X = np.column_stack([np.full(len(table), 3.0), table])
    with pytest.warns(ConstantColumnWarning):
        far = model().fit(da.from_array(X, chunks=(100, -1)))
    np.testing.assert_allclose(far.correlation_[1:, 1:], model().fit(table).correlation_, atol=1e-8)
    assert not far.loadings_[0].any()


# ---------------------------------------------------------------- processes


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize(("threads", "shares"), [((1, 1), [4, 4]), ((1, 3), [2, 6]), ((1,) * 9, None)])
def test_workers_have_shares_of_the_blocks_by_their_threads(monkeypatch, threads, shares):
    """Passes are done where the blocks are, so a worker with most of them would do most of the work."""

    class Cluster:
        def __init__(self):
            self.sent = []

        def nthreads(self):
            return {f"worker {i}": n for i, n in enumerate(threads)}

        def persist(self, parts, workers, allow_other_workers):
            assert allow_other_workers
            assert len(workers) == 1
            self.sent.append((workers[0], len(parts)))
            return parts

        def get(self):
            """What Dask takes for its scheduler."""

    cluster = Cluster()
    monkeypatch.setattr(dask.base, "get_scheduler", lambda: cluster.get)
    parts = [object() for _ in range(8)]
    assert _passes._spread(parts) == parts
    assert len({worker for worker, _ in cluster.sent}) == len(cluster.sent)
    found = [n for _, n in cluster.sent]
    assert found == shares if shares else max(found) == 1


def test_a_worker_that_is_killed_changes_nothing(table, client, monkeypatch):
    """SIGKILL in the middle of the fifth pass: its blocks, and the sites they had, are made again from the source."""

    def slowly(block, *args):
        time.sleep(0.03)
        return step(block, *args)

    def read(block):
        time.sleep(0.05)
        return block

    X = da.from_array(table, chunks=(60, -1)).map_blocks(read, dtype=float, meta=np.empty((0, 8)))
    monkeypatch.setattr(_fit, "step", slowly)
    undisturbed = model(max_iter=4, tol=1e-9)
    with pytest.warns(Warning, match="not converged"):
        undisturbed.fit(X)
    local = clone(undisturbed)
    with pytest.warns(Warning, match="not converged"):
        local.fit(table)
    np.testing.assert_allclose(undisturbed.correlation_, local.correlation_, atol=1e-8)

    workers = client.run(os.getpid)
    update, calls = _passes.DaskPasses.update, []

    def fatal(self, *args):
        calls.append(args)
        if len(calls) == 5:
            victim = next(iter(workers.values()))
            threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
        return update(self, *args)

    monkeypatch.setattr(_passes.DaskPasses, "update", fatal)
    disturbed = clone(undisturbed)
    with pytest.warns(Warning, match="not converged"):
        disturbed.fit(X)
    assert set(client.run(os.getpid).values()) != set(workers.values())
    np.testing.assert_allclose(disturbed.correlation_, undisturbed.correlation_, atol=1e-10)
    np.testing.assert_allclose(disturbed.transform(table), undisturbed.transform(table), atol=1e-8)
