"""
How many directions, and is there any?
======================================

Loadings can be printed of noise as well as of signal. Three ways to know: the number that predicts rows left out best, a sequence of
permutation tests, and a comparison on held-out rows.
"""

# %%
# A response with three directions: one linear, two squared.

import matplotlib.pyplot as plt
import numpy as np

from colspace import JointReduction, compare_reductions
from colspace.displays import SingularValuesDisplay

rng = np.random.default_rng(1)
X = rng.standard_normal((800, 12))
y = 1.5 * X[:, 0] + X[:, 1] ** 2 + X[:, 2] ** 2 + rng.standard_normal(800)
model = JointReduction("auto").fit(X, y)
print("directions kept:", model.n_components_)

# %%
# What it went by: R² on rows left out, by number of directions, with the standard error of the difference to the best.

scores = model.component_scores_
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
count = np.arange(len(scores["score"]))
ax.errorbar(count, scores["score"], yerr=scores["difference_error"], marker="o", capsize=3)
ax.axvline(model.n_components_, color="0.5", linestyle=":")
ax.set(xlabel="directions", ylabel="R² on rows left out")

# %%
# The same question as a test. Each value stands beside what chance would give once the directions before it are taken out.

SingularValuesDisplay.from_estimator(model, X, y, n_permutations=99, random_state=0)

# %%
# Without signal all three say so.

noise = rng.permutation(y)
test = JointReduction(1).rank_test(X, noise, n_permutations=99, random_state=0)
print(f"directions by the test: {test.n_components}, p-value of 'none at all': {test.p_values[0]:.2f}")
print(compare_reductions(X, noise, n_components=1).sentence)
plt.show()
