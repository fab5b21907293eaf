"""Encoding, fitting, scores and files of ``colspace atoms``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._atoms_table import Task, as_levels, as_numbers, join_texts

_WORDS_WRITTEN = 30  # words of each topic in the file


@dataclass(frozen=True)
class Encoded:
    """Rows as numbers: the dictionary's columns first, then the covariates'."""

    encoder: Any
    X: Any
    names: list[str]
    width: int

    @property
    def covariates(self) -> list[int]:
        """Positions of the covariates."""
        return list(range(self.width, len(self.names)))


def encode(task: Task, rows: NDArray[np.intp], words: int, stop_words: str | None) -> Encoded:
    """Fit an encoder on ``rows``: TF-IDF of text, covariates scaled or one-hot encoded; sparse stays sparse.

    The encoder takes columns as they are read, gaps included, so that a saved one does with new rows what the fit did.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    parts: list[tuple[str, Any, Any]] = []
    if task.texts:
        least = 2 if len(rows) > 2 else 1
        tfidf = TfidfVectorizer(min_df=least, max_features=words, stop_words=stop_words)
        parts.append(("atoms", _after(join_texts, tfidf), task.texts))
    else:
        parts.append(("atoms", _after(as_numbers), task.features))
    if task.numbers:
        parts.append(("numbers", _after(as_numbers, StandardScaler()), task.numbers))
    if task.categories:
        onehot = OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=bool(task.texts))
        parts.append(("categories", _after(as_levels, onehot), task.categories))
    encoder = ColumnTransformer(parts, sparse_threshold=1.0 if task.texts else 0.0)
    try:
        X = encoder.fit_transform(task.frame.iloc[rows][task.used])
    except ValueError as error:
        if task.texts and ("vocabulary" in str(error) or "no terms remain" in str(error)):
            msg = (
                f"--text {task.texts[0]}: no word stands in two of the {len(rows)} texts; name another column"
            )
            raise ValueError(msg) from error
        raise
    atoms, more = encoded_names(encoder)
    dense = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    return Encoded(encoder, dense, [*atoms, *more], len(atoms))


def encoded_names(encoder: Any) -> tuple[list[str], list[str]]:
    """Names of the columns that a fitted encoder makes: words or columns of the atoms, and covariates."""
    used = {name: list(columns) for name, _, columns in encoder.transformers_}
    fitted = encoder.named_transformers_
    last = fitted["atoms"][-1]
    worded = hasattr(last, "vocabulary_")
    atoms = last.get_feature_names_out().tolist() if worded else used["atoms"]
    levels = _levels(fitted["categories"][-1], used["categories"]) if "categories" in used else []
    return [str(name) for name in atoms], [*used.get("numbers", []), *levels]


def _after(function: Any, *steps: Any) -> Any:
    """A pipeline that begins with a function of a DataFrame."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    return make_pipeline(FunctionTransformer(function), *steps)


def _levels(onehot: Any, categories: Sequence[str]) -> list[str]:
    """Names of the one-hot columns, as in town=Rome."""
    dropped = onehot.drop_idx_ if onehot.drop_idx_ is not None else [None] * len(categories)
    return [
        f"{name}={level}"
        for name, levels, gone in zip(categories, onehot.categories_, dropped, strict=True)
        for i, level in enumerate(levels)
        if i != gone
    ]


def encode_more(encoded: Encoded, task: Task, rows: NDArray[np.intp]) -> Any:
    """Other rows by the same encoder."""
    X = encoded.encoder.transform(task.frame.iloc[rows][task.used])
    return sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)


def cancelled(model: Any, limit: float = 1.5) -> list[str]:
    """A note where coefficients of a filter model cancel: sqrt(sum b_k² ||w_k||²) beyond ``limit`` times ||sum b_k w_k||."""
    from ..displays._dictionary import dictionary_of

    if model.model != "filter":
        return []
    found = dictionary_of(model)
    parts = np.abs(found.coefficients.T) * np.linalg.norm(found.atoms, axis=1)
    whole = np.linalg.norm(found.coefficients.T @ found.atoms, axis=1)
    ratio = np.linalg.norm(parts, axis=1) / np.maximum(whole, 1e-300)
    worst = int(ratio.argmax())
    if ratio[worst] <= limit:
        return []
    named = ", ".join(str(k) for k in np.flatnonzero(parts[worst] > parts[worst].max() / 3))
    note = (
        f"coefficients of atoms {named} cancel (alone they are {ratio[worst]:.2g} times as long as their sum): they share "
        f"words or columns and say little one by one; another --xi (now {model.xi_:.2g}) or fewer --components may keep atoms apart"
    )
    return [note]


# ---------------------------------------------------------------------- scores


def scores_of(y: Any, predicted: Any, probability: Any, classes: Any) -> dict[str, float]:
    """Accuracy, F1 (of the second of two classes, else the mean over classes) and AUC (one against the rest)."""
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    two = len(classes) == 2
    average = {"pos_label": classes[1]} if two else {"average": "macro", "labels": classes}
    found = {
        "accuracy": float(accuracy_score(y, predicted)),
        "F1": float(f1_score(y, predicted, zero_division=0.0, **average)),
        "AUC": float("nan"),
    }
    if len(np.unique(y)) == len(classes):
        score = probability[:, 1] if two else probability
        found["AUC"] = float(roc_auc_score(y, score, multi_class="ovr", labels=None if two else classes))
    return found


def compare(model: Any, encoded: Encoded, y: Any, X_test: Any, y_test: Any, seed: int) -> dict[str, Any]:
    """Scores of the model and of what it should beat, on the same rows."""
    from ..displays._dictionary import reconstruction_error, relative_error

    found = {
        "supervised dictionary": {
            **scores_of(y_test, model.predict(X_test), model.predict_proba(X_test), model.classes_),
            "reconstruction error": reconstruction_error(model, X_test),
        }
    }
    if encoded.width > 1:  # one column has nothing to be reduced to
        atoms, Z, Z_test = _unsupervised(model, encoded, X_test, seed)
        name = f"{type(atoms).__name__.removeprefix('Truncated')} + logistic regression"
        found[name] = {
            **_logistic(model, _beside(Z, encoded.X, encoded), y, _beside(Z_test, X_test, encoded), y_test),
            "reconstruction error": relative_error(X_test[:, : encoded.width], Z_test, atoms.components_),
        }
    found["logistic regression, all columns"] = _logistic(model, encoded.X, y, X_test, y_test)
    labels, counts = np.unique(y, return_counts=True)
    share = np.tile(counts / counts.sum(), (len(y_test), 1))
    found["largest class"] = scores_of(y_test, np.full(len(y_test), labels[counts.argmax()]), share, labels)
    return found


def _unsupervised(model: Any, encoded: Encoded, X_test: Any, seed: int) -> tuple[Any, Any, Any]:
    """NMF, or for free atoms an SVD, of the dictionary's columns: fitted, codes, codes of the test rows."""
    from sklearn.decomposition import NMF, TruncatedSVD

    r = model.components_.shape[0]
    X, other = encoded.X[:, : encoded.width], X_test[:, : encoded.width]
    if model.positive:
        atoms: Any = NMF(r, init="nndsvda", max_iter=1000, tol=1e-3, random_state=seed)
        other = np.maximum(other, 0.0) if not sparse.issparse(other) else other
    else:
        atoms = TruncatedSVD(r, random_state=seed)
    return atoms, atoms.fit_transform(X), atoms.transform(other)


def _beside(Z: Any, X: Any, encoded: Encoded) -> Any:
    added = X[:, encoded.width :]
    return np.column_stack([Z, added.toarray() if sparse.issparse(added) else added])


def _logistic(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, float]:
    """Scores of logistic regression with the model's class weights and rule for the threshold."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    from ..dictionary._thresholds import best_threshold

    scaler = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
    plain = make_pipeline(scaler, LogisticRegression(max_iter=5000, class_weight=model.class_weight))
    plain.fit(X, y)
    predicted, probability, classes = plain.predict(X_test), plain.predict_proba(X_test), plain.classes_
    if len(classes) == 2:
        cut = model.threshold
        if isinstance(cut, str):
            cut = best_threshold(cut, y == classes[1], plain.predict_proba(X)[:, 1])
        predicted = classes[(probability[:, 1] >= cut).astype(int)]
    return scores_of(y_test, predicted, probability, classes)


# ---------------------------------------------------------------------- files


def write_tables(model: Any, encoded: Encoded, task: Task, out: Path) -> list[Path]:
    """topics.csv or atoms.csv, and coefficients.csv."""
    import pandas as pd

    from ..displays import CoefficientsDisplay, TopicsDisplay
    from ..displays._dictionary import dictionary_of
    from ..io import write_table

    raw, scaled = (dictionary_of(model, X, encoded.names) for X in (None, encoded.X))
    labels = [f"atom {k}" for k in range(len(raw.atoms))] + raw.covariate_names
    kinds = ["atom"] * len(raw.atoms) + ["covariate"] * len(raw.covariate_names)
    tables = {}
    if not task.texts:
        atoms = pd.DataFrame(raw.atoms, columns=raw.names)
        number = "atom"
        while number in raw.names:
            number += "_"
        atoms.insert(0, number, np.arange(len(atoms)))
        tables["atoms.csv"] = atoms
    else:
        tables["topics.csv"] = TopicsDisplay(
            raw.atoms,
            raw.names,
            scaled.coefficients,
            raw.targets,
            n_words=_WORDS_WRITTEN,
            stability=raw.stability,
        ).frame()
    bars = [
        CoefficientsDisplay(labels, kinds, np.concatenate([d.coefficients, d.covariates]), d.targets).frame()
        for d in (raw, scaled)
    ]
    tables["coefficients.csv"] = bars[0].assign(times_std=bars[1]["coefficient"])
    for name, table in tables.items():
        write_table(table, out / name)
    return [out / name for name in tables]


def draw(model: Any, encoded: Encoded, task: Task, image_shape: Any, out: Path) -> list[Path]:
    """Pictures of the atoms or topics and of the coefficients."""
    import matplotlib as mpl

    mpl.use("Agg")
    from ..displays import AtomsDisplay, CoefficientsDisplay, TopicsDisplay
    from ..displays._style import pyplot
    from ..io._files import write_picture

    if len(model.classes_) == 2 and model.classes_.dtype.kind in "biuf":  # 0 and 1 alone say nothing
        model = copy(model)
        model.classes_ = np.array([f"{task.label}={c}" for c in model.classes_])
    displays: dict[str, Any] = {}
    if task.texts:
        displays["topics"] = TopicsDisplay.from_estimator(model, encoded.X, names=encoded.names)
    elif image_shape is not None:
        displays["atoms"] = AtomsDisplay.from_estimator(model, encoded.X, image_shape=image_shape)
    words = 0 if image_shape is not None else 4
    displays["coefficients"] = CoefficientsDisplay.from_estimator(
        model, encoded.X, names=encoded.names, n_words=words
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, display in displays.items():
            write_picture(display.figure_, out / f"{name}.png")
            pyplot().close(display.figure_)
    letters = {str(w.message) for w in caught if "missing from font" in str(w.message)}
    if letters:
        msg = f"the font of the pictures lacks {len(letters)} letter(s), which are drawn as boxes; the tables have them"
        warnings.warn(msg, stacklevel=2)
    return [out / f"{name}.png" for name in displays]


def write_scores(summary: dict[str, Any], out: Path) -> Path:
    """scores.json; scores that do not exist are null."""
    import json

    from ..io._files import write_text
    from ..report._page import plain

    path = out / "scores.json"
    write_text(json.dumps(plain(summary), indent=2) + "\n", path)
    return path


def write_rows(model: Any, encoded: Encoded, task: Task, test: NDArray[np.intp], out: Path) -> Path:
    """rows.csv: ids, label, whether the row was held out, prediction and probabilities."""
    from ..io import write_table

    X = encode_more(encoded, task, np.arange(len(task.y)))
    held = np.zeros(len(task.y), dtype=bool)
    held[test] = True
    found = {task.label: task.y, "held_out": held, "predicted": model.predict(X)}
    chances = model.predict_proba(X)
    found |= {f"p_{label}": chances[:, k] for k, label in enumerate(model.classes_)}
    path = out / "rows.csv"
    write_table(beside(task.frame[task.ids], found), path)
    return path


def beside(ids: Any, found: Mapping[str, Any]) -> Any:
    """--id columns and new ones side by side."""
    both = [name for name in ids if name in found]
    if both:
        msg = f"{both[0]!r} is a column of the result and of --id; rename that of the table"
        raise ValueError(msg)
    return ids.assign(**found)


def save_pipeline(
    encoded: Encoded, model: Any, target: str, task: Task, summary: dict[str, Any], more: dict[str, Any]
) -> None:
    """Encoder and model as one pipeline that takes the table's columns."""
    from sklearn.pipeline import Pipeline

    from ..io import save
    from ..report._page import plain

    told = ("rows", "fitted", "held_out", "classes", "seed", "scores")
    about = {
        "command": "atoms",
        "label": task.label,
        "texts": list(task.texts),
        **{k: summary[k] for k in told},
        **more,
    }
    save(Pipeline([("encode", encoded.encoder), ("atoms", model)]), target, about=plain(about))
