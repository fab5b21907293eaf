"""Nonnegative codes of rows: one small quadratic programme per row, solved exactly and all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._losses import Array

Mask = NDArray[np.bool_]
_ROWS = 4096  # systems that are solved at once
_PATIENCE = 3
_SMALL = 1e-12


def nonnegative_codes(
    xw: Array, gram: Array, price: float = 0.0, passive: Mask | None = None
) -> tuple[Array, Mask]:
    """min over h >= 0 of h'gram h - 2 h'(W'x) + 2 price sum h for each row of ``xw`` = X W, and which entries are free.

    Block principal pivoting (Kim and Park 2011); ``passive``, the free entries of a nearby problem, is a warm start.
    """
    n, r = xw.shape
    scale = max(float(np.trace(gram)) / max(r, 1), 1e-300)
    gram = gram + _SMALL * scale * np.eye(r)
    rhs = xw - price
    free = np.zeros((n, r), dtype=bool) if passive is None else passive.copy()
    H = np.zeros((n, r))
    slack = 1e-12 * max(float(np.abs(rhs).max(initial=0.0)), 1e-300)
    rows, fewest, patience = np.arange(n), np.full(n, r + 1), np.full(n, _PATIENCE)
    for _ in range(100 + 10 * r):
        H[rows] = _on_free(rhs[rows], gram, free[rows])
        dual = H[rows] @ gram - rhs[rows]
        wrong = np.where(free[rows], H[rows] < -slack / scale, dual < -slack)
        count = wrong.sum(axis=1)
        left = count > 0
        if not left.any():
            break
        rows, wrong, count = rows[left], wrong[left], count[left]
        fewer = count < fewest[rows]
        fewest[rows] = np.where(fewer, count, fewest[rows])
        patience[rows] = np.where(fewer, _PATIENCE, patience[rows] - 1)
        last = r - 1 - np.argmax(wrong[:, ::-1], axis=1)
        single = np.arange(r) == last[:, None]
        free[rows] ^= np.where((patience[rows] < 0)[:, None], single, wrong)
    return np.maximum(H, 0.0), free


def _on_free(rhs: Array, gram: Array, free: Mask) -> Array:
    """Solutions of gram h = rhs on the free entries of each row, 0 elsewhere."""
    out = np.empty_like(rhs)
    eye = np.eye(len(gram))
    for i in range(0, len(rhs), _ROWS):
        mask = free[i : i + _ROWS]
        systems = np.where(mask[:, :, None] & mask[:, None, :], gram, eye)
        out[i : i + _ROWS] = np.linalg.solve(systems, np.where(mask, rhs[i : i + _ROWS], 0.0)[:, :, None])[
            ..., 0
        ]
    return out
