"""Folds and methods of a comparison, shared among threads."""

import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context, get_config
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from colspace import compare_reductions
from colspace.quality import _compare, default_reducers
from colspace.quality._table import _units

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6)) * [1, 10, 0.1, 1, 1, 1] + 5
Y = (X[:, 0] - 5) + (X[:, 1] - 5) / 20 + 0.5 * RNG.standard_normal(120)
READER = {"ridge": make_pipeline(StandardScaler(), RidgeCV())}


@pytest.mark.parametrize("y", [Y, np.where(Y > 0, "high", "low")], ids=["numbers", "classes"])
def test_folds_in_threads_are_those_of_one(y, monkeypatch):
    threads, call = set(), _compare._judged
    monkeypatch.setattr(
        _compare, "_judged", lambda *a: threads.add(threading.get_ident()) or time.sleep(0.01) or call(*a)
    )
    tables = []
    for count in (1, 2):
        threads.clear()
        with threadpool_limits(count, "blas"):
            tables.append(compare_reductions(X, y, n_components=(1, 2)))
        assert len(threads) == count
    for one, two in zip(tables[0].rows, tables[1].rows, strict=True):
        assert repr(replace(one, seconds=0.0)) == repr(replace(two, seconds=0.0))
        assert two.seconds < 60
    assert tables[0].sentence == tables[1].sentence


def test_threads_have_clocks_of_their_own_and_folds_room(monkeypatch, caplog):
    monkeypatch.setattr(
        _compare.time, "process_time", lambda: pytest.fail("that is the clock of all threads")
    )
    with threadpool_limits(2, "blas"):
        compare_reductions(X, Y, reducers={"PCA": PCA()}, n_components=(1, 2))
        assert caplog.messages[-1] == "comparing reductions: 15 of 15"
        monkeypatch.setattr(_compare, "_HELD", X.nbytes)  # one fold at once
        monkeypatch.setattr(_compare.time, "process_time", lambda: 0.0)
        monkeypatch.setattr(_compare.time, "thread_time", lambda: pytest.fail("there is one thread"))
        compare_reductions(X, Y, reducers={"PCA": PCA()}, n_components=(1, 2))


class Configured(PCA):
    def fit(self, A, b=None):
        assert get_config()["assume_finite"]
        return super().fit(A)


def test_threads_take_on_the_configuration():
    with threadpool_limits(2, "blas"), config_context(assume_finite=True):
        found = compare_reductions(X, Y, reducers={"PCA": Configured()}, readers=READER, n_components=1)
    assert found.rows[0].failed is None


class Some(PCA):
    """Has as many columns as the first row says, or fails."""

    def fit(self, A, b=None):
        self.count = 1 + int(abs(A[0, 0]) * 1e6) % 3
        if self.whiten and self.count == 1:
            msg = "one column"
            raise ValueError(msg)
        return super().fit(A)

    def transform(self, A):
        return super().transform(A)[:, : self.count]


@pytest.mark.parametrize("fails", [False, True])
def test_folds_differ(fails):
    """What a fold says is not forgotten for the next."""
    counts = []
    folds = list(KFold(10, shuffle=True, random_state=0).split(X))
    for train, _ in folds:
        scaled = StandardScaler().fit_transform(X[train] / _units(X))
        counts.append(1 + int(abs(scaled[0, 0]) * 1e6) % 3)
    assert counts[-1] == 2
    assert {1, 3} < set(counts)
    reducers = {"some": Some(3, whiten=fails)}
    found = compare_reductions(X, Y, reducers=reducers, readers=READER, n_components=3, cv=folds)
    assert found.rows[0].failed == ("ValueError: one column" if fails else None)
    assert found.rows[0].n_columns == 3


def test_what_has_begun_stops_before_the_next_method(monkeypatch):
    stopped = threading.Event()
    stopped.set()
    monkeypatch.setattr(_compare, "_judged", lambda *a: pytest.fail("nobody waits for it"))

    def ended(judged, pieces, threads):
        assert [results for _, results in (judged(piece, stopped) for piece in pieces)] == [[]] * 10
        raise KeyboardInterrupt

    monkeypatch.setattr(_compare, "_side_by_side", ended)
    with pytest.raises(KeyboardInterrupt):
        compare_reductions(X, Y, reducers={"PCA": PCA()}, readers=READER)


def test_pca_is_the_same_each_time():
    wide = np.random.default_rng(0).standard_normal((60, 600))
    first, second = (default_reducers()["PCA"].set_params(n_components=2).fit(wide) for _ in range(2))
    assert_array_equal(first.components_, second.components_)


class Meeting(LinearRegression):
    """Warns once the other thread is done, or is the other."""

    def __init__(self, number=0, began=None, done=None):
        self.number, self.began, self.done = number, began, done

    def fit(self, A, b):
        if self.number:
            self.began.set()
            assert self.done.wait(60)
            warnings.warn("not for anyone", RuntimeWarning, stacklevel=1)
        else:
            assert self.began.wait(60)
        return LinearRegression.fit(LinearRegression(), A, b)

    def predict(self, A):
        return np.zeros(len(A))


def test_a_thread_that_is_done_leaves_the_warnings_of_others_unsaid():
    began, done = threading.Event(), threading.Event()

    def guess(number, stopped):
        found = _compare.held_out_guesses(None, [Meeting(number, began, done)], (X, Y), X)
        if not number:
            done.set()
        return found[3]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [failed for _, failed in _compare._side_by_side(guess, range(2), 2)] == [None, None]


def test_what_nobody_waits_for_is_told_to_stop():
    told, gate = [], threading.Event()

    def wait(item, stopped):
        if item:
            gate.wait(10)
            told.append(stopped.is_set())
        return stopped.is_set()

    found = _compare._side_by_side(wait, range(8), 2)
    assert next(found) == (0, False)
    closing = threading.Thread(target=found.close)
    closing.start()
    time.sleep(0.1)
    gate.set()
    closing.join(10)
    assert not closing.is_alive()
    assert told
    assert all(told)
