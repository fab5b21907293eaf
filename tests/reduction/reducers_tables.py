"""What tests of all reducers share: the reducers, a table, a quiet fit."""

import warnings

import numpy as np
from sklearn.base import clone

from colspace import (
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
)
from colspace.scores import StudentScore

BLOCKS = {"a": slice(0, 3), "b": slice(3, 6)}
FEW = {"n_groups": 3}  # groups of rows for errors: the same path as with twenty, in a fifth of the fits
REDUCERS = [
    JointReduction(2, **FEW),
    SteinReduction(1, **FEW),
    SteinReductionCV(1),
    PrincipalHessian(2, **FEW),
    SlicedInverse(2, n_slices=5, **FEW),
    SlicedAverage(2, n_slices=5, **FEW),
    StructuredOLS(1, **FEW),
    ReducedRank(1, **FEW),
]
VARIANTS = [
    JointReduction(2, blocks=BLOCKS, **FEW),
    JointReduction(2, blocks=BLOCKS, shrinkage="auto", **FEW),
    JointReduction(1, blocks=BLOCKS, whiten="diagonal", n_selected=2),
    JointReduction(2, blocks=BLOCKS, whiten="diagonal", solver="randomized", random_state=0, **FEW),
    JointReduction(1, blocks={"a": [0, 1], "b": [2, 3], "c": [4, 5]}, moments="tensor"),
    PrincipalHessian(2, residuals=True, **FEW),
    StructuredOLS(2, blocks=BLOCKS, n_slices=4, **FEW),
    ReducedRank(1, alpha=0.3, weighting="inverse", **FEW),
    SteinReduction(2, order="both", whiten_response=True, **FEW),
    SteinReduction(1, score_model=StudentScore()),
]


def small_table():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((150, 6)) @ (np.eye(6) + 0.4 * rng.standard_normal((6, 6))) + 3.0
    y = np.tanh(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(150)
    return X, y


def embedding(model, X):
    return np.asarray(model.transform(X))


def quiet(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(*arguments, **options)
