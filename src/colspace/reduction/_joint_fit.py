"""Solvers of joint reduction: a frozen problem in, a solution out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._blocks import Blocks
from .._response import check_varies
from .._sklearn_compat import whole
from .._validation import warn_constant
from ..factor import Whitener, diagonal_whitener
from ..moments import CentredMoments, TripleMoments, centre
from ._determined import Known
from ._groups import Grouped, GroupSums, choose_groups, grouped_moments, source_rows, triple_bytes
from ._jackknife import LeftOut, leave_out
from ._joint_options import KnownLaw, about, check_eta, half_eta
from ._linear import check_block_widths
from ._proxies import (
    Unfolded,
    block_pairs,
    cross_validate_shape,
    factor_blocks,
    keep,
    make_whiteners,
    select,
    threshold_counts,
    threshold_rank,
    unfold_moments,
)
from ._sketched import fit_sketched
from ._source import Folded, Folds, Pairs, Source, ledoit_wolf_weights
from ._span import Span, check_span, row_span
from ._tensor import fit_tensor

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_WIDE = 4000  # columns beyond which "auto" stops forming column-by-column products
_WIDEST_FULL = 15_000  # columns of a block beyond which a full covariance is refused
_FOLDS = 5
_THRESHOLD_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6)


@dataclass(frozen=True)
class Problem:
    """What is to be found, checked against the table: see JointReduction for the options."""

    blocks: Blocks
    wanted: frozenset[str]
    labels: Sequence[object]
    n_components: int | str
    whiten: str | None
    shrinkage: float | str | None
    n_selected: int | str | Mapping[str, int] | None
    selection: str
    noise_widths: tuple[int, ...] | None = (
        None  # columns that carry the noise, where blocks are coordinates of them
    )
    law: KnownLaw | None = None
    eta: float | None = None

    def __post_init__(self) -> None:
        blocks = self.blocks
        if not isinstance(self.n_components, str):
            check_block_widths(self.n_components, blocks)
        if self.n_selected is not None and self.whiten == "full":
            msg = "n_selected keeps original columns, which whiten='full' mixes; use whiten='diagonal' (or None)"
            raise ValueError(msg)
        if self.whiten not in ("full", "unit", "done") and self.shrinkage is not None:
            msg = f"shrinkage={self.shrinkage!r} belongs to whiten='full', but whiten={self.whiten!r}; set it to None"
            raise ValueError(msg)
        by_noise = self.n_components == "threshold" or isinstance(self.n_selected, str)
        if self.whiten is None and by_noise:
            msg = (
                f"n_components={self.n_components!r} with n_selected={self.n_selected!r} compares entries with the "
                "noise of unit-variance columns; use whiten='diagonal' instead of None"
            )
            raise ValueError(msg)
        _ = self.counts

    @property
    def counts(self) -> tuple[int, ...] | None:
        """Columns to keep per block as named by the user, checked; None when they are to be found."""
        if self.n_selected is None or isinstance(self.n_selected, str):
            return None
        blocks, given = self.blocks, self.n_selected
        if isinstance(given, Mapping):
            if set(given) != set(blocks.names):
                msg = f"n_selected names blocks {sorted(given)}, but blocks are {sorted(blocks.names)}"
                raise ValueError(msg)
            counts: tuple[Any, ...] = tuple(given[name] for name in blocks.names)
        else:
            counts = (given,) * len(blocks)
        for s, width, name in zip(counts, blocks.widths, blocks.names, strict=True):
            if not whole(1).is_satisfied_by(s) or s > width:
                msg = f"n_selected={s} must be a whole number between 1 and the {width} columns of block {name!r}"
                raise ValueError(msg)
            if not isinstance(self.n_components, str) and s < self.n_components:
                msg = f"n_selected={s} of block {name!r} is less than n_components={self.n_components}; keep more"
                raise ValueError(msg)
        return counts

    def check_responses(self, n_responses: int) -> None:
        """Refuse what this many responses cannot give."""
        if (
            self.wanted == {"linear"}
            and not isinstance(self.n_components, str)
            and self.n_components > n_responses
        ):
            msg = (
                f"n_components={self.n_components}, but moments='linear' has one direction per response and y has "
                f"{n_responses}. Remedies: n_components={n_responses}, or moments='all'"
            )
            raise ValueError(msg)
        if self.eta is not None:
            check_eta(self.wanted, len(self.blocks), n_responses)
        two = self.wanted == {"joint"} and len(self.blocks) == 2 and n_responses == 1
        if self.selection == "refit" or self.n_selected is None or two:
            return
        msg = (
            "selection='paper' is defined for two blocks, one response and moments='joint'; here "
            f"{len(self.blocks)} block(s), {n_responses} response(s), moments {sorted(self.wanted)}. "
            "Use selection='refit'"
        )
        raise ValueError(msg)

    def check_width(self, n_rows: int | None = None) -> None:
        """Refuse covariances too large to form; no more than ``n_rows`` columns of a table in memory count."""
        widest = max(self.blocks.widths)
        widest = widest if n_rows is None else min(widest, n_rows)
        if self.whiten == "full" and widest > _WIDEST_FULL:
            msg = (
                f"whiten='full' forms a {widest} x {widest} covariance ({8 * widest**2 / 1e9:.1f} GB); "
                "use whiten='diagonal' with solver='randomized'"
            )
            raise ValueError(msg)

    def wants_span(self, n_rows: int, solver: str) -> bool:
        """Whether a wide table is better put into coordinates of its rows; sketches of many rows need none.

        A known law is not one of the rows' span.
        """
        if self.n_selected is not None or self.law is not None:
            return False
        return self.whiten == "full" or solver == "exact" or n_rows <= _WIDE

    def centred(self, m: TripleMoments, y_scale: Array | None = None) -> CentredMoments:
        """Central moments, about the known law where there is one."""
        return about(centre(m, y_scale), self.law)

    def in_span(self, span: Span) -> Problem:
        """The same problem in coordinates of the rows' span."""
        if not isinstance(self.n_components, str):
            check_span(self.n_components, span.blocks.widths, span.source.X.shape[0])
        whiten = "unit" if self.whiten == "full" else "done"
        labels = list(range(span.blocks.n_features))
        noise = span.original.widths if whiten == "done" else None
        return replace(self, blocks=span.blocks, labels=labels, whiten=whiten, noise_widths=noise)

    def choose_solver(self, solver: str) -> str:
        """The solver that "auto" stands for, checked against what is to be found."""
        if "tensor" in self.wanted:
            if isinstance(self.n_components, str) or self.n_selected is not None:
                msg = "moments='tensor' takes a number of components or 'auto', and no selection; use moments='joint'"
                raise ValueError(msg)
            if solver not in ("auto", "exact"):
                msg = f"solver={solver!r} has no tensor form; use solver='exact' with moments='tensor'"
                raise ValueError(msg)
            return "tensor"
        if solver == "auto":
            solver = "exact" if sum(self.blocks.widths) <= _WIDE else "randomized"
        if solver != "exact" and (isinstance(self.n_components, str) or self.n_selected is not None):
            name = "n_components" if isinstance(self.n_components, str) else "n_selected"
            msg = (
                f"{name}={getattr(self, name)!r} looks at the moments themselves, which solver={solver!r} "
                f"never forms ({sum(self.blocks.widths)} columns). Remedies: solver='exact', or a number of "
                "components (or 'auto') and no selection"
            )
            raise ValueError(msg)
        return solver


@dataclass(frozen=True)
class Solution:
    """Directions of every block for the original columns, in block order."""

    mean: Array
    loadings: list[Array]
    values: list[Array]
    supports: list[Index]
    shrinkage: list[float]
    scale: Array
    count: float
    solver: str
    ridges: list[float] | None = None
    axes: list[int] | None = None
    parts: dict[str, float] | None = None
    known: Known | None = None
    counted: dict[str, Array] | None = None
    spreads: list[Array] | None = None  # covariances of a block's columns with its embedding
    left: LeftOut = LeftOut(
        note="errors come with solver='exact' and with moments='auto', which keep sums of groups of rows; this solver sees "
        "moments through products alone"
    )

    def lifted(self, span: Span) -> Solution:
        """The same directions for the original columns, from those in the rows' span."""
        order = np.concatenate(span.original.columns)
        known = self.known
        if known is not None:
            cross = [span.loadings(b, known.cross[s]) for b, s in enumerate(span.blocks.slices)]
            known = replace(known, cross=np.vstack(cross) * span.scale[order, None] ** 2)
        return replace(
            self,
            known=known,
            mean=span.mean[order],
            scale=span.deviation[order],
            loadings=[span.loadings(b, L) for b, L in enumerate(self.loadings)],
            spreads=self.spreads and [span.covariances(b, C) for b, C in enumerate(self.spreads)],
            supports=[np.arange(w) for w in span.original.widths],
            left=self.left.lifted(span),
        )


def shrinkages(problem: Problem, source: Source, c: CentredMoments) -> list[float | None]:
    """Weight of the identity in each block's correlation; None: as little as the numbers allow."""
    blocks = problem.blocks
    if problem.whiten not in ("full", "unit"):
        return [0.0] * len(blocks)
    if problem.shrinkage == "auto":
        own = [c.covariance[b, b] for b in range(len(blocks))]
        return [weight or None for weight in ledoit_wolf_weights(source, blocks, c.mean, own, c.count)]
    return [None if problem.shrinkage is None else float(problem.shrinkage)] * len(blocks)


def whiteners_of(problem: Problem, c: CentredMoments, shrinkage: Sequence[float | None]) -> list[Whitener]:
    """One whitener per block."""
    return make_whiteners(c, problem.blocks, problem.whiten, shrinkage, problem.labels)


def fit_exact(problem: Problem, source: Source, n_groups: int | None = None) -> Solution:
    """Algorithms 1 and 3: one pass for the moments, the rest on small matrices."""
    problem.check_responses(source.encoder.n_responses)
    own, weighted = block_pairs(problem.wanted, len(problem.blocks))
    parts: tuple[TripleMoments, ...] = ()
    if problem.n_components == "moments" or problem.n_selected == "auto":
        sums, parts = _folded_moments(problem, source, n_groups)
    else:
        sums = grouped_moments(source, problem.blocks, own, weighted, n_groups)
    c = problem.centred(sums.total)
    shrinkage = shrinkages(problem, source, c)
    whiteners = whiteners_of(problem, c, shrinkage)
    shape = shape_by_folds(problem, sums.total, parts, whiteners) if parts else None
    solution = solve_moments(problem, c, whiteners, shape)
    return replace(solution, left=without_groups(problem, sums, whiteners, solution))


def _folded_moments(
    problem: Problem, source: Source, n_groups: int | None
) -> tuple[GroupSums, tuple[TripleMoments, ...]]:
    """Moments of all rows and of folds, in one pass; the groups of rows lie within folds."""
    own, weighted = block_pairs(problem.wanted, len(problem.blocks))
    # cross products centre each fold by its own mean of y
    plan, rows = source.plan(problem.blocks, tuple(sorted({*own, *weighted})), weighted)
    size = triple_bytes(plan, source.encoder.n_responses)
    k, note = choose_groups(n_groups, size, source_rows(source))
    if not k:
        folds = source.reduce(Folded(plan, _FOLDS), chunk=rows)
        parts, groups = folds.parts, {}
    else:
        folds = source.reduce(Folded(Grouped(plan, -(-k // _FOLDS)), _FOLDS), chunk=k * (rows or 1024))
        parts = tuple(fold.total for fold in folds.parts if fold.parts)
        groups = dict(enumerate(group for fold in folds.parts for group in fold.parts.values()))
    total = Folds(parts).total
    check_varies(total.y_variance)
    return GroupSums(total, groups, note), parts


def without_groups(
    problem: Problem, sums: GroupSums, whiteners: Sequence[Whitener], solution: Solution
) -> LeftOut:
    """Directions without each group of rows, of the rank, shrinkage and number of columns found in all rows."""
    counts = None
    if problem.n_selected is not None:
        counts = {name: len(s) for name, s in zip(problem.blocks.names, solution.supports, strict=True)}
    fixed = replace(problem, n_components=solution.loadings[0].shape[1], n_selected=counts)

    def solve(total: TripleMoments, *, anew: bool = False) -> list[Array]:
        c = problem.centred(total)
        unit = problem.whiten == "unit"
        again = [w.again(c.covariance[b, b], c.rows, unit=unit) for b, w in enumerate(whiteners)]
        return solve_moments(fixed, c, again, near=solution, anew=anew).loadings

    choose = partial(solve, anew=True) if counts else None
    return leave_out(sums, solve, solution.loadings, [w.metric for w in whiteners], choose)


def shape_by_folds(
    problem: Problem, total: TripleMoments, parts: Sequence[TripleMoments], whiteners: Sequence[Whitener]
) -> tuple[int, float | None]:
    """Rank and threshold factor with the least held-out squared error of the moments.

    All folds are whitened and scaled as the whole is, which has no part in y's dependence on x.
    """
    y_scale = total.y_deviation
    folds = []
    for part in (p for p in parts if p.count):
        trained, held_out = (problem.centred(m, y_scale) for m in (total - part, part))
        folds.append(
            (
                unfold_moments(trained, whiteners, problem.wanted),
                unfold_moments(held_out, whiteners, problem.wanted),
            )
        )
    fixed = not isinstance(problem.n_components, str)
    least = int(problem.n_components) if fixed else 1
    limit = least if fixed else min(problem.counts or problem.blocks.widths)
    factors: tuple[float, ...] = ()
    candidates: list[Callable[[list[Unfolded]], tuple[int, ...] | None]] = [lambda _: problem.counts]
    if isinstance(problem.n_selected, str):
        factors = _THRESHOLD_FACTORS if problem.n_selected == "auto" else (1.0,)
        count = total.count * (_FOLDS - 1) / _FOLDS
        edge = half_eta(problem.eta, y_scale)
        candidates = [
            partial(threshold_counts, count=count, least=least, factor=f, edge=edge) for f in factors
        ]
    best, rank, error = cross_validate_shape(folds, candidates, limit, paper=problem.selection == "paper")
    if error >= 0:
        _warn_no_signal()
    return rank, (factors[best] if factors else None)


def solve_moments(
    problem: Problem,
    c: CentredMoments,
    whiteners: Sequence[Whitener],
    shape: tuple[int, float | None] | None = None,
    near: Solution | None = None,
    *,
    anew: bool = True,
) -> Solution:
    """Directions from central moments.

    ``shape`` is a rank and threshold factor found before, ``near`` a solution not far from this one, whose selected
    columns are kept unless ``anew``.
    """
    blocks = problem.blocks
    variance = np.concatenate([np.diag(c.covariance[b, b]) for b in range(len(blocks))])
    _warn_constant(problem, variance)
    unfolded = unfold_moments(c, whiteners, problem.wanted)
    edge = half_eta(problem.eta, c.y_scale)
    rank = _rank(problem, unfolded, c.count, shape, edge)
    counts = problem.counts
    if isinstance(problem.n_selected, str):
        factor = 1.0 if shape is None or shape[1] is None else shape[1]
        counts = threshold_counts(unfolded, c.count, rank, factor, edge)
    matrices = [u.matrix for u in unfolded]
    supports: list[Index] = [np.arange(w) for w in blocks.widths]
    if counts is not None and near is not None and not anew:
        matrices, supports = keep(unfolded, near.supports), near.supports
    elif counts is not None:
        matrices, supports = select(unfolded, counts, paper=problem.selection == "paper")
    ties = [None if near else w.tie(c.covariance[b, b]) for b, w in enumerate(whiteners)]
    starts = [w.unloaded(L) for w, L in zip(whiteners, near.loadings, strict=True)] if near else None
    directions, values = factor_blocks(matrices, rank, ties, starts)
    if counts is not None:
        for U, support in zip(directions, supports, strict=True):
            off = np.ones(len(U), dtype=bool)
            off[support] = False
            U[off] = 0.0
    loadings = [w.loadings(U) for w, U in zip(whiteners, directions, strict=True)]
    shrinkage = [w.shrinkage for w in whiteners]
    scale = np.sqrt(np.maximum(variance, 0.0))
    spreads = [c.covariance[b, b] @ L for b, L in enumerate(loadings)]
    return Solution(c.mean, loadings, values, supports, shrinkage, scale, c.count, "exact", spreads=spreads)


def _rank(
    problem: Problem,
    unfolded: list[Unfolded],
    count: float,
    shape: tuple[int, float | None] | None,
    edge: float | None,
) -> int:
    if not isinstance(problem.n_components, str):
        return int(problem.n_components)
    if shape is not None and problem.n_components == "moments":
        return shape[0]
    limit = min(problem.counts or problem.blocks.widths)
    rank = threshold_rank(unfolded, count, limit, problem.noise_widths, edge)
    if rank == 0:
        _warn_no_signal()
    return max(rank, 1)


def _warn_no_signal() -> None:
    warnings.warn(
        "nothing stands out of the noise: the data show no direction that matters, and one component is "
        "kept. See rank_test for a p-value",
        UserWarning,
        stacklevel=6,
    )


def _warn_constant(problem: Problem, variance: Array) -> None:
    if problem.whiten in ("unit", "done"):  # said before, of the original columns
        return
    warn_constant(variance, [problem.labels[i] for i in np.concatenate(problem.blocks.columns)])


def fit_by_passes(
    problem: Problem, source: Source, solver: str, n_power: int, rng: np.random.Generator
) -> Solution:
    """Solvers that go over the rows several times: sketches (Algorithm 2), and the tensor."""
    problem.check_responses(source.encoder.n_responses)
    blocks = problem.blocks
    r = int(problem.n_components)
    c: CentredMoments | None = None
    if problem.whiten in ("full", "unit"):
        own, _ = block_pairs(problem.wanted, len(blocks))
        c = problem.centred(source.moments(blocks, own, ()))
        whiteners = whiteners_of(problem, c, shrinkages(problem, source, c))
        mean, y_mean, y_scale, count = c.mean, c.y_mean, c.y_scale, c.count
        variance = np.concatenate([np.diag(c.covariance[b, b]) for b in range(len(blocks))])
    else:
        table = source.columns()
        check_varies(table.y.variance)
        order = np.concatenate(blocks.columns)
        mean, variance, count = table.x.mean[order], table.x.variance[order], table.x.count
        if problem.law is not None:
            known, spread = problem.law.mean, problem.law.variance
            if known is not None:
                mean, variance = known, variance + (mean - known) ** 2
            variance = variance if spread is None else spread
        y_mean, y_scale = table.y.mean, np.sqrt(table.y.variance)
        scaled = variance if problem.whiten == "diagonal" else np.ones_like(variance)
        whiteners = [diagonal_whitener(scaled[s]) for s in blocks.slices]
    _warn_constant(problem, variance)
    common: dict[str, Any] = {"mean": mean, "y_mean": y_mean, "y_scale": y_scale, "count": count, "r": r}
    if solver == "tensor":
        directions, values = fit_tensor(source, blocks, whiteners, **common)
    else:
        directions, values = fit_sketched(
            source, blocks, whiteners, problem.wanted, **common, n_power=n_power, method=solver, rng=rng
        )
    loadings = [w.loadings(U) for w, U in zip(whiteners, directions, strict=True)]
    supports: list[Index] = [np.arange(w) for w in blocks.widths]
    shrinkage = [w.shrinkage for w in whiteners]
    scale = np.sqrt(np.maximum(variance, 0.0))
    spreads = None if c is None else [c.covariance[b, b] @ L for b, L in enumerate(loadings)]
    return Solution(mean, loadings, values, supports, shrinkage, scale, count, solver, spreads=spreads)


def problem_span(problem: Problem, source: Source, *, quiet: bool = False) -> Span | None:
    """The table of a problem in coordinates of its rows' span; ``quiet``: no covariance is inverted there, for any table."""
    return row_span(
        source,
        problem.blocks,
        whiten=problem.whiten == "full" and not quiet,
        shrinkage=problem.shrinkage,
        scale=problem.whiten is not None,
        apart=quiet and len(problem.blocks) == 1,  # several wide blocks have leading axes
    )


def stream_pairs(problem: Problem) -> tuple[Pairs, Pairs]:
    """Pairs of blocks that a stream adds up; cross products let the mean of y change with every chunk."""
    own, weighted = block_pairs(problem.wanted, len(problem.blocks))
    return tuple(sorted({*own, *weighted})), weighted
