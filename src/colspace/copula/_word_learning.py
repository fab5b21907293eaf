"""What the cells that are there teach about words: power of the odds, slopes, and forests where they pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from .._random import generator
from ._bend import distinct_rows, sampled
from ._columns import Columns, Group
from ._curved import FEWEST, LEAST_GAIN, is_gain, observed_latents
from ._encode import known_rows, rows_per_block
from ._estep import Array, Factors, Index, Posterior
from ._fit import CopulaModel
from ._forest import grow
from ._nominal import Levels, Words, class_law, hidden_group, log_odds, mixed
from ._passes import DaskRows, LocalRows
from ._row_laws import latent_variance, row_laws

FOLDS = 4  # of the cells of nominal columns, each hidden from a fit once
PENALTIES = (30.0, 3.0)  # of the slopes
STEPS = 20  # towards the slopes, at most
SLOPE_ROWS = 3000  # rows that slopes are learned from, at most
ENOUGH = 1000  # rows of which half, left out, tell a penalty
SETTLED = 1e-2  # change of a row's factors that ends their sweeps
DOUBTED = 600  # numbers of a group whose uncertainty is kept, at most
_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the forest's word


def learn_words(
    rows: LocalRows | DaskRows,
    model: CopulaModel,
    columns: Columns,
    refit: Callable[[CopulaModel, LocalRows], CopulaModel],
    random_state: Any,
    *,
    forests: Sequence[bool],
) -> tuple[Words, ...]:
    """For each group the power of its odds, slopes and, if it is one for ``forests`` and it pays, a forest: learned on the cells that are there.

    The odds of a cell are those of a model that has not seen it: ``refit`` without one of ``FOLDS`` parts of the cells of nominal columns.
    """
    groups = columns.groups
    if not any(group.width for group in groups) or not isinstance(rows, LocalRows):
        return (Words(),) * len(groups)
    rng = generator(random_state)
    X, weight = distinct_rows(*sampled(rows.X, rows.weight, rng))
    there = [np.flatnonzero(~np.isnan(X[:, group.latents]).any(axis=1)) for group in groups]
    there = [
        cells if group.width and len(cells) >= FEWEST else cells[:0]
        for cells, group in zip(there, groups, strict=True)
    ]
    fold = [rng.permutation(np.arange(len(cells)) % FOLDS) for cells in there]
    odds = [np.zeros((len(cells), group.classes)) for cells, group in zip(there, groups, strict=True)]
    rest = [
        np.zeros((len(cells), X.shape[1] - group.width)) for cells, group in zip(there, groups, strict=True)
    ]
    for k in range(FOLDS):
        part = X.copy()
        few = [cells[which == k] for cells, which in zip(there, fold, strict=True)]
        for group, cells in zip(groups, few, strict=True):
            part[cells, group.latents] = np.nan
        other = refit(model, LocalRows(part, weight, rows.n_jobs))
        for i, at, q, mean in told_without(X, few, other, groups):
            odds[i][np.searchsorted(there[i], at)] = odds_without(q, mean, other, groups[i])
    table, missing = observed_latents(X, model)
    for i, at, _, mean in told_without(X, there, model, groups):
        z = np.where(missing[at], mean, table[at])
        rest[i][np.searchsorted(there[i], at)] = np.delete(z, groups[i].latents, axis=1)
    w = np.ones(len(X)) if weight is None else weight
    return tuple(
        learn_group(X[cells][:, group.latents], w[cells], told, z, group, rng, rows.n_jobs, forests=grown)
        if len(cells)
        else Words()
        for group, cells, told, z, grown in zip(groups, there, odds, rest, forests, strict=True)
    )


def hide(X: Array, group: Group) -> Array:
    """The rows without a group."""
    X = X.copy()
    X[:, group.latents] = np.nan
    return X


def told_without(
    X: Array, cells: Sequence[Index], model: CopulaModel, groups: Sequence[Group]
) -> Iterator[tuple[int, Index, Posterior, Array]]:
    """For each group some of the rows that have it, in order, and their factors and means of z under factors alone, were it hidden.

    The rows are solved once for all groups: levels of other columns tell what they do with the group in view.
    """
    f = model.factors
    some = np.unique(np.concatenate([np.zeros(0, np.intp), *cells]))
    step = rows_per_block(len(model.columns), f.rank)
    for a in range(0, len(some), step):
        part = some[a : a + step]
        known = known_rows(X[part], model.state.chain, model.columns, model.labels)
        laws = row_laws(known, model, SETTLED)
        for i, (group, own) in enumerate(zip(groups, cells, strict=True)):
            at = own[slice(*np.searchsorted(own, [part[0], part[-1] + 1]))]
            if len(at):
                q = laws.without(np.searchsorted(part, at), group.latents)
                yield i, at, q, q.t @ f.W.T


def odds_without(q: Posterior, mean: Array, model: CopulaModel, group: Group) -> Array:
    """Log odds of the classes of a group in rows whose factors are known without it."""
    f, own = model.factors, group.latents
    few = Factors(f.W[own], f.C[own], f.noise[own])
    return log_odds(group, model, mean[:, own], np.sqrt(latent_variance(q, few)))


def learn_group(
    on: Array,
    w: Array,
    odds: Array,
    rest: Array,
    group: Group,
    rng: np.random.Generator,
    n_jobs: int = 1,
    *,
    forests: bool,
) -> Words:
    """Power, slopes and forest of one group, whose indicators all rows have; of each what the row says without them."""
    y = on if group.width == group.classes else np.column_stack([1.0 - on, on])
    power = likeliest_power(odds, y, w, group)
    if not rest.shape[1]:
        return Words(power)
    some = np.arange(len(y))
    if len(y) > SLOPE_ROWS:
        some = np.sort(rng.choice(len(y), SLOPE_ROWS, replace=False))
    few = power * odds[some], rest[some], y[some], w[some]
    penalty = best_penalty(*few, group, rng)
    slopes = None if penalty is None else slopes_of(*few, penalty)
    doubt = doubt_of(power, odds[some], rest[some], w[some], slopes, penalty)
    law = class_law(power, odds, rest, slopes)
    found = forest_of(law, rest, y, w, group, rng, n_jobs) if forests else None
    if found is None:
        return Words(power, slopes, doubt=doubt)
    forest, share, gain = found
    return Words(power, slopes, forest, share, gain, doubt)


def forest_of(
    law: Array, rest: Array, y: Array, w: Array, group: Group, rng: np.random.Generator, n_jobs: int = 1
) -> tuple[Any, float, float] | None:
    """A forest, the share that it gets in the ``law`` of classes and what that gains of the Brier score outside the bag, if it pays.

    Of levels in order the absolute error of the median must not grow.
    """
    old = brier(mixed(group, law, None, 0.0), y)

    def blended(outside: Array) -> tuple[float, Array]:
        tried = [(share, brier(mixed(group, law, outside, share), y)) for share in _SHARES]
        return min(tried, key=lambda each: float(w @ each[1]))

    def worth(outside: Array) -> bool:
        return float(w @ blended(outside)[1]) < (1.0 - 0.25 * LEAST_GAIN) * float(w @ old)

    uniform = bool((w == w[0]).all())
    features = np.column_stack([rest, law])
    grown = grow(features, y, None if uniform else w, rng, worth, n_jobs=n_jobs, wide=True)
    if grown is None:
        return None
    forest, outside = grown
    share, new = blended(outside)
    if not is_gain(old, new, w, LEAST_GAIN):
        return None
    if group.direct and w @ missed(mixed(group, law, outside, share), y, group) > w @ missed(
        mixed(group, law, None, 0.0), y, group
    ):
        return None
    return forest, share, 1.0 - float(w @ new) / float(w @ old)


def missed(law: Array, y: Array, group: Group) -> Array:
    """Absolute errors of the median of levels in order."""
    return np.abs(Levels(group, np.arange(len(y)), law).value - y @ group.levels)


def learn_steps(
    rows: LocalRows | DaskRows, model: CopulaModel, steps: Sequence[Group], random_state: Any
) -> tuple[tuple[Group, Words], ...]:
    """Columns of levels in order for which a forest pays beside the copula's law, which is that of the row without the cell."""
    if not steps or not isinstance(rows, LocalRows) or len(model.columns) < 2:
        return ()
    rng = generator(random_state)
    X, weight = distinct_rows(*sampled(rows.X, rows.weight, rng))
    w = np.ones(len(X)) if weight is None else weight
    there = [np.flatnonzero(~np.isnan(X[:, group.start])) for group in steps]
    there = [cells if len(cells) >= FEWEST else cells[:0] for cells in there]
    shared = not model.by_cell and model.bridge is None
    every = steps_without(X, there, model, steps) if shared else {}
    out = []
    for i, (group, cells) in enumerate(zip(steps, there, strict=True)):
        if len(cells):
            odds, rest = every[i] if shared else hidden_group(hide(X[cells], group), model, group)
            y = (X[cells, group.start][:, None] == group.levels).astype(np.float64)
            found = forest_of(class_law(1.0, odds), rest, y, w[cells], group, rng, rows.n_jobs)
            if found is not None:
                out.append((group, Words(1.0, None, *found)))
    return tuple(out)


def steps_without(
    X: Array, cells: Sequence[Index], model: CopulaModel, steps: Sequence[Group]
) -> dict[int, tuple[Array, Array]]:
    """What `hidden_group` finds of the cells of each column of levels, were they hidden: rows solved once for all columns."""
    table, missing = observed_latents(X, model)
    odds: dict[int, list[Array]] = {}
    means: dict[int, list[Array]] = {}
    for i, _, q, mean in told_without(X, cells, model, steps):
        odds.setdefault(i, []).append(odds_without(q, mean, model, steps[i]))
        means.setdefault(i, []).append(mean)
    found = {}
    for i, parts in means.items():
        j, gone = steps[i].start, missing[cells[i]]
        gone[:, j] = True
        z = np.where(gone, np.concatenate(parts), table[cells[i]])
        z = z if model.curved is None else model.curved.filled(z, gone)
        found[i] = np.concatenate(odds[i]), np.delete(z, j, axis=1)
    return found


def best_penalty(
    told: Array, rest: Array, y: Array, w: Array, group: Group, rng: np.random.Generator
) -> float | None:
    """The penalty of slopes under which rows left out are likeliest; None where they are likelier without slopes."""
    which = rng.permutation(np.arange(len(y)) % FOLDS)

    def loss(part: Array, slopes: Array | None) -> float:
        law = mixed(group, class_law(1.0, told[part], rest[part], slopes), None, 0.0)
        return -float(w[part] @ np.log((law * y[part]).sum(axis=1)))

    parts = [which == k for k in range(FOLDS if len(y) < ENOUGH else FOLDS // 2)]
    losses = [sum(loss(k, None) for k in parts)]
    for penalty in PENALTIES:
        losses.append(sum(loss(k, slopes_of(told[~k], rest[~k], y[~k], w[~k], penalty)) for k in parts))
    best = int(np.argmin(losses))
    return None if best == 0 else PENALTIES[best - 1]


def slopes_of(told: Array, rest: Array, y: Array, w: Array, penalty: float) -> Array:
    r"""a and b of the largest penalised likelihood: minimise

    .. math:: -\sum_i w_i \log p_{i y_i} + \tfrac{\lambda}{2} \lVert b \rVert^2 + \tfrac12 \lVert a \rVert^2 .

    In the coordinates in which the mean over classes of its second derivatives at zero is the identity, ``STEPS`` steps are enough.
    """
    F = np.column_stack([np.ones(len(rest)), rest])
    ridge = np.append(1.0, np.full(rest.shape[1], penalty))[:, None]
    p = np.exp(log_softmax(told, axis=1))
    root = cholesky(
        (F * (w * (p * (1.0 - p)).mean(axis=1))[:, None]).T @ F + np.diag(ridge[:, 0]), lower=True
    )

    def loss(at: Array) -> tuple[float, Array]:
        A = solve_triangular(root, at.reshape(len(root), -1), lower=True, trans=1)
        law = log_softmax(told + F @ A, axis=1)
        slope = F.T @ (w[:, None] * (np.exp(law) - y)) + ridge * A
        value = 0.5 * float((ridge * A * A).sum()) - float(w @ (law * y).sum(axis=1))
        return value, solve_triangular(root, slope, lower=True).ravel()

    found = minimize(
        loss, np.zeros(len(root) * y.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": STEPS}
    )
    return np.asarray(solve_triangular(root, found.x.reshape(len(root), -1), lower=True, trans=1))


def doubt_of(
    power: float, odds: Array, rest: Array, w: Array, slopes: Array | None, penalty: float | None
) -> Array:
    r"""A root of the covariance of power and slopes: of the inverse of

    .. math:: \sum_i w_i J_i^\top (\mathrm{diag}(p_i) - p_i p_i^\top) J_i + \mathrm{ridge} , \qquad J_i = [o_i, f_i^\top \otimes I] ,

    o the log odds of the classes and f = (1, z) of the rest of the row. Of the power alone where there are no slopes, or too many.
    """
    p = np.exp(class_law(power, odds, rest, slopes))
    off = p * (odds - (p * odds).sum(axis=1, keepdims=True))
    own = max(float(w @ (off * odds).sum(axis=1)), 1e-6)
    if slopes is None or penalty is None or slopes.size > DOUBTED:
        return np.array([[own**-0.5]])
    F = np.column_stack([np.ones(len(rest)), rest])
    q, c = slopes.shape
    inner = np.zeros((q, c, q, c))
    for a in range(c):
        for b in range(a, c):
            weight = w * p[:, a] * ((a == b) - p[:, b])
            inner[:, a, :, b] = (F * weight[:, None]).T @ F
            inner[:, b, :, a] = inner[:, a, :, b]
    H = np.zeros((q * c + 1, q * c + 1))
    H[0, 0] = own
    H[0, 1:] = H[1:, 0] = (F.T @ (w[:, None] * off)).ravel()
    H[1:, 1:] = inner.reshape(q * c, q * c)
    H[np.diag_indices(len(H))] += np.r_[1e-9, np.ones(c), np.full((q - 1) * c, penalty)]
    return solve_triangular(np.linalg.cholesky(H), np.eye(len(H)), lower=True).T


def likeliest_power(odds: Array, y: Array, weight: Array, group: Group) -> float:
    """The power of the odds under which the classes are likeliest."""

    def loss(power: float) -> float:
        law = mixed(group, class_law(power, odds), None, 0.0)
        return -float(weight @ np.log((law * y).sum(axis=1)))

    return float(minimize_scalar(loss, bounds=(0.1, 3.0), method="bounded", options={"xatol": 1e-3}).x)


def brier(law: Array, y: Array) -> Array:
    """Sum of squared differences of probabilities and indicators, row by row."""
    return np.asarray(((law - y) ** 2).sum(axis=1))
