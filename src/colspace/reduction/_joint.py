"""Joint reduction of one or more blocks of columns for a response."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from .._blocks import parse_blocks
from .._random import generator
from .._response import (
    ConstantResponseError,
    ResponseEncoder,
    check_varies,
    make_encoder,
    warn_heavy_tails,
)
from .._rows import is_chunk_iterator, is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._streamable import check_streamable, is_auto, passes_again
from .._threads import small_products, table_work
from .._validation import check_table, check_weights, feature_names, table_dtype
from ..factor import SingularCovarianceError
from ..moments import TriplePlan
from ._groups import GroupSums, stream_sums
from ._jackknife import store_block_errors
from ._joint_fit import (
    Problem,
    Solution,
    solve_moments,
    stream_pairs,
    whiteners_of,
    without_groups,
)
from ._joint_options import check_options, check_power, check_rank_test, known_law
from ._joint_solve import How, count_components, solve_table
from ._linear import BlockReductionMixin, column_labels
from ._loo import in_rows
from ._proxies import parse_moments
from ._rank import RankTest, joint_rank_test
from ._source import Source, gathered, weighted_rows
from ._spool import kept_rows


class _NotYetError(ValueError):
    """The rows seen so far do not determine the directions."""


class JointReduction(BlockReductionMixin, BaseEstimator):
    r"""Supervised reduction of one or more blocks of columns, jointly.

    The response depends on the blocks a, b, ... only through :math:`U^\top a, V^\top b, \dots`; the link
    is unknown. With whitened blocks and a standardised response the columns of U are the leading left
    singular vectors of the moments side by side,

    .. math:: \bigl[\; E[y\,a] \;\big|\; E[y\,a b^\top] \;\big|\; E[y\,a a^\top] \;\bigr],

    which finds additive (first part), odd (second) and even (third) links alike where columns are normal and rows
    are many: ``moments="all"``, one pass over the rows. The default, ``moments="auto"``, is for any table: blocks are
    whitened with the ridge :math:`\lambda` of least leave-one-out error, y is replaced by the leave-one-out residual of the
    ridge in all but the first part, and gradients of a kernel regression of that residual join in,

    .. math:: G = G_L + \frac{2 (v_K^2 G_K + v_H^2 G_H)}{v_K + v_H},

    each part weighted by the variance v that it explains on rows left out.

    Parameters
    ----------
    n_components : int, "auto", "moments" or "threshold", default=2
        Directions per block. "auto": the least number, up to 10, that reads y on rows left out (five folds of at most 20,000
        rows) as well as the best number does, within a standard error; readers are a linear and a quadratic ridge.
        "moments" minimises the held-out squared error of the moments; "threshold" counts singular values above the
        noise level.
    blocks : mapping, "prefix" or None, default=None
        Name -> columns (names, patterns, positions, slices, masks). "prefix" takes the text before ``__``
        in column names. None is one block. The key "drop" leaves columns out.
    whiten : {"full", "diagonal", None}, default="full"
        Cholesky of each block's covariance, feature-wise scaling, or centring only.
    shrinkage : float in [0, 1], "auto" or None, default=None
        Weight of the identity in each block's correlation matrix; "auto" is Ledoit-Wolf, None as little as the
        numbers allow (nothing where the covariance is regular), 0 refuses a singular covariance.
    solver : {"auto", "exact", "randomized", "countsketch"}, default="auto"
        "exact" forms the moments; the others see them only through products with the data
        (``2 n_power + 3`` passes) and suit tables with many columns. "auto" is exact up to 4,000 columns.
    n_power : int, default=2
        Power iterations of the randomised solvers; 0 is the published algorithm.
    n_selected : int, mapping, "auto", "threshold" or None, default=None
        Columns to keep per block (needs ``whiten`` "diagonal" or None). "auto" cross-validates the
        threshold of the noise rule.
    selection : {"refit", "paper"}, default="refit"
        "refit" keeps the moments whole on the selected columns, which is clearly more accurate; "paper" factors the
        thinned proxy of the published algorithm (two blocks, ``moments="joint"``, one response).
    moments : str or tuple, default="auto"
        "auto" (see above), or the published moments: "linear", "joint" (the published estimator), "hessian", "tensor"
        (HOSVD for three and more blocks), or a tuple; "all" is linear, joint and Hessian. Where ``whiten``, ``shrinkage``,
        ``solver``, ``n_selected`` or the rules "moments" and "threshold" for ``n_components`` ask for published moments, and in
        ``partial_fit``, which sees rows once, "auto" is "all".
    mean, covariance : mapping of blocks to arrays, array (one block) or None, default=None
        Known means and covariances, by which columns are centred and whitened (published moments); None: those of the rows.
    eta : float or None, default=None
        With the rule "threshold" (``moments="joint"``, two blocks, one response): the least entry and singular value of the true proxy, in
        units of y; above half of it they count, as published. None: above the noise level.
    response : None, "numbers", "rank", "labels" or callable, default=None
        Transform of y; a callable acts on each row by itself, as chunks are transformed one at a time. "labels"
        takes numbers as class labels; strings, booleans and categories always are. Numbers that look like codes of
        classes get a warning, which "numbers" silences.
    n_groups : int or None, default=20
        Groups of rows for errors of the directions, from sums that the same passes keep ("auto" and the exact
        solver). Fewer where their sums would take more than 256 MB, none under ten. None: no errors.
    random_state : int, RandomState or None, default=None
        Used by the randomised solvers, and for the sample of rows that "auto" takes of more than 1,500 (None is
        0 there).

    Attributes
    ----------
    loadings_ : dict of str to ndarray (columns of the block, n_components)
    components_ : ndarray (blocks * n_components, n_features)
    loadings_error_, components_error_ : of the same shapes, or None
        Standard errors (delete-one-group jackknife); Student's t of ``n_groups_ - 1`` degrees makes them intervals.
    expected_error_ : dict of str to float, or None
        Expected NSEE (`colspace.metrics.nsee`) of each block's space.
    n_groups_, errors_note_ : int, str
        Groups in use; why there are no errors, empty when there are.
    singular_values_ : dict of str to ndarray
    selected_ : dict of str to ndarray
        Positions in X of the columns kept (all of them without ``n_selected``).
    n_components_ : int
    component_scores_ : dict of str to ndarray
        With ``n_components="auto"``, for 0, 1, ... directions per block: "score", the R2 of y (labels: of their indicators) on rows left
        out, "error", its standard error, and "difference_error", that of its difference to the best; empty with fewer than ten different rows.
    shrinkage_ : dict of str to float
    ridge_ : dict of str to float
        With "auto", the ridge of each block on standardised columns (on half-whitened coordinates along leading axes, see ``n_axes_``).
    n_axes_ : dict of str to int
        With "auto", how many principal axes of each block directions are made of: all, or the leading ones where several blocks have
        more columns than rows and that errs less on rows left out.
    parts_ : dict of str to float
        With "auto", the share of the response's variance that each part explains on rows left out: "linear",
        "gradients" and "moments" (the latter two of what the linear part leaves).
    mean_, scale_ : ndarray (n_features,)
        Means and standard deviations of the columns.
    blocks_ : dict of str to ndarray
        Columns of each block.
    solver_ : str

    References
    ----------
    Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation".
    Li and Bresler, "Joint Dimensionality Reduction for Two Feature Vectors".

    Examples
    --------
    >>> from colspace import JointReduction
    >>> from colspace.datasets import make_bilinear
    >>> from colspace.metrics import nsee
    >>> X, y, blocks, truth = make_bilinear(4000, 10, 2, rng=0)
    >>> model = JointReduction(n_components=2, blocks=blocks).fit(X, y)
    >>> model.transform(X).shape
    (4000, 4)
    >>> nsee(truth, model.loadings_) < 0.15
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1), StrOptions({"auto", "moments", "threshold"})],
        "blocks": "no_validation",
        "whiten": [StrOptions({"full", "diagonal"}), None],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"}), None],
        "solver": [StrOptions({"auto", "exact", "randomized", "countsketch"})],
        "n_power": [whole(0)],
        "n_selected": [
            whole(1),
            StrOptions({"auto", "threshold"}),
            Mapping,
            None,
        ],
        "selection": [StrOptions({"refit", "paper"})],
        "moments": [str, tuple, list],
        "mean": ["array-like", Mapping, None],
        "covariance": ["array-like", Mapping, None],
        "eta": [Interval(Real, 0, None, closed="neither"), None],
        "response": [StrOptions({"rank", "labels", "numbers"}), callable, None],
        "n_groups": [whole(2), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        blocks: Any = None,
        whiten: str | None = "full",
        shrinkage: float | str | None = None,
        solver: str = "auto",
        n_power: int = 2,
        n_selected: Any = None,
        selection: str = "refit",
        moments: str | tuple[str, ...] = "auto",
        mean: Any = None,
        covariance: Any = None,
        eta: float | None = None,
        response: str | Callable[[Any], Any] | None = None,
        n_groups: int | None = 20,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.blocks = blocks
        self.whiten = whiten
        self.shrinkage = shrinkage
        self.solver = solver
        self.n_power = n_power
        self.n_selected = n_selected
        self.selection = selection
        self.moments = moments
        self.mean = mean
        self.covariance = covariance
        self.eta = eta
        self.response = response
        self.n_groups = n_groups
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, Dask array or dataframe, or an iterator of chunks (X, y) or (X, y, weights)
        y : array (n,), array (n, q), or class labels; None with an iterator
        sample_weight : array (n,), optional
            A weight of two counts a row twice, zero leaves it out. Folds ("auto") are of rows, not of weights.
        """
        self._forget_stream()
        check_options(self)
        if is_chunk_iterator(X):
            if y is not None or sample_weight is not None:
                msg = "an iterator of chunks yields pairs (X, y), or triples with weights; call fit(chunks) alone"
                raise TypeError(msg)
            return self._fit_chunks(X)
        return self._fit_table(check_table(self, X, reset=True, min_rows=2), y, sample_weight)

    @small_products(table_work)
    def _fit_table(self, X: Any, y: Any, weights: Any) -> Self:
        self._dtype = table_dtype(X)
        name, labels = type(self).__name__, column_labels(self)
        source = Source.of(X, y, self.response, name, weights=weights, labels=labels)
        problem, how = self._problem(), How.of(self, auto=is_auto(self))
        if how.auto:
            source = gathered(source, problem.blocks.widths)
            source = replace(source, weights=in_rows(source.weights))
        problem, counted = count_components(problem, source, how)
        return self._store(replace(solve_table(problem, source, how), counted=counted))

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows; the result equals ``fit`` on all rows seen so far.

        Every call factors small matrices anew; to read many small chunks at once, pass an iterator of
        (X, y) chunks to ``fit``. ``classes`` names all class labels at the first call. Until there are more rows
        than columns the model waits, unless ``shrinkage`` is a positive number.
        """
        self._validate_params()
        check_options(self)
        check_streamable(self)
        if is_auto(self) and not hasattr(self, "_stream"):
            warnings.warn(
                "partial_fit sees rows once and uses the published moments; moments='all' says so and silences this. fit "
                "with moments='auto', also on an iterator of chunks, is better where columns are skewed or many",
                UserWarning,
                stacklevel=2,
            )
        self._accumulate(X, y, classes, sample_weight)
        try:
            return self._finish_stream()
        except _NotYetError as reason:  # rows are kept; more of them may help
            self._waiting = str(reason)
            return self

    def _problem(self) -> Problem:
        blocks = parse_blocks(self.blocks, self.n_features_in_, feature_names(self))
        return Problem(
            blocks=blocks,
            wanted=parse_moments(self.moments, len(blocks)),
            labels=column_labels(self),
            n_components=self.n_components,
            whiten=self.whiten,
            shrinkage=self.shrinkage,
            n_selected=self.n_selected,
            selection=self.selection,
            law=known_law(self.mean, self.covariance, blocks),
            eta=self.eta,
        )

    def _fit_chunks(self, chunks: Any) -> Self:
        if passes_again(self):  # goes over the rows several times
            return self._fit_table(*kept_rows(self, chunks))
        for chunk in chunks:
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
                msg = "an iterator of chunks must yield pairs (X, y) or triples (X, y, sample_weight)"
                raise TypeError(msg)
            X, y, *weights = chunk
            self._accumulate(X, y, None, *weights, afresh=True)
        if not hasattr(self, "_stream"):
            msg = "no rows: the iterator of chunks was empty (or was read before)"
            raise ValueError(msg)
        return self._finish_stream()

    def _forget_stream(self) -> None:
        for name in ("_stream", "_stream_plan", "_stream_encoder", "_waiting"):
            if hasattr(self, name):
                delattr(self, name)

    def _accumulate(
        self, X: Any, y: Any, classes: Any, sample_weight: Any = None, *, afresh: bool = False
    ) -> None:
        """Add one chunk to the running moments; a chunk that fails leaves everything as it was."""
        check_streamable(self)
        first = not hasattr(self, "_stream")
        if is_dask(X):
            msg = "partial_fit takes rows in memory; give a Dask collection to fit"
            raise TypeError(msg)
        model = clone(self) if first else self
        X = check_table(model, X, reset=first)
        encoder, plan = model._open_stream(X, y, classes) if first else self._check_stream(y)
        Y = encoder(y)
        if Y.shape != (X.shape[0], encoder.n_responses):
            msg = (
                f"y has {Y.shape[0]} rows and {Y.shape[1]} response(s), but X has {X.shape[0]} rows and "
                f"{encoder.n_responses} response(s) are expected; they must agree"
            )
            raise ValueError(msg)
        if not encoder.labels:
            warn_heavy_tails(Y)
        X, Y, weights = weighted_rows(check_weights(sample_weight, X), X, Y)
        statistic = stream_sums(Source(X, Y, encoder, weights, column_labels(model)), plan, self.n_groups)
        if not first:
            self._stream: GroupSums = self._stream + statistic
            return
        if hasattr(self, "loadings_") and not afresh:
            warnings.warn(
                "partial_fit starts afresh: rows seen by fit are not part of the result. To extend a "
                "model, use partial_fit from the first chunk on",
                UserWarning,
                stacklevel=4,
            )
        if hasattr(self, "loadings_"):
            del self.loadings_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
            elif hasattr(self, name):
                delattr(self, name)
        self._dtype = table_dtype(X)
        self._stream, self._stream_plan, self._stream_encoder = statistic, plan, encoder

    def _open_stream(self, X: Any, y: Any, classes: Any) -> tuple[ResponseEncoder, TriplePlan]:
        """How the chunks of a stream are encoded and added up, from the first of them."""
        encoder = make_encoder(y, self.response, classes=classes, streaming=True, caller=type(self).__name__)
        problem = self._problem()
        problem.check_width()
        problem.check_responses(encoder.n_responses)
        check_power(self.n_power, "exact", sum(problem.blocks.widths))
        plain, weighted = stream_pairs(problem)
        plan, _ = Source(X, encoder(y), encoder).plan(problem.blocks, plain, weighted)
        return encoder, plan

    def _check_stream(self, y: Any) -> tuple[ResponseEncoder, TriplePlan]:
        """The stream's encoder and plan, if it is still the same stream."""
        if y is None:
            make_encoder(None, self.response, caller=type(self).__name__)
        problem, plan = self._problem(), self._stream_plan
        order = np.arange(self.n_features_in_) if plan.order is None else plan.order
        same = np.array_equal(order, np.concatenate(problem.blocks.columns))
        if (
            not same
            or plan.slices != problem.blocks.slices
            or (plan.plain, plan.weighted) != stream_pairs(problem)
        ):
            msg = "blocks or moments changed between calls of partial_fit; start again on sklearn.base.clone(model)"
            raise ValueError(msg)
        return self._stream_encoder, plan

    def _finish_stream(self) -> Self:
        sums = self._stream
        encoder, variance = self._stream_encoder, sums.total.y_variance
        if encoder.classes is not None and not variance.all():
            unseen = encoder.classes[variance <= 0] if len(variance) > 1 else encoder.classes
            msg = f"{sums.total.count} rows have not shown every class yet (see {unseen.tolist()})"
            raise _NotYetError(msg)
        problem = self._problem()
        c = problem.centred(sums.total)
        shrinkage: list[Any] = [self.shrinkage] * len(problem.blocks)
        widest = max(problem.blocks.widths)
        try:
            check_varies(variance)
            inverted = self.whiten == "full" and self.covariance is None
            if self.shrinkage is None and inverted and c.rows <= widest:
                msg = (
                    f"more rows than columns are needed: {c.rows} rows, {widest} columns. Remedies: more rows, or "
                    "shrinkage in (0, 1]"
                )
                raise _NotYetError(msg)
            whiteners = whiteners_of(problem, c, shrinkage)
            solution = solve_moments(problem, c, whiteners)
        except (SingularCovarianceError, ConstantResponseError) as reason:
            raise _NotYetError(str(reason)) from reason
        if hasattr(self, "_waiting"):
            del self._waiting
        return self._store(replace(solution, left=without_groups(problem, sums, whiteners, solution)))

    def _store(self, solution: Solution) -> Self:
        blocks = self._problem().blocks
        self._store_blocks(
            blocks,
            solution.loadings,
            solution.values,
            solution.mean,
            solution.scale,
            self._dtype,
            solution.spreads,
        )
        learned = {"ridge_": solution.ridges, "n_axes_": solution.axes, "parts_": solution.parts}
        for name, found in {**learned, "component_scores_": solution.counted}.items():
            if hasattr(self, name):
                delattr(self, name)
            if found is not None:
                by_name = found if isinstance(found, dict) else dict(zip(blocks.names, found, strict=True))
                setattr(self, name, by_name)
        self.n_samples_seen_ = solution.count
        self.solver_ = solution.solver
        self.shrinkage_ = dict(zip(blocks.names, solution.shrinkage, strict=True))
        self.selected_ = {
            n: c[s] for n, c, s in zip(blocks.names, blocks.columns, solution.supports, strict=True)
        }
        store_block_errors(self, solution.left, blocks, solution.loadings)
        return self

    def transform(self, X: Any) -> Any:
        """Embed rows: the blocks' directions applied to centred columns, side by side."""
        if hasattr(self, "_waiting"):
            msg = f"This {type(self).__name__} instance is not fitted yet: partial_fit keeps its rows and waits for more ({self._waiting})"
            raise NotFittedError(msg)
        return super().transform(X)

    @small_products(table_work)
    def rank_test(
        self,
        X: Any,
        y: Any,
        *,
        n_permutations: int = 199,
        alpha: float = 0.05,
        max_components: int | None = None,
        random_state: Any = None,
    ) -> RankTest:
        """Sequential permutation test of the number of directions; needs no fit.

        Tests "at most k directions" for k = 0, 1, ... until a hypothesis stands, on all columns of the blocks. With "auto" second
        moments are of the ridge's leave-one-out residual, where rows are four times the columns. Keeps whitened copies of a
        dense X; the rows of a Dask collection or CSR matrix stay where they are and are permuted within partitions.

        Examples
        --------
        >>> from colspace import JointReduction
        >>> from colspace.datasets import make_bilinear
        >>> X, y, blocks, _ = make_bilinear(3000, 6, 2, rng=0)
        >>> JointReduction(blocks=blocks).rank_test(X, y, random_state=0).n_components
        2
        """
        self._validate_params()
        check_rank_test(self, n_permutations, alpha, max_components)
        model = type(self)(**{**self.get_params(), "n_components": 1, "n_selected": None, "eta": None})
        X = check_table(model, X, reset=True, min_rows=2)
        source = Source.of(X, y, self.response, type(self).__name__, labels=column_labels(model))
        return joint_rank_test(
            model._problem(),
            source,
            auto=is_auto(model),
            n_permutations=n_permutations,
            alpha=alpha,
            max_components=max_components,
            rng=generator(random_state),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loadings_")
