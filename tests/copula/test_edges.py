"""Tables at the edge of what numbers hold: tiny, repeated, huge, broken."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from colspace import ConstantColumnWarning, CopulaImputer
from colspace.copula import _em, _step, error_bound, pool
from colspace.copula._em import LEAST, extrapolate, iterate, maximise
from colspace.copula._encode import distinct_values, known_rows
from colspace.copula._estep import Factors, Rows, cavity, posterior, signal
from colspace.copula._fit import CopulaModel, most_factors, principal_factors
from colspace.copula._marginals import NodeSums, build_chain, move
from colspace.copula._predict import row_log_likelihood
from colspace.copula._row_laws import row_laws
from colspace.copula._step import State
from colspace.copula._truncated import truncated_moments
from colspace.copula._values import column_of

RNG = np.random.default_rng(0)


def low_rank(n, p, k=2, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    return rng.standard_normal((n, k)) @ W.T + np.sqrt(noise) * rng.standard_normal((n, p))


def holes(X, share=0.2, seed=1):
    return np.where(np.random.default_rng(seed).random(np.shape(X)) < share, np.nan, X)


def answers(model, X):
    """Everything a model says, checked; warnings are errors."""
    gaps = np.isnan(X)
    filled, mean = model.transform(X), model.mean(X)
    assert np.isfinite(filled).all()
    assert np.isfinite(mean).all()
    for level in (0.5, 0.95, 0.999999):
        lower, upper = model.interval(X, level)
        assert np.isfinite(lower).all()
        assert np.isfinite(upper).all()
        assert (lower <= filled).all()
        assert (filled <= upper).all()
    for d in (0, 0.5, 2):
        p, bound = model.probability_within(X, d), model.probability_within(X, d, bound=True)
        assert ((bound >= 0) & (bound <= p + 1e-9) & (p <= 1 + 1e-12)).all()
    active = [kind != "constant" for kind in model.kinds_]
    assert np.isfinite(model.reliability(X)[:, active][gaps[:, active]]).all()
    assert all(np.isfinite(table).all() for table in model.sample(X, 2, random_state=0))
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.latent(X)).all()
    np.testing.assert_allclose(np.diag(model.correlation_), 1.0, atol=1e-9)
    assert (model.noise_variance_ > 0).all()
    return filled


ONE = RNG.standard_normal((100, 1))
NORMAL = low_rank(120, 6)
TABLES = {
    "3 x 2": np.array([[1, 2], [3, np.nan], [np.nan, 5.0]]),
    "2 x 2": np.array([[1.0, 2], [3, 5]]),
    "one binary column": np.array([[1.0], [3], [np.nan]]),
    "one column varies": holes(np.column_stack([np.ones(20), np.full(20, 3.0), NORMAL[:20, 0]])),
    "two values seen": np.column_stack(
        [NORMAL[:30, :3], np.where(np.arange(30) < 2, np.arange(30.0), np.nan)]
    ),
    "independent": holes(np.random.default_rng(5).standard_normal((40, 6))),
    "one column repeated": holes(np.repeat(ONE, 5, axis=1)),
    "levels repeated": holes(np.repeat(np.digitize(ONE, [-1, 0, 1.0]), 5, axis=1)),
    "yes or no repeated": holes(np.repeat(ONE > 0, 5, axis=1) * [1.0, -1, 1, -1, 1]),
    "limits repeated": holes(np.maximum(np.repeat(ONE, 5, axis=1), 0)),
    "1e300": holes(NORMAL * 1e300),
    "1e-300": holes(NORMAL * 1e-300),
    "many units": holes(NORMAL / 6 * [1, 1e300, 1e-300, 1e8, 1e160, 1e-160]),
    "ninth powers": holes((low_rank(200, 4) / 6) ** 9 * 1e300),
    "nine in ten alike": holes(np.where(RNG.random((200, 4)) < 0.9, 0.0, RNG.standard_normal((200, 4)))),
    "p > n": holes(low_rank(20, 60), 0.3),
    "levels": holes(np.digitize(NORMAL, [-0.5, 0.5]).astype(float)),
    "lower": holes(np.maximum(NORMAL, -0.3)),
    "two-sided": holes(np.clip(NORMAL, -0.7, 0.7)),
}


@pytest.mark.parametrize("method", ["ep", "paper"])
@pytest.mark.parametrize("name", TABLES)
def test_every_answer_is_sound(name, method):
    X = TABLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ConstantColumnWarning)
        varying = int(np.sum(np.nanmax(X, axis=0) > np.nanmin(X, axis=0)))
        first = "auto" if method == "ep" or varying < 2 else min(20, most_factors(varying))
        ranks = (first, X.shape[1] - 1) if name in ("p > n", "levels", "one column repeated") else (first,)
        for rank in ranks:
            answers(CopulaImputer(rank, method=method, random_state=0).fit(X), X)
        if name == "nine in ten alike":
            answers(CopulaImputer(first, method=method, kinds="continuous", random_state=0).fit(X), X)


def test_units_do_not_matter_however_large():
    X = holes(np.exp(NORMAL))
    one = CopulaImputer(2, random_state=0).fit(X)
    for unit in (2.0**900, 2.0**-900):
        other = CopulaImputer(2, random_state=0).fit(X * unit)
        np.testing.assert_allclose(other.transform(X * unit) / unit, one.transform(X), rtol=1e-9)
        np.testing.assert_allclose(other.reliability(X * unit), one.reliability(X), rtol=1e-9)
        np.testing.assert_allclose(other.interval(X * unit)[1] / unit, one.interval(X)[1], rtol=1e-9)
        # density per unit: the Jacobian of the scale
        assert other.score(X * unit) == pytest.approx(one.score(X) - np.log(unit), rel=1e-9)
        cells = (~np.isnan(X)).sum(axis=1)
        np.testing.assert_allclose(
            other.score_samples(X * unit), one.score_samples(X) - cells * np.log(unit), rtol=1e-9
        )


def test_values_whose_differences_overflow_are_refused():
    X = NORMAL.copy()
    X[3, 2] = -1.5e308
    with pytest.raises(ValueError, match=r"column 2 holds -1\.5e\+308, and beyond 1e\+302 .* another unit"):
        CopulaImputer().fit(X)


def test_a_value_at_the_limit_has_all_of_its_probability():
    """Half of the values are zero: an imputation of zero is right with the probability that z is below the cut."""
    Z = low_rank(600, 12, noise=0.4, seed=3)
    X, gone = np.maximum(Z, 0), np.random.default_rng(4).random(Z.shape) < 0.3
    table = np.where(gone, np.nan, X)
    for method in ("ep", "paper"):
        model = CopulaImputer(2, method=method, random_state=0).fit(table)
        assert set(model.kinds_) == {"lower"}
        filled, p = model.transform(table), model.probability_within(table, 0)
        at = gone & (filled == 0)
        assert at.sum() > 500
        assert abs(p[at].mean() - (X[at] == 0).mean()) < 0.05
        assert (p[gone & (filled > 0)] < 1e-9).all()


def test_probabilities_of_the_paper_are_those_of_its_marginals():
    Z = low_rank(500, 12, noise=0.3, seed=6)
    gone = np.random.default_rng(7).random(Z.shape) < 0.3
    X = np.round(np.exp(Z), 1)
    table = np.where(gone, np.nan, X)
    model = CopulaImputer(2, method="paper", kinds="continuous", random_state=0).fit(table)
    draws = np.stack(model.sample(table, 400, random_state=0))
    for d in (0.05, 0.95):  # draws have the same marginals
        near = (np.abs(draws - model.transform(table)) <= d).mean(axis=0)
        assert abs((model.probability_within(table, d) - near)[gone].mean()) < 0.003


def test_the_score_of_the_paper_is_that_of_its_model():
    """Same factors and marginals, same likelihood, whichever way they were learned."""
    X = TABLES["levels"]
    paper = CopulaImputer(2, method="paper", random_state=0).fit(X)._model
    np.testing.assert_array_equal(
        row_log_likelihood(X, paper), row_log_likelihood(X, replace(paper, method="ep"))
    )


# ---------------------------------------------------------------- rounding


@pytest.mark.parametrize("k", [3, 15])
def test_a_cavity_is_never_wider_than_the_prior(k):
    """Noise at its least: precisions of a million and their inverses, both ways to invert."""
    p = 30
    W = np.random.default_rng(0).standard_normal((p, k))
    W *= np.sqrt(1 - LEAST) / np.linalg.norm(W, axis=1, keepdims=True)
    W[:3] = W[0]
    row, column = np.nonzero(np.random.default_rng(1).random((200, p)) < 0.1)
    rows, f = Rows(200, p, row, column), Factors(W, np.zeros((p, k, k)), np.full(p, LEAST))
    tau = np.full(len(row), 1 / LEAST)
    nu = tau * np.random.default_rng(2).standard_normal(len(row))
    m, v = signal(rows, posterior(rows, tau, nu, f), f)
    _, spread = cavity(m, v, tau, nu)
    assert (v > 0).all()
    assert (spread > 0).all()
    assert (spread <= 1 + 1e-9).all()


def test_one_node_can_move():
    chain = build_chain([(np.array([0.0, 1.0]), np.array([3.0, 5.0]))], ["binary"])
    found = move(chain, NodeSums(np.array([4.0]), np.zeros(1), np.array([2.0])), knots=False)
    assert found[0] == pytest.approx((2 + chain.z[0]) / 5)


def test_a_newton_step_is_damped_by_its_decrement():
    """z + step / (1 + lambda), lambda^2 = slope'step, from a dense solve."""
    rng = np.random.default_rng(0)
    chain = build_chain([(np.arange(5.0), np.array([3.0, 1, 4, 1, 5]))], ["continuous"])
    sums = NodeSums(rng.uniform(1, 5, 5), np.zeros(5), rng.standard_normal(5))
    z, gap = chain.z, chain.gap[:-1]
    pull, stiff = gap / np.diff(z), gap / np.diff(z) ** 2
    slope = sums.linear - sums.diagonal * z + np.append(0, pull) - np.append(pull, 0)
    hessian = np.diag(sums.diagonal + np.append(0, stiff) + np.append(stiff, 0))
    hessian -= np.diag(stiff, 1) + np.diag(stiff, -1)
    step = np.linalg.solve(hessian, slope)
    assert (np.diff(step) > -0.5 * np.diff(z)).all()  # no neighbours that would meet
    found = move(chain, sums, knots=True, steps=1)
    np.testing.assert_allclose(found, z + step / (1 + np.sqrt(slope @ step)), rtol=1e-10)


def test_nodes_too_close_to_solve_for_stay():
    """Spacings whose stiffness drowns everything else: rounding makes the system singular."""
    chain = build_chain([(np.arange(3.0), np.array([1e9, 1.0, 1e9]))], ["continuous"])
    chain = replace(chain, z=np.array([-1e-12, 0.0, 1e-12]))
    found = move(chain, NodeSums(np.ones(3), np.zeros(3), np.zeros(3)), knots=True)
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0).all()


def state_of(p=8, k=2, noise=0.3, seed=0):
    W = np.random.default_rng(seed).standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    chain = build_chain(distinct_values(np.random.default_rng(1).standard_normal((9, p))), ["continuous"] * p)
    return State(Factors(W, np.zeros((p, k, k)), np.full(p, noise)), chain)


def test_a_leap_keeps_some_noise():
    states = [state_of(noise=0.3 * 0.2**i) for i in range(3)]
    leap = extrapolate(*states).factors
    assert leap.noise.min() >= 0.99 * LEAST
    np.testing.assert_allclose(np.einsum("pi,pi->p", leap.W, leap.W) + leap.noise, 1.0)


def run_through(monkeypatch, states, max_iter, leap=None, prune=None):
    """``iterate`` over M-steps that give these states in turn; the states it asked a step from."""
    asked, coming = [], iter(states[1:])
    monkeypatch.setattr(_em, "maximise", lambda state, sums, common: next(coming))
    if leap is not None:
        monkeypatch.setattr(_em, "extrapolate", lambda *path: leap)
    if prune is not None:
        monkeypatch.setattr(_em, "prune", prune)

    def run(state, knots):
        asked.append(state)

    found = iterate(
        run,
        states[0],
        np.full(8, 50.0) if prune else None,
        common=False,
        tol=1e-12,
        max_iter=max_iter,
        tick=lambda: None,
    )
    return found, asked


def slow(count, seed=0):
    """States that approach one another slowly."""
    base = state_of(seed=seed)
    turn = np.random.default_rng(3).standard_normal(base.factors.W.shape)
    return [
        replace(base, factors=replace(base.factors, W=base.factors.W + 0.1 * 0.9**i * turn))
        for i in range(count)
    ]


def test_the_last_state_is_never_a_leap(monkeypatch):
    states, leap = slow(10), state_of(seed=9)
    (found, trace), asked = run_through(monkeypatch, states, 6, leap)
    assert found is states[6]
    assert not trace.converged
    assert all(state is not leap for state in asked)
    (found, _), asked = run_through(monkeypatch, states, 7, leap)
    assert asked[6] is leap


def test_a_leap_that_breaks_is_taken_back(monkeypatch):
    states, leap = slow(12), state_of(seed=9)
    broken = replace(states[0], factors=replace(states[0].factors, W=np.full((8, 2), np.nan)))
    states.insert(7, broken)
    (found, trace), asked = run_through(monkeypatch, states, 9, leap)
    assert asked[6] is leap
    assert asked[7] is states[6]
    assert np.isfinite(found.factors.W).all()
    assert np.isfinite(trace.changes).all()


def test_after_a_bad_leap_others_follow_later(monkeypatch):
    """15 iterations after the first, 30 after the second, at every third iteration."""
    states, leap = slow(80), state_of(seed=9)
    _, asked = run_through(monkeypatch, states, 70, leap)
    assert [i for i, state in enumerate(asked) if state is leap] == [6, 24, 57]


def test_the_distance_left_is_that_of_steps_since_the_leap(monkeypatch):
    """States approach at a ratio of .9, so that nine times the last change is left; landings of leaps are no part of it."""

    def leap(*path):
        f = path[-1].factors
        far = 0.015 if np.array_equal(f.W, states[6].factors.W) else 0.0
        return replace(path[-1], factors=replace(f, W=f.W + far * np.sign(f.W)))

    states = slow(12)
    monkeypatch.setattr(_em, "extrapolate", leap)
    (_, trace), asked = run_through(monkeypatch, states, 10)
    assert asked[6] is not states[6]
    assert asked[9] is not states[9]
    assert 1.2 < trace.changes[6] / trace.changes[5] < 3.0
    assert trace.left == pytest.approx(9 * trace.changes[-1], rel=0.05)


def test_a_larger_step_after_pruning_is_no_bad_leap(monkeypatch):
    """There was no leap: nothing to return to, least of all the start."""
    states = slow(7)
    pruned = replace(
        states[6], factors=Factors(states[6].factors.W[:, :1], np.zeros((8, 1, 1)), np.full(8, 0.3))
    )
    after = [
        replace(pruned, factors=replace(pruned.factors, W=(1 + 0.5 * 0.9**i) * pruned.factors.W))
        for i in range(6)
    ]
    asked = run_through(
        monkeypatch,
        states + after,
        9,
        prune=lambda state, cells: pruned if state.factors.rank == 2 else state,
    )[1]
    assert asked[6] is pruned
    assert asked[7] is after[0]


@pytest.mark.parametrize("method", ["ep", "paper"])
def test_numbers_that_break_down_are_an_error(monkeypatch, method):
    def broken(state, *args, **kwargs):
        return replace(state, factors=replace(state.factors, W=np.nan * state.factors.W))

    monkeypatch.setattr("colspace.copula._em.maximise", broken)
    monkeypatch.setattr("colspace.copula._paper.paper_maximise", broken)
    with pytest.raises(np.linalg.LinAlgError, match="iteration 1 with 2 factors; give fewer factors"):
        CopulaImputer(2, method=method).fit(NORMAL)


def test_a_column_without_loadings_keeps_its_unit_variance():
    state = state_of()
    W = state.factors.W.copy()
    W[3] = 0.0
    start = replace(state, factors=replace(state.factors, W=W))
    k, p = 2, 8
    second = np.tile(50.0 * np.eye(k)[np.triu_indices(k)], (p, 1))
    sums = _step.Sums(
        _step.FactorSums(50, second, 50.0 * W, 50.0 * np.eye(k)[np.triu_indices(k)]),
        np.full(p, 50.0),
        np.full(p, 50.0),
        np.zeros(p),
        np.zeros(p),
        NodeSums(np.zeros(72), np.zeros(72), np.zeros(72)),
    )
    new = maximise(start, sums, common=False).factors
    np.testing.assert_allclose(np.einsum("pi,pi->p", new.W, new.W) + new.noise, 1.0, atol=1e-12)


# ---------------------------------------------------------------- arguments


def test_arguments_that_make_no_sense():
    X = TABLES["levels"]
    model = CopulaImputer(2, random_state=0).fit(X)
    for text, call in (
        ("level='a' must lie", lambda: model.interval(X, "a")),
        ("d='1' must be", lambda: model.probability_within(X, "1")),
        ("n_samples='a' must be", lambda: model.sample(X, "a")),
        ("n_samples=inf must be", lambda: model.sample(X, np.inf)),
        ("no rows", lambda: model.score(X[:0])),
        ("'kinds' parameter", lambda: CopulaImputer(kinds=None).fit(X)),
        ("as 1 and as -5; name it once", lambda: CopulaImputer(kinds={1: "ordinal", -5: "count"}).fit(X)),
        ("not finite", lambda: pool([1.0, 2.0], [1.0, np.nan])),
        ("level=95 must lie", lambda: pool([1.0, 2.0], [1.0, 1.0], level=95)),
        ("complete_df=-3 above 0", lambda: pool([1.0, 2.0], [1.0, 1.0], complete_df=-3)),
        ("lipschitz=-1", lambda: error_bound(np.ones((3, 1)), 0.5, [0, 0, 1], lipschitz=-1)),
        ("columns x factors", lambda: error_bound(np.ones(3), 0.5, [0, 0, 1])),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    assert (model.probability_within(X, np.inf) == 1).all()


def test_no_rows_are_filled_to_no_rows():
    X = TABLES["levels"]
    model = CopulaImputer(2, random_state=0).fit(X)
    assert model.latent(X[:0]).shape == (0, 2)
    for table in (model.transform(X[:0]), model.mean(X[:0]), *model.interval(X[:0]), *model.sample(X[:0], 2)):
        assert table.shape == (0, 6)


def test_warm_start_after_a_table_of_another_width():
    X = TABLES["levels"]
    model = CopulaImputer(2, warm_start=True, random_state=0).fit(X)
    wide = holes(low_rank(100, 9))
    np.testing.assert_array_equal(
        model.fit(wide).loadings_, CopulaImputer(2, random_state=0).fit(wide).loadings_
    )


@pytest.mark.parametrize("power", [1.0, 0.05, 9.0])
def test_new_values_may_be_as_far_as_floats_go(power):
    X = holes(np.sign(NORMAL) * np.abs(NORMAL) ** power)
    model = CopulaImputer(2, random_state=0).fit(X)
    new = np.full((2, 6), np.nan)
    new[:, 0] = 1.7e308, -1.7e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers(model, new)


# ---------------------------------------------------------------- what fuzzing found


def test_a_rank_that_falls_at_the_end_keeps_the_unit_diagonal():
    for iterations in (1, 6):  # after the rounds, and in the last iteration of the last
        with pytest.warns(ConvergenceWarning):
            model = CopulaImputer(max_iter=iterations, tol=1e-9, random_state=0).fit(holes(low_rank(60, 12)))
        assert model.n_components_ < 7
        np.testing.assert_allclose(np.diag(model.correlation_), 1.0, atol=1e-8)


def test_columns_that_share_no_row_with_others_are_noise():
    X = np.column_stack([NORMAL[:30, :2], np.full(30, np.nan)])
    X = np.vstack([X, np.column_stack([np.full((30, 2), np.nan), NORMAL[30:60, 2]])])
    for method in ("ep", "paper"):
        model = CopulaImputer(1, method=method, random_state=0).fit(X)
        np.testing.assert_allclose(np.diag(model.correlation_), 1.0, atol=1e-9)
        assert np.abs(model.correlation_[2, :2]).max() < 0.2


def test_published_sweeps_settle_where_they_would_grow():
    """Nearly as many factors as columns, open ends: undamped Jacobi steps overshoot more from sweep to sweep."""
    p, k, noise, rng = 8, 5, 0.1, np.random.default_rng(0)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    chain = build_chain([(np.arange(2.0), np.ones(2))] * p, ["binary"] * p)
    columns = tuple(column_of(chain, j) for j in range(p))
    state = State(Factors(W, np.zeros((p, k, k)), np.full(p, noise)), chain)
    model = CopulaModel(state, columns, tuple(range(p)), "paper", np.full(p, 9.0), np.ones(p), ())
    X = (rng.standard_normal((200, k)) @ W.T > 0).astype(float)
    laws = row_laws(known_rows(X, chain, columns, model.labels), model)
    assert np.abs(laws.posterior.t).max() < 3
    one = row_laws(known_rows(X[[7]], chain, columns, model.labels), model)
    np.testing.assert_allclose(one.posterior.t[0], laws.posterior.t[7], rtol=1e-9)


def test_widths_that_rounding_takes_have_moments():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = truncated_moments(np.array([1.0, -3e15, 2e18]), np.array([1.0, -3e15, np.inf]))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.mean, [1.0, -3e15, 2e18])


def test_eigenvectors_of_equal_eigenvalues(monkeypatch):
    """LAPACK's search for some of many equal eigenvalues may fail; then all are found."""

    found = linalg.eigh

    def fail(*args, subset_by_index=None, **kwargs):
        if subset_by_index is not None:
            raise np.linalg.LinAlgError
        return found(*args, **kwargs)

    monkeypatch.setattr(linalg, "eigh", fail)
    signs = np.where(np.isin(np.arange(10), [5, 7]), -1.0, 1.0)
    W = principal_factors(2 * np.outer(signs, signs), np.full((10, 10), 2.0), 6)
    assert W.shape == (10, 6)
    np.testing.assert_allclose(W[:, 0] / W[0, 0], signs, atol=1e-9)
    np.testing.assert_allclose(W[:, 1:], 0.0, atol=1e-7)
