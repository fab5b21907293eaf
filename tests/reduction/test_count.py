"""n_components="auto": the number of directions that a reader of rows left out can tell from fewer."""

import warnings

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge

from colspace import JointReduction, SteinReduction
from colspace.datasets import make_bilinear
from colspace.factor import SingularCovarianceError
from colspace.reduction import _count, _count_rows
from colspace.reduction._count import (
    deal_folds,
    held_out_count,
    least_within_error,
    quadratic_terms,
    reader_losses,
    ridge_by_gcv,
    standard_error,
)
from colspace.reduction._count_rows import row_ranks, smallest


def table(seed, kind, rank, m=400, p=10):
    """Columns with a signal of this rank in them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, p)) * np.arange(1, p + 1) + 5.0
    Z = (X - 5.0) / np.arange(1, p + 1) @ np.linalg.qr(rng.standard_normal((p, 3)))[0][:, :rank]
    if rank == 0:
        return X, rng.standard_normal(m)
    if kind == "linear":
        return X, Z + 0.7 * rng.standard_normal(Z.shape)
    return X, (Z**2).sum(axis=1) + 0.5 * rng.standard_normal(m)


# ---------------------------------------------------------------- formulas


def test_gcv_ridge_is_the_best_of_its_grid():
    rng = np.random.default_rng(0)
    n, k = 60, 8
    F = rng.standard_normal((n, k)) @ rng.standard_normal((k, k))
    F -= F.mean(axis=0)
    V = F[:, :2] * 0.1 + rng.standard_normal((n, 2))
    V -= V.mean(axis=0)
    B = ridge_by_gcv(F.T @ F / n, F.T @ V / n, float(np.sum(V**2)) / n, n)
    errors, fits = [], []
    for ridge in _count._RIDGES:
        hat = F @ np.linalg.solve(F.T @ F + n * ridge * np.eye(k), F.T)
        freedom = 1 - (1 + np.trace(hat)) / n
        errors.append(np.sum((V - hat @ V) ** 2) / n / freedom**2)
        fits.append(Ridge(alpha=n * ridge, fit_intercept=False).fit(F, V).coef_.T)
    assert 0 < np.argmin(errors) < len(errors) - 1
    np.testing.assert_allclose(B, fits[int(np.argmin(errors))], rtol=1e-8)


def test_readers_losses_by_hand():
    rng = np.random.default_rng(1)
    Z, Z_test = rng.standard_normal((300, 2)), 0.5 * rng.standard_normal((40, 2))
    V = (Z[:, [0]] * Z[:, [1]]) * 2.0 + Z[:, [0]]
    V_test = (Z_test[:, [0]] * Z_test[:, [1]]) * 2.0 + Z_test[:, [0]]
    losses = reader_losses([Z], V, np.ones(300), [Z_test], V_test, 2)
    assert losses.shape == (2, 2, 40)
    assert losses[1, 1].max() < 1e-4  # the product is seen by the quadratic reader,
    assert losses[0, 1].mean() > 0.1  # not by the linear one,
    assert losses[1, 0].mean() > 0.1  # and by nobody from one direction
    flat = np.column_stack([np.ones(300), Z[:, 0]])
    assert np.isfinite(reader_losses([flat], V, np.ones(300), [flat[:40]], V[:40], 2)).all()


def test_weights_of_the_readers_are_copies():
    rng = np.random.default_rng(2)
    Z, V, w = rng.standard_normal((80, 3)), rng.standard_normal((80, 1)), np.repeat([1.0, 3.0], 40)
    more = reader_losses([Z], V, 7 * w, [Z], V, 3)
    np.testing.assert_allclose(reader_losses([Z], V, w, [Z], V, 3), more, rtol=1e-10)  # units play no part
    V[40:] = V[:40] + Z[:40, :1]
    Z[40:] = Z[:40]
    heavy = reader_losses([Z], V, w, [Z], V, 1)[0, 0]
    line = np.linalg.lstsq(
        np.sqrt(w)[:, None] * np.column_stack([Z[:, 0], np.ones(80)]), np.sqrt(w)[:, None] * V, rcond=None
    )
    plain = np.sum((V - np.column_stack([Z[:, 0], np.ones(80)]) @ line[0]) ** 2, axis=1)
    assert abs(w @ heavy / (w @ plain) - 1) < 0.05


def test_terms_of_the_quadratic_reader():
    level = np.array([1, 2, 3, 1, 2, 3])  # two blocks of three
    terms = quadratic_terms(level, 3, 14)
    assert terms.kinds == (2, 2, 1)
    assert [len(terms.upto(h)) for h in (1, 2, 3)] == [5, 14, 12]
    assert quadratic_terms(level, 3, 7).kinds == (2, 0, 0)
    left, right = terms.pairs
    kept = terms.upto(1)
    assert {(int(left[i - 6]), int(right[i - 6])) for i in kept[kept >= 6]} == {(0, 0), (0, 3), (3, 3)}


def test_standard_errors_and_the_rule():
    rng = np.random.default_rng(3)
    losses, w = rng.random((4, 50)), np.ones(50)
    np.testing.assert_allclose(standard_error(losses, w), losses.std(axis=1, ddof=1) / np.sqrt(50))
    np.testing.assert_allclose(standard_error(losses, 5 * w), standard_error(losses, w))
    noise = rng.standard_normal(50)
    noise = (noise - noise.mean()) / noise.std(ddof=1) * np.sqrt(50)  # its mean has a standard error of one
    losses = np.array([np.full(50, 300.0), noise + 100.9, np.full(50, 100.0), noise + 100.3])
    found, mean, _, difference = least_within_error(losses, w)
    np.testing.assert_allclose(difference, [0.0, 1.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(mean, [300.0, 100.9, 100.0, 100.3])
    assert found == 1  # a gap of .9, under one error
    losses[1] += 0.2
    losses[3] += 1.0
    losses[0] = 110.0  # 1 % of the gain is .1
    assert least_within_error(losses, w)[0] == 2
    losses[0] = 300.0
    losses[1] = 101.5  # no error at all, but less than 1 % of the gain of 200
    assert least_within_error(losses, w)[0] == 1
    losses[0] = 100.0
    assert least_within_error(losses, w)[0] == 0


def test_count_of_known_directions():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 4))
    Y = X[:, :2] @ rng.standard_normal((2, 2)) + 0.3 * rng.standard_normal((200, 2))
    seen = []

    def fit_directions(train):
        seen.append(train)
        return lambda rows: [X[rows]]

    folds = deal_folds(None, 200)
    count = held_out_count(fit_directions, Y, None, folds, 4)
    assert count.n_components == 2
    assert count.score[0] == pytest.approx(0.0, abs=1e-12)
    assert [len(t) for t in seen] == [160] * 5
    errors = np.zeros(200)
    for k in range(5):  # least squares, as the ridge is next to nothing here
        train = folds != k
        A = np.column_stack([X[:, :2], np.ones(200)])
        V = (Y - Y.mean(axis=0)) / Y.std(axis=0)
        B = np.linalg.lstsq(A[train], V[train], rcond=None)[0]
        errors[~train] = np.sum((V - A @ B)[~train] ** 2, axis=1)
    assert count.score[2] == pytest.approx(1 - errors.mean() / 2, abs=2e-3)
    assert count.error[2] == pytest.approx(errors.std() / np.sqrt(200) / 2, rel=0.05)
    assert count.difference_error[np.argmax(count.score)] == 0.0


def test_folds_are_stratified_and_keep_single_rows():
    classes = np.array([0] * 12 + [1] * 5 + [2])
    folds = deal_folds(classes, 18)
    assert folds[-1] == -1
    for c, least in ((0, 2), (1, 1)):
        assert np.bincount(folds[classes == c], minlength=5).min() == least


def test_places_of_rows_with_equal_keys():
    X = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [0.0, 2.0], [1.0, 1.0]])
    Y = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])
    keys = np.array([9, 9, 9, 4, 9], dtype=np.uint64)
    for kind in (np.asarray, sparse.csr_array):
        ranks = row_ranks(keys, kind(X), Y)
        assert ranks[3] == 0
        assert ranks[0] == ranks[2]
        assert sorted(set(ranks.tolist())) == [0, 1, 2, 3]
    assert smallest(keys, 1).tolist() == [3]
    assert smallest(keys, 2).tolist() == [0, 3]  # keys too few: any rows


# ---------------------------------------------------------------- estimators


@pytest.mark.parametrize(("kind", "rank"), [("linear", 1), ("linear", 3), ("quadratic", 1), ("quadratic", 2)])
def test_finds_the_rank(kind, rank):
    X, y = table(0, kind, rank)
    model = JointReduction("auto").fit(X, y)
    assert model.n_components_ == rank == len(model.components_)
    assert set(model.parts_) == {"linear", "gradients", "moments"}  # the recipe for any table, not "all"
    scores = model.component_scores_
    assert {name: v.shape for name, v in scores.items()} == dict.fromkeys(
        ("score", "error", "difference_error"), (11,)
    )
    assert abs(scores["score"][0]) < 1e-12
    assert scores["score"][rank] > 0.3
    same = JointReduction(rank).fit(X, y)
    np.testing.assert_allclose(model.components_, same.components_, rtol=1e-12)
    assert not hasattr(same, "component_scores_")
    assert not hasattr(model.set_params(n_components=2).fit(X, y), "component_scores_")


def test_without_signal_one_is_kept_and_said():
    X, y = table(0, "", 0)
    for model in (JointReduction("auto"), JointReduction("auto", moments="all"), SteinReduction("auto")):
        with pytest.warns(UserWarning, match="no direction improves the prediction of y"):
            assert model.fit(X, y).n_components_ == 1


@pytest.mark.parametrize(
    "options",
    [
        {"moments": "all"},
        {"moments": "joint"},
        {"moments": "all", "shrinkage": "auto"},
        {"whiten": "diagonal", "n_selected": 4},
        {"moments": "joint", "solver": "randomized", "random_state": 0},
        {"moments": "tensor"},
        {},
    ],
)
def test_counts_with_any_moments_and_solver(options):
    X, y, blocks, _ = make_bilinear(1500, 6, 2, rng=1)
    model = JointReduction("auto", blocks=blocks, **options).fit(X, y)
    assert model.n_components_ == 2
    assert model.loadings_["a"].shape == (6, 2)
    published = any(name in options for name in ("moments", "whiten"))
    assert hasattr(model, "parts_") != published
    assert len(model.component_scores_["score"]) == 1 + (4 if "n_selected" in options else 6)


def test_first_order_moments_show_no_more_directions_than_responses():
    X, Y = table(1, "linear", 3)
    y = Y.sum(axis=1)
    assert len(JointReduction("auto", moments="linear").fit(X, y).component_scores_["score"]) == 2
    assert len(SteinReduction("auto").fit(X, y).component_scores_["score"]) == 2
    assert len(SteinReduction("auto").fit(X, Y).component_scores_["score"]) == 4


def test_containers_order_and_units_change_nothing(monkeypatch):
    X, y = table(2, "quadratic", 2, m=300, p=5)
    X[np.abs(X - 5.0) < 1.0] = 0.0
    one = JointReduction("auto").fit(X, y)
    expected = one.component_scores_["score"]
    order = np.random.default_rng(0).permutation(300)
    same = {
        "order": (X[order], y[order]),
        "units": (X * 1e3, 7 * y - 2),
        "csr": (sparse.csr_array(X), y),
        "dask": (da.from_array(X, chunks=(77, 5)), da.from_array(y, chunks=77)),
        "chunks": (iter([(X[:100], y[:100]), (X[100:], y[100:])]),),
        "weights": (X, y, np.full(300, 0.5)),
    }
    for name, arguments in same.items():
        model = JointReduction("auto").fit(*arguments)
        np.testing.assert_allclose(model.component_scores_["score"], expected, atol=1e-8, err_msg=name)
        assert model.n_components_ == one.n_components_
    w = np.repeat([1, 2], 150)
    twice = JointReduction("auto").fit(np.repeat(X, w, axis=0), np.repeat(y, w)).component_scores_["score"]
    heavy = JointReduction("auto").fit(X, y, w.astype(float)).component_scores_["score"]
    np.testing.assert_allclose(twice, heavy, atol=1e-8)
    monkeypatch.setattr(_count_rows, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(_count_rows, "_LEAST_ROWS", 50)
    fewer = JointReduction("auto").fit(X, y).component_scores_["score"]
    assert np.abs(fewer - expected).max() > 1e-3
    lazy = JointReduction("auto").fit(*same["dask"]).component_scores_["score"]
    np.testing.assert_allclose(lazy, fewer, atol=1e-8)


def test_stein_weights_are_copies():
    X, Y = table(3, "linear", 3, m=150)
    w = np.repeat([1.0, 2.0], 75)
    one = SteinReduction("auto").fit(X, Y, w)
    two = SteinReduction("auto").fit(np.vstack([X, X[75:]]), np.vstack([Y, Y[75:]]))
    for name in ("score", "error", "difference_error"):
        np.testing.assert_allclose(one.component_scores_[name], two.component_scores_[name], atol=1e-8)
    assert one.n_components_ == two.n_components_ == 3
    assert clone(one).n_components == "auto"
    Y[::2] = np.nan  # unlabelled
    assert SteinReduction("auto").fit(X, Y).n_components_ >= 1


def test_labels_and_rare_classes():
    X, Y = table(4, "linear", 1, m=200)
    y = np.where(Y[:, 0] > 0, "up", "down").astype(object)
    y[0] = "once"
    for model in (JointReduction("auto"), SteinReduction("auto")):
        model.fit(X, y)
        assert model.n_components_ == 1
        assert 0.2 < model.component_scores_["score"][1] < 1.0


def test_small_and_odd_tables():
    rng = np.random.default_rng(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X in (
            rng.standard_normal((5, 2)),
            rng.standard_normal((12, 40)),
            np.repeat(rng.standard_normal((3, 30)), 8, axis=0),
            np.column_stack([np.ones(30), rng.standard_normal(30)]),
            rng.choice([-1.0, 1.0], (64, 3)),
        ):
            y = np.arange(len(X), dtype=float)
            for model in (JointReduction("auto"), SteinReduction("auto"), SteinReduction("auto", order=2)):
                assert model.fit(X, y).n_components_ >= 1
    with pytest.warns(UserWarning, match="fewer than 10 different rows could be left out"):
        model = JointReduction("auto").fit(rng.standard_normal((6, 2)), np.arange(6.0))
    assert len(model.component_scores_["score"]) == 0
    with pytest.raises(
        SingularCovarianceError, match=r"fits on four fifths of the rows, and there: more rows"
    ):
        JointReduction("auto", shrinkage=0.0).fit(rng.standard_normal((40, 36)), np.arange(40.0))
