"""Joint reduction of both sides and kernel regression over pairs."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._random import generator
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._validation import warn_constant
from ._features import (
    SIDES,
    Features,
    check_features,
    check_same_columns,
    check_same_names,
    embedded,
    refuse_overflow,
    sides,
    unpack,
)
from ._kernel import Smoother, median_distance
from ._links import Links, check_links, shown
from ._ranking import assemble, check_k, ranked_frame, require_pandas, scores_frame, top_of_blocks
from ._reduce import WHITENED, Embedding, check_width, embeddings, pair_moments
from ._tune import LEFT, RIGHT, SHRINKAGES, Grid, Problem, Settings, tune

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class PairRegressor(BaseEstimator):
    r"""Scores of pairs of entities, for entities never seen: joint reduction and kernel regression.

    Left entities have features a, right ones b, and some pairs a score y. With whitened features the
    singular value decomposition :math:`U S V^\top` of the proxy :math:`E[y' a' b'^\top]` over pairs gives the
    coordinates :math:`a'' = S^{1/2} U^\top a'` and :math:`b'' = S^{1/2} V^\top b'`, and

    .. math:: \hat y_{ij} = \frac{\sum_{pq} K(a''_i - a''_p)\, K(b''_j - b''_q)\, y_{pq}}
                            {\sum_{pq} K(a''_i - a''_p)\, K(b''_j - b''_q)}

    over the observed pairs, with Gaussian kernels. The kernel is separable, so all predictions are three
    matrix products; they are made in chunks, and scores stay sparse.

    Parameters
    ----------
    n_components : int, default=10
        Directions per side.
    reduction : {"joint", "pca", "phd", "cphd", "sols"}, default="joint"
        How the coordinates are found: joint reduction; principal components; principal Hessian directions of each
        side; ``2 * n_components`` of them of both sides' features together (each side's part enters the same
        separable kernel); or least squares within groups of entities (structured OLS).
    shrinkage : float in [0, 1] or "auto", default="auto"
        Weight of the identity in the correlation matrices of the features; "auto" is chosen with the bandwidths.
        Principal components are not whitened and take "auto" only.
    bandwidth : float, (float, float) or "auto", default="auto"
        Width of the kernels, left and right, relative to the median distance between entities; "auto" cross-validates
        over held-out left entities.
    cv : int, default=5
        Folds of the cross-validation behind "auto".
    n_top : int, default=100
        Length of the list of partners that "auto" looks at (scores where absent is zero).
    random_state : int, RandomState or None, default=0
        Folds of the cross-validation, and groups of "sols".

    Attributes
    ----------
    loadings_ : dict of "left" and "right" to ndarray (features, directions)
    singular_values_ : dict of "left" and "right" to ndarray
        Of the proxy; for other reductions eigenvalues and their like.
    shrinkage_ : float
        Zero for principal components.
    bandwidth_ : dict of "left" and "right" to float
        Relative to ``median_distance_``.
    median_distance_ : dict of "left" and "right" to float
    cv_results_ : dict of ndarray
        Settings tried with their scores (``mean_score``, larger is better); only where something was "auto".

    References
    ----------
    Li, Cheng, Wen and Bresler, "Joint Dimensionality Reduction for Separable Embedding Estimation", Section 5.

    Examples
    --------
    >>> from colspace import PairRegressor
    >>> from colspace.datasets import make_pairs
    >>> from colspace.metrics import recall_at_k
    >>> A, B, Y, _ = make_pairs(300, 200, rng=0)
    >>> model = PairRegressor(3, shrinkage=0.1, bandwidth=0.2).fit(A[:250], B, Y[:250])
    >>> recall_at_k(Y[250:], model.predict(A[250:]), k=20) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [whole(1)],
        "reduction": [StrOptions({"joint", "pca", "phd", "cphd", "sols"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), tuple, list],
        "cv": [whole(2)],
        "n_top": [whole(1)],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        reduction: str = "joint",
        shrinkage: float | str = "auto",
        bandwidth: Any = "auto",
        cv: int = 5,
        n_top: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.reduction = reduction
        self.shrinkage = shrinkage
        self.bandwidth = bandwidth
        self.cv = cv
        self.n_top = n_top
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, A: Any, B: Any = None, Y: Any = None, mask: Any = None, sample_weight: Any = None) -> Self:
        """Learn both sides' coordinates and keep the links.

        Parameters
        ----------
        A : array or DataFrame (left entities, features), or a PairTable
        B : array or DataFrame (right entities, features)
        Y : sparse or dense table of scores (left entities, right entities)
        mask : None, "observed" or table of booleans
            None: every pair is observed, and absent scores are zero. "observed": only the stored scores of a sparse
            Y, or those of a dense Y that are not NaN. A table says which pairs are.
        sample_weight : None, or sparse or dense table (left entities, right entities)
            How often pairs count: two is a pair twice in every sum, zero a pair that was not observed, and a constant
            changes nothing. Weights of pairs that ``mask`` does not call observed are ignored. Where every pair is
            observed a sparse table has the weights of the links (zero for a link it does not store), and pairs that
            neither it nor Y stores count as the lower median of the positive weights does.
        """
        A, B, Y, mask, sample_weight = unpack(A, B, Y, mask, sample_weight)
        left, right = check_features(A, "left"), check_features(B, "right")
        check_same_names(Y, left, right)
        check_same_names(mask, left, right, "mask")
        check_same_names(sample_weight, left, right, "sample_weight")
        for X, side in ((left, "left"), (right, "right")):
            refuse_overflow(X, side)
        links = check_links(Y, mask, (len(left.values), len(right.values)), sample_weight)
        r = int(self.n_components)
        check_width(r, (left.values.shape[1], right.values.shape[1]), self.reduction)
        grid, rng = self._grid(), generator(self.random_state)
        for X, d in ((left, links.degrees(1)), (right, links.degrees(0))):
            seen = X.values if d is None else X.values[d > 0]
            warn_constant(np.ptp(seen, axis=0), X.columns or range(seen.shape[1]))
        settings = self._choose(left.values, right.values, links, grid, rng)
        moments = pair_moments(left.values, right.values, links, self.reduction, r, int(rng.integers(2**31)))
        found = embeddings(moments, self.reduction, r, settings.shrinkage)
        self._store(left, right, links, found, settings)
        return self

    def _grid(self) -> Grid:
        """Values to try for each setting; one for those that are given."""
        if self.reduction not in WHITENED:
            if self.shrinkage != "auto":
                msg = (
                    f"shrinkage={self.shrinkage!r} belongs to whitened features, which reduction={self.reduction!r} does "
                    "not have; leave it at 'auto'"
                )
                raise ValueError(msg)
            shrinkages: tuple[float, ...] = (0.0,)
        else:
            shrinkages = SHRINKAGES if self.shrinkage == "auto" else (float(self.shrinkage),)
        if isinstance(self.bandwidth, str):
            return Grid(shrinkages, LEFT, RIGHT)
        pair = (self.bandwidth, self.bandwidth) if isinstance(self.bandwidth, Real) else tuple(self.bandwidth)
        if len(pair) != 2 or not all(isinstance(h, Real) and 0 < float(h) < np.inf for h in pair):
            msg = f"bandwidth={self.bandwidth!r} must be 'auto', a positive number, or two of them (left, right)"
            raise ValueError(msg)
        return Grid(shrinkages, (float(pair[0]),), (float(pair[1]),))

    def _choose(self, A: Array, B: Array, links: Links, grid: Grid, rng: np.random.Generator) -> Settings:
        """The settings with the best score over held-out entities."""
        self.__dict__.pop("cv_results_", None)
        if len(grid.settings) == 1:
            return grid.settings[0]
        problem = Problem(A, B, links, self.reduction, int(self.n_components), int(self.n_top))
        tried, scores = tune(problem, grid, int(self.cv), rng)
        self.cv_results_ = {
            "shrinkage": np.array([s.shrinkage for s in tried]),
            "bandwidth_left": np.array([s.left for s in tried]),
            "bandwidth_right": np.array([s.right for s in tried]),
            "mean_score": scores,
        }
        return tried[int(np.argmax(scores))]

    def _store(
        self,
        left: Features,
        right: Features,
        links: Links,
        found: tuple[Embedding, Embedding],
        settings: Settings,
    ) -> None:
        features = dict(zip(SIDES, (left, right), strict=True))
        embedding = dict(zip(SIDES, found, strict=True))
        self.n_features_in_ = left.values.shape[1]
        self.n_features_ = {side: X.values.shape[1] for side, X in features.items()}
        self.feature_names_ = {side: X.columns for side, X in features.items()}
        self.entities_ = {
            side: None if X.names is None else np.asarray(X.names, dtype=object)
            for side, X in features.items()
        }
        self.mean_ = {side: e.mean for side, e in embedding.items()}
        self.loadings_ = {side: e.loadings for side, e in embedding.items()}
        self.singular_values_ = {side: e.values for side, e in embedding.items()}
        self.scale_ = {side: e.scale for side, e in embedding.items()}
        self.embedding_ = {side: embedding[side](X.values) for side, X in features.items()}
        self.median_distance_ = {side: median_distance(E) for side, E in self.embedding_.items()}
        self.shrinkage_ = settings.shrinkage
        self.bandwidth_ = {"left": settings.left, "right": settings.right}
        self.Y_, self.mask_, self.extra_ = (
            links.Y.copy(),
            links.mask,
            links.extra,
        )  # Y may be the caller's own

    def _smoother(self) -> Smoother:
        check_is_fitted(self, "embedding_")
        left, right = (self.bandwidth_[s] * self.median_distance_[s] for s in SIDES)
        return Smoother(
            self.embedding_["left"],
            self.embedding_["right"],
            Links(self.Y_, self.mask_, self.extra_),
            (left, right),
        )

    def transform(self, X: Any, side: str = "left") -> Array:
        """Coordinates of entities of one side, scaled as the kernel sees them.

        Parameters
        ----------
        X : array or DataFrame (entities, features)
        side : "left" or "right"
        """
        return self._embed(X, side)[1]

    def _embed(self, X: Any, side: str) -> tuple[Any, Array]:
        """Names and coordinates of new entities, or of the training ones for None."""
        check_is_fitted(self, "embedding_")
        if side not in SIDES:
            msg = f"side={side!r} must be 'left' or 'right'"
            raise ValueError(msg)
        if X is None:
            return self.entities_[side], self.embedding_[side]
        found = check_features(X, side)
        check_same_columns(found, side, self.n_features_[side], self.feature_names_[side])
        e = Embedding(self.mean_[side], self.loadings_[side], self.scale_[side], self.singular_values_[side])
        return found.names, embedded(e, found)

    def predict(self, A: Any = None, B: Any = None) -> Any:
        """Scores of all pairs of a row of A and a row of B.

        Parameters
        ----------
        A : array or DataFrame (entities, features), a PairTable, or None for the left entities of fit
        B : array or DataFrame (entities, features), or None for the right entities of fit

        Returns
        -------
        ndarray (rows of A, rows of B); a DataFrame when A or B is one with names
        """
        check_is_fitted(self, "embedding_")
        A, B = sides(A, B)
        smoother = self._smoother()
        (rows, E), (columns, F) = self._embed(A, "left"), self._embed(B, "right")
        named = hasattr(A, "iloc") or hasattr(B, "iloc")
        scores = assemble(smoother.blocks(E, F), (len(E), len(F)))
        return scores_frame(scores, rows, columns) if named else scores

    def rank(self, A: Any = None, B: Any = None, k: int = 10) -> Any:
        """The k best partners of each row of A; never more than a chunk of scores in memory.

        Returns
        -------
        DataFrame with the columns left, rank (1 is best), right and score; left and right are the entities' names, or
        positions where they have none. Ties go by position.
        """
        require_pandas("rank")
        smoother = self._smoother()
        A, B = sides(A, B)
        (rows, E), (columns, F) = self._embed(A, "left"), self._embed(B, "right")
        check_k(k, len(F))
        return ranked_frame(*top_of_blocks(smoother.blocks(E, F), len(E), int(k)), rows, columns)

    def explain(self, i: Any, j: Any, A: Any = None, B: Any = None, k: int | None = 10) -> Any:
        """The training pairs that carried the prediction for a pair.

        Parameters
        ----------
        i, j : names or positions of an entity of A and one of B
        A, B : as in predict; None for the entities of fit
        k : number of pairs with the largest contributions; None gives all

        Returns
        -------
        DataFrame with the columns left, right, score, weight (of all weights, which sum to one) and contribution
        (weight times score); contributions of all pairs sum to the prediction. Pairs of score zero carry nothing
        and are listed with a mask only.
        """
        pandas = require_pandas("explain")
        smoother = self._smoother()
        A, B = sides(A, B)
        (rows, E), (columns, F) = self._embed(A, "left"), self._embed(B, "right")
        weights = smoother.weights(E[place_of(i, rows, len(E), "A")], F[place_of(j, columns, len(F), "B")])
        pattern = self.Y_ if self.mask_ is None else self.mask_
        p = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        q = pattern.indices
        scores = self.Y_.data if self.mask_ is None else np.asarray(self.Y_[p, q]).ravel()
        parts = weights * scores
        order = np.argsort(-np.abs(parts), kind="stable")
        if k is not None:
            check_k(k, None)
            order = order[: int(k)]
        left, right = (
            places if names is None else names[places]
            for places, names in ((p[order], self.entities_["left"]), (q[order], self.entities_["right"]))
        )
        table = {"left": left, "right": right, "score": scores[order]}
        return pandas.DataFrame(
            {**table, "weight": weights[order], "contribution": parts[order]}
        ).infer_objects()


def place_of(name: Any, names: Any, n: int, table: str) -> int:
    """Position of an entity given by its name, or by its position where entities have no names."""
    if names is not None:
        found = [i for i, own in enumerate(names) if own == name]
        if found:
            return found[0]
        msg = f"no entity of {table} is called {name!r}; names look like {shown([names[0]])}"
        raise ValueError(msg)
    if not isinstance(name, Integral) or not 0 <= int(name) < n:
        msg = f"{name!r} is no position of an entity of {table}: whole numbers from 0 to {n - 1}"
        raise ValueError(msg)
    return int(name)
