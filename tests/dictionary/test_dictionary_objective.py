from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import log_loss

from colspace.dictionary import _losses as losses
from colspace.dictionary import _objective as obj
from colspace.dictionary._eliminated import eliminated

N, P, R, Q = 23, 7, 3, 2


def softplus_score() -> losses.Multinomial:
    def h(a):
        return np.log1p(np.exp(a)) + 0.1

    def first(a):
        return 1 / (1 + np.exp(-a))

    def second(a):
        return first(a) * (1 - first(a))

    return losses.Multinomial(h, first, second)


LOSSES = {"logistic": losses.Logistic(), "softplus": softplus_score(), "squared": losses.Squared()}


def make(rng, *, loss="logistic", K=2, csr=False, **options):
    X = rng.standard_normal((N, P)) * (rng.random((N, P)) < 0.5)
    Y = rng.standard_normal((N, K)) if loss == "squared" else losses.one_hot(rng.integers(0, K + 1, N), K + 1)
    options = {
        "covariates": rng.standard_normal((N, Q)),
        "xi": 0.3,
        "l1": 0.2,
        "l2": 0.7,
        "apart": 0.4,
        "weight": rng.random(N) + 0.5,
        "label_weight": rng.random(N) + 0.5,
        **options,
    }
    problem = obj.make_problem(sparse.csr_array(X) if csr else X, Y, loss=LOSSES[loss], **options)
    q = problem.Z.shape[1]
    shapes = [(P, R), (N, R), (R, K), (q, K), (K,)]
    return problem, obj.State(*(rng.standard_normal(s) for s in shapes))


def brute(problem, state):
    """The objective as it is written, one row at a time."""
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    W, H, B, G, c = state
    total = problem.l2 * np.sum(G**2)
    joint, apart = (1.0 - problem.apart) * problem.l2, problem.apart * problem.l2
    if problem.model == "filter":
        total += joint * np.sum((W @ B) ** 2)
        total += apart * sum(np.sum(np.outer(W[:, k], B[k]) ** 2) for k in range(R))
    for i in range(N):
        s = W.T @ X[i] if problem.model == "filter" else H[i]
        a = (B.T @ s + G.T @ problem.Z[i] + c)[None]
        total += problem.label_weight[i] * problem.loss.value(a, problem.Y[i : i + 1])[0]
        own = problem.xi * np.sum((X[i] - W @ H[i]) ** 2) + problem.l1 * np.abs(H[i]).sum()
        if problem.model == "feature":
            own += joint * np.sum((B.T @ H[i]) ** 2)
            own += apart * sum(H[i, k] ** 2 * np.sum(B[k] ** 2) for k in range(R))
        total += problem.weight[i] * own
    return total


def differences(f, x, step=1e-6):
    out = np.empty(x.size)
    for j in range(x.size):
        up, down = x.copy(), x.copy()
        up.flat[j] += step
        down.flat[j] -= step
        out[j] = (f(up) - f(down)) / (2 * step)
    return out.reshape(x.shape)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("K", [1, 3])
def test_objective_is_the_formula(model, loss, K):
    problem, state = make(np.random.default_rng(0), model=model, loss=loss, K=K)
    assert obj.objective(problem, state) == pytest.approx(brute(problem, state), rel=1e-12)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("csr", [False, True])
def test_every_gradient_against_differences(model, loss, K, csr):
    problem, state = make(np.random.default_rng(1), model=model, loss=loss, K=K, l1=0.0, csr=csr)
    value, gradient = obj.value_and_gradient(problem, state)
    assert value == pytest.approx(brute(problem, state), rel=1e-12)
    for name in obj.State._fields:
        expected = differences(
            lambda x, name=name: brute(problem, state._replace(**{name: x})), getattr(state, name)
        )
        np.testing.assert_allclose(getattr(gradient, name), expected, rtol=1e-6, atol=1e-6)


def test_no_intercept_has_no_slope():
    problem, state = make(np.random.default_rng(1), fit_intercept=False)
    assert not obj.value_and_gradient(problem, state)[1].intercept.any()


@pytest.mark.parametrize("loss", list(LOSSES))
def test_slopes_and_hessians_against_differences(loss):
    rng = np.random.default_rng(2)
    f, a = LOSSES[loss], rng.standard_normal((5, 3))
    Y = losses.one_hot(np.array([0, 1, 2, 3, 1]), 4)
    for i in range(5):
        one, y = a[i], Y[i : i + 1]
        slope = differences(lambda x, y=y: f.value(x[None], y)[0], one)
        np.testing.assert_allclose(f.slope(one[None], y)[0], slope, atol=1e-8)
        hessian = [differences(lambda x, y=y, j=j: f.slope(x[None], y)[0, j], one) for j in range(3)]
        np.testing.assert_allclose(f.hessian(one[None], y)[0], hessian, atol=1e-8)


def test_curvature_bounds_the_hessian():
    rng = np.random.default_rng(3)
    for K in (1, 2, 5):
        a, Y = 4 * rng.standard_normal((500, K)), losses.one_hot(rng.integers(0, K + 1, 500), K + 1)
        largest = np.linalg.eigvalsh(losses.Logistic().hessian(a, Y)).max()
        assert largest <= losses.Logistic().curvature(K)


def test_exp_score_is_the_logistic_loss():
    rng = np.random.default_rng(3)
    a, Y = rng.standard_normal((40, 3)), losses.one_hot(rng.integers(0, 4, 40), 4)
    general, safe = losses.Multinomial(np.exp, np.exp, np.exp), losses.Logistic()
    for name in ("value", "slope", "hessian"):
        np.testing.assert_allclose(getattr(general, name)(a, Y), getattr(safe, name)(a, Y), atol=1e-12)
    np.testing.assert_allclose(general.mean(a), safe.mean(a), atol=1e-14)
    far = np.array([[800.0, -800.0], [-900.0, -1000.0]])
    np.testing.assert_allclose(safe.value(far, np.array([[0.0, 1.0], [0.0, 0.0]])), [1600.0, 0.0])


@pytest.mark.parametrize("K", [1, 4])
def test_label_loss_is_log_loss(K):
    rng = np.random.default_rng(4)
    y = rng.permutation(np.arange(60) % (K + 1))
    a = rng.standard_normal((60, K))
    ours = losses.Logistic().value(a, losses.one_hot(y, K + 1)).sum()
    theirs = log_loss(y, losses.Logistic().mean(a), normalize=False)
    assert ours == pytest.approx(theirs, rel=1e-10)


@pytest.mark.parametrize("model", ["filter", "feature"])
@pytest.mark.parametrize("chunk", [1, 5, 23])
def test_csr_and_chunks_change_nothing(model, chunk):
    whole, state = make(np.random.default_rng(5), model=model)
    parts, _ = make(np.random.default_rng(5), model=model, csr=True, chunk=chunk)
    assert sparse.issparse(parts.X)
    a, b = obj.value_and_gradient(whole, state), obj.value_and_gradient(parts, state)
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    for mine, theirs in zip(a[1], b[1], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-11)


def test_weights_count_rows():
    rng = np.random.default_rng(6)
    problem, state = make(rng, weight=None, label_weight=None, model="feature")
    counts = rng.integers(0, 3, N)
    weighted = obj.make_problem(
        problem.X, problem.Y, problem.Z, model="feature", xi=0.3, l1=0.2, l2=0.7, weight=counts
    )
    rows = np.repeat(np.arange(N), counts)
    repeated = obj.make_problem(
        problem.X[rows], problem.Y[rows], problem.Z[rows], model="feature", xi=0.3, l1=0.2, l2=0.7
    )
    expected = obj.objective(repeated, state._replace(H=state.H[rows]))
    assert obj.objective(weighted, state) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("csr", [False, True])
def test_eliminated_codes(csr):
    problem, state = make(np.random.default_rng(7), l1=0.0, csr=csr, chunk=6)
    state = state._replace(H=obj.best_codes(problem, state.W))
    assert np.abs(obj.codes_gradient(problem, state)).max() < 1e-12
    at = obj.without_codes(state)
    value, gradient = eliminated(problem, at)
    assert value == pytest.approx(obj.objective(problem, state), rel=1e-12)
    for name in obj.Coefficients._fields:
        expected = differences(
            lambda x, name=name: eliminated(problem, at._replace(**{name: x}))[0], getattr(at, name)
        )
        np.testing.assert_allclose(getattr(gradient, name), expected, rtol=1e-6, atol=1e-6)


def test_eliminated_codes_of_a_dask_array():
    da = pytest.importorskip("dask.array")
    problem, state = make(np.random.default_rng(8), l1=0.0)
    remote = obj.make_problem(
        da.from_array(problem.X, chunks=(6, P)), problem.Y, problem.Z, xi=0.3, l2=0.7, weight=problem.weight
    )
    local = obj.make_problem(problem.X, problem.Y, problem.Z, xi=0.3, l2=0.7, weight=problem.weight)
    at = obj.without_codes(state)
    for a, b in zip(eliminated(remote, at)[1], eliminated(local, at)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"xi": -1.0}, "xi=-1.0 must be"),
        ({"l1": np.nan}, "l1=nan must be"),
        ({"model": "atoms"}, "model='atoms' is unknown"),
        ({"weight": np.ones(3)}, r"weight has shape \(3,\)"),
        ({"covariates": np.ones((3, 2))}, "covariates have shape"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(np.random.default_rng(0), **options)


def test_bad_labels():
    with pytest.raises(ValueError, match="at least 2"):
        losses.one_hot(np.zeros(4, dtype=int), 1)
    with pytest.raises(ValueError, match=r"must lie in 0\.\.1"):
        losses.one_hot(np.array([0, 2]), 2)
    with pytest.raises(ValueError, match="Y has shape"):
        obj.make_problem(np.ones((4, 2)), np.ones(4))


def test_a_sparse_table_is_multiplied_as_it_is(monkeypatch):
    """Entries in any order, some twice: products are those of the dense table, and nothing is sorted."""
    from scipy import sparse

    from colspace.dictionary._products import backward, forward

    X = sparse.csr_array(
        (np.array([3.0, 1.0, 2.0, 5.0]), np.array([2, 0, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    monkeypatch.setattr(sparse.csr_array, "sum_duplicates", None)
    monkeypatch.setattr(sparse.csr_array, "sort_indices", None)
    dense, rng = np.array([[3.0, 0.0, 3.0], [0.0, 5.0, 0.0]]), np.random.default_rng(0)
    W, R = rng.standard_normal((3, 2)), rng.standard_normal((2, 2))
    np.testing.assert_allclose(forward(X, W), dense @ W)
    np.testing.assert_allclose(backward(X, R), dense.T @ R)
