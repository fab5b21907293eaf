"""JointReduction with known means and covariances, a given eta, and what theorem 1 says of the proxy."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from colspace import JointReduction
from colspace.metrics import nsee, proxy_nsee_bound, proxy_variance

BLOCKS = {"a": slice(0, 3), "b": slice(3, 7)}
WIDTHS = {"a": 3, "b": 4}


def spread(width, seed):
    A = np.random.default_rng(seed).standard_normal((width, width + 2))
    return A @ A.T / width + 0.5 * np.eye(width)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    mean = {"a": np.array([1.0, -2.0, 0.5]), "b": np.array([0.0, 3.0, 1.0, -1.0])}
    covariance = {name: spread(width, i) for i, (name, width) in enumerate(WIDTHS.items())}
    parts = [
        mean[n] + rng.standard_normal((80, w)) @ np.linalg.cholesky(covariance[n]).T
        for n, w in WIDTHS.items()
    ]
    X = np.hstack(parts)
    y = X[:, 0] * X[:, 3] + np.sin(X[:, 5]) * X[:, 1] + 0.1 * rng.standard_normal(80)
    return X, y, mean, covariance


def known(r=2, **options):
    return JointReduction(r, blocks=BLOCKS, **{"moments": "joint", **options})


def whitened(X, mean, covariance, names=("a", "b")):
    return [
        np.linalg.solve(np.linalg.cholesky(covariance[n]), (X[:, BLOCKS[n]] - mean[n]).T).T for n in names
    ]


@pytest.mark.parametrize("given", ["both", "mean", "covariance"])
@pytest.mark.parametrize("moments", ["joint", "all"])
def test_by_loops_over_rows(data, given, moments):
    """a' = C^-1 (a - mu) row by row with what is known, sample values for the rest; y centred and scaled."""
    X, y, mean, covariance = data
    mu = mean if given != "covariance" else {n: X[:, s].mean(axis=0) for n, s in BLOCKS.items()}
    S = (
        covariance
        if given != "mean"
        else {n: (X[:, s] - mu[n]).T @ (X[:, s] - mu[n]) / 80 for n, s in BLOCKS.items()}
    )
    A, B = whitened(X, mu, S)
    v = (y - y.mean()) / y.std()
    proxy, own, linear = np.zeros((3, 4)), np.zeros((3, 3)), np.zeros((3, 1))
    for a, b, t in zip(A, B, v, strict=True):
        proxy += t * np.outer(a, b) / 80
        own += t * np.outer(a, a) / 80
        linear += t * a[:, None] / 80
    M = proxy if moments == "joint" else np.hstack([linear, proxy, own])
    U, s, _ = np.linalg.svd(M)
    options = {
        "mean": None if given == "covariance" else mean,
        "covariance": None if given == "mean" else covariance,
    }
    model = known(moments=moments, **options).fit(X, y)
    truth = np.linalg.solve(np.linalg.cholesky(S["a"]).T, U[:, :2])
    assert nsee(truth, model.loadings_["a"]) < 1e-9
    np.testing.assert_allclose(model.singular_values_["a"], s[:2], rtol=1e-9)
    np.testing.assert_allclose(model.mean_, np.concatenate([mu["a"], mu["b"]]), rtol=1e-9)
    np.testing.assert_allclose(model.scale_[:3], np.sqrt(np.diag(S["a"])), rtol=1e-9)
    np.testing.assert_allclose(
        model.transform(X)[:, :2], (X[:, :3] - mu["a"]) @ model.loadings_["a"], rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "randomized", "n_power": 60},
        {"solver": "countsketch", "n_power": 60},
        {"whiten": "diagonal"},
        {"whiten": "diagonal", "solver": "randomized", "n_power": 60},
        {"moments": "tensor"},
        {"n_components": "auto"},
        {"n_components": "moments"},
        {"whiten": "diagonal", "n_selected": {"a": 2, "b": 3}},
    ],
    ids=str,
)
def test_equals_columns_normalised_beforehand(data, options):
    """Columns that are normalised by the known law, with mean 0 and covariance I known, and nothing left to whiten."""
    X, y, mean, covariance = data
    if options.get("whiten") == "diagonal":
        covariance = {n: np.diag(np.diag(S)) for n, S in covariance.items()}
    options = {"moments": "joint", "random_state": 0, **options, "blocks": BLOCKS}
    Z = np.hstack(whitened(X, mean, covariance))
    one = JointReduction(**{"n_components": 2, **options}, mean=mean, covariance=covariance).fit(X, y)
    two = JointReduction(
        **{"n_components": 2, **options, "whiten": None}, mean={n: np.zeros(w) for n, w in WIDTHS.items()}
    ).fit(Z, y)
    assert one.n_components_ == two.n_components_
    for name in BLOCKS:
        back = np.linalg.solve(np.linalg.cholesky(covariance[name]).T, two.loadings_[name])
        assert nsee(back, one.loadings_[name]) < 1e-6
        np.testing.assert_allclose(one.singular_values_[name], two.singular_values_[name], rtol=1e-6)


def test_streams_containers_weights_and_errors(data):
    X, y, mean, covariance = data
    options = {"mean": mean, "covariance": covariance, "moments": "all", "n_groups": 8}
    expected = known(**options).fit(X, y)
    assert all(np.isfinite(error).all() for error in expected.loadings_error_.values())
    w = np.arange(80) % 3
    heavy = known(**options).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(80), w)
    np.testing.assert_allclose(
        known(**options).fit(X[rows], y[rows]).components_, heavy.components_, atol=1e-8
    )
    for table in (sparse.csr_array(X), da.from_array(X, chunks=(30, 7))):
        target = da.from_array(y, chunks=30) if hasattr(table, "chunks") else y
        np.testing.assert_allclose(
            known(**options).fit(table, target).components_, expected.components_, atol=1e-8
        )
    stream = known(**options)
    for i in range(0, 80, 20):
        stream.partial_fit(X[i : i + 20], y[i : i + 20])
    np.testing.assert_allclose(stream.components_, expected.components_, atol=1e-8)
    few = known(**options).partial_fit(
        X[:4], y[:4]
    )  # no more rows than columns: nothing is inverted that is not known
    np.testing.assert_allclose(few.components_, known(**options).fit(X[:4], y[:4]).components_, atol=1e-8)
    one = JointReduction(1, moments="hessian", mean=mean["a"], covariance=covariance["a"]).fit(X[:, :3], y)
    (A,) = whitened(X, mean, covariance, ("a",))
    U = np.linalg.svd((A * (y - y.mean())[:, None]).T @ A)[0][:, :1]
    assert nsee(np.linalg.solve(np.linalg.cholesky(covariance["a"]).T, U), one.components_.T) < 1e-9


# ---------------------------------------------------------------- eta


def sparse_truth(m, seed, scale=1.0):
    """Two directions with entries on 3 of 8 and 2 of 6 columns; X = U V', singular values 1, and its least entry."""
    rng = np.random.default_rng(seed)
    U, V = np.zeros((8, 2)), np.zeros((6, 2))
    U[[1, 4, 6]] = np.linalg.qr(np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.3]]))[0]
    V[[0, 5]] = np.linalg.qr(np.array([[1.0, 0.4], [0.4, -1.0]]))[0]
    X = rng.standard_normal((m, 14))
    y = np.sum((X[:, :8] @ U) * (X[:, 8:] @ V), axis=1) + 0.3 * rng.standard_normal(m)
    law = {"mean": {"a": np.zeros(8), "b": np.zeros(6)}, "covariance": {"a": np.eye(8), "b": np.eye(6)}}
    proxy = U @ V.T
    entry = np.abs(proxy[np.abs(proxy) > 1e-12]).min()
    blocks = {"a": slice(0, 8), "b": slice(8, 14)}
    return X, scale * y, {"blocks": blocks, "moments": "joint", **law}, scale * entry, (U, V)


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_half_of_eta_finds_rank_and_columns(scale):
    """Eta in units of y; columns with an entry, and singular values, above half of it."""
    X, y, options, entry, truth = sparse_truth(40_000, 0, scale)
    rank = JointReduction("threshold", eta=scale, **options).fit(X, y)
    assert rank.n_components_ == 2
    found = JointReduction(2, n_selected="threshold", whiten="diagonal", eta=entry, **options).fit(X, y)
    np.testing.assert_array_equal(found.selected_["a"], [1, 4, 6])
    np.testing.assert_array_equal(found.selected_["b"], [8, 13])
    assert nsee(truth[0], found.loadings_["a"]) < 0.1


def test_the_rule_counts_what_is_above_half_of_eta():
    """Beside a count by hand on the same proxy, at thresholds between the singular values and entries."""
    X, y, options, _, _ = sparse_truth(2000, 1)
    proxy = (X[:, :8] * (y - y.mean())[:, None]).T @ X[:, 8:] / 2000
    s = np.linalg.svd(proxy, compute_uv=False)
    for k in range(1, 6):
        eta = s[k - 1] + s[k]  # half of it lies between two singular values
        assert JointReduction("threshold", eta=eta, **options).fit(X, y).n_components_ == k
    rows = np.sort(np.abs(proxy).max(axis=1))[::-1]
    for k in range(2, 8):
        eta = rows[k - 1] + rows[k]
        found = JointReduction(1, n_selected="threshold", whiten="diagonal", eta=eta, **options).fit(X, y)
        assert len(found.selected_["a"]) == k
        assert len(found.selected_["b"]) == max(1, int(np.sum(np.abs(proxy).max(axis=0) > eta / 2)))


# ---------------------------------------------------------------- theorem 1


def proxies(link, n1, n2, r, m, noise, draws, seed):
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        A, B = rng.standard_normal((m, n1)), rng.standard_normal((m, n2))
        y = link(A[:, :r], B[:, :r]) + np.sqrt(noise) * rng.standard_normal(m)
        yield A, B, y, A.T @ (y[:, None] * B) / m


@pytest.mark.parametrize(
    ("n1", "n2", "r", "noise", "draws"), [(6, 9, 2, 1.0, 1500), (5, 4, 3, 0.0, 1500), (1, 1, 1, 0.0, 15_000)]
)
def test_variance_of_the_bilinear_proxy(n1, n2, r, noise, draws):
    truth = np.eye(n1)[:, :r] @ np.eye(n2)[:, :r].T
    bilinear = lambda a, b: np.sum(a * b, axis=1)
    errors = [np.sum((P - truth) ** 2) for *_, P in proxies(bilinear, n1, n2, r, 100, noise, draws, 0)]
    expected = proxy_variance(100, (n1, n2), r, noise=noise)
    error = np.std(errors) / np.sqrt(draws)
    assert np.mean(errors) == pytest.approx(expected, abs=4 * error)
    assert error < 0.025 * expected


def test_variance_of_another_link():
    """f = sign(a) sign(b): Q = 2/pi, and every other constant is 1 or 1 - Q^2."""
    Q = 2 / np.pi
    truth = np.zeros((5, 6))
    truth[0, 0] = Q
    signs = lambda a, b: (np.sign(a) * np.sign(b)).ravel()
    errors = [np.sum((P - truth) ** 2) for *_, P in proxies(signs, 5, 6, 1, 50, 0.5, 1500, 1)]
    expected = proxy_variance(50, (5, 6), 1, noise=0.5, link=(1 - Q**2, 1.0, 1.0, 1.0))
    assert np.mean(errors) == pytest.approx(expected, abs=4 * np.std(errors) / np.sqrt(1500))


def test_bound_on_the_error_of_the_directions():
    """The mean NSEE of the published estimator with the law known stays under a bound that says something."""
    law = {"mean": {"a": np.zeros(5), "b": np.zeros(4)}, "covariance": {"a": np.eye(5), "b": np.eye(4)}}
    blocks = {"a": slice(0, 5), "b": slice(5, 9)}
    bilinear = lambda a, b: np.sum(a * b, axis=1)
    for m in (2000, 8000):
        found = []
        for A, B, y, _ in proxies(bilinear, 5, 4, 2, m, 1.0, 10, m):
            model = JointReduction(2, blocks=blocks, moments="joint", n_groups=None, **law).fit(
                np.hstack([A, B]), y
            )
            found.append(nsee({"a": np.eye(5)[:, :2], "b": np.eye(4)[:, :2]}, model.loadings_))
        bound = proxy_nsee_bound(m, (5, 4), 2, noise=1.0)
        assert np.mean(found) < bound < 0.4
        assert bound < 12 * np.mean(found)
    assert proxy_nsee_bound(2000, (5, 4), 2, noise=1.0) == 2 * proxy_nsee_bound(8000, (5, 4), 2, noise=1.0)
    assert proxy_nsee_bound(100, (5, 4), 2, least=0.5) == 2 * proxy_nsee_bound(100, (5, 4), 2)
    with pytest.raises(
        ValueError, match=r"n_components=5 between 1 and the fewer columns of widths=\(5, 4\)"
    ):
        proxy_variance(10, (5, 4), 5)
    with pytest.raises(ValueError, match="least=0 must be positive"):
        proxy_nsee_bound(10, (5, 4), 2, least=0)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moments": "auto", "mean": {}}, r"mean belongs to the published moments.*Remedy: moments='joint'"),
        ({"moments": "auto", "covariance": {}}, r"covariance belongs to the published moments"),
        ({"covariance": {}, "whiten": None}, r"whiten=None leaves them as they are; use whiten='full'"),
        (
            {"covariance": {}, "shrinkage": 0.1},
            r"shrinkage=0\.1, but a given covariance is not shrunk; set shrinkage=None",
        ),
        ({"mean": {"a": np.zeros(3)}}, r"mean names blocks \['a'\], but blocks are \['a', 'b'\]"),
        ({"mean": np.zeros(7)}, r"mean must be a mapping of the blocks \['a', 'b'\]"),
        (
            {"mean": {"a": np.zeros(3), "b": np.zeros(3)}},
            r"mean of block 'b' has shape \(3,\); \(4,\) finite numbers",
        ),
        ({"mean": {"a": [0, np.nan, 0], "b": np.zeros(4)}}, r"mean of block 'a' .* finite numbers"),
        (
            {"covariance": {"a": -np.eye(3), "b": np.eye(4)}},
            r"covariance of block 'a' is not symmetric and positive definite.*Remedies",
        ),
        ({"covariance": {"a": np.eye(3) + np.eye(3, k=1) / 2, "b": np.eye(4)}}, r"is not symmetric"),
        ({"covariance": {"a": np.ones((3, 3)), "b": np.eye(4)}}, r"positive definite"),
        ({"eta": 1.0}, r"eta=1\.0 is the threshold of the rule 'threshold'.*set one of them"),
        ({"eta": 1.0, "n_selected": "auto", "whiten": "diagonal"}, r"eta=1\.0 is the threshold of the rule"),
        (
            {"eta": 1.0, "n_components": "threshold", "moments": "all"},
            r"eta is a bound on the proxy of two blocks and one response; here 2 block\(s\), 1 response\(s\), moments \['hessian'",
        ),
    ],
    ids=str,
)
def test_refused_with_rule_and_remedy(data, options, message):
    X, y, _, _ = data
    with pytest.raises(ValueError, match=message):
        JointReduction(**{"n_components": 1, "blocks": BLOCKS, "moments": "joint", **options}).fit(X, y)
    if "eta" not in options or options.get("moments") != "all":
        with pytest.raises(ValueError, match=message):
            JointReduction(
                **{"n_components": 1, "blocks": BLOCKS, "moments": "joint", **options}
            ).partial_fit(X, y)


def test_rank_test_and_several_responses(data):
    X, y, mean, _ = data
    with pytest.raises(ValueError, match="rank_test whitens permuted rows by their own means"):
        known(mean=mean).rank_test(X, y)
    with pytest.raises(ValueError, match=r"here 2 block\(s\), 2 response\(s\)"):
        known("threshold", eta=1.0).fit(X, np.stack([y, y**2], axis=1))
