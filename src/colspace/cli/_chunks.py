"""Tables that are too large to be held: fitted and embedded a chunk of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain, islice
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._streamable import passes_again
from ..io._stream import Stream, give_back, numbers, odd_cells, words
from ._check import MOST_ROWS
from ._gaps import takes_gaps
from ._table import (
    LEAVE,
    LEAVE_ROWS,
    Choice,
    Parts,
    embedding_names,
    gaps_found,
    no_response,
    not_numbers,
    rows_note,
)

_PIECE = 10_000  # rows that are embedded at once, where nothing is read with them


@dataclass
class _Sample:
    """Rows drawn at random, as many as are wanted or all: those of the smallest random numbers."""

    seed: int
    keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    parts: list[tuple[Any, Any, Any]] = field(default_factory=list)  # places, features, responses
    rows: int = 0
    bound: float = 1.0

    def add(self, X: NDArray[np.float64], y: Any) -> None:
        drawn = np.random.default_rng((self.seed, self.rows)).random(len(X))
        near = np.flatnonzero(drawn < self.bound)
        self.parts.append((self.rows + near, X[near], y.iloc[near]))
        self.keys = np.concatenate([self.keys, drawn[near]])
        self.rows += len(X)
        if len(self.keys) > 2 * MOST_ROWS:
            self.taken()

    def taken(self) -> tuple[Any, Any, Any]:
        """Places, features and responses of the sample so far, in the order of the table; others are forgotten."""
        import pandas as pd

        places, X, y = zip(*self.parts, strict=True)
        found = np.concatenate(places), np.concatenate(X), pd.concat(y)
        if len(self.keys) > MOST_ROWS:
            kept = np.sort(np.argpartition(self.keys, MOST_ROWS)[:MOST_ROWS])
            self.keys = self.keys[kept]
            self.bound = float(self.keys.max())
            found = found[0][kept], found[1][kept], found[2].iloc[kept]
        self.parts = [found]
        return found


class GapsError(Exception):
    """A row has gaps, and they are to be filled."""


class _Gaps:
    """Cells that are gaps or not finite, counted over chunks; ``taken``: gaps are filled."""

    def __init__(self, choice: Choice, *, taken: bool) -> None:
        self.choice, self.taken = choice, taken
        self.missing, self.infinite = np.zeros(len(choice.features)), np.zeros(len(choice.features))

    def refused(self, X: NDArray[np.float64]) -> bool:
        """Count those of a chunk; whether there are any so far that no reduction takes."""
        if not np.isfinite(X.sum()):
            self.missing += np.isnan(X).sum(axis=0)
            self.infinite += np.isinf(X).sum(axis=0)
        return bool(self.infinite.any() or (self.missing.any() and not self.taken))

    def refuse(self) -> None:
        """Name all columns that have some which no reduction takes."""
        for word, counts in (("missing", self.missing), ("infinite", self.infinite)):
            found = {name: int(n) for name, n in zip(self.choice.features, counts, strict=True) if n}
            if found and not (self.taken and word == "missing"):
                leave = LEAVE if self.choice.responses else LEAVE_ROWS
                raise ValueError(gaps_found(word, found, "in X", leave))


@dataclass
class _Read:
    """What a pass over the rows keeps: a sample, counts of gaps, rows read, rows without a response, and infinite responses by column."""

    sample: _Sample
    gaps: _Gaps
    read: int = 0
    lost: int = 0
    infinite: Any = 0

    def notes(self) -> list[str]:
        """What to say of rows that were left out."""
        return [text for text in [rows_note(self.lost)] if text]


@dataclass(frozen=True)
class Streamed:
    """A large table and the columns that a reduction takes of it."""

    stream: Stream
    choice: Choice
    worded: bool  # responses are text
    seed: int
    kept: list[tuple[Any, Any]] = field(
        default_factory=list
    )  # features and responses, where the fit keeps them
    begun: list[Iterator[Any]] = field(default_factory=list)  # chunks that the fit reads first
    later: Sequence[str] = ()  # modules that are needed after the fit

    @property
    def fitted(self) -> bool:
        """Whether the rows are for a model that is fitted already, which asks for no response."""
        return not self.choice.responses

    @property
    def types(self) -> dict[str, str]:
        """How columns of text files are read."""
        kinds = dict.fromkeys(self.choice.features, "number")
        kinds |= dict.fromkeys(self.choice.responses, "text" if self.worded else "number")
        return kinds | dict.fromkeys(self.choice.ids, "text")

    def begin(self) -> None:
        """Begin to read for the fit: lines are parsed while something else is done."""
        chunks = self._checked([*self.choice.features, *self.choice.responses])
        self.begun.append(chain(list(islice(chunks, 1)), chunks))

    def fit(self, estimator: Any, advance: Callable[[int], None]) -> tuple[Any, Parts, list[str]]:
        """Fit in as few passes over the file as the estimator allows: the model, a sample of the rows, and notes.

        The model is the estimator, or where columns have gaps one that fills them first.
        """
        from ._gaps import adopted, filled, gaps_told, holey

        rows = _Read(_Sample(self.seed), _Gaps(self.choice, taken=False))
        try:
            kept = self._fit_plain(estimator, self._pairs(rows, advance))
            if kept is not None and not rows.lost:
                self.kept.append(kept)
            return estimator, self._parts(rows), rows.notes()
        except GapsError:
            advance(-rows.read)
            estimator._forget_stream()
        rows = _Read(_Sample(self.seed), _Gaps(self.choice, taken=True))
        pairs = ((self._frame(X), y) for X, y in self._pairs(rows, advance))
        model = adopted(holey(estimator, self.seed).fit(pairs), estimator)
        parts = self._parts(rows)
        counts = rows.gaps.missing
        told = gaps_told(int(counts.sum()), int(np.count_nonzero(counts)), rows.sample.rows)
        return model, replace(parts, X=filled(model, parts.X)), [told, *rows.notes()]

    def _fit_plain(self, estimator: Any, pairs: Iterator[tuple[Any, Any]]) -> tuple[Any, Any] | None:
        """Fit on rows without gaps; features and responses, where they are kept."""
        from .._validation import check_table
        from ..reduction._joint_options import check_options
        from ..reduction._spool import spool

        def checked(X: NDArray[np.float64], first: bool) -> Any:
            return check_table(estimator, self._frame(X), reset=True) if first else X  # finite, as was seen

        if passes_again(estimator):
            estimator._validate_params()
            check_options(estimator)
            rows = spool(pairs, checked)
            import_beside(self.later)
            give_back()
            estimator._fit_table(*rows)
            give_back()
            return rows[:2]
        if self.worded or estimator.response == "labels":
            classes = self._classes()
            for X, y in pairs:
                estimator.partial_fit(self._frame(X), y, classes=classes)
        else:
            estimator.fit((self._frame(X), y) for X, y in pairs)
        return None

    def _parts(self, rows: _Read) -> Parts:
        places, X, responses = rows.sample.taken()
        frame, responses = self._frame(X).set_axis(places), responses.set_axis(places)
        y = responses.iloc[:, 0] if len(self.choice.responses) == 1 else responses
        return Parts(frame, y, frame[[]], responses, rows=rows.sample.rows)

    def _frame(self, X: NDArray[np.float64]) -> Any:
        import pandas as pd

        return pd.DataFrame(X, columns=self.choice.features, copy=False)

    def _classes(self) -> list[Any]:
        """All labels, from a pass over the response."""
        found: set[Any] = set()
        for table in self.stream.chunks(self.choice.responses, self.types):
            found |= set(self._responses(table).iloc[:, 0].dropna().unique().tolist())
        return sorted(found)

    def _pairs(self, rows: _Read, advance: Callable[[int], None]) -> Iterator[tuple[Any, Any]]:
        """Features and responses of the rows of every chunk that have a response; refuses when all that is wrong is counted."""
        gaps = rows.gaps
        if not self.begun:
            self.begin()
        for table in self.begun.pop():
            advance(table.num_rows)
            rows.read += table.num_rows
            X, y = numbers(table, self.choice.features, self.stream.marks), self._responses(table)
            refused = gaps.refused(X)  # also in rows without a response, which are embedded
            if gaps.missing.any() and not gaps.taken:
                raise GapsError
            there = y.notna().to_numpy().all(axis=1)
            if not there.all():
                rows.lost += int(np.count_nonzero(~there))
                X, y = X[there], y[there].reset_index(drop=True)
            if not self.worded:
                rows.infinite = rows.infinite + np.isinf(y.to_numpy()).sum(axis=0)
            if refused or np.any(rows.infinite):
                continue  # count the rest
            rows.sample.add(X, y)
            if len(X):
                yield X, (y.iloc[:, 0] if y.shape[1] == 1 else y)
        if np.any(rows.infinite):
            found = {name: int(n) for name, n in zip(self.choice.responses, rows.infinite, strict=True) if n}
            raise ValueError(gaps_found("infinite", found, "in the response", LEAVE_ROWS))
        gaps.refuse()
        if rows.lost == rows.read:
            raise ValueError(no_response(self.choice.responses))

    def _responses(self, table: Any) -> Any:
        import pandas as pd

        names, marks = self.choice.responses, self.stream.marks
        if self.worded:
            return pd.DataFrame({name: words(table.column(name), marks) for name in names})
        return pd.DataFrame(numbers(table, names, marks), columns=names)

    def _checked(self, columns: Sequence[str]) -> Iterator[Any]:
        """Chunks; where a cell is not a number, all columns that have one are named."""
        try:
            yield from self._numeric(self.stream.chunks(columns, self.types), columns)
        except ValueError as error:
            bad = {} if "conversion error" not in str(error) else self._odd(columns)
            if not bad:
                raise
            raise ValueError(
                not_numbers(
                    {name: f"{name!r} (e.g. {cell[:40]!r})" for name, cell in bad.items()}, fitted=self.fitted
                )
            ) from error

    def _numeric(self, tables: Iterator[Any], columns: Sequence[str]) -> Iterator[Any]:
        """The tables, whose types tell of columns that are not numbers."""
        import pyarrow as pa

        wanted = [name for name in columns if self.types[name] == "number"]
        for table in tables:
            bad = {
                name: f"{name!r}"
                for name in wanted
                if not (
                    pa.types.is_integer(kind := table.schema.field(name).type)
                    or pa.types.is_floating(kind)
                    or pa.types.is_boolean(kind)
                    or pa.types.is_decimal(kind)
                    or pa.types.is_null(kind)
                )
            }
            if bad:
                raise ValueError(not_numbers(bad, fitted=self.fitted))
            yield table

    def _odd(self, columns: Sequence[str]) -> dict[str, str]:
        """Columns that should be numbers and are not, from a pass over them as text."""
        names = [name for name in columns if self.types[name] == "number"]
        found: dict[str, str] = {}
        for table in self.stream.chunks(names, dict.fromkeys(names, "text")):
            found |= odd_cells(table, [n for n in names if n not in found], self.stream)
        return {name: found[name] for name in names if name in found}

    def embedding(self, estimator: Any, advance: Callable[[int], None]) -> Iterator[Any]:
        """Ids, embedding and responses of every chunk."""
        import pandas as pd

        choice, gaps = self.choice, _Gaps(self.choice, taken=takes_gaps(estimator))
        names = embedding_names(estimator, [*choice.ids, *choice.responses])
        if self.kept:
            yield from self._embedding_of_kept(estimator, names, advance)
            return
        for table in self._checked([*choice.ids, *choice.features, *choice.responses]):
            advance(table.num_rows)
            X, y = numbers(table, choice.features, self.stream.marks), self._responses(table)
            if gaps.refused(X):
                continue
            Z = pd.DataFrame(np.asarray(estimator.transform(self._frame(X))), columns=names)
            yield pd.concat([table.select(choice.ids).to_pandas(), Z, y], axis=1)
        gaps.refuse()

    def _embedding_of_kept(
        self, estimator: Any, names: list[str], advance: Callable[[int], None]
    ) -> Iterator[Any]:
        """The same from rows that the fit has kept; ids alone are read again."""
        import pandas as pd

        choice, (X, y), first = self.choice, self.kept.pop(), 0
        for ids in self._ids(len(X)):
            some = slice(first, first + len(ids))
            first = some.stop
            advance(len(ids))
            Z = pd.DataFrame(np.asarray(estimator.transform(self._frame(X[some]))), columns=names)
            responses = pd.DataFrame(y[some].reshape(len(ids), -1), columns=choice.responses)
            yield pd.concat([ids, Z, responses], axis=1)

    def _ids(self, rows: int) -> Iterator[Any]:
        """Ids of one piece of the table after another, frames without columns where there are none."""
        import pandas as pd

        ids = self.choice.ids
        if ids:
            yield from (table.to_pandas() for table in self.stream.chunks(ids, self.types))
        else:
            yield from (pd.DataFrame(index=range(min(_PIECE, rows - a))) for a in range(0, rows, _PIECE))


def import_beside(modules: Sequence[str]) -> Thread:
    """Import modules while something else is computed; whoever needs one that cannot be imported is told then."""

    def load() -> None:
        with suppress(ImportError):
            for name in modules:
                import_module(name)

    thread = Thread(target=load, daemon=True)
    thread.start()
    return thread


def is_worded(stream: Stream, responses: Sequence[str]) -> bool:
    """Whether a response is text or truth values, by the first rows that have one."""
    import pyarrow as pa

    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    read = False
    for rows in stream.start(responses):
        read = True
        if stream.layout is not None:
            if odd_cells(rows, responses, stream):
                return True
        elif not all(any(test(rows.schema.field(name).type) for test in plain) for name in responses):
            return True
    if not read:
        msg = f"{stream.sources[0].path} is empty: 0 rows, {len(stream.names)} columns"
        raise ValueError(msg)
    return False
