"""Supervised topics of real and fake job postings: scores by cross-validation over distinct texts, and the topics.

TF-IDF of the 2,480 most frequent words, fitted inside the fold; 20 topics; the covariates skip the dictionary. Folds
keep postings with the same title and description together. Within the training rows of a fold a quarter of the texts
is held out: its AUC chooses xi (or the C of logistic regression) and its best F the threshold. The path of xi follows the published tables: one split of 80 and 20 %
a run, Youden's threshold of the training rows, errors over the squared one of NMF, ridges of 2 (convex models) and 1/2.

The paper's table, 17,880 postings with their text, is the user's download (`fake_job_postings.csv` of Kaggle, in the
folder that COLSPACE_DATA names) and is used when it is there. Otherwise: a case-control part of it with text and
covariates, in which frauds are far more frequent than in the source, so that no rate in it means anything for the
whole; and the titles of nearly all postings, a text of a few words and no covariates. See `colspace.datasets.load_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from ..datasets import JobsData, load_jobs
from ..dictionary import SupervisedDictionaryClassifier
from ..displays._style import COLOURS, grey, tidy
from ._core import Result, Row, averaged, unfinished, working, write
from ._figures import below, line_of, opened
from ._sdl import best_f_level, logistic, measures, sparse_error
from ._sdl_path import (
    BLANK,
    MEASURED,
    MODELS,
    XIS,
    Fitted,
    PathSize,
    best_rows,
    coefficient_rows,
    of_dictionary,
    path_rows,
    words,
)

Array = NDArray[np.float64]

TOPICS, FOLDS = 20, 5
NAME = "sdl-jobs"
SHOWN = 10  # words of a topic
FOLDS_RUN = {True: 1, False: FOLDS}
FEW = 140  # postings when quick
PATH = {True: PathSize(140, 2, 4), False: PathSize(20_000, 3, 100)}
STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # C of logistic regression
SHARES = (0.1, 1.0, 10.0)  # of the automatic xi
RIDGES = (0.001, 0.01)  # l2, in units of the mean ||x||^2


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
        return of_dictionary(model, Z.shape[1])

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
    """Means over folds, with standard errors."""
    out = []
    for table, covariates, method in dict.fromkeys((r["table"], r["covariates"], r["method"]) for r in rows):
        mine = [r for r in rows if (r["table"], r["covariates"], r["method"]) == (table, covariates, method)]
        numbers_of = [{key: r[key] for key in MEASURED if key in r} for r in mine]
        place = {"part": "folds", "table": table, "covariates": covariates, "method": method}
        out.append({**BLANK, **place, "runs": len(mine), **averaged(numbers_of)})
    return out


@dataclass(frozen=True)
class Topics:
    """Topics of all postings of a table: top words and coefficient of each, and the covariates' coefficients.

    All coefficients are per standard deviation, so that topics and covariates share a scale.
    """

    words: list[tuple[str, ...]]
    coef: Array
    covariate_names: tuple[str, ...]
    covariate_coef: Array

    def lines(self) -> list[str]:
        """One line per topic, from the most fraudulent to the least."""
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
    covariate_coef = model.covariate_coef_[0] * data.covariates.std(axis=0)
    return Topics(top, model.coef_[0] * strength.std(axis=0), data.covariate_names, covariate_coef)


def nmf_topics(data: JobsData, seed: int) -> Topics:
    """Topics of NMF and the coefficients of a logistic regression on them and the covariates."""
    vector = words(data.text)
    X = vector.transform(data.text)
    nmf = NMF(TOPICS, init="nndsvda", max_iter=500, random_state=seed)
    with unfinished():
        codes = nmf.fit_transform(X)
        coef = logistic().fit(np.hstack([codes, data.covariates]), data.y)[-1].coef_[0]
    names = vector.get_feature_names_out()
    top = [tuple(names[np.argsort(-atom)[:SHOWN]]) for atom in nmf.components_]
    return Topics(top, coef[:TOPICS], data.covariate_names, coef[TOPICS:])


def tables() -> dict[str, JobsData]:
    """The postings at hand: all of them, or the two parts."""
    try:
        return {"full": load_jobs(table="full")}
    except FileNotFoundError:
        return {"case-control": load_jobs(table="case-control"), "titles": load_jobs(table="titles")}


def some_of(data: JobsData, n: int, seed: int) -> JobsData:
    """n postings, drawn at random."""
    rows = np.random.default_rng(seed).permutation(len(data.y))[:n]
    return replace(
        data, text=data.text[rows], covariates=data.covariates[rows], y=data.y[rows], group=data.group[rows]
    )


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Five folds of every table and the path of xi; when quick 140 postings of the first, one fold, three methods."""
    found = tables()
    name, data = next(iter(found.items()))
    told = coefficient_rows(name, data)
    if quick:
        data = some_of(data, FEW, rng)
        found = {name: data}
    methods = ("LR", "NMF + LR", "filter, nonnegative") if quick else tuple(METHODS)
    folds = FOLDS_RUN[quick]
    total = sum((2 if d.covariates.shape[1] else 1) * folds * len(methods) for d in found.values())
    total += PATH[quick].splits * 2 * (2 + len(MODELS) * len(XIS))
    each: list[Row] = []
    with working(total, NAME, progress) as advance:
        for table, postings in found.items():
            each += cross_validate(table, postings, folds, methods, rng, advance)
        path = path_rows(
            name, data, PATH[quick], TOPICS, {"LR": fit_logistic, "NMF + LR": fit_nmf}, rng, advance
        )
        learned, plain = topics(data, rng), nmf_topics(data, rng)
    rows = summarise(each) + path + best_rows(path) + told
    sizes = "; ".join(
        f"{table}: {len(d.y):,} postings, {d.y.sum():,} fraudulent" for table, d in found.items()
    )
    notes = [
        f"{sizes}. {folds} of {FOLDS} folds, split by text.",
        "'F, tuned' uses the threshold of held-out training texts, F and accuracy of folds probability 0.5; the path uses Youden's of training rows.",
    ]
    if "full" not in found:
        notes.append(
            "The published table (17,880 postings with text) is not at hand: put Kaggle's fake_job_postings.csv into the "
            "folder that COLSPACE_DATA names. The parts used instead have other rates of fraud, so scores are not the paper's."
        )
    for what, some in (("Supervised topics", learned), ("Topics of NMF", plain)):
        notes.append(
            f"{what} of '{name}', with its covariates if it has any: coefficient per standard deviation, then words:"
        )
        notes += some.lines()
    title = "Paper 004, Tables 2, 4, 5 and Figs. 8 to 10: real and fake job postings"
    size = f"{sizes}; {folds} folds, {PATH[quick].splits} splits of at most {PATH[quick].postings:,} postings on the path"
    shown = [_shown(row) for row in rows if row["part"] in ("folds", "path", "best")]
    figure, other = partial(draw, title, rows, learned, plain), "full" not in found
    return write(Result(NAME, title, rows, shown, tuple(notes), figure, size=size, stand_in=other), out)


def _shown(row: Row) -> Row:
    def number(key: str) -> str:
        return "" if row[key] is None else f"{row[key]:.3f}"

    return {
        "part": row["part"],
        "postings": row["table"],
        "covariates": "yes" if row["covariates"] else "no",
        "method": row["method"],
        "xi": "" if row["xi"] is None else f"{row['xi']:g}",
        "AUC": number("AUC"),
        "F": number("F"),
        "F, tuned": number("F_tuned"),
        "accuracy": number("accuracy"),
        "squared error": number("squared_error"),
        "error column": number("error_column"),
        "runs": row["runs"],
    }


def draw(title: str, rows: list[Row], learned: Topics, plain: Topics) -> Any:
    """Error against F over xi, and the largest coefficients of topics and covariates, ours and NMF's."""
    figure, grid = opened(title, 1, 3, (15, 6.4))
    axes = grid[0]
    path = [row for row in rows if row["part"] == "path"]
    for i, method in enumerate(dict.fromkeys(row["method"] for row in path)):
        for covariates in dict.fromkeys(row["covariates"] for row in path):
            here = [r for r in path if (r["method"], r["covariates"]) == (method, covariates)]
            style = {"label": method + (", covariates" if covariates else "")}
            style["linestyle"] = "-" if covariates else "--"
            if here[0]["xi"] is None:  # one value, no path
                axes[0].axhline(here[0]["F"], color=COLOURS[i], **style)
            else:
                style["markerfacecolor"] = COLOURS[i] if covariates else "none"
                line_of(axes[0], here, "error_column", "F", "F_se", i, **style)
    axes[0].set_title("Pareto plot over xi (Fig. 10)", fontsize="medium")
    axes[0].set_xlabel("relative error over the squared one of NMF")
    axes[0].set_ylabel("F of the fraudulent, Youden's threshold of training rows")
    below(axes[0], gap=0.1, columns=2)
    tidy(axes[0])
    for ax, some, name in ((axes[1], learned, "supervised"), (axes[2], plain, "NMF + LR")):
        names = [" ".join(top[:4]) for top in some.words] + list(some.covariate_names)
        values = np.concatenate([some.coef, some.covariate_coef])
        order = np.argsort(np.abs(values))[-20:]
        order = order[np.argsort(values[order])]
        colours = [COLOURS[0] if i < len(some.words) else grey() for i in order]
        ax.barh(range(len(order)), values[order], color=colours)
        ax.set_yticks(range(len(order)), [names[i] for i in order], fontsize="xx-small")
        ax.set_title(f"topics (blue) and covariates (grey): {name} (Fig. 9)", fontsize="small")
        ax.set_xlabel("coefficient per standard deviation")
        tidy(ax)
    return figure
