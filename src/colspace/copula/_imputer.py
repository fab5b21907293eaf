"""CopulaImputer: gaps of mixed tables filled, with intervals, reliabilities and draws."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._containers import whole_frame
from .._progress import track
from .._random import generator
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context, at_least, for_output, whole
from .._threads import plain_products
from .._validation import check_weights
from ._bend import may_bend
from ._checks import check_rank, check_share, check_two_rows, is_number, tolerance
from ._codecs import NOMINAL
from ._columns import Columns, columns_of, model_columns, warn_left_out
from ._corrections import Refit, corrections
from ._curved import redrawn
from ._fit import CopulaModel, fit_copula, marginals_of
from ._full import drawn_tables, point_model, training_table, unseen_of, with_bridge
from ._heavy import tailed
from ._kinds import as_seen, choose_kinds, orders_of, seen_values
from ._levels import LevelsMixin
from ._pairs import named, warn_unseen
from ._passes import DaskRows, LocalRows, dask_rows, weighted_rows
from ._predict import (
    dense,
    explained,
    impute,
    intervals,
    latent_means,
    reliabilities,
    row_log_likelihood,
    within,
)
from ._score import hidden_score
from ._summary import CopulaSummary
from ._table import Layout, decode_table, encode_table, float_table, learn_layout, read_table
from ._threads import count_jobs

Array = NDArray[np.float64]


class CopulaImputer(CopulaSummary, LevelsMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Fill the gaps of a table of any mixture of kinds by a low-rank Gaussian copula.

    Every column is a monotone function of a latent normal one, and those share a few factors:

    .. math:: x_j = g_j(z_j), \qquad z = W t + e, \quad t \sim N(0, I_k), \; e_j \sim N(0, \sigma_j^2),
        \quad \lVert w_j \rVert^2 + \sigma_j^2 = 1 .

    g_j is learned from the column: increasing for numbers, a step function for levels. A gap is filled by
    :math:`g_j(E[z_j \mid \text{observed}])`, the conditional median; ``mean`` gives the conditional mean.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors. "auto" fits a generous number with shrunken loadings and keeps those that can be told from noise
        (``rank_``). Where rows are few for the columns and strengths go on into the noise, numbers above it are compared on a
        tenth of the cells, hidden from a fit, and the best is used (``n_components_``). "paper" has no such rule and needs a number.
    method : {"ep", "paper"}, default="ep"
        "ep": expectation propagation, empirical-Bayes loadings, marginals learned with the factors. "paper": the published EM with
        empirical marginals.
    noise : {"column", "common"}, default="column"
        One noise variance per column, or one for all ("paper" always has one).
    correlation : {"auto", "full", "factors"}, default="auto"
        Of the latent columns. "factors": W W' + noise for everything. "full": any correlation matrix. "auto": in tables of at most 100
        columns, no more than rows, and a million cells (in memory, not sparse; the fitted model keeps a copy of such a table)
        ``sample`` draws from any correlation matrix and its posterior; up to 50 columns, with an automatic number of factors, cells hidden
        from both say how much of the full matrix is mixed into that of the factors for predictions.
    tails : "auto", "normal" or float, default="auto"
        Degrees of freedom (at least 1) of a scale that all columns of a row share, as in a t copula: rows wild in some columns are wild
        in all, such as days of a market. Infinite: "normal". "auto": those with which observed cells are likeliest, if that is sure. Only
        where all columns are continuous, in memory, seen together and do not bend; a number is refused elsewhere.
    kinds : "auto", a kind, or mapping of columns to kinds, default="auto"
        Kinds are "continuous", "ordinal", "binary", "count", "lower", "upper", "two-sided" (the last three: truncated, with a
        share of values at the limit), "nominal" (levels without an order: text, categories, codes) and "id" (left out and passed on as
        it is); a list of levels in order makes a column of strings ordinal. Columns that are not named are found
        automatically, and ids and free text among them named in a warning; ``kinds_`` shows all.
    na_values : scalar, list of scalars, or mapping of columns to those, default=None
        Values that stand for gaps, beside None, NaN, NA and NaT: -99, or {"income": [-99, "refused"]}.
    clip : bool, default=False
        Keep imputations of continuous columns inside the observed range.
    tol : float or None, default=None
        Stop when W W' changes by less than this, relatively to the correlation. None: 1e-3 while the number of factors is to be found,
        else 2e-3, or 4e-3 where most columns have levels (imputations settle before the loadings do), 1e-2 where most are levels of words. "paper": ||W - last W|| /
        ||last W||, None: 1e-2.
    max_iter : int, default=200
        Iterations of each of the (at most three) rounds.
    nonlinear : "auto", "gaps" or bool, default="auto"
        Whether forests correct the latent means of columns that bend (U-shapes, products, groups); only columns whose error
        outside the bag falls by 3 % are corrected. "auto" first tests the table and leaves one that a copula fits exactly as it is.
        "gaps": likewise, but only columns of which 1 % or more is missing in ``fit`` are corrected, for a table that is fitted to be filled
        itself. Both do nothing for sparse matrices, Dask collections and ``method="paper"``; True is refused there.
    warm_start : bool, default=False
        Start from the loadings of the last fit where their shape is the same, and mix as much of the full correlation in as it
        did; needs a number of factors.
    random_state : int, RandomState or None, default=None
        Of the randomised SVD that starts the loadings, and of tests and forests of ``nonlinear``.
    n_jobs : int or None, default=None
        Threads over blocks of rows of a table in memory, in fit and in all that is asked of the fitted imputer, and over trees of forests;
        None: one, -1: all cores. The results are the same to the last bit. The rows of a Dask collection are its scheduler's.
    verbose : bool, default=False
        Draw a progress bar on a terminal.

    Attributes
    ----------
    loadings_ : ndarray (n_features, n_components)
        W, with W'W diagonal and decreasing. A nominal column has a row for each class of levels, an id none: see ``latent_names_``.
    components_ : ndarray (n_components, n_features)
        W'.
    noise_variance_ : ndarray (n_features,)
    correlation_ : ndarray (n_features, n_features)
        The latent correlation that predicts: W W' + diag(noise), the full one, or a mixture of both.
    draws_ : {"full", "factors"}
        What ``sample`` draws from.
    unseen_pairs_ : list of pairs of columns
        Observed together in fewer than 5 rows, where chance would give 20 (up to 1,000 columns): their correlation is not known.
    kinds_ : tuple of str
    n_components_ : int
        Factors in use.
    rank_ : int
        Factors that can be told from noise; fewer than ``n_components_`` where more of them predict hidden cells better.
    nonlinear_gain_ : ndarray (n_features,)
        Share of the copula's absolute error (nominal columns: of the Brier score of hidden cells) that the correction takes away
        outside the bag; 0 where there is none.
    tails_ : float
        Degrees of freedom of the scale that a row's columns share, infinite where they share none.
    levels_ : dict
        Levels of the columns that have them.
    latent_names_ : tuple
        The column of each row of ``loadings_``.
    n_iter_ : int
        Iterations of all rounds.

    References
    ----------
    Matrix completion with quantified uncertainty through low rank Gaussian copula (the paper of the method).

    Examples
    --------
    >>> import numpy as np
    >>> from colspace import CopulaImputer
    >>> from colspace.datasets import make_copula
    >>> X, complete, truth = make_copula(200, 30, 2, rng=0)
    >>> model = CopulaImputer().fit(X)
    >>> model.n_components_
    2
    >>> filled = model.transform(X)
    >>> lower, upper = model.interval(X, level=0.9)
    >>> gaps = np.isnan(X)
    >>> inside = (lower <= complete) & (complete <= upper)
    >>> bool(0.85 < inside[gaps].mean() < 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1), StrOptions({"auto"})],
        "method": [StrOptions({"ep", "paper"})],
        "noise": [StrOptions({"column", "common"})],
        "correlation": [StrOptions({"auto", "full", "factors"})],
        "tails": [StrOptions({"auto", "normal"}), at_least(1)],
        "kinds": [str, Mapping],
        "na_values": "no_validation",
        "clip": ["boolean"],
        "nonlinear": ["boolean", StrOptions({"auto", "gaps"})],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [whole(1)],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["boolean"],
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        method: str = "ep",
        noise: str = "column",
        correlation: str = "auto",
        tails: str | float = "auto",
        kinds: str | Mapping[Any, Any] = "auto",
        na_values: Any = None,
        clip: bool = False,
        nonlinear: bool | str = "auto",
        tol: float | None = None,
        max_iter: int = 200,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.noise = noise
        self.correlation = correlation
        self.tails = tails
        self.kinds = kinds
        self.na_values = na_values
        self.clip = clip
        self.nonlinear = nonlinear
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    @plain_products
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn marginals and factors; y is ignored.

        Parameters
        ----------
        X : array with NaN, DataFrame (pandas, polars), sparse matrix (absent: missing) or Dask collection
            A Dask collection (array, also of CSR blocks, or dataframe) is read partition by partition, and what is learned of
            its rows stays on the workers. Its marginals are exact up to 10,000 distinct values of a column; beyond, shares
            of rows are within .0005 (a million rows) of the truth, and whole numbers are taken as continuous.
        sample_weight : array (n_samples,), optional
            A weight of two is a row twice, zero a row that is not there. Weights count rows: times a constant, they say that there
            are more (or fewer) rows, so that loadings and noise are shrunk less, intervals are narrower, and kinds and rank may be
            others; nothing else depends on it.
        """
        rows, layout = self._read(X, sample_weight)
        plain = not isinstance(self.tails, str) and np.isfinite(self.tails)
        bends = may_bend(self.nonlinear, self.method, rows, plain=plain)
        distinct = rows.values()
        kinds = choose_kinds(distinct, layout.hints, self.kinds, layout.labels)
        columns = columns_of(kinds, distinct, [hint in (NOMINAL, "binary") for hint in layout.hints])
        rows, active = columns.rows(rows), columns.active
        values, own = model_columns(columns, distinct)
        rank = check_rank(self, len(own))
        marginals, seen = marginals_of(values, own, self.method), seen_values(distinct, kinds)
        del values, distinct  # as large as the table
        table = training_table(self.correlation, rows, np.ones(len(own), dtype=bool), self.method)
        tol = self.tol or tolerance(self.method, [kinds[j] for j in columns.latents], rank)
        last = getattr(self, "loadings_", None) if self.warm_start else None
        if last is not None and (len(last) != len(active) or len(own) != len(self._model.columns)):
            last = None
        start = None if last is None else last[active]
        learn = partial(
            fit_copula,
            marginals=marginals,
            labels=columns.each(layout.labels),
            method=self.method,
            common=self.noise == "common",
            tol=tol,
            max_iter=self.max_iter,
            rng=self.random_state,
            groups=columns.words,
        )
        with track(3 * self.max_iter, "copula", show=self.verbose) as advance:
            model = learn(rows, n_components=rank, start=start, tick=advance)
        self._table, self.draws_ = table, "factors" if table is None else "full"
        self._unseen = unseen_of(model)
        given, words = rank is not None or self.noise == "common", columns.words
        before = None if last is None else (self._model, self._point)
        point = point_model(
            model, table, self._unseen, self.correlation, tol, given=given, groups=words, last=before
        )
        bridge = partial(
            with_bridge, model=model, table=table, unseen=self._unseen, correlation=self.correlation
        )
        refit = Refit(tol, common=self.noise == "common" or self.method == "paper")
        how = {"nonlinear": self.nonlinear if bends else False}
        found = corrections(rows, model, point, columns, bridge, refit, self.random_state, **how)
        self._point, self._odds, self._words, self._steps = found
        self._point = tailed(rows, self._point, marginals.chain, self.tails, self._unseen)
        self._store(model, layout, columns, seen)
        for group, known in (*zip(columns.groups, self._words, strict=True), *self._steps):
            self.nonlinear_gain_[group.column] = known.gain
        self.unseen_pairs_ = list(dict.fromkeys(named(self._unseen, model.labels)))
        warn_unseen(self.unseen_pairs_, len(model.columns))
        if model.traces and not model.traces[-1].converged:  # earlier rounds only prepare the last
            what = "W" if self.method == "paper" else "W W'"
            warnings.warn(model.traces[-1].warning(what, tol), ConvergenceWarning, stacklevel=2)
        return self

    def _read(self, X: Any, sample_weight: Any) -> tuple[LocalRows | DaskRows, Layout]:
        """The table as floats with gaps, and its layout."""
        told = {"orders": orders_of(self.kinds), "kinds": self.kinds, "na_values": self.na_values}
        if is_dask(X):
            layout = learn_layout(X, **told)
            warn_left_out(layout, self.kinds)
            return dask_rows(X, check_weights(sample_weight, X), layout), layout
        values, layout = read_table(X, **told, min_rows=1 if sample_weight is not None else 2)
        warn_left_out(layout, self.kinds)
        validate_data(clone(self), X, reset=True, skip_check_array=True)  # names that scikit-learn refuses
        weight = check_weights(sample_weight, values)
        check_two_rows(weight)
        return weighted_rows(values, weight, count_jobs(self.n_jobs)), layout

    def _store(
        self,
        model: CopulaModel,
        layout: Layout,
        columns: Columns,
        seen: tuple[Array, ...],
    ) -> None:
        kinds, active = columns.kinds, columns.active
        f, p = model.factors, len(kinds)
        self.n_features_in_ = p
        names = layout.names
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._model, self._layout, self._columns = model, layout, columns
        self._seen = seen
        self.kinds_ = kinds
        self.n_components_, self.rank_ = f.rank, model.rank
        self.n_iter_ = sum(len(trace.changes) for trace in model.traces)
        self.tails_ = self._point.tails
        self.nonlinear_gain_ = np.zeros(p)
        if self._point.curved is not None:
            self.nonlinear_gain_[columns.direct] = self._point.curved.gain[columns.place]
        self.loadings_ = np.zeros((len(active), f.rank))
        self.loadings_[active] = f.W
        self.noise_variance_ = np.ones(len(active))
        self.noise_variance_[active] = f.noise

    @property
    def components_(self) -> Array:
        """W', n_components x n_features."""
        return self.loadings_.T

    @property
    def correlation_(self) -> Array:
        """Latent correlation, n_features x n_features."""
        active = self._columns.active
        f, R = self._point.factors, np.eye(len(active))
        R[np.ix_(active, active)] = f.W @ f.W.T + np.diag(f.noise)
        return R

    # ------------------------------------------------------------------ what is known of the gaps

    def transform(self, X: Any) -> Any:
        """Every gap filled by g(E[z | observed]), its conditional median (nominal columns: the most probable level).

        Same container, names and types as X. Columns that are left out stay as they are, gaps and all.
        """
        values, layout = self._encode(X)
        found = self._whole(impute(self._part(values), self._point, clip=self.clip), values)
        for law in self._levels(values):
            found[law.rows, law.group.column] = law.value
        return for_output(self, decode_table(found, X, layout, values))

    def mean(self, X: Any) -> Any:
        """Every gap filled by its conditional mean E[x | observed], as floats: smallest squared error.

        Levels that are not numbers count 0, 1, 2, ..., dates are days since 1970. Gaps of nominal columns, which have no mean, are NaN.
        """
        values, layout = self._encode(X)
        found = impute(self._part(values), self._point, clip=self.clip, expected=True)
        found = self._whole(found, values)
        for law in self._levels(values):
            found[law.rows, law.group.column] = law.mean
        own = dense(encode_table(X, layout))
        return float_table(np.where(np.isnan(own), found, own), X, layout)

    def interval(self, X: Any, level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of intervals that hold each gap's value with probability ``level``.

        Both in the container of X; observed cells are their own ends. Both ends of a nominal cell are its most probable level where
        that has the probability ``level``, and missing elsewhere.
        """
        values, layout = self._encode(X)
        check_share("level", level)
        ends = intervals(self._part(values), self._point, level, clip=self.clip)
        both = [self._whole(end, values) for end in ends]
        for law in self._levels(values):
            for end, told in zip(both, law.ends(level), strict=True):
                end[law.rows, law.group.column] = told
        lower, upper = (decode_table(end, X, layout, values) for end in both)
        return lower, upper

    def probability_within(self, X: Any, d: float = 0, *, bound: bool = False) -> Any:
        """Probability that each gap's value is within d of its imputation, 1 where observed.

        d counts levels in stepped columns and is in units of x (dates: days) in others; levels of nominal columns are not within any
        distance of each other. ``bound=True`` gives the lower bound
        1 - Var[z] / d_j^2 of the paper instead of the model's probability (NaN of nominal columns).
        """
        values, layout = self._encode(X)
        if not (is_number(d) and d >= 0):
            msg = f"d={d!r} must be at least 0: a number of levels, or a distance in units of the column"
            raise ValueError(msg)
        found = self._whole(within(self._part(values), self._point, d, bound=bound), values, 1.0)
        for law in self._levels(values):
            if not bound or not law.group.direct:
                found[law.rows, law.group.column] = np.nan if bound else law.within(d)
        return float_table(found, X, layout)

    def reliability(self, X: Any, measure: str = "paper") -> Any:
        """How far each gap's imputation is to be trusted (more is better), NaN where observed.

        "paper": the probability of the imputed level in stepped and nominal columns; in others the share of the squared interval
        lengths of all gaps that is not this one's, over that of the squared imputations. Compare within one of these two.
        "variance": 1 - Var[z | observed], of nominal columns the explained share of the variance of their indicators, comparable
        over all columns.
        """
        values, layout = self._encode(X)
        if measure not in ("paper", "variance"):
            msg = f"measure={measure!r} must be 'paper' or 'variance'"
            raise ValueError(msg)
        found = (reliabilities if measure == "paper" else explained)(self._part(values), self._point)
        found = self._whole(found, values, np.nan)
        for law in self._levels(values):
            found[law.rows, law.group.column] = law.top if measure == "paper" else law.explained
        return float_table(found, X, layout)

    @plain_products
    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> list[Any]:
        """Tables whose gaps are independent draws from their joint law given what is observed.

        For multiple imputation: analyse each and combine with `colspace.copula.pool`. The parameters are drawn for each table: where
        ``draws_`` is "full" mean, correlation and marginals, by a Gibbs sampler over the rows of ``fit`` (new rows do not change them);
        else loadings, noise and means of the factors.
        """
        values, layout = self._encode(X)
        if not is_number(n_samples) or not n_samples >= 1 or n_samples % 1 != 0:
            msg = f"n_samples={n_samples!r} must be a whole number of at least 1"
            raise ValueError(msg)
        part, rng = self._part(values), generator(random_state)
        found = drawn_tables(
            part, self._model, self._point, self._table, self._unseen, int(n_samples), rng, clip=self.clip
        )
        drawn = self._draw_levels(found, values, rng)
        if self._point.curved is not None:
            found = redrawn(found, part, self._point, rng, clip=self.clip)
        whole = self._with_levels([self._whole(table, values) for table in found], values, drawn)
        return [decode_table(table, X, layout, values) for table in whole]

    @plain_products
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log density of observed cells (log probability of levels), each given the rest of its row; y is ignored.

        Cells are hidden in turn, a fifth at a time, and weighted by their rows: for `GridSearchCV` over any option. Which are hidden together
        depends on what their row holds alone.
        """
        values, _ = self._encode(X)
        if not values.shape[0]:
            msg = "X has no rows, and a score is a mean over their cells; give at least one"
            raise ValueError(msg)
        weight = check_weights(sample_weight, values)
        return hidden_score(self._part(values), self._point, weight, self._columns.words)

    @plain_products
    def score_samples(self, X: Any) -> Array:
        """Approximate log density of what is observed of each row, under the factors.

        Uncertain loadings count against it, as in a lower bound.
        """
        values, _ = self._encode(X)
        return row_log_likelihood(self._part(values), self._model)

    @plain_products
    def latent(self, X: Any) -> Array:
        """E[t | observed] of every row, n_samples x n_components: an embedding of mixed rows with gaps."""
        values, _ = self._encode(X)
        return latent_means(self._part(values), self._model)

    def _encode(self, X: Any) -> tuple[Any, Layout]:
        check_is_fitted(self)
        if is_dask(X):
            msg = (
                "X is a Dask collection; apply the fitted imputer to its partitions: X.map_partitions(model.transform) of a "
                "dataframe, X.map_blocks(model.transform) of an array whose chunks hold all columns"
            )
            raise TypeError(msg)
        X = whole_frame(X)
        if getattr(X, "ndim", 2) == 2:
            validate_data(self, X, reset=False, skip_check_array=True)
        values = encode_table(X, self._layout)
        return as_seen(values, self._seen, self.kinds_, self._layout), self._layout

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
