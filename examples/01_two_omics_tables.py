"""
Two omics tables and a response
===============================

Genes in one table, metabolites of the same patients in another, and a response that depends on both *together*: a gene programme
matters only where a metabolic one is on. Each table alone says nothing of it, so PCA, PLS and CCA miss it.
`JointReduction` looks for the directions of both tables at once.
"""

# %%
# The tables are simulated with a known truth: y is the product of one hidden direction of the genes and one of the metabolites,
# plus noise, so no method can explain more than half of it.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from colspace import JointReduction, compare_reductions, stack_blocks
from colspace.datasets import make_bilinear
from colspace.displays import LoadingsDisplay, SingularValuesDisplay
from colspace.metrics import nsee

data = make_bilinear(1200, (30, 20), 1, n_active=6, rng=0)
genes = pd.DataFrame(data.X[:, :30], columns=[f"gene {j}" for j in range(30)])
metabolites = pd.DataFrame(data.X[:, 30:], columns=[f"metabolite {j}" for j in range(20)])

# %%
# `stack_blocks` puts the tables side by side and remembers which columns belong together.

X, blocks = stack_blocks({"genes": genes, "metabolites": metabolites})
y = pd.Series(data.y, name="response")
model = JointReduction(n_components=1, blocks=blocks).fit(X, y)
loadings = {"a": model.loadings_["genes"], "b": model.loadings_["metabolites"]}
print(f"error of the directions {nsee(data.loadings, loadings):.2f} (0 is perfect, 1 is chance),")
print("expected by the model itself", {name: round(float(e), 2) for name, e in model.expected_error_.items()})

# %%
# Is it worth it? Everything is read from rows that were left out.

found = compare_reductions(X, y, blocks=blocks, n_components=(1, 2))
print(found)

# %%
# The first two principal components, the two directions of the joint reduction, and what each method reads of y. In the second
# picture the response is high in two opposite corners: a product.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=(1, 1, 0.8))
scores = {"PCA": PCA(2).fit_transform(X), "joint reduction": np.asarray(model.transform(X))}
for ax, (name, Z) in zip(axes, scores.items(), strict=False):
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    points = ax.scatter(*Z.T, c=y, s=8, cmap="RdBu_r", vmin=-2.5, vmax=2.5)
    ax.set(title=name, xlim=(-3, 3), ylim=(-3, 3))
axes[0].set(xlabel="first component", ylabel="second component")
axes[1].set(xlabel="direction of the genes", ylabel="direction of the metabolites")
fig.colorbar(points, ax=axes[1], label="response")
methods = ["all columns", "ridge", "PLS", "PCA", "joint reduction"]
heights = [found.row(name, None if name == "all columns" else 1).score for name in methods]
axes[2].barh(methods, np.maximum(heights, 0), color=["0.75"] * 4 + ["#0072B2"])
axes[2].axvline(0.5, color="0.4", linestyle=":", linewidth=1)
axes[2].text(0.49, 2, "the most there is", color="0.4", rotation=90, ha="right", va="center")
axes[2].set(title="R² on rows left out", xlim=(0, 0.55))
axes[2].spines[["top", "right"]].set_visible(False)

# %%
# Which columns carry the directions, and how sure that is: six genes and six metabolites do, the others are pale. The lines are two
# standard errors to either side.

LoadingsDisplay.from_estimator(model, X, n_features=10)

# %%
# How many directions are there? A sequence of permutation tests says one.

SingularValuesDisplay.from_estimator(model, X, y, n_permutations=99, max_components=6, random_state=0)
plt.show()
