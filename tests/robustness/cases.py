"""One input for one estimator: parameters, tables, response, weights, and what is called after the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from scipy import sparse
from tables import draw_response, draw_shape, draw_table, draw_values, draw_weights, maybe, seeded

import colspace
from colspace import scores

NUMBERS = ("numbers", "two numbers", "column", "units")
LABELS = ("labels", "two labels", "booleans", "codes", "zero one")
COUNTS = ([1, 1, 2, 3], [0, -1, True, 2.5, "two", None, 10**9])
SHRINKAGE = (["ridge", None, 0.0, 0.1, 1.0, "auto"], [-1, 2.0, np.nan, "much"])
RESPONSE = ([None, None, "rank", "labels", "numbers", np.arctan], ["ranks", 3, np.sum, np.log])
BLOCKS = (
    [None, {"a": [0], "b": [1, 2]}, {"a": slice(0, 2)}],
    ["prefix", {"a": [99]}, {"a": [0], "b": [0]}, 7, {}],
)
TOL = ([1e-3], [0, -1, np.nan])


@dataclass(frozen=True)
class Plan:
    """How inputs for an estimator are drawn: good and bad values of each parameter, likely responses, calls."""

    make: Callable[..., Any]
    parameters: dict[str, tuple[list[Any], list[Any]]]
    responses: tuple[str, ...] = NUMBERS + LABELS
    always: dict[str, Any] = field(default_factory=dict)
    calls: tuple[str, ...] = ("transform",)
    pairs: bool = False


GROUPS = ([20, 5, None], [1, True])
_SLICED = {
    "n_groups": GROUPS,
    "n_components": COUNTS,
    "n_slices": ([2, 3, 5, 10, 50], [0, 1, True, 2.5]),
    "shrinkage": SHRINKAGE,
    "response": RESPONSE,
}
_DICTIONARY = {
    "n_components": COUNTS,
    "model": (["filter", "feature"], ["both"]),
    "solver": (["auto", "lbfgs", "bcd", "lpgd"], ["sgd"]),
    "xi": (["auto", "topics", 0.0, 0.1, 1.0, 100.0], [-1.0, np.nan, "big"]),
    "positive": ([True, False], ["yes"]),
    "l1": ([0.0, 0.1], [-0.1, np.inf]),
    "l2": (["auto", 0.0, 0.1], [-0.1]),
    "covariates": ([None, [0], slice(0, 1), ["c0"]], [[99], "nothing", 3.5]),
    "fit_intercept": ([True, False], [None]),
    "coding": (["refit", "plain", "labels"], ["other"]),
    "apart": (["auto", "auto", "auto", 0.0, 0.5], [-0.1, 2.0]),
    "bounds": (
        [None, None, None, None, {"dictionary": 1.0}, {"codes": 5.0, "coefficients": 2.0}, {"products": 3.0}],
        [{"atoms": 1.0}, {"codes": 0.0}, 1.0],
    ),
    "step": ([None, None, None, None, 0.01], [0.0, -1.0]),
    "n_bootstraps": ([0, 0, 2], [-1, 1.5]),
    "max_iter": ([1, 5], [0, -3]),
    "random_state": ([0, None], ["seed"]),
}
_SEARCH = {
    **{
        key: _DICTIONARY[key]
        for key in (
            "model",
            "solver",
            "positive",
            "covariates",
            "fit_intercept",
            "n_bootstraps",
            "max_iter",
            "random_state",
        )
    },
    "n_components": ([1, (1,), (1, 2)], [0, True, (0,), (1, 1), "many"]),
    "xi_factors": ([(1.0,), (0.1, 10.0)], [(0.0,), 1.0, (np.nan,)]),
    "l2_factors": ([(1.0,)], [(-1.0,), ("a",)]),
    "cv": ([2, 3], [1, "two"]),
    "rule": (["one-standard-error", "best"], ["median"]),
    "coding": (["refit", "plain"], ["labels"]),
}
_SCORE_CALLS = ("score_function", "first_moment", "second_moment")

PLANS = {
    "JointReduction": Plan(
        colspace.JointReduction,
        {
            "n_components": ([1, 1, 2, 3, "auto", "moments", "threshold"], COUNTS[1]),
            "blocks": BLOCKS,
            "whiten": (["full", "diagonal", None], ["none", 1]),
            "shrinkage": (SHRINKAGE[0][1:], SHRINKAGE[1]),
            "solver": (["auto", "exact", "randomized", "countsketch"], ["svd"]),
            "n_power": ([0, 2], [-1]),
            "n_selected": ([None, 1, 2, "auto", "threshold", {"a": 1}], [0, 99, {"z": 1}]),
            "selection": (["refit", "refit", "paper"], ["none"]),
            "mean": ([None, None, None, [0.0, 0.0], {"a": [0.0], "b": [1.0, 2.0]}], ["zero", 3]),
            "covariance": (
                [None, None, None, np.eye(2), {"a": np.eye(1), "b": np.eye(2)}],
                ["unit", -np.eye(2)],
            ),
            "eta": ([None, None, 0.1], [0.0, -1.0, "much"]),
            "n_groups": GROUPS,
            "moments": (
                ["auto", "auto", "all", "linear", "hessian", "joint", "tensor", ("linear", "hessian")],
                ["every", (), ("linear", 3)],
            ),
            "response": RESPONSE,
            "random_state": ([0, None], ["seed"]),
        },
        calls=("transform", "partial_fit", "rank_test"),
    ),
    "SteinReduction": Plan(
        colspace.SteinReduction,
        {
            "n_components": ([1, 1, 2, 3, "auto", "moments"], COUNTS[1]),
            "order": ([1, 2, "both"], [0, 3, "first"]),
            "score_model": (
                [
                    "ridge",
                    "gaussian",
                    "auto",
                    scores.StudentScore(max_iter=20),
                    scores.GaussianScore(ridge=0.1),
                ],
                ["cauchy", 3],
            ),
            "standardize": ([True, False], ["yes"]),
            "whiten": (["auto", True, False], ["full"]),
            "whiten_response": (["auto", True, False], ["full"]),
            "combine": (["stack", "mean"], ["sum"]),
            "unlabeled_weight": (["auto", "paper", 0.0, 0.5], [-1.0, "some"]),
            "n_groups": GROUPS,
            "response": RESPONSE,
        },
        responses=(*NUMBERS, *LABELS, "gaps", "none"),
        calls=("transform", "partial_fit"),
    ),
    "SteinReductionCV": Plan(
        colspace.SteinReductionCV,
        {
            "n_components": COUNTS,
            "ridges": ([(0.3, 3.0), (np.inf,), [0.0, 1.0]], [(), (-1.0,), ("a",), (np.nan,)]),
            "weights": ([(0.0, 0.3), (1.0,)], [(), (-1.0,), (np.nan,)]),
            "order": ([1, 2, "both"], [0, 3]),
            "standardize": ([True, False], ["yes"]),
            "whiten_response": (["auto", True, False], ["full"]),
            "combine": (["stack", "mean"], ["sum"]),
            "response": RESPONSE,
            "cv": ([2, 3, 5], [1, 99, "five"]),
        },
    ),
    "PrincipalHessian": Plan(
        colspace.PrincipalHessian,
        {
            "n_components": COUNTS,
            "residuals": ([True, False], [3]),
            "n_groups": GROUPS,
            "shrinkage": SHRINKAGE,
            "response": RESPONSE,
        },
        responses=("numbers", "column", "zero one", "two labels", "booleans", "codes"),
    ),
    "SlicedInverse": Plan(colspace.SlicedInverse, _SLICED),
    "SlicedAverage": Plan(colspace.SlicedAverage, _SLICED),
    "StructuredOLS": Plan(
        colspace.StructuredOLS,
        {
            "n_components": COUNTS,
            "blocks": BLOCKS,
            "n_slices": ([1, 2, 5], [0, True]),
            "n_groups": GROUPS,
            "shrinkage": SHRINKAGE,
            "response": RESPONSE,
        },
    ),
    "ReducedRank": Plan(
        colspace.ReducedRank,
        {
            "n_components": COUNTS,
            "alpha": ([None, 0.0, 1e-3, 10.0], [-1.0, np.nan]),
            "weighting": (["unit", "identity", "inverse"], ["none"]),
            "n_groups": GROUPS,
        },
        responses=NUMBERS,
        calls=("transform", "predict"),
    ),
    "HoleyReduction": Plan(
        colspace.HoleyReduction,
        {
            "n_refits": ([2, 3], [0, True]),
            "imputer": ([colspace.CopulaImputer(1, max_iter=5)], [3]),
            "reducer": ([colspace.ReducedRank(), colspace.SlicedInverse(1)], [3]),
            "random_state": ([0], ["seed"]),
        },
        responses=("numbers", "column"),
        always={"n_refits": 2, "imputer": colspace.CopulaImputer(1, max_iter=5), "random_state": 0},
    ),
    "CopulaImputer": Plan(
        colspace.CopulaImputer,
        {
            "n_components": ([1, 1, 2, "auto"], COUNTS[1]),
            "method": (["ep", "ep", "paper"], ["mcmc"]),
            "noise": (["column", "common"], ["none"]),
            "kinds": (["auto", "continuous", "ordinal", {0: "ordinal"}], ["counted", {99: "ordinal"}, 3]),
            "na_values": ([None, -99, [0, 1], {0: 1.5}], [{99: 1}, [[1]]]),
            "clip": ([True, False], ["yes"]),
            "nonlinear": (["auto", "auto", "gaps", True, False], ["yes", 2]),
            "correlation": (["auto", "auto", "full", "factors"], ["none", True]),
            "tails": (["auto", "auto", "normal", 1, 4.5, np.inf], ["heavy", True, 0.5, np.nan]),
            "n_jobs": ([None, 1, 2], ["two"]),
            "tol": ([1e-2, None], [0.0, -1.0]),
            "max_iter": ([1, 5], [0, True]),
            "random_state": ([0], ["seed"]),
        },
        responses=("none",),
        always={"max_iter": 8},
        calls=("transform", "interval", "reliability", "sample", "mean", "probability_within"),
    ),
    "SupervisedDictionaryClassifier": Plan(
        colspace.SupervisedDictionaryClassifier,
        {
            **_DICTIONARY,
            "class_weight": ([None, "balanced"], ["even", {"z": 1.0}]),
            "threshold": ([0.5, "youden", "f1"], [0.0, 2.0]),
        },
        responses=LABELS,
        always={"max_iter": 10},
        calls=("predict", "predict_proba", "transform", "reconstruct"),
    ),
    "SupervisedDictionaryClassifierCV": Plan(
        colspace.SupervisedDictionaryClassifierCV,
        {
            **_SEARCH,
            "class_weight": ([None, "balanced"], ["even", {"z": 1.0}]),
            "threshold": ([0.5, "youden", "f1"], [0.0, 2.0]),
        },
        responses=LABELS,
        always={"max_iter": 5, "xi_factors": (1.0,)},
        calls=("predict", "predict_proba", "transform", "reconstruct"),
    ),
    "SupervisedDictionaryRegressorCV": Plan(
        colspace.SupervisedDictionaryRegressorCV,
        _SEARCH,
        responses=NUMBERS,
        always={"max_iter": 5, "xi_factors": (1.0,)},
        calls=("predict", "transform", "reconstruct"),
    ),
    "SupervisedDictionaryRegressor": Plan(
        colspace.SupervisedDictionaryRegressor,
        _DICTIONARY,
        responses=NUMBERS,
        always={"max_iter": 10},
        calls=("predict", "transform", "reconstruct"),
    ),
    "PairRegressor": Plan(
        colspace.PairRegressor,
        {
            "n_components": COUNTS,
            "reduction": (["joint", "pca", "phd", "cphd", "sols"], ["cca"]),
            "kernel": (["separable", "sum"], ["product"]),
            "shrinkage": (["auto", 0.0, 0.1, 1.0], [-1, 2.0]),
            "bandwidth": (["auto", 0.5, (0.3, 0.6)], [0.0, (1.0,), ("a", "b"), np.nan]),
            "metric": (["features"], ["cosine"]),
            "tol": (["auto", 0.0, 0.01], [-1.0, 1.0]),
            "impute": ([False], ["yes"]),
            "calibrate": ([False, True], ["yes"]),
            "cv": ([2, 3], [1, 99]),
            "n_top": ([1, 5], [0]),
        },
        always={"n_components": 1},
        calls=("predict", "rank", "transform"),
        pairs=True,
    ),
    "KernelPairRegressor": Plan(
        colspace.KernelPairRegressor,
        {
            "target": (["new-left", "new-right", "new-both", "entries"], ["new"]),
            "metric": (
                ["auto", "multiquadric", "linear", ("gaussian", "cosine")],
                ["euclidean", (), {"top": "linear"}],
            ),
            "bandwidth": (["auto", 0.5, (0.3, 0.6)], [0.0, (1.0,), ("a", "b"), np.nan]),
            "alpha": (["auto", 0.5, (0.3, 6.0)], [0.0, (1.0,), ("a", "b"), np.nan]),
            "profile": (["auto", 0.0, 0.5], [1.0, -0.1]),
            "own": (["auto", 0.0, 0.5], [1.0, -0.1]),
            "positive": (["auto", True, False], ["yes"]),
            "reduction": (["auto", None, "joint", "pca"], ["cca"]),
            "n_components": (["auto", 1], [0, 99]),
            "shrinkage": (["auto", 0.1, 1.0], [-1, 2.0]),
            "n_landmarks": (["auto", None, 3], [0]),
            "impute": ([False], ["yes"]),
            "calibrate": ([False, True], ["yes"]),
            "cv": ([2, 3], [1, 99]),
            "n_top": ([1, 5], [0]),
        },
        always={"reduction": None},
        calls=("predict", "rank"),
        pairs=True,
    ),
    "BilinearPairRegressor": Plan(
        colspace.BilinearPairRegressor,
        {
            "n_components": COUNTS,
            "alpha": ([0.1, 10.0, 1e-6], [0.0, -1.0, np.nan]),
            "loss": (["squared", "logistic"], ["hinge"]),
            "max_iter": ([1, 10], [0]),
            "tol": ([1e-3, 0.0], [-1.0]),
        },
        always={"n_components": 1, "max_iter": 10},
        calls=("predict", "rank"),
        pairs=True,
    ),
    "GaussianScore": Plan(
        scores.GaussianScore,
        {
            "ridge": (["auto", 0.0, 0.1, np.inf], [-1.0, "some"]),
            "pseudo_inverse": ([True, False], ["yes"]),
            "location": ([None, [0.0, 0.0]], ["mean", [np.nan, 0.0]]),
            "covariance": ([None, np.eye(2)], [np.ones((2, 2)), -np.eye(2), np.eye(3)[:2]]),
        },
        responses=("none",),
        calls=_SCORE_CALLS,
    ),
    "StudentScore": Plan(
        scores.StudentScore,
        {
            "df": (["auto", 5.0, 100.0], [1.0, "many"]),
            "tol": TOL,
            "max_iter": ([1, 50], [0]),
            "location": ([None, [0.0, 0.0]], ["mean"]),
            "covariance": ([None, np.eye(2)], [np.ones((2, 2)), -np.eye(2)]),
        },
        responses=("none",),
        always={"max_iter": 50},
        calls=_SCORE_CALLS,
    ),
    "HyperbolicScore": Plan(
        scores.HyperbolicScore,
        {
            "chi": (["auto", 1.0, 0.01], [0.0, "some"]),
            "psi": (["auto", 1.0, 100.0], [-1.0]),
            "tol": TOL,
            "max_iter": ([1, 50], [0]),
            "dispersion": ([None, np.eye(2)], [np.ones((2, 2)), -np.eye(2)]),
        },
        responses=("none",),
        always={"max_iter": 30},
        calls=_SCORE_CALLS,
    ),
    "KernelScore": Plan(
        scores.KernelScore,
        {
            "method": (["nu", "tikhonov", "landweber", "spectral", "stein", "ssge"], ["other"]),
            "kernel": (["imq", "rbf"], ["cosine"]),
            "curl_free": ([True, False], [2]),
            "regularization": (["auto", 1e-3, 1.0], [0.0, "some"]),
            "normalize": ([True, False], ["yes"]),
            "bandwidth": (["median", 0.1, 10.0, 1e-8], [0.0, "wide"]),
            "standardize": ([True, False], ["yes"]),
            "nu": ([1.0, 3.0], [0.0]),
            "max_samples": ([None, 2, 10], [1, 0]),
        },
        responses=("none",),
        calls=_SCORE_CALLS,
    ),
    "NeuralScore": Plan(
        scores.NeuralScore,
        {
            "objective": (["denoising", "sliced", "exact"], ["other"]),
            "noise": ([0.1, 1.0], [0.0]),
            "standardize": ([True, False], ["yes"]),
            "max_epochs": ([1, 2], [0]),
            "batch_size": ([1, 16], [0]),
            "hidden": ([(4,), (4, 4)], [(), (0,), ("a",)]),
            "learning_rate": ([1e-3], [0.0, -1.0]),
        },
        responses=("none",),
        always={"max_epochs": 2, "hidden": (4,)},
        calls=_SCORE_CALLS,
    ),
}


@dataclass(frozen=True)
class Case:
    """An estimator's name, the words that tell the input, and the input."""

    name: str
    words: str
    parameters: dict[str, Any]
    arguments: dict[str, Any]
    fresh: Any
    call: str

    def __str__(self) -> str:
        return f"{self.name}({self.parameters}) {self.words} then {self.call}"


def draw_case(random: Random, name: str) -> Case:
    """An input for this estimator."""
    plan = PLANS[name]
    parameters = dict(plan.always)
    wrong = maybe(random, 0.07)
    for key, (good, _) in plan.parameters.items():
        if maybe(random, 0.2):
            parameters[key] = random.choice(good)
    if wrong:
        key = random.choice(list(plan.parameters))
        parameters[key] = random.choice(plan.parameters[key][1])
    words, arguments, width = (_pair_arguments if plan.pairs else _arguments)(random, plan)
    kind, fresh = draw_values(random, random.randint(1, 5), width)
    call = random.choice(plan.calls)
    return Case(name, f"{words}, fresh {kind}", parameters, arguments, fresh, call)


def _arguments(random: Random, plan: Plan) -> tuple[str, dict[str, Any], int]:
    shape = draw_shape(random)
    table, X, plain = draw_table(random, shape)
    response, y = draw_response(random, X, plain, plan.responses)
    weights, weight = draw_weights(random, len(plain))
    arguments = {"X": X, "y": y, "sample_weight": weight}
    return f"X: {table}, y: {response}, weights: {weights}", arguments, shape[1]


def _pair_arguments(random: Random, plan: Plan) -> tuple[str, dict[str, Any], int]:
    words = []
    sides = {}
    rows = []
    width = 1
    for side in "AB":
        n, p = random.randint(4, 15), random.randint(1, 6)
        table, sides[side], _ = draw_table(random, (n, p))
        words.append(f"{side}: {table}")
        rows.append(n)
        width = p if side == "A" else width
    kind, Y = _links(random, rows)
    mask = None if maybe(random, 0.85) else seeded(random).random(rows) < 0.7
    arguments = {**sides, "Y": Y, "mask": mask}
    weights = "none"
    if maybe(random, 0.2):
        weights = random.choice(["some", "zero", "negative", "gaps", "too short"])
        W = seeded(random).random(rows)
        W[0, 0] = {"some": 1.0, "zero": 0.0, "negative": -1.0, "gaps": np.nan, "too short": 1.0}[weights]
        arguments["sample_weight"] = W[:-1] if weights == "too short" else W
    return f"{', '.join(words)}, Y: {kind}, mask: {mask is not None}, weights: {weights}", arguments, width


def _links(random: Random, rows: list[int]) -> tuple[str, Any]:
    rng = seeded(random)
    kind = random.choice(["numbers", "zero one", "csr", "coo twice"])
    if maybe(random, 0.2):
        kind = random.choice(
            [
                "zeros",
                "csr of zeros",
                "gaps",
                "all gaps",
                "huge",
                "tiny",
                "infinite",
                "constant",
                "text",
                "transposed",
                "none",
                "frame",
            ]
        )
    Y = rng.standard_normal(rows)
    ones = (rng.random(rows) < 0.4).astype(float)
    if kind == "csr":
        return kind, sparse.csr_array(ones)
    if kind == "coo twice":
        cells = sparse.coo_array(ones)
        i, j = (np.tile(c, 2) for c in cells.coords)
        return kind, sparse.coo_array((np.tile(cells.data / 2, 2), (i, j)), shape=ones.shape)
    if kind == "gaps":
        Y[rng.random(rows) < 0.4] = np.nan
    if kind == "infinite":
        Y[0, 0] = np.inf
    if kind == "frame":
        import pandas as pd

        return kind, pd.DataFrame(ones)
    others = {
        "zero one": ones,
        "zeros": np.zeros(rows),
        "csr of zeros": sparse.csr_array(tuple(rows)),
        "all gaps": np.full(rows, np.nan),
        "huge": Y * 1e300,
        "tiny": Y * 1e-300,
        "constant": np.ones(rows),
        "text": np.full(rows, "a"),
        "transposed": Y.T,
        "none": None,
    }
    return kind, others.get(kind, Y)
