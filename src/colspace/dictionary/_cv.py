"""Supervised dictionaries whose size, xi and l2 are chosen by cross-validation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from .._progress import track
from .._random import generator
from .._rows import is_dask
from .._sklearn_compat import StrOptions, _fit_context, whole
from .._threads import plain_products
from ._base import SupervisedDictionary
from ._classifier import SupervisedDictionaryClassifier
from ._fit import Options
from ._regressor import SupervisedDictionaryRegressor
from ._search import Fold, Grid, candidates, check_numbers, choose, race
from ._setup import XiPath, keep

_SHARED = (
    "model",
    "solver",
    "positive",
    "covariates",
    "fit_intercept",
    "coding",
    "max_iter",
    "tol",
    "n_bootstraps",
    "random_state",
    "verbose",
)
_OF_CLASSES = ("class_weight", "threshold", "threshold_cv", "score_function")


def _constraints(of: type[SupervisedDictionary], given: tuple[str, ...]) -> dict[str, Any]:
    return {
        **{name: of._parameter_constraints[name] for name in given},
        "n_components": [whole(1), "array-like"],
        "xi_factors": ["array-like"],
        "l2_factors": ["array-like"],
        "cv": ["cv_object"],
        "rule": [StrOptions({"one-standard-error", "best"})],
        "coding": [StrOptions({"refit", "plain"})],
    }


class DictionarySearch(SupervisedDictionary):
    """A grid of atoms, xi and l2, searched in folds; see the two estimators."""

    _one: ClassVar[type[SupervisedDictionary]]
    _given: ClassVar[tuple[str, ...]]

    l1 = 0.0
    apart = "auto"
    bounds = radius = step = None
    xi_factors: Any
    l2_factors: Any
    cv: Any
    rule: str

    @_fit_context(prefer_skip_nested_validation=True)
    @plain_products
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search the grid, then learn atoms and coefficients of all rows.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix in memory, covariates included
        y : array (n,) of labels, or of numbers (n,) or (n, q)
        sample_weight : array (n,), optional
            How often each row counts.
        """
        sizes = check_numbers("n_components", np.atleast_1d(np.asarray(self.n_components)), 0, whole=True)
        factors = [
            check_numbers(name, getattr(self, name), 0, whole=False) for name in ("xi_factors", "l2_factors")
        ]
        if is_dask(X):
            msg = (
                f"{type(self).__name__} draws folds of rows, which a Dask table has not at hand. Remedies: choose n_components, xi "
                f"and l2 on a sample of rows in memory, then fit {self._one.__name__} to the Dask table"
            )
            raise TypeError(msg)
        setup = self._single(int(sizes.min()), "auto", "auto")._setup(X, y, sample_weight)
        problem = setup.problem
        splits = self._splits(setup.table, setup.y)
        most = min(problem.X.shape[1], *(len(train) for train, _ in splits))
        allowed = candidates(sizes.tolist(), most)
        if not allowed:
            msg = (
                f"n_components={sizes.tolist()}: all are more than the {most} that {problem.X.shape[1]} column(s) and the rows "
                "of the smallest fold allow; give smaller ones, or fewer folds"
            )
            raise ValueError(msg)
        xis, l2s = (
            tuple(float(f) * auto for f in of)
            for of, auto in zip(factors, (problem.xi, problem.l2), strict=True)
        )
        grid = Grid(allowed, xis, l2s)
        options = Options(0, self.positive, self.solver, float(self.tol), int(self.max_iter))
        rng = generator(self.random_state)
        fits = [Fold(problem, rows, grid, options, self.coding, rng).loss for rows in splits]
        with track(None, "cross-validation", show=self.verbose) as advance:
            losses = setup.unit * race(fits, grid, self.rule, setup.null_loss / setup.unit, advance)
        i, j, k = choose(losses, grid, self.rule, setup.null_loss)
        best = self._single(allowed[i], setup.unit * xis[j], l2s[k])
        best._fit(X, y, sample_weight)
        best._forget_codes()
        for name, value in vars(best).items():
            if name not in best.get_params():
                setattr(self, name, value)
        self.n_components_ = allowed[i]
        self.scores_ = -losses
        self.grid_ = (allowed, tuple(float(setup.unit) * xi for xi in xis), l2s)
        return self

    def _single(self, n_components: int, xi: Any, l2: Any) -> SupervisedDictionary:
        """One setting."""
        given = {name: getattr(self, name) for name in self._given}
        return self._one(n_components, xi=xi, l2=l2, **given)

    @abstractmethod
    def _splits(self, table: Any, y: Any) -> list[tuple[Any, Any]]:
        """Rows that are fitted and held out, fold by fold."""

    def xi_path(self, X: Any, y: Any, xis: Any = None) -> XiPath:
        """That of the setting that was chosen, see `SupervisedDictionaryClassifier.xi_path`."""
        check_is_fitted(self)
        return self._single(self.n_components_, self.xi_, self.l2_).xi_path(X, y, xis)


class SupervisedDictionaryClassifierCV(DictionarySearch, SupervisedDictionaryClassifier):
    r"""`SupervisedDictionaryClassifier` with the number of atoms, xi and l2 chosen by cross-validation.

    The search climbs from the middle of the grid to the least held-out loss, then tries simpler settings; one that the folds so far
    leave behind is given up. In a fold each fit begins at the one before of as many atoms and is stopped early; the choice is then
    fitted to all rows.
    Settings are compared by the mean held-out loss :math:`-\log g_{y_i}(a_i)`, weighted as in the fit.

    Parameters
    ----------
    n_components : int or sequence of int, default=(2, 5, 10, 20)
        Numbers of atoms; those that rows and columns do not allow are left out.
    xi_factors, l2_factors : sequences of float > 0, default=(0.1, 1.0, 10.0)
        Multiples of the automatic xi and l2.
    cv : int, splitter or iterable of splits, default=5
        Folds, stratified; a number is at most that of the rows of the smallest class.
    rule : {"one-standard-error", "best"}, default="one-standard-error"
        The simplest setting (fewest atoms, then largest xi, then largest l2) whose mean loss is no more than one standard error
        of the least, over its folds, or a thousandth of the loss of a constant prediction above it; or the least.
    model, solver, positive, covariates, class_weight, fit_intercept, threshold, threshold_cv, score_function
        As for `SupervisedDictionaryClassifier`.
    coding, max_iter, tol, n_bootstraps, random_state, verbose
        As there; coding is "refit" or "plain".

    Attributes
    ----------
    n_components_, xi_, l2_ : what was chosen
    scores_ : ndarray (n_components, xi_factors, l2_factors, folds)
        Minus the mean held-out loss; NaN where a setting was not tried or given up, -inf for more atoms than the rows of a fold have
        dimensions.
    grid_ : tuple of the three tuples that were tried: numbers of atoms, xi and l2
    components_, coef_, and all others of `SupervisedDictionaryClassifier`
        Of the fit to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from colspace import SupervisedDictionaryClassifierCV
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> model = SupervisedDictionaryClassifierCV([2, 4], random_state=0).fit(X[:300], y[:300])
    >>> model.n_components_, model.scores_.shape, model.score(X[300:], y[300:]) > 0.95
    (4, (2, 3, 3, 5), True)
    """

    _one = SupervisedDictionaryClassifier
    _given = _SHARED + _OF_CLASSES
    _parameter_constraints: ClassVar[dict[str, Any]] = _constraints(_one, _given)

    def __init__(
        self,
        n_components: Any = (2, 5, 10, 20),
        *,
        xi_factors: Any = (0.1, 1.0, 10.0),
        l2_factors: Any = (0.1, 1.0, 10.0),
        cv: Any = 5,
        rule: str = "one-standard-error",
        model: str = "filter",
        solver: str = "auto",
        positive: bool = False,
        covariates: Any = None,
        class_weight: Any = None,
        fit_intercept: bool = True,
        threshold: float | str = 0.5,
        threshold_cv: Any = None,
        score_function: Any = "exp",
        coding: str = "refit",
        max_iter: int = 1000,
        tol: float = 1e-5,
        n_bootstraps: int = 0,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    def _splits(self, table: Any, y: Any) -> list[tuple[Any, Any]]:
        cv = self.cv
        if cv is None or isinstance(cv, int | np.integer):
            least = int(np.unique(y, return_counts=True)[1].min())
            if least < 2:
                msg = (
                    f"the smallest class has {least} row, which cannot be both fitted and held out. Remedies: more rows of that "
                    "class, cv= with splits of your own, or SupervisedDictionaryClassifier"
                )
                raise ValueError(msg)
            cv = min(5 if cv is None else int(cv), least)
        rows = np.zeros(table.shape[0])
        return list(check_cv(cv, y, classifier=True).split(rows, y))


class SupervisedDictionaryRegressorCV(DictionarySearch, SupervisedDictionaryRegressor):
    r"""`SupervisedDictionaryRegressor` with the number of atoms, xi and l2 chosen by cross-validation.

    As `SupervisedDictionaryClassifierCV`, with its parameters less those of classes and its attributes; settings are compared by
    the mean held-out :math:`\|y_i - a_i\|^2`. A number of folds is at most that of the rows; they are not shuffled.

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import SupervisedDictionaryRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> H, W = rng.exponential(size=(300, 3)), rng.exponential(size=(3, 20))
    >>> X = H @ W + 0.1 * rng.uniform(size=(300, 20))
    >>> y = H @ [3.0, -1.0, 2.0] + 0.1 * rng.standard_normal(300)
    >>> model = SupervisedDictionaryRegressorCV([1, 3, 6], model="feature", random_state=0).fit(X[:200], y[:200])
    >>> model.n_components_, model.score(X[200:], y[200:]) > 0.98
    (3, True)
    """

    _one = SupervisedDictionaryRegressor
    _given = _SHARED
    _parameter_constraints: ClassVar[dict[str, Any]] = _constraints(_one, _given)

    def __init__(
        self,
        n_components: Any = (2, 5, 10, 20),
        *,
        xi_factors: Any = (0.1, 1.0, 10.0),
        l2_factors: Any = (0.1, 1.0, 10.0),
        cv: Any = 5,
        rule: str = "one-standard-error",
        model: str = "filter",
        solver: str = "auto",
        positive: bool = False,
        covariates: Any = None,
        fit_intercept: bool = True,
        coding: str = "refit",
        max_iter: int = 1000,
        tol: float = 1e-5,
        n_bootstraps: int = 0,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    def _splits(self, table: Any, y: Any) -> list[tuple[Any, Any]]:
        cv = self.cv
        if cv is None or isinstance(cv, int | np.integer):
            cv = min(5 if cv is None else int(cv), len(y))
        return list(check_cv(cv, y).split(np.zeros(table.shape[0]), y))
