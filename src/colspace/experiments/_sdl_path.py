"""Job postings as in the published tables: every model over xi, the best of each, and the words and covariates that tell."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit

from ..datasets import JobsData
from ..dictionary import SupervisedDictionaryClassifier
from ._core import Row, averaged, unfinished
from ._sdl import measures, sparse_error
from ._sdl_published import youden

Array = NDArray[np.float64]
Index = NDArray[np.intp]

WORDS = 2480
XIS = (0.001, 0.01, 0.1, 1.0, 5.0, 10.0)
MODELS = ("filter", "feature", "filter, convex", "feature, convex")
RIDGE = {
    True: 2.0,
    False: 0.5,
}  # of convex models, and of the others: that of the logistic regression in the authors' sweeps
SHOWN = 10  # words of either sign
NAMED = ("earn", "money", "link", "team", "client", "website")  # words that Fig. 8 is about
MEASURED = (
    "accuracy",
    "sensitivity",
    "specificity",
    "F",
    "AUC",
    "F_tuned",
    "accuracy_tuned",
    "squared_error",
)
BLANK: Mapping[str, Any] = {
    **dict.fromkeys(("part", "table", "covariates", "method", "xi", "runs")),
    **{name: None for key in (*MEASURED, "error_column", "coef") for name in (key, f"{key}_se")},
}


@dataclass(frozen=True)
class PathSize:
    """How much is done."""

    postings: int
    splits: int
    max_iter: int


@dataclass(frozen=True)
class Fitted:
    """Log odds of new rows (words, covariates), and the squared error of words where there is one."""

    odds: Callable[[Any, Array], Array]
    error: Callable[[Any], float] | None = None
    model: Any = None


def words(train: Any) -> TfidfVectorizer:
    """TF-IDF of the most frequent words, English stop words left out."""
    return TfidfVectorizer(max_features=WORDS, stop_words="english", dtype=np.float64).fit(train)


def of_dictionary(model: Any, covariates: int) -> Fitted:
    """A fitted dictionary of words, whose last columns are covariates."""

    def error(A: Any) -> float:
        codes = model.transform(sparse.hstack([A, np.zeros((A.shape[0], covariates))], format="csr"))
        return sparse_error(A, codes, model.components_.T)

    return Fitted(lambda A, B: model.decision_function(sparse.hstack([A, B], format="csr")), error, model)


def at_xi(
    model: str, X: Any, Z: Array, y: Any, xi: float, *, topics: int, max_iter: int, seed: int
) -> Fitted:
    """A dictionary at one xi: nonnegative factors, or the lifted solver, each with its published ridge."""
    convex = model.endswith("convex")
    fitted = SupervisedDictionaryClassifier(
        topics,
        model="filter" if model.startswith("filter") else "feature",
        solver="lpgd" if convex else "lbfgs",
        xi=xi,
        positive=not convex,
        l2=RIDGE[convex],
        covariates=slice(X.shape[1], X.shape[1] + Z.shape[1]) if Z.shape[1] else None,
        class_weight=None,
        threshold=0.5,
        max_iter=max_iter,
        tol=1e-5,
        random_state=seed,
    )
    with unfinished():
        warnings.filterwarnings("ignore", "solver='lpgd' is not sure", UserWarning)  # as in the paper
        fitted.fit(sparse.hstack([X, Z], format="csr"), y)

    return of_dictionary(fitted, Z.shape[1])


def path_rows(
    name: str,
    data: JobsData,
    size: PathSize,
    topics: int,
    plain: Mapping[str, Callable[..., Fitted]],
    seed: int,
    advance: Callable[[], None],
) -> list[Row]:
    """Tables 4 and 5: ``plain`` methods ("LR", "NMF + LR") and every model over xi, means over splits of texts."""
    some = np.random.default_rng(seed).permutation(len(data.y))[: size.postings]
    splits = GroupShuffleSplit(size.splits, test_size=0.2, random_state=seed)
    runs: dict[tuple[bool, str, float | None], list[dict[str, float]]] = {}
    for inner, held in splits.split(some, groups=data.group[some]):
        for covariates in (False, True) if data.covariates.shape[1] else (False,):
            Z = data.covariates if covariates else data.covariates[:, :0]
            found = one_split(data, Z, some[inner], some[held], size, topics, plain, seed, advance)
            for (method, xi), measured in found.items():
                runs.setdefault((covariates, method, xi), []).append(measured)
    rows = []
    for (covariates, method, xi), values in runs.items():
        place = {"part": "path", "table": name, "covariates": covariates, "method": method, "xi": xi}
        rows.append({**BLANK, **place, "runs": len(values), **averaged(values)})
    return rows


def one_split(
    data: JobsData,
    Z: Array,
    train: Index,
    test: Index,
    size: PathSize,
    topics: int,
    plain: Mapping[str, Callable[..., Fitted]],
    seed: int,
    advance: Callable[[], None],
) -> dict[tuple[str, float | None], dict[str, float]]:
    """(method, xi) -> measures of the test rows, cut at Youden's level of the training rows.

    The error column has the relative error over the squared one of NMF, as published.
    """
    vector = words(data.text[train])
    X, T = vector.transform(data.text[train]), vector.transform(data.text[test])
    y, t = data.y[train], data.y[test]
    fits: dict[tuple[str, float | None], Fitted] = {}
    for method, fit in plain.items():
        fits[method, None] = fit(X, Z[train], y, 1.0, seed)
        advance()
    for model in MODELS:
        for xi in XIS:
            fits[model, xi] = at_xi(
                model, X, Z[train], y, xi, topics=topics, max_iter=size.max_iter, seed=seed
            )
            advance()
    rebuilt = fits["NMF + LR", None].error
    assert rebuilt is not None
    unit, found = rebuilt(T), {}
    for (method, at), fitted in fits.items():
        level = youden(y, fitted.odds(X, Z[train]))
        error = 1.0 if fitted.error is None else fitted.error(T)
        found[method, at] = {
            **measures(t, fitted.odds(T, Z[test]), level),
            "squared_error": error,
            "error_column": 1.0 if at is None else float(np.sqrt(error)) / unit,
        }
    return found


def best_rows(path: Sequence[Row]) -> list[Row]:
    """Table 2: of every method the xi with the best mean F on the test rows, as published."""
    best: dict[tuple[bool, str], Row] = {}
    for row in path:
        key = row["covariates"], row["method"]
        if key not in best or row["F"] > best[key]["F"]:
            best[key] = row
    return [{**row, "part": "best"} for row in best.values()]


def coefficient_rows(name: str, data: JobsData) -> list[Row]:
    """Fig. 8: words of the largest coefficients of a logistic regression, and covariates beside all words."""
    vector = words(data.text)
    X = vector.transform(data.text)
    names = vector.get_feature_names_out()
    coef = LogisticRegression(max_iter=5000).fit(X, data.y).coef_[0]
    order = np.argsort(coef)
    shown = {*order[:SHOWN].tolist(), *order[-SHOWN:].tolist()}
    shown |= {i for i, word in enumerate(names) if word in NAMED}
    rows: list[Row] = [
        {**BLANK, "part": "word", "table": name, "method": str(names[i]), "coef": float(coef[i])}
        for i in sorted(shown)
    ]
    if data.covariates.shape[1]:
        both = LogisticRegression(max_iter=5000).fit(
            sparse.hstack([X, data.covariates], format="csr"), data.y
        )
        rows += [
            {**BLANK, "part": "covariate", "table": name, "method": label, "coef": float(value)}
            for label, value in zip(data.covariate_names, both.coef_[0, X.shape[1] :], strict=True)
        ]
    return rows
