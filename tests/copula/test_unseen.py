"""Pairs of columns never observed together: found, named, and not leant on."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from colspace import CopulaImputer
from colspace.copula import UnseenPairsWarning
from colspace.copula._encode import known_rows
from colspace.copula._pairs import (
    all_factors,
    bridge_of,
    bridged,
    completed,
    contracted,
    independent,
    unseen_pairs,
)
from colspace.copula._row_laws import row_laws

RNG = np.random.default_rng


def joined(seed=0, n=400):
    """One column in both surveys, two in the first, one and a level in the second, all of one factor."""
    rng = RNG(seed)
    t = rng.standard_normal(n)
    noise = np.sqrt([0.3, 1e-3, 0.4, 0.2, 0.3])
    X = t[:, None] * np.sqrt(1 - noise**2) * [1, -1, 1, 1, 1] + noise * rng.standard_normal((n, 5))
    y = np.digitize(X[:, 4], [-0.4, 0.8]).astype(float)
    X[:, 4] = y
    X[n // 2 :, 1:3] = np.nan
    X[: n // 2, 3:] = np.nan
    return X, y


def random_correlation(p, rng):
    A = rng.standard_normal((p, p + 3))
    R = A @ A.T
    scale = np.sqrt(np.diag(R))
    return R / np.outer(scale, scale)


def test_unseen_pairs_are_few_where_chance_would_give_many():
    together = np.array([[100.0, 4, 50], [4, 60, 20], [50, 20, 80]])
    found = unseen_pairs(together, 200)
    assert np.argwhere(np.triu(found)).tolist() == [[0, 1]]
    assert not unseen_pairs(together, 2000).any()  # 100 x 60 / 2000 = 3 would be chance


def test_unseen_pairs_are_found_and_named():
    X, _ = joined()
    with pytest.warns(
        UnseenPairsWarning, match=r"4 pair\(s\).* fewer than 5 rows: 1 and 3, 1 and 4, 2 and 3, 2 and 4"
    ):
        model = CopulaImputer(random_state=0).fit(X)
    assert model.unseen_pairs_ == [(1, 3), (1, 4), (2, 3), (2, 4)]
    seen = ~np.isnan(X)
    rows, columns = np.nonzero(seen)
    with pytest.warns(UnseenPairsWarning):
        thin = CopulaImputer(random_state=0).fit(sparse.csr_array((X[seen], (rows, columns)), shape=X.shape))
    assert thin.unseen_pairs_ == model.unseen_pairs_
    assert thin.draws_ == "factors"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenPairsWarning)
        assert all(np.isfinite(t).all() for t in thin.sample(X[:60], 2, random_state=0))
    assert CopulaImputer(random_state=0).fit(RNG(0).standard_normal((50, 3))).unseen_pairs_ == []


def test_completion_has_zeros_in_its_inverse():
    R = random_correlation(6, RNG(1))
    unseen = np.zeros((6, 6), dtype=bool)
    for a, b in ((0, 3), (1, 4), (2, 5), (0, 5)):
        unseen[a, b] = unseen[b, a] = True
    found = completed(R, unseen)
    assert np.abs(np.linalg.inv(found)[unseen]).max() < 1e-6
    np.testing.assert_array_equal(found[~unseen], R[~unseen])
    assert np.linalg.slogdet(found)[1] >= np.linalg.slogdet(R)[1]


def test_drawn_correlations_fill_what_the_seen_ones_admit():
    """Three columns, r_01 unseen: given column 2 its partial correlation is uniform on (-1, 1)."""
    a, b = 0.6, -0.3
    R = np.array([[1.0, 0.0, a], [0.0, 1.0, b], [a, b, 1.0]])
    unseen = np.zeros((3, 3), dtype=bool)
    unseen[0, 1] = unseen[1, 0] = True
    rng = RNG(2)
    drawn = [contracted(R, unseen, rng) for _ in range(2000)]
    partial = np.array([(D[0, 1] - a * b) / np.sqrt((1 - a**2) * (1 - b**2)) for D in drawn])
    assert partial.mean() == pytest.approx(0.0, abs=0.05)
    assert partial.var() == pytest.approx(1 / 3, abs=0.03)
    assert min(np.linalg.eigvalsh(D)[0] for D in drawn) > 0


def mixture_over_correlations(R, unseen, j, at, z, rng):
    """Mean and variance of z_j given z at some columns, over correlations with unseen columns whose partial ones have any direction
    and a length uniform on (0, 1)."""
    T = np.flatnonzero(unseen[j])
    B = np.setdiff1d(np.arange(len(R)), [*T, j])
    slope = np.linalg.solve(R[np.ix_(B, B)], R[np.ix_(B, [*T, j])]).T
    rest = R[np.ix_([*T, j], [*T, j])] - slope @ R[np.ix_(B, [*T, j])]
    root, left = np.linalg.cholesky(rest[:-1, :-1]), np.sqrt(rest[-1, -1])
    means, variances = [], []
    for _ in range(3000):
        r = rng.standard_normal(len(T))
        r *= rng.random() / np.linalg.norm(r)
        for side in (-1, 1):
            full = R.copy()
            full[j, T] = full[T, j] = slope[:-1] @ R[B, j] + side * left * (root @ r)
            w = np.linalg.solve(full[np.ix_(at, at)], full[at, j])
            means.append(w @ z)
            variances.append(1.0 - w @ full[at, j])
    return np.mean(means), np.mean(variances) + np.var(means)


def test_laws_beside_unseen_columns_are_mixtures_over_all_correlations():
    """Of columns 0 and 1, 2 and 3, and 4, the last never beside those in the middle; rows that show some of them."""
    rng = RNG(4)
    X = rng.standard_normal((200, 5))
    model = CopulaImputer(1, correlation="factors", nonlinear=False, random_state=0).fit(X)._model
    R = random_correlation(5, rng)
    unseen = np.zeros((5, 5), dtype=bool)
    unseen[4, 2:4] = unseen[2:4, 4] = True
    R = independent(R, unseen)
    model = replace(model, state=replace(model.state, factors=all_factors(R)))
    shift, scale = np.linspace(-0.5, 0.5, 5), np.linspace(0.6, 1.8, 5)
    bridge = bridge_of(model, unseen, shift, scale)
    shown = [[0, 1, 2, 3], [0, 2], [1, 2, 3], [3], [0, 1]]
    rows = np.full((5, 5), np.nan)
    for i, columns in enumerate(shown):
        rows[i, columns] = X[i, columns] * (1.8 if i == 2 else 1.0)
    known = known_rows(rows, model.state.chain, model.columns, model.labels)
    z = np.zeros((5, 5))
    z[known.rows.row[known.exact], known.rows.column[known.exact]] = known.z
    before = np.full((5, 5), 7.0)
    q = row_laws(known, bridge.model).posterior
    mean, sd = bridged(bridge, q, known.rows, before, before)
    for i, at in enumerate(shown[:4]):
        m, v = mixture_over_correlations(R, unseen, 4, at, z[i, at], rng)
        assert mean[4, i] == pytest.approx(shift[4] + scale[4] * m, abs=0.01)
        assert sd[4, i] == pytest.approx(scale[4] * np.sqrt(v), rel=0.015)
    assert mean[4, 4] == sd[4, 4] == 7.0  # no unseen partner is there: as they were
    assert (mean[:4] == 7.0).all()


def test_a_correlation_as_factors():
    R = random_correlation(5, RNG(3))
    f = all_factors(R)
    np.testing.assert_allclose(f.W @ f.W.T + np.diag(f.noise), R, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_joined_surveys_are_calibrated(seed):
    X, y = joined(seed, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenPairsWarning)
        model = CopulaImputer(random_state=0).fit(X)
    first = np.arange(500)
    claimed = model.probability_within(X, 0)[first, 4]
    right = model.transform(X)[first, 4] == y[first]
    assert abs(claimed.mean() - right.mean()) < 0.07
    reliable = model.reliability(X)[first, 4]
    np.testing.assert_allclose(reliable, claimed, atol=1e-12)
    draws = np.stack(model.sample(X, 4, random_state=0))[:, first, 4]
    agree = (draws == model.transform(X)[first, 4]).mean()
    assert abs(agree - right.mean()) < 0.07


def test_rows_without_unseen_partners_are_predicted_by_the_factors():
    X, _ = joined()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenPairsWarning)
        model = CopulaImputer(random_state=0).fit(X)
    row = np.array([[0.5, np.nan, np.nan, np.nan, np.nan]])
    f, z = model._model.factors, model._model.columns[0].latent(np.array([0.5]))
    R = f.W @ f.W.T + np.diag(f.noise)
    x = model.transform(row)[0, 3]
    assert x == pytest.approx(model._model.columns[3].values(R[3, 0] * z)[0], abs=0.05)


def test_the_warning_says_what_is_done_beyond_a_hundred_columns():
    rng = RNG(0)
    t = rng.standard_normal((120, 1))
    for width, words in ((100, "do not lean on the other"), (102, "beyond 100 columns predictions lean")):
        X = t + 0.8 * rng.standard_normal((120, width))
        X[:60, 0] = X[60:, 1] = np.nan
        with pytest.warns(UnseenPairsWarning, match=words):
            model = CopulaImputer(1, random_state=0).fit(X)
        assert model.unseen_pairs_ == [(0, 1)]
        assert (model._point.bridge is None) == (width > 100)
