"""The published algorithms through the estimators: steps as they are printed, bounds, radii, and what is refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from colspace import SupervisedDictionaryClassifier as Classifier
from colspace import SupervisedDictionaryRegressor as Regressor
from colspace.dictionary import Radius
from colspace.dictionary._bcd import solve_bcd
from colspace.dictionary._lpgd import solve_lpgd
from colspace.dictionary._objective import State, make_problem
from colspace.dictionary._regions import Region, Regions

pytestmark = [
    pytest.mark.filterwarnings("ignore:the fit has not converged"),
    pytest.mark.filterwarnings("ignore:solver='lpgd' is not sure"),
]
LONG = {"tol": 1e-300}  # nothing but max_iter ends a fit
BLOCKS = {"dictionary": 1.0, "codes": 3.0, "coefficients": 0.8, "covariates": 0.3}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(30, 3)) @ rng.gamma(0.5, size=(3, 6)) + 0.2 * rng.random((30, 6))
    Z = rng.standard_normal((30, 2))
    a = X[:, 0] - X[:, 1] + Z[:, 0]
    return np.hstack([X, Z]), a, np.digitize(a, np.quantile(a, [0.3, 0.6]))


def fitted(model, X, y):
    """Atoms (p x r), codes (n x r), coefficients (r x K), those of covariates and the intercept, codes not forgotten."""
    return model._fit(X, y)._state


# --------------------------------------------------------------------------- by hand


def one_row(model="filter", covariate=None):
    """x = 2 of class 1, xi = 1/2; W = 1 and nothing else at the start."""
    Z = None if covariate is None else np.array([[covariate]])
    problem = make_problem(np.array([[2.0]]), np.ones((1, 1)), Z, model=model, xi=0.5, fit_intercept=False)
    none = np.zeros((1, 1))
    return problem, State(np.ones((1, 1)), none, none, none[: problem.Z.shape[1]], np.zeros(1))


def numbers(state):
    return [float(part[0, 0]) for part in state[:4] if part.size]


def test_algorithm_1_by_hand():
    problem, start = one_row()
    # A = B = 0: gradients 2 (1/2 - 1) = -1 and 2 (1/2) (0 - 2) = -2; a step of .1 is (.1, .2), of norm sqrt(.05)
    for ridge in (0.0, 3.0):  # which is flat at A = 0
        W, H, B = numbers(
            solve_lpgd(replace(problem, l2=ridge), start, step=0.1, max_iter=1, tol=1e-300).state
        )
        np.testing.assert_allclose([W * B, W * H], [0.1, 0.2])
        np.testing.assert_allclose([W**2, B**2 + H**2], np.sqrt(0.05))  # factors by square roots
    W, H, B = numbers(solve_lpgd(problem, start, step=0.1, norm=0.1, max_iter=1, tol=1e-300).state)
    np.testing.assert_allclose([W * B, W * H], np.array([0.1, 0.2]) * 0.1 / np.sqrt(0.05))


def test_algorithm_2_by_hand():
    problem, start = one_row("feature")
    # A = 0: the gradient is 1/2 - 1, that of WH is -2
    W, H, B = numbers(solve_lpgd(problem, start, step=0.1, max_iter=1, tol=1e-300).state)
    np.testing.assert_allclose([H * B, H * W], [0.05, 0.2])


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_algorithm_3_by_hand(model):
    problem, start = one_row(model, covariate=4.0)
    radius = Radius(scale=0.25, power=1.0, logs=0.0, absolute=True)  # 1/4, 1/8
    limits = {"radius": radius, "n_inner": 3, "tol": 1e-300}

    def ends(sweeps, regions):
        return numbers(solve_bcd(problem, start, regions=regions, max_iter=sweeps, **limits).state)

    # W moves nothing yet, B, G and H go to the end of their balls (in the feature model B moves nothing while H = 0)
    first = [1.0, 0.25, 0.25 if model == "filter" else 0.0, 0.25]
    np.testing.assert_allclose(ends(1, Regions()), first, atol=1e-12)
    np.testing.assert_allclose(ends(2, Regions()), [1.125, 0.375, first[2] + 0.125, 0.375], atol=1e-12)
    held = Regions(
        dictionary=Region(True, 1.0),
        codes=Region(True, 0.3),
        coefficients=Region(norm=0.1),
        covariates=Region(norm=0.3),
    )
    np.testing.assert_allclose(ends(2, held), [1.0, 0.3, 0.1, 0.3], atol=1e-12)


# --------------------------------------------------------------------------- Algorithms 1 and 2, as printed


def printed_step(model, state, X, Z, Y, slope, *, xi, l2, step, r, bounds):
    """A step of Algorithm 1 or 2 on dense matrices, samples in columns."""
    W, H, B, G, _ = state
    X, Z, Y = X.T, Z.T, Y.T
    left = (W @ B) if model == "filter" else (H @ B).T  # A
    a = (left.T @ X if model == "filter" else left) + G.T @ Z
    K = slope(a, Y)  # K x n
    WH = W @ H.T
    A = left - step * ((X @ K.T if model == "filter" else K) + 2 * l2 * left)
    WH = WH - step * 2 * xi * (WH - X)
    G = G - step * (Z @ K.T + 2 * l2 * G)
    lifted = np.hstack([A, WH]) if model == "filter" else np.vstack([A, WH])
    lifted = lifted * min(1.0, bounds.get("products", np.inf) / np.linalg.norm(lifted))
    G = G * min(1.0, bounds.get("covariates", np.inf) / np.linalg.norm(G))
    U, s, Vt = np.linalg.svd(lifted, full_matrices=False)
    return (U[:, :r] * s[:r]) @ Vt[:r], G


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("bounds", [{}, {"products": 9.0, "covariates": 0.05}])
@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_a_step_of_the_estimator_is_the_printed_one(table, model, bounds, kind):
    X, a, classes = table
    given = {"xi": 0.3, "l2": 2.0, "step": 0.01, "bounds": bounds or None}
    options = {**given, "model": model, "covariates": [6, 7], "fit_intercept": False, **LONG}
    if kind == "numbers":
        y, Y = 5.0 + a, (5.0 + a)[:, None]
        make = Regressor
        slope = lambda a, Y: 2 * (a - Y)
    else:
        y = classes if kind == "three" else (classes > 0).astype(int)
        Y = (y[:, None] == np.arange(1, y.max() + 1)).astype(float)
        make = Classifier
        slope = lambda a, Y: np.exp(a) / (1 + np.exp(a).sum(axis=0)) - Y
    before = fitted(make(2, max_iter=3, random_state=0, **options), X, y)
    after = fitted(make(2, max_iter=4, random_state=0, **options), X, y)
    lifted, G = printed_step(
        model, before, X[:, :6], X[:, 6:], Y, slope, xi=0.3, l2=2.0, step=0.01, r=2, bounds=bounds
    )
    W, H, B, found, _ = after
    ours = W @ np.hstack([B, H.T]) if model == "filter" else np.vstack([B.T, W]) @ H.T
    np.testing.assert_allclose(ours, lifted, atol=1e-8)
    np.testing.assert_allclose(found, G, atol=1e-10)
    both = np.hstack([B, H.T]).T if model == "filter" else np.vstack([B.T, W])
    np.testing.assert_allclose(
        both.T @ both, (W if model == "filter" else H).T @ (W if model == "filter" else H), atol=1e-8
    )
    if bounds:
        assert np.linalg.norm(found) == pytest.approx(0.05)  # it binds
        assert np.linalg.norm(ours) < 9.0


def test_the_step_decides_the_fit_and_may_be_too_long(table):
    X, _, classes = table
    y, given = classes > 0, {"xi": 0.3, "l2": 2.0, "fit_intercept": False, "random_state": 0}
    short, longer = (Classifier(2, step=t, max_iter=1, **given, **LONG).fit(X, y) for t in (0.0003, 0.003))
    assert short.solver_ == longer.solver_ == "lpgd"
    falls = [-np.diff(fit.history_)[0] for fit in (short, longer)]
    assert falls[1] == pytest.approx(10 * falls[0], rel=0.02)  # along the gradient
    best = Classifier(2, step=0.005, max_iter=5000, tol=1e-11, **given).fit(X, y)
    quick = Classifier(2, solver="lbfgs", tol=1e-12, max_iter=5000, **given).fit(X, y)
    np.testing.assert_allclose(best.objective_, quick.objective_, rtol=1e-6)
    assert "given step" in best.reason_
    with pytest.raises(
        ValueError, match=r"step=1\.0 is too long for curvatures up to .*a step below .*, or step=None"
    ):
        Classifier(2, step=1.0, **{**given, "l2": 20.0}).fit(X, y)


def test_a_step_of_the_theorem_is_not_warned_about(recwarn):
    rng = np.random.default_rng(0)
    X = 0.1 * rng.standard_normal((30, 4))
    y = X[:, 0] + 0.05 * rng.standard_normal(30) > 0
    given = {"solver": "lpgd", "xi": 0.5, "l2": 0.5, "fit_intercept": False}
    Classifier(2, step=1.1, **given).fit(X, y)
    assert not [w for w in recwarn if "not sure" in str(w.message)]
    with pytest.warns(
        UserWarning,
        match=r"step=0\.1 is not between 1 / \(2 mu\) = 0\.5 and 3 / \(2 L\) = .*all steps are 0\.1",
    ):
        Classifier(2, step=0.1, **given).fit(X, y)


# --------------------------------------------------------------------------- Algorithm 3


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("make", [Classifier, Regressor])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bounds", [None, BLOCKS])
def test_blocks_stay_in_their_sets_and_within_the_radius(table, model, make, intercept, bounds):
    X, a, classes = table
    y = (classes > 0) if make is Classifier else 5.0 + a
    radius = Radius(scale=0.5 if bounds else 0.01, power=1.0, logs=0.0, absolute=True)
    options = {
        "covariates": [6, 7],
        "positive": True,
        "xi": 0.3,
        "l2": 0.0,
        "fit_intercept": intercept,
        **LONG,
    }
    sweeps = [
        fitted(
            make(2, model=model, bounds=bounds, radius=radius, max_iter=k, random_state=0, **options), X, y
        )
        for k in (1, 2, 3)
    ]

    def blocks(state):
        return state.W, state.H, state.B, np.vstack([state.G, state.intercept])

    moved = []
    for k, (one, two) in enumerate(pairwise(sweeps), start=2):
        for name, x, z in zip(BLOCKS, blocks(one), blocks(two), strict=True):
            assert np.linalg.norm(z) <= (bounds or {}).get(name, np.inf)
            assert np.linalg.norm(z - x) <= radius(k) * (1 + 1e-9)
            moved.append(np.linalg.norm(z - x) / radius(k))
    assert max(moved) > 0.999  # it binds
    assert all(part.min() >= 0 for state in sweeps for part in state[:2])
    free = fitted(make(2, model=model, max_iter=3, random_state=0, **options), X, y)
    above = [np.linalg.norm(x) > norm for x, norm in zip(blocks(free), BLOCKS.values(), strict=True)]
    assert sum(above) >= 2  # the bounds are of use


def test_a_bounded_optimum_is_that_of_many_starts():
    """One column, one atom: W and B in [0, 1] and [-1, 1] on a grid, codes at their best under the bound."""
    x, y = np.array([[0.5], [1.0], [2.0]]), np.array([0, 1, 1])
    bounds = {"dictionary": 0.7, "codes": 1.5, "coefficients": 0.9}
    model = Classifier(
        1,
        positive=True,
        bounds=bounds,
        xi=0.4,
        l2=0.0,
        fit_intercept=False,
        tol=1e-14,
        max_iter=5000,
        random_state=0,
    ).fit(x, y)
    W, B = np.meshgrid(np.linspace(0.01, 0.7, 300), np.linspace(-0.9, 0.9, 301))
    a = x[:, 0] * (W * B)[..., None]
    labels = np.sum(np.log1p(np.exp(a)) - y * a, axis=-1)
    size = np.minimum(np.linalg.norm(x) / W, 1.5)  # codes are a multiple of x
    left = (np.linalg.norm(x) - W * size) ** 2
    best = np.min(labels + 0.4 * left)
    assert model.objective_ <= best * (1 + 1e-9)
    assert model.objective_ == pytest.approx(best, rel=1e-3)
    np.testing.assert_allclose([model.components_[0, 0], model.coef_[0, 0]], [0.7, 0.9], rtol=1e-6)


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_the_objective_is_the_published_one(table, model):
    X, _, classes = table
    y = classes > 0
    given = {
        "model": model,
        "positive": True,
        "xi": 0.3,
        "l2": 2.0,
        "covariates": [6, 7],
        "fit_intercept": False,
    }
    for apart in (0.0, 0.5):
        fit = Classifier(2, apart=apart, tol=1e-7, random_state=0, **given)
        W, H, B, G, _ = fitted(fit, X, y)
        seen = (X[:, :6] @ W if model == "filter" else H) @ B + X[:, 6:] @ G
        labels = -np.sum(np.log(np.where(y, expit(seen[:, 0]), expit(-seen[:, 0]))))
        product = W @ B if model == "filter" else H @ B
        alone = np.sum((W if model == "filter" else H) ** 2, axis=0) @ B**2
        ridge = (1 - apart) * np.sum(product**2) + apart * alone[0] + np.sum(G**2)
        left = np.sum((X[:, :6] - H @ W.T) ** 2)
        assert fit.objective_ == pytest.approx(labels + 0.3 * left + 2.0 * ridge)
    auto, tenth = (Classifier(2, apart=share, random_state=0, **given).fit(X, y) for share in ("auto", 0.1))
    np.testing.assert_array_equal(auto.components_, tenth.components_)


def test_numbers_keep_their_units_under_bounds(table):
    X, a, _ = table
    y = 50.0 + 10.0 * a
    fit = Regressor(
        2, bounds={"coefficients": 2.0, "covariates": 4.0}, covariates=[6, 7], l2=0.5, random_state=0
    )
    W, H, B, G, c = fitted(fit, X, y)
    assert np.linalg.norm(B) == pytest.approx(2.0)
    assert np.linalg.norm(np.vstack([G, c])) == pytest.approx(4.0)
    seen = X[:, :6] @ W @ B + X[:, 6:] @ G + c
    left = np.sum((X[:, :6] - H @ W.T) ** 2)
    ridge = np.sum((W @ B) ** 2) + np.sum(G**2)
    level = np.sum((y - seen[:, 0]) ** 2) + fit.xi_ * left + 0.5 * ridge
    assert fit.objective_ == pytest.approx(level)
    np.testing.assert_allclose(fit.predict(X), seen[:, 0])
    np.testing.assert_allclose(fit.coef_, B[:, 0])


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"atoms": 1.0}}, "bounds names 'atoms'; it takes 'dictionary', .* 'products'"),
        ({"bounds": {"codes": 0.0}}, "bounds of 'codes' is 0.0; give a finite number > 0"),
        ({"bounds": {"codes": np.inf}}, "bounds of 'codes' is inf; .*leave 'codes' out"),
        ({"bounds": {"codes": True}}, "bounds of 'codes' is True"),
        (
            {"bounds": {"codes": 1.0}, "solver": "lbfgs"},
            "solver='lbfgs' takes no bounds .*'codes': 1.*Remedies",
        ),
        ({"bounds": {"codes": 1.0}, "solver": "lpgd"}, "'codes': 1.* cannot be asked for. Remedies"),
        (
            {"bounds": {"products": 1.0}, "solver": "bcd"},
            "bounds of 'products'.*solver='bcd'; use solver='lpgd'",
        ),
        ({"bounds": {"products": 1.0, "dictionary": 1.0}}, "cannot be asked for"),
        ({"bounds": {"products": 1.0}, "positive": True}, "positive=True cannot be asked for"),
        ({"bounds": {"covariates": 1.0}, "fit_intercept": False}, "neither covariates nor an intercept"),
        ({"step": 0.1, "solver": "bcd"}, "step=0.1 is a setting of solver='lpgd', but solver='bcd'"),
        ({"step": 0.1, "solver": "lbfgs"}, "step=0.1 is a setting of solver='lpgd'"),
        ({"step": 0.1, "radius": Radius()}, "radius is a setting of solver='bcd', but solver='lpgd'"),
        ({"step": 0.1, "positive": True}, "positive=True cannot be asked for.*without step"),
        ({"apart": 0.1}, "apart=0.1 is for nonnegative atoms.*Remedies"),
        ({"apart": 0.1, "positive": True, "l2": 0.0}, "apart=0.1 is a share of the ridge, and l2=0 is none"),
    ],
)
@pytest.mark.parametrize("make", [Classifier, Regressor])
def test_options_without_use_are_refused(table, make, options, message):
    X, _, classes = table
    with pytest.raises(ValueError, match=message):
        make(2, **options).fit(X[:, :6], (classes > 0).astype(int))


@pytest.mark.parametrize(
    ("options", "solver"),
    [
        ({"bounds": {"codes": 5.0}}, "bcd"),
        ({"bounds": {"covariates": 5.0}}, "bcd"),
        ({"bounds": {"covariates": 5.0}, "solver": "lpgd"}, "lpgd"),
        ({"bounds": {"products": 5.0}}, "lpgd"),
        ({"bounds": {"products": 5.0, "covariates": 1.0}}, "lpgd"),
        ({"bounds": {}}, "lbfgs"),
        ({"l1": 0.1, "bounds": {"codes": 5.0}}, "bcd"),
    ],
)
def test_the_solver_that_bounds_ask_for(table, options, solver):
    X, _, classes = table
    fit = Classifier(2, max_iter=200, random_state=0, **options)
    W, H, B, G, c = fitted(fit, X[:, :6], classes > 0)
    assert fit.solver_ == solver
    bounds = options["bounds"]
    assert np.linalg.norm(H) <= bounds.get("codes", np.inf)
    assert np.linalg.norm(np.vstack([G, c])) <= bounds.get("covariates", np.inf) * (1 + 1e-12)
    assert np.linalg.norm(W @ np.hstack([B, H.T])) <= bounds.get("products", np.inf) * (1 + 1e-9)
    assert np.linalg.norm(W) <= (np.sqrt(2) if "l1" in options else np.inf)
