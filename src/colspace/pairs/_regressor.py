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
from .._threads import entity_work, small_products
from .._validation import warn_constant
from ._calibrate import calibration
from ._features import (
    SIDES,
    Features,
    check_same_names,
    embedded,
    fill_with,
    filled,
    refuse_overflow,
    sides,
    unpack,
)
from ._kernel import LARGE, TOL, Smoother, median_distance
from ._links import Links, check_links, shown
from ._predictions import Asked, PairPredictions
from ._ranking import check_k, places_of, require_pandas
from ._reduce import WHITENED, Embedding, count_of, embeddings, pair_moments
from ._similarity import check_new_side, check_side, principal_coordinates
from ._sum_kernel import SumSmoother, sum_smoother
from ._summary import PairsSummary
from ._tune import COMPONENTS, LEFT, RIGHT, SHRINKAGES, Grid, Problem, Settings, refits, tune

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class PairRegressor(PairPredictions, PairsSummary, BaseEstimator):
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
    n_components : int, "auto" or None, default=None
        Directions per side; None: 10, or all that fewer features give; "auto" chooses among 10, 25, 50 and 100 with the other settings (not with "cphd" and "sols").
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
    kernel : {"separable", "sum"}, default="separable"
        Of pairs: a product of one Gaussian for each side, or, as published for ``reduction="cphd"`` and only with it, one
        Gaussian of the sum e + f of both sides' coordinates. "sum" has the width of both kernels together (their squares
        add up, and "auto" tunes them in the product), and a score costs a multiplication or an exponential for each
        training pair instead of each training entity.
    metric : {"features", "precomputed"}, default="features"
        "precomputed": A and B are similarities between the entities of each side; their 200 leading principal
        coordinates are the features.
    tol : float in [0, 1) or "auto", default="auto"
        Weights of kernels under this share of their row's largest are dropped, where every pair counts once and less than
        4 % of the weights are left; 0 is exact. "auto": 1e-5 with more than 4,000 entities on a side (kernels are in single precision then), else 0.
    impute : bool, default=False
        Fill gaps in features by a `CopulaImputer` of each side; gaps are an error otherwise.
    calibrate : bool, default=False
        Learn probabilities of a link from scores of held-out left entities (isotonic), for ``predict_proba``.
    cv : int, default=5
        Folds of the cross-validation behind "auto" and ``calibrate``.
    n_top : int, default=100
        Length of the list of partners that "auto" looks at (scores where absent is zero).
    random_state : int, RandomState or None, default=0
        Folds of the cross-validation, and groups of "sols".

    Attributes
    ----------
    loadings_ : dict of "left" and "right" to ndarray (features, directions)
    n_components_ : int
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
        "n_components": [whole(1), StrOptions({"auto"}), None],
        "reduction": [StrOptions({"joint", "pca", "phd", "cphd", "sols"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), tuple, list],
        "kernel": [StrOptions({"separable", "sum"})],
        "metric": [StrOptions({"features", "precomputed"})],
        "tol": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "impute": ["boolean"],
        "calibrate": ["boolean"],
        "cv": [whole(2)],
        "n_top": [whole(1)],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        reduction: str = "joint",
        shrinkage: float | str = "auto",
        bandwidth: Any = "auto",
        kernel: str = "separable",
        metric: str = "features",
        tol: float | str = "auto",
        impute: bool = False,
        calibrate: bool = False,
        cv: int = 5,
        n_top: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.reduction = reduction
        self.shrinkage = shrinkage
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.metric = metric
        self.tol = tol
        self.impute = impute
        self.calibrate = calibrate
        self.cv = cv
        self.n_top = n_top
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(entity_work)
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
        self._check_kernel()
        A, B, Y, mask, sample_weight = unpack(A, B, Y, mask, sample_weight)
        self.imputers_: dict[str, Any] = {}
        self.coordinates_: dict[str, Any] = {}
        left, right = self._read(A, "left"), self._read(B, "right")
        check_same_names(Y, left, right)
        check_same_names(mask, left, right, "mask")
        check_same_names(sample_weight, left, right, "sample_weight")
        for X, side in ((left, "left"), (right, "right")):
            refuse_overflow(X, side)
        links = check_links(Y, mask, (len(left.values), len(right.values)), sample_weight)
        widths = left.values.shape[1], right.values.shape[1]
        asked = self.n_components
        most = 0 if isinstance(asked, str) else count_of(asked, widths, self.reduction)
        grid, rng = self._grid(min(widths)), generator(self.random_state)
        for X, d in ((left, links.degrees(1)), (right, links.degrees(0))):
            seen = X.values if d is None else X.values[d > 0]
            warn_constant(np.ptp(seen, axis=0), X.columns or range(seen.shape[1]))
        most = most or int(grid.n_components[-1] or 0)
        settings = self._choose(
            Problem(left.values, right.values, links, self.reduction, most, int(self.n_top)), grid, rng
        )
        r = self.n_components_ = settings.n_components or most
        moments = pair_moments(left.values, right.values, links, self.reduction, r, int(rng.integers(2**31)))
        found = embeddings(moments, self.reduction, r, settings.shrinkage)
        self._store(left, right, links, found, settings)
        if self.calibrate:
            problem = Problem(left.values, right.values, links, self.reduction, r, int(self.n_top))
            folds = np.random.default_rng(int(rng.integers(2**31)))
            held = refits(problem, settings, int(self.cv), folds, self.kernel)
            self.calibration_ = calibration(held, links.mask is not None)
        return self

    def _check_kernel(self) -> None:
        """Refuse the kernel of a sum where there is none, and an option that it does not have."""
        if self.kernel == "separable":
            return
        if self.reduction != "cphd":
            msg = (
                f"kernel='sum' adds up coordinates that both sides share, which reduction={self.reduction!r} does not give; use "
                "reduction='cphd', or kernel='separable'"
            )
            raise ValueError(msg)
        if self.tol != "auto":
            msg = f"tol={self.tol!r} drops weights of separable kernels, and kernel='sum' is not one; leave it at 'auto'"
            raise ValueError(msg)

    def _read(self, X: Any, side: str) -> Features:
        """Features of one side; gaps filled if asked, similarities as coordinates."""
        if self.metric == "precomputed":
            found = check_side(X, side, "precomputed")
            coordinates, self.coordinates_[side] = principal_coordinates(found.values)
            return Features(coordinates, found.names, None)
        if self.impute:
            X, self.imputers_[side] = filled(X, side)
        return check_side(X, side, "features")

    def _grid(self, most: int) -> Grid:
        """Values to try for each setting; one for those that are given."""
        counts: tuple[int | None, ...] = (None,)
        if self.n_components == "auto":
            if self.reduction in ("cphd", "sols"):
                msg = (
                    f"n_components='auto' needs directions that nest, and those of reduction={self.reduction!r} do not; give a "
                    "number"
                )
                raise ValueError(msg)
            counts = tuple(dict.fromkeys(min(r, most) for r in COMPONENTS))
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
            return Grid(shrinkages, LEFT, RIGHT, counts)
        pair = (self.bandwidth, self.bandwidth) if isinstance(self.bandwidth, Real) else tuple(self.bandwidth)
        if len(pair) != 2 or not all(isinstance(h, Real) and 0 < float(h) < np.inf for h in pair):
            msg = f"bandwidth={self.bandwidth!r} must be 'auto', a positive number, or two of them (left, right)"
            raise ValueError(msg)
        return Grid(shrinkages, (float(pair[0]),), (float(pair[1]),), counts)

    def _choose(self, problem: Problem, grid: Grid, rng: np.random.Generator) -> Settings:
        """The settings with the best score over held-out entities."""
        for name in ("cv_results_", "calibration_", "_kept"):
            self.__dict__.pop(name, None)
        if len(grid.settings) == 1:
            return grid.settings[0]
        tried, scores = tune(problem, grid, int(self.cv), rng)
        self.cv_results_ = {
            "shrinkage": np.array([s.shrinkage for s in tried]),
            "bandwidth_left": np.array([s.left for s in tried]),
            "bandwidth_right": np.array([s.right for s in tried]),
            "n_components": np.array([s.n_components or problem.n_components for s in tried]),
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

    def _smoother(self) -> Smoother | SumSmoother:
        check_is_fitted(self, "embedding_")
        left, right = (self.bandwidth_[s] * self.median_distance_[s] for s in SIDES)
        links = Links(self.Y_, self.mask_, self.extra_)
        if self.kernel == "sum":
            return sum_smoother(self.embedding_["left"], self.embedding_["right"], links, (left, right))
        large = max(links.shape) > LARGE and links.counted is None
        tol = (TOL if large else 0.0) if isinstance(self.tol, str) else float(self.tol)
        return Smoother(
            self.embedding_["left"],
            self.embedding_["right"],
            links,
            (left, right),
            tol,
            np.float32 if large else np.float64,
        )

    def _scores(self, E: Array, F: Array, new_right: bool) -> Any:
        """Blocks of predictions; the right kernel of the entities of fit is kept between calls where it is small."""
        smoother = self._smoother()
        if new_right or isinstance(smoother, SumSmoother):
            return smoother.blocks(E, F)
        if "_kept" not in self.__dict__:
            self._kept = smoother.kept_kernel(F)
        return smoother.blocks(E, F, kept=self._kept)

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_kept", None)  # can be made again
        return state

    def transform(self, X: Any, side: str = "left") -> Array:
        """Coordinates of entities of one side, scaled as the kernel sees them.

        Parameters
        ----------
        X : array or DataFrame (entities, features), or similarities to the entities of fit
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
        if side in self.imputers_:
            X = fill_with(self.imputers_[side], X)
        n = self.Y_.shape[SIDES.index(side)]
        like = self.n_features_[side], self.feature_names_[side]
        found = check_new_side(X, side, self.metric, n, like, self.entities_[side])
        if side in self.coordinates_:
            found = Features(found.values @ self.coordinates_[side], found.names, None)
        e = Embedding(self.mean_[side], self.loadings_[side], self.scale_[side], self.singular_values_[side])
        return found.names, embedded(e, found)

    def _ask(self, A: Any, B: Any) -> Asked:
        (rows, E), (columns, F) = self._embed(A, "left"), self._embed(B, "right")
        at, there = (
            np.arange(len(Z)) if X is None else places_of(names, self.entities_[side], len(Z))
            for X, names, Z, side in ((A, rows, E, "left"), (B, columns, F, "right"))
        )
        return Asked((rows, columns), (at, there), lambda: self._scores(E, F, B is not None))

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
