"""
In a pipeline: search, names, saving
====================================

Every estimator follows scikit-learn's contract, so it works in a `Pipeline`, is searched by `GridSearchCV`, takes blocks from the
names that a `ColumnTransformer` writes, and is saved without pickle.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

import colspace
from colspace import JointReduction
from colspace.displays import EmbeddingDisplay

cancer = load_breast_cancer(as_frame=True)
X, y = cancer.data, pd.Series(cancer.target_names[cancer.target], name="tumour")

# %%
# Three blocks: means, errors and worst values of ten measurements of cells. The transformer writes ``mean__mean radius`` and so
# on, and ``blocks="prefix"`` reads it.

split = ColumnTransformer(
    [(part, PowerTransformer(), [c for c in X if part in c]) for part in ("mean", "error", "worst")]
).set_output(transform="pandas")
pipeline = Pipeline(
    [
        ("columns", split),
        ("reduce", JointReduction(1, blocks="prefix")),
        ("scale", StandardScaler()),
        ("read", LogisticRegression()),
    ]
)
search = GridSearchCV(pipeline, {"reduce__n_components": [1, 2, 3]}, cv=4).fit(X, y)
print(search.best_params_, f"accuracy {search.best_score_:.3f} on rows left out")

# %%
# The strongest direction of each of two blocks:

front = search.best_estimator_[:2]
EmbeddingDisplay.from_estimator(front[-1], front[0].transform(X), y, components=("mean__0", "worst__0"))

# %%
# Saved to a file that holds no code, and loaded again:

file = Path(tempfile.mkdtemp()) / "model.skops"
colspace.save(search.best_estimator_, file)
again = colspace.load(file)
print(
    f"{file.stat().st_size / 1024:.0f} kB, the same predictions:",
    bool(np.all(again.predict(X) == search.predict(X))),
)
plt.show()
