"""Supervised dictionaries as they come: log loss, accuracy and error of held-out rows, seeds, seconds.

COLSPACE_DATA=folder python benchmarks/dictionary_defaults.py [--only quality seeds cv speed shift] [--tables digits ...]

Defaults were chosen on the tables marked "design"; the others were looked at once. PYTHONPATH=another/checkout/src has
the same figures of another version. Without a folder the tables are the digits of scikit-learn alone. Seconds are of one thread's CPU.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler
from threadpoolctl import threadpool_limits

from colspace import SupervisedDictionaryClassifier
from dictionary import text

Array = NDArray[Any]
FOLDER = os.environ.get("COLSPACE_DATA")
PAIRS = ((1, 8), (3, 8), (3, 9), (4, 9), (5, 9), (8, 9))
FUNCTIONS = 6


@dataclass(frozen=True)
class Table:
    """Rows with labels, the number of atoms, and splits into fitted and held-out rows."""

    name: str
    X: Any
    y: Array
    atoms: int
    splits: list[tuple[Array, Array]]
    aside: bool = False
    words: Any = None

    @property
    def positive(self) -> bool:
        return bool(self.X.min() >= 0)


def halves(X: Any, y: Array, count: int = 3, most: int | None = None) -> list[tuple[Array, Array]]:
    cut = StratifiedShuffleSplit(count, train_size=most or 0.5, test_size=most or 0.5, random_state=0)
    return list(cut.split(X, y))


def digits() -> Iterator[Table]:
    X, y = load_digits(return_X_y=True)
    for pair in PAIRS:
        rows = np.isin(y, pair)
        yield Table(f"digits {pair[0]}v{pair[1]}", X[rows] / 16, y[rows], 5, halves(X[rows], y[rows]))


def mfeat() -> Iterator[Table]:
    data = np.load(Path(FOLDER or "") / "mfeat.npz")
    for view, aside in (("pix", False), ("zer", True)):
        X = data[view].astype(float)
        yield Table(f"mfeat {view}", X / X.max(), data["y"], 20, halves(X, data["y"], 2), aside)


def genes() -> Iterator[Table]:
    data = np.load(Path(FOLDER or "") / "m1_patchseq.npz")
    counts, family = data["counts"].astype(float), data["rna_family"].astype(str)
    names, sizes = np.unique(family, return_counts=True)
    rows = np.isin(family, names[sizes >= 50])
    X = np.log1p(1e4 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    X = MinMaxScaler().fit_transform(X[rows][:, data["gene_var_rank"] < 500])
    yield Table("genes", X, family[rows], 10, halves(X, family[rows], 2))


def jobs() -> Iterator[Table]:
    import pandas as pd

    frame = pd.read_parquet(Path(FOLDER or "") / "fake_jobs_partial.parquet")
    frame = frame[frame["function"].isin(frame["function"].value_counts().index[:FUNCTIONS])]
    texts = (frame["description"].fillna("") + " " + frame["requirements"].fillna("")).to_numpy(dtype=object)
    groups = pd.factorize(frame["title"].fillna("") + frame["description"].fillna(""))[0]
    vector = TfidfVectorizer(max_features=2000, min_df=3, stop_words="english", token_pattern="[a-z]{3,}")
    X, y = sparse.csr_array(vector.fit_transform(texts)), frame["function"].to_numpy(dtype=str)
    splits = list(GroupShuffleSplit(3, test_size=0.3, random_state=0).split(X, y, groups))
    yield Table("job functions", X, y, 20, splits, words=vector.get_feature_names_out())


def mnist() -> Iterator[Table]:
    data = np.load(Path(FOLDER or "") / "mnist.npz")
    rows = np.isin(data["y_train"], (4, 9))
    X, y = data["x_train"][rows].reshape(rows.sum(), -1) / 255.0, data["y_train"][rows]
    yield Table("mnist 4v9", X, y, 10, halves(X, y, 2, 1500), aside=True)


def pneumonia() -> Iterator[Table]:
    data = np.load(Path(FOLDER or "") / "pneumoniamnist_28.npz")
    parts = ("train", "val", "test")
    X = np.concatenate([data[f"{part}_images"] for part in parts])
    y = np.concatenate([np.ravel(data[f"{part}_labels"]) for part in parts])
    rows, held = np.arange(len(data["train_labels"])), len(y) - np.arange(1, 1 + len(data["test_labels"]))
    X = X.reshape(len(X), -1) / 255.0
    yield Table("pneumonia", X, y, 25, [(rows[:2000], held)], aside=True)


TABLES: dict[str, Callable[[], Iterator[Table]]] = {
    "digits": digits,
    "mfeat": mfeat,
    "genes": genes,
    "jobs": jobs,
    "mnist": mnist,
    "pneumonia": pneumonia,
}


def error_of(X: Any, codes: Array, atoms: Array) -> float:
    """||X - codes atoms||^2 / ||X||^2."""
    size = float((X.multiply(X) if sparse.issparse(X) else X * X).sum())
    cross = float(np.sum((X @ atoms.T) * codes))
    return (size - 2 * cross + float(np.vdot(codes.T @ codes, atoms @ atoms.T))) / size


def coherence(words: Any, atoms: Array, top: int = 10) -> float:
    """Mean NPMI of pairs of the leading words of each atom, from documents that hold both."""
    seen = sparse.csr_array(words > 0).astype(float)
    scores = []
    for atom in atoms:
        chosen = np.argsort(-np.abs(atom))[:top]
        both = np.asarray((seen[:, chosen].T @ seen[:, chosen]).todense()) / seen.shape[0]
        i, j = np.triu_indices(top, 1)
        alone, pair = np.diag(both), both[i, j]
        known = pair > 0
        score = np.full(len(i), -1.0)
        score[known] = np.log(pair[known] / (alone[i] * alone[j])[known]) / -np.log(pair[known])
        scores.append(score.mean())
    return float(np.mean(scores))


def matched(first: Array, second: Array) -> Array:
    """|cosine| of each atom with the one it is paired to."""
    unit = [a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300) for a in (first, second)]
    cosine = np.abs(unit[0] @ unit[1].T)
    return np.asarray(cosine[linear_sum_assignment(-cosine)])


VARIANTS: dict[str, dict[str, Any]] = {
    "filter": {},
    "filter +": {"positive": True},
    "filter + topics": {"positive": True, "xi": "topics"},
    "feature": {"model": "feature"},
    "feature +": {"model": "feature", "positive": True},
}


def variants(table: Table) -> list[str]:
    return [
        name
        for name, given in VARIANTS.items()
        if (table.positive or not given.get("positive"))
        and (given.get("xi") != "topics" or table.words is not None)
    ]


def rivals(table: Table) -> None:
    """Logistic regression on all columns; NMF or an SVD with logistic regression."""
    lines: dict[str, list[list[float]]] = {}
    for rows, held in table.splits:
        X, y, T, t = table.X[rows], table.y[rows], table.X[held], table.y[held]
        plain = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=3000)).fit(X, y)
        lines.setdefault("LR", []).append(
            [log_loss(t, plain.predict_proba(T)), plain.score(T, t), np.nan, np.nan]
        )
        kinds: list[Any] = [TruncatedSVD(table.atoms, random_state=0)]
        if table.positive:
            kinds.append(NMF(table.atoms, init="nndsvda", max_iter=500, random_state=0))
        for kind in kinds:
            Z, Z_test = kind.fit_transform(X), kind.transform(T)
            reader = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=3000)).fit(Z, y)
            npmi = np.nan if table.words is None else coherence(table.X, kind.components_)
            lines.setdefault(type(kind).__name__ + " + LR", []).append(
                [
                    log_loss(t, reader.predict_proba(Z_test)),
                    reader.score(Z_test, t),
                    error_of(T, Z_test, kind.components_),
                    npmi,
                ]
            )
    for name, values in lines.items():
        show(table.name, name, np.mean(values, axis=0))


def show(table: str, name: str, values: Array, rest: str = "") -> None:
    loss, accuracy, error, npmi = values
    more = "" if np.isnan(npmi) else f" NPMI {npmi:.3f}"
    print(
        f"{table:14} {name:18} log loss {loss:6.4f} accuracy {accuracy:.4f} error {error:.4f}{more}{rest}",
        flush=True,
    )


def quality(table: Table) -> None:
    if not table.name.startswith("digits"):
        rivals(table)
    for name in variants(table):
        rows_of, spent, steps = [], 0.0, []
        for rows, held in table.splits:
            X, T, t = table.X[rows], table.X[held], table.y[held]
            model = SupervisedDictionaryClassifier(table.atoms, random_state=0, **VARIANTS[name])
            began = time.process_time()
            model.fit(X, table.y[rows])
            spent += time.process_time() - began
            steps.append(model.n_iter_)
            npmi = np.nan if table.words is None else coherence(table.X, model.components_)
            probability = model.predict_proba(T)
            error = error_of(T, np.asarray(model.transform(T)), model.components_)
            rows_of.append([log_loss(t, probability, labels=model.classes_), model.score(T, t), error, npmi])
        rest = f"  {spent / len(steps):6.2f} s {np.mean(steps):4.0f} iterations"
        show(table.name, name, np.mean(rows_of, axis=0), rest)


def seeds(table: Table, count: int = 5) -> None:
    """Mean matched cosine of atoms over seeds, the least of them, and the same of NMF from random starts."""
    rows = table.splits[0][0]
    for name in variants(table):
        fits = [
            SupervisedDictionaryClassifier(table.atoms, random_state=seed, **VARIANTS[name])
            .fit(table.X[rows], table.y[rows])
            .components_
            for seed in range(count)
        ]
        pairs = [matched(fits[0], other) for other in fits[1:]]
        print(
            f"{table.name:14} {name:18} matched cosine {np.mean(pairs):.4f}, least {np.min(pairs):.4f}",
            flush=True,
        )


def cv(table: Table) -> None:
    """What a search by cross-validation chooses and costs, beside five single fits times its folds."""
    from colspace import SupervisedDictionaryClassifierCV

    rows, held = table.splits[0]
    X, y, T, t = table.X[rows], table.y[rows], table.X[held], table.y[held]
    given = {"positive": True} if table.words is not None else {}
    began = time.process_time()
    single = SupervisedDictionaryClassifier(table.atoms, random_state=0, **given).fit(X, y)
    alone = time.process_time() - began
    began = time.process_time()
    search = SupervisedDictionaryClassifierCV(random_state=0, **given).fit(X, y)
    spent = time.process_time() - began
    folds = search.scores_.shape[-1]
    print(
        f"{table.name:14} {search.n_components_} atoms, xi {search.xi_:.3g}, l2 {search.l2_:.3g}: "
        f"log loss {log_loss(t, search.predict_proba(T)):.4f} accuracy {search.score(T, t):.4f} "
        f"error {error_of(T, np.asarray(search.transform(T)), search.components_):.4f}; single fit with {table.atoms} "
        f"{log_loss(t, single.predict_proba(T)):.4f} {single.score(T, t):.4f}; {spent:.2f} s for "
        f"{search.scores_[..., 0].size} settings x {folds} folds = {spent / alone / folds:.1f} single fits a fold",
        flush=True,
    )


def best_time(fit: Callable[[], Any], times: int = 2) -> tuple[float, Any]:
    spent = []
    for _ in range(times):
        began = time.process_time()
        model = fit()
        spent.append(time.process_time() - began)
    return min(spent), model


@cache
def ten_digits() -> tuple[Array, Array, Array, Array]:
    data = np.load(Path(FOLDER or "") / "mnist.npz")
    rows = np.random.default_rng(0).permutation(len(data["x_train"]))[:20_000]
    X, T = (A.reshape(len(A), -1) / 255.0 for A in (data["x_train"][rows], data["x_test"]))
    return X, data["y_train"][rows], T, data["y_test"]


def speed() -> None:
    if FOLDER:
        X, y, T, t = ten_digits()
        two = np.isin(y, (4, 9))
        for name, A, b, B, c in (
            ("float64", X, y, T, t),
            ("float32", X.astype(np.float32), y, T.astype(np.float32), t),
            ("4 or 9, float64", X, y == 4, T, t == 4),
            ("4v9", X[two], y[two], T[np.isin(t, (4, 9))], t[np.isin(t, (4, 9))]),
        ):
            spent, model = best_time(
                lambda A=A, b=b: SupervisedDictionaryClassifier(25, random_state=0).fit(A, b)
            )
            error = error_of(B, np.asarray(model.transform(B)), model.components_)
            print(
                f"MNIST {A.shape[0]} x 784, 25 atoms, {name}: {spent:.2f} s, {model.n_iter_} iterations, {model.solver_}, "
                f"objective {model.objective_:.6g}, accuracy {model.score(B, c):.4f}, error {error:.4f}",
                flush=True,
            )
        spent, model = best_time(
            lambda: SupervisedDictionaryClassifier(25, positive=True, random_state=0).fit(X, y), 1
        )
        error = error_of(T, np.asarray(model.transform(T)), model.components_)
        print(
            f"MNIST 20000 x 784, 25 atoms, positive: {spent:.2f} s, {model.n_iter_} iterations, {model.solver_}, "
            f"objective {model.objective_:.6g}, accuracy {model.score(T, t):.4f}, error {error:.4f}",
            flush=True,
        )
    table = text(14304, 2480, 20, 72, np.random.default_rng(0))
    X = sparse.csr_array(sparse.hstack([table.X, table.Z]))
    y, half = table.Y[:, 0], 10_000
    for kind in ("filter", "feature"):
        model = SupervisedDictionaryClassifier(
            20, positive=True, model=kind, covariates=slice(2480, 2552), random_state=0
        )
        spent, model = best_time(lambda model=model: model.fit(X[:half], y[:half]), 1)
        T, t = X[half:], y[half:]
        error = error_of(table.X[half:], np.asarray(model.transform(T)), model.components_)
        print(
            f"{table.name}, 20 atoms, positive, {kind}: {spent:.2f} s, {model.n_iter_} iterations, {model.solver_}, objective "
            f"{model.objective_:.6g}, log loss {log_loss(t, model.predict_proba(T)):.4f}, "
            f"accuracy {model.score(T, t):.4f}, error {error:.4f}",
            flush=True,
        )


def shift() -> None:
    """Whether it is the share of ill people, or the images, that makes the ridge of former versions better on the test X-rays.

    Log loss and accuracy of the test images, of the same weighted to the shares of the fitted ones, and of training images left out.
    """
    data = np.load(Path(FOLDER or "") / "pneumoniamnist_28.npz")
    (X, y), (T, t) = (
        (
            data[f"{part}_images"].reshape(len(data[f"{part}_labels"]), -1) / 255.0,
            np.ravel(data[f"{part}_labels"]),
        )
        for part in ("train", "test")
    )
    rest, left, X, y = X[2000:], y[2000:], X[:2000], y[:2000]
    print(f"share of ill people: {y.mean():.3f} fitted, {left.mean():.3f} left out, {t.mean():.3f} test")
    weight = np.where(t == 1, y.mean() / t.mean(), (1 - y.mean()) / (1 - t.mean()))
    square = float(np.mean(np.sum(X * X, axis=1)))
    for model, former in (("filter", 0.01 * square), ("feature", 0.01)):
        for name, l2 in (("former ridge", former), ("default", "auto")):
            fit = SupervisedDictionaryClassifier(25, model=model, l2=l2, random_state=0).fit(X, y)
            tested, other = fit.predict_proba(T), fit.predict_proba(rest)
            well, ill = (log_loss(t[t == k], tested[t == k], labels=[0, 1]) for k in (0, 1))
            print(
                f"pneumonia {model:8} {name:12} left out {log_loss(left, other):.3f} / {fit.score(rest, left):.3f}, "
                f"test {log_loss(t, tested):.3f} / {fit.score(T, t):.3f} (healthy {well:.3f}, ill {ill:.3f}), weighted "
                f"{log_loss(t, tested, sample_weight=weight):.3f} / {fit.score(T, t, weight):.3f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections = {"quality": quality, "seeds": seeds, "cv": cv}
    every = (*sections, "speed", *(("shift",) if FOLDER else ()))
    parser.add_argument("--only", nargs="+", choices=every, default=every)
    parser.add_argument(
        "--tables", nargs="+", choices=TABLES, default=tuple(TABLES) if FOLDER else ("digits",)
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        for section, run in sections.items():
            if section not in arguments.only:
                continue
            for name in arguments.tables:
                for table in TABLES[name]():
                    if section == "quality":
                        what = "kept aside" if table.aside else "design"
                        print(
                            f"-- {table.name}: {table.X.shape[0]} x {table.X.shape[1]}, {len(set(table.y))} classes, {what}"
                        )
                    run(table)
        if "speed" in arguments.only:
            speed()
        if "shift" in arguments.only:
            shift()


if __name__ == "__main__":
    main()
