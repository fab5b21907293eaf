from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from colspace.dictionary import _losses as losses
from colspace.dictionary import _objective as obj
from colspace.dictionary._bcd import Sweeps, into_regions, solve_bcd, stack, stationarity
from colspace.dictionary._codes import nonnegative_codes
from colspace.dictionary._descent import direction
from colspace.dictionary._lbfgs import solve_eliminated, solve_jointly, start_nmf, start_svd
from colspace.dictionary._regions import NONNEGATIVE, Radius, Region, Regions, nearest

BALLS = Regions(Region(norm=1.0), Region(norm=50.0), Region(norm=8.0), Region(norm=2.0))
BOTH = Regions(Region(True, 1.0), Region(True, 60.0), Region(norm=8.0), Region(norm=2.0))
SETS = {"free": Regions(), "nonnegative": NONNEGATIVE, "balls": BALLS, "both": BOTH}


def make(seed=0, n=80, p=12, r=3, K=2, csr=False, **options):
    rng = np.random.default_rng(seed)
    H, W = rng.gamma(1.0, size=(n, r)), rng.gamma(0.5, size=(p, r))
    X = H @ W.T + 0.1 * rng.random((n, p))
    X[X < 0.2] = 0.0
    Z = rng.standard_normal((n, 2))
    Y = losses.one_hot(np.minimum((H[:, 0] + 0.5 * rng.random(n)) // 0.7, K).astype(int), K + 1)
    options = {"xi": 0.2, "l2": 0.1, "weight": rng.random(n) + 0.5, **options}
    return obj.make_problem(sparse.csr_array(X) if csr else X, Y, Z, **options)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("name", list(SETS))
@pytest.mark.parametrize("l1", [0.0, 0.1])
@pytest.mark.parametrize("radius", [None, Radius(0.5)])
def test_descends_and_stays_inside(model, name, l1, radius):
    regions = SETS[name]
    problem = make(model=model, l1=l1 if np.isfinite(regions.dictionary.norm) else 0.0)
    start = into_regions(problem, start_nmf(problem, 3, np.random.default_rng(0)), regions)
    found = solve_bcd(problem, start, regions=regions, radius=radius, max_iter=30)
    fall = -np.diff(found.history)
    assert np.all(fall >= -1e-12 * abs(found.history[0]))
    assert found.history[-1] < found.history[0]
    assert found.history[-1] == pytest.approx(obj.objective(problem, found.state), rel=1e-10)
    assert regions.dictionary.contains(found.state.W)
    assert regions.codes.contains(found.state.H)
    assert regions.coefficients.contains(found.state.B)
    assert regions.covariates.contains(stack(problem, found.state))


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("name", ["free", "balls"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("q", [0, 2])
def test_blocks_change_the_whole_as_they_say(model, name, weighted, q):
    problem = make(model=model, csr=weighted, chunk=30 if weighted else None)
    options = {"weight": problem.weight, "label_weight": problem.label_weight} if weighted else {}
    Z = problem.Z[:, :q] * 100.0 + 1000.0
    problem = obj.make_problem(problem.X, problem.Y, Z, model=model, xi=0.2, l2=0.1, apart=0.3, **options)
    rng = np.random.default_rng(1)
    state = obj.State(*(rng.standard_normal(s) for s in [(12, 3), (80, 3), (3, 2), (q, 2), (2,)]))
    state = state._replace(G=state.G / 1000.0)
    sweeps = Sweeps(problem, state, SETS[name])
    assert sweeps.value() == pytest.approx(obj.objective(problem, state), rel=1e-10)
    for there, here in zip(sweeps.state, state, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-9)
    for place, make_block in {
        "W": sweeps.dictionary,
        "B": sweeps.coefficients,
        "x": sweeps.covariates,
        "H": sweeps.codes,
    }.items():
        sweeps = Sweeps(problem, state, SETS[name])
        block = getattr(sweeps, make_block.__name__)()
        d = 1e-2 * rng.standard_normal(block.x.shape)
        gradient, labels = block.slope, sweeps.labels
        promised = np.sum(block.slope * d) + np.sum(d * block.bend(d)) / 2
        if block.forward is not None:
            gradient = gradient + block.adjoint(labels.k)
            promised += labels.of(labels.a + block.forward(d))[0] - labels.value
        moved = {}
        for t in (1.0, 1e-4, -1e-4):
            other = Sweeps(problem, state, SETS[name])
            if place == "B":
                other.place_coefficients(block.x + t * d)
            else:
                setattr(other, place, block.x + t * d)
            other.shift = other.mean @ other.W if model == "filter" else other.mean
            moved[t] = obj.objective(problem, other.state)
        before = obj.objective(problem, state)
        assert moved[1.0] - before == pytest.approx(promised, rel=1e-6, abs=1e-9 * before)
        slope = (moved[1e-4] - moved[-1e-4]) / 2e-4
        assert np.sum(gradient * d) == pytest.approx(slope, rel=1e-4, abs=1e-7 * before)


@pytest.mark.parametrize("rows", [None, np.linspace(0.5, 2.0, 50)[:, None]])
@pytest.mark.parametrize("price", [0.0, 0.3])
def test_nonnegative_direction_solves_its_model(rows, price):
    rng = np.random.default_rng(5)
    A = rng.standard_normal((9, 4))
    M, x, gradient = A.T @ A, np.maximum(rng.standard_normal((50, 4)), 0.0), 3 * rng.standard_normal((50, 4))
    thrift = price * (np.ones((50, 1)) if rows is None else rows) if price else None
    way = direction(M, Region(True), x, np.inf, rows=rows, thrift=thrift)
    way.passes = 300
    d = way(x, gradient, 0.7)
    w = np.ones((50, 1)) if rows is None else rows
    assert way.size(d, gradient, 0.7) == pytest.approx(np.sum(w * d * (d @ M)))
    pull = 0.7 * (gradient + price * w) / w
    exact = nonnegative_codes(x @ M - pull, M)[0]
    np.testing.assert_allclose(x + d, exact, atol=1e-8)


def test_steps_stay_within_the_radius():
    problem = make()
    start = start_nmf(problem, 3, np.random.default_rng(0))
    radius = Radius(1e-3)
    found = solve_bcd(problem, start, regions=NONNEGATIVE, radius=radius, max_iter=1)
    for old, new in zip(start[:3], found.state[:3], strict=True):
        assert np.linalg.norm(new - old) <= radius(1) * max(1.0, np.linalg.norm(old)) * (1 + 1e-12)
    assert not found.converged


def test_stationarity_falls():
    problem = make(model="feature")
    start = into_regions(problem, start_nmf(problem, 3, np.random.default_rng(0)), BOTH)
    gaps = []
    for sweeps in (5, 20, 80, 320):
        found = solve_bcd(problem, start, regions=BOTH, radius=Radius(2.0), tol=0.0, max_iter=sweeps)
        gaps.append(stationarity(problem, found.state, BOTH))
    best = np.minimum.accumulate(
        gaps
    )  # the theorem is about the least so far: squared, log(k)^2 / sqrt(k) at most
    assert np.all(np.diff(best) < 0)
    assert best[-1] < 0.1 * best[0]


def test_agrees_with_quasi_newton():
    problem = make(K=1, xi=0.5, l2=1.0)
    start = start_svd(problem, 2, np.random.default_rng(0))
    best = solve_eliminated(problem, start, tol=1e-14, max_iter=3000).history[-1]
    found = solve_bcd(problem, start, regions=Regions(), radius=None, tol=1e-10, max_iter=3000)
    assert found.converged
    assert found.history[-1] == pytest.approx(best, rel=1e-5)
    start = start_nmf(problem, 2, np.random.default_rng(0))
    best = solve_jointly(problem, start, positive=True, tol=1e-12, max_iter=5000).history[-1]
    found = solve_bcd(problem, start, regions=NONNEGATIVE, radius=None, tol=1e-9, max_iter=3000)
    assert found.history[-1] == pytest.approx(best, rel=1e-3)


def test_no_intercept_and_no_covariates():
    problem = obj.make_problem(make().X, make().Y, fit_intercept=False)
    start = start_nmf(problem, 2, np.random.default_rng(0))
    found = solve_bcd(problem, start, regions=NONNEGATIVE, radius=None, max_iter=5)
    assert not found.state.intercept.any()


@pytest.mark.parametrize("region", [Region(), Region(True), Region(norm=1.5), Region(True, 1.5)])
@pytest.mark.parametrize("price", [0.0, 0.4])
@pytest.mark.parametrize("radius", [0.3, np.inf])
def test_projection_is_the_nearest_point(region, price, radius):
    rng = np.random.default_rng(3)
    centre, x = region.project(rng.standard_normal(4)), 2 * rng.standard_normal(4)
    found = nearest(x, region, centre, radius, price)

    def cost(z):
        return np.sum((z - x) ** 2) / 2 + price * np.abs(z).sum()

    assert region.contains(found)
    assert np.linalg.norm(found - centre) <= radius * (1 + 1e-12)
    limits = [{"type": "ineq", "fun": lambda z: min(region.norm, 1e3) ** 2 - z @ z}]
    if np.isfinite(radius):
        limits.append({"type": "ineq", "fun": lambda z: radius**2 - np.sum((z - centre) ** 2)})
    split = minimize(  # z = u - v keeps |z| smooth
        lambda t: np.sum((t[:4] - t[4:] - x) ** 2) / 2 + price * t.sum(),
        np.r_[np.maximum(centre, 0), np.maximum(-centre, 0)],
        bounds=[(0, None)] * 4 + [(0, 0 if region.positive else None)] * 4,
        constraints=[{"type": "ineq", "fun": lambda t, f=c["fun"]: f(t[:4] - t[4:])} for c in limits],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert cost(found) <= cost(split.x[:4] - split.x[4:]) + 1e-6


def test_descent_measure_is_the_best_direction():
    rng = np.random.default_rng(4)
    for region in (Region(True), Region(norm=1.0), Region(True, 1.0)):
        x = region.project(np.array([0.0, 3.0, 0.0, 4.0]))
        gradient = rng.standard_normal(4)
        directions = [region.project(rng.standard_normal(4) * 0.05 + x) - x for _ in range(20000)]
        rates = [-(gradient @ d) / np.linalg.norm(d) for d in directions if np.linalg.norm(d) > 1e-9]
        measure = region.descent(x, gradient)
        assert max(rates) <= measure + 1e-9
        assert max(rates) >= 0.9 * measure


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 1.5}, "finite sum"),
        ({"power": 1.0, "logs": 2.0}, "finite sum"),
        ({"power": 0.4}, "infinite sum"),
        ({"power": 0.5, "logs": 0.5}, "infinite sum"),
        ({"scale": 0.0}, "scale=0.0"),
    ],
)
def test_radius_conditions(options, message):
    with pytest.raises(ValueError, match=message):
        Radius(**options)


def test_start_outside():
    problem = make()
    start = start_nmf(problem, 2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="outside its set"):
        solve_bcd(problem, start._replace(W=-start.W), regions=NONNEGATIVE, radius=None)
    with pytest.raises(ValueError, match=r"l1=0\.1 has no minimum"):
        solve_bcd(make(l1=0.1), start, regions=NONNEGATIVE, radius=None)
    with pytest.raises(ValueError, match="must be > 0"):
        Region(norm=0.0)


def test_l1_makes_codes_sparse():
    sparser = []
    for l1 in (0.0, 1.0):
        problem = make(l1=l1)
        start = into_regions(problem, start_nmf(problem, 3, np.random.default_rng(0)), BOTH)
        found = solve_bcd(problem, start, regions=BOTH, radius=None, max_iter=200)
        sparser.append(np.mean(found.state.H == 0))
    assert sparser[1] > sparser[0]


@pytest.mark.parametrize("positive", [False, True])
def test_the_measure_of_descent_counts_the_price_of_entries(positive):
    """Steepest descent of g'x + t |x|_1 over directions that stay in the set, by a search over all of them."""
    x, gradient, price = np.array([0.0, 0.0, 2.0]), np.array([-1.0, 0.5, 0.3]), 0.4
    rng = np.random.default_rng(0)
    ways = rng.standard_normal((200_000, 3))
    if positive:
        ways[:, :2] = np.abs(ways[:, :2]) * (rng.random((len(ways), 2)) < 0.7)
    else:
        ways[:, :2] *= rng.random((len(ways), 2)) < 0.7
    ways /= np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-12)
    slopes = ways @ gradient + price * (np.abs(ways[:, :2]).sum(axis=1) + ways[:, 2])
    assert Region(positive).descent(x, gradient, price) == pytest.approx(-slopes.min(), rel=1e-3)
