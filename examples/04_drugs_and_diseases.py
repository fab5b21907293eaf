"""
Partners for entities never seen
================================

Drugs and diseases both have features, some pairs are known to be linked, and a new disease comes in without any link. Which drugs
should be tried first? `KernelPairRegressor` learns from all known links, tuned for exactly this question by leaving diseases out.
"""

# %%
# 220 diseases, 150 drugs, twelve features each; links depend on three hidden combinations of the features of both sides. The last
# twenty diseases are new.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from colspace import KernelPairRegressor, PairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import recall_at_k

A, B, Y, _ = make_pairs(220, 150, n_features=12, n_components=3, popularity=0.3, rng=0)
diseases = pd.DataFrame(A, index=[f"disease {i}" for i in range(220)])
drugs = pd.DataFrame(B, index=[f"drug {i}" for i in range(150)])
model = KernelPairRegressor("new-left", n_top=20).fit(diseases[:200], drugs, Y[:200])
print(f"{Y[:200].nnz} known links; directions found first: {model.reduction_}")

# %%
# What it is worth for diseases without links, found without looking at the new ones:

print(model.held_out_quality(k=20).round(3).to_string(index=False))

# %%
# The five drugs to try first for each of two new diseases:

print(model.rank(diseases[200:202], k=5).round(3).to_string(index=False))

# %%
# How many of the true links of the new diseases are among the first k drugs:

scores = {"kernel ridge": model.predict(diseases[200:])}
plain = KernelPairRegressor("new-left", n_top=20, reduction=None).fit(diseases[:200], drugs, Y[:200])
scores["without joint directions"] = plain.predict(diseases[200:])
scores["most linked drugs"] = np.tile(Y[:200].sum(axis=0), (20, 1))
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, guess in scores.items():
    ax.plot(range(1, 61), [recall_at_k(Y[200:], guess, k=k) for k in range(1, 61)], label=name)
ax.set(xlabel="drugs tried", ylabel="share of the links found", ylim=(0, 1))
ax.legend(frameon=False)

# %%
# Why this drug? Kernel regression says which known links carried a prediction.

smoother = PairRegressor(n_components=3).fit(diseases[:200], drugs, Y[:200])
best = smoother.rank(diseases[200:201], k=1)["right"][0]
print(f"{best} for disease 200:")
print(smoother.explain("disease 200", best, diseases[200:], k=4).round(3).to_string(index=False))
plt.show()
