"""
Columns that bend
=================

A copula bends every column by itself, but its dependence is that of a normal law: a U-shaped relation has none of it. `CopulaImputer`
tests for this and lets forests mend what they can, only where that helps on cells left out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer

from colspace import CopulaImputer

rng = np.random.default_rng(0)
n = 500
x = rng.standard_normal((n, 3))
whole = np.column_stack(
    [x, x[:, 0] ** 2 + 0.2 * rng.standard_normal(n), x[:, 1] - x[:, 2] + 0.3 * rng.standard_normal(n)]
)
gone = rng.random(whole.shape) < 0.2
holes = np.where(gone, np.nan, whole)

# %%
# The fourth column is the square of the first, the fifth a difference of two others.

models = {
    "copula alone": CopulaImputer(nonlinear=False, random_state=0),
    "with forests where they help": CopulaImputer(random_state=0),
    "KNNImputer": KNNImputer(n_neighbors=10),
}
filled = {name: model.fit(holes).transform(holes) for name, model in models.items()}
gain = models["with forests where they help"].nonlinear_gain_
print("share of the error that forests take away, by column:", gain.round(2))
for name, table in filled.items():
    wrong = [
        np.abs(table - whole)[gone[:, j], j].mean()
        / np.abs(whole[gone[:, j], j] - np.median(whole[:, j])).mean()
        for j in range(5)
    ]
    print(f"{name:30} error over that of the median: " + " ".join(f"{value:.2f}" for value in wrong))

# %%
# Filled cells of the fourth column over the first:

fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained", sharey=True)
there, cell = ~gone[:, 3], gone[:, 3] & ~gone[:, 0]
for ax, name in zip(axes, filled, strict=False):
    ax.scatter(whole[there, 0], whole[there, 3], s=6, color="0.8", label="observed")
    ax.scatter(whole[cell, 0], filled[name][cell, 3], s=16, color="#D55E00", label="filled")
    ax.set(title=name, xlabel="first column", xlim=(-3, 3), ylim=(-1, 7))
axes[0].set_ylabel("fourth column")
axes[0].legend(frameon=False)
plt.show()
