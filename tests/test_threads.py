"""Threads over chunks of rows, and one inside products of small matrices."""

import importlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import colspace
from colspace import _threads, reduce_rows
from colspace._threads import both, entity_work, in_threads, one_thread, small_products
from colspace.datasets import make_pairs
from colspace.reduction import _source


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


class Libraries:
    """Of four threads, as threadpoolctl tells and limits them: whoever set a limit may take it back, and nobody else."""

    def __init__(self):
        self.now = 4

    def select(self, user_api):
        assert user_api == "blas"
        return self

    def info(self):
        return [{"num_threads": self.now}, {"num_threads": 2}]

    def limit(self, limits):
        (before, self.now), owner = (self.now, limits), threading.get_ident()

        def restore():
            if threading.get_ident() == owner:
                self.now = before

        return SimpleNamespace(restore_original_limits=restore)


def test_callers_that_leave_in_any_order_give_back_what_there_was(monkeypatch):
    """The first to come may be the first to go; who comes meanwhile must not give back what it found."""
    libraries = Libraries()
    monkeypatch.setattr(_threads, "_libraries", lambda: libraries)
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    seen = []

    def first():
        with one_thread(), one_thread():
            first_in.set()
            second_in.wait(10)
            seen.append((libraries.now, one_thread.spare))
        first_out.set()

    def second():
        first_in.wait(10)
        with one_thread():
            seen.append((libraries.now, one_thread.spare))
            second_in.set()
            first_out.wait(10)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    assert seen == [(1, 1), (1, 4)]
    assert libraries.now == 4
    with one_thread():
        assert (libraries.now, one_thread.spare) == (1, 4)
    assert (libraries.now, one_thread.spare) == (4, 1)


def test_an_error_gives_back_what_there_was():
    with threadpool_limits(2, "blas"):
        with pytest.raises(RuntimeError), one_thread():
            raise RuntimeError
        assert threads() == {2}


def test_large_products_keep_their_threads():
    seen = small_products(lambda size: size)(lambda size: threads())
    with threadpool_limits(2, "blas"):
        assert seen(_threads._LARGE) == {2}
        assert seen(_threads._LARGE - 1) == {1}


def test_work_of_entities_is_that_of_the_larger_side():
    assert entity_work(None, np.zeros((10, 2)), np.zeros((20, 3))) == 8000
    assert entity_work(None, np.zeros((10, 2)), None) == 1000


def test_results_come_in_order_and_in_the_callers_context():
    def divided(i):
        return i, np.geterr()["divide"]

    with np.errstate(divide="call"), ThreadPoolExecutor(3) as pool:
        found = list(in_threads(pool, divided, iter(range(40))))
    assert found == [(i, (i, "call")) for i in range(40)]


def test_two_at_once_have_a_thread_each_where_products_have_left_one():
    def where():
        return threading.get_ident(), np.geterr()["divide"]

    here = threading.get_ident()
    with np.errstate(divide="call"):
        assert both(where, where) == ((here, "call"), (here, "call"))
        with threadpool_limits(2, "blas"), one_thread():
            (first, told), (second, also) = both(where, where)
            with pytest.raises(ZeroDivisionError):
                both(lambda: 1 / 0, where)
    assert first != second == here
    assert told == also == "call"


@pytest.mark.parametrize("rows", [1, 6, 7, 1000])
def test_threads_change_no_bit_of_a_sum(rows):
    X = np.exp(3 * np.random.default_rng(0).standard_normal((rows, 3)))
    one = reduce_rows(lambda part: part.T @ part, X, chunk=7)
    np.testing.assert_array_equal(reduce_rows(lambda part: part.T @ part, X, chunk=7, threads=3), one)


def test_an_error_of_a_chunk_is_that_of_the_sum():
    def refuse(part):
        if part[0] == 6:
            msg = "not this one"
            raise ValueError(msg)
        return part.sum()

    with pytest.raises(ValueError, match="not this one"):
        reduce_rows(refuse, np.arange(10.0), chunk=2, threads=2)


def tall():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9000, 6)) ** 3
    return X, X[:, 0] + X[:, 1] * X[:, 2]


REDUCERS = [
    colspace.JointReduction(random_state=0),
    colspace.JointReduction(moments="all"),
    colspace.SteinReduction(1),
    colspace.SlicedInverse(),
    colspace.SlicedAverage(),
    colspace.PrincipalHessian(),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", REDUCERS, ids=str)
def test_threads_change_no_bit_of_a_reduction(model, monkeypatch):
    """Chunks are small enough here for several; how many share them does not show."""
    monkeypatch.setattr("colspace.reduction._tiles._PASS", 1000)
    monkeypatch.setattr("colspace._rows.CHUNK_BYTES", 1 << 15)
    monkeypatch.setattr("colspace.reduction._source.CHUNK_BYTES", 1 << 15)
    X, y = tall()
    found, used = [], []
    whole = _source.reduce_rows
    monkeypatch.setattr(
        _source, "reduce_rows", lambda *a, **k: (used.append(k.get("threads")), whole(*a, **k))[1]
    )
    for count in (1, 3):
        with threadpool_limits(count, "blas"):
            found.append(model.fit(X, y).components_.copy())
            assert not used or used[-1] == count
    np.testing.assert_array_equal(found[0], found[1])


def test_sums_of_wide_tables_are_of_one_thread(monkeypatch):
    """As many threads as there are would hold as many sums of products of all columns."""
    X = np.zeros((2, 1000))
    source = _source.Source(X, np.zeros((2, 1)), colspace._response.ResponseEncoder())
    monkeypatch.setattr(one_thread, "owner", threading.get_ident())
    monkeypatch.setattr(one_thread, "before", 8)
    assert source._threads() == 1
    assert _source.Source(X[:, :20], source.y, source.encoder)._threads() == 8


def fits():
    X, y = tall()
    labels = np.where(y > 0, "a", "b")
    data = make_pairs(30, 20, 3, 2, rng=0)
    yield colspace.ReducedRank(1), (X, y)
    yield colspace.SteinReductionCV(1), (X[:200], y[:200])
    yield colspace.StructuredOLS(1, blocks={"a": [0, 1, 2], "b": [3, 4, 5]}), (X, y)
    yield colspace.SupervisedDictionaryClassifier(2, random_state=0), (X[:100], labels[:100])
    yield colspace.SupervisedDictionaryRegressor(2, random_state=0), (X[:100], y[:100])
    yield colspace.PairRegressor(2, random_state=0), (data.A, data.B, data.Y)
    yield colspace.KernelPairRegressor(), (data.A, data.B, data.Y)
    yield colspace.BilinearPairRegressor(2), (data.A, data.B, data.Y)
    for model in REDUCERS:
        yield model, (X, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "data"), list(fits()), ids=[str(model) for model, _ in fits()])
def test_small_fits_have_one_thread_in_products(model, data, monkeypatch):
    """Threads that wait for each other's small products take several times the work."""
    seen = []
    keep = type(model).__setattr__

    def noting(self, name, value):
        if name.endswith("_"):
            seen.append(threads())
        keep(self, name, value)

    monkeypatch.setattr(type(model), "__setattr__", noting)
    with threadpool_limits(2, "blas"):
        model.fit(*data)
        assert {1} in seen
        assert threads() == {2}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "room"),
    [
        (colspace.JointReduction(moments="all"), "_groups"),
        (colspace.SteinReduction(1, score_model="gaussian"), "_stein_groups"),
    ],
    ids=["joint", "stein"],
)
def test_chunks_of_a_stream_have_one_thread_in_products(model, room, monkeypatch):
    """Whoever makes the chunks meanwhile has the others."""
    module = importlib.import_module(f"colspace.reduction.{room}")
    seen, whole = [], module.reduce_groups
    monkeypatch.setattr(module, "reduce_groups", lambda *a, **k: (seen.append(threads()), whole(*a, **k))[1])
    X, y = tall()
    with threadpool_limits(2, "blas"):
        model.partial_fit(X[:5000], y[:5000])
        model.partial_fit(X[5000:], y[5000:])
        assert threads() == {2}
    assert seen == [{1}, {1}]
