"""Two-step kernel ridge regression over pairs of entities."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._random import generator
from .._sklearn_compat import Interval, StrOptions, _fit_context, whole
from .._threads import entity_work, small_products
from ._calibrate import calibration
from ._features import (
    SIDES,
    Features,
    check_same_names,
    embedded,
    unpack,
)
from ._kernel import CHUNK
from ._kernel_tables import metrics_of, read_new_tables, read_tables
from ._links import Links, check_links
from ._predictions import Asked, PairPredictions
from ._quality import quality
from ._ranking import check_k, places_of, require_pandas
from ._reduce import Embedding
from ._ridge import TARGETS
from ._ridge_search import Search, Wish, choose, numbers
from ._ridge_tune import (
    EXACT,
    LANDMARKS,
    FittedSide,
    Point,
    Problem,
    SidePoint,
    Source,
    fit_point,
    held_out,
    kernel_of,
    transposed,
)
from ._similarity import METRICS, Base, profile_kernel
from ._summary import PairsSummary

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_ROWS = 2048  # left entities in one block of predictions


class KernelPairRegressor(PairPredictions, PairsSummary, BaseEstimator):
    r"""Scores of pairs of entities by kernel ridge regression in two steps, one for each side.

    With kernels :math:`K, L` between the left and between the right entities, and the table Y of scores,

    .. math:: \hat Y = k\,(K + \alpha I)^{-1}\, Y\, (L + \beta I)^{-1} l^\top

    for kernels k, l of any entities with those of fit. Leaving an entity, two, or a pair out of the fit has a closed
    form, by which widths, ridges and weights of kernels are tuned for what is asked. Pairs that are not observed, or
    count otherwise than once, enter through the least squares problem that this smoother solves.

    Parameters
    ----------
    target : {"new-left", "new-right", "new-both", "entries"}, default="new-left"
        What is asked, and tuned for: partners of left entities without links, of right ones, pairs of two entities
        without links, or further links between entities that have some.
    metric : {"auto", "gaussian", "multiquadric", "root-multiquadric", "linear", "cosine", "precomputed"}, several of them, or a dict of "left" and "right"
        Kernels of the features (standardised, but for "cosine"), or the similarities themselves in the place of
        features. "gaussian" is exp(-d^2 / 2 h^2) of distances d with the bandwidth h, "multiquadric" one with heavy tails, (1 +
        d^2 / h^2)^-1/2, "root-multiquadric" the root of that. "auto": one of the three for each side (of joint directions one of the
        first two), tuned with the bandwidth, Gaussian where that is given. Several kernels of a side are weighted by what they say of what is left out; a side may also be a list of tables, with one
        metric each or one for all.
    bandwidth : float, (float, float) or "auto", default="auto"
        Widths of kernels of distances, left and right, relative to the median distance between entities.
    alpha : float, (float, float) or "auto", default="auto"
        Ridges; kernels have a mean diagonal of one.
    profile : float in [0, 1) or "auto", default="auto"
        Share of a kernel of the links, exp(-|y_i - y_p|^2 / mean |y|^2), for entities that keep their links in the
        question asked. "auto": tuned for "entries", else none.
    own : float in [0, 1) or "auto", default="auto"
        Share of a kernel in which entities are like themselves alone, for those of fit that the question is about: what
        an entity has weighs more than what similar ones have. "auto": tuned with ``alpha`` for the other side of new
        entities, where none of its kernels is of distances or entities have the same features, else none. Given to `predict` as tables without names, entities are new.
    positive : bool or "auto", default="auto"
        Whether training entities count with positive weights only in predictions for new ones: what an entity is like
        speaks for partners, what it is unlike does not speak against them. Links that count once, with positive scores. "auto":
        tuned with the other settings, else False.
    reduction : {"joint", "pca", "auto"} or None, default="auto"
        Directions found first, with kernels of the coordinates, or not; "auto" takes joint reduction or none, what
        predicts folds better.
    n_components : int or "auto", default="auto"
        Directions per side, of ``reduction``; "auto" tries 10, 25, 50, 100 and 200.
    shrinkage : float in [0, 1] or "auto", default="auto"
        Weight of the identity in the correlations of features, of ``reduction="joint"``.
    n_landmarks : int, None or "auto", default="auto"
        Kernels by Nyström's approximation on as many entities of a side; "auto": 2,000 for more than 5,000 entities.
    impute : bool, default=False
        Fill gaps in features by a `CopulaImputer` of each side; gaps are an error otherwise.
    calibrate : bool, default=False
        Learn probabilities of a link from held-out scores (isotonic), for ``predict_proba``.
    cv : int, default=3
        Folds, where leaving out has no closed form (links in kernels or directions, gaps, weights).
    n_top : int, default=100
        Length of the list of partners that "auto" looks at (scores where absent is zero).
    random_state : int, RandomState or None, default=0
        Folds, samples of entities and landmarks.

    Attributes
    ----------
    bandwidth_, alpha_, profile_, own_, positive_ : dict of "left" and "right" to float, or bool
    metric_ : dict of "left" and "right" to a list of names
        Of the kernels of a side.
    weights_ : dict of "left" and "right" to ndarray
        Of the kernels of a side, summing to one.
    reduction_ : str or None
    n_components_ : int or None
    shrinkage_ : float
    dual_coef_ : ndarray (entities or landmarks of the left side, of the right)
        Coefficients of products of kernels, or of weights on a side where these are positive.
    kernel_error_ : dict of "left" and "right" to float
        Share of the kernel's trace that landmarks lose.
    cv_results_ : dict of ndarray
        Settings tried with ``mean_score``, larger is better; only where something was "auto".

    References
    ----------
    Stock, Pahikkala, Airola, De Baets and Waegeman (2018), "A comparative study of pairwise learning methods based on
    kernel ridge regression", Neural Computation 30. van Laarhoven, Nabuurs and Marchiori (2011), "Gaussian interaction
    profile kernels for predicting drug-target interaction", Bioinformatics 27.

    Examples
    --------
    >>> from colspace import KernelPairRegressor
    >>> from colspace.datasets import make_pairs
    >>> from colspace.metrics import recall_at_k
    >>> A, B, Y, _ = make_pairs(300, 200, n_features=6, rng=0)
    >>> model = KernelPairRegressor(n_top=20).fit(A[:250], B, Y[:250])
    >>> recall_at_k(Y[250:], model.predict(A[250:]), k=20) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "target": [StrOptions(set(TARGETS))],
        "metric": [StrOptions(set(METRICS)), list, tuple, dict],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), tuple, list],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), tuple, list],
        "profile": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "own": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "positive": ["boolean", StrOptions({"auto"})],
        "reduction": [StrOptions({"joint", "pca", "auto"}), None],
        "n_components": [whole(1), StrOptions({"auto"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "n_landmarks": [whole(1), StrOptions({"auto"}), None],
        "impute": ["boolean"],
        "calibrate": ["boolean"],
        "cv": [whole(2)],
        "n_top": [whole(1)],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        target: str = "new-left",
        *,
        metric: Any = "auto",
        bandwidth: Any = "auto",
        alpha: Any = "auto",
        profile: float | str = "auto",
        own: float | str = "auto",
        positive: bool | str = "auto",
        reduction: str | None = "auto",
        n_components: int | str = "auto",
        shrinkage: float | str = "auto",
        n_landmarks: int | str | None = "auto",
        impute: bool = False,
        calibrate: bool = False,
        cv: int = 3,
        n_top: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.target = target
        self.metric = metric
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.profile = profile
        self.own = own
        self.positive = positive
        self.reduction = reduction
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.n_landmarks = n_landmarks
        self.impute = impute
        self.calibrate = calibrate
        self.cv = cv
        self.n_top = n_top
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    @small_products(entity_work)
    def fit(self, A: Any, B: Any = None, Y: Any = None, mask: Any = None, sample_weight: Any = None) -> Self:
        """Tune what is "auto" for the target, and solve.

        Parameters
        ----------
        A, B : tables of features, or of similarities (``metric="precomputed"``), of the left and right entities; lists
            of them for several kernels; or a PairTable alone
        Y, mask, sample_weight : as in `PairRegressor.fit`
        """
        A, B, Y, mask, sample_weight = unpack(A, B, Y, mask, sample_weight)
        left, lefts = read_tables(A, "left", self.metric, self.impute)
        right, rights = read_tables(B, "right", self.metric, self.impute)
        self.imputers_ = {"left": lefts, "right": rights}
        for table, what in ((Y, "Y"), (mask, "mask"), (sample_weight, "sample_weight")):
            check_same_names(table, left[0], right[0], what)
        links = check_links(Y, mask, (len(left[0].values), len(right[0].values)), sample_weight)
        choice = choose(*self._problem(left, right, links))
        problem, point = choice.best()
        for name in ("cv_results_", "calibration_", "_kept"):
            self.__dict__.pop(name, None)
        found = next(tried for way, tried in choice.ways if way is problem)
        if len(found.entities) > 1:
            self.cv_results_ = _results(found, self.target == "new-right")
        for way, _ in choice.ways:
            way.kept.clear()
        self._choice = choice
        self._store(problem, point, left, right, links)
        if self.calibrate:
            self.calibration_ = calibration(held_out(problem, point), links.mask is not None)
        return self

    def _problem(self, left: list[Features], right: list[Features], links: Links) -> tuple[Problem, Wish]:
        """What is to be fitted, and what is given; new right entities are new left ones seen from the other side."""
        sources = [
            Source(tuple(X.values for X in found), metrics_of(self.metric, side, len(found)))
            for side, found in zip(SIDES, (left, right), strict=True)
        ]
        marks = [self._landmarks(len(source)) for source in sources]
        wish = Wish(
            numbers("bandwidth", self.bandwidth),
            numbers("alpha", self.alpha),
            None if isinstance(self.profile, str) else float(self.profile),
            self.reduction,
            None if isinstance(self.n_components, str) else int(self.n_components),
            None if isinstance(self.shrinkage, str) else float(self.shrinkage),
            None if isinstance(self.positive, str) else bool(self.positive),
            None if isinstance(self.own, str) else float(self.own),
        )
        target = self.target
        if target == "new-right":
            sources, marks, links = sources[::-1], marks[::-1], transposed(links)
            wish, target = wish.turned(), "new-left"
        seed = int(generator(self.random_state).integers(2**31))
        problem = Problem(
            sources[0],
            sources[1],
            links,
            target,
            n_top=int(self.n_top),
            cv=int(self.cv),
            landmarks=(marks[0], marks[1]),
            seed=seed,
        )
        return problem, wish

    def _landmarks(self, n: int) -> int | None:
        if self.n_landmarks == "auto":
            return LANDMARKS if n > EXACT else None
        return None if self.n_landmarks is None else int(self.n_landmarks)

    def _store(
        self, problem: Problem, point: Point, left: list[Features], right: list[Features], links: Links
    ) -> None:
        one, other, coefficients, self.level_ = fit_point(problem, point)
        pair, points = (one, other), (point.left, point.right)
        if self.target == "new-right":
            pair, points, coefficients = pair[::-1], points[::-1], coefficients.T
        self.dual_coef_ = coefficients
        tables = dict(zip(SIDES, (left, right), strict=True))
        self.n_features_in_ = left[0].values.shape[1]
        self.n_features_ = {side: [X.values.shape[1] for X in found] for side, found in tables.items()}
        self.feature_names_ = {side: [X.columns for X in found] for side, found in tables.items()}
        self.entities_ = {
            side: None if found[0].names is None else np.asarray(found[0].names, dtype=object)
            for side, found in tables.items()
        }
        self.bandwidth_ = {side: p.bandwidth for side, p in zip(SIDES, points, strict=True)}
        self.alpha_ = {side: p.alpha for side, p in zip(SIDES, points, strict=True)}
        self.profile_ = {side: p.profile for side, p in zip(SIDES, points, strict=True)}
        self.own_ = {side: p.own for side, p in zip(SIDES, points, strict=True)}
        self.positive_ = {side: p.positive for side, p in zip(SIDES, points, strict=True)}
        self.smoother_ = {side: f.matrix for side, f in zip(SIDES, pair, strict=True)}
        self.weights_ = {
            side: np.array(p.weights) / (sum(p.weights) or 1.0) for side, p in zip(SIDES, points, strict=True)
        }
        self.reduction_, self.n_components_ = problem.reduction, point.n_components
        self.shrinkage_ = point.shrinkage
        self.kernel_error_ = {side: f.lost for side, f in zip(SIDES, pair, strict=True)}
        self.basis_ = {side: f.basis for side, f in zip(SIDES, pair, strict=True)}
        self.kernels_ = {side: [vars(b).copy() for b in f.bases] for side, f in zip(SIDES, pair, strict=True)}
        self.metric_ = {side: [base.metric for base in f.bases] for side, f in zip(SIDES, pair, strict=True)}
        self.embedding_ = {side: _plain(f) for side, f in zip(SIDES, pair, strict=True)}
        self.Y_, self.mask_, self.extra_ = links.Y.copy(), links.mask, links.extra

    # -------------------------------------------------------------------------------------------- predicting

    def _kernel(self, X: Any, side: str) -> tuple[Any, Index, Array]:
        """Names of entities, their places in fit (-1: new), and their kernels with the entities of the basis, or the
        weights of those of fit where these are positive."""
        check_is_fitted(self, "dual_coef_")
        bases = tuple(Base(**one) for one in self.kernels_[side])
        n = self.Y_.shape[SIDES.index(side)]
        if X is None:
            names, places = self.entities_[side], np.arange(n)
            seen = [base.values for base in bases]
        else:
            like = list(zip(self.n_features_[side], self.feature_names_[side], strict=True))
            found = read_new_tables(X, side, self.metric, self.imputers_[side], n, like, self.entities_[side])
            names = found[0].names
            places = places_of(names, self.entities_[side], len(found[0].values))
            fields = self.embedding_[side]
            if fields is not None:
                found = [Features(embedded(Embedding(**fields), found[0]), names, None)]
            seen = [base.see(one.values) for base, one in zip(bases, found, strict=True)]
        basis = self.basis_[side]
        point = SidePoint(
            self.bandwidth_[side],
            self.alpha_[side],
            tuple(self.weights_[side]),
            self.profile_[side],
            own=getattr(self, "own_", {}).get(side, 0.0),  # which models of 0.2.0 have not
        )
        raws = [base.raw(Z, basis) for base, Z in zip(bases, seen, strict=True)]
        K = kernel_of(
            bases,
            raws,
            point,
            lambda: self._profile(places, basis, side),
            lambda: np.nonzero(places[:, None] == basis),
        )
        if self.smoother_[side] is not None:
            K = K @ self.smoother_[side]
            np.maximum(K, 0, out=K)
        return names, places, K

    def _profile(self, places: Index, basis: Index, side: str) -> Array:
        """Kernel of the links between entities and the basis; zero for new ones."""
        scores = Links(self.Y_, self.mask_, self.extra_).scores
        table = scores if side == "left" else sparse.csr_array(scores.T)
        return np.asarray(profile_kernel(table, np.maximum(places, 0), basis) * (places >= 0)[:, None])

    def _right(self, B: Any) -> tuple[Any, Index, Array]:
        """Names and places of right entities, and the coefficients times their kernels; kept for those of fit."""
        if B is not None:
            names, places, L = self._kernel(B, "right")
            return names, places, self.dual_coef_ @ L.T
        if "_kept" not in self.__dict__:
            names, places, L = self._kernel(None, "right")
            self._kept = names, places, self.dual_coef_ @ L.T
        return self._kept

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        for name in ("_kept", "_choice"):  # can be made again
            state.pop(name, None)
        return state

    def held_out_quality(self, k: int = 10) -> Any:
        """What this fit is worth on entities (or links) left out, free from the tuning, beside simple rivals.

        Entities with links fall into two halves; those of each are predicted, everyone left out in turn, with the
        settings that are best on the other half. Needs the fit of this session: a saved model has not kept its data.

        Returns
        -------
        DataFrame with the columns method, recall (at k) and average precision, means over entities of the side that the
        target calls new (the left one for "new-both" and "entries"); with a mask method and error (root mean squared). No
        row where nobody who is left out has a link to be found
        """
        check_is_fitted(self, "dual_coef_")
        if "_choice" not in self.__dict__:
            msg = "held_out_quality needs the data of the fit, which a model from a file does not hold; fit again"
            raise AttributeError(msg)
        check_k(k, None)
        found = quality(self._choice, int(k))
        measures = ["recall", "average precision"] if self.mask_ is None else ["error"]
        return require_pandas("held_out_quality").DataFrame(found, columns=["method", *measures])

    def _blocks(self, K: Array, half: Array) -> Iterator[tuple[slice, slice, Array]]:
        rows = min(_ROWS, max(1, CHUNK // max(half.shape)))
        for i in range(0, len(K), rows):
            scores = K[i : i + rows] @ half
            scores += self.level_
            yield slice(i, min(i + rows, len(K))), slice(0, half.shape[1]), scores

    def _ask(self, A: Any, B: Any) -> Asked:
        (rows, at, K), (columns, there, half) = self._kernel(A, "left"), self._right(B)
        return Asked((rows, columns), (at, there), lambda: self._blocks(K, half))


def _plain(fitted: FittedSide) -> dict[str, Any] | None:
    return None if fitted.embedding is None else vars(fitted.embedding).copy()


def _results(found: Search, swapped: bool) -> dict[str, Any]:
    """Points tried as columns."""
    tried = list(found.entities)
    columns: dict[str, Any] = {}
    for side, name in zip(SIDES, SIDES[::-1] if swapped else SIDES, strict=True):
        points = [getattr(point, name) for point in tried]
        columns[f"bandwidth_{side}"] = np.array([p.bandwidth for p in points])
        columns[f"alpha_{side}"] = np.array([p.alpha for p in points])
        columns[f"profile_{side}"] = np.array([p.profile for p in points])
        columns[f"own_{side}"] = np.array([p.own for p in points])
        columns[f"positive_{side}"] = np.array([p.positive for p in points])
        columns[f"heavy_{side}"] = np.array([p.heavy for p in points])
        columns[f"weights_{side}"] = np.array([np.array(p.weights) / (sum(p.weights) or 1.0) for p in points])
    if tried[0].n_components is not None:
        columns["n_components"] = np.array([p.n_components for p in tried])
        columns["shrinkage"] = np.array([p.shrinkage for p in tried])
    return {**columns, "mean_score": np.array([found.score(p) for p in tried])}
