"""The E-step, the M-step and the marginals against brute force."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm

from colspace.copula import _row_laws
from colspace.copula._em import change, maximise, prune
from colspace.copula._encode import distinct_values, known_rows, training_block
from colspace.copula._estep import (
    Factors,
    Rows,
    Work,
    cavity,
    censored_law,
    pack,
    posterior,
    signal,
    sites_of,
    unpack,
)
from colspace.copula._fit import CopulaModel, principal
from colspace.copula._marginals import NodeSums, build_chain, move, place
from colspace.copula._paper import paper_maximise, paper_step
from colspace.copula._predict import gaps, row_log_likelihood
from colspace.copula._row_laws import latent_variance, row_laws
from colspace.copula._step import Block, State, _cut_sums, start_sites, step
from colspace.copula._values import column_of


def factors(p=6, k=2, noise=0.3, seed=0, loose=0.0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    return Factors(W, loose * np.tile(np.eye(k), (p, 1, 1)), np.full(p, noise) * rng.uniform(0.8, 1.2, p))


def table(n=8, p=6, missing=0.4, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[rng.random((n, p)) < missing] = np.nan
    X[0] = np.nan  # a row of which nothing is known
    X[1] = rng.standard_normal(p)
    return X


def cells(X):
    row, column = np.nonzero(~np.isnan(X))
    return Rows(*X.shape, row, column), X[row, column]


def test_pack_and_unpack():
    A = np.arange(18.0).reshape(2, 3, 3)
    A = A + A.transpose(0, 2, 1)
    np.testing.assert_array_equal(unpack(pack(A), 3), A)


@pytest.mark.parametrize("p", [6, 400])
def test_posterior_is_the_conditional_gaussian(p):
    """Dense conditional Gaussians, and the sparse route beside the dense one."""
    X = table(p=p, missing=0.4 if p == 6 else 0.99)
    if p == 400:
        X[1, 5:] = np.nan
    f = factors(p)
    rows, z = cells(X)
    assert rows.dense == (p == 6)
    tau = 1 / f.noise[rows.column]
    q = posterior(rows, tau, z * tau, f)
    mean, variance = q.t @ f.W.T, latent_variance(q, f)
    sigma = f.W @ f.W.T + np.diag(f.noise)
    for i in range(len(X)):
        o, m = np.flatnonzero(~np.isnan(X[i])), np.flatnonzero(np.isnan(X[i]))
        gain = sigma[:, o] @ np.linalg.inv(sigma[np.ix_(o, o)])
        np.testing.assert_allclose(mean[i, m], (gain @ X[i, o])[m], atol=1e-10)
        rest = np.diag(sigma - gain @ sigma[o])
        np.testing.assert_allclose(variance[i, m], rest[m], atol=1e-10)
        t_gain = f.W[o].T @ np.linalg.inv(sigma[np.ix_(o, o)])
        np.testing.assert_allclose(q.t[i], t_gain @ X[i, o], atol=1e-10)
        np.testing.assert_allclose(unpack(q.V[i], 2), np.eye(2) - t_gain @ f.W[o], atol=1e-10)


def test_cavity_leaves_the_cell_out():
    X, f = table(), factors()
    rows, z = cells(X)
    tau = 1 / f.noise[rows.column]
    q = posterior(rows, tau, z * tau, f)
    m, v = cavity(*signal(rows, q, f), tau, z * tau)
    sigma = f.W @ f.W.T + np.diag(f.noise)
    for c in range(len(z)):
        i, j = rows.row[c], rows.column[c]
        o = [a for a in np.flatnonzero(~np.isnan(X[i])) if a != j]
        gain = sigma[j, o] @ np.linalg.inv(sigma[np.ix_(o, o)]) if o else np.zeros(0)
        assert m[c] == pytest.approx(gain @ X[i, o], abs=1e-10)
        assert v[c] + f.noise[j] == pytest.approx(sigma[j, j] - gain @ sigma[o, j], abs=1e-10)


def test_uncertain_loadings_add_their_share():
    """P = I + sum tau (w w' + C), and tr(C E[tt']) in the variance of a cell."""
    X, f = table(), factors(loose=0.05)
    rows, z = cells(X)
    tau = 1 / f.noise[rows.column]
    q = posterior(rows, tau, z * tau, f)
    variance = latent_variance(q, f)
    i, o = 1, np.flatnonzero(~np.isnan(X[1]))
    P = np.eye(2) + sum((np.outer(f.W[j], f.W[j]) + f.C[j]) / f.noise[j] for j in o)
    np.testing.assert_allclose(unpack(q.V[i], 2), np.linalg.inv(P), atol=1e-12)
    second = np.linalg.inv(P) + np.outer(q.t[i], q.t[i])
    expected = f.W[0] @ np.linalg.inv(P) @ f.W[0] + f.noise[0] + np.trace(f.C[0] @ second)
    assert variance[i, 0] == pytest.approx(expected, abs=1e-12)


# ---------------------------------------------------------------- censored cells


def steps(n=40, p=5, levels=3, seed=2, k=1, noise=0.4):
    """A small ordinal table from the model, with its chain."""
    rng = np.random.default_rng(seed)
    f = factors(p, k, noise, seed)
    Z = rng.standard_normal((n, k)) @ f.W.T + np.sqrt(f.noise) * rng.standard_normal((n, p))
    X = np.digitize(Z, np.linspace(-0.7, 0.7, levels - 1)).astype(float)
    X[rng.random((n, p)) < 0.3] = np.nan
    chain = build_chain(distinct_values(X), ["ordinal"] * p)
    return X, State(f, chain)


def model_of(state):
    p = len(state.chain.kinds)
    columns = tuple(column_of(state.chain, j) for j in range(p))
    return CopulaModel(state, columns, tuple(range(p)), "ep", np.full(p, 10.0), np.full(p, 0.5), ())


def row_integrals(X, state):
    """log p(x_O), E[t], Var[t] of each row by quadrature over the single factor."""
    f, chain = state.factors, state.chain
    out = []
    for x in X:
        seen = np.flatnonzero(~np.isnan(x))
        edges = [np.concatenate([[-np.inf], chain.z[chain.nodes(j)], [np.inf]]) for j in seen]
        low = np.array([e[int(x[j])] for e, j in zip(edges, seen, strict=True)])
        high = np.array([e[int(x[j]) + 1] for e, j in zip(edges, seen, strict=True)])
        w, s = f.W[seen, 0], np.sqrt(f.noise[seen])

        def density(t, low=low, high=high, w=w, s=s):
            return norm.pdf(t) * np.prod(ndtr((high - w * t) / s) - ndtr((low - w * t) / s))

        moments = [
            quad(lambda t, d=d: t**d * density(t), -8, 8, epsabs=1e-12, limit=200)[0] for d in range(3)
        ]
        mean = moments[1] / moments[0]
        out.append((np.log(moments[0]), mean, moments[2] / moments[0] - mean**2))
    return np.array(out)


def test_expectation_propagation_is_close_to_the_integral():
    X, state = steps()
    exact = row_integrals(X, state)
    model = model_of(state)
    laws = row_laws(known_rows(X, state.chain, model.columns, model.labels), model)
    np.testing.assert_allclose(laws.posterior.t[:, 0], exact[:, 1], atol=0.01)
    np.testing.assert_allclose(laws.posterior.V[:, 0], exact[:, 2], rtol=0.08)
    np.testing.assert_allclose(row_log_likelihood(X, model), exact[:, 0], atol=0.02)


def test_one_censored_cell_is_exact(monkeypatch):
    """With a single observed cell the moments and the likelihood are those of a truncated normal."""
    monkeypatch.setattr(_row_laws, "SETTLED", 1e-12)
    X, state = steps(p=3)
    X[:, 1:] = np.nan
    X = X[~np.isnan(X[:, 0])]
    exact = row_integrals(X, state)
    model = model_of(state)
    laws = row_laws(known_rows(X, state.chain, model.columns, model.labels), model)
    np.testing.assert_allclose(laws.posterior.t[:, 0], exact[:, 1], atol=1e-8)
    np.testing.assert_allclose(laws.posterior.V[:, 0], exact[:, 2], atol=1e-8)
    np.testing.assert_allclose(row_log_likelihood(X, model), exact[:, 0], atol=1e-8)


def test_likelihood_of_exact_cells_is_the_gaussian_density():
    X = table(60)
    chain = build_chain(distinct_values(X), ["continuous"] * 6)
    state = State(factors(), chain)
    model = model_of(state)
    sigma = state.factors.W @ state.factors.W.T + np.diag(state.factors.noise)
    for x, found in zip(X, row_log_likelihood(X, model), strict=True):
        o = np.flatnonzero(~np.isnan(x))
        z = [model.columns[j].latent(x[[j]])[0] for j in o]
        slope = sum(model.columns[j].log_slope(x[[j]])[0] for j in o)
        expected = (
            multivariate_normal(np.zeros(len(o)), sigma[np.ix_(o, o)]).logpdf(z) + slope if len(o) else 0.0
        )
        assert found == pytest.approx(expected, abs=1e-9)


def test_sites_match_the_moments_of_the_tilted_law():
    X, state = steps()
    block = start_sites(training_block(X, state.chain), state)
    rows, f = block.rows, state.factors
    q = posterior(rows, block.tau, block.nu, f)
    m, v = cavity(*signal(rows, q, f), block.tau, block.nu)
    noise = f.noise[rows.column]
    law = censored_law(m, v, noise, state.chain.bounds, block.level, state.chain)
    tau, nu = sites_of(m, v, noise, law)
    for c in range(5):
        low, high = (
            state.chain.bounds[e[block.level[c]]] for e in (state.chain.level_low, state.chain.level_high)
        )

        def tilted(u, c=c, low=low, high=high):
            s = np.sqrt(noise[c])
            return norm.pdf(u, m[c], np.sqrt(v[c])) * (ndtr((high - u) / s) - ndtr((low - u) / s))

        mass, first, second = (
            quad(lambda u, d=d: u**d * tilted(u), -9, 9, epsabs=1e-12)[0] for d in range(3)
        )
        variance = 1 / (tau[c] + 1 / v[c])
        assert variance * (nu[c] + m[c] / v[c]) == pytest.approx(first / mass, abs=1e-8)
        assert variance == pytest.approx(second / mass - (first / mass) ** 2, abs=1e-8)


def test_cut_sums_are_derivatives_of_the_likelihood():
    X, state = steps(levels=4)
    block = training_block(X, state.chain)
    rng = np.random.default_rng(0)
    m, v = rng.standard_normal(len(block.level)), rng.uniform(0.3, 1.0, len(block.level))
    zero = np.zeros_like(v)

    def likelihood(z):
        chain = replace(state.chain, z=z)
        low, high = (chain.bounds[e[block.level]] for e in (chain.level_low, chain.level_high))
        return float(np.sum(np.log(ndtr((high - m) / np.sqrt(v)) - ndtr((low - m) / np.sqrt(v)))))

    law = censored_law(m, v, zero, state.chain.bounds, block.level, state.chain)
    sums = _cut_sums(block, state.chain, v, law)
    z, n, h = state.chain.z, len(state.chain.z), 1e-4
    D = np.diag(sums.diagonal) + np.diag(sums.beside[:-1], 1) + np.diag(sums.beside[:-1], -1)
    slope = sums.linear - D @ z
    eye = h * np.eye(n)
    numeric = [(likelihood(z + e) - likelihood(z - e)) / (2 * h) for e in eye]
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-5)
    for i, e in enumerate(eye):
        for j, g in enumerate(eye):
            mixed = (
                likelihood(z + e + g) - likelihood(z + e - g) - likelihood(z - e + g) + likelihood(z - e - g)
            )
            assert -D[i, j] == pytest.approx(mixed / (4 * h * h), rel=1e-3, abs=1e-3)


# ---------------------------------------------------------------- marginals


def test_knots_maximise_the_spacing_likelihood():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(9), rng.integers(0, 4, 9)])
    chain = build_chain(distinct_values(X), ["continuous", "continuous"])
    n = len(chain.z)
    sums = NodeSums(rng.uniform(1, 5, n), np.zeros(n), 2 * rng.standard_normal(n))
    found = move(chain, sums, knots=True, steps=60, tol=1e-8)
    for j in range(2):
        nodes = chain.nodes(j)
        A, h, c = sums.diagonal[nodes], sums.linear[nodes], chain.gap[nodes][:-1]

        def loss(z, A=A, h=h, c=c):
            d = np.diff(z)
            return np.inf if (d <= 0).any() else 0.5 * z @ (A * z) - h @ z - c @ np.log(d)

        best = minimize(
            loss,
            chain.z[nodes],
            method="Nelder-Mead",
            options={"maxiter": 100_000, "fatol": 1e-13, "xatol": 1e-9, "maxfev": 100_000},
        )
        assert loss(found[nodes]) <= best.fun + 1e-6


def test_knots_of_interpolated_values():
    """Above the largest number of knots values lie between them; the sums then couple neighbours."""
    x = np.random.default_rng(0).standard_normal(3000)
    chain = build_chain(distinct_values(x[:, None]), ["continuous"])
    assert 390 <= len(chain.z) <= 402
    assert (chain.x[0], chain.x[-1]) == (x.min(), x.max())
    assert chain.weight.sum() == pytest.approx(3000)
    node, part = place(x, chain.x)
    np.testing.assert_allclose(
        (1 - part) * chain.x[node] + part * chain.x[np.minimum(node + 1, len(chain.x) - 1)], x
    )


@pytest.mark.parametrize("kind", ["lower", "upper", "two-sided"])
def test_chain_of_a_truncated_column(kind):
    x = np.concatenate([np.zeros(30), np.random.default_rng(0).uniform(1, 2, 50), np.full(20, 3.0)])
    if kind == "lower":
        x = x[x < 3]
    if kind == "upper":
        x = x[x > 0]
    chain = build_chain(distinct_values(x[:, None]), [kind])
    assert chain.cut.sum() == (2 if kind == "two-sided" else 1)
    assert np.all(np.diff(chain.z) > 0)
    share = np.mean(x == 0) if kind != "upper" else None
    if share:
        assert ndtr(chain.z[0]) == pytest.approx(share)
    block = training_block(x[:, None], chain)
    assert len(block.censored) == np.sum((x == 0) | (x == 3))


# ---------------------------------------------------------------- M-step


def gaussian_likelihood(X, f):
    sigma = f.W @ f.W.T + np.diag(f.noise)
    total = 0.0
    for x in X:
        o = np.flatnonzero(~np.isnan(x))
        if len(o):
            total += multivariate_normal(np.zeros(len(o)), sigma[np.ix_(o, o)]).logpdf(x[o])
    return total


def test_an_em_step_never_lowers_the_likelihood():
    """Continuous cells, the published M-step before it is scaled to the unit diagonal."""
    X = table(60, missing=0.3)
    chain = build_chain(distinct_values(X), ["continuous"] * 6)
    Z = np.full_like(X, np.nan)
    for j in range(6):
        o = ~np.isnan(X[:, j])
        Z[o, j] = np.interp(X[o, j], chain.x[chain.nodes(j)], chain.z[chain.nodes(j)])
    f = factors()
    state = State(replace(f, noise=np.full(6, 0.3)), chain)
    block = training_block(X, chain)
    values = [gaussian_likelihood(Z, state.factors)]
    for _ in range(8):
        block, sums = paper_step(block, state)
        state = paper_maximise(state, sums, unit=False)
        values.append(gaussian_likelihood(Z, state.factors))
    assert np.all(np.diff(values) > -1e-9)
    assert values[-1] > values[0] + 1


def test_m_step_is_ridge_regression_on_known_factors():
    """With factors known (V = 0) each column is regressed on them, shrunk towards the prior."""
    X, f = table(80, missing=0.2), factors(loose=0.02)
    chain = build_chain(distinct_values(X), ["continuous"] * 6)
    state = State(f, chain)
    _block, sums = step(start_sites(training_block(X, chain), state), state, False)
    new = maximise(state, sums, common=False).factors
    prior = (f.W.T @ f.W + f.C.sum(axis=0)) / 6
    A = unpack(sums.factors.A, 2)
    expand = np.linalg.cholesky(unpack(sums.factors.tt, 2) / 80)
    raw = (
        np.stack([np.linalg.solve(A[j] + np.linalg.inv(prior), sums.factors.b[j]) for j in range(6)]) @ expand
    )
    direction = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(new.W / np.linalg.norm(new.W, axis=1, keepdims=True), direction, atol=1e-10)
    np.testing.assert_allclose(np.einsum("pi,pi->p", new.W, new.W) + new.noise, 1.0)


def test_change_does_not_see_rotations():
    f = factors(p=8)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    assert change(f.W, f.W @ turn) < 1e-7
    size = np.linalg.norm(f.W @ f.W.T)
    assert change(f.W, 1.1 * f.W) == pytest.approx(0.21 * size / np.sqrt(size**2 + 8))
    turned = principal(Factors(f.W @ turn, f.C, f.noise))
    np.testing.assert_allclose(turned.W @ turned.W.T, f.W @ f.W.T, atol=1e-12)
    assert abs((turned.W.T @ turned.W)[0, 1]) < 1e-12


def test_prune_drops_factors_without_loadings():
    f = factors(p=8)
    wide = Factors(np.column_stack([f.W, 1e-4 * np.ones(8)]), np.zeros((8, 3, 3)), f.noise)
    chain = build_chain([(np.arange(3.0), np.ones(3))] * 8, ["ordinal"] * 8)
    assert prune(State(wide, chain), np.full(8, 50.0)).factors.rank == 2


def test_blocks_of_rows_add_up():
    X, state = steps(n=60)
    whole = start_sites(training_block(X, state.chain), state)
    parts = [start_sites(training_block(part, state.chain), state) for part in (X[:25], X[25:])]
    _, sums = step(whole, state, False)
    halves = step(parts[0], state, False)[1] + step(parts[1], state, False)[1]
    for one, other in (
        (sums.factors.A, halves.factors.A),
        (sums.nodes.linear, halves.nodes.linear),
        (sums.noise, halves.noise),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_gaps_are_exactly_the_missing_cells():
    X, state = steps()
    found = np.zeros(X.shape, dtype=int)
    for gap in gaps(X, model_of(state)):
        found[gap.rows, gap.column] += 1
    np.testing.assert_array_equal(found, np.isnan(X).astype(int))


def test_a_block_holds_its_cells():
    X, state = steps()
    block = training_block(X, state.chain)
    assert isinstance(block, Block)
    np.testing.assert_array_equal(state.chain.level_value[block.level], X[block.rows.row, block.rows.column])


@pytest.mark.parametrize("levels", [False, True])
def test_a_pass_asks_for_no_memory_that_an_earlier_block_had(levels):
    """Beside the sites that it returns, the second pass in the same arrays makes none as large as a block's cells."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 6))
    X = np.digitize(X, [-1, 0, 1]).astype(float) if levels else X
    chain = build_chain(distinct_values(X), ["ordinal" if levels else "continuous"] * 6)
    state, work = State(factors(), chain), Work()
    block, _ = step(start_sites(training_block(X, chain), state), state, True, work)
    again, wanted = step(block, state, True)
    tracemalloc.start()
    found, sums = step(block, state, True, work)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = block.rows.column.nbytes
    assert peak < (2.5 if levels else 0.8) * size
    np.testing.assert_array_equal(found.tau, again.tau)
    np.testing.assert_array_equal(sums.factors.A, wanted.factors.A)
    np.testing.assert_array_equal(sums.nodes.linear, wanted.nodes.linear)
