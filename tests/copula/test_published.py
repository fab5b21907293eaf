"""The published EM: a case by hand, its stopping measure, and the number of factors it needs."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from colspace import CopulaImputer
from colspace.copula import _fit
from colspace.copula._encode import training_block
from colspace.copula._estep import Factors
from colspace.copula._marginals import build_chain
from colspace.copula._paper import fit_paper, moved, paper_maximise, paper_step
from colspace.copula._step import State
from colspace.datasets import make_copula


def tiny():
    """Four rows of two columns, one gap; the quartiles of each column's ranks are its latent values."""
    X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, np.nan], [4.0, 3.0]])
    distinct = [(np.arange(1.0, 5), np.ones(4)), (np.arange(1.0, 4), np.ones(3))]
    chain = build_chain(distinct, ["continuous", "continuous"])
    f = Factors(np.array([[0.8], [0.6]]), np.zeros((2, 1, 1)), np.full(2, 0.5))
    z = np.full((4, 2), np.nan)
    for j in range(2):
        seen = ~np.isnan(X[:, j])
        z[seen, j] = chain.z[chain.nodes(j)][X[seen, j].astype(int) - 1]
    return X, z, State(f, chain)


def test_one_iteration_by_hand():
    """One factor: M = s2 + sum w^2, t = sum w z / M, E[t^2] = t^2 + s2 / M; then least squares and the unit diagonal."""
    X, z, state = tiny()
    both, first = 0.5 + 0.64 + 0.36, 0.5 + 0.64  # M of rows with both cells, and of the third
    t = np.array([(0.8 * a + 0.6 * b) / both for a, b in z])
    t[2] = 0.8 * z[2, 0] / first
    tt = t**2 + np.array([0.5 / both, 0.5 / both, 0.5 / first, 0.5 / both])
    w = [z[:, 0] @ t / tt.sum(), np.nansum(z[:, 1] * t) / tt[[0, 1, 3]].sum()]
    left = sum(
        z[i, j] ** 2 - 2 * w[j] * z[i, j] * t[i] + w[j] ** 2 * tt[i]
        for i, j in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (3, 1)]
    )
    s2 = left / 7
    s2 = (s2 / (s2 + w[0] ** 2) + s2 / (s2 + w[1] ** 2)) / 2
    _, sums = paper_step(training_block(X, state.chain), state)
    found = paper_maximise(state, sums).factors
    np.testing.assert_allclose(found.noise, s2, rtol=1e-9)
    np.testing.assert_allclose(found.W[:, 0], np.sign(w) * np.sqrt(1 - s2), rtol=1e-9)


def test_the_measure_is_the_relative_change_of_the_loadings():
    """(3, 4) to (3, 4.5): .5 / 5, whose square is the supplement's .01."""
    assert moved(np.array([[3.0], [4.0]]), np.array([[3.0], [4.5]])) == pytest.approx(0.1, rel=1e-12)
    assert moved(np.zeros((2, 1)), np.zeros((2, 1))) == 0.0


@pytest.mark.parametrize("tol", [0.1, 0.03, 1e-3])
def test_em_stops_at_the_first_small_change(tol):
    """Beside a loop of its own: the iteration at which ||W1 - W2|| / ||W1|| is first below tol, and not another."""
    X, _, state = tiny()
    block = [training_block(X, state.chain)]

    def run(now):
        block[0], sums = paper_step(block[0], now)
        return sums

    found, (trace,) = fit_paper(run, state, tol=tol, max_iter=500)
    W, here, count = state.factors.W, state, 0
    block[0] = training_block(X, state.chain)
    while True:
        here, count = paper_maximise(here, run(here)), count + 1
        gone = np.sqrt(((here.factors.W - W) ** 2).sum() / (W**2).sum())
        W = here.factors.W
        if gone < tol:
            break
    assert trace.converged
    assert len(trace.changes) == count > 1
    assert trace.changes[-1] == pytest.approx(gone, rel=1e-9)
    np.testing.assert_allclose(found.factors.W, W, rtol=1e-12)


def test_the_tolerance_is_that_of_the_authors(monkeypatch):
    """.01 unless another is given; what is not reached is warned of as a change of W."""
    X, _, _ = make_copula(100, 12, 2, rng=0)
    asked = []
    monkeypatch.setattr(
        _fit, "fit_paper", lambda *a, tol, **kw: asked.append(tol) or fit_paper(*a, tol=tol, **kw)
    )
    CopulaImputer(2, method="paper", random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"after 2 iterations W is about .* more than tol=1e-09"):
        CopulaImputer(2, method="paper", tol=1e-9, max_iter=2, random_state=0).fit(X)
    assert asked == [1e-2, 1e-9]


def test_the_number_of_factors_must_be_given():
    X, _, _ = make_copula(300, 12, 2, noise=0.2, rng=0)
    with pytest.raises(
        ValueError, match=r"n_components='auto' cannot be had with method='paper'.*Remedies: a number"
    ):
        CopulaImputer(method="paper").fit(X)
    search = GridSearchCV(CopulaImputer(method="paper", random_state=0), {"n_components": [1, 2, 3, 5]}, cv=3)
    assert search.fit(X).best_params_ == {"n_components": 2}
    with pytest.raises(ValueError, match=r"use at most 11$"):
        CopulaImputer(12, method="paper").fit(X)
    single = CopulaImputer(method="paper").fit(X[:, :1])  # nothing to choose
    assert single.n_components_ == 1
