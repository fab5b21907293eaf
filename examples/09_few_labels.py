"""
Few labels, many rows
=====================

Two hundred digits have a label, 1,600 have none. `SteinReduction` uses both: labelled rows say which directions matter, unlabelled
ones which directions there are. Rows whose y is NaN are unlabelled.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from colspace import SteinReduction
from colspace.displays import EmbeddingDisplay

X, digit = load_digits(return_X_y=True)
X = X[:, X.std(axis=0) > 0]


def accuracy(Z, labelled):
    """Of a classifier that learns from labelled rows, on the others."""
    Z = StandardScaler().fit_transform(Z)
    reader = LogisticRegression(max_iter=500).fit(Z[labelled], digit[labelled])
    return reader.score(Z[~labelled], digit[~labelled])


# %%
# Fifteen directions, from 50 to 800 labels, three draws each. PCA does not know the labels, PLS does not know the other rows.

counts = [50, 100, 200, 400, 800]
found = {"Stein, all rows": [], "PCA, all rows": [], "PLS, labelled rows": []}
for count in counts:
    scores = {name: [] for name in found}
    for seed in range(3):
        labelled = np.random.default_rng(seed).permutation(len(digit)) < count
        partly = np.where(labelled, digit, np.nan)
        stein = SteinReduction(15, response="labels").fit(X, partly)
        scores["Stein, all rows"].append(accuracy(stein.transform(X), labelled))
        scores["PCA, all rows"].append(accuracy(PCA(15).fit_transform(X), labelled))
        pls = PLSRegression(15).fit(X[labelled], np.eye(10)[digit[labelled]])
        scores["PLS, labelled rows"].append(accuracy(pls.transform(X), labelled))
    for name, values in scores.items():
        found[name].append(np.mean(values))

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, values in found.items():
    ax.plot(counts, values, marker="o", label=name)
    print(f"{name:20}" + "".join(f"{value:8.3f}" for value in values))
ax.set(xscale="log", xlabel="labels", ylabel="accuracy on rows without one")
ax.set_xticks(counts, counts)
ax.minorticks_off()
ax.legend(frameon=False)

# %%
# The first two directions with 200 labels; colours are the true digits, most of which the method has not seen.

labelled = np.random.default_rng(0).permutation(len(digit)) < 200
model = SteinReduction(2, response="labels").fit(X, np.where(labelled, digit, np.nan))
EmbeddingDisplay.from_estimator(model, X, digit.astype(str))
plt.show()
