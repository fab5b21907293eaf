"""Formulas one by one, each beside another way to compute it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm, truncnorm

from colspace import CopulaImputer
from colspace.copula import _predict
from colspace.copula._em import extrapolate, maximise, prune, shrink
from colspace.copula._encode import distinct_values, known_rows, training_block
from colspace.copula._estep import Factors, Rows, cavity, pack, posterior, signal, unpack
from colspace.copula._fit import CopulaModel, leading_vectors, principal_factors, signal_variance
from colspace.copula._marginals import NodeSums, build_chain, move, rescaled
from colspace.copula._paper import paper_step
from colspace.copula._passes import LocalRows
from colspace.copula._predict import Gaps, draws, interval_ends
from colspace.copula._row_laws import row_laws
from colspace.copula._step import Block, State, _knot_sums, start_sites, step
from colspace.copula._values import Column, column_of, empirical_column


def factors(p=6, k=2, noise=0.3, loose=0.0, seed=0):
    rng = np.random.default_rng(seed)
    s2 = noise * rng.uniform(0.8, 1.2, p)
    W = rng.standard_normal((p, k))
    W *= (np.sqrt(1 - s2) / np.linalg.norm(W, axis=1))[:, None]
    root = rng.standard_normal((p, k, k))
    return Factors(W, loose * root @ root.transpose(0, 2, 1), s2)


def model_of(state, method="ep", cells=50.0, loose=0.5):
    p = len(state.chain.kinds)
    columns = tuple(column_of(state.chain, j) for j in range(p))
    return CopulaModel(state, columns, tuple(range(p)), method, np.full(p, cells), np.full(p, loose), ())


def levels(n=80, p=6, cuts=(-0.5, 0.6), kind="ordinal", seed=0):
    rng = np.random.default_rng(seed)
    f = factors(p, loose=0.02, seed=seed)
    Z = rng.standard_normal((n, 2)) @ f.W.T + np.sqrt(f.noise) * rng.standard_normal((n, p))
    X = np.digitize(Z, cuts).astype(float) if kind == "ordinal" else np.maximum(Z, cuts[0])
    X[rng.random((n, p)) < 0.2] = np.nan
    return X, State(f, build_chain(distinct_values(X), [kind] * p))


# ---------------------------------------------------------------- M-step


def by_hand(state, sums):
    """Loadings, covariances and noise before they are scaled, from sums over the rows."""
    f, p, k = state.factors, len(state.factors.W), state.factors.rank
    prior = (f.W.T @ f.W + f.C.sum(axis=0)) / p
    A = unpack(sums.factors.A, k)
    expand = np.linalg.cholesky(unpack(sums.factors.tt, k) / sums.factors.count)
    W, C, noise = np.empty((p, k)), np.empty((p, k, k)), np.empty(p)
    for j in range(p):
        cov = np.linalg.inv(A[j] + np.linalg.inv(prior))
        w = cov @ sums.factors.b[j]
        spread = np.trace(A[j] @ (np.outer(w, w) + cov))
        if (
            state.chain.kinds[j] == "continuous"
        ):  # E (z - w't)^2, w uncertain too; A and b are in units of the noise
            noise[j] = (sums.squares[j] + f.noise[j] * (spread - 2 * w @ sums.factors.b[j])) / sums.cells[j]
        else:
            noise[j] = (sums.noise[j] + f.noise[j] * np.trace(A[j] @ cov)) / sums.cells[j]
        W[j], C[j] = expand.T @ w, expand.T @ cov @ expand
    return W, C, noise


@pytest.mark.parametrize("kind", ["continuous", "ordinal"])
def test_m_step_by_hand(kind):
    X, state = levels(kind="ordinal")
    if kind == "continuous":
        X = np.where(np.isnan(X), np.nan, np.random.default_rng(1).standard_normal(X.shape))
        state = replace(state, chain=build_chain(distinct_values(X), ["continuous"] * 6))
    block = start_sites(training_block(X, state.chain), state)
    block, _ = step(block, state, False)
    _, sums = step(block, state, False)
    W, C, noise = by_hand(state, sums)
    total = noise + np.sum(W**2, axis=1)
    new = maximise(state, sums, common=True).factors
    share = np.average(noise / total, weights=sums.cells)
    np.testing.assert_allclose(new.noise, share, rtol=1e-6)
    grown = (1 - share) / (1 - noise / total) / total
    np.testing.assert_allclose(new.W, W * np.sqrt(grown)[:, None], rtol=1e-6)
    np.testing.assert_allclose(new.C, C * grown[:, None, None], rtol=1e-6)


@pytest.mark.parametrize("kind", ["continuous", "ordinal"])
def test_noise_of_columns_is_shrunk_by_what_it_varies_by_chance(kind):
    """Log noise of m cells has variance 2/m; where only loadings tell, Var[1 - w'w] / noise^2."""
    X, state = levels()
    if kind == "continuous":
        X = np.where(np.isnan(X), np.nan, np.random.default_rng(1).standard_normal(X.shape))
        state = replace(state, chain=build_chain(distinct_values(X), ["continuous"] * 6))
    _, sums = step(start_sites(training_block(X, state.chain), state), state, False)
    W, C, noise = by_hand(state, sums)
    noise = noise if kind == "continuous" else state.factors.noise
    total = noise + np.sum(W**2, axis=1)
    share = noise / total
    chance = 2 / sums.cells
    if kind == "ordinal":
        chance = 4 * np.einsum("pij,pi,pj->p", C, W, W) / total**2 / share**2
    expected = shrink(share, chance)
    np.testing.assert_allclose(maximise(state, sums, common=False).factors.noise, expected, rtol=1e-6)
    assert np.abs(expected - share).max() > 1e-3


def test_cuts_move_with_the_scale_of_their_column():
    X, state = levels()
    _, sums = step(start_sites(training_block(X, state.chain), state), state, False)
    W, _, _ = by_hand(state, sums)
    total = state.factors.noise + np.sum(W**2, axis=1)
    moved = move(state.chain, sums.nodes, knots=False)
    new = maximise(state, sums, common=False).chain.z
    np.testing.assert_allclose(new, moved / np.sqrt(total)[state.chain.column], rtol=1e-6)
    assert np.abs(new - moved).max() > 1e-3


def test_squared_noise_of_a_censored_cell():
    """E[e^2] of z = u + e in its interval, integrated over e."""
    X, state = levels()
    X = X[~np.isnan(X[:, 0])]
    X[:, 1:] = np.nan
    block = start_sites(training_block(X, state.chain), state)
    _, sums = step(block, state, False)
    f, chain = state.factors, state.chain
    q = posterior(block.rows, block.tau, block.nu, f)
    m, v = cavity(*signal(block.rows, q, f), block.tau, block.nu)
    s, expected = np.sqrt(f.noise[0]), 0.0
    for c in range(len(m)):
        low, high = (chain.bounds[e[block.level[c]]] for e in (chain.level_low, chain.level_high))

        def density(e, c=c, low=low, high=high):
            u = np.sqrt(v[c])
            return norm.pdf(e, 0, s) * (ndtr((high - m[c] - e) / u) - ndtr((low - m[c] - e) / u))

        mass, square = (quad(lambda e, d=d: e**d * density(e), -5, 5, epsabs=1e-12)[0] for d in (0, 2))
        expected += square / mass
    assert sums.noise[0] == pytest.approx(expected, rel=1e-6)


def test_shrink_by_hand():
    noise, variances = np.array([0.1, 0.2, 0.4]), np.array([0.02, 0.05, 7.0])
    logs = np.log(noise)
    between = logs.var() - np.mean([0.02, 0.05, 1.0])
    assert between < 0
    np.testing.assert_allclose(shrink(noise, variances), 0.2)
    variances[2] = 0.1
    between = logs.var() - variances.mean()
    expected = np.log(0.2) + between / (between + variances) * (logs - np.log(0.2))
    np.testing.assert_allclose(shrink(noise, variances), np.exp(expected))
    np.testing.assert_array_equal(
        shrink(np.full(3, 0.5), np.zeros(3)), 0.5
    )  # nothing between, nothing by chance


def test_prune_thresholds():
    p, cells = 40, np.full(40, 100.0)
    edge = (1 + np.sqrt(0.4)) ** 2 - 1
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((p, 2)))[0]
    chain = build_chain([(np.arange(3.0), np.ones(3))] * p, ["ordinal"] * p)

    def rank(strength, loose=0.0):
        W = basis * np.sqrt(0.5 * np.array([20.0, strength]))
        C = np.tile(np.diag([0.0, loose / p]), (p, 1, 1))
        return prune(State(Factors(W, C, np.full(p, 0.5)), chain), cells).factors.rank

    assert rank(1.05 * edge) == 2
    assert rank(0.95 * edge) == 1
    assert rank(1.05 * edge, loose=0.45 * edge) == 2
    assert rank(1.05 * edge, loose=0.6 * edge) == 1  # of its eigenvalue, 0.5 * 1.05 * edge


def test_extrapolation_finds_the_limit_of_a_geometric_approach():
    limit, rng = factors(p=8), np.random.default_rng(1)
    W, logs = rng.standard_normal((8, 2)), 0.1 * rng.standard_normal(8)
    chain = build_chain([(np.arange(3.0), np.ones(3))] * 8, ["continuous"] * 8)
    path = [
        State(Factors(limit.W + 0.1 * 0.9**i * W, limit.C, limit.noise * np.exp(0.9**i * logs)), chain)
        for i in range(3)
    ]
    found = extrapolate(*path).factors
    np.testing.assert_allclose(found.W, limit.W, rtol=1e-9)
    np.testing.assert_allclose(found.noise, limit.noise, rtol=1e-9)


# ---------------------------------------------------------------- marginals


def test_sums_of_interpolated_cells_are_their_squares():
    """-z'Dz/2 + h'z is -sum (z_cell - m)^2 / (2 v) up to a constant."""
    rng = np.random.default_rng(0)
    node, part = np.array([0, 1, 1, 2, 3]), np.array([0.3, 0.0, 0.9, 0.5, 0.0])
    none = np.zeros(0)
    index = np.arange(5)
    block = Block(
        Rows(5, 1, index, 0 * index), index, node, part, none.astype(int), none.astype(int), none, none
    )
    m, v = rng.standard_normal(5), rng.uniform(0.5, 2, 5)
    sums = _knot_sums(block, m, v, 4)

    def quadratic(z):
        D = np.diag(sums.diagonal) + np.diag(sums.beside[:-1], 1) + np.diag(sums.beside[:-1], -1)
        return -0.5 * z @ D @ z + sums.linear @ z

    def squares(z):
        cell = (1 - part) * z[node] + part * z[np.minimum(node + 1, 3)]
        return -np.sum((cell - m) ** 2 / (2 * v))

    zero = np.zeros(4)
    for z in rng.standard_normal((5, 4)):
        assert quadratic(z) == pytest.approx(squares(z) - squares(zero))


def test_spacings_weigh_the_mean_of_their_neighbours():
    chain = build_chain([(np.arange(4.0), np.array([2.0, 4, 10, 1]))], ["continuous"])
    np.testing.assert_array_equal(chain.gap, [3, 7, 5.5, 0])
    limited = build_chain([(np.arange(4.0), np.array([5.0, 4, 10, 1]))], ["lower"])
    np.testing.assert_array_equal(limited.gap, [4, 7, 5.5, 0])
    np.testing.assert_array_equal(limited.weight, [0, 4, 10, 1])


def test_newton_steps_are_newton_steps():
    """A dozen steps reach what many reach, and none from a far start lowers the likelihood."""
    rng = np.random.default_rng(0)
    chain = build_chain([(np.arange(12.0), rng.integers(1, 9, 12).astype(float))], ["continuous"])
    sums = NodeSums(rng.uniform(1, 5, 12), np.zeros(12), 3 * rng.standard_normal(12))
    best = move(chain, sums, knots=True, steps=300, tol=1e-13)
    near = replace(chain, z=best + 0.02 * np.diff(best).min() * rng.standard_normal(12))
    errors = [np.abs(move(near, sums, knots=True, steps=s, tol=1e-13) - best).max() for s in (1, 2, 3)]
    assert errors[1] < 0.05 * errors[0]
    assert errors[2] < 0.05 * errors[1]

    def likelihood(z):
        return -0.5 * z @ (sums.diagonal * z) + sums.linear @ z + chain.gap[:-1] @ np.log(np.diff(z))

    for scale in (1e-3, 0.1, 20.0):
        z = scale * np.arange(12.0)
        for _ in range(8):
            new = move(replace(chain, z=z), sums, knots=True, steps=1)
            assert likelihood(new) >= likelihood(z)
            z = new


def test_knots_are_scaled_together_to_unit_mean_square():
    columns = [
        (np.arange(3.0), np.array([1.0, 2, 5])),
        (np.arange(4.0), np.ones(4)),
        (np.arange(2.0), np.ones(2)),
    ]
    chain = build_chain(columns, ["continuous", "continuous", "binary"])
    z = np.random.default_rng(0).standard_normal(8)
    new = rescaled(chain, z).z
    assert np.average(new[:7] ** 2, weights=[1, 2, 5, 1, 1, 1, 1]) == pytest.approx(1.0)
    assert np.ptp(new[:7] / z[:7]) < 1e-12
    assert new[7] == z[7]


def test_mean_spread_of_a_cell_given_the_others():
    """1 / sqrt of the diagonal of the precision, of complete columns; and what it says about the nodes."""
    rng = np.random.default_rng(0)
    W = np.sqrt([[0.9], [0.8], [0.7], [0.5], [0.5], [0.5]])
    X = rng.standard_normal((400, 1)) @ W.T + np.sqrt(1 - W[:, 0] ** 2) * rng.standard_normal((400, 6))
    model = CopulaImputer(1, random_state=0).fit(X)
    expected = 1 / np.sqrt(np.diag(np.linalg.inv(model.correlation_)))
    np.testing.assert_allclose(model._model.loose, expected, rtol=0.05)
    assert np.ptp(expected) > 0.25
    for column, loose in zip(model._model.columns, model._model.loose, strict=True):
        assert column.wobble == pytest.approx(loose / 800)


# ---------------------------------------------------------------- values


def test_values_of_the_paper_are_empirical_quantiles():
    sample = np.array([1.0, 2, 2, 2, 5, 7, 7, 11])
    values = distinct_values(sample[:, None])
    column = empirical_column(build_chain(values, ["continuous"]), 0, *values[0][:2])
    shares = np.array([0.0, 0.05, 0.2, 0.4, 0.5, 0.61, 0.8, 0.97, 1.0])
    np.testing.assert_allclose(column.values(ndtri(shares)), np.quantile(sample, shares))


def test_far_values_are_drawn_to_their_power_law():
    """By as much as they differ by chance: all of the way, beyond one sd past the start of the tail, or hardly."""
    z = ndtri((np.arange(200) + 0.5) / 200)
    law, rng = 2.0 * np.sign(z) * np.abs(z) ** 1.5, np.random.default_rng(0)
    x = np.sort(law + 0.05 * rng.standard_normal(200) * np.abs(z) * (np.abs(z) > 1.5))
    far = z > 1.5
    none = np.zeros(0)
    loose, tight, off = (Column("continuous", z, x, none, wobble) for wobble in (1.0, 1e-6, 0.0))
    tail = loose.tails[1]
    assert tail.power == pytest.approx(1.5, abs=0.1)
    pull = np.minimum(z[far] - 1.5, 1.0)
    expected = np.maximum.accumulate(x[far] + pull * (tail.law(z[far]) - x[far]))
    np.testing.assert_allclose(loose.curve[far], expected, rtol=1e-12)
    slope = tail.scale * tail.power * z[far] ** (tail.power - 1)
    chance = slope**2 * 1e-6 * np.sqrt(2 * np.pi) * np.exp(z[far] ** 2 / 2)
    lack = np.mean((x[far] - tail.law(z[far])) ** 2 / chance)
    assert lack > 20
    expected = np.maximum.accumulate(x[far] + pull / lack * (tail.law(z[far]) - x[far]))
    np.testing.assert_allclose(tight.curve[far], expected, rtol=1e-12)
    np.testing.assert_array_equal(off.curve, x)


def test_slopes_of_the_density_are_derivatives():
    rng = np.random.default_rng(0)
    sample = np.exp(rng.standard_normal((300, 1)))
    column = column_of(build_chain(distinct_values(sample), ["continuous"]), 0)
    x = np.array([column.x[0] - 0.01, column.x[-1] + 3.0, column.x[-1] + 30.0])
    numeric = (column.latent(x + 1e-5) - column.latent(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(column.log_slope(x), np.log(numeric), rtol=1e-6)
    inside = 0.5 * (column.x[100] + column.x[101])
    slope = (column.z[101] - column.z[100]) / (column.x[101] - column.x[100])
    assert column.log_slope(np.array([inside]))[0] == pytest.approx(np.log(slope))


# ---------------------------------------------------------------- what is said about gaps


def test_interval_ends_by_hand():
    values = distinct_values(np.random.default_rng(0).standard_normal((50, 1)))
    model = model_of(State(factors(1, 1), build_chain(values, ["continuous"])))
    z, mean, sd = model.columns[0].z, np.array([0.2, 2.4]), np.array([0.5, 0.6])
    lower, upper = interval_ends(Gaps(0, np.arange(2), mean, sd), model, 0.9)
    q = norm.ppf(0.95)
    for i in range(2):
        variance = sd[i] ** 2 * (1 + (z[-1] - z[0]) / (2 * 0.5 * 50))
        for side, found in ((-1, lower), (1, upper)):
            end = np.clip(mean[i] + side * q * np.sqrt(variance), z[0], z[-1])
            reach = q * np.sqrt(variance + 0.5 / (2 * 50 * norm.pdf(end)))
            assert found[i] == pytest.approx(mean[i] + side * reach)
    paper = interval_ends(Gaps(0, np.arange(2), mean, sd), replace(model, method="paper"), 0.9)
    np.testing.assert_allclose(paper[1], mean + q * sd)


def test_bound_and_reliability_by_hand(monkeypatch):
    """Theorem 4, and lengths and sizes of the other gaps; laws of the gaps given."""
    values = [distinct_values(np.arange(40.0)[:, None])[0]] * 2 + [(np.arange(3.0), np.array([10.0, 20, 10]))]
    kinds = ["continuous", "continuous", "ordinal"]
    model = model_of(State(factors(3, 1), build_chain(values, kinds)))
    rng = np.random.default_rng(0)
    laws = [Gaps(j, np.arange(4), 0.5 * rng.standard_normal(4), rng.uniform(0.1, 0.4, 4)) for j in range(3)]
    monkeypatch.setattr(_predict, "gaps", lambda X, model, spread=True: iter(laws))
    X = np.full((4, 3), np.nan)
    bound = _predict.within(X, model, 0, bound=True)
    cuts = np.concatenate([[-np.inf], model.columns[2].z, [np.inf]])
    for i, (m, s) in enumerate(zip(laws[2].mean, laws[2].sd, strict=True)):
        at = np.searchsorted(cuts, m) - 1
        near = min(m - cuts[at], cuts[at + 1] - m)
        assert bound[i, 2] == pytest.approx(max(1 - s**2 / near**2, 0))
    wide = _predict.within(X, model, 9.0, bound=True)
    column = model.columns[0]
    x = column.values(laws[0].mean)
    near = np.minimum(laws[0].mean - column.latent(x - 9), column.latent(x + 9) - laws[0].mean)
    np.testing.assert_allclose(wide[:, 0], np.maximum(1 - laws[0].sd ** 2 / near**2, 0))
    assert (wide[:, 0] > 0).any()
    found = _predict.reliabilities(X, model)
    D, Xh = np.empty((4, 2)), np.empty((4, 2))
    for j in range(2):
        low, high = interval_ends(laws[j], model, 0.95)
        D[:, j] = model.columns[j].values(high) - model.columns[j].values(low)
        Xh[:, j] = model.columns[j].values(laws[j].mean)
    for i in range(4):
        for j in range(2):
            others = np.ones((4, 2), dtype=bool)
            others[i, j] = False
            assert found[i, j] == pytest.approx(np.sum(D[others] ** 2) / np.sum(Xh[others] ** 2))
    np.testing.assert_allclose(found[:, 2], _predict.within(X, model, 0, bound=False)[:, 2])


def test_rows_of_a_draw_share_its_loadings():
    """W = 0 and uncertain: what varies is the loading drawn for the table, the same in all rows."""
    chain = build_chain(
        [distinct_values(np.random.default_rng(0).standard_normal((99, 1)))[0]] * 2, ["continuous"] * 2
    )
    W, C = np.array([[0.99], [0.0]]), np.zeros((2, 1, 1))
    C[1] = 0.25
    model = model_of(State(Factors(W, C, np.array([0.0199, 0.04])), chain))
    X = np.array([[2.0, np.nan], [1.5, np.nan]])
    latent = np.stack(
        [
            model.columns[1].latent(table[:, 1])
            for table in draws(X, model, 3000, np.random.default_rng(1), clip=False)
        ]
    )
    known = known_rows(X, chain, model.columns, model.labels)
    q = row_laws(known, model).posterior
    cov = np.cov(latent.T)
    assert cov[0, 1] == pytest.approx(0.25 * q.t[0, 0] * q.t[1, 0], rel=0.15)
    for i in range(2):
        assert cov[i, i] == pytest.approx(0.04 + 0.25 * (q.t[i, 0] ** 2 + q.V[i, 0]), rel=0.15)


# ---------------------------------------------------------------- the start


def test_principal_factors_of_exact_correlations():
    f = factors(p=30, noise=0.3)
    R = f.W @ f.W.T + np.diag(f.noise)
    scale = np.random.default_rng(0).uniform(0.5, 2, 30)  # means of levels have less than unit variance
    counts = np.random.default_rng(1).integers(20, 90, (30, 30)).astype(float)
    W = principal_factors(R * np.outer(scale, scale) * counts, counts, 2)
    off = ~np.eye(30, dtype=bool)
    assert np.abs(W @ W.T - R)[off].max() < 0.03


def test_signal_variance_inverts_the_spiked_eigenvalue():
    signal_of = np.array([0.9, 2.0, 30.0])
    seen = (1 + signal_of) * (1 + 0.5 / signal_of)
    np.testing.assert_allclose(signal_variance(seen, 0.5), signal_of)
    assert signal_variance(np.array([1.2]), 0.5)[0] == 0.01


def test_start_of_a_wide_table_has_the_size_of_its_loadings():
    rng = np.random.default_rng(0)
    f = factors(p=500, noise=0.3)
    Z = rng.standard_normal((600, 2)) @ f.W.T + np.sqrt(f.noise) * rng.standard_normal((600, 500))
    Z[rng.random(Z.shape) < 0.6] = np.nan
    chain = build_chain(distinct_values(Z), ["continuous"] * 500)
    W = leading_vectors(LocalRows(Z).passes(chain, 2), chain, 2, 0)
    truth = f.W @ f.W.T
    assert np.sum((W @ W.T) * truth) / np.sum(truth**2) == pytest.approx(1.0, abs=0.1)


# ---------------------------------------------------------------- the published EM


def test_published_sums_row_by_row():
    """E[z t'], E[tt'] and E[z^2] with the diagonal of Cov[z] kept, from dense matrices."""
    X, state = levels(n=30)
    f = Factors(state.factors.W, np.zeros((6, 2, 2)), np.full(6, 0.3))
    state = replace(state, factors=f)
    block = training_block(X, state.chain)
    rng = np.random.default_rng(2)
    block = replace(block, nu=rng.standard_normal(len(block.nu)))
    after, sums = paper_step(block, state)
    zt, tt, zz = np.zeros((6, 2)), np.zeros((6, 2, 2)), np.zeros(6)
    for i in range(30):
        here = np.flatnonzero(block.rows.row == i)
        o = block.rows.column[here]
        sigma = f.W[o] @ f.W[o].T + 0.3 * np.eye(len(o))
        precision = np.linalg.inv(sigma)
        mean, variance = np.empty(len(o)), np.empty(len(o))
        for a in range(len(o)):  # given the other cells as they were
            v = 1 / precision[a, a]
            rest = np.delete(np.arange(len(o)), a)
            m = -v * precision[a, rest] @ block.nu[here[rest]]
            level = block.level[here[a]]
            ends = [
                (state.chain.bounds[e[level]] - m) / np.sqrt(v)
                for e in (state.chain.level_low, state.chain.level_high)
            ]
            law = truncnorm(*ends, loc=m, scale=np.sqrt(v))
            mean[a], variance[a] = law.mean(), law.var()
        M = np.linalg.inv(0.3 * np.eye(2) + f.W[o].T @ f.W[o])
        B = M @ f.W[o].T
        t = B @ mean
        second = np.outer(t, t) + 0.3 * M + B @ np.diag(variance) @ B.T
        zt[o] += np.outer(mean, t) + np.diag(variance) @ B.T
        tt[o] += second
        zz[o] += mean**2 + variance
        np.testing.assert_allclose(after.nu[here], mean, atol=1e-8)
    np.testing.assert_allclose(sums.zt, zt, atol=1e-7)
    np.testing.assert_allclose(sums.tt, pack(tt), atol=1e-7)
    np.testing.assert_allclose(sums.zz, zz, atol=1e-7)


def test_published_law_of_one_cell_is_exact():
    """Var[t | one cell] by integration; the truncated variance of the cell is part of it."""
    chain = build_chain([(np.arange(3.0), np.array([20.0, 30, 50]))] * 2, ["ordinal"] * 2)
    f = Factors(np.full((2, 1), np.sqrt(0.7)), np.zeros((2, 1, 1)), np.full(2, 0.3))
    model = model_of(State(f, chain), "paper")
    X = np.array([[0.0, np.nan], [1.0, np.nan], [2.0, np.nan]])
    q = row_laws(known_rows(X, chain, model.columns, model.labels), model).posterior
    edges = np.concatenate([[-np.inf], chain.z[:2], [np.inf]])
    for i in range(3):

        def density(t, i=i):
            m, s = np.sqrt(0.7) * t, np.sqrt(0.3)
            return norm.pdf(t) * (ndtr((edges[i + 1] - m) / s) - ndtr((edges[i] - m) / s))

        mass, first, second = (
            quad(lambda t, d=d: t**d * density(t), -9, 9, epsabs=1e-13)[0] for d in range(3)
        )
        assert q.t[i, 0] == pytest.approx(first / mass, abs=1e-6)
        assert q.V[i, 0] == pytest.approx(second / mass - (first / mass) ** 2, abs=1e-6)


def test_published_law_of_two_cells_is_the_fixed_point():
    """Each cell truncated about what the other, at its mean, says; Var[t] = V + V^2 sum w^2 v / s^4, v their truncated variances."""
    chain = build_chain([(np.arange(3.0), np.array([20.0, 30, 50]))] * 2, ["ordinal"] * 2)
    w, s = np.sqrt([0.7, 0.5]), np.array([0.3, 0.5])
    model = model_of(State(Factors(w[:, None], np.zeros((2, 1, 1)), s), chain), "paper")
    X = np.array([[0.0, 2.0]])
    q = row_laws(known_rows(X, chain, model.columns, model.labels), model).posterior
    edges = np.concatenate([[-np.inf], chain.z[:2], [np.inf]])
    low, high, z, v = edges[[0, 2]], edges[[1, 3]], np.zeros(2), np.ones(2)
    for _ in range(200):
        alone = 1.0 / (1.0 + w[::-1] ** 2 / s[::-1])  # Var[t] by the other cell
        centre, sd = w * alone * w[::-1] * z[::-1] / s[::-1], np.sqrt(s + w**2 * alone)
        z, v = truncnorm.stats((low - centre) / sd, (high - centre) / sd, centre, sd)
    V = 1.0 / (1.0 + (w**2 / s).sum())
    assert q.t[0, 0] == pytest.approx(V * (w * z / s).sum(), abs=1e-3)
    assert q.V[0, 0] == pytest.approx(V + V**2 * (w**2 * v / s**2).sum(), abs=1e-3)
