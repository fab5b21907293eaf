"""Supervised dictionaries whose size, xi and l2 are chosen by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import check_cv

from .._progress import track
from .._random import generator
from .._rows import is_dask
from .._sklearn_compat import StrOptions, _fit_context, whole
from ._base import XiPath
from ._classifier import SupervisedDictionaryClassifier
from ._fit import Options
from ._search import Grid, candidates, check_numbers, choose, fold_losses

_GIVEN = (
    "model",
    "solver",
    "positive",
    "covariates",
    "class_weight",
    "fit_intercept",
    "threshold",
    "threshold_cv",
    "score_function",
    "coding",
    "max_iter",
    "tol",
    "n_bootstraps",
    "random_state",
    "verbose",
)


class SupervisedDictionaryClassifierCV(SupervisedDictionaryClassifier):
    r"""`SupervisedDictionaryClassifier` with the number of atoms, xi and l2 chosen by cross-validation.

    In every fold the fits of as many atoms are a path from the largest xi and l2 on, each begun at the one before and stopped early;
    the choice is then fitted to all rows.
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
        of the least, over its folds, above it; or the least.
    model, solver, positive, covariates, class_weight, fit_intercept, threshold, threshold_cv, score_function
        As for `SupervisedDictionaryClassifier`.
    coding, max_iter, tol, n_bootstraps, random_state, verbose
        As there; coding is "refit" or "plain".

    Attributes
    ----------
    n_components_, xi_, l2_ : what was chosen
    scores_ : ndarray (n_components, xi_factors, l2_factors, folds)
        Minus the mean held-out loss; -inf for more atoms than the rows of a fold have dimensions.
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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{
            name: rule
            for name, rule in SupervisedDictionaryClassifier._parameter_constraints.items()
            if name in _GIVEN
        },
        "n_components": [whole(1), "array-like"],
        "xi_factors": ["array-like"],
        "l2_factors": ["array-like"],
        "cv": ["cv_object"],
        "rule": [StrOptions({"one-standard-error", "best"})],
        "coding": [StrOptions({"refit", "plain"})],
    }

    l1 = 0.0
    dictionary_norm = None
    radius = None

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
        self.n_components = n_components
        self.xi_factors = xi_factors
        self.l2_factors = l2_factors
        self.cv = cv
        self.rule = rule
        self.model = model
        self.solver = solver
        self.positive = positive
        self.covariates = covariates
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.threshold_cv = threshold_cv
        self.score_function = score_function
        self.coding = coding
        self.max_iter = max_iter
        self.tol = tol
        self.n_bootstraps = n_bootstraps
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search the grid, then learn atoms and coefficients of all rows.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix in memory, covariates included
        y : array (n,) of labels
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
                "and l2 on a sample of rows in memory, then fit SupervisedDictionaryClassifier to the Dask table"
            )
            raise TypeError(msg)
        plain = self._single(int(sizes.min()), "auto", "auto")
        setup = plain._setup(X, y, sample_weight)
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
        grid = Grid(
            allowed,
            *(
                tuple(float(f) * auto for f in of)
                for of, auto in zip(factors, (problem.xi, problem.l2), strict=True)
            ),
        )
        options = Options(0, self.positive, self.solver, None, None, float(self.tol), int(self.max_iter))
        rng = generator(self.random_state)
        total = len(splits) * int(np.prod(grid.shape))
        with track(total, "cross-validation", show=self.verbose) as advance:
            losses = np.stack(
                [
                    fold_losses(problem, train, held, grid, options, self.coding, rng, advance)
                    for train, held in splits
                ],
                axis=-1,
            )
        i, j, k = choose(losses, grid, self.rule)
        best = self._single(grid.n_components[i], grid.xi[j], grid.l2[k])
        best._fit(X, y, sample_weight)
        best._forget_codes()
        for name, value in vars(best).items():
            if name not in best.get_params():
                setattr(self, name, value)
        self.n_components_ = grid.n_components[i]
        self.scores_ = -losses
        self.grid_ = (grid.n_components, grid.xi, grid.l2)
        return self

    def _single(self, n_components: int, xi: Any, l2: Any) -> SupervisedDictionaryClassifier:
        """One setting."""
        given = {name: getattr(self, name) for name in _GIVEN}
        return SupervisedDictionaryClassifier(n_components, xi=xi, l2=l2, **given)

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

    def xi_path(self, X: Any, y: Any, xis: Any = None) -> XiPath:
        """That of the setting that was chosen, see `SupervisedDictionaryClassifier.xi_path`."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self._single(self.n_components_, self.xi_, self.l2_).xi_path(X, y, xis)
