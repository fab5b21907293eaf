"""Blocks of rows as they are kept between passes: in as few bytes as hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._encode import counting, training_block
from ._estep import Array, Index, Rows, Take
from ._marginals import Chain
from ._step import Block

_TOGETHER = 8  # blocks whose cells are looked up at once


class PlacedRows(Rows):
    """Rows that know the place of each cell in a dense table, and find its row when that is asked for."""

    def __init__(self, n: int, p: int, flat: Index, column: Index) -> None:
        self.__dict__.update(n=n, p=p, flat=flat, column=column)

    @cached_property
    def row(self) -> Index:
        """Row of each cell."""
        return np.floor_divide(self.flat, self.p)


@dataclass(frozen=True)
class Packed:
    """A block of a dense table: places of its cells, nodes and levels as whole numbers of two or four bytes.

    ``part`` is None where every exact cell lies on a knot, ``exact`` where all cells are exact.
    """

    n: int
    p: int
    flat: NDArray[Any]
    exact: NDArray[Any] | None
    node: NDArray[Any]
    part: Array | None
    censored: NDArray[Any]
    level: NDArray[Any]
    tau: Array
    nu: Array
    weight: Array | None
    held: Block | None

    def opened(self, take: Take) -> Block:
        """The block, in arrays that are taken again by the next one."""

        def index(values: NDArray[Any], part: str) -> Index:
            out: Index = take(f"open {part}", len(values), dtype=np.intp)
            out[...] = values
            return out

        flat = index(self.flat, "flat")
        column = np.take(
            _columns(self.p, self.n),
            flat,
            out=take("open column", len(flat), dtype=np.intp),
            mode="clip",
        )
        return Block(
            PlacedRows(self.n, self.p, flat, column),
            counting(len(flat)) if self.exact is None else index(self.exact, "exact"),
            index(self.node, "node"),
            _zeros(len(self.node)) if self.part is None else self.part,
            index(self.censored, "censored"),
            index(self.level, "level"),
            self.tau,
            self.nu,
            self.weight,
            self.held,
        )

    def closed(self, block: Block, opened: Block) -> Packed | Block:
        """What a pass made of the block that was ``opened``: new sites, or another block."""
        if block.rows is opened.rows:
            return replace(self, tau=block.tau, nu=block.nu, weight=block.weight)
        return packed(block)


def packed(block: Block) -> Packed | Block:
    """The block in fewer bytes, if its table is dense; else as it is."""
    rows = block.rows
    if not rows.dense:
        return block
    return Packed(
        rows.n,
        rows.p,
        _small(rows.flat, rows.n * rows.p),
        None if not len(block.censored) else _small(block.exact, len(rows.column)),
        _small(block.node),
        None if block.on_knots else np.array(block.part),
        _small(block.censored, len(rows.column)),
        _small(block.level),
        np.array(block.tau),
        np.array(block.nu),
        block.weight,
        block.held,
    )


def packed_blocks(X: Any, chain: Chain, weight: Array | None, size: int) -> Iterator[Packed | Block]:
    """Blocks of ``size`` rows; cells of several are looked up at once."""
    n, many = X.shape[0], size if hasattr(X, "tocoo") else _TOGETHER * size
    for a in range(0, n, many):
        some = slice(a, a + many)
        whole = training_block(X[some], chain, None if weight is None else weight[some])
        if whole.rows.n <= size:
            yield packed(whole)
            continue
        for b in range(0, whole.rows.n, size):
            yield packed(_cut(whole, b, min(b + size, whole.rows.n)))


def _cut(block: Block, a: int, b: int) -> Block:
    """Rows a to b."""
    rows = block.rows
    cells = slice(*rows.bounds[[a, b]])
    exact, censored = (
        slice(*np.searchsorted(where, [cells.start, cells.stop])) for where in (block.exact, block.censored)
    )
    return Block(
        Rows(b - a, rows.p, rows.row[cells] - a, rows.column[cells]),
        block.exact[exact] - cells.start,
        block.node[exact],
        block.part[exact],
        block.censored[censored] - cells.start,
        block.level[censored],
        block.tau[censored],
        block.nu[censored],
        None if block.weight is None else block.weight[a:b],
    )


def _small(values: Index, end: int | None = None) -> NDArray[Any]:
    """Whole numbers below ``end`` in two or four bytes."""
    end = int(values.max(initial=0)) + 1 if end is None else end
    return values.astype(np.uint16 if end <= 1 << 16 else np.uint32 if end <= 1 << 32 else np.int64)


@lru_cache(maxsize=4)
def _columns(p: int, n: int) -> Index:
    """Column of each place of a dense table."""
    found = np.tile(np.arange(p), n)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1)
def _zero_bits(bits: int) -> Array:
    found = np.zeros(1 << bits)
    found.flags.writeable = False
    return found


def _zeros(n: int) -> Array:
    """Zeros, in memory that all blocks share."""
    return _zero_bits(max(n, 1).bit_length())[:n]
