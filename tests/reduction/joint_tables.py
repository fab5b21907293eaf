"""What tests of JointReduction share: a table, and how far two results are apart."""

import numpy as np

from colspace.datasets import make_bilinear

FEW = {"n_groups": 3}  # groups of rows for errors: the same path as with twenty, in a fifth of the fits
SAME = 1e-10  # largest difference of projectors between two routes to one result


def projectors(loadings):
    return {b: np.linalg.qr(np.asarray(L, dtype=float))[0] for b, L in loadings.items()}


def difference(one, other):
    A, B = projectors(one), projectors(other)
    return max(np.linalg.norm(A[b] @ A[b].T - B[b] @ B[b].T) for b in A)


def whitened(X):
    X = X - X.mean(axis=0)
    return X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / len(X))).T, np.linalg.cholesky(X.T @ X / len(X))


def mixed_bilinear():
    d = make_bilinear(1500, (7, 5), 2, rng=0)
    rng = np.random.default_rng(1)
    mix = np.zeros((12, 12))
    mix[:7, :7], mix[7:, 7:] = rng.standard_normal((7, 7)), rng.standard_normal((5, 5))
    return d.X @ mix, d.y, d.blocks
