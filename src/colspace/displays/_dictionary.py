"""The numbers behind the pictures of supervised dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._containers import as_table
from .._validation import feature_names
from ._compute import spread
from ._style import COLOURS, pyplot

Array = NDArray[np.float64]

_NEUTRAL = 0.05  # of the largest coefficient


@dataclass(frozen=True)
class Dictionary:
    """Atoms and covariates of a fitted estimator with a coefficient for each target.

    ``targets`` has one entry for two classes (the second) and for one response; with more classes one each, and
    then coefficients are centred over them: only their differences matter.
    """

    atoms: Array
    coefficients: Array
    covariates: Array
    names: list[str]
    covariate_names: list[str]
    targets: tuple[str, ...]
    against: str
    standardised: bool
    stability: Array | None = None

    @property
    def signed(self) -> bool:
        """Whether any atom has a negative entry."""
        return bool((self.atoms < 0).any())


def dictionary_of(estimator: Any, X: Any = None, names: Sequence[str] | None = None) -> Dictionary:
    """Atoms, coefficients and names; with X, coefficients times the deviation of what they multiply."""
    check_is_fitted(estimator)
    if not hasattr(estimator, "components_") or not hasattr(estimator, "covariate_coef_"):
        msg = (
            f"{type(estimator).__name__} has no atoms with coefficients; draw a SupervisedDictionaryClassifier or "
            "SupervisedDictionaryRegressor"
        )
        raise TypeError(msg)
    every = _names(estimator, names)
    columns, extra = estimator.dictionary_columns_, estimator.covariate_columns_
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    added = np.asarray(estimator.covariate_coef_, dtype=np.float64).reshape(len(coef), -1)
    if X is not None:
        of_atoms, of_covariates = _deviations(estimator, X)
        coef, added = coef * of_atoms, added * of_covariates
    classes = [str(c) for c in getattr(estimator, "classes_", ())]
    if len(classes) > 2:
        coef, added = coef - coef.mean(axis=0), added - added.mean(axis=0)
    targets = tuple(classes[1:] if len(classes) == 2 else classes) or _responses(len(coef))
    return Dictionary(
        np.asarray(estimator.components_, dtype=np.float64),
        coef.T,
        added.T,
        [every[j] for j in columns],
        [every[j] for j in extra],
        targets,
        classes[0] if len(classes) == 2 else "",
        X is not None,
        getattr(estimator, "stability_", None),
    )


def _responses(count: int) -> tuple[str, ...]:
    return ("",) if count == 1 else tuple(f"y{k}" for k in range(count))


def _names(estimator: Any, names: Sequence[str] | None) -> list[str]:
    n_features = int(estimator.n_features_in_)
    if names is None:
        return list(feature_names(estimator) or ()) or [f"x{i}" for i in range(n_features)]
    given = [str(name) for name in names]
    if len(given) != n_features:
        msg = (
            f"names has {len(given)} entries, but the estimator was fitted on {n_features} columns; give one name for "
            "each column of X, covariates included"
        )
        raise ValueError(msg)
    return given


def _deviations(estimator: Any, X: Any) -> tuple[Array, Array]:
    """Standard deviations of what the coefficients of atoms and of covariates multiply."""
    table = _columns(estimator, X)
    if estimator.model == "filter":
        seen = table[:, estimator.dictionary_columns_] @ np.asarray(estimator.components_).T
    else:
        seen = estimator.transform(X)
    return np.std(np.asarray(seen), axis=0), spread(table[:, estimator.covariate_columns_])


def _columns(estimator: Any, X: Any) -> Any:
    table = as_table(X).values
    table = sparse.csr_array(table) if sparse.issparse(table) else table.astype(np.float64, copy=False)
    if table.ndim != 2 or table.shape[1] != estimator.n_features_in_:
        msg = f"X has shape {table.shape}, but the estimator was fitted on {estimator.n_features_in_} columns; give the same"
        raise ValueError(msg)
    return table


def reconstruction_error(estimator: Any, X: Any) -> float:
    """||X - H W'||² / ||X||² of rows coded without their labels; X of the dictionary's columns, sparse stays sparse."""
    table = _columns(estimator, X)[:, estimator.dictionary_columns_]
    return relative_error(table, np.asarray(estimator.transform(X)), np.asarray(estimator.components_))


def relative_error(X: Any, codes: Array, atoms: Array) -> float:
    """||X - codes atoms||² / ||X||²; 0 for rows of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays._dictionary import relative_error
    >>> relative_error(np.array([[2.0, 1.0]]), np.array([[2.0]]), np.array([[1.0, 0.0]]))
    0.2
    """
    if not sparse.issparse(X):
        whole, left = float((X**2).sum()), float(((X - codes @ atoms) ** 2).sum())
    else:
        whole = float((X.data.astype(np.float64) ** 2).sum())
        cross = float(((X @ atoms.T) * codes).sum())
        left = max(whole - 2 * cross + float(((codes.T @ codes) * (atoms @ atoms.T)).sum()), 0.0)
    return left / whole if whole > 0 else 0.0


# ---------------------------------------------------------------------- what the pictures share


def atom_order(coefficients: Array) -> NDArray[np.intp]:
    """Largest coefficient first; with several targets by the one that an atom speaks for most, then within it.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays._dictionary import atom_order
    >>> atom_order(np.array([[0.1, -0.1], [-2.0, 2.0], [0.5, -0.5]]))
    array([2, 0, 1])
    """
    best = coefficients.argmax(axis=1)
    return np.lexsort((-coefficients.max(axis=1), best))


def neutral_atoms(coefficients: Array) -> NDArray[np.bool_]:
    """Atoms that speak for nothing: no coefficient of theirs is a twentieth of the largest of all.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace.displays._dictionary import neutral_atoms
    >>> neutral_atoms(np.array([[2.0, -2.0], [0.05, -0.05]]))
    array([False,  True])
    """
    size = np.abs(coefficients).max(axis=1, initial=0.0)
    return np.asarray((size < _NEUTRAL * size.max(initial=0.0)) | (size == 0.0))


def atom_title(k: int, words: str, neutral: bool, stability: Array | None) -> str:
    """What stands above an atom: its number, what it speaks for unless it is neutral, and how stable it is."""
    said = "neutral" if neutral else words
    title = f"atom {k}: {said}" if said else f"atom {k}"
    return title if stability is None else f"{title}\nstable {stability[k]:.2f}"


def check_atoms(components: Sequence[int] | None, coefficients: Array) -> NDArray[np.intp]:
    """Numbers of the atoms to draw, in order of their coefficients when not given."""
    if components is None:
        return atom_order(coefficients)
    chosen = np.atleast_1d(np.asarray(components))
    if (
        chosen.dtype.kind not in "iu"
        or not chosen.size
        or chosen.min() < 0
        or chosen.max() >= len(coefficients)
    ):
        msg = f"components={components!r}: there are {len(coefficients)} atoms, numbered from 0"
        raise ValueError(msg)
    return chosen.astype(np.intp)


def sign_colour(value: float) -> str:
    """Blue above zero, orange below."""
    return COLOURS[0] if value >= 0 else COLOURS[1]


def coefficient_title(targets: Sequence[str], against: str, standardised: bool) -> str:
    """What the coefficients are of."""
    what = "coefficient" + (" times std" if standardised else "")
    if len(targets) > 1:
        return what if tuple(targets) == _responses(len(targets)) else f"{what}, centred over classes"
    return (
        f"{what}: above zero speaks for {plain(targets[0])}, below for {plain(against)}" if against else what
    )


def plain(text: str) -> str:
    """Text whose dollar signs are not read as mathematics."""
    return str(text).replace("$", r"\$")


def shorten(text: str, limit: int = 28) -> str:
    """At most ``limit`` letters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def grid_of(ax: Any, count: int, across: int, cell: tuple[float, float]) -> tuple[Any, Any, int]:
    """Figure, grid of ``count`` cells and its number of columns: of a new figure, or in the place of ``ax``."""
    if across < 1:
        msg = f"columns={across} must be at least 1"
        raise ValueError(msg)
    columns = min(across, count)
    rows = -(-count // columns)
    columns = -(-count // rows)
    if ax is None:
        size = (max(4.4, cell[0] * columns), max(2.0, cell[1] * rows + 0.5))
        figure = pyplot().figure(figsize=size, layout="constrained")
        return figure, figure.add_gridspec(rows, columns), columns
    ax.set_axis_off()
    return ax.figure, ax.get_subplotspec().subgridspec(rows, columns), columns
