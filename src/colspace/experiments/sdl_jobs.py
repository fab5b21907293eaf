"""Supervised topics of real and fake job postings: scores by cross-validation over distinct texts, and the topics.

TF-IDF of the 2,480 most frequent words, fitted inside the fold; 20 topics; the covariates skip the dictionary. Folds
keep postings with the same title and description together. Within the training rows of a fold a quarter of the texts
is held out: its AUC chooses xi (or the C of logistic regression) and its best F the threshold.

The paper's table, 17,880 postings with their text, is the user's download (`fake_job_postings.csv` of Kaggle, in the
folder that COLSPACE_DATA names) and is used when it is there. Otherwise: a case-control part of it with text and
covariates, in which frauds are far more frequent than in the source, so that no rate in it means anything for the
whole; and the titles of nearly all postings, a text of a few words and no covariates. See `colspace.datasets.load_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, GroupShuffleSplit
from threadpoolctl import threadpool_limits

from .._progress import track
from ..datasets import JobsData, load_jobs
from ..dictionary import SupervisedDictionaryClassifier
from ..displays._style import COLOURS, GREY, MARKERS, pyplot, tidy
from ._core import Result, Row, write
from ._sdl import best_f_level, logistic, measures, sparse_error, unfinished

Array = NDArray[np.float64]
Odds = Callable[[Any, Array], Array]

WORDS, TOPICS, FOLDS = 2480, 20, 5
SHOWN = 10  # words of a topic
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # C of logistic regression
SHARES = (0.1, 1.0, 10.0)  # of the automatic xi
RIDGES = (0.001, 0.01)  # l2, in units of the mean ||x||^2


@dataclass(frozen=True)
class Fitted:
    """Log odds of new rows (words, covariates), and the squared error of words where there is one."""

    odds: Odds
    error: Callable[[Any], float] | None = None
    model: Any = None


def fit_logistic(X: Any, Z: Array, y: Any, C: float, seed: int) -> Fitted:
    """Logistic regression on all words and covariates."""
    model = LogisticRegression(C=C, max_iter=5000).fit(sparse.hstack([X, Z], format="csr"), y)
    return Fitted(lambda A, B: model.decision_function(sparse.hstack([A, B], format="csr")))


def fit_nmf(X: Any, Z: Array, y: Any, C: float, seed: int) -> Fitted:
    """Topics first, then logistic regression on them and the covariates."""
    nmf = NMF(TOPICS, init="nndsvda", max_iter=500, random_state=seed)
    with unfinished():
        nmf.fit(X)
        model = logistic(C=C).fit(np.hstack([nmf.transform(X), Z]), y)

    def odds(A: Any, B: Array) -> Array:
        with unfinished():
            scores: Array = model.decision_function(np.hstack([nmf.transform(A), B]))
        return scores

    def error(A: Any) -> float:
        with unfinished():
            return sparse_error(A, nmf.transform(A), nmf.components_.T)

    return Fitted(odds, error)


def fit_dictionary(**parameters: Any) -> Callable[..., Fitted]:
    """Supervised dictionary with a share of the automatic xi and a ridge relative to the words' mean square."""

    def fit(X: Any, Z: Array, y: Any, choice: tuple[float, float], seed: int) -> Fitted:
        square = float(X.multiply(X).sum()) / X.shape[0]
        columns = slice(X.shape[1], X.shape[1] + Z.shape[1])
        model = SupervisedDictionaryClassifier(
            TOPICS,
            solver="lbfgs",
            xi=choice[0] * np.log(2) / square,
            l2=choice[1] * square,
            covariates=columns if Z.shape[1] else None,
            max_iter=100,
            tol=1e-5,
            random_state=seed,
            **parameters,
        )
        with unfinished():
            model.fit(sparse.hstack([X, Z], format="csr"), y)

        def error(A: Any) -> float:
            codes = model.transform(sparse.hstack([A, np.zeros((A.shape[0], Z.shape[1]))], format="csr"))
            return sparse_error(A, codes, model.components_.T)

        return Fitted(lambda A, B: model.decision_function(sparse.hstack([A, B], format="csr")), error, model)

    return fit


_CHOICES = tuple((share, ridge) for share in SHARES for ridge in RIDGES)
#: Method -> how it is fitted, and what is tried on held-out training texts.
METHODS: Mapping[str, tuple[Callable[..., Fitted], tuple[Any, ...]]] = {
    "LR": (fit_logistic, STRENGTHS),
    "NMF + LR": (fit_nmf, STRENGTHS),
    "filter, nonnegative": (fit_dictionary(positive=True), _CHOICES),
    "filter": (fit_dictionary(), _CHOICES),
    "feature, nonnegative": (fit_dictionary(positive=True, model="feature"), _CHOICES),
}


def words(train: Any) -> TfidfVectorizer:
    """TF-IDF of the most frequent words, English stop words left out."""
    return TfidfVectorizer(max_features=WORDS, stop_words="english", dtype=np.float64).fit(train)


@dataclass(frozen=True)
class Choice:
    """What held-out training texts chose."""

    value: Any
    level: float


def choose(
    data: JobsData, Z: Array, rows: NDArray[np.intp], method: str, seed: int, slack: float = 0.0
) -> Choice:
    """The last parameter within ``slack`` of the largest AUC on held-out texts of ``rows``, and the best threshold there."""
    fit, candidates = METHODS[method]
    split = GroupShuffleSplit(1, test_size=0.25, random_state=seed)
    inner, held = next(split.split(rows, groups=data.group[rows]))
    train, test = rows[inner], rows[held]
    vector = words(data.text[train])
    X, T = vector.transform(data.text[train]), vector.transform(data.text[test])
    found = []
    for value in candidates:
        odds = fit(X, Z[train], data.y[train], value, seed).odds(T, Z[test])
        level = best_f_level(data.y[test], odds)
        found.append((measures(data.y[test], odds)["AUC"], Choice(value, level)))
    best = max(score for score, _ in found)
    return next(choice for score, choice in reversed(found) if score >= best - slack)


def cross_validate(
    name: str, data: JobsData, folds: int, methods: tuple[str, ...], seed: int, advance: Callable[[], None]
) -> list[Row]:
    """Scores of every method with and without covariates, one row per fold."""
    rows: list[Row] = []
    splits = list(GroupKFold(FOLDS, shuffle=True, random_state=seed).split(data.text, groups=data.group))
    for fold, (train, test) in enumerate(splits[:folds]):
        vector = words(data.text[train])
        X, T = vector.transform(data.text[train]), vector.transform(data.text[test])
        for covariates in (True, False) if data.covariates.shape[1] else (False,):
            Z = data.covariates if covariates else data.covariates[:, :0]
            for method in methods:
                chosen = choose(data, Z, train, method, seed)
                fitted = METHODS[method][0](X, Z[train], data.y[train], chosen.value, seed)
                odds = fitted.odds(T, Z[test])
                plain, tuned = measures(data.y[test], odds), measures(data.y[test], odds, chosen.level)
                rows.append(
                    {
                        "table": name,
                        "covariates": covariates,
                        "method": method,
                        "fold": fold,
                        "chosen": str(chosen.value),
                        **plain,
                        "F_tuned": tuned["F"],
                        "accuracy_tuned": tuned["accuracy"],
                        "squared_error": 1.0 if fitted.error is None else fitted.error(T),
                    }
                )
                advance()
    return rows


def summarise(rows: list[Row]) -> list[Row]:
    """Means over folds."""
    keys = dict.fromkeys((row["table"], row["covariates"], row["method"]) for row in rows)
    out = []
    for key in keys:
        mine = [row for row in rows if (row["table"], row["covariates"], row["method"]) == key]

        def mean(column: str, mine: list[Row] = mine) -> str:
            return f"{np.mean([row[column] for row in mine]):.3f}"

        out.append(
            {
                "postings": key[0],
                "covariates": "yes" if key[1] else "no",
                "method": key[2],
                "AUC": mean("AUC"),
                "F": mean("F"),
                "F, tuned": mean("F_tuned"),
                "accuracy": mean("accuracy"),
                "squared error": mean("squared_error"),
                "folds": len(mine),
            }
        )
    return out


@dataclass(frozen=True)
class Topics:
    """Topics of all postings of a table: top words and coefficient of each, and the covariates' coefficients."""

    words: list[tuple[str, ...]]
    coef: Array
    covariate_names: tuple[str, ...]
    covariate_coef: Array

    def lines(self) -> list[str]:
        """One line per topic, from the most fraudulent to the least; coefficients are of the standardised strength."""
        order = np.argsort(-self.coef)
        return [f"{self.coef[i]:+6.2f}  {' '.join(self.words[i])}" for i in order]


def topics(data: JobsData, seed: int) -> Topics:
    """The nonnegative filter model of all rows, with the largest xi that costs held-out texts at most 0.01 of AUC."""
    everything = np.arange(len(data.y))
    chosen = choose(data, data.covariates, everything, "filter, nonnegative", seed, slack=0.01)
    vector = words(data.text)
    X = vector.transform(data.text)
    fit = METHODS["filter, nonnegative"][0]
    model = fit(X, data.covariates, data.y, chosen.value, seed).model
    names = vector.get_feature_names_out()
    strength = np.asarray(X @ model.components_.T)
    top = [tuple(names[np.argsort(-atom)[:SHOWN]]) for atom in model.components_]
    return Topics(top, model.coef_[0] * strength.std(axis=0), data.covariate_names, model.covariate_coef_[0])


def tables() -> dict[str, JobsData]:
    """The postings at hand: all of them, or the two parts."""
    try:
        return {"full": load_jobs(table="full")}
    except FileNotFoundError:
        return {"case-control": load_jobs(table="case-control"), "titles": load_jobs(table="titles")}


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Five folds of every table; one fold of the first table, three methods, when quick."""
    found = tables()
    if quick:
        found = dict(list(found.items())[:1])
    methods = ("LR", "NMF + LR", "filter, nonnegative") if quick else tuple(METHODS)
    folds = 1 if quick else FOLDS
    total = sum((2 if data.covariates.shape[1] else 1) * folds * len(methods) for data in found.values())
    rows: list[Row] = []
    with threadpool_limits(1), track(total, "sdl-jobs", show=progress) as advance:
        for name, data in found.items():
            rows += cross_validate(name, data, folds, methods, rng, advance)
        name, data = next(iter(found.items()))
        learned = topics(data, rng)
    summary = summarise(rows)
    sizes = "; ".join(f"{name}: {len(d.y):,} postings, {d.y.sum():,} fraudulent" for name, d in found.items())
    notes = [
        f"{sizes}. {folds} of {FOLDS} folds, split by text.",
        "'F, tuned' uses the threshold of held-out training texts, F and accuracy probability 0.5.",
    ]
    if "full" not in found:
        notes.append(
            "The published table (17,880 postings with text) is not at hand: put Kaggle's fake_job_postings.csv into the "
            "folder that COLSPACE_DATA names. The parts used instead have other rates of fraud, so scores are not the paper's."
        )
    notes.append(
        f"Topics of '{name}', with its covariates if it has any: coefficient per standard deviation, then words:"
    )
    notes += learned.lines()
    title = "Real and fake job postings: supervised topics by cross-validation over distinct texts"

    def figure() -> Any:
        return draw(title, summary, learned)

    return write(Result("sdl-jobs", title, rows, summary, tuple(notes), figure), out)


def draw(title: str, summary: list[Row], learned: Topics) -> Any:
    """Error against F for every table, and the largest coefficients, topics and covariates together."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(12.6, 5.6), layout="constrained")
    figure.suptitle(title, fontsize="large")
    for i, method in enumerate(dict.fromkeys(row["method"] for row in summary)):
        for row in (row for row in summary if row["method"] == method):
            filled = COLOURS[i] if row["covariates"] == "yes" else "none"
            axes[0].plot(
                float(row["squared error"]),
                float(row["F, tuned"]),
                color=COLOURS[i],
                marker=MARKERS[i],
                markerfacecolor=filled,
                linestyle="none",
                label=f"{method}, {row['postings']}" + (", covariates" if row["covariates"] == "yes" else ""),
            )
    axes[0].set_xlabel("squared relative error of held-out words")
    axes[0].set_ylabel("F of the fraudulent, tuned threshold")
    axes[0].legend(frameon=False, fontsize="xx-small")
    names = [" ".join(top[:4]) for top in learned.words] + list(learned.covariate_names)
    values = np.concatenate([learned.coef, learned.covariate_coef])
    order = np.argsort(np.abs(values))[-20:]
    order = order[np.argsort(values[order])]
    colours = [COLOURS[0] if i < len(learned.words) else GREY for i in order]
    axes[1].barh(range(len(order)), values[order], color=colours)
    axes[1].set_yticks(range(len(order)), [names[i] for i in order], fontsize="x-small")
    axes[1].set_xlabel("coefficient: topics (blue), covariates (grey)")
    for ax in axes:
        tidy(ax)
    return figure
