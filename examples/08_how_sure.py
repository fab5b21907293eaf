"""
How sure are the directions?
============================

The moments are sums over rows, so the pass that adds them up also keeps the sums of twenty groups of rows. Leaving out one group at a
time gives standard errors of every loading and the error to expect of the whole space. Here both are held against the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import t

from colspace import JointReduction
from colspace.datasets import make_bilinear
from colspace.metrics import nsee

# %%
# The error that the model expects of itself, against the true one, for tables of 300 to 8,000 rows:

expected, true, rows = [], [], []
for seed, n in enumerate(np.repeat([300, 700, 1500, 3500, 8000], 4)):
    X, y, blocks, truth = make_bilinear(int(n), 8, 1, rng=seed)
    model = JointReduction(1, blocks=blocks).fit(X, y)
    expected.append(np.mean(list(model.expected_error_.values())))
    true.append(nsee(truth, model.loadings_))
    rows.append(n)

fig, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
points = ax.scatter(true, expected, c=np.log10(rows), cmap="viridis_r")
ax.plot([0.03, 1], [0.03, 1], color="0.6", linewidth=1, linestyle="--")
ax.set(xscale="log", yscale="log", xlabel="true error of the space", ylabel="error the model expects")
bar = fig.colorbar(points, label="rows", ticks=np.log10([300, 700, 1500, 3500, 8000]))
bar.ax.set_yticklabels(["300", "700", "1,500", "3,500", "8,000"])

# %%
# How often do 95 % intervals of the loadings hold the true loading? Forty tables of 1,500 rows, 16 loadings each.

inside = []
for seed in range(40):
    X, y, blocks, truth = make_bilinear(1500, 8, 1, rng=1000 + seed)
    model = JointReduction(1, blocks=blocks, moments="joint").fit(X, y)
    width = t.ppf(0.975, model.n_groups_ - 1)
    for block, found in model.loadings_.items():
        u = truth[block] * np.sign(found[:, 0] @ truth[block][:, 0])
        u = u * np.linalg.norm(found) / np.linalg.norm(u)
        inside.append(np.abs(found - u) < width * model.loadings_error_[block])
print(f"{np.mean(inside):.3f} of {np.size(inside)} intervals hold the truth")
plt.show()
