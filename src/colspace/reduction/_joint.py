"""Joint reduction of one or more blocks of columns for a response."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from .._blocks import Blocks, parse_blocks
from .._random import generator
from .._response import check_varies, make_encoder, warn_heavy_tails
from .._rows import is_chunk_iterator, is_dask
from .._sklearn_compat import Interval, StrOptions, _fit_context
from .._validation import check_table, feature_names, warn_constant
from ..factor import Whitener, diagonal_whitener
from ..moments import CentredMoments, TripleMoments, centre
from ._linear import linear_transform
from ._proxies import (
    Unfolded,
    block_pairs,
    cross_validate_shape,
    factor_blocks,
    make_whiteners,
    parse_moments,
    select,
    threshold_counts,
    threshold_rank,
    unfold_moments,
)
from ._rank import RankTest, permutation_rank_test
from ._sketched import fit_sketched
from ._source import Folded, Source, ledoit_wolf_weights
from ._tensor import fit_tensor

Array = NDArray[np.float64]

_WIDE = 4000  # columns beyond which "auto" stops forming column-by-column products
_WIDEST_FULL = 15_000  # columns of a block beyond which a full covariance is refused
_FOLDS = 5
_THRESHOLD_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6)


class JointReduction(TransformerMixin, BaseEstimator):
    r"""Supervised reduction of one or more blocks of columns, jointly.

    The response depends on the blocks a, b, ... only through :math:`U^\top a, V^\top b, \dots`; the link
    is unknown. With whitened blocks and a standardised response the columns of U are the leading left
    singular vectors of the moments side by side,

    .. math:: \bigl[\; E[y\,a] \;\big|\; E[y\,a b^\top] \;\big|\; E[y\,a a^\top] \;\bigr],

    which finds additive (first part), odd (second) and even (third) links alike. One pass over the rows
    collects everything; all else happens on small matrices.

    Parameters
    ----------
    n_components : int, "auto" or "threshold", default=2
        Directions per block. "auto" minimises the held-out squared error of the moments over five folds;
        "threshold" counts singular values above the noise level.
    blocks : mapping, "prefix" or None, default=None
        Name -> columns (names, patterns, positions, slices, masks). "prefix" takes the text before ``__``
        in column names. None is one block. The key "drop" leaves columns out.
    whiten : {"full", "diagonal", None}, default="full"
        Cholesky of each block's covariance, feature-wise scaling, or centring only.
    shrinkage : float in [0, 1] or "auto", default=0.0
        Weight of the identity in each block's correlation matrix; "auto" is Ledoit-Wolf.
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
    moments : str or tuple, default="all"
        "linear", "joint" (the published estimator), "hessian", "tensor" (HOSVD for three and more
        blocks), or a tuple. "all" is linear, joint and Hessian.
    response : None, "rank", "labels" or callable, default=None
        Transform of y. "labels" takes numbers as class labels; strings and booleans always are.
    random_state : int, RandomState or None, default=None
        Used by the randomised solvers.

    Attributes
    ----------
    loadings_ : dict of str to ndarray (columns of the block, n_components)
    components_ : ndarray (blocks * n_components, n_features)
    singular_values_ : dict of str to ndarray
    selected_ : dict of str to ndarray
        Positions in X of the columns kept (all of them without ``n_selected``).
    n_components_ : int
    shrinkage_ : dict of str to float
    mean_ : ndarray (n_features,)
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
    >>> nsee(truth, model.loadings_) < 0.1
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto", "threshold"})],
        "blocks": "no_validation",
        "whiten": [StrOptions({"full", "diagonal"}), None],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "solver": [StrOptions({"auto", "exact", "randomized", "countsketch"})],
        "n_power": [Interval(Integral, 0, None, closed="left")],
        "n_selected": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto", "threshold"}),
            Mapping,
            None,
        ],
        "selection": [StrOptions({"refit", "paper"})],
        "moments": [str, tuple, list],
        "response": [StrOptions({"rank", "labels"}), callable, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        blocks: Any = None,
        whiten: str | None = "full",
        shrinkage: float | str = 0.0,
        solver: str = "auto",
        n_power: int = 2,
        n_selected: Any = None,
        selection: str = "refit",
        moments: str | tuple[str, ...] = "all",
        response: str | Callable[[Any], Any] | None = None,
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
        self.response = response
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the directions.

        Parameters
        ----------
        X : array, DataFrame, CSR matrix, Dask array or dataframe, or an iterator of (X, y) chunks
        y : array (n,), array (n, q), or class labels; None with an iterator
        """
        self._forget_stream()
        if is_chunk_iterator(X):
            return self._fit_chunks(X)
        X = check_table(self, X, reset=True, min_rows=2)
        source = Source.of(X, y, self.response, type(self).__name__)
        blocks = self._open(X)
        self._dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        wanted = parse_moments(self.moments, len(blocks))
        solver = self._choose_solver(X, blocks)
        if solver == "exact" and "tensor" not in wanted:
            return self._fit_exact(source, blocks, wanted)
        return self._fit_passes(source, blocks, wanted, solver)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Add rows; the result equals ``fit`` on all rows seen so far.

        Every call factors small matrices anew; to read many small chunks at once, pass an iterator of
        (X, y) chunks to ``fit``. ``classes`` names all class labels at the first call.
        """
        self._validate_params()
        self._accumulate(X, y, classes)
        self._finish_stream(patient=True)
        return self

    def _fit_chunks(self, chunks: Any) -> Self:
        empty = True
        for chunk in chunks:
            if not isinstance(chunk, tuple) or len(chunk) != 2:
                msg = "an iterator of chunks must yield pairs (X, y)"
                raise TypeError(msg)
            self._accumulate(*chunk, classes=None)
            empty = False
        if empty:
            msg = "no rows: the iterator of chunks was empty (or was read before)"
            raise ValueError(msg)
        self._finish_stream(patient=False)
        return self

    def _forget_stream(self) -> None:
        for name in ("_stream", "_stream_plan", "_stream_encoder"):
            if hasattr(self, name):
                delattr(self, name)

    def _accumulate(self, X: Any, y: Any, classes: Any) -> None:
        """Add one chunk to the running moments."""
        first = not hasattr(self, "_stream")
        if first and hasattr(self, "loadings_"):
            del self.loadings_
            warnings.warn(
                "partial_fit starts afresh: rows seen by fit are not part of the result. To extend a model, "
                "use partial_fit from the first chunk on",
                UserWarning,
                stacklevel=3,
            )
        self._check_streamable()
        X = check_table(self, X, reset=first, min_rows=1)
        if is_dask(X):
            msg = "partial_fit takes rows in memory; give a Dask collection to fit"
            raise TypeError(msg)
        if first:
            encoder = make_encoder(
                y, self.response, classes=classes, streaming=True, caller=type(self).__name__
            )
            blocks = self._open(X)
            self._dtype = np.float32 if X.dtype == np.float32 else np.float64
            source = Source(X, encoder(y), encoder)
            wanted = parse_moments(self.moments, len(blocks))
            self._check_selection(blocks, wanted, encoder.n_responses)
            own, weighted = block_pairs(wanted, len(blocks))
            plan, _ = source.plan(blocks, tuple(sorted({*own, *weighted})), weighted)
            self._stream_plan, self._stream_encoder = plan, encoder
        encoder, plan = self._stream_encoder, self._stream_plan
        Y = encoder(y)
        if len(Y) != X.shape[0]:
            msg = f"X has {X.shape[0]} rows and y has {len(Y)}; they must agree"
            raise ValueError(msg)
        if not encoder.labels:
            warn_heavy_tails(Y)
        if sparse.issparse(X) and plan.keep_sparse is False:
            X = X.toarray()
        statistic = Source(X, Y, encoder).reduce(plan)
        self._stream: TripleMoments = statistic if first else self._stream + statistic

    def _check_streamable(self) -> None:
        reasons = {
            "solver": self.solver in ("randomized", "countsketch"),
            "shrinkage": self.shrinkage == "auto",
            "n_components": self.n_components == "auto",
            "n_selected": isinstance(self.n_selected, str) and self.n_selected == "auto",
            "moments": self.moments == "tensor",
        }
        for name, wrong in reasons.items():
            if wrong:
                msg = (
                    f"{name}={getattr(self, name)!r} reads the data more than once, so it does not work in chunks. "
                    "Remedies: a number (or 'threshold' for n_components and n_selected), solver='exact', "
                    "moments='joint', or fit on an array, memmap or Dask collection"
                )
                raise ValueError(msg)

    def _finish_stream(self, *, patient: bool) -> None:
        blocks = self._blocks
        enough = self.whiten != "full" or self.shrinkage != 0.0 or self._stream.count > max(blocks.widths)
        if patient and not enough:
            return  # not yet more rows than columns: keep adding
        c = centre(self._stream)
        deviation = np.sqrt(np.maximum(np.diag(self._stream.yy), 0))
        if patient and (self._stream.count < 2 or not deviation.any()):
            return
        check_varies(np.vstack([np.zeros_like(deviation), deviation]))
        wanted = parse_moments(self.moments, len(blocks))
        self._finish(c, blocks, wanted, [float(self.shrinkage)] * len(blocks), None)

    def _open(self, X: Any) -> Blocks:
        blocks = parse_blocks(self.blocks, self.n_features_in_, feature_names(self))
        self._blocks = blocks
        narrow = int(np.argmin(blocks.widths))
        if not isinstance(self.n_components, str) and self.n_components > blocks.widths[narrow]:
            msg = (
                f"n_components={self.n_components} is more than the {blocks.widths[narrow]} columns of block "
                f"{blocks.names[narrow]!r} (n_features = {self.n_features_in_}); lower n_components or widen the block"
            )
            raise ValueError(msg)
        if self.n_selected is not None and self.whiten == "full":
            msg = "n_selected keeps original columns, which whiten='full' mixes; use whiten='diagonal' (or None)"
            raise ValueError(msg)
        self._given_counts(blocks)
        widest = max(blocks.widths)
        if self.whiten == "full" and widest > _WIDEST_FULL:
            msg = (
                f"whiten='full' forms a {widest} x {widest} covariance ({8 * widest**2 / 1e9:.1f} GB); "
                "use whiten='diagonal' with solver='randomized'"
            )
            raise ValueError(msg)
        return blocks

    def _given_counts(self, blocks: Blocks) -> tuple[int, ...] | None:
        """Selection counts named by the user, checked."""
        if self.n_selected is None or isinstance(self.n_selected, str):
            return None
        given = self.n_selected
        if isinstance(given, Mapping):
            if set(given) != set(blocks.names):
                msg = f"n_selected names blocks {sorted(given)}, but blocks are {sorted(blocks.names)}"
                raise ValueError(msg)
            counts = tuple(int(given[name]) for name in blocks.names)
        else:
            counts = (int(given),) * len(blocks)
        for s, width, name in zip(counts, blocks.widths, blocks.names, strict=True):
            if not 1 <= s <= width:
                msg = f"n_selected={s} must be between 1 and the {width} columns of block {name!r}"
                raise ValueError(msg)
            if not isinstance(self.n_components, str) and s < self.n_components:
                msg = f"n_selected={s} of block {name!r} is less than n_components={self.n_components}; keep more"
                raise ValueError(msg)
        return counts

    def _check_selection(self, blocks: Blocks, wanted: frozenset[str], n_responses: int) -> None:
        if self.selection == "paper" and not (wanted == {"joint"} and len(blocks) == 2 and n_responses == 1):
            msg = (
                "selection='paper' is defined for two blocks, one response and moments='joint'; here "
                f"{len(blocks)} block(s), {n_responses} response(s), moments={self.moments!r}. Use selection='refit'"
            )
            raise ValueError(msg)

    def _choose_solver(self, X: Any, blocks: Blocks) -> str:
        solver = self.solver
        if solver == "auto":
            solver = "exact" if sum(blocks.widths) <= _WIDE else "randomized"
        if solver != "exact" and (isinstance(self.n_components, str) or self.n_selected is not None):
            name = "n_components" if isinstance(self.n_components, str) else "n_selected"
            msg = (
                f"{name}={getattr(self, name)!r} looks at the moments themselves, which solver={solver!r} "
                f"never forms ({sum(blocks.widths)} columns). Remedies: solver='exact', or a number of "
                "components and no selection"
            )
            raise ValueError(msg)
        return solver

    def _fit_exact(self, source: Source, blocks: Blocks, wanted: frozenset[str]) -> Self:
        self._check_selection(blocks, wanted, source.encoder.n_responses)
        own, weighted = block_pairs(wanted, len(blocks))
        plan, rows = source.plan(blocks, own, weighted)
        by_folds = "auto" in (self.n_components, self.n_selected)
        if by_folds:
            folds = source.reduce(Folded(plan, _FOLDS), chunk=rows)
            total, parts = folds.total, folds.parts
        else:
            total, parts = source.reduce(plan, chunk=rows), ()
        c = centre(total)
        if source.dask:
            check_varies(np.vstack([np.zeros_like(c.y_scale), np.sqrt(np.diag(total.yy))]))
        shrinkage = self._shrinkages(source, c, blocks)
        shape = self._shape_by_folds(total, parts, blocks, wanted, shrinkage) if by_folds else None
        return self._finish(c, blocks, wanted, shrinkage, shape)

    def _shrinkages(self, source: Source, c: CentredMoments, blocks: Blocks) -> list[float]:
        if self.whiten != "full" or self.shrinkage != "auto":
            return [0.0 if self.whiten != "full" else float(self.shrinkage)] * len(blocks)
        covariances = [c.covariance[b, b] for b in range(len(blocks))]
        return ledoit_wolf_weights(source, blocks, c.mean, covariances, c.count)

    def _labels(self) -> list[object]:
        names = feature_names(self)
        return list(names) if names is not None else list(range(self.n_features_in_))

    def _shape_by_folds(
        self,
        total: TripleMoments,
        parts: tuple[TripleMoments, ...],
        blocks: Blocks,
        wanted: frozenset[str],
        shrinkage: list[float],
    ) -> tuple[int, float | None]:
        """Rank and threshold factor with the least held-out error of the moments."""
        folds = []
        for part in parts:
            if part.count == 0:
                continue
            train = centre(total - part)
            whiteners = make_whiteners(train, blocks, self.whiten, shrinkage, self._labels())
            held_out = centre(part, y_scale=train.y_scale)
            folds.append(
                (
                    unfold_moments(train, whiteners, wanted),
                    unfold_moments(held_out, whiteners, wanted),
                )
            )
        count = total.count * (_FOLDS - 1) // _FOLDS
        limit = min(blocks.widths)
        fixed_rank = not isinstance(self.n_components, str)
        least = int(self.n_components) if fixed_rank else 1
        candidates: list[Callable[[list[Unfolded]], tuple[int, ...] | None]]
        factors: tuple[float, ...] = ()
        if isinstance(self.n_selected, str):
            factors = _THRESHOLD_FACTORS if self.n_selected == "auto" else (1.0,)
            candidates = [partial(threshold_counts, count=count, least=least, factor=f) for f in factors]
        else:
            counts = self._given_counts(blocks)
            candidates = [lambda _: counts]
        limit = int(self.n_components) if fixed_rank else limit
        best, rank = cross_validate_shape(folds, candidates, limit, paper=self.selection == "paper")
        return rank, (factors[best] if factors else None)

    def _finish(
        self,
        c: CentredMoments,
        blocks: Blocks,
        wanted: frozenset[str],
        shrinkage: list[float],
        shape: tuple[int, float | None] | None,
    ) -> Self:
        """Directions from central moments."""
        labels = self._labels()
        whiteners = make_whiteners(c, blocks, self.whiten, shrinkage, labels)
        variance = np.concatenate([np.diag(c.covariance[b, b]) for b in range(len(blocks))])
        warn_constant(variance, [labels[i] for i in np.concatenate(blocks.columns)])
        unfolded = unfold_moments(c, whiteners, wanted)
        rank = self._rank(unfolded, c, blocks, shape)
        counts = self._given_counts(blocks)
        if isinstance(self.n_selected, str):
            factor = 1.0 if shape is None or shape[1] is None else shape[1]
            counts = threshold_counts(unfolded, c.count, rank, factor)
        matrices = [u.matrix for u in unfolded]
        supports = [np.arange(w) for w in blocks.widths]
        if counts is not None:
            matrices, supports = select(unfolded, counts, paper=self.selection == "paper")
        directions, values = factor_blocks(matrices, rank)
        if counts is not None:
            for U, support in zip(directions, supports, strict=True):
                off = np.ones(len(U), dtype=bool)
                off[support] = False
                U[off] = 0.0
        self.solver_ = "exact"
        self._store(c.mean, blocks, whiteners, directions, values, supports, shrinkage, c.count)
        return self

    def _rank(
        self,
        unfolded: list[Unfolded],
        c: CentredMoments,
        blocks: Blocks,
        shape: tuple[int, float | None] | None,
    ) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        if shape is not None and self.n_components == "auto":
            return shape[0]
        rank = threshold_rank(unfolded, c.count, min(blocks.widths))
        if rank == 0:
            warnings.warn(
                "no singular value is above the noise level: the data show no direction that matters; "
                "one component is kept. See rank_test for a p-value",
                UserWarning,
                stacklevel=4,
            )
        return max(rank, 1)

    def _fit_passes(self, source: Source, blocks: Blocks, wanted: frozenset[str], solver: str) -> Self:
        """Solvers that go over the rows several times: sketches, and the tensor of three blocks."""
        if isinstance(self.n_components, str) or self.n_selected is not None:
            msg = "moments='tensor' takes a number of components and no selection; use moments='joint' for those"
            raise ValueError(msg)
        own, _ = block_pairs(wanted, len(blocks))
        if self.whiten == "full":
            plan, rows = source.plan(blocks, own, ())
            c = centre(source.reduce(plan, chunk=rows))
            shrinkage = self._shrinkages(source, c, blocks)
            whiteners = make_whiteners(c, blocks, "full", shrinkage, self._labels())
            mean, y_mean, y_scale, count = c.mean, c.y_mean, c.y_scale, c.count
            variance = np.concatenate([np.diag(c.covariance[b, b]) for b in range(len(blocks))])
        else:
            shrinkage = [0.0] * len(blocks)
            table = source.columns()
            order = np.concatenate(blocks.columns)
            mean, variance, count = table.x.mean[order], table.x.variance[order], table.x.count
            y_mean, y_scale = table.y.mean, np.sqrt(table.y.variance)
            check_varies(np.vstack([np.zeros_like(y_scale), y_scale]))
            whiteners = [
                diagonal_whitener(variance[s]) if self.whiten else Whitener(np.ones(s.stop - s.start))
                for s in blocks.slices
            ]
        labels = self._labels()
        warn_constant(variance, [labels[i] for i in np.concatenate(blocks.columns)])
        r = int(self.n_components)
        if "tensor" in wanted:
            directions, values = fit_tensor(source, blocks, whiteners, mean, y_mean, y_scale, count, r)
            solver = "exact"
        else:
            directions, values = fit_sketched(
                source,
                blocks,
                whiteners,
                wanted,
                mean,
                y_mean,
                y_scale,
                count,
                r=r,
                n_power=self.n_power,
                method=solver,
                rng=generator(self.random_state),
            )
        self.solver_ = solver
        supports = [np.arange(w) for w in blocks.widths]
        self._store(mean, blocks, whiteners, directions, values, supports, shrinkage, count)
        return self

    def _store(
        self,
        mean: Array,
        blocks: Blocks,
        whiteners: list[Whitener],
        directions: list[Array],
        values: list[Array],
        supports: list[NDArray[np.intp]],
        shrinkage: list[float],
        count: int,
    ) -> None:
        dtype = self._dtype
        names = blocks.names
        self.n_components_ = directions[0].shape[1]
        self.n_samples_seen_ = count
        loadings = [w.loadings(U).astype(dtype) for w, U in zip(whiteners, directions, strict=True)]
        self.loadings_ = dict(zip(names, loadings, strict=True))
        self.singular_values_ = dict(zip(names, values, strict=True))
        self.shrinkage_ = dict(zip(names, shrinkage, strict=True))
        self.blocks_ = dict(zip(names, blocks.columns, strict=True))
        self.selected_ = {n: c[s] for n, c, s in zip(names, blocks.columns, supports, strict=True)}
        self.mean_ = np.zeros(self.n_features_in_)
        self.mean_[np.concatenate(blocks.columns)] = mean
        self.components_ = np.zeros((len(blocks) * self.n_components_, self.n_features_in_), dtype=dtype)
        for b, (columns, L) in enumerate(zip(blocks.columns, loadings, strict=True)):
            rows = slice(b * self.n_components_, (b + 1) * self.n_components_)
            self.components_[rows, columns] = L.T

    # ------------------------------------------------------------------ use

    def transform(self, X: Any) -> Any:
        """Embed rows: the blocks' directions applied to centred columns, side by side."""
        self._check_fitted()
        X = check_table(self, X, reset=False)
        return linear_transform(X, self.mean_, self.components_)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            more = ""
            if hasattr(self, "_stream"):
                more = (
                    f": partial_fit has seen {self._stream.count} rows, but whiten='full' needs more rows "
                    "than columns per block; add rows, or set shrinkage"
                )
            msg = f"This {type(self).__name__} instance is not fitted yet{more or '; call fit first'}"
            raise NotFittedError(msg)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the embedding's columns: ``block__0``, or ``jointreduction0`` without blocks."""
        self._check_fitted()
        if self.blocks is None:
            stem = type(self).__name__.lower()
            return np.asarray([f"{stem}{k}" for k in range(self.n_components_)], dtype=object)
        return np.asarray(
            [f"{b}__{k}" for b in self.blocks_ for k in range(self.n_components_)], dtype=object
        )

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

        Tests "at most k directions" for k = 0, 1, ... until a hypothesis stands. Keeps one whitened copy of X.

        Examples
        --------
        >>> from colspace import JointReduction
        >>> from colspace.datasets import make_bilinear
        >>> X, y, blocks, _ = make_bilinear(3000, 6, 2, rng=0)
        >>> JointReduction(blocks=blocks).rank_test(X, y, random_state=0).n_components
        2
        """
        self._validate_params()
        model = type(self)(**{**self.get_params(), "n_components": 1, "n_selected": None, "solver": "exact"})
        if sparse.issparse(X) or is_dask(X):
            msg = (
                "rank_test permutes whitened rows and needs a dense table in memory; give it a sample of rows, "
                "X[rows].toarray() or X[rows].compute()"
            )
            raise TypeError(msg)
        X = check_table(model, X, reset=True, min_rows=2)
        source = Source.of(X, y, self.response, type(self).__name__)
        blocks = model._open(X)
        wanted = parse_moments(self.moments, len(blocks))
        if "tensor" in wanted:
            msg = "rank_test works on matrices of moments; use moments='joint' (pairwise) instead of 'tensor'"
            raise ValueError(msg)
        own, _ = block_pairs(wanted, len(blocks))
        plan, rows = source.plan(blocks, own, ())
        c = centre(source.reduce(plan, chunk=rows))
        whiteners = make_whiteners(
            c, blocks, self.whiten, model._shrinkages(source, c, blocks), model._labels()
        )
        Z = np.hstack(
            [
                w.apply((X[:, cols] - c.mean[s]).T).T
                for w, cols, s in zip(whiteners, blocks.columns, blocks.slices, strict=True)
            ]
        )
        Y = (source.y - c.y_mean) / c.y_scale
        limit = min(blocks.widths) if max_components is None else min(max_components, *blocks.widths)
        return permutation_rank_test(
            Z,
            Y,
            blocks.slices,
            wanted,
            n_permutations=n_permutations,
            alpha=alpha,
            max_components=limit,
            rng=generator(random_state),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "loadings_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
