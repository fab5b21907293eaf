"""
Directions of a table with gaps
===============================

Thirty percent of the cells are missing, and still one wants the directions that matter for y, with errors that know of the gaps.
`HoleyReduction` joins an imputer and a reducer.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from colspace import HoleyReduction, JointReduction
from colspace.displays import LoadingsDisplay
from colspace.metrics import subspace_distance

rng = np.random.default_rng(0)
n, p = 800, 10
factors = rng.standard_normal((n, 3))
X = factors @ rng.standard_normal((3, p)) + 0.7 * rng.standard_normal((n, p))
truth = np.zeros((p, 1))
truth[:3, 0] = [1.0, -1.0, 0.5]
y = X @ truth[:, 0] + 0.5 * rng.standard_normal(n)
table = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
holes = table.mask(rng.random(table.shape) < 0.3)
print(f"{len(holes.dropna())} of {n} rows have no gap")

# %%
# The whole table, rows without gaps, gaps filled by the mean, and `HoleyReduction`: distance to the true direction.

model = HoleyReduction(reducer=JointReduction(1)).fit(holes, y)
keep = holes.notna().all(axis=1).to_numpy()
found = {
    "whole table": JointReduction(1).fit(table, y).components_,
    "rows without gaps": JointReduction(1).fit(holes[keep], y[keep]).components_ if keep.sum() > 15 else None,
    "filled by the mean": JointReduction(1).fit(holes.fillna(holes.mean()), y).components_,
    "HoleyReduction": model.components_,
}
for name, components in found.items():
    said = "too few rows" if components is None else f"{subspace_distance(truth, components.T):.3f}"
    print(f"{name:20} {said}")

# %%
# Loadings with errors of the sample and of the gaps together. The first three columns carry the direction.

LoadingsDisplay.from_estimator(model, n_features=10)
plt.show()
