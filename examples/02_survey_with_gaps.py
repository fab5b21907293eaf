"""
A survey full of gaps
=====================

Two thousand people answered questions on a scale of five, gave their age, income and region, and skipped a quarter of
it all. `CopulaImputer` fills the gaps with values that fit, says how sure it is of each, and draws whole tables for honest standard errors.
"""

# %%
# The survey is simulated: two attitudes drive all answers; income is skewed, region is a word.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from colspace import CopulaImputer, check_imputation
from colspace.displays import ImputationDisplay, MarginalDisplay, MissingnessDisplay, ReliabilityDisplay

rng = np.random.default_rng(0)
n = 2000
attitudes = rng.standard_normal((n, 2))
survey = pd.DataFrame()
levels = ["never", "rarely", "sometimes", "often", "always"]
for j in range(8):
    answer = attitudes @ [np.cos(j / 2), np.sin(j / 2)] + 0.5 * rng.standard_normal(n)
    survey[f"q{j + 1}"] = pd.cut(answer, [-np.inf, -1.4, -0.5, 0.5, 1.4, np.inf], labels=levels)
survey["age"] = np.rint(45 + 12 * attitudes[:, 0] + 8 * rng.standard_normal(n)).clip(18, 95)
survey["income"] = np.exp(10 + 0.5 * attitudes[:, 1] + 0.3 * rng.standard_normal(n)).round(-2)
where = attitudes @ rng.standard_normal((2, 3)) + 0.7 * rng.standard_normal((n, 3))
survey["region"] = np.array(["north", "south", "west"])[where.argmax(axis=1)]
holes = survey.mask(rng.random(survey.shape) < 0.25)
MissingnessDisplay.from_table(holes, max_rows=100)

# %%
# Kinds of columns are found by themselves: ordered answers, numbers, words.

imputer = CopulaImputer(random_state=0).fit(holes)
print(dict(zip(holes.columns, imputer.kinds_, strict=True)))
filled = imputer.transform(holes)
print(pd.concat([holes.iloc[:3, 5:], filled.iloc[:3, 5:]], keys=["before", "after"]).to_string())

# %%
# How good is it? Cells that are there are hidden and filled again. This needs no truth, so it works for your survey too.

print(check_imputation(CopulaImputer(random_state=0), holes).sentence)

# %%
# Here the truth is known. Intervals of 95 % hold what they promise, and what is said to be reliable is.

ImputationDisplay.from_estimator(imputer, holes, survey, columns=["age", "income", "q1"], max_points=120)

# %%

ReliabilityDisplay.from_estimator(imputer, holes, survey)

# %%
# Filled columns keep their shape.

MarginalDisplay.from_estimator(imputer, holes, columns=["age", "q1", "income"])
plt.show()
