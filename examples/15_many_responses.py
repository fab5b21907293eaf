"""
Many responses, heavy tails
===========================

Twenty responses depend on three directions of thirty columns, through links that nobody knows, and the columns have heavy tails.
Reduced-rank regression takes links for lines. Stein's method needs to know the law of the columns, not the links.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from colspace import HeavyTailWarning, ReducedRank, SteinReduction
from colspace.datasets import make_multiple_response
from colspace.metrics import procrustes_distance
from colspace.scores import StudentScore

warnings.simplefilter("ignore", HeavyTailWarning)  # some links are fifth powers of t variables

# %%
# Distance between the true and the found directions (0 is perfect, 2.45 the worst), mean of three tables.

sizes = [300, 1000, 3000, 9000]
methods = {
    "PCA": lambda X, Y: PCA(3).fit(X).components_,
    "reduced-rank regression": lambda X, Y: ReducedRank(3).fit(X, Y).components_,
    "Stein, the default": lambda X, Y: SteinReduction(3).fit(X, Y).components_,
    "Stein, law of x learned": lambda X, Y: (
        SteinReduction(3, score_model=StudentScore()).fit(X, Y).components_
    ),
}
errors = {name: [] for name in methods}
for n in sizes:
    tables = [make_multiple_response(n, 30, 20, 3, law="student", rng=seed) for seed in range(3)]
    for name, method in methods.items():
        errors[name].append(np.mean([procrustes_distance(B, method(X, Y).T) for X, Y, B in tables]))

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in errors.items():
    ax.loglog(sizes, values, marker="o", label=name)
    print(f"{name:26}" + "".join(f"{value:8.3f}" for value in values))
ax.set(xlabel="rows", ylabel="distance to the truth")
ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()
