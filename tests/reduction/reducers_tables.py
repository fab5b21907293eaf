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
REDUCERS = [
    JointReduction(2),
    SteinReduction(1),
    SteinReductionCV(1),
    PrincipalHessian(2),
    SlicedInverse(2, n_slices=5),
    SlicedAverage(2, n_slices=5),
    StructuredOLS(1),
    ReducedRank(1),
]
VARIANTS = [
    JointReduction(2, blocks=BLOCKS),
    JointReduction(2, blocks=BLOCKS, shrinkage="auto"),
    JointReduction(1, blocks=BLOCKS, whiten="diagonal", n_selected=2),
    JointReduction(2, blocks=BLOCKS, whiten="diagonal", solver="randomized", random_state=0),
    JointReduction(1, blocks={"a": [0, 1], "b": [2, 3], "c": [4, 5]}, moments="tensor"),
    PrincipalHessian(2, residuals=True),
    StructuredOLS(2, blocks=BLOCKS, n_slices=4),
    ReducedRank(1, alpha=0.3, weighting="inverse"),
    SteinReduction(2, order="both", whiten_response=True),
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
