"""Reductions beside each other on the same folds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from .._progress import track
from .._sklearn_compat import whole
from .._threads import in_threads, one_thread, small_products, table_work
from ..reduction._gradient import one_kernel
from ._methods import (
    default_readers,
    default_reducers,
    readers_of_all,
    weights_parameter,
    width_parameter,
)
from ._result import (
    ALL,
    LEVEL,
    NONE,
    ReductionComparison,
    ReductionScore,
    cross_chosen,
    is_above,
    standard_error,
)
from ._table import ComparedTable, read_table

S = TypeVar("S")
T = TypeVar("T")
Array = NDArray[np.float64]

_HELD = 1 << 28  # bytes of standardised folds at once
_TOO_MANY = "all columns are read by {} only: their squares and products are too many"


@small_products(partial(table_work, None))
def compare_reductions(
    X: Any,
    y: Any,
    *,
    reducers: Mapping[str, Any] | None = None,
    readers: Mapping[str, Any] | None = None,
    n_components: int | Sequence[int] = (1, 2, 3, 5),
    blocks: Any = None,
    response: Any = None,
    cv: Any = 5,
    sample_weight: Any = None,
    random_state: Any = 0,
    progress: bool = False,
) -> ReductionComparison:
    """How well y is read from the reduced columns on rows left out: ours beside PCA, PLS, ridge and all columns.

    Columns are standardised, every reducer is fitted for every number of directions, and readers are fitted on its
    embedding, all on the training rows of a fold; scored are the others. Numbers are scored by R2 (1 - mean squared error
    over the variance of y, mean over responses, in no fold more than one below no columns); classes by accuracy, or where the largest holds more than 1.5 times
    its even share, by balanced accuracy of the class whose probability exceeds its share most. A method's score is that of its best
    reader on average over folds.

    Parameters
    ----------
    X : array, DataFrame or CSR matrix, in memory
    y : array (n,), array (n, q), or class labels
    reducers : mapping of name to transformer, optional
        Default: joint reduction, PCA, PLS, reduced-rank ridge. The first is the one the others are compared with. ``n_components``
        is set on each that has it (in a pipeline on the last step that has it); others are fitted as they are.
    readers : mapping of name to regressor or classifier, optional
        Default: ridge or logistic regression, 10 neighbours, and quadratic ridge or discriminants.
    n_components : int or sequence of int, default=(1, 2, 3, 5)
        Directions per block. Reducers without ``blocks`` take as many columns in all.
    blocks : mapping, "prefix" or None
        As in :class:`~colspace.JointReduction`; given to every reducer that has ``blocks``.
    response : None, "numbers", "rank", "labels" or callable
        How y is taken, as in JointReduction. Ranks and functions of y are what is read then.
    cv : int, splitter or iterable of (train, test), default=5
        A number is of shuffled folds, stratified by class, and fewer where there are not as many rows.
    sample_weight : array (n,), optional
        Used wherever ``fit`` takes weights, and in every score.
    random_state : int, RandomState or None, default=0
        Of the folds.
    progress : bool, default=False
        Draw a bar on a terminal.

    Returns
    -------
    ReductionComparison
        ``print`` shows the table; ``sentence`` says what it shows; ``rows`` and ``frame()`` hold the numbers.

    Examples
    --------
    >>> from colspace import compare_reductions
    >>> from colspace.datasets import make_bilinear
    >>> X, y, blocks, _ = make_bilinear(600, 5, 1, rng=0)
    >>> found = compare_reductions(X, y, n_components=(1, 2), blocks=blocks)
    >>> found.row("joint reduction", 1).score > 0.4 > found.row("PLS", 1).score
    True
    >>> print(found.sentence)
    With one direction per block joint reduction reads y with R2 ... on rows left out, PCA ...
    """
    table = read_table(X, y, blocks, response, sample_weight)
    given = default_reducers() if reducers is None else dict(reducers)
    read_by = default_readers(classes=table.classes) if readers is None else dict(readers)
    _check_names(given, read_by)
    splits = _splits(cv, table, random_state)
    widths, notes = _widths(n_components, table)
    if table.weights is not None:
        notes += _without_weights({**given, **read_by})
    cases = [(name, h if width_parameter(e) else None, e) for name, e in given.items() for h in widths]
    cases = [c for i, c in enumerate(cases) if c[:2] not in [d[:2] for d in cases[:i]]]
    few = read_by
    if readers is None:
        few = readers_of_all(read_by, table.X.shape[1], len(splits[0][0]), classes=table.classes)
        notes += [] if few == read_by else [_TOO_MANY.format(" and ".join(few))]
    found = {(name, h): _Folds(list(read_by)) for name, h, _ in cases}
    found[ALL, None] = _Folds(list(few))
    base: list[float] = []
    weights: list[Any] = []  # of held-out rows
    jobs = [*((*case, read_by) for case in cases), (ALL, None, None, few)]
    own = sum(name == jobs[0][0] for name, *_ in jobs)  # of about as much work as all others
    pieces = [(split, some) for split in splits for some in (jobs[:own], jobs[own:])]
    threads = int(min(one_thread.spare, len(pieces), max(1, _HELD // table.X.nbytes)))
    clock = time.process_time if threads == 1 else time.thread_time
    config = get_config()

    def judged(piece: tuple[Any, Any], stopped: Event) -> tuple[_Fold, list[_Judged]]:
        (train, test), some = piece
        fold, results = _Fold(table, train, test), []
        with one_kernel(), config_context(**config):
            for _, h, estimator, read in some:
                if stopped.is_set():
                    break
                make = None if estimator is None else partial(table.sized, estimator, h, len(train))
                results.append(_judged(fold, make, read, clock))
        return fold, results

    with track(len(splits) * len(jobs), "comparing reductions", show=progress) as advance:
        for (_, some), (fold, results) in _side_by_side(judged, pieces, threads):
            if some[0] is jobs[0]:
                base.append(fold.nothing)
                weights.append(fold.weights[1])
            for (name, h, *_), scores in zip(some, results, strict=True):
                found[name, h].add(scores)
            advance(len(some))
    result = _result(found, np.array(base), weights, table, notes, next(iter(given)))
    return replace(result, response=_called(y))


def _called(y: Any) -> str:
    """What y is called: its name, those of up to three responses, or y."""
    names = getattr(y, "columns", None)
    names = [getattr(y, "name", None)] if names is None else list(names)
    if not names or len(names) > 3 or not all(isinstance(name, str) and name for name in names):
        return "y"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _side_by_side(function: Callable[..., T], items: Sequence[S], threads: int) -> Iterator[tuple[S, T]]:
    """Items with what a function makes of them, in order; once the caller has enough, its last argument tells it to stop."""
    stopped = Event()
    if threads == 1:
        yield from ((item, function(item, stopped)) for item in items)
        return
    with warnings.catch_warnings(), ThreadPoolExecutor(threads) as pool:
        warnings.simplefilter(
            "ignore"
        )  # filters are those of the process: a thread that is done restores them for all
        try:
            yield from in_threads(pool, partial(function, stopped=stopped), items)
        finally:
            stopped.set()


def held_out_guesses(
    reducer: Any,
    readers: Iterable[Any],
    train: tuple[Any, Any],
    X: Any,
    *,
    sample_weight: Any = None,
    balanced: bool = False,
    clock: Callable[[], float] = time.process_time,
) -> tuple[list[Any], float, int, str | None]:
    """What readers of an embedding say of rows of X, CPU seconds of the reducer's fit, its columns, and a reader's error.

    ``train`` is a pair (X, y); a reducer of None reduces nothing. A reader that fails says None. With ``balanced`` classes are told
    by probability over share. ``clock`` counts the seconds.
    """
    A, y = train
    error, guesses, spent = None, [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if reducer is not None:
            start = clock()
            reducer.fit(A, y, **_weighted(reducer, sample_weight))
            spent = clock() - start
            A, X = (np.asarray(reducer.transform(t)) for t in (A, X))
        for reader in readers:
            try:
                reader.fit(A, y, **_weighted(reader, sample_weight))
                guess = _balanced_guess(reader, X, y, sample_weight) if balanced else reader.predict(X)
            except Exception as reason:  # noqa: BLE001  a reader of another kind may do
                error, guess = f"{type(reason).__name__}: {' '.join(str(reason).split())}", None
            guesses.append(guess)
    return guesses, spent, A.shape[1], error


def _weighted(estimator: Any, weights: Any) -> dict[str, Any]:
    name = None if weights is None else weights_parameter(estimator)
    return {} if name is None else {name: weights}


def _balanced_guess(reader: Any, X: Any, y: Any, weights: Any) -> Any:
    if not hasattr(reader, "predict_proba"):
        return reader.predict(X)
    shares = [np.average(y == c, weights=weights) for c in reader.classes_]
    return reader.classes_[np.argmax(reader.predict_proba(X) / shares, axis=1)]


class _Fold:
    """One fold: standardised columns of both sides, and what is scored without any."""

    def __init__(self, table: ComparedTable, train: Any, test: Any) -> None:
        self.table = table
        self.weights = (None, None) if table.weights is None else (table.weights[train], table.weights[test])
        scaler = StandardScaler().fit(table.X[train], sample_weight=self.weights[0])
        self.train = scaler.transform(table.X[train]), table.y[train]
        self.test = scaler.transform(table.X[test]), table.y[test]
        y, truth = table.y[train], table.y[test]
        if table.classes:
            labels, place = np.unique(y, return_inverse=True)
            guess = labels[np.argmax(np.bincount(place, weights=self.weights[0]))]
            self.flat = len(labels) < 2
        else:
            guess = np.average(y, axis=0, weights=self.weights[0])
            self.flat = bool(np.any(np.ptp(y, axis=0) == 0))
        self.guess = np.broadcast_to(guess, truth.shape)
        self.nothing = table.score(truth, self.guess, self.weights[1])


@dataclass(frozen=True)
class _Judged:
    """One method in one fold: the scores of its readers, and what each row gains by them over no columns."""

    scores: Array
    gains: Array
    seconds: float = 0.0
    n_columns: int = 0
    failed: str | None = None


def _judged(
    fold: _Fold, make: Callable[[], Any] | None, readers: Mapping[str, Any], clock: Callable[[], float]
) -> _Judged:
    """Fit and score one fold; one whose y does not vary scores as no columns do."""
    table, (_, truth), w = fold.table, fold.test, fold.weights
    guesses: list[Any] = [fold.guess] * len(readers)
    seconds, columns, failed = 0.0, 0, None
    try:
        if not fold.flat:
            guesses, seconds, columns, error = held_out_guesses(
                None if make is None else make(),
                [clone(r) for r in readers.values()],
                fold.train,
                fold.test[0],
                sample_weight=w[0],
                balanced=table.metric == "balanced accuracy",
                clock=clock,
            )
            failed = error if all(guess is None for guess in guesses) else None
    except Exception as reason:  # noqa: BLE001  a method that fails is a row that says so
        failed = f"{type(reason).__name__}: {' '.join(str(reason).split())}"
        guesses = [None] * len(readers)
    scores = [np.nan if g is None else table.score(truth, g, w[1]) for g in guesses]
    gains = [table.gains(truth, fold.guess if g is None else g, fold.guess) for g in guesses]
    least = fold.nothing - 1.0  # one guess far off is not all that counts
    return _Judged(np.maximum(scores, least), np.array(gains), seconds, columns, failed)


class _Folds:
    """What one method is worth, fold by fold."""

    def __init__(self, readers: list[str]) -> None:
        self.readers = readers
        self.scores: list[Array] = []
        self.gains: list[Array] = []
        self.seconds = 0.0
        self.n_columns = 0
        self.failed: str | None = None

    def add(self, fold: _Judged) -> None:
        """Count one fold."""
        self.scores.append(fold.scores)
        self.gains.append(fold.gains)
        self.seconds += fold.seconds
        self.n_columns = max(self.n_columns, fold.n_columns)
        self.failed = fold.failed or self.failed

    @property
    def table(self) -> Array:
        """Folds x readers."""
        return np.array(self.scores)

    def best(self) -> int:
        """The reader that is best on average; one that failed in a fold is not."""
        means = self.table.mean(axis=0)
        if np.isnan(means).all():
            self.failed = self.failed or "no reader could be fitted in every fold"
            return 0
        return int(np.nanargmax(means))


def _is_above(runs: list[_Folds], weights: list[Any], level: float) -> bool:
    """Whether rows gain over no columns, by the reader and width that are best on the other folds."""
    chosen = cross_chosen(np.hstack([f.table for f in runs]))
    gains = [np.vstack([f.gains[k] for f in runs])[c] for k, c in enumerate(chosen)]
    return is_above(np.concatenate(gains), None if weights[0] is None else np.concatenate(weights), level)


def _result(
    found: dict[tuple[str, int | None], _Folds],
    base: Array,
    weights: list[Any],
    table: ComparedTable,
    notes: list[str],
    ours: str,
) -> ReductionComparison:
    """Rows, with differences to our method."""
    chosen = {key: (f.table[:, b], f.readers[b]) for key, f in found.items() for b in [f.best()]}
    chosen[NONE, None] = base, ""
    mine = {h: scores for (name, h), (scores, _) in chosen.items() if name == ours}
    top = max(mine, key=lambda h: np.nan_to_num(mine[h].mean(), nan=-np.inf))
    rows = []
    for (name, h), (scores, reader) in chosen.items():
        f = found.get((name, h))
        failed = None if f is None else f.failed
        gap = scores - mine.get(h, mine[top])
        rows.append(
            ReductionScore(
                method=name,
                n_components=h,
                n_columns=0 if f is None else f.n_columns,
                score=float("nan") if failed else float(scores.mean()),
                error=float("nan") if failed else standard_error(scores),
                difference=float("nan") if name == ours else float(gap.mean()),
                difference_error=float("nan") if name == ours else standard_error(gap),
                reader="" if failed else reader,
                seconds=0.0 if f is None else f.seconds / len(base),
                folds=tuple(map(float, scores)),
                failed=failed,
            )
        )
    methods = list(dict.fromkeys(name for name, _ in found))
    above = {}
    for method in methods:
        runs = [f for (name, _), f in found.items() if name == method and not f.failed]
        above[method] = bool(runs) and _is_above(runs, weights, LEVEL / len(methods))
    reasons = dict.fromkeys(f"{r.method} failed: {r.failed}" for r in rows if r.failed)
    return ReductionComparison(
        rows=tuple(rows),
        metric=table.metric,
        n_samples=len(table.rows),
        n_features=table.X.shape[1],
        n_folds=len(base),
        above_chance=above,
        notes=(*notes, *reasons),
    )


def _check_names(reducers: Mapping[str, Any], readers: Mapping[str, Any]) -> None:
    if not reducers or not readers:
        msg = "reducers and readers are mappings of names to estimators; give at least one of each, or None"
        raise ValueError(msg)
    taken = [name for name in reducers if name in (ALL, NONE)]
    if taken:
        msg = f"a reducer cannot be called {taken[0]!r}: that is the row of what is not reduced; choose another name"
        raise ValueError(msg)


def _splits(cv: Any, table: ComparedTable, random_state: Any) -> list[tuple[Any, Any]]:
    """Pairs of training and held-out rows, those of weight zero left out."""
    if not isinstance(cv, int | np.integer):
        found = list(cv.split(table.X, table.y) if hasattr(cv, "split") else cv)
        found = [tuple(np.arange(len(table.X))[part] for part in pair) for pair in found]
        found = [tuple(part[np.isin(part, table.rows)] for part in pair) for pair in found]
        if not found or not all(len(part) for pair in found for part in pair):
            msg = "cv yields no folds, or one without rows; give a number of folds or pairs of row numbers (train, test)"
            raise ValueError(msg)
        return found
    y = table.y[table.rows]
    most = np.unique(y, return_counts=True)[1].max() if table.classes else len(y)
    folds = int(min(cv, most))
    if folds < 2:
        reason = "no class has two rows" if cv >= 2 else f"cv={cv}"
        msg = f"{reason}, but a comparison needs two folds or more, each with rows of y that others show too"
        raise ValueError(msg)
    splitter = (StratifiedKFold if table.classes else KFold)(folds, shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than folds: not in every fold
        return [(table.rows[train], table.rows[test]) for train, test in splitter.split(y, y)]


def _widths(n_components: Any, table: ComparedTable) -> tuple[list[int], list[str]]:
    """Numbers of directions that the table has room for, in order."""
    wanted = list(n_components) if isinstance(n_components, Sequence | np.ndarray) else [n_components]
    bad = [h for h in wanted if not whole(1).is_satisfied_by(h)]
    if bad or not wanted:
        msg = f"n_components={n_components!r} must be a whole number from 1 on, or several"
        raise ValueError(msg)
    limit = max(1, min(*map(len, table.blocks.values()), len(table.rows) - 2))
    widths = sorted({int(min(h, limit)) for h in wanted})
    over = sorted({int(h) for h in wanted if h > limit})
    notes = [f"{', '.join(map(str, over))} directions are more than the table has room for; {limit} instead"]
    return widths, notes if over else []


def _without_weights(estimators: Mapping[str, Any]) -> list[str]:
    names = [name for name, e in estimators.items() if weights_parameter(e) is None]
    return [f"{', '.join(names)}: fitted without weights, which they do not take"] if names else []
