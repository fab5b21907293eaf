"""What the studies of supervised dictionaries share: measures of a classifier, and rivals that reduce first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, recall_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..displays._style import grey

Array = NDArray[np.float64]


def logistic(*, scale: bool = True, **parameters: Any) -> Any:
    """Logistic regression run until it converges, on standardised columns with ``scale``."""
    classifier = LogisticRegression(max_iter=10_000, **parameters)
    return make_pipeline(StandardScaler(), classifier) if scale else make_pipeline(classifier)


def measures(y: Any, odds: Array, level: float = 0.0) -> dict[str, float]:
    """Accuracy, sensitivity, specificity and F (of class 1) of log odds cut at ``level``, and AUC."""
    predicted = (odds >= level).astype(int)
    return {
        "accuracy": float(accuracy_score(y, predicted)),
        "sensitivity": float(recall_score(y, predicted, zero_division=0.0)),
        "specificity": float(recall_score(y, predicted, pos_label=0, zero_division=0.0)),
        "F": float(f1_score(y, predicted, zero_division=0.0)),
        "AUC": float(roc_auc_score(y, odds)),
    }


def squared_error(X: Any, rebuilt: Any) -> float:
    """||X - rebuilt||^2 / ||X||^2."""
    return float(np.sum((X - rebuilt) ** 2) / np.sum(X * X))


def cosine(atoms: Array) -> float:
    """Of the first two atoms (rows)."""
    a, b = atoms[:2]
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def sparse_error(X: Any, H: Array, W: Array) -> float:
    """||X - H W'||^2 / ||X||^2 of a sparse X."""
    size = float(X.multiply(X).sum())
    return (size - 2.0 * float(np.sum((X @ W) * H)) + float(np.sum((H.T @ H) * (W.T @ W)))) / size


def best_f_level(y: Any, odds: Array) -> float:
    """Level of the log odds with the largest F of class 1."""
    order = np.argsort(-odds)
    hits = np.cumsum(np.asarray(y)[order])
    f = 2.0 * hits / (np.arange(1, len(order) + 1) + hits[-1])
    return float(odds[order][int(np.argmax(f))])


def short(value: float) -> str:
    """Two digits with a sign, without powers of ten up to 10,000.

    Examples
    --------
    >>> from colspace.experiments._sdl import short
    >>> short(0.0123), short(-1.0), short(-437.0)
    ('+0.012', '-1', '-437')
    """
    return f"{value:+.0f}" if 100 <= abs(value) < 10_000 else f"{value:+.2g}"


def show_image(ax: Any, atom: Array, title: str) -> None:
    """An atom as a square image."""
    side = round(np.sqrt(len(atom)))
    peak = float(np.abs(atom).max()) or 1.0
    ax.imshow(atom.reshape(side, side), cmap="RdBu_r", vmin=-peak, vmax=peak)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color(grey())
    ax.set_title(title, fontsize="x-small")
