import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from colspace import ConstantColumnWarning
from colspace._random import generator
from colspace.scores import GaussianScore, NeuralScore


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def table(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) * np.linspace(0.5, 3, p) + np.arange(p)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'colspace\[torch\]'"):
        NeuralScore().fit(table(20, 2))


@pytest.mark.parametrize("objective", ["denoising", "sliced", "exact"])
@pytest.mark.parametrize("p", [1, 2])
def test_gaussian_scores_are_found(torch, objective, p):
    """Mean squared error against the truth, in units where the scores have mean square 1."""
    X, sd = table(800, p), np.linspace(0.5, 3, p)
    model = NeuralScore(objective=objective, hidden=(32,), max_epochs=40, random_state=0).fit(X)
    fresh = table(500, p, seed=1)
    truth = (fresh - np.arange(p)) / sd**2
    assert np.mean(((model.score_function(fresh) - truth) * sd) ** 2) < 0.15


@pytest.mark.parametrize("objective", ["denoising", "sliced", "exact"])
def test_a_mixture_is_told_from_a_gaussian(torch, objective):
    rng = np.random.default_rng(0)
    X = 0.5 * rng.standard_normal((1500, 1)) + np.where(rng.random((1500, 1)) < 0.5, 1.5, -1.5)
    model = NeuralScore(
        objective=objective, hidden=(32, 32), max_epochs=60, learning_rate=0.005, random_state=0
    )
    s = model.fit(X).score_function(np.array([[-2.2], [-0.8], [0.8], [2.2]]))[:, 0]
    assert s[0] < -1  # s points away from the nearest mode
    assert s[1] > 1
    assert s[2] < -1
    assert s[3] > 1
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_second_moment_by_finite_differences(torch, monkeypatch):
    from colspace.scores import _neural

    monkeypatch.setattr(_neural, "_CHUNK", 3)
    X = table(100, 3)
    model = NeuralScore(hidden=(16, 16), max_epochs=5, learning_rate=0.01, random_state=0).fit(X)
    rows, h = table(7, 3, seed=2), 1e-5
    s = model.score_function(rows)
    J = np.stack(
        [(model.score_function(rows + e) - model.score_function(rows - e)) / (2 * h) for e in h * np.eye(3)],
        axis=1,
    )
    T = s[:, :, None] * s[:, None] - (J + J.transpose(0, 2, 1)) / 2
    weights = np.random.default_rng(0).standard_normal((7, 2))
    moment = model.second_moment(rows, weights)
    np.testing.assert_allclose(moment, np.einsum("ik,iab->kab", weights, T), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.second_moment(rows, weights[:, 0]), moment[0], atol=1e-12)
    with pytest.raises(ValueError, match=r"weights has shape \(2,\)"):
        model.second_moment(rows, np.ones(2))


def test_exact_loss_is_the_score_matching_loss(torch):
    """The training loss is half the squared norm of g plus its divergence, on standardised columns."""
    X = table(60, 2)
    model = NeuralScore(objective="exact", hidden=(8,), max_epochs=2, random_state=0).fit(X)
    weights = [torch.from_numpy(w) for w in model.weights_]
    Z = torch.from_numpy((X - model.mean_) / model.scale_)
    loss = float(model._loss(torch, weights, Z, None).detach())
    g = model._forward(torch, weights, Z).numpy()
    h = 1e-5
    divergence = sum(
        (model._forward(torch, weights, Z + e) - model._forward(torch, weights, Z - e))[:, j].numpy()
        / (2 * h)
        for j, e in enumerate(torch.eye(2, dtype=torch.float64) * h)
    )
    assert loss == pytest.approx(0.5 * (g**2).sum(axis=1).mean() + divergence.mean(), rel=1e-6)
    # along random directions it is the same on average
    model.objective = "sliced"
    many = Z.repeat(4000, 1)
    torch_generator = torch.Generator().manual_seed(0)
    draw = torch.randn(many.shape, generator=torch_generator, dtype=torch.float64)
    assert float(model._loss(torch, weights, many, draw).detach()) == pytest.approx(loss, abs=0.02)


def test_same_seed_same_network_and_torch_is_left_alone(torch):
    X = table(80, 2)
    model = NeuralScore(hidden=(8,), max_epochs=3, random_state=0)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    s = model.fit(X).score_function(X)
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(clone(model).fit(X).score_function(X), s)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_function(X), s)
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(X).score_function(X), s)


def test_training_stops_and_keeps_the_best_weights(torch):
    X = table(120, 2)
    model = NeuralScore(hidden=(16,), max_epochs=400, learning_rate=0.02, random_state=0).fit(X)
    assert model.n_iter_ == len(model.loss_curve_) == len(model.validation_curve_) < 400
    assert np.argmin(model.validation_curve_) < model.n_iter_ - 10
    assert NeuralScore(hidden=(), max_epochs=3, random_state=0).fit(X[:20]).validation_curve_ == []


def test_the_weights_kept_are_those_of_the_least_held_out_loss(torch):
    X = table(120, 2)
    model = NeuralScore(
        objective="exact", hidden=(16,), max_epochs=40, learning_rate=0.05, random_state=0
    ).fit(X)
    rows = generator(0).permutation(120)[:12]
    Z = torch.from_numpy((X[rows] - model.mean_) / model.scale_)
    loss = model._loss(torch, [torch.from_numpy(w) for w in model.weights_], Z, None)
    assert np.argmin(model.validation_curve_) < model.n_iter_ - 1
    assert float(loss.detach()) == pytest.approx(min(model.validation_curve_), rel=1e-9)


def test_impossible_requests_are_refused(torch):
    with pytest.raises(ValueError, match="hidden"):
        NeuralScore(hidden=(0,)).fit(table(20, 2))
    with pytest.raises(ValueError, match="learning_rate"):
        NeuralScore(learning_rate=1e200, max_epochs=5).fit(table(100, 2))


@pytest.fixture
def uncorrelated():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((400, 4))
    Z = np.linalg.qr(Z - Z.mean(axis=0))[0] * np.sqrt(400)
    return Z - Z.mean(axis=0)


def test_the_noise_is_a_part_of_each_columns_deviation(torch, uncorrelated):
    """The start, which is linear, is the Gaussian score with ridge noise^2 where columns are uncorrelated."""
    sd = np.array([3.0, 1.0, 1e-3, 1e-8])
    X = uncorrelated * sd + 7.0
    model = NeuralScore(noise=0.5, hidden=(8,), max_epochs=1, learning_rate=1e-12, random_state=0).fit(X)
    np.testing.assert_allclose(model.noise_, 0.5 * sd, rtol=1e-6)
    truth = GaussianScore(ridge=0.25).fit(X)
    np.testing.assert_allclose(
        model.score_function(X) * sd, truth.score_function(X) * sd, rtol=1e-6, atol=1e-6
    )


def test_without_standardising_the_noise_is_the_same_for_every_column(torch, uncorrelated):
    sd = np.array([3.0, 1.0, 1e-3, 1e-6])
    X = uncorrelated * sd + 7.0
    model = NeuralScore(noise=0.5, hidden=(16,), max_epochs=20, standardize=False, random_state=0).fit(X)
    np.testing.assert_allclose(model.noise_, 0.5 * np.sqrt((sd**2).mean()), rtol=1e-6)
    size = np.sqrt((model.score_function(X) ** 2).mean(axis=0))
    assert size[2:].max() < 0.3 * size[:2].min()  # columns that hardly vary hardly matter


def test_denoising_loss_is_that_of_the_smoothed_law(torch):
    """At g = -(x - mean)/(sd^2 + tau^2), the score of a smoothed Gaussian, the slope of the loss is zero."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 2)) * [2.0, 0.3]
    model = NeuralScore(noise=0.7, hidden=(), max_epochs=1, learning_rate=1e-12, random_state=0).fit(X[:500])
    Z = torch.from_numpy((X - model.mean_) / model.scale_)
    draw = torch.from_numpy(rng.standard_normal(X.shape))
    linear = torch.diag(torch.from_numpy(-(model.scale_**2) / (np.array([4.0, 0.09]) + model.noise_**2)))
    weights = [
        linear.requires_grad_(),
        torch.zeros(2, 2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
    ]
    (slope,) = torch.autograd.grad(model._loss(torch, weights, Z, draw), weights[0])
    assert np.abs(slope.numpy()).max() < 0.01


def test_units_do_not_matter(torch):
    X = table(60, 2)
    model = NeuralScore(hidden=(8,), max_epochs=2, random_state=0)
    s = clone(model).fit(X).score_function(X)
    for unit in (1e-100, 1e100, np.array([1e8, 1e-8])):
        np.testing.assert_allclose(unit * clone(model).fit(unit * X).score_function(unit * X), s, rtol=1e-6)
    with pytest.raises(ValueError, match=r"overflows.*column 1 has the value.*e\+16.*Remedy: rescale"):
        model.fit(X * [1, 1e160])


def test_weights_of_rows(torch):
    X, w = table(80, 2), np.random.default_rng(1).integers(0, 3, 80).astype(float)
    model = NeuralScore(hidden=(8,), max_epochs=3, random_state=0)
    s = clone(model).fit(X, sample_weight=w).score_function(X)
    np.testing.assert_allclose(clone(model).fit(X, sample_weight=5 * w).score_function(X), s, rtol=1e-9)
    np.testing.assert_array_equal(
        clone(model).fit(X[w > 0], sample_weight=w[w > 0]).score_function(X), s
    )  # zero is absent
    assert np.abs(clone(model).fit(X[w > 0]).score_function(X) - s).max() > 1e-3
    # at the start g = -z, whose weighted mean loss is exactly -p/2: half the variance less the divergence
    few = NeuralScore(objective="exact", hidden=(8,), max_epochs=1, batch_size=99, random_state=0)
    assert few.fit(X[:40], sample_weight=w[:40]).loss_curve_[0] == pytest.approx(-1.0, rel=1e-12)
    # one batch of all rows: the loss of weights is that of repeated rows
    fitted = clone(model).fit(X, sample_weight=w)
    repeated = np.repeat(X, w.astype(int), axis=0)
    np.testing.assert_allclose(fitted.mean_, repeated.mean(axis=0))
    np.testing.assert_allclose(fitted.noise_, 0.1 * repeated.std(axis=0))
    weights = [torch.from_numpy(a) for a in fitted.weights_]
    draw = np.random.default_rng(2).standard_normal(X.shape)
    for objective in ("denoising", "sliced", "exact"):
        fitted.objective = objective
        losses = [
            float(
                fitted._loss(
                    torch, weights, torch.from_numpy(Z), torch.from_numpy(d), torch.from_numpy(v)
                ).detach()
            )
            for Z, d, v in (
                (X, draw, w / w.mean()),
                (repeated, np.repeat(draw, w.astype(int), axis=0), np.ones(len(repeated))),
            )
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-12)


@pytest.mark.parametrize("objective", ["denoising", "sliced", "exact"])
def test_constant_columns_get_a_score_of_zero(torch, objective):
    X = np.insert(table(60, 2), 1, 0.1, axis=1)
    model = NeuralScore(objective=objective, hidden=(8,), max_epochs=2, random_state=0)
    with pytest.warns(ConstantColumnWarning, match="1 constant column.*score of zero: 1") as caught:
        s = model.fit(X).score_function(X)
    assert caught[0].filename == __file__
    assert not s[:, 1].any()
    T = model.second_moment(X, np.ones(60))
    assert not T[1].any()
    assert not T[:, 1].any()
    without = clone(model).fit(X[:, [0, 2]])
    np.testing.assert_allclose(s[:, [0, 2]], without.score_function(X[:, [0, 2]]))
    np.testing.assert_allclose(T[np.ix_([0, 2], [0, 2])], without.second_moment(X[:, [0, 2]], np.ones(60)))
    with pytest.raises(ValueError, match=r"no variation.*Remedy"):
        model.fit(np.full((20, 2), 0.1))


def test_dask_is_refused_with_the_remedy(torch):
    array = pytest.importorskip("dask.array")
    with pytest.raises(
        TypeError, match=r"NeuralScore works on rows in memory: every batch.*X.compute\(\).*GaussianScore"
    ):
        NeuralScore().fit(array.ones((60, 3)))


def test_scikit_learn_checks(torch):
    results = check_estimator(NeuralScore(max_epochs=2), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
