"""Codes of rows under each label they might have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._bcd import Block, Sweep, descend
from ._fit import plain_codes
from ._losses import Array, one_hot
from ._objective import Problem, State, projections
from ._regions import Region

_STEPS = 500


def label_codes(problem: Problem, state: State, positive: bool) -> tuple[Array, Array]:
    """Codes (n x classes x r) that minimise a row's share of L under each label, and that share (n x classes)."""
    p, (W, _, B, G, c) = problem, state
    xw = projections(p, W)
    plain = plain_codes(p, W, positive, xw)
    n, classes = len(plain), p.n_outputs + 1
    # ||x||^2 is the same under every label, but makes the shares parts of L
    squares = np.asarray(p.X.multiply(p.X).sum(axis=1)).ravel() if hasattr(p.X, "multiply") else None
    size = np.einsum("ij,ij->i", p.X, p.X) if squares is None else squares
    codes, shares = np.empty((n, classes, W.shape[1])), np.empty((n, classes))
    for j in range(classes):
        at = replace(p, Y=one_hot(np.full(n, j), classes))
        f = Sweep(at, State(W, plain, B, G, c), xw).codes()
        H, _ = descend(f, Block(Region(positive=positive), plain, np.inf, p.l1), None, _STEPS)
        s = H @ B
        rebuilt = size + np.sum(H * (H @ (W.T @ W) - 2.0 * xw), axis=1)
        codes[:, j] = H
        shares[:, j] = (
            p.loss.value(s + p.Z @ G + c, at.Y)
            + p.xi * rebuilt
            + p.l1 * np.abs(H).sum(axis=1)
            + p.l2 * np.sum(s * s, axis=1)
        )
    return codes, shares
