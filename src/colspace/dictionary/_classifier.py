"""Supervised dictionaries for labels."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils.validation import check_is_fitted

from .._containers import as_column
from .._rows import is_dask, reduce_rows
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._threads import plain_products
from .._validation import check_table, check_weights, table_dtype
from ._base import SupervisedDictionary
from ._label_codes import label_codes
from ._labels import (
    LabelTarget,
    check_discrete,
    checked_labels,
    class_weights,
    count_labels,
    each_class,
    hits,
    lost,
    no_labels,
)
from ._losses import Array, Logistic, Loss, Multinomial, one_hot
from ._objective import State
from ._remote import beside
from ._setup import Setup, keep
from ._tables import check_kept
from ._thresholds import best_threshold


class SupervisedDictionaryClassifier(ClassifierMixin, SupervisedDictionary):
    r"""Atoms that rebuild the rows of a table and predict their labels.

    Rows are rebuilt as :math:`x_i \approx W h_i` from ``n_components`` atoms, the columns of W, and labels have activations
    :math:`a_i = B^\top W^\top x_i + G^\top z_i + c` ("filter") or :math:`B^\top h_i + G^\top z_i + c` ("feature") with
    covariates z. Minimised is

    .. math:: \sum_i -\log g_{y_i}(a_i) + \xi \|x_i - W h_i\|^2 + \lambda_1 \|h_i\|_1 + \lambda_2 (R + \|G\|^2),

    :math:`g_j = e^{a_j} / (1 + \sum_k e^{a_k})`, :math:`R = \|WB\|^2` (filter) or :math:`\|HB\|^2` (feature); with nonnegative
    atoms a tenth of R (``apart``) is :math:`\sum_k \|w_k\|^2 \|b_k\|^2`, so that like atoms do not cancel each other.

    Parameters
    ----------
    n_components : int, default=2
    model : {"filter", "feature"}, default="filter"
        Labels from the row seen through the atoms, or from its codes.
    solver : {"auto", "lbfgs", "bcd", "lpgd"}, default="auto"
        Quasi-Newton (codes eliminated in the filter model), block coordinate descent, or projected gradient on low-rank
        products (``positive=False`` alone). "auto" is "bcd" for nonnegative atoms, a sparse X of 100,000 entries, bounds or a radius,
        "lpgd" with ``step`` or a bound of "products", else "lbfgs", as for a Dask table.
    xi : "auto", "topics" or float >= 0, default="auto"
        Weight of rebuilding. "auto" makes both terms equal for a model that knows nothing:
        log(n_classes) / mean of ||x||^2. "topics" is ten times that: atoms that hang together, for texts.
    positive : bool, default=False
        Nonnegative atoms and codes, for a nonnegative X: parts and topics. Free atoms are orthonormal.
    l1 : float, default=0.0
        Price of codes; it needs a bounded dictionary.
    l2 : "auto" or float >= 0, default="auto"
        Ridge. "auto": 0.01 mean of ||x - mean x||^2 (filter; about 0 without an intercept), or what a linear model of the labels asks
        for if that is more and rows are fewer than 20 a column; 0.001 (feature).
    apart : "auto" or float between 0 and 1, default="auto"
        Share of R in which atoms stand one by one: "auto" is a tenth for nonnegative atoms, else 0, the published ridge.
    covariates : columns of X that skip the dictionary, default=None
        Names, positions, a slice or a mask.
    class_weight : "balanced", dict or None, default=None
        Weights of the classes in the labels' loss; rebuilding is not weighted.
    fit_intercept : bool, default=True
    threshold : float, "youden" or "f1", default=0.5
        Probability from which a row is of the second class (two classes alone), or what it maximises.
    threshold_cv : int, splitter or None, default=None
        Folds whose held-out probabilities tune the threshold; None uses the rows of the fit.
    score_function : "exp" or `Multinomial`, default="exp"
        The h of :math:`g_j = h(a_j) / (1 + \sum_k h(a_k))`.
    coding : {"refit", "plain", "labels"}, default="refit"
        How the feature model predicts new rows, whose labels cannot help to code them. "refit": coefficients fitted again
        to codes made without labels; "plain": the joint coefficients; "labels": the label whose own best code costs least.
    bounds : dict or None, default=None
        Largest Frobenius norms, by name: "dictionary" W, "codes" H, "coefficients" B (solver "bcd"), "covariates" G with the
        intercept below it (both solvers), "products", W [B, H'] or H [B, W'] (solver "lpgd"). With ``l1`` the dictionary is
        bounded by sqrt(n_components) if nothing else is said.
    radius : Radius or None, default=None
        How far the blocks of solver "bcd" may move in sweep k; None: freely.
    step : float or None, default=None
        Length of all steps of solver "lpgd"; None is that of the theorem where it holds, else back-tracked.
    max_iter : int, default=1000
    tol : float, default=1e-5
        Relative fall of the objective at which a solver stops.
    n_bootstraps : int, default=0
        Fits to rows drawn with replacement, which give ``stability_``.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    components_ : ndarray (n_components, n_dictionary_columns)
        Atoms, of length one and by decreasing energy of their codes; as the solver leaves them with ``bounds``, ``l1``, ``step`` or
        an absolute radius.
    coef_ : ndarray (1, n_components), or (n_classes, n_components) with zeros for the first class, the reference
    covariate_coef_ : ndarray, the same for covariates
    intercept_ : ndarray (1,) or (n_classes,)
    classes_ : ndarray
    threshold_ : float
    xi_, l2_ : float
    solver_, reason_ : str
        What was used, and why it stopped.
    history_ : ndarray, the objective after each iteration
    objective_, n_iter_
    reconstruction_error_ : float, ||X - HW'||^2 / ||X||^2 on the rows of the fit
    stability_ : ndarray (n_components,), with ``n_bootstraps``
        Mean |cosine| of each atom with the atom it is paired to in fits to rows drawn with replacement: 1 for one that
        does not depend on the rows.
    dictionary_columns_, covariate_columns_ : ndarray of int

    References
    ----------
    Lee, Lyu and Yao (2023), "Supervised dictionary learning with auxiliary covariates".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from colspace import SupervisedDictionaryClassifier
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = SupervisedDictionaryClassifier(3, random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.97
    True
    >>> model.components_.shape, model.coef_.shape, model.transform(X).shape
    ((3, 64), (1, 3), (360, 3))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SupervisedDictionary._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "threshold": [Interval(Real, 0, 1, closed="neither"), StrOptions({"youden", "f1"})],
        "threshold_cv": ["cv_object"],
        "score_function": [StrOptions({"exp"}), Multinomial],
    }

    class_weight: Any
    threshold: Any
    threshold_cv: Any
    score_function: Any

    def __init__(
        self,
        n_components: int = 2,
        *,
        model: str = "filter",
        solver: str = "auto",
        xi: float | str = "auto",
        positive: bool = False,
        l1: float = 0.0,
        l2: float | str = "auto",
        apart: float | str = "auto",
        covariates: Any = None,
        class_weight: Any = None,
        fit_intercept: bool = True,
        threshold: float | str = 0.5,
        threshold_cv: Any = None,
        score_function: Any = "exp",
        coding: str = "refit",
        bounds: Any = None,
        radius: Any = None,
        step: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-5,
        n_bootstraps: int = 0,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep(self, locals())

    @_fit_context(prefer_skip_nested_validation=True)
    @plain_products
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn atoms and coefficients.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, or Dask array (also of CSR blocks) or dataframe, covariates included
            A Dask table is read anew in each pass (persist it if the workers can hold it) and nothing of it is
            gathered; solvers that keep codes of rows take one if these are no more than a partition.
        y : array (n,) of labels; beside a Dask table also a Dask array or Series
        sample_weight : array (n,), optional
            How often each row counts; beside a Dask table also a Dask array or Series.
        """
        self._fit(X, y, sample_weight)
        self._forget_codes()
        return self

    def _setup(self, X: Any, y: Any, sample_weight: Any = None) -> Setup:
        table = self._read(X)
        if is_dask(table) and self._by_sums:
            return self._remote_setup(table, y, sample_weight)
        labels = checked_labels(self, table, y)
        classes, codes = np.unique(labels, return_inverse=True)
        self._check_classes(classes)
        weight = check_weights(sample_weight, table)
        label_weight = class_weights(self.class_weight, classes, codes, weight)
        if is_dask(table):
            check_kept(table, self._kept_per_row(len(classes) - 1), self._why_kept)
        null_loss = float(np.log(len(classes)))
        problem = self._problem(
            table, one_hot(codes, len(classes)), self._loss(), null_loss, weight, label_weight
        )
        self.classes_ = classes
        return Setup(table, labels, weight, problem, null_loss)

    def _remote_setup(self, table: Any, y: Any, sample_weight: Any) -> Setup:
        """The problem of a Dask table, whose labels are encoded where they are."""
        if isinstance(self.threshold, str):
            msg = (
                f"threshold={self.threshold!r} sorts the probabilities of all rows, which a Dask table does not bring together. "
                "Remedies: threshold=0.5 or another number, or tune it on rows in memory"
            )
            raise ValueError(msg)  # noqa: TRY004
        if y is None:
            raise ValueError(no_labels(self))
        arrays = beside(table, y if is_dask(y) else checked_labels(self, None, y), sample_weight)
        counts = reduce_rows(count_labels, *arrays[1:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # every label stands there once
            check_discrete(counts.labels)
        self._check_classes(counts.labels)
        each = each_class(self.class_weight, counts.labels, counts.weight)
        self.classes_ = counts.labels
        n_outputs, null_loss = len(counts.labels) - 1, float(np.log(len(counts.labels)))
        target = LabelTarget(counts.labels, each)
        problem = self._remote_problem(arrays, target, n_outputs, self._loss(), null_loss)
        return Setup(table, np.zeros(0), None, problem, null_loss)

    def _check_classes(self, classes: NDArray[Any]) -> None:
        if len(classes) < 2:
            msg = (
                f"y has 1 class, {classes.tolist()[0]!r}; a classifier needs at least 2. Remedies: more rows, or folds that keep "
                "every class (StratifiedKFold)"
            )
            raise ValueError(msg)
        if len(classes) > 2 and self.threshold != 0.5:
            msg = (
                f"threshold={self.threshold!r} is for two classes, but y has {len(classes)}; leave it at 0.5"
            )
            raise ValueError(msg)
        if self.threshold_cv is not None and not isinstance(self.threshold, str):
            msg = (
                f"threshold_cv={self.threshold_cv!r} tunes a threshold, but threshold={self.threshold!r} is given; "
                "use threshold='youden' or 'f1', or leave threshold_cv at None"
            )
            raise ValueError(msg)

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, start: State | None = None) -> Self:
        setup = self._setup(X, y, sample_weight)
        dtype = table_dtype(setup.table)
        state = self._store(setup.problem, self._solve(setup.problem, start), dtype)
        self._coefficients = state.B, state.G, state.intercept
        two = len(self.classes_) == 2
        self.coef_, self.covariate_coef_ = (_rows(block, two).astype(dtype) for block in (state.B, state.G))
        self.intercept_ = _rows(state.intercept[None], two)[:, 0]
        self.threshold_ = self._tuned(X, setup.y, setup.weight)
        return self

    def _loss(self) -> Loss:
        return Logistic() if isinstance(self.score_function, str) else self.score_function

    def _tuned(self, X: Any, y: NDArray[Any], weight: Array | None) -> float:
        if not isinstance(self.threshold, str):
            return float(self.threshold)
        self.threshold_ = 0.5
        if self.threshold_cv is None:
            probability = np.asarray(self.predict_proba(X))
        elif is_dask(X):
            msg = (
                f"threshold_cv={self.threshold_cv!r} draws folds of rows, which a Dask table has not at hand; tune the threshold on "
                "rows in memory"
            )
            raise ValueError(msg)
        else:
            cv = check_cv(self.threshold_cv, y, classifier=True)
            least = int(np.unique(y, return_counts=True)[1].min())
            folds = getattr(cv, "n_splits", 2)
            if least < folds:
                msg = (
                    f"the smallest class has {least} row(s), fewer than the {folds} folds of threshold_cv, so some fold would "
                    "lack it. Remedies: fewer folds, threshold_cv=None, or more rows of that class"
                )
                raise ValueError(msg)
            plain = clone(self).set_params(threshold=0.5, threshold_cv=None, n_bootstraps=0)
            params = None if weight is None else {"sample_weight": weight}
            probability = cross_val_predict(plain, X, y, cv=cv, method="predict_proba", params=params)
        return best_threshold(self.threshold, y == self.classes_[1], probability[:, 1], weight)

    # ------------------------------------------------------------------ prediction

    def decision_function(self, X: Any) -> Array:
        """Log odds against the first class: (n,) for two classes, else (n, n_classes)."""
        check_is_fitted(self)
        odds: Array = self._by_rows("_odds", X, None if len(self.classes_) == 2 else len(self.classes_))
        return odds

    def _odds(self, X: Any) -> Array:
        if self.model == "feature" and self.coding == "labels":
            _, shares = self._label_codes(X)
            odds = shares[:, :1] - shares
        else:
            a = self._activations(X)
            if not isinstance(self.score_function, str):
                a = np.log(self.score_function.h(a))
            odds = np.column_stack([np.zeros(len(a)), a])
        return odds[:, 1] if len(self.classes_) == 2 else odds

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes."""
        check_is_fitted(self)
        probability: Array = self._by_rows("_probability", X, len(self.classes_))
        return probability

    def _probability(self, X: Any) -> Array:
        odds = self._odds(X)
        return softmax(np.column_stack([np.zeros(len(odds)), odds]) if odds.ndim == 1 else odds, axis=1)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities."""
        check_is_fitted(self)
        logarithm: Array = self._by_rows("_log_probability", X, len(self.classes_))
        return logarithm

    def _log_probability(self, X: Any) -> Array:
        odds = self._odds(X)
        return log_softmax(np.column_stack([np.zeros(len(odds)), odds]) if odds.ndim == 1 else odds, axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels: the likeliest class, or by the threshold."""
        check_is_fitted(self)
        labels: NDArray[Any] = self._by_rows("_likeliest", X, None, self.classes_.dtype)
        return labels

    def _likeliest(self, X: Any) -> NDArray[Any]:
        probability = self._probability(X)
        if len(self.classes_) == 2:
            return self.classes_[(probability[:, 1] >= self.threshold_).astype(int)]
        return self.classes_[np.argmax(probability, axis=1)]

    def label_codes(self, X: Any) -> tuple[Array, Array]:
        """Codes under each label (n, n_classes, n_components), and what each costs (n, n_classes): feature model."""
        if self.model != "feature":
            msg = "label_codes is for model='feature': codes of the filter model do not depend on labels (see transform)"
            raise ValueError(msg)
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        if is_dask(X):
            msg = "label_codes are made of rows in memory; give one partition at a time: X.partitions[i].compute()"
            raise TypeError(msg)
        return self._label_codes(X)

    def _label_codes(self, X: Any) -> tuple[Array, Array]:
        problem, _ = self._unlabelled(X, self._loss())
        return label_codes(problem, self._state, self.positive)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows, by weight, whose label is right."""
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))
        arrays = beside(check_table(self, X, reset=False), y, sample_weight)
        right, all_rows = reduce_rows(partial(hits, self), *arrays)
        return float(right / all_rows)

    def _label_loss(self, X: Any, y: Any) -> float:
        if is_dask(X):
            total, all_rows = reduce_rows(partial(lost, self), check_table(self, X, reset=False), y)
            return float(total / all_rows)
        column = np.searchsorted(self.classes_, as_column(y).values.ravel())
        return -float(np.mean(self.predict_log_proba(X)[np.arange(len(column)), column]))


def _rows(block: Array, two: bool) -> Array:
    """Coefficients by class, the reference first, or one row for two classes."""
    return block.T if two else np.vstack([np.zeros((1, block.shape[0])), block.T])
