"""Weights of pairs against tables in which pairs stand as often, units of features, and numbers that overflow."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from test_pair_regressor import small

from colspace import BilinearPairRegressor, JointReduction, PairRegressor, PrincipalHessian, stack_blocks
from colspace.datasets import make_pairs
from colspace.pairs import HeldOutEntities, PairTable, _tune, pair_scorer
from colspace.pairs._bilinear_fit import Objective
from colspace.pairs._links import check_links, read_links
from colspace.pairs._reduce import _row_totals, group_regressions

FIXED = PairRegressor(2, shrinkage=0.2, bandwidth=(0.6, 0.9))


def pieces(seed=0):
    """Entities, scores, what is observed, and whole weights with zeros, mostly one."""
    A, B, Y, observed = small(seed)
    times = np.random.default_rng(seed + 9).choice([0, 1, 1, 1, 2, 3], Y.shape)
    return A, B, Y, observed, times


def repeated(times):
    """Left and right positions of all pairs, each as often as it counts."""
    i, j = np.nonzero(times)
    return np.repeat(i, times[i, j]), np.repeat(j, times[i, j])


@pytest.mark.parametrize("masked", [False, True], ids=["zero-filled", "observed"])
def test_moments_of_weighted_pairs_are_those_of_repeated_pairs(masked):
    A, B, Y, observed, times = pieces()
    mask = observed if masked else None
    i, j = repeated(times * observed if masked else times)
    X, blocks = stack_blocks([A[i], B[j]])
    links = check_links(Y, mask, Y.shape, times)
    assert links.mean == pytest.approx(Y[i, j].mean())
    assert links.deviation == pytest.approx(Y[i, j].std())
    joint = JointReduction(2, blocks=blocks, moments="joint", shrinkage=0.2).fit(X, Y[i, j])
    model = clone(FIXED).fit(A, B, Y, mask, sample_weight=times)
    for side, loadings in zip(("left", "right"), joint.loadings_.values(), strict=True):
        signs = np.sign(np.sum(loadings * model.loadings_[side], axis=0))
        np.testing.assert_allclose(model.loadings_[side] * signs, loadings, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        model.singular_values_["left"], next(iter(joint.singular_values_.values())), rtol=1e-9
    )
    one = clone(FIXED).set_params(reduction="phd").fit(A, B, Y, mask, sample_weight=times)
    alone = PrincipalHessian(2, shrinkage=0.2).fit(A[i], Y[i, j])
    np.testing.assert_allclose(one.singular_values_["left"] * Y[i, j].std(), alone.eigenvalues_, rtol=1e-8)
    both = clone(FIXED).set_params(reduction="cphd", n_components=1).fit(A, B, Y, mask, sample_weight=times)
    hessian = PrincipalHessian(2, shrinkage=0.2).fit(X, Y[i, j])
    np.testing.assert_allclose(both.singular_values_["left"] * Y[i, j].std(), hessian.eigenvalues_, rtol=1e-8)
    found = group_regressions(A, np.arange(len(A)) % 2, *_row_totals(links)[0])
    for g in range(2):
        rows = i % 2 == g
        a, y = A[i[rows]], Y[i[rows], j[rows]]
        expected = (a - a.mean(axis=0)).T @ (y - y.mean()) / len(i)
        np.testing.assert_allclose(found[:, g] / links.count, expected, rtol=1e-8)


@pytest.mark.parametrize("masked", [False, True], ids=["zero-filled", "observed"])
def test_predictions_weigh_repeated_pairs_by_a_loop(masked):
    A, B, Y, observed, times = pieces(1)
    mask = observed if masked else None
    model = clone(FIXED).fit(A, B, Y, mask, sample_weight=times)
    pairs = list(zip(*repeated(times * observed if masked else times), strict=True))
    E, F = model.embedding_["left"], model.embedding_["right"]
    h, g = (model.bandwidth_[s] * model.median_distance_[s] for s in ("left", "right"))
    new = A[:3] + 0.1
    G = model.transform(new)
    scores = model.predict(new)
    for a in range(3):
        for b in range(4):
            weights = [
                np.exp(-np.sum((G[a] - E[p]) ** 2) / (2 * h**2) - np.sum((F[b] - F[q]) ** 2) / (2 * g**2))
                for p, q in pairs
            ]
            expected = np.average([Y[p, q] for p, q in pairs], weights=weights)
            assert scores[a, b] == pytest.approx(expected, rel=1e-9)
    parts = model.explain(0, 1, new, k=None)
    assert parts["contribution"].sum() == pytest.approx(scores[0, 1], rel=1e-9)


@pytest.mark.parametrize("E", [FIXED, BilinearPairRegressor(2, tol=1e-13, max_iter=2000)], ids=repr)
@pytest.mark.parametrize("masked", [False, True], ids=["zero-filled", "observed"])
def test_ones_constants_and_containers(E, masked):
    A, B, Y, observed, times = pieces(2)
    mask = observed if masked else None
    plain = clone(E).fit(A, B, Y, mask).predict(A)
    constant = clone(E).fit(A, B, Y, mask, sample_weight=np.full(Y.shape, 7.0)).predict(A)
    np.testing.assert_array_equal(constant, plain)
    weighted = clone(E).fit(A, B, Y, mask, sample_weight=times).predict(A)
    assert np.abs(weighted - plain).max() > 1e-3
    for same in (0.3 * times, pd.DataFrame(times), PairTable(A, B, Y, mask, times)):
        if isinstance(same, PairTable):
            again = clone(E).fit(same).predict(A)
        else:
            again = clone(E).fit(A, B, Y, mask, sample_weight=same).predict(A)
        np.testing.assert_allclose(again, weighted, rtol=1e-6, atol=1e-9)
    if masked:  # zero is not observed
        absent = clone(E).fit(A, B, Y, observed & (times > 0), sample_weight=times).predict(A)
        np.testing.assert_allclose(absent, weighted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("E", [FIXED, BilinearPairRegressor(2, tol=1e-13, max_iter=2000)], ids=repr)
def test_sparse_weights_belong_to_the_links(E):
    """Pairs that neither table stores count as the lower median of the weights does."""
    A, B, Y, _, times = pieces(3)
    times = np.where(times == 3, 1, times)
    links = sparse.csr_array(Y)
    plain = clone(E).fit(A, B, links).predict(A)
    same = links.copy()
    same.data[:] = 3.0
    np.testing.assert_array_equal(clone(E).fit(A, B, links, sample_weight=same).predict(A), plain)
    weight = sparse.csr_array(5.0 * times * (Y > 0))  # links of weight zero are not stored
    assert np.median(weight.data) == 5.0
    full = np.where(Y > 0, times, 1)
    np.testing.assert_allclose(
        clone(E).fit(A, B, links, sample_weight=weight).predict(A),
        clone(E).fit(A, B, links, sample_weight=full).predict(A),
        rtol=1e-7,
        atol=1e-9,
    )
    observed = clone(E).fit(A, B, links, "observed", sample_weight=weight).predict(A)
    np.testing.assert_allclose(
        observed, clone(E).fit(A, B, Y, (Y > 0) & (times > 0), sample_weight=times).predict(A), rtol=1e-6
    )


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("masked", [False, True], ids=["zero-filled", "observed"])
def test_the_bilinear_objective_sums_repeated_pairs(loss, masked):
    A, B, Y, observed, times = pieces(4)
    Y = np.minimum(Y, 1.0)
    links = read_links(Y, observed if masked else None, Y.shape, times)
    scale = links.count / (times * observed if masked else times).sum()
    objective = Objective(A, B, links, loss, 0.3, 2)
    theta = np.random.default_rng(0).standard_normal((A.shape[1] + B.shape[1]) * 2) / 3
    U, V = np.split(theta.reshape(-1, 2), [A.shape[1]])
    value, gradient = objective(theta)
    expected = 0.15 * theta @ theta
    for i, j in zip(*repeated(times * observed if masked else times), strict=True):
        z = A[i] @ U @ V.T @ B[j]
        each = 0.5 * (z - Y[i, j]) ** 2 if loss == "squared" else np.logaddexp(0, z) - Y[i, j] * z
        expected += scale * each
    assert value == pytest.approx(expected, rel=1e-10)
    steps = 1e-6 * np.eye(len(theta))
    numeric = [(objective(theta + e)[0] - objective(theta - e)[0]) / 2e-6 for e in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-5)


def test_the_search_weighs_held_out_links():
    rows, columns = np.array([0, 0, 1]), np.array([0, 2, 1])
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.5]])
    assert _tune.top_score(scores, rows, columns, 3, np.array([2.0, 1.0, 5.0])) == pytest.approx(
        (_tune.top_score(scores[:1], np.array([0, 0, 0]), np.array([0, 0, 2]), 3) + 1.0) / 2
    )
    truth = np.array([1.0, 0.0, 1.0])
    weight = np.array([2.0, 1.0, 0.0])
    assert _tune.squared_score(scores, rows, columns, truth, weight) == pytest.approx(-(2 * 0.01 + 0.01) / 3)


@pytest.mark.parametrize("mask", [None, "observed"])
def test_the_search_predicts_as_the_model_with_weights_would(mask):
    A, B, Y, _ = make_pairs(90, 70, 6, 2, rng=0)
    Y.data += np.random.default_rng(1).random(Y.nnz)
    weight = Y.copy()
    weight.data = np.random.default_rng(0).choice([1.0, 1.0, 2.0], Y.nnz)
    links = check_links(Y, mask, Y.shape, weight)
    problem = _tune.Problem(A, B, links, "joint", 2, 20)
    grid = _tune.Grid((0.3,), (0.2,), (0.5,))
    _, found = _tune.tune(problem, grid, 3, np.random.default_rng(0))
    total = 0.0
    for fold in _tune._folds(problem, 3, np.random.default_rng(0)):
        model = PairRegressor(2, shrinkage=0.3, bandwidth=(0.2, 0.5))
        model.fit(A[fold.train], B, Y[fold.train], mask, weight[fold.train])
        scores = model.predict(A[fold.test])
        held_out = np.asarray(weight[fold.test[fold.rows], fold.columns]).ravel()
        if mask is None:
            total += _tune.top_score(scores, fold.rows, fold.columns, 20, held_out)
        else:
            total += _tune.squared_score(scores, fold.rows, fold.columns, fold.truth, held_out)
    assert found[0] == pytest.approx(total / 3, rel=1e-4)


def test_weights_travel_with_a_table_through_a_search():
    A, B, Y, _ = make_pairs(80, 60, 6, 2, rng=0)
    weight = Y.copy()
    weight.data = np.where(np.arange(Y.nnz) % 3 == 0, 0.0, 1.0)
    kept = Y.multiply(weight > 0).tocsr()
    kept.eliminate_zeros()
    table = PairTable(A, B, Y, "observed", weight)
    assert table[[3, 5]].sample_weight.shape == (2, 60)
    folds, scorer = HeldOutEntities(3, random_state=0), pair_scorer("neg_mean_squared_error")
    model = PairRegressor(2, shrinkage=0.3, bandwidth=0.3)
    Y.data += np.random.default_rng(1).random(Y.nnz)
    kept = sparse.csr_array(Y.multiply(kept > 0))
    table = PairTable(A, B, Y, "observed", weight)
    np.testing.assert_allclose(
        cross_val_score(model, table, cv=folds, scoring=scorer, error_score="raise"),
        cross_val_score(model, PairTable(A, B, kept, "observed"), cv=folds, scoring=scorer),
        rtol=1e-9,
    )
    fitted, double = model.fit(table), weight.copy()
    double.data = 1.0 + np.arange(Y.nnz) % 2
    errors = (Y.data - fitted.predict()[Y.nonzero()]) ** 2
    assert scorer(fitted, PairTable(A, B, Y, "observed", double)) == pytest.approx(
        -np.average(errors, weights=double.data), rel=1e-9
    )
    search = GridSearchCV(model, {"n_components": [1, 2]}, cv=folds, scoring=pair_scorer("recall", 5))
    best = search.fit(table).best_estimator_
    assert best.mask_.nnz == kept.nnz
    zero_filled = PairTable(A, B, Y, None, weight)
    full = model.fit(zero_filled)
    assert pair_scorer("recall", 5)(full, zero_filled) == pair_scorer("recall", 5)(
        full, PairTable(A, B, kept)
    )
    dense = np.where(weight.toarray() == 0, (Y.toarray() == 0).astype(float), 1.0)
    error = np.average((Y.toarray() - full.predict()) ** 2, weights=dense)
    assert pair_scorer("neg_mean_squared_error")(full, zero_filled) == pytest.approx(-error)


def test_bad_weights_are_refused():
    A, B, Y, observed, times = pieces()
    for weight, message in (
        (np.ones(Y.shape[0]), "1 dimension"),
        (times.T, r"sample_weight has shape \(11, 14\), but Y has \(14, 11\)"),
        (times - 1.0, r"the value -1; weights of pairs are finite and at least 0"),
        (np.where(times > 2, np.nan, 1.0), "the value nan"),
        (np.where(observed, 0.0, 1.0), "zero for every observed pair"),
    ):
        for E in (FIXED, BilinearPairRegressor(2)):
            with pytest.raises(ValueError, match=message):
                clone(E).fit(A, B, Y, observed, sample_weight=weight)
    names = pd.DataFrame(A, index=list("abcdefghijklmn"))
    with pytest.raises(ValueError, match="rows of sample_weight and A name"):
        clone(FIXED).fit(names, B, Y, sample_weight=pd.DataFrame(times, index=list("bacdefghijklmn")))
    with pytest.raises(TypeError, match="sample_weight itself"):
        clone(FIXED).fit(PairTable(A, B, Y), sample_weight=times)


@pytest.mark.parametrize("reduction", ["joint", "phd", "cphd", "sols"])
def test_units_of_features_do_not_matter(reduction):
    A, B, Y, _ = make_pairs(120, 90, 8, 2, rng=0)
    rng = np.random.default_rng(0)
    left, right = (10.0 ** rng.permutation(np.linspace(-8, 8, X.shape[1])) for X in (A, B))
    model = PairRegressor(2, reduction=reduction, shrinkage=0.1, bandwidth=0.3)
    plain, moved = clone(model).fit(A, B, Y), clone(model).fit(A * left, B * right, Y)
    np.testing.assert_allclose(moved.predict(A * left), plain.predict(A), rtol=1e-6, atol=1e-9)
    far = clone(model).fit(A * 1e100, B * 1e-100, Y)
    np.testing.assert_allclose(far.predict(A * 1e100), plain.predict(A), rtol=1e-6, atol=1e-9)
    pd.testing.assert_frame_equal(
        moved.rank(A[:5] * left, k=5)[["left", "right"]], plain.rank(A[:5], k=5)[["left", "right"]]
    )


def test_units_of_features_do_not_matter_to_the_bilinear_model():
    A, B, Y, _ = make_pairs(120, 90, 8, 2, rng=0)
    unit = 10.0 ** np.linspace(-8, 8, 8)
    plain, moved = BilinearPairRegressor(2).fit(A, B, Y), BilinearPairRegressor(2).fit(A * unit, B / unit, Y)
    np.testing.assert_allclose(moved.predict(A * unit), plain.predict(A), rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore::colspace.ConstantColumnWarning")
@pytest.mark.parametrize("E", [PairRegressor(2, bandwidth=0.3), BilinearPairRegressor(2)], ids=repr)
def test_constant_and_collinear_features_are_borne(E):
    A, B, Y, _ = make_pairs(60, 50, 5, 2, rng=0)
    A = np.column_stack([A, A[:, 0] + A[:, 1], np.full(60, 0.1)])
    assert np.isfinite(clone(E).fit(A, B, Y).predict(A)).all()
    wide = np.random.default_rng(0).standard_normal((60, 100))
    assert np.isfinite(clone(E).fit(wide, B, Y).predict(wide)).all()


@pytest.mark.parametrize("E", [FIXED, BilinearPairRegressor(2)], ids=repr)
def test_features_that_overflow_are_named(E):
    A, B, Y, _ = small()
    A[3, 1] = 1e200
    with pytest.raises(ValueError, match=r"A overflows: column 1 has the value 1e\+200 \(entity 3\)"):
        clone(E).fit(A, B, Y)
    frame = pd.DataFrame(A, columns=list("wxyz"), index=list("abcdefghijklmn"))
    frame.loc["a", "x"], frame.loc["d", "x"] = -1e201, 0.0
    with pytest.raises(ValueError, match=r"column 'x' has the value -1e\+201 \(entity 'a'\)"):
        clone(E).fit(frame, B, Y)


@pytest.mark.parametrize("E", [FIXED, BilinearPairRegressor(2)], ids=repr)
def test_scores_in_any_units(E):
    A, B, Y, _ = small()
    plain = clone(E).fit(A, B, Y).predict(A)
    for unit in (1e-100, 1e100):
        np.testing.assert_allclose(
            clone(E).fit(A, B, Y * unit).predict(A) / unit, plain, rtol=1e-6, atol=1e-9
        )
    Y[2, 5] = -1e200
    with pytest.raises(ValueError, match=r"left entity 2 and right entity 5 has the score -1e\+200"):
        clone(E).fit(A, B, Y)


def test_tiny_scores_still_vary():
    links = check_links(np.array([[1e-200, 3e-200], [0.0, 2e-200]]), None, (2, 2))
    assert links.deviation == pytest.approx(np.std([1, 3, 0, 2]) * 1e-200)
