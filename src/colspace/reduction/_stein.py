"""Stein's method for one or several responses, with or without labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_consistent_length

from .._blocks import parse_blocks
from .._response import ResponseEncoder, check_varies, make_encoder, read_response, warn_heavy_tails
from .._rows import is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import small_products, table_work
from .._validation import check_table, check_weights, sample_rows, table_dtype, warn_constant
from ..scores import GaussianScore, ScoreModel, choose_score
from ._groups import GroupSums
from ._jackknife import store_errors
from ._linear import LinearReductionMixin, check_block_widths, column_labels
from ._source import Source, column_shift, response_units, weighted_rows
from ._span import Span, check_span, row_span
from ._stein_count import IN_MEMORY, fit_counted
from ._stein_fit import (
    Frame,
    SteinOptions,
    SteinSolution,
    settle,
    settled,
    solve_stein,
    supervised_matrix,
)
from ._stein_folds import held_out_rank
from ._stein_groups import grouped_stein, stein_groups, stein_left_out
from ._stein_mean import averaged
from ._stein_plan import check_options, gaussian_plan, own_columns
from ._stein_ridge import has_own_law, learned_score, rule_score, score_law
from ._stein_sums import (
    EncodedResponse,
    GaussianPlan,
    Law,
    ScorePlan,
    SteinMoments,
    fitted_score,
    known,
    labelled_rows,
    lazy_encoder,
    no_response,
    reduce_stein,
    stein_from_sums,
    stein_from_tables,
    wants_unlabeled,
)

Array = NDArray[np.float64]


class SteinReduction(LinearReductionMixin, BaseEstimator):
    r"""Directions that matter for one or several responses, by Stein's method.

    With :math:`y_j = f_j(B^\top x) + e_j` and the scores :math:`s = -\nabla\log P`, :math:`T = ss^\top - \nabla s`
    of the law of x,

    .. math:: E[s(x)\, y^\top] = B\, E[\nabla f]^\top, \qquad E[y_j\, T(x)] = B\, E[\nabla^2 f_j]\, B^\top .

    The directions are the leading left singular vectors of the first (``order=1``), of the second matrices
    of all responses side by side (2), or of both. Rows whose y is NaN are unlabelled. By default they give the
    directions beyond those that the responses can show: the widest ones at right angles to them. With another score or order, or a
    weight, they help to know the law of x, and lend their own block :math:`E[s(x)(x-\mu)^\top]`. Without any labels, and as published, the block has the order asked
    for: in second order :math:`E[(x_j-\mu_j)\,T(x)]`.

    Parameters
    ----------
    n_components : int, "auto" or "moments", default=2
        "auto": the least number that reads y on rows left out as well as the best does (see JointReduction). "moments"
        minimises the held-out squared error of the moments over five folds.
    order : {1, 2, "both"}, default=1
    score_model : "ridge", "gaussian", "auto" or a ScoreModel, default="ridge"
        Model of the law of x. "ridge" and "gaussian" are Gaussian. "gaussian", the published one, has no ridge when all rows
        are labelled and at least twice the columns, else one of :math:`(1 + \sqrt{p/n})^2` variances, the largest eigenvalue
        of pure noise. "ridge" has that of least leave-one-out error of a regression of y on the columns (one more
        pass) when all rows are labelled, Ledoit-Wolf's when none is. When some are (``order=1``, ``unlabeled_weight="auto"``, four labels
        or more) the law is that of the labelled rows alone, with the heaviest ridge within a standard error of the least error; else
        the ridge is that of "gaussian".
        "auto" chooses among Gaussian, Student and hyperbolic.
    standardize : bool, default=True
        Measure columns in their standard deviations, so that units play no part: in ridges, in unlabelled
        blocks and without whitening. False, the published choice, takes the columns as they are.
    whiten : "auto" or bool, default="auto"
        Measure in the metric of the covariance, in which noise is even. False is the published choice, and
        the one for unlabelled rows, whose directions are those of large variance.
    whiten_response : "auto" or bool, default="auto"
        Multiply responses by the inverse root of their covariance: far better for nonlinear links. "auto": for
        class labels, and for several responses with at least ten labelled rows per column.
    combine : {"stack", "mean"}, default="stack"
        Second order: responses' matrices side by side, or their plain average as published; without labels so are columns'.
    unlabeled_weight : "auto", "paper" or float, default="auto"
        Weight of the unlabelled block relative to the labelled one in spectral norm. "auto" is 0 when all rows
        are labelled or labelled rows have a law of their own (see ``score_model``); 1 for class labels, when ``n_components`` exceeds the rank of the responses, and when labelled
        rows are fewer than five per response; else 0.3.
        "paper" puts both side by side as they are; in second order it takes :math:`E[(x_j-\mu_j)\,T(x)]` for the rows' own
        block, which ``combine="mean"`` adds to the labelled one as published. That block is zero for an exact score: other weights do without.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y; a callable acts on each row by itself. "labels" takes numbers as class labels; strings,
        booleans and categories always are. Numbers that look like codes of classes get a warning, which "numbers" silences.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions (Gaussian score), from sums of the same pass; see JointReduction.
    random_state : int, RandomState or None, default=None
        Used by ``score_model="auto"``.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
    components_error_, expected_error_ : ndarray (n_components, n_features) and float, or None
        Standard errors by the delete-one-group jackknife, and expected NSEE (`colspace.metrics.nsee`) of the space.
    n_groups_, errors_note_ : int, str
        Groups in use; why there are no errors, empty when there are.
    singular_values_ : ndarray (n_components,)
    score_model_ : ScoreModel or None
        The fitted model of the law of x (of the labelled rows, where they have their own); None for a table with fewer rows than columns under a Gaussian score, whose
        law is known on the span of the rows only.
    ridge_ : float
        With a Gaussian score, its ridge in variances of the columns (``standardize=False``: in their mean).
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
    unlabeled_weight_ : float or "paper"
    n_labeled_ : int or float
        Number (with weights: weight) of the labelled rows.
    n_components_ : int
    component_scores_ : dict of str to ndarray
        With ``n_components="auto"``; see JointReduction.

    References
    ----------
    Nonlinear multiple-response regression and learning of latent spaces (the paper of the method).

    Examples
    --------
    >>> from colspace import SteinReduction
    >>> from colspace.datasets import make_multiple_response
    >>> from colspace.metrics import procrustes_distance
    >>> X, Y, B = make_multiple_response(2000, 10, 6, 2, rng=0)
    >>> model = SteinReduction(n_components=2).fit(X, Y)
    >>> procrustes_distance(B, model.components_.T) < 0.2
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1), StrOptions({"auto", "moments"})],
        "order": [whole(1, 2), StrOptions({"both"})],
        "score_model": [StrOptions({"ridge", "gaussian", "auto"}), ScoreModel],
        "standardize": ["boolean"],
        "whiten": ["boolean", StrOptions({"auto"})],
        "whiten_response": ["boolean", StrOptions({"auto"})],
        "combine": [StrOptions({"stack", "mean"})],
        "unlabeled_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto", "paper"})],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
        "n_groups": [whole(2), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        order: int | str = 1,
        score_model: Any = "ridge",
        standardize: bool = True,
        whiten: bool | str = "auto",
        whiten_response: bool | str = "auto",
        combine: str = "stack",
        unlabeled_weight: float | str = "auto",
        response: str | Callable[[Any], Any] | None = None,
        n_groups: int | None = 20,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.order = order
        self.score_model = score_model
        self.standardize = standardize
        self.whiten = whiten
        self.whiten_response = whiten_response
        self.combine = combine
        self.unlabeled_weight = unlabeled_weight
        self.response = response
        self.n_groups = n_groups
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(table_work)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame or CSR matrix; with a Gaussian or a fully given score also a Dask collection
        y : array (n,), array (n, q), class labels, or None
            Rows that are NaN are unlabelled; None: no labels at all.
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out.
        """
        for name in ("_sums", "_plan", "_stream_groups", "component_scores_"):
            self.__dict__.pop(name, None)
        check_options(self, y)
        if self.n_components == "auto":
            return fit_counted(self, X, y, sample_weight)
        X = check_table(self, X, reset=True, min_rows=2)
        if not isinstance(self.n_components, str):
            check_block_widths(self.n_components, parse_blocks(None, self.n_features_in_))
        self._dtype = table_dtype(X)
        weights = check_weights(sample_weight, X)
        y, response = read_response(y, self.response)
        if weights is not None and not is_dask(X):
            rows = X if y is None else y
            check_consistent_length(X, rows)
            X, rows, weights = weighted_rows(weights, X, rows)
            y = None if y is None else rows
        encoder, y = self._encoder(X, y, response, weights=weights)
        span = self._span(X, weights)
        if span is not None:
            X = span.source.X
        plan = self._make_plan(X, y, encoder, weights=weights)
        plan = averaged(plan, self._options(), y, weights, self.n_features_in_)
        names = column_labels(self) if span is None else None
        arrays = (X, y, weights)
        plan = own_columns(plan, self._options(), arrays, names, span, standardize=self.standardize)
        groups = stein_groups(plan, self.n_groups, None if is_dask(X) else X.shape[0])
        sums = grouped_stein(plan, X, y, weights, names, *groups)
        return self._finish_sums(sums, encoder, plan, X, y, weights, span)

    def _span(self, X: Any, weights: Any, *, ridged: bool = False) -> Span | None:
        """A table with fewer rows than columns in coordinates of its rows' span (Gaussian score)."""
        template = rule_score(self.score_model, None, self.n_features_in_)
        if not self._gaussian() or is_dask(X) or template.covariance is not None:
            return None
        if self.order != 1 and template.location is not None:  # a point that the rows need not span
            return None
        blank = Source(X, np.zeros((X.shape[0], 1)), ResponseEncoder(), weights, column_labels(self))
        bare = isinstance(self.score_model, GaussianScore) and self.score_model.ridge in (0, "auto")
        span = row_span(
            blank,
            parse_blocks(None, X.shape[1]),
            whiten=bare and not ridged,
            shrinkage=0.0 if template.ridge == 0 else None,
            scale=self.standardize,
            remedies="score_model=GaussianScore(ridge=1.0)",
        )
        if span is None:
            return None
        warn_constant(span.deviation, column_labels(self))
        if not isinstance(self.n_components, str):
            check_span(self.n_components, span.blocks.widths, X.shape[0])
        return span

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows (Gaussian or fully given score); the result equals ``fit`` on all rows seen so far.

        With "ridge" it is that of "gaussian", unlabelled rows included. ``classes`` names all class labels at the first call.
        """
        self._validate_params()
        if not (self._gaussian() or self._given()) or isinstance(self.n_components, str):
            msg = (
                "partial_fit needs score_model='gaussian' or a score whose parameters are all given, and a number "
                f"of components, got score_model={self.score_model!r}, n_components={self.n_components!r}; other "
                "scores look at all rows at once"
            )
            raise ValueError(msg)
        first = not hasattr(self, "_sums")
        if first and self.score_model == "ridge":
            warnings.warn(
                "partial_fit sees rows once, so its ridge is that of score_model='gaussian', which silences this",
                UserWarning,
                stacklevel=2,
            )
        X = check_table(self, X, reset=first)
        if first:
            check_options(self, y)
            self._dtype = table_dtype(X)
            y, response = read_response(y, self.response)
            encoder, y = self._encoder(X, y, response, streaming=True, classes=classes)
            plan = self._make_plan(X, y, encoder, streaming=True)
            self._plan: GaussianPlan | ScorePlan = own_columns(
                plan, self._options(), (X, y, None), None, None, standardize=self.standardize, streaming=True
            )
            self._stream_groups: tuple[int, str] = stein_groups(self._plan, self.n_groups, None)
        else:
            y = np.full(X.shape[0], np.nan) if y is None else read_response(y)[0]
        weights = check_weights(sample_weight, X)
        sums = grouped_stein(self._plan, X, y, weights, column_labels(self), *self._stream_groups)
        self._sums: GroupSums = sums if first else self._sums + sums
        return self._finish_sums(self._sums, self._plan.encoder, self._plan, None, None)

    def _make_plan(
        self, X: Any, y: Any, encoder: ResponseEncoder | None, *, streaming: bool = False, weights: Any = None
    ) -> GaussianPlan | ScorePlan:
        """What to add up over rows: moments for a Gaussian score, sums of scores for any other."""
        if self._gaussian():
            return self._gaussian_plan(X, y, encoder, weights)
        start = sample_rows(X, weights=weights)[0]
        if sparse.issparse(start):
            msg = "only a Gaussian score keeps a sparse table sparse; use score_model='gaussian', or X.toarray()"
            raise TypeError(msg)
        weighty = self.unlabeled_weight != 0.0
        return ScorePlan(
            self._fit_score(X, weights),
            encoder,
            column_shift(start),
            np.zeros(0 if encoder is None else encoder.n_responses),
            second_order=self.order != 1,
            all_rows=weighty
            if streaming or is_dask(X)
            else wants_unlabeled(self.unlabeled_weight, y, encoder),
        )

    def _given(self) -> bool:
        return isinstance(self.score_model, ScoreModel) and self.score_model.is_given

    def _gaussian(self) -> bool:
        if isinstance(self.score_model, str):
            return self.score_model in ("ridge", "gaussian")
        return isinstance(self.score_model, GaussianScore)

    def _encoder(
        self,
        X: Any,
        y: Any,
        response: Any,
        *,
        weights: Any = None,
        streaming: bool = False,
        classes: Any = None,
        codes: int = 3,
    ) -> tuple[ResponseEncoder | None, Any]:
        """How y (see read_response) is encoded (None: no labels), and y as an array with gaps."""
        if y is None:
            return None, no_response(X)
        who = type(self).__name__
        if is_dask(X):
            return lazy_encoder(X, y, weights, response, caller=who, codes=codes), y
        check_consistent_length(X, y)
        mask = labelled_rows(y)
        if not mask.any():
            msg = "all of y is missing, so no row is labelled; pass y=None to look for directions without labels"
            raise ValueError(msg)
        labels = known(y, mask)
        # two classes with unlabelled rows get another weight than numbers, unless n_components or a law of their own decides it
        own = self.score_model == "ridge" and self.order == 1 and not streaming
        told = self.n_components in ("auto", "moments") or (self.n_components == 1 and not own)
        if self.unlabeled_weight == "auto" and not mask.all() and told:
            codes = 2
        encoder = make_encoder(
            labels,
            response,
            classes=classes,
            streaming=streaming,
            caller=who,
            codes=codes,
            weights=None if weights is None else weights[mask],
        )
        Y = encoder(labels)
        response_units(Y, encoder)
        if not streaming:
            check_varies(np.ptp(Y, axis=0))
        if not encoder.labels and self.order != 1:  # the first order bears them: ranks would cost more there
            warn_heavy_tails(Y)
        if streaming:
            return encoder, y
        full = np.full((len(mask), Y.shape[1]), np.nan)  # gaps stay gaps
        full[mask] = Y
        return EncodedResponse(encoder.classes, n_responses=Y.shape[1]), full

    def _gaussian_plan(self, X: Any, y: Any, encoder: ResponseEncoder | None, weights: Any) -> GaussianPlan:
        return gaussian_plan(X, y, encoder, weights, column_labels(self), second_order=self.order != 1)

    def _fit_score(self, X: Any, weights: Any = None) -> ScoreModel:
        if isinstance(self.score_model, str):
            score, self.held_out_log_density_ = choose_score(X, rng=self.random_state, sample_weight=weights)
            return score
        return fitted_score(clone(self.score_model), X, weights)

    def _finish_sums(
        self,
        groups: GroupSums,
        encoder: ResponseEncoder | None,
        plan: GaussianPlan | ScorePlan,
        X: Any,
        y: Any,
        weights: Any = None,
        span: Span | None = None,
    ) -> Self:
        self.score_model_: ScoreModel | None
        law, template, own = None, GaussianScore(), False
        if isinstance(plan, ScorePlan):
            moments, ridge = self._score_moments(groups.total, plan), 0.0
            self.score_model_ = plan.score
        else:
            own = X is not None and has_own_law(self._options(), self.score_model, groups.total)
            moments, law, template = self._gaussian_moments(
                groups.total, plan, (X, y, weights), span, own=own
            )
            ridge = law.ridge
        if span is None:
            warn_constant(np.diag(moments.covariance), column_labels(self))
        labels = encoder is not None and encoder.labels
        frame = settle(self._options(), moments, ridge, labels, self.n_features_in_)
        if frame.supervised:
            check_varies(np.diag(moments.y_covariance))
        if self.order != 1 and getattr(self.score_model_, "pseudo_inverse", False):
            warnings.warn(
                "a pseudo-inverse in the second order favours columns that hardly vary; use a ridge instead",
                UserWarning,
                stacklevel=4,
            )
        r = self._rank(plan, X, y, weights, frame, moments.scale, law)
        solution = solve_stein(self._options(), moments, frame, r, exact=isinstance(plan, GaussianPlan))
        directions = self._finish(moments, solution, r, span)
        options = settled(self._options(), moments, frame, labels, self.n_features_in_)
        law_of = partial(
            score_law, template=template, span=span, standardize=self.standardize, whole=False, own=own
        )
        left = stein_left_out(
            groups, moments, frame, solution, options, labels, self.n_features_in_, law_of, plan.average
        )
        store_errors(self, left if span is None else left.lifted(span), directions)
        return self

    def _gaussian_moments(
        self, sums: Any, plan: GaussianPlan, rows: tuple[Any, Any, Any], span: Span | None, *, own: bool
    ) -> tuple[SteinMoments, Any, Any]:
        """Moments, the law whose score is in them, and the score it was made of."""
        names = column_labels(self) if span is None else None
        template = learned_score(
            *(self.score_model, sums, plan, rows, names, self.n_features_in_, self.standardize, span), own=own
        )
        law, scale = score_law(sums, template, span, standardize=self.standardize, own=own)
        self.score_model_ = law.score
        self.ridge_ = law.score.ridge_ if isinstance(template.ridge, str) and law.score else template.ridge
        return stein_from_tables(sums, law, scale, plan.average), law, template

    def _score_moments(self, sums: Any, plan: ScorePlan) -> SteinMoments:
        return stein_from_sums(sums, plan, standardize=self.standardize)

    def _finish(self, m: SteinMoments, solution: SteinSolution, r: int, span: Span | None) -> Array:
        """Keep the directions; gives them for the original columns."""
        for note in solution.notes:
            warnings.warn(note, UserWarning, stacklevel=5)
        self.n_components_ = r
        self.unlabeled_weight_ = solution.weight
        self.n_labeled_ = int(m.n_labeled) if float(m.n_labeled).is_integer() else m.n_labeled
        self.singular_values_ = solution.values
        directions = solution.directions / m.scale[:, None]
        spread = (m.covariance @ solution.directions) * m.scale[:, None]
        if span is None:
            self.mean_ = m.mean
            self.scale_ = np.sqrt(np.diag(m.covariance)) * m.scale
        else:
            self.mean_, self.scale_ = span.mean, span.deviation
            directions, spread = span.loadings(0, directions), span.covariances(0, spread)
        self._store_directions(directions, self._dtype, spread)
        return directions

    def _options(self) -> SteinOptions:
        return SteinOptions(*(getattr(self, option.name) for option in fields(SteinOptions)))

    def _rank(
        self, plan: Any, X: Any, y: Any, weights: Any, frame: Frame, scale: Array, law: Law | None
    ) -> int:
        """The number of directions, by held-out error of the moments when it is to be found."""
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        if not frame.supervised or is_dask(X):
            raise ValueError(IN_MEMORY.format(self.n_components))

        def matrix(rows: Any) -> Array:
            w = None if weights is None else weights[rows]
            statistic = reduce_stein(plan, X[rows], np.asarray(y)[rows], w)
            if isinstance(plan, ScorePlan):
                moments = self._score_moments(statistic, plan)
            else:
                moments = stein_from_tables(statistic, law, scale, plan.average)
            return supervised_matrix(moments, self.order, self.combine, frame.transform, frame.root)

        return held_out_rank(matrix, labelled_rows(y), n_folds=5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
