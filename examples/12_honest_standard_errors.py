"""
Honest standard errors after filling gaps
=========================================

A regression on a table whose gaps were filled once believes that nothing was missing, and its standard errors are too small. Draws from the
law of the gaps, analysed one by one and pooled by Rubin's rules, say what the gaps cost.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from colspace import CopulaImputer
from colspace.copula import pool

whole = load_diabetes(as_frame=True).frame[["age", "bmi", "bp", "s5", "target"]]
holes = whole.mask(np.random.default_rng(1).random(whole.shape) < [0.2, 0.4, 0.2, 0.4, 0.1])


def regression(table):
    """Coefficients of the disease's progression on standardised columns, and their squared errors."""
    A = np.column_stack(
        [np.ones(len(table)), table.drop(columns="target") / whole.drop(columns="target").std()]
    )
    inverse = np.linalg.inv(A.T @ A)
    b = inverse @ A.T @ table["target"]
    return b, np.diag(inverse) * np.sum((table["target"] - A @ b) ** 2) / (len(table) - A.shape[1])


# %%
# Four ways: the whole table (which nobody has), rows without gaps only, gaps filled once, twenty draws pooled.

imputer = CopulaImputer(random_state=0).fit(holes)
draws = [regression(table) for table in imputer.sample(holes, 20, random_state=0)]
pooled = pool([b for b, _ in draws], [v for _, v in draws], complete_df=len(whole) - 5)
found = {}
for name, table in {
    "whole table": whole,
    "rows without gaps": holes.dropna(),
    "filled once": imputer.transform(holes),
}.items():
    b, variance = regression(table)
    found[name] = (b, 1.96 * np.sqrt(variance))
found["twenty draws, pooled"] = (pooled.estimate, (pooled.upper - pooled.lower) / 2)

# %%
# Filled once, intervals are nearly those of the whole table, as if guesses were data. Pooled ones are wider, by what the gaps
# cost, and still shorter than those of the few rows without gaps.

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
columns = ["age", "bmi", "bp", "s5"]
for shift, (name, (b, half)) in enumerate(found.items()):
    ax.errorbar(np.arange(4) + 0.15 * (shift - 1.5), b[1:], yerr=half[1:], fmt="o", capsize=3, label=name)
ax.set_xticks(range(4), columns)
ax.set_ylabel("coefficient, with its 95 % interval")
ax.axhline(0, color="0.6", linewidth=0.8)
ax.legend(frameon=False, fontsize="small")
print("half widths of the intervals")
print(pd.DataFrame({name: half[1:].round(1) for name, (_, half) in found.items()}, index=columns))
print(f"{len(holes.dropna())} of {len(whole)} rows have no gap")
plt.show()
