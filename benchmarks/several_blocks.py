"""Several blocks with few rows: ours beside PLS-DA per block, multi-block PLS, MCCA with labels, LDA and PCA.

    python benchmarks/several_blocks.py [--repeats 10]

Balanced error on rows left out, read from the blocks' embeddings side by side by logistic regression and by LDA, at
h = 2 and 3 directions a block. mfeat (COLSPACE_DATA) has six views, of which a few rows a class are seen; the
simulated table has 60 rows, three blocks of 500 columns and three classes that differ in five directions in all.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import eigh
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colspace import JointReduction, stack_blocks


def indicators(y):
    return (y[:, None] == np.unique(y)).astype(float)


def simulated(seed, n=60, p=500, n_test=600):
    """Three blocks; three classes whose means differ in five directions of two to each block, noise correlated."""
    rng = np.random.default_rng(seed)
    rows = n + n_test
    y = np.concatenate([np.arange(n) % 3, rng.integers(0, 3, n_test)])
    latent = rng.standard_normal((3, 5)) * 1.0
    scores = latent[y] + rng.standard_normal((rows, 5))
    owners = ([0, 1, 2], [0, 3], [1, 4])
    tables = []
    for own in owners:
        L = rng.standard_normal((len(own), p)) * (rng.random((len(own), p)) < 0.1)
        common = rng.standard_normal((rows, 4)) @ rng.standard_normal((4, p)) * 0.5
        tables.append(scores[:, own] @ L + common + rng.standard_normal((rows, p)))
    names = np.array(["u", "v", "w"])[y]
    return [t[:n] for t in tables], names[:n], [t[n:] for t in tables], names[n:]


def mfeat(folder, per_class, seed):
    stored = np.load(Path(folder) / "mfeat.npz")
    rng = np.random.default_rng(seed)
    y = stored["y"]
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:per_class] for c in np.unique(y)])
    test = np.setdiff1d(np.arange(len(y)), train)
    views = [stored[v].astype(float) for v in ("fac", "fou", "kar", "mor", "pix", "zer")]
    return [v[train] for v in views], y[train].astype(str), [v[test] for v in views], y[test].astype(str)


# ---------------------------------------------------------------- methods: (train blocks, labels, test blocks, h) -> embeddings


def standard(train, test):
    out = []
    for A, B in zip(train, test, strict=True):
        keep = A.std(axis=0) > 0
        s = StandardScaler().fit(A[:, keep])
        out.append((s.transform(A[:, keep]), s.transform(B[:, keep])))
    return [a for a, _ in out], [b for _, b in out]


def ours(train, y, test, h):
    X, blocks = stack_blocks(train)
    model = JointReduction(h, blocks=blocks).fit(X, y)
    return model.transform(X), model.transform(np.hstack(test))


def pls_each(train, y, test, h):
    parts = [PLSRegression(min(h, A.shape[1])).fit(A, indicators(y)) for A in train]
    return (
        np.hstack([m.transform(t) for m, t in zip(parts, tables, strict=True)]) for tables in (train, test)
    )


def pls_blocks(train, y, test, h):
    """Multi-block PLS: blocks scaled to equal weight, one model of as many components as the others have in all."""
    scale = [1 / np.sqrt(A.shape[1]) for A in train]
    A, B = (np.hstack([t * s for t, s in zip(tables, scale, strict=True)]) for tables in (train, test))
    model = PLSRegression(min(h * len(train), len(A) - 1), scale=False).fit(A, indicators(y))
    return model.transform(A), model.transform(B)


def mcca(train, y, test, h, ridge=0.3):
    """Multi-set CCA with the labels as one more view, in the span of the rows, covariances shrunk."""
    Y = indicators(y) - indicators(y).mean(axis=0)
    bases = []
    for A in train:
        _, s, Vt = np.linalg.svd(A, full_matrices=False)
        k = int(np.sum(s > 1e-8 * s[0]))
        bases.append((Vt[:k].T, s[:k]))
    views = [A @ V for A, (V, _) in zip(train, bases, strict=True)] + [
        Y @ np.linalg.pinv(np.linalg.cholesky(Y.T @ Y / len(Y) + 1e-6 * np.eye(Y.shape[1]))).T
    ]
    n, ends = len(y), np.cumsum([v.shape[1] for v in views])
    Z = np.hstack(views)
    C = Z.T @ Z / n
    D = np.zeros_like(C)
    for v, e in zip(views, ends, strict=True):
        s = slice(e - v.shape[1], e)
        own = C[s, s]
        D[s, s] = (1 - ridge) * own + ridge * np.trace(own) / len(own) * np.eye(len(own))
    W = eigh(C, D, subset_by_index=[len(C) - h, len(C) - 1])[1]
    out = []
    for tables in (train, test):
        parts = []
        for t, (V, _), e, v in zip(tables, bases, ends, views, strict=False):
            parts.append(t @ V @ W[e - v.shape[1] : e])
        out.append(np.hstack(parts))
    return out


def pca_each(train, y, test, h):
    parts = [PCA(min(h, A.shape[1])).fit(A) for A in train]
    return (
        np.hstack([m.transform(t) for m, t in zip(parts, tables, strict=True)]) for tables in (train, test)
    )


def lda_all(train, y, test, h):
    model = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(
        PCA(min(len(y) - 1, 150)).fit(np.hstack(train)).transform(np.hstack(train)), y
    )
    pca = PCA(min(len(y) - 1, 150)).fit(np.hstack(train))
    return model.transform(pca.transform(np.hstack(train))), model.transform(pca.transform(np.hstack(test)))


METHODS = {
    "colspace": ours,
    "PLS per block": pls_each,
    "multi-block PLS": pls_blocks,
    "MCCA with labels": mcca,
    "LDA on all": lda_all,
    "PCA per block": pca_each,
}


def error(method, data, h):
    train, y, test, truth = data
    A, B = standard(train, test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P, Q = method(A, y, B, h)
        readers = (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.05)),
        )
        return [1 - balanced_accuracy_score(truth, r.fit(P, y).predict(Q)) for r in readers]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--methods", nargs="*")
    options = parser.parse_args()
    folder = os.environ.get("COLSPACE_DATA")
    settings = {"simulated, 60 x 3 x 500": lambda s: simulated(s)}
    if folder:
        for per_class in (10, 20):
            settings[f"mfeat, {per_class} rows a class"] = lambda s, k=per_class: mfeat(folder, k, s)
    else:
        print("mfeat: not here (COLSPACE_DATA names a folder)")
    for title, draw in settings.items():
        print(
            f"\n{title}: balanced error, logistic / LDA reader, mean of {options.repeats} (standard error of the mean of both)"
        )
        data = [draw(seed) for seed in range(options.repeats)]
        for name, method in METHODS.items():
            if options.methods and name not in options.methods:
                continue
            cells = []
            for h in (2, 3):
                found = np.array([error(method, d, h) for d in data])
                both = found.mean(axis=1)
                se = both.std(ddof=1) / np.sqrt(len(both))
                cells.append(f"h={h}: {found[:, 0].mean():.3f} / {found[:, 1].mean():.3f} ({se:.3f})")
            print(f"  {name:18} " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
