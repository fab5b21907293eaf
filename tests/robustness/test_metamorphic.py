"""What must not matter does not: order, units, shifts, names, weights, threads, precision, memory layout, chunks.

Each estimator says which relations it promises; embeddings are compared up to sign.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from colspace import (
    BilinearPairRegressor,
    CopulaImputer,
    JointReduction,
    KernelPairRegressor,
    PairRegressor,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
    SupervisedDictionaryClassifier,
    SupervisedDictionaryRegressor,
)
from colspace.scores import GaussianScore, HyperbolicScore, KernelScore, StudentScore

pytestmark = [
    pytest.mark.filterwarnings("ignore::colspace.NumericLabelsWarning"),
    pytest.mark.filterwarnings("ignore:.*fit reached"),
]
N, P = 160, 5
ALL = frozenset(
    {
        "rows",
        "columns",
        "units",
        "shift",
        "twice",
        "absent",
        "constant",
        "threads",
        "float32",
        "layout",
        "dask",
    }
)


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of different spread, correlated, and a response of two directions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P)) @ (np.eye(P) + 0.2 * rng.standard_normal((P, P)))
    y = X[:, 0] + 0.5 * X[:, 1] + X[:, 2] ** 2 + 0.5 * X[:, 0] * X[:, 3] + 0.1 * rng.standard_normal(N)
    return X, y


def labels(y: np.ndarray) -> np.ndarray:
    """Three classes of a response."""
    return np.array(["low", "mid", "top"])[np.digitize(y, [0.6, 1.6])]


@dataclass(frozen=True)
class Subject:
    """An estimator, the y it is fitted to, what it answers for rows, and what it promises."""

    name: str
    make: Callable[[], Any]
    response: Callable[[np.ndarray], Any] = lambda y: y
    answer: Callable[[Any, Any], Any] = lambda model, X: model.transform(X)
    but: frozenset[str] = field(default_factory=frozenset)
    signs: bool = False
    tol: float = 1e-6

    def __call__(self, X: Any, y: Any, weight: Any = None, at: Any = None) -> np.ndarray:
        """The answer for rows of X (or of ``at``) after a fit."""
        with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            model = self.make()
            options = {} if weight is None else {"sample_weight": weight}
            model.fit(X, self.response(y) if isinstance(y, np.ndarray) else y, **options)
            out = self.answer(model, X if at is None else at)
            return np.asarray(out.compute() if hasattr(out, "compute") else out)

    @cached_property
    def plain(self) -> np.ndarray:
        """The answer for the rows of the table as it is, once for all that is compared with it."""
        answer = self(*table())
        answer.flags.writeable = False
        return answer

    def same(self, one: np.ndarray, two: np.ndarray, tol: float | None = None) -> None:
        """Equal answers; embeddings up to the sign of each column."""
        tol = self.tol if tol is None else tol
        if one.dtype.kind not in "f":
            np.testing.assert_array_equal(one, two)
            return
        one, two = (a.reshape(len(a), -1).astype(float) for a in (one, two))
        if self.signs:
            two = two * np.where(np.sum(one * two, axis=0) < 0, -1.0, 1.0)
        size = np.maximum(np.linalg.norm(one, axis=0), 1e-300)
        np.testing.assert_allclose(two / size, one / size, atol=tol)


def reducer(name: str, make: Callable[[], Any], **options: Any) -> Subject:
    return Subject(name, make, signs=True, **options)


def score(name: str, make: Callable[[], Any], **options: Any) -> Subject:
    return Subject(name, make, answer=lambda model, X: model.score_function(X), **options)


def classes(model: Any, X: Any) -> Any:
    return model.predict_proba(X)


def predicted(model: Any, X: Any) -> Any:
    return model.predict(X)


def no(*relations: str) -> frozenset[str]:
    return frozenset(relations)


FEW = {"n_groups": 3}  # groups of rows for errors: the same path as with twenty, in a fifth of the fits
SUBJECTS = [
    reducer("JointReduction", lambda: JointReduction(2, **FEW), but=no("constant")),
    reducer("JointReduction all", lambda: JointReduction(2, moments="all", **FEW)),
    reducer(
        "JointReduction blocks",
        lambda: JointReduction(1, blocks={"a": [0, 1], "b": [2, 3, 4]}, **FEW),
        but=no("columns", "constant"),
    ),
    reducer("JointReduction diagonal", lambda: JointReduction(2, whiten="diagonal", **FEW)),
    reducer(
        "JointReduction shrinkage", lambda: JointReduction(2, shrinkage="auto", **FEW), but=no("constant")
    ),
    reducer("JointReduction labels", lambda: JointReduction(2, **FEW), response=labels, but=no("constant")),
    reducer("SteinReduction", lambda: SteinReduction(1, **FEW)),
    reducer("SteinReduction second", lambda: SteinReduction(2, order=2, **FEW)),
    reducer("SteinReduction labels", lambda: SteinReduction(2, **FEW), response=labels),
    reducer("SteinReductionCV", lambda: SteinReductionCV(1, cv=3), but=no("rows", "twice", "absent", "dask")),
    reducer("PrincipalHessian", lambda: PrincipalHessian(2, **FEW)),
    reducer("SlicedInverse", lambda: SlicedInverse(2, **FEW)),
    reducer("SlicedInverse labels", lambda: SlicedInverse(2, **FEW), response=labels),
    reducer("SlicedAverage", lambda: SlicedAverage(2, **FEW)),
    reducer("StructuredOLS", lambda: StructuredOLS(1, **FEW)),
    reducer("ReducedRank", lambda: ReducedRank(1, **FEW)),
    Subject("ReducedRank predict", lambda: ReducedRank(1, **FEW), answer=predicted),
    score("GaussianScore", GaussianScore, but=no("units", "columns", "dask")),
    score("StudentScore", lambda: StudentScore(tol=1e-12), but=no("units", "columns", "dask"), tol=1e-4),
    score(
        "HyperbolicScore", lambda: HyperbolicScore(tol=1e-12), but=no("units", "columns", "dask"), tol=1e-3
    ),
    score(
        "KernelScore",
        lambda: KernelScore(method="tikhonov", regularization=1e-3, normalize=False),
        but=no("units", "columns", "dask", "twice"),
    ),
    Subject(
        "CopulaImputer",
        lambda: CopulaImputer(1),
        answer=lambda model, X: model.latent(X),
        signs=True,
        tol=1e-3,
        but=no("twice", "constant", "float32"),
    ),
    Subject(
        "SupervisedDictionaryRegressor",
        lambda: SupervisedDictionaryRegressor(2, max_iter=5000, tol=1e-12, random_state=0),
        answer=predicted,
        but=no("units", "shift", "constant"),
        tol=1e-4,
    ),
    Subject(
        "SupervisedDictionaryClassifier",
        lambda: SupervisedDictionaryClassifier(2, max_iter=5000, tol=1e-12, random_state=0),
        response=labels,
        answer=classes,
        but=no("units", "shift", "constant"),
        tol=1e-4,
    ),
]


def subjects(relation: str) -> Any:
    return pytest.mark.parametrize(
        "subject", [pytest.param(s, id=s.name) for s in SUBJECTS if relation not in s.but]
    )


def test_relations_that_are_left_out_are_relations():
    assert all(s.but <= ALL for s in SUBJECTS)


@subjects("rows")
def test_order_of_rows(subject):
    X, y = table()
    order = np.random.default_rng(1).permutation(N)
    subject.same(subject.plain[order], subject(X[order], y[order]))


@subjects("columns")
def test_order_of_columns(subject):
    X, y = table()
    order = np.random.default_rng(2).permutation(P)
    one, two = subject.plain, subject(X[:, order], y)
    if subject.name == "CopulaImputer":
        one = one[:, order] if one.shape[1] == P else one
    subject.same(one, two)


@subjects("units")
def test_units_of_columns(subject):
    X, y = table()
    powers = np.array([-8, 8, 3, 0, -5])
    subject.same(subject.plain, subject(X * 10.0**powers, y))


@pytest.mark.parametrize(
    "subject", [pytest.param(s, id=s.name) for s in SUBJECTS if s.name.endswith("Score")]
)
def test_scores_are_in_units_of_one_over_the_columns(subject):
    X, y = table()
    units = 10.0 ** np.array([-6, 6, 3, 0, -5])
    subject.same(subject.plain, subject(X * units, y) * units)
    order = np.random.default_rng(2).permutation(P)
    subject.same(subject.plain[:, order], subject(X[:, order], y))


@subjects("shift")
def test_shifts_of_columns(subject):
    X, y = table()
    shift = np.array([10.0, -300.0, 0.0, 1e3, 5.0])
    subject.same(subject.plain, subject(X + shift, y))


@pytest.mark.parametrize(
    "subject", [pytest.param(s, id=s.name) for s in SUBJECTS if s.signs and s.response is not labels]
)
@pytest.mark.parametrize("change", [lambda y: 1e6 * y + 3.0, lambda y: -1e-7 * y], ids=["scaled", "reversed"])
def test_units_of_the_response(subject, change):
    X, y = table()
    subject.same(subject.plain, subject(X, change(y)))


@pytest.mark.parametrize("subject", [pytest.param(s, id=s.name) for s in SUBJECTS if s.response is labels])
def test_names_of_labels(subject):
    X, y = table()
    named = labels(y)
    same_order = np.array([f"class {c}" for c in named])
    codes = {"low": 30, "mid": 10, "top": 20}
    reordered = np.array([codes[c] for c in named])
    one = subject.plain
    subject.same(one, subject(X, list(same_order)))
    if (
        subject.signs
    ):  # the first class is the dictionary's reference, so the order of names is part of its model
        two = subject(X, [f"n{c}" for c in reordered])
        basis = [np.linalg.qr(e - e.mean(axis=0))[0] for e in (one, two)]
        np.testing.assert_allclose(np.linalg.svd(basis[0].T @ basis[1])[1], 1.0, atol=1e-6)


@subjects("twice")
def test_a_weight_of_two_is_a_row_twice(subject):
    X, y = table()
    weight = np.random.default_rng(3).integers(1, 4, N)
    repeated = subject(np.repeat(X, weight, axis=0), np.repeat(y, weight), at=X)
    subject.same(subject(X, y, weight), repeated)


@subjects("absent")
def test_a_weight_of_zero_is_a_row_absent(subject):
    X, y = table()
    here = np.random.default_rng(4).random(N) < 0.8
    X[~here] += 7.0
    subject.same(subject(X[here], y[here], at=X), subject(X, y, here.astype(float)))


@subjects("constant")
def test_a_constant_weight_changes_nothing(subject):
    X, y = table()
    subject.same(subject.plain, subject(X, y, np.full(N, 3.7)))


@subjects("threads")
def test_threads(subject):
    X, y = table()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(subject(X, y))
    subject.same(*found, tol=max(subject.tol / 1e3, 1e-10))


@subjects("float32")
def test_single_precision(subject):
    X, y = table()
    subject.same(subject.plain, subject(X.astype(np.float32), y), tol=max(2e-3, 10 * subject.tol))


@subjects("layout")
@pytest.mark.parametrize(
    "lay",
    [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2], lambda X: X[::-1].copy()[::-1]],
    ids=["fortran", "strided", "backwards"],
)
def test_layout_in_memory(subject, lay):
    X, y = table()
    subject.same(subject.plain, subject(lay(X), y), tol=max(subject.tol / 1e3, 1e-10))


@subjects("dask")
@pytest.mark.parametrize("chunk", [160, 63, 40])
def test_chunks_of_dask(subject, chunk):
    X, y = table()
    lazy = da.from_array(X, chunks=(chunk, P))
    response = da.from_array(np.asarray(subject.response(y)), chunks=chunk)
    subject.same(subject.plain, subject(lazy, response, at=X), tol=max(subject.tol, 1e-6))


# ---------------------------------------------------------------------- pairs


PAIRS = [
    pytest.param(lambda: PairRegressor(2, shrinkage=0.1, bandwidth=0.5), id="PairRegressor"),
    pytest.param(lambda: PairRegressor(2, reduction="pca", bandwidth=0.5), id="PairRegressor pca"),
    pytest.param(lambda: BilinearPairRegressor(2, tol=1e-12, max_iter=5000), id="BilinearPairRegressor"),
    pytest.param(
        lambda: KernelPairRegressor(bandwidth=1.0, alpha=0.5, reduction=None), id="KernelPairRegressor"
    ),
    pytest.param(
        lambda: KernelPairRegressor(
            bandwidth=1.0, alpha=0.5, reduction="joint", n_components=2, shrinkage=0.1
        ),
        id="KernelPairRegressor joint",
    ),
]


def pairs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    A, B = rng.standard_normal((30, 4)), rng.standard_normal((20, 3))
    return A, B, A[:, :2] @ B[:, :2].T + 0.1 * rng.standard_normal((30, 20))


@pytest.mark.parametrize("make", PAIRS)
@pytest.mark.parametrize(
    "change", ["rows", "columns", "units", "shift", "float32", "layout", "constant", "threads"]
)
def test_pairs(make, change):
    if change == "units" and getattr(make(), "reduction", "") == "pca":
        return  # principal components are of the units
    A, B, Y = pairs()
    rng = np.random.default_rng(6)
    one = make().fit(A, B, Y).predict(A, B)
    tol, options = 1e-5, {}
    rows, columns = rng.permutation(len(A)), rng.permutation(A.shape[1])
    C, D, Z = A, B, Y
    if change == "rows":
        C, Z, one = A[rows], Y[rows], one[rows]
    elif change == "columns":
        C = A[:, columns]
    elif change == "units":
        C, D = A * 10.0 ** np.array([-8, 8, 3, 0]), B * 10.0 ** np.array([5, -5, 0])
    elif change == "shift":
        C = A + np.array([10.0, -300.0, 0.0, 1e3])
    elif change == "float32":
        C, D, tol = A.astype(np.float32), B.astype(np.float32), 1e-3
    elif change == "layout":
        C, D = np.asfortranarray(A), B[::-1].copy()[::-1]
    elif change == "constant":
        options = {"sample_weight": np.full(Y.shape, 2.5)}
    with threadpool_limits(2 if change == "threads" else 1):
        two = make().fit(C, D, Z, **options).predict(C, D)
    np.testing.assert_allclose(two, one, atol=tol * np.abs(one).max())
