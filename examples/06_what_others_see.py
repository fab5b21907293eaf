"""
What PCA, PLS, CCA and SIR see
==============================

Four ways in which a response can depend on one direction u of a first block and one direction v of a second. Every method gets the
same number of directions, and y is read from rows that were left out by a reader that knows squares and products, so that
only the directions count.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import CCA, PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from colspace import JointReduction, SlicedAverage, SlicedInverse

rng = np.random.default_rng(0)
n, p = 1500, 10
X = rng.standard_normal((n, 2 * p))
blocks = {"a": slice(0, p), "b": slice(p, 2 * p)}
u = X[:, :p] @ rng.standard_normal(p) / np.sqrt(p)
v = X[:, p:] @ rng.standard_normal(p) / np.sqrt(p)
links = {
    "u + v": u + v,
    "u v": u * v,
    "u² + v²": u**2 + v**2,
    "u + v²": u + v**2,
}

# %%
# PCA and CCA do not look at y; PLS and SIR look at means; SAVE at variances. Each has two directions of both blocks together, or one
# of each block.


def canonical(train, y, test):
    """One canonical direction of each block."""
    model = CCA(1).fit(train[:, :p], train[:, p:])
    return [np.column_stack(model.transform(Z[:, :p], Z[:, p:])) for Z in (train, test)]


def fitted(model):
    """Two directions of a transformer."""
    return lambda train, y, test: [model.fit(train, y).transform(Z) for Z in (train, test)]


methods = {
    "PCA": fitted(PCA(2)),
    "PLS": fitted(PLSRegression(2)),
    "CCA": canonical,
    "SIR": fitted(SlicedInverse(2)),
    "SAVE": fitted(SlicedAverage(2)),
    "JointReduction": fitted(JointReduction(1, blocks=blocks)),
}
table = np.zeros((len(methods), len(links)))
for column, signal in enumerate(links.values()):
    y = signal / signal.std() + 0.5 * rng.standard_normal(n)
    for row, reduce in enumerate(methods.values()):
        scores = []
        for train, test in KFold(3).split(X):
            seen, new = reduce(X[train], y[train], X[test])
            reader = make_pipeline(StandardScaler(), PolynomialFeatures(2), RidgeCV(np.logspace(-2, 2, 5)))
            scores.append(reader.fit(seen, y[train]).score(new, y[test]))
        table[row, column] = np.mean(scores)

# %%
# R² on rows left out; .8 is what the noise leaves.

print(f"{'':16}" + "".join(f"{name:>14}" for name in links))
for name, row in zip(methods, table, strict=True):
    print(f"{name:16}" + "".join(f"{max(value, 0):14.2f}" for value in row))

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
image = ax.imshow(table.clip(0), cmap="Blues", vmin=0, vmax=0.85, aspect="auto")
ax.set_xticks(range(len(links)), links)
ax.set_yticks(range(len(methods)), methods)
for (i, j), value in np.ndenumerate(table):
    ax.text(j, i, f"{max(value, 0):.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
ax.set_title("R² on rows left out", fontsize="medium")
ax.spines[:].set_visible(False)
plt.show()
