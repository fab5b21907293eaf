"""Bagged extremely randomised trees, kept as plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import in_threads
from ._estep import Array, Index
from ._threads import thread_pool

TREES, FIRST = 100, 25  # trees, and those after which it shows whether more pay
TOLD = 50  # of more columns the trees after the first ones look at so many, those that told most
FEWER, FEWER_FIRST = 48, 12  # trees, where leaves are of several rows
_BAG = 5000  # rows that a tree is grown on, at most
_LEAVES = 1000  # about, of a tree: more rows make larger leaves
SPLITS, WIDE = (
    12,
    100,
)  # columns that a split looks at, at most; where levels of words are many columns, of which few say anything
_FAR = 1e30
_AT_ONCE = 1 << 15  # places in trees that are followed at once


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees: at a node go ``left`` where the feature is at most the threshold, else ``right``.

    A leaf leads to itself. ``roots`` are the first nodes, ``value`` is what leaves say: a number each, or a row of them.
    """

    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array
    roots: NDArray[np.int32]

    def __call__(self, X: Array) -> Array:
        """Mean over the trees, row by row."""
        many = self.value.shape[1:]
        out = np.empty((len(X), *many))
        size, p = len(self.roots), X.shape[1]
        step = max(1, _AT_ONCE // size)
        for a in range(0, len(X), step):
            part = _single(X[a : a + step])
            n = len(part)
            node, start = np.tile(self.roots, n), np.repeat(np.arange(n) * p, size)
            on = np.arange(n * size)
            while len(on):
                at = node[on]
                low = part.ravel()[start[on] + self.feature[at]] <= self.threshold[at]
                new = np.where(low, self.left[at], self.right[at])
                node[on] = new
                on = on[self.left[new] != new]
            out[a : a + step] = self.value[node].reshape(n, size, *many).mean(axis=1)
        return out


def _single(X: Array) -> NDArray[np.float32]:
    """Features as trees have them; what is farther than they can tell is as far as they can."""
    return np.clip(X, -_FAR, _FAR).astype(np.float32)


def grow(
    X: Array,
    y: Array,
    weight: Array | None,
    rng: np.random.Generator,
    worth: Callable[[Array], bool] = lambda _: True,
    leaf: int = 1,
    n_jobs: int = 1,
    *,
    wide: bool = False,
) -> tuple[Forest, Array] | None:
    """A forest that tells y (a column, or several) from X, and its prediction of every row by the trees that have not seen the row.

    Rows that every tree has seen are predicted by the mean of y. None if the predictions of the first trees are not ``worth`` more.
    ``leaf`` is the least number of rows in a leaf. ``n_jobs`` threads grow the same trees. ``wide``: splits look at more columns, the later
    trees at those of many that told the first ones most.
    """
    table = _single(X)
    n, p = table.shape
    some = np.arange(p)
    size = min(n, _BAG)
    leaf = max(leaf, round(size / _LEAVES))
    chosen = wide and p > TOLD
    first, whole = (FEWER_FIRST, FEWER) if chosen and leaf > 1 else (FIRST, TREES)
    mean = np.average(y, axis=0, weights=weight)
    total, count = np.zeros(y.shape), np.zeros((n, *[1] * (y.ndim - 1)))
    trees: list[Any] = []
    columns: list[Index] = []
    pool = thread_pool(n_jobs)
    for many in (first, whole - first):
        if trees:
            if not worth(np.where(count > 0, total / np.maximum(count, 1), mean)):
                return None
            if chosen:
                some = most_telling(trees)
                table = np.ascontiguousarray(table[:, some])
        one = partial(_tree, table, y, weight, leaf, WIDE if wide else SPLITS)
        bags = [(rng.integers(n, size=size), int(rng.integers(2**31 - 1))) for _ in range(many)]
        grown = map(one, bags) if pool is None else (found for _, found in in_threads(pool, one, bags))
        for tree, rest, told in grown:
            trees.append(tree)
            columns.append(some)
            total[rest] += told
            count[rest] += 1
    return as_arrays(trees, columns), np.where(count > 0, total / np.maximum(count, 1), mean)


def _tree(
    table: NDArray[np.float32], y: Array, weight: Array | None, leaf: int, splits: int, bag: tuple[Index, int]
) -> tuple[Any, Index, Array]:
    """A tree, the rows that it has not seen and what it says of them; ``bag``: rows, some of them repeated, and a seed."""
    from sklearn.tree import ExtraTreeRegressor

    n, p = table.shape
    drawn = np.bincount(bag[0], minlength=n)
    seen, rest = np.flatnonzero(drawn), np.flatnonzero(drawn == 0)
    w = drawn[seen] if weight is None else drawn[seen] * weight[seen]
    share = 1.0 if p <= splits else splits / p
    tree = ExtraTreeRegressor(min_samples_leaf=leaf, max_features=share, random_state=bag[1])
    tree.fit(table[seen], y[seen], w, check_input=False)
    return tree.tree_, rest, tree.tree_.predict(table[rest])[..., 0]


def most_telling(trees: list[Any]) -> Index:
    """The ``TOLD`` columns whose splits take away most of the variance."""
    told = np.sum([tree.compute_feature_importances() for tree in trees], axis=0)
    return np.sort(np.argsort(-told, kind="stable")[:TOLD])


def as_arrays(trees: list[Any], columns: list[Index]) -> Forest:
    """Trees of scikit-learn, one after another; ``columns`` are those that each knows."""
    roots = np.cumsum([0] + [tree.node_count for tree in trees[:-1]])
    parts = []
    for root, tree, some in zip(roots, trees, columns, strict=True):
        leaf = tree.children_left < 0
        self = np.arange(tree.node_count)
        parts.append(
            (
                np.where(leaf, 0, some[np.where(leaf, 0, tree.feature)]),
                np.where(leaf, np.inf, tree.threshold),
                root + np.where(leaf, self, tree.children_left),
                root + np.where(leaf, self, tree.children_right),
                tree.value[:, 0, 0] if tree.n_outputs == 1 else tree.value[:, :, 0],
            )
        )
    feature, threshold, left, right, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    whole = [part.astype(np.int32) for part in (feature, left, right, roots)]
    return Forest(whole[0], threshold, whole[1], whole[2], value, whole[3])
