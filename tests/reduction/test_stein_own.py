"""Second order without labels, and with some: the columns as responses, as the formulas after (2.12) of the paper have it."""

import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from colspace import SteinReduction
from colspace.metrics import nsee
from colspace.reduction import _stein_plan
from colspace.scores import GaussianScore, ScoreModel, StudentScore

SKEWED = "the directions are those in which the columns are skewed"
PAPER = {"order": 2, "combine": "mean", "standardize": False, "whiten": False, "whiten_response": False}
SEMI = {**PAPER, "unlabeled_weight": "paper", "score_model": GaussianScore()}


class Hidden(ScoreModel):
    """A Gaussian score that takes the route of any score."""

    def fit(self, X, y=None, sample_weight=None):
        self.inner_ = GaussianScore().fit(X, sample_weight=sample_weight)
        self.n_features_in_ = X.shape[1]
        return self

    def score_function(self, X):
        return self.inner_.score_function(X)

    def second_moment(self, X, weights):
        return self.inner_.second_moment(X, weights)


def table(n=40, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_exponential((n, p)) @ (
        np.eye(p) + 0.3 * rng.standard_normal((p, p))
    ) + rng.standard_normal(p)
    Y = np.stack([X[:, 0] ** 2, X[:, 1] * X[:, 2]], axis=1)
    Y[n // 2 :] = np.nan
    return X, Y


def second_scores(X, law=None, ridge=0.0):
    """T(x_i) = P d d' P - P row by row, p x p each."""
    law = X if law is None else law
    P = np.linalg.inv(np.cov(law.T, bias=True) + ridge * np.eye(X.shape[1]))
    return [P @ np.outer(x, x) @ P - P for x in X - law.mean(axis=0)]


def leading(M, r):
    values, vectors = np.linalg.eigh(M)
    return vectors[:, np.argsort(-np.abs(values))[:r]]


def same(model, U, tol=1e-8):
    return nsee([U], [model.components_.T]) < tol


def unsupervised(options, X, **kw):
    with pytest.warns(UserWarning, match=SKEWED):
        return SteinReduction(**options).fit(X, **kw)


def test_without_labels_as_printed():
    """Eigenvectors of 1/(np) sum_i sum_j x_ij T(x_i), by loops over rows and columns."""
    X, _ = table()
    n, p = X.shape
    T = second_scores(X)
    M = np.zeros((p, p))
    for i in range(n):
        for j in range(p):
            M += X[i, j] * T[i] / (n * p)
    for r in (1, 2):
        found = unsupervised({"n_components": r, "score_model": GaussianScore(), **PAPER}, X)
        assert same(found, leading(M, r))
        np.testing.assert_allclose(
            found.singular_values_, np.sort(np.abs(np.linalg.eigvalsh(M)))[::-1][:r], rtol=1e-9
        )
    again = SteinReduction(2, score_model=GaussianScore(), **PAPER).fit(X, X)  # y = x, as the paper says it
    assert same(again, leading(M, 2))


def test_with_some_labels_as_printed():
    """1/(nq) sum_i sum_j y_ij T(x_i) over labelled rows plus 1/(Np) sum_i sum_j x_ij T(x_i) over all: a sum, not side by side."""
    X, Y = table()
    Y[:20] -= Y[:20].mean(axis=0)  # the library centres responses
    T = second_scores(X)
    M = np.zeros((3, 3))
    for i in range(20):
        for j in range(2):
            M += Y[i, j] * T[i] / (20 * 2)
    for i in range(40):
        for j in range(3):
            M += X[i, j] * T[i] / (40 * 3)
    for r in (1, 2):
        found = SteinReduction(r, **SEMI).fit(X, Y)
        assert same(found, leading(M, r))
        assert found.unlabeled_weight_ == "paper"
    np.testing.assert_allclose(
        found.singular_values_, np.sort(np.abs(np.linalg.eigvalsh(M)))[::-1][:2], rtol=1e-9
    )


def test_side_by_side_and_both_orders():
    """combine="stack": every response's and every column's matrix; "both": first moments beside them."""
    X, Y = table()
    known, T = np.arange(40) < 20, np.array(second_scores(X))
    V, Z = Y[known] - Y[known].mean(axis=0), X - X.mean(axis=0)
    second = [np.einsum("n,nab->ab", v, T[known]) / 20 for v in V.T]
    own = [np.einsum("n,nab->ab", z, T) / 40 for z in Z.T]
    S = Z @ np.linalg.inv(np.cov(X.T, bias=True))
    options = {**SEMI, "combine": "stack"}
    U = np.linalg.svd(np.hstack(second + own))[0]
    assert same(SteinReduction(2, **options).fit(X, Y), U[:, :2])
    first = [S[known].T @ V / 20, S.T @ Z / 40]
    U = np.linalg.svd(np.hstack(first + second + own))[0]
    assert same(SteinReduction(2, **{**options, "order": "both"}).fit(X, Y), U[:, :2])
    summed = sum(second) / 2 + sum(own) / 3
    U = np.linalg.svd(np.hstack([*first, summed]))[0]
    assert same(SteinReduction(2, **{**SEMI, "order": "both"}).fit(X, Y), U[:, :2])
    alone = {**PAPER, "combine": "stack", "score_model": GaussianScore(), "n_components": 2}
    assert same(unsupervised(alone, X), np.linalg.svd(np.hstack(own))[0][:, :2])
    U = np.linalg.svd(np.hstack([S.T @ Z / 40, *own]))[0]
    assert same(unsupervised({**alone, "order": "both"}, X), U[:, :2])


def test_standardised_columns_are_responses_in_their_deviations():
    X, _ = table()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for combine in ("stack", "mean"):
        options = {**PAPER, "combine": combine, "score_model": GaussianScore(ridge=0.5), "n_components": 1}
        plain, scaled = (
            unsupervised(options, Z),
            unsupervised({**options, "standardize": True}, X * [1, 1e3, 1e-3]),
        )
        np.testing.assert_allclose(
            scaled.transform(X * [1, 1e3, 1e-3]), plain.transform(Z), rtol=1e-7, atol=1e-9
        )


@pytest.mark.parametrize(
    ("combine", "standardize", "labels"),
    [("stack", True, True), ("mean", True, False), ("mean", False, True), ("stack", False, False)],
)
def test_streams_containers_weights_and_any_score(combine, standardize, labels):
    """One result from arrays, CSR, Dask, chunks, integer weights and the route of any score."""
    X, Y = table(120, 4)
    y = Y if labels else None
    options = {"combine": combine, "standardize": standardize, "unlabeled_weight": "paper", "whiten": False}
    options = {**options, "order": 2, "score_model": GaussianScore(), "n_components": 2}

    def fit(X, y, **kw):
        return SteinReduction(**options).fit(X, y, **kw) if labels else unsupervised(options, X, **kw)

    expected = fit(X, y).components_
    w = np.arange(120) % 3
    heavy = fit(X, y, sample_weight=w).components_
    for table_of in (sparse.csr_array, lambda x: da.from_array(x, chunks=(50, 4))):
        Xt = table_of(X)
        yt = da.from_array(y, chunks=(50, 2)) if labels and hasattr(Xt, "chunks") else y
        np.testing.assert_allclose(fit(Xt, yt).components_, expected, atol=1e-8)
        wt = da.from_array(w, chunks=50) if hasattr(Xt, "chunks") else w
        np.testing.assert_allclose(fit(Xt, yt, sample_weight=wt).components_, heavy, atol=1e-8)
    repeated = np.repeat(np.arange(120), w)
    np.testing.assert_allclose(
        fit(X[repeated], None if y is None else y[repeated]).components_, heavy, atol=1e-8
    )
    stream = SteinReduction(**options)
    for i in range(0, 120, 40):
        if labels:
            stream.partial_fit(X[i : i + 40], Y[i : i + 40] if i else Y[:40])
        else:
            with pytest.warns(UserWarning, match=SKEWED):
                stream.partial_fit(X[i : i + 40])
    np.testing.assert_allclose(stream.components_, expected, atol=1e-8)
    options["score_model"] = Hidden()
    np.testing.assert_allclose(fit(X, y).components_, expected, atol=1e-8)
    np.testing.assert_allclose(fit(X, y, sample_weight=w).components_, heavy, atol=1e-8)


def test_student_score_by_its_formula():
    X, Y = table(60)
    S, mu, nu, p = np.cov(X.T, bias=True), X.mean(axis=0), 6.0, 3
    law = StudentScore(df=nu, location=mu, covariance=S)
    T, P = [], np.linalg.inv(S)
    for d in X - mu:
        q = nu - 2 + d @ P @ d
        T.append(((p + nu) * (p + nu + 2) * P @ np.outer(d, d) @ P - (p + nu) * q * P) / q**2)
    T, known = np.array(T), ~np.isnan(Y[:, 0])
    own = np.einsum("n,nab->ab", (X - mu).mean(axis=1), T) / 60
    labelled = np.einsum("n,nab->ab", (Y[known] - Y[known].mean(axis=0)).mean(axis=1), T[known]) / 30
    assert same(SteinReduction(2, **{**SEMI, "score_model": law}).fit(X, Y), leading(labelled + own, 2))
    assert same(unsupervised({**PAPER, "score_model": law, "n_components": 2}, X), leading(own, 2))


@pytest.mark.parametrize("combine", ["stack", "mean"])
@pytest.mark.parametrize("standardize", [True, False])
def test_fewer_rows_than_columns(combine, standardize):
    """In coordinates of the rows' span the columns' mean and their matrices side by side are the same."""
    X, _ = table(9, 14)
    Z = (X - X.mean(axis=0)) / (X.std(axis=0) if standardize else 1.0)
    ridge = 2.0 * (1.0 if standardize else X.var(axis=0).mean())
    T = np.array(second_scores(Z, ridge=ridge))
    own = [np.einsum("n,nab->ab", z, T) / 9 for z in Z.T]
    M = np.hstack(own) if combine == "stack" else sum(own) / 14
    U = np.linalg.svd(M)[0][:, :2] / (X.std(axis=0) if standardize else np.ones(14))[:, None]
    options = {
        **PAPER,
        "combine": combine,
        "standardize": standardize,
        "score_model": GaussianScore(ridge=2.0),
    }
    assert same(unsupervised({**options, "n_components": 2}, X), U, 1e-7)


# ---------------------------------------------------------------- what it finds


def skewed(n, seed):
    """Eight columns: skewed along b, symmetric and wide elsewhere; y bends along c."""
    rng = np.random.default_rng(seed)
    b, c = np.repeat([0.5, 0.0], 4), np.array([0, 0, 0, 0, 1.0, 0, 0, 0])
    X = rng.standard_normal((n, 8)) * [1, 1, 1, 1, 1, 3, 3, 3]
    X += np.outer(rng.standard_exponential(n) - 1 - X @ b, b)
    return X, np.cos(2 * X @ c), b, c


def test_unlabelled_second_order_finds_skewness_and_pca_does_not():
    X, _, b, _ = skewed(4000, 0)
    for combine in ("stack", "mean"):
        found = unsupervised({"n_components": 1, "order": 2, "combine": combine}, X)
        assert nsee([b[:, None]], [found.components_.T]) < 0.15
    with pytest.warns(UserWarning, match="those of PCA"):
        assert nsee([b[:, None]], [SteinReduction(1, standardize=False).fit(X).components_.T]) > 0.9


def test_labelled_and_unlabelled_rows_find_both_directions():
    X, y, b, c = skewed(8000, 1)
    y[4000:] = np.nan
    truth = [np.stack([b, c], axis=1)]
    for combine in ("stack", "mean"):
        options = {"order": 2, "combine": combine, "score_model": GaussianScore()}
        semi = SteinReduction(2, unlabeled_weight="paper", **options).fit(X, y)
        labelled = SteinReduction(2, unlabeled_weight=0.0, **options).fit(X, y)
        assert nsee(truth, [semi.components_.T]) < 0.2
        assert nsee(truth, [labelled.components_.T]) > 0.5


def test_error_bars_are_of_the_right_size():
    """Expected NSEE by groups of rows beside that over fresh tables."""
    found, expected = [], []
    for seed in range(12):
        X, _, b, _ = skewed(3000, 100 + seed)
        model = unsupervised({"n_components": 1, "order": 2, "combine": "mean"}, X)
        found.append(nsee([b[:, None]], [model.components_.T]))
        expected.append(model.expected_error_)
        assert np.isfinite(model.components_error_).all()
    assert 0.5 < np.median(expected) / np.median(found) < 2.0


def test_too_many_columns_for_one_matrix_each(monkeypatch):
    X, Y = table()
    monkeypatch.setattr(_stein_plan, "MOST_BYTES", 8 * 3**3 - 1)
    with pytest.raises(
        ValueError, match=r"a 3 x 3 matrix for each of the 3 columns.*Remedies: combine='mean'"
    ):
        SteinReduction(1, order=2).fit(X)
    unsupervised({"n_components": 1, "order": 2, "combine": "mean"}, X)
    SteinReduction(1, order=2, score_model="gaussian").fit(X, Y)  # labels have matrices of their own
