"""Some rows with labels: their own law with a leave-one-out ridge, and beyond it the widest directions of all rows."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.linalg import sqrtm

from colspace import SteinReduction
from colspace.datasets import make_multiple_response
from colspace.metrics import nsee, procrustes_distance
from colspace.reduction._loo import PairedErrors, row_unit
from colspace.reduction._ridge import GRID

KNOWN = np.arange(40) % 2 == 0


def table(kind="numbers", n=40, p=5, seed=3):
    """Columns of unlike units; every other row has a label."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.6 * rng.standard_normal((p, p)))
    X *= np.resize(10.0 ** np.arange(-2, 3), p)
    Z = X / X.std(axis=0)
    Y = np.stack([Z[:, 0] - Z[:, 1], Z[:, 2] + 0.3 * Z[:, 0]], axis=1) + 0.7 * rng.standard_normal((n, 2))
    if kind == "labels":
        Y = np.array(["a", "b", "c"])[np.digitize(Y[:, 0], np.quantile(Y[:, 0], [0.3, 0.7]))].astype(object)
        Y[1::2] = None
    else:
        Y[1::2] = np.nan
    return X, Y


def responses(Y, kind):
    """Standardised numbers, or indicators of unit covariance."""
    if kind == "numbers":
        return (Y - Y.mean(axis=0)) / Y.std(axis=0)
    D = (Y[:, None] == np.unique(Y)) * 1.0
    U, s, _ = np.linalg.svd(D - D.mean(axis=0), full_matrices=False)
    return U[:, s > 1e-9 * s[0]] * np.sqrt(len(D))


def ridge_of_refits(Z, V):
    """The heaviest ridge within a standard error of the least when every row is left out in turn, the penalty n lambda kept."""
    n, p = Z.shape
    values = np.linalg.eigvalsh(np.cov(Z.T, bias=True))
    ridges = GRID * values.sum() / np.count_nonzero(values > 1e-10 * values[-1])
    D = np.column_stack([np.ones(n), Z])
    errors = np.zeros((len(ridges), n))
    for k, ridge in enumerate(ridges):
        for i in range(n):
            rest = np.arange(n) != i
            penalty = n * ridge * np.diag(np.r_[0.0, np.ones(p)])
            B = np.linalg.solve(D[rest].T @ D[rest] + penalty, D[rest].T @ V[rest])
            errors[k, i] = np.sum((V[i] - D[i] @ B) ** 2)
    gap = errors - errors[errors.sum(axis=1).argmin()]
    within = gap.mean(axis=1) <= gap.std(axis=1) / np.sqrt(n)
    return ridges[np.flatnonzero(within).max()], ridges[errors.sum(axis=1).argmin()]


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_the_ridge_is_that_of_refits(kind):
    heavier = []
    for seed in range(3, 6):
        X, Y = table(kind, seed=seed)
        expected, least = ridge_of_refits((X / X.std(axis=0))[KNOWN], responses(Y[KNOWN], kind))
        assert SteinReduction(2).fit(X, Y).ridge_ == pytest.approx(expected)
        heavier.append(expected > least)
    assert any(heavier)
    plain = ridge_of_refits(X[KNOWN], responses(Y[KNOWN], kind))[0] / X.var(axis=0).mean()
    assert SteinReduction(2, standardize=False).fit(X, Y).ridge_ == pytest.approx(plain)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("whiten", ["auto", False])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_directions_by_their_formula(kind, whiten, standardize):
    X, Y = table(kind)
    if not standardize:
        X = X / X.std(axis=0) * [1.0, 2.0, 1.0, 0.5, 1.5]
    scale = X.std(axis=0) if standardize else np.ones(5)
    unit = 1.0 if standardize else X.var(axis=0).mean()
    Z, V = (X - X.mean(axis=0)) / scale, responses(Y[KNOWN], kind)
    C, own = np.cov(Z.T, bias=True), np.cov(Z[KNOWN].T, bias=True)
    models = [
        SteinReduction(h, whiten=whiten, standardize=standardize).fit(X, Y) for h in range(1, 6)
    ]  # no word of directions beyond the responses
    metric = own + models[0].ridge_ * unit * np.eye(5)
    M = np.linalg.solve(metric, (Z[KNOWN] - Z[KNOWN].mean(axis=0)).T @ V / 20)
    root = np.eye(5) if whiten is False else sqrtm(metric).real
    U, s, _ = np.linalg.svd(root @ M, full_matrices=False)
    shown = np.linalg.solve(root, U)
    Q = np.linalg.qr(shown)[0]
    rest = np.eye(5) - Q @ Q.T
    beside = np.linalg.eigh(rest @ C @ rest)[1][:, ::-1]
    expected = np.hstack([shown, beside[:, :3]])
    for h, model in enumerate(models, 1):
        assert nsee([expected[:, :h] / scale[:, None]], [model.components_.T]) < 1e-8
        assert_allclose(model.singular_values_, np.r_[s, np.zeros(3)][:h], rtol=1e-8)
        assert (model.unlabeled_weight_, model.n_labeled_) == (0.0, 20)
        assert_allclose(np.linalg.norm(root @ (model.components_ * scale).T, axis=0), 1.0)
    score = models[1].score_model_
    assert_allclose(score.precision_ * scale * scale[:, None], np.linalg.inv(metric), rtol=1e-8, atol=1e-10)
    assert_allclose(score.location_, X[KNOWN].mean(axis=0))


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_one_result_from_every_kind_of_table(kind, tmp_path, monkeypatch):
    X, Y = table(kind)
    model = SteinReduction(3).fit(X, Y)
    monkeypatch.setattr("colspace.reduction._loo.CHUNK_BYTES", 1)
    np.save(tmp_path / "x.npy", X)
    turned = np.random.default_rng(0).permutation(40)
    lazy = da.from_array(Y, chunks=(13, 2) if kind == "numbers" else 13)
    units = 10.0 ** np.arange(-3, 2)
    others = {
        "csr": SteinReduction(3).fit(sparse.csr_array(X), Y),
        "memmap": SteinReduction(3).fit(np.load(tmp_path / "x.npy", mmap_mode="r"), Y),
        "dask": SteinReduction(3).fit(da.from_array(X, chunks=(13, 5)), lazy),
        "order": SteinReduction(3).fit(X[turned], Y[turned]),
        "fractions": SteinReduction(3).fit(X, Y, sample_weight=np.full(40, 1 / 40)),
    }
    for name, other in others.items():
        assert other.ridge_ == pytest.approx(model.ridge_), name
        assert_allclose(other.components_, model.components_, rtol=1e-6, atol=1e-9, err_msg=name)
    other = SteinReduction(3).fit(X * units, Y)
    assert_allclose(np.abs(other.components_ * units), np.abs(model.components_), rtol=1e-6, atol=1e-9)
    w = np.r_[np.full(11, 2.0), np.zeros(3), np.ones(26)]
    rows = np.repeat(np.arange(40), w.astype(int))
    weighted, copies = SteinReduction(3).fit(X, Y, w), SteinReduction(3).fit(X[rows], Y[rows])
    lazy = SteinReduction(3).fit(da.from_array(X, chunks=(13, 5)), lazy, da.from_array(w, chunks=13))
    for other in (weighted, lazy):
        assert other.ridge_ == pytest.approx(copies.ridge_)
        assert_allclose(other.components_, copies.components_, rtol=1e-6, atol=1e-9)


def test_rows_left_out_are_counted_among_the_labelled():
    w = np.where(KNOWN, 3.0, 0.7)
    y = np.where(KNOWN, 1.0, np.nan)
    assert row_unit(w, y) == 3.0
    assert row_unit(da.from_array(w, chunks=7), da.from_array(y, chunks=7)) == 3.0
    X, Y = table()
    heavy = np.where(KNOWN, 1.0, 0.05)
    scale = np.sqrt(np.average((X - np.average(X, axis=0, weights=heavy)) ** 2, axis=0, weights=heavy))
    expected = ridge_of_refits((X / scale)[KNOWN], responses(Y[KNOWN], "numbers"))[0]
    assert SteinReduction(2).fit(X, Y, heavy).ridge_ == pytest.approx(expected)


@pytest.mark.parametrize("standardize", [True, False])
def test_fewer_rows_than_columns(standardize):
    """On the span of the rows, as with all columns and the same ridge."""
    X, Y = table(p=60)
    if not standardize:
        X = X / X.std(axis=0)
    model = SteinReduction(4, standardize=standardize).fit(X, Y)
    assert model.score_model_ is None
    scale = X.std(axis=0) if standardize else np.ones(60)
    unit = 1.0 if standardize else X.var(axis=0).mean()
    Z, V = (X - X.mean(axis=0)) / scale, responses(Y[KNOWN], "numbers")
    assert model.ridge_ * unit == pytest.approx(ridge_of_refits(Z[KNOWN], V)[0])
    own = Z[KNOWN] - Z[KNOWN].mean(axis=0)
    metric = own.T @ own / 20 + model.ridge_ * unit * np.eye(60)
    root = sqrtm(metric).real
    U = np.linalg.svd(root @ np.linalg.solve(metric, own.T @ V / 20), full_matrices=False)[0]
    Q = np.linalg.qr(np.linalg.solve(root, U))[0]
    rest = np.eye(60) - Q @ Q.T
    widest = np.linalg.eigh(rest @ (Z.T @ Z / 40) @ rest)[1][:, ::-1][:, :2]
    assert nsee([np.hstack([Q, widest]) / scale[:, None]], [model.components_.T]) < 1e-7


def test_columns_that_vary_only_without_labels():
    X, Y = table()
    X[KNOWN, 3] = 1.0
    model = SteinReduction(2).fit(X, Y)
    assert np.isfinite(model.components_).all()
    assert_allclose(model.components_[:, 3] * X[:, 3].std(), 0.0, atol=1e-12)
    third = SteinReduction(5).fit(X, Y).components_
    assert abs(third[:, 3]).max() > 0


@pytest.mark.parametrize(
    "options", [{"order": 2}, {"order": "both"}, {"unlabeled_weight": 0.3}, {"unlabeled_weight": 0.0}]
)
def test_where_labelled_rows_have_no_law_of_their_own(options):
    X, Y = table()
    both = [SteinReduction(1, score_model=s, **options).fit(X, Y) for s in ("ridge", "gaussian")]
    np.testing.assert_array_equal(both[0].components_, both[1].components_)
    assert both[0].ridge_ == pytest.approx((1 + np.sqrt(5 / 40)) ** 2)


def test_three_labels_are_too_few():
    X, Y = table()
    Y[6:] = np.nan
    both = [SteinReduction(1, score_model=s).fit(X, Y) for s in ("ridge", "gaussian")]
    np.testing.assert_array_equal(both[0].components_, both[1].components_)


def test_a_stream_has_the_published_law():
    X, Y = table()
    stream = SteinReduction(2)
    with pytest.warns(UserWarning, match="its ridge is that of score_model='gaussian'"):
        stream.partial_fit(X[:17], Y[:17])
    stream.partial_fit(X[17:], Y[17:])
    whole = SteinReduction(2, score_model="gaussian").fit(X, Y)
    assert_allclose(stream.components_, whole.components_, rtol=1e-7, atol=1e-9)
    assert stream.ridge_ == whole.ridge_


@pytest.mark.parametrize("rule", ["auto", "moments"])
def test_number_of_directions(rule):
    X, Y, _ = make_multiple_response(600, 8, 6, 2, links="linear", rng=0)
    Y[150:] = np.nan
    model = SteinReduction(rule).fit(X, Y)
    assert model.n_components_ == 2
    assert_allclose(model.components_, SteinReduction(2).fit(X, Y).components_)


def test_errors_of_the_directions_are_of_the_right_size():
    """Expected and true error agree within a factor of two on average over 20 tables."""
    ratios = []
    for seed in range(20):
        X, Y, B = make_multiple_response(1500, 8, 4, 1, links="linear", rng=seed)
        Y[300:] = np.nan
        model = SteinReduction(1).fit(X, Y)
        ratios.append(model.expected_error_ / nsee([B], [model.components_.T]))
    assert 0.5 < np.median(ratios) < 2.0


@pytest.mark.parametrize("law", ["gaussian", "student"])
def test_few_labels_say_more_by_their_own_law(law):
    """Linear links, 100 of 2,000 rows with labels: less than half the distance of the law of all rows."""
    found = []
    for seed in range(4):
        X, Y, B = make_multiple_response(2000, 30, 20, 3, law=law, links="linear", rng=seed)
        Y[100:] = np.nan
        models = [SteinReduction(3, score_model=s, n_groups=None).fit(X, Y) for s in ("ridge", "gaussian")]
        found.append([procrustes_distance(B, m.components_.T) for m in models])
    own, common = np.mean(found, axis=0)
    assert own < 0.5 * common


@pytest.mark.parametrize(
    ("second", "weights", "heavier"),
    [
        ([1.0, 3.0], [1.0, 1.0], False),  # 1 more on average, standard error 1/sqrt(2)
        ([0.5, 2.5], [1.0, 1.0], True),  # 1/2 more
        ([1.0, 3.0], [3.0, 1.0], True),  # 1/2 more, standard error sqrt(3/8)
    ],
)
def test_heaviest_within_a_standard_error(second, weights, heavier):
    E, w = np.array([[1.0, 1.0], second]), np.array(weights)
    sums = PairedErrors(E @ w, (E * w) @ E.T, float(w.sum()))
    assert sums.heaviest(np.array([0.1, 10.0]), 2.0) == (10.0 if heavier else 0.1)
