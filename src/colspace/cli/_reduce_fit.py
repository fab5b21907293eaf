"""From the options of ``colspace reduce`` to a fitted estimator: on a table in memory, or on a large one in chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._gaps import fit_filled, gaps_note, refuse_empty
from ._levels import days_of, levels_of, words_note
from ._say import note, step
from ._words import warnings_on_stderr

if TYPE_CHECKING:
    from ._chunks import Streamed
    from ._join import Joined
    from ._table import Choice, Parts

_FIRST = 2000  # rows that tell words from numbers


@dataclass(frozen=True)
class Task:
    """The tables, and which of their columns are what."""

    tables: Sequence[str]
    responses: Sequence[str]
    ids: Sequence[str]
    drop: Sequence[str]
    blocks: dict[str, list[str]]
    drop_rest: bool
    marks: Sequence[str]
    encoding: str | None

    def begin(self, seed: int, later: Sequence[str] = ()) -> Streamed | None:
        """The table as a stream that is being read, if it is one and large; what comes next need not wait for it.

        ``later``: modules that are needed after the fit.
        """
        from ._chunks import Streamed, is_worded

        with warnings_on_stderr("Note"):
            stream = self._stream()
            if stream is None:
                return None
            choice = self._choose(list(stream.names))
            data = Streamed(stream, choice, is_worded(stream, choice.responses), seed, later=later)
            data.begin()
        return data

    def fit(
        self, estimator: Any, begun: Streamed | None, out: str | None, *, rank_test: bool, seed: int
    ) -> tuple[Any, Parts, Joined, Any, list[str]]:
        """Fit, and write the embedding: the model, the rows (of a large table a sample), the tables, the test of rank and notes.

        The model is the estimator, or where columns have gaps one that fills them first.
        """
        if begun is not None:
            return self._fit_stream(begun, estimator, out)
        from ..io import write_table
        from ._join import read_tables
        from ._table import rows_note, split_table

        with warnings_on_stderr("Note"), step("reading"):
            joined = read_tables(self.tables, self.ids, self.marks, self.encoding)
            choice = self._choose(list(joined.frame.columns))
        every = split_table(joined.frame, choice)
        parts = every.labelled() if hasattr(estimator, "blocks") else every  # Stein's method learns from all
        refuse_empty(every.X)
        told = [
            words_note(parts.words),
            gaps_note(joined.frame[choice.features], len(parts.X)),
            rows_note(len(every.X) - len(parts.X)),
        ]
        told = [text for text in told if text]
        for text in told:
            note(text)
        if hasattr(estimator, "blocks"):
            told += self._set_blocks(estimator, joined.blocks(choice.features), choice.features, parts.words)
        with warnings_on_stderr("Warning") as notes, step("fitting"):
            if every.X.isna().any(axis=None):
                model, parts = fit_filled(estimator, parts, seed)
            else:
                model = estimator.fit(parts.X, parts.y)
            test = estimator.rank_test(parts.X, parts.y, random_state=seed) if rank_test else None
        if out is not None:
            write_table(every.with_embedding(model), out)
        return model, parts, joined, test, [*told, *notes]

    def _set_blocks(
        self,
        estimator: Any,
        tables: dict[str, list[str]],
        features: list[str],
        words: Mapping[str, list[str]],
    ) -> list[str]:
        """Blocks as they are asked for, or the tables, by names of columns where some were words; what to say of them."""
        from .._blocks import parse_blocks
        from ._join import wide_blocks

        blocks = tables
        if self.blocks:
            if not words:
                return []
            parsed = parse_blocks(self.blocks, len(features), features)
            columns = zip(parsed.names, parsed.columns, strict=True)
            blocks = {name: [features[i] for i in own] for name, own in columns}
        named = {name: [new for c in own for new in words.get(c, [c])] for name, own in blocks.items()}
        r, told = estimator.n_components, []
        if not self.blocks and isinstance(r, int) and any(len(own) < r for own in named.values()):
            small = [repr(name) for name, own in named.items() if len(own) < r]
            named = wide_blocks(named, r)
            made = f"blocks are {', '.join(map(repr, named))}" if named else "all columns are one block"
            told.append(f"{', '.join(small)}: fewer columns than --components {r}, so {made}")
            note(told[0])
        estimator.set_params(blocks=named or None)
        return told

    def _choose(self, names: Sequence[str]) -> Choice:
        from ._table import choose_columns

        return choose_columns(
            names, self.responses, self.ids, self.drop, self.blocks, drop_rest=self.drop_rest
        )

    def _stream(self) -> Any:
        """The table as a stream, if it is one, large, and its columns that are reduced are numbers."""
        from ..io._files import is_stream
        from ..io._source import open_sources
        from ..io._stream import open_stream
        from ..io._tables import check_encoding

        path = self.tables[0]
        if len(self.tables) > 1 or path == "-" or is_stream(path):
            return None
        sources = open_sources(path)
        check_encoding(sources, self.encoding)
        stream = open_stream(sources, self.marks, self.encoding)
        return None if stream is None or self._has_words(stream) else stream

    def _has_words(self, stream: Any) -> bool:
        """Whether columns to be reduced are words or dates, by the first rows that have them: such a table is read at once."""
        from ..io._stream import words

        names = [name for name in self._choose(list(stream.names)).features if name not in stream.numeric]
        return any(
            levels_of(cells) or days_of(cells) is not None
            for rows in (stream.start(names) if names else ())
            for name in names
            for cells in [words(rows.column(name), stream.marks).dropna()[:_FIRST]]
        )

    def _fit_stream(
        self, data: Streamed, estimator: Any, out: str | None
    ) -> tuple[Any, Parts, Joined, Any, list[str]]:
        from ..io._stream import write_chunks
        from ._join import Joined, Table, table_names

        rows = data.stream.rows
        with warnings_on_stderr("Warning") as notes, step("reading and fitting", rows) as advance:
            model, parts, told = data.fit(estimator, advance)
        for text in told:
            note(text)
        if out is not None:
            with step("writing", rows) as advance:
                write_chunks(data.embedding(model, advance), out)
        only = Table(table_names(self.tables)[0], self.tables[0], None)
        return model, parts, Joined(None, (only,), ()), None, [*told, *notes]
