"""Sweeps over the sites of rows: where they start, and when they end."""

from dataclasses import replace

import numpy as np
import pytest
from copula_tables import ordinal_table
from scipy.integrate import quad
from scipy.stats import norm

from colspace.copula import _covariance, _row_laws
from colspace.copula._covariance import Normal, cells_of
from colspace.copula._encode import distinct_values, known_rows, training_block
from colspace.copula._estep import Factors, distance_left
from colspace.copula._fit import CopulaModel
from colspace.copula._marginals import build_chain
from colspace.copula._row_laws import SETTLED, row_laws
from colspace.copula._step import State, own_sites, start_sites
from colspace.copula._values import column_of


@pytest.fixture(scope="module")
def made():
    X, W, noise = ordinal_table(seed=3)
    state = State(
        Factors(W, np.zeros((len(W), 2, 2)), noise), build_chain(distinct_values(X), ["ordinal"] * len(W))
    )
    columns = tuple(column_of(state.chain, j) for j in range(len(W)))
    model = CopulaModel(state, columns, tuple(range(len(W))), "ep", np.ones(len(W)), np.ones(len(W)), ())
    return X, model


@pytest.mark.parametrize("ratio", [0.15, 0.6, 0.95])
def test_distance_left_is_the_rest_of_a_geometric_series(ratio):
    steps = 2.0 * ratio ** np.arange(2000)
    np.testing.assert_allclose(distance_left(steps[4:5], steps[3:4]), steps[5:].sum(), rtol=1e-9)


def test_distance_left_of_a_first_step_is_as_far_again_and_never_less_than_a_ninth():
    first = distance_left(np.array([0.3, 0.3]), np.array([np.inf, 1e9]))
    np.testing.assert_allclose(first, [0.3, 0.3 / 9])
    assert distance_left(np.array([0.2]), np.array([0.1]))[0] > 10  # steps that grow


def test_own_sites_give_the_moments_of_the_level_alone(made):
    _, model = made
    state = model.state
    tau, nu = own_sites(state)
    for level in range(4):  # of the first column
        noise = state.factors.noise[0]
        low, high = (
            state.chain.bounds[end[level]] for end in (state.chain.level_low, state.chain.level_high)
        )

        def density(s, low=low, high=high, noise=noise):
            inside = norm.cdf((high - s) / np.sqrt(noise)) - norm.cdf((low - s) / np.sqrt(noise))
            return norm.pdf(s, scale=np.sqrt(1 - noise)) * inside

        mass, first, second = (quad(lambda s, k=k: s**k * density(s), -8, 8)[0] for k in range(3))
        variance = 1.0 / (1.0 / (1.0 - noise) + tau[level])
        np.testing.assert_allclose(variance * nu[level], first / mass, rtol=1e-7)
        np.testing.assert_allclose(variance, second / mass - (first / mass) ** 2, rtol=1e-7)


def test_cells_start_with_the_sites_of_their_level(made):
    X, model = made
    block = start_sites(training_block(X, model.state.chain), model.state)
    tau, nu = own_sites(model.state)
    np.testing.assert_array_equal(block.tau, tau[block.level])
    np.testing.assert_array_equal(block.nu, nu[block.level])


def test_rows_settle_within_the_distance_that_ends_their_sweeps(made):
    X, model = made
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    limit = row_laws(known, model, 1e-12).posterior
    found, near = row_laws(known, model).posterior, row_laws(known, model, 1e-7).posterior
    assert 0 < np.abs(found.t - limit.t).max() < 2 * SETTLED
    assert np.abs(found.V - limit.V).max() < 2 * SETTLED
    assert np.abs(near.t - limit.t).max() < 1e-6


def test_published_sweeps_end_near_their_fixed_point(made, monkeypatch):
    X, model = made
    known = known_rows(X, model.state.chain, model.columns, model.labels)
    model = replace(model, method="paper")
    found = row_laws(known, model).posterior
    monkeypatch.setattr(_row_laws, "_PUBLISHED", 1e-12)
    limit = row_laws(known, model).posterior
    assert 0 < np.abs(found.t - limit.t).max() < 1e-3


def test_rows_of_a_joint_law_settle_too(made, monkeypatch):
    X, model = made
    f, chain = model.factors, model.state.chain
    known = known_rows(X, chain, model.columns, model.labels)
    cells = cells_of(known.rows, known.exact, known.z, known.censored, known.level, chain, None)
    law = Normal(np.zeros(len(f.W)), f.W @ f.W.T + np.diag(f.noise))
    found = _covariance.row_laws(cells, law)
    monkeypatch.setattr(_covariance, "SETTLED", 1e-12)
    limit = _covariance.row_laws(cells, law)
    for some, all_of_it in zip(found, limit, strict=True):
        assert 0 < np.abs(some - all_of_it).max() < 1e-2
