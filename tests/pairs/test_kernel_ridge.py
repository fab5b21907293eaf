"""Kernel ridge over pairs: its algebra against dense systems, what is left out against refitting."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist, pdist

from colspace import KernelPairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import average_precision_by_entity, recall_at_k
from colspace.pairs._climb import climb
from colspace.pairs._kernel_tables import read_tables
from colspace.pairs._links import Links
from colspace.pairs._ridge import LowRankRidge, Ridge, complete, inverse_plus, left_out, nystroem
from colspace.pairs._ridge_search import search
from colspace.pairs._ridge_tune import Point, Problem, SidePoint, Source, held_out
from colspace.pairs._rivals import alternating_least_squares, neighbours
from colspace.pairs._similarity import profile_kernel

ALPHA, BETA = 0.7, 0.3


def gaussian(X, Z=None, h=0.8):
    """exp(-d^2 / 2 (h median)^2) of standardised features."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    V = (X - mean) / scale
    W = V if Z is None else (Z - mean) / scale
    return np.exp(-(cdist(W, V) ** 2) / (2 * (h * np.median(pdist(V))) ** 2))


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((12, 3)), rng.standard_normal((9, 2))
    Y = np.where(rng.random((12, 9)) < 0.4, rng.random((12, 9)), 0.0)
    Y[:, 0] += 0.1
    return A, B, Y


def model(**kw):
    return KernelPairRegressor(**{"bandwidth": 0.8, "alpha": (ALPHA, BETA), "reduction": None, **kw})


def tables(A, B):
    return tuple(read_tables(X, side, "gaussian", False)[0] for X, side in ((A, "left"), (B, "right")))


def smoothers(A, B):
    K, L = gaussian(A), gaussian(B)
    return Ridge(inverse_plus(K, ALPHA), ALPHA), Ridge(inverse_plus(L, BETA), BETA)


def refit(K, L, Y, k, l):
    """k (K + alpha)^-1 Y (L + beta)^-1 l'."""
    left = np.linalg.solve(K + ALPHA * np.eye(len(K)), Y)
    return k @ np.linalg.solve(L + BETA * np.eye(len(L)), left.T).T @ l


def test_prediction_solves_the_dense_kronecker_system(table):
    A, B, Y = table
    new, other = A[:2] + 0.3, B[:4] - 0.2
    K, L = gaussian(A), gaussian(B)
    big = np.kron(K + ALPHA * np.eye(12), L + BETA * np.eye(9))
    W = np.linalg.solve(big, Y.ravel()).reshape(12, 9)
    expected = gaussian(A, new) @ W @ gaussian(B, other).T
    found = model().fit(A, B, sparse.csr_array(Y))
    np.testing.assert_allclose(found.predict(new, other), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.predict(), K @ W @ L, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.predict(new), gaussian(A, new) @ W @ L, rtol=1e-10, atol=1e-12)


def test_new_left_is_a_fit_without_the_entity(table):
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    found = left_out(*smoothers(A, B), sparse.csr_array(Y), np.arange(12), "new-left")
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        expected = refit(K[np.ix_(rest, rest)], L, Y[rest], K[i, rest], L)
        np.testing.assert_allclose(found[i], expected, rtol=1e-8, atol=1e-10)


def test_new_both_is_a_fit_without_both_entities(table):
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    found = left_out(*smoothers(A, B), Y, np.arange(12), "new-both")
    for i in range(12):
        for j in range(9):
            p, q = np.delete(np.arange(12), i), np.delete(np.arange(9), j)
            expected = refit(K[np.ix_(p, p)], L[np.ix_(q, q)], Y[np.ix_(p, q)], K[i, p], L[q, j])
            assert found[i, j] == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_entries_are_fits_with_a_zero_in_their_place(table):
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    found = left_out(*smoothers(A, B), Y, np.arange(12), "entries")
    for i in range(12):
        for j in range(9):
            without = Y.copy()
            without[i, j] = 0.0
            assert found[i, j] == pytest.approx(refit(K, L, without, K[i], L[:, j]), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("target", ["new-left", "new-right", "new-both", "entries"])
def test_the_search_uses_what_is_left_out(table, target):
    """The estimator's own held-out scores are those of refits, for every target."""
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    fitted = model(target=target, n_top=4)
    problem, _ = fitted._problem(*tables(A, B), Links(sparse.csr_array(Y)))
    sides = [SidePoint(0.8, a, (1.0,), 0.0) for a in (ALPHA, BETA)]
    point = Point(*(sides[::-1] if target == "new-right" else sides))
    (held,) = held_out(problem, point)
    if target == "new-right":
        for j, entity in enumerate(held.entities):
            q = np.delete(np.arange(9), entity)
            expected = refit(K, L[np.ix_(q, q)], Y[:, q], K, L[q, entity])
            np.testing.assert_allclose(held.scores[j], expected, rtol=1e-8, atol=1e-10)
    else:
        expected = left_out(*smoothers(A, B), Y, held.entities, target)
        np.testing.assert_allclose(held.scores, expected, rtol=1e-10, atol=1e-12)
    truth = Y.T if target == "new-right" else Y
    np.testing.assert_array_equal(held.truth, truth[held.entities[held.rows], held.columns])


def test_landmarks_are_exact_when_all_are_taken_and_leave_out_their_own_kernel(table):
    A, B, Y = table
    K = gaussian(A)
    marks = np.array([0, 2, 3, 7, 8, 11])
    P, root, lost = nystroem(K[:, marks], marks)
    near = K[:, marks] @ np.linalg.solve(K[np.ix_(marks, marks)], K[marks])
    np.testing.assert_allclose(P @ P.T, near, atol=1e-9)
    assert lost == pytest.approx(1 - np.trace(near) / 12)
    assert 0.01 < lost < 0.9
    low, right = LowRankRidge(P, root, ALPHA), smoothers(A, B)[1]
    exact = Ridge(inverse_plus(near, ALPHA), ALPHA)
    for target in ("new-left", "new-both", "entries"):
        np.testing.assert_allclose(
            left_out(low, right, Y, np.arange(12), target),
            left_out(exact, right, Y, np.arange(12), target),
            rtol=1e-7,
            atol=1e-9,
        )
    np.testing.assert_allclose(K[:, marks] @ low.dual(Y), near @ exact.dual(Y), atol=1e-9)
    some = model(n_landmarks=6).fit(A, B, Y)
    assert some.dual_coef_.shape == (6, 6)
    assert 0 < some.kernel_error_["left"] < 1
    whole = model(n_landmarks=12).fit(A, B, Y)
    np.testing.assert_allclose(
        whole.predict(A[:3] + 0.1), model().fit(A, B, Y).predict(A[:3] + 0.1), rtol=1e-10
    )


def dense_least_squares(K, L, Y, weight):
    """f = Gamma (Gamma + 1 / weight)^-1 y over pairs with a weight, Gamma (Gamma + I)^-1 = H x G."""
    H = K @ np.linalg.inv(K + ALPHA * np.eye(len(K)))
    G = L @ np.linalg.inv(L + BETA * np.eye(len(L)))
    S = np.kron(H, G)
    gamma = S @ np.linalg.inv(np.eye(len(S)) - S)
    on = np.flatnonzero(weight.ravel())
    inner = gamma[np.ix_(on, on)] + np.diag(1 / weight.ravel()[on])
    return (gamma[:, on] @ np.linalg.solve(inner, Y.ravel()[on])).reshape(Y.shape)


def test_a_table_that_smooths_to_nothing_is_left_as_it_counts():
    class Nothing:
        def apply(self, X):
            return np.zeros_like(X)

    Y, weight = np.eye(3), np.full((3, 3), 0.5)
    np.testing.assert_array_equal(complete(Nothing(), Nothing(), Y, weight), 0.5 * Y)


def test_gaps_and_weights_against_the_dense_system(table):
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], Y.shape)
    left, right = smoothers(A, B)
    T = complete(left, right, Y, weight)
    expected = dense_least_squares(K, L, Y, weight)
    np.testing.assert_allclose(right.apply(left.apply(T.T).T), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(complete(left, right, Y, np.ones_like(Y)), Y, atol=1e-8)
    # the estimator: only observed pairs, about their mean
    mask = weight > 0
    level = Y[mask].mean()
    found = model().fit(A, B, Y, mask).predict()
    expected = level + dense_least_squares(K, L, Y - level, mask.astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    # weights where every pair is observed; their lower median is one
    weight = np.random.default_rng(2).choice([1.0, 2.0], Y.shape, p=[0.7, 0.3])
    found = model().fit(A, B, Y, sample_weight=weight).predict()
    np.testing.assert_allclose(found, dense_least_squares(K, L, Y, weight), rtol=1e-7, atol=1e-8)


def test_profiles_by_brute_force(table):
    _, _, Y = table
    Y = np.where(Y > 0.3, Y, 0.0)
    Y[4] = 0
    size = (Y**2).sum(axis=1)
    unit = size[size > 0].mean()
    expected = [
        [np.exp(-np.sum((Y[i] - Y[p]) ** 2) / unit) * bool(size[i] * size[p]) for p in range(5)]
        for i in range(12)
    ]
    found = profile_kernel(sparse.csr_array(Y), np.arange(12), np.arange(5))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert (
        np.linalg.eigvalsh(profile_kernel(sparse.csr_array(Y), np.arange(12), np.arange(12))).min() > -1e-10
    )


@pytest.mark.parametrize(
    ("target", "sides"), [("entries", "both"), ("new-left", "right"), ("new-right", "left")]
)
def test_profiles_serve_entities_that_keep_their_links(table, target, sides):
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    found = model(target=target, profile=0.4).fit(A, B, Y)
    if sides in ("both", "left"):
        K = 0.6 * K + 0.4 * profile_kernel(sparse.csr_array(Y), np.arange(12), np.arange(12))
    if sides in ("both", "right"):
        L = 0.6 * L + 0.4 * profile_kernel(sparse.csr_array(Y.T), np.arange(9), np.arange(9))
    np.testing.assert_allclose(found.predict(), refit(K, L, Y, K, L), rtol=1e-9, atol=1e-12)
    # an entity without links has its features only, whatever it is called
    k = (0.6 if sides in ("both", "left") else 1.0) * gaussian(A, A[:1])
    np.testing.assert_allclose(found.predict(A[:1]), refit(K, L, Y, k, L), rtol=1e-9, atol=1e-12)


def test_known_entities_are_recognised_by_name(table):
    A, B, Y = table
    frame = pd.DataFrame(A, index=[f"d{i}" for i in range(12)])
    found = model(target="entries", profile=0.4).fit(frame, B, Y)
    np.testing.assert_allclose(found.predict(frame[3:5]), found.predict()[3:5], rtol=1e-12)
    assert not np.allclose(found.predict(frame[3:5].set_axis(["x", "y"])), found.predict()[3:5])


def test_new_right_is_new_left_of_the_transposed_table(table):
    A, B, Y = table
    one = KernelPairRegressor("new-right", n_top=5).fit(A, B, Y)
    two = KernelPairRegressor("new-left", n_top=5).fit(B, A, Y.T)
    np.testing.assert_allclose(one.predict(), two.predict().T, rtol=1e-10)
    assert one.alpha_ == {"left": two.alpha_["right"], "right": two.alpha_["left"]}
    np.testing.assert_array_equal(one.cv_results_["alpha_left"], two.cv_results_["alpha_right"])


def test_given_similarities_are_the_kernels(table):
    A, B, Y = table
    K, L = gaussian(A), gaussian(B)
    features = model().fit(A, B, Y)
    given = model(metric="precomputed", bandwidth="auto").fit(3 * K, L, Y)  # a unit of similarity is none
    np.testing.assert_allclose(
        given.predict(3 * gaussian(A, A[:2] + 0.5)), features.predict(A[:2] + 0.5), rtol=1e-9
    )
    np.testing.assert_allclose(given.predict(), features.predict(), rtol=1e-9)
    mixed = model(metric={"left": "precomputed", "right": "gaussian"}).fit(K, B, Y)
    np.testing.assert_allclose(mixed.predict(None, B[:3]), features.predict()[:, :3], rtol=1e-9)


@pytest.mark.parametrize("metric", ["linear", "cosine"])
def test_other_kernels_by_hand(table, metric):
    A, B, Y = table
    kernels = []
    for X in (A, B):
        V = (
            (X - X.mean(axis=0)) / X.std(axis=0)
            if metric == "linear"
            else X / np.linalg.norm(X, axis=1)[:, None]
        )
        kernels.append(V @ V.T / np.mean(np.sum(V**2, axis=1)))
    found = model(metric=metric, bandwidth="auto").fit(A, B, Y).predict()
    np.testing.assert_allclose(found, refit(*kernels, Y, *kernels), rtol=1e-9, atol=1e-12)


def test_several_kernels_are_weighted_by_what_they_say():
    A, B, Y, truth = make_pairs(120, 60, 8, 2, rng=1)
    noise = np.random.default_rng(0).standard_normal((120, 8))
    useful = A @ truth["left"]
    found = KernelPairRegressor(n_top=10, reduction=None).fit([useful, noise], B @ truth["right"], Y)
    assert found.weights_["left"][0] > 0.75
    assert found.weights_["left"].sum() == pytest.approx(1)
    K = [gaussian(X, h=0.8) for X in (useful, noise)]
    fixed = model(alpha=(ALPHA, BETA), positive=False).fit([useful, noise], B, Y)
    w = fixed.weights_["left"]
    K = w[0] * K[0] + w[1] * K[1]
    np.testing.assert_allclose(
        fixed.predict(), refit(K, gaussian(B), Y.toarray(), K, gaussian(B)), rtol=1e-8, atol=1e-11
    )
    with pytest.raises(ValueError, match="side has 1 tables, but fit had 2"):
        found.predict(useful)


@pytest.mark.parametrize("how", ["joint", "observed", "entries", "new-both"])
def test_folds_are_refits(how):
    A, B, Y, _ = make_pairs(40, 25, 5, 2, rng=3)
    target = how if how in ("entries", "new-both") else "new-left"
    profile = 0.5 if how == "entries" else 0.0
    reduction = None if how in ("observed", "entries") else "joint"
    mask = Y.toarray() * 0 + (np.random.default_rng(0).random(Y.shape) < 0.6) if how == "observed" else None
    links = (
        Links(Y)
        if mask is None
        else Links(Y.multiply(sparse.csr_array(mask)).tocsr(), sparse.csr_array(mask))
    )
    sources = [Source((X,), ("gaussian",)) for X in (A, B)]
    problem = Problem(*sources, links, target, reduction, n_top=5, by_folds=True)
    sides = [SidePoint(0.7, a, (1.0,), profile) for a in (2.0, 0.5)]
    point = Point(*sides, *((3, 0.2) if reduction else ()))
    for fold, held in zip(problem.folds, held_out(problem, point), strict=True):
        rows, columns = fold.train
        same = KernelPairRegressor(
            target,
            bandwidth=0.7,
            alpha=(2.0, 0.5),
            profile=profile,
            reduction=reduction,
            n_components=3 if reduction else "auto",
            shrinkage=0.2 if reduction else "auto",
        )
        if how == "entries":
            fitted = same.fit(A, B, fold.seen.Y)
            expected = fitted.predict()[held.entities]
            known = fold.seen.Y[held.entities].toarray() > 0
            assert np.isneginf(held.scores[known]).all()
            np.testing.assert_allclose(held.scores[~known], expected[~known], rtol=1e-8, atol=1e-10)
        else:
            # standardisation is that of all entities
            Z = [(X - X.mean(axis=0)) / X.std(axis=0) for X in (A, B)] if reduction is None else [A, B]
            if reduction is None:
                fitted = same.set_params(metric="precomputed", bandwidth="auto").fit(
                    gaussian(A, h=0.7)[np.ix_(rows, rows)],
                    gaussian(B, h=0.7),
                    links.Y[rows],
                    links.mask[rows],
                )
                expected = fitted.predict(gaussian(A, h=0.7)[np.ix_(fold.test[0], rows)])
            else:
                fitted = same.fit(Z[0][rows], Z[1][columns], fold.seen.Y)
                expected = fitted.predict(Z[0][fold.test[0]], Z[1][fold.test[1]])
                # the unit of the width is the median distance of all entities there, of the training ones here
                assert np.corrcoef(held.scores.ravel(), expected.ravel())[0, 1] > 0.999
                continue
            np.testing.assert_allclose(held.scores, expected, rtol=1e-6, atol=1e-8)


def test_climbing():
    values = {(i, j): -((i - 7) ** 2) - (j - 2) ** 2 + 0.5 * i * j / 10 for i in range(9) for j in range(4)}
    asked = []

    def score(places):
        asked.append(places)
        return values[places]

    assert climb(score, (9, 4), (0, 0)) == max(values, key=values.get)
    assert len(set(asked)) < len(values)
    assert climb(lambda p: 0.0, (), ()) == ()


def test_the_search_takes_the_best_point_it_saw():
    A, B, Y, _ = make_pairs(80, 50, 5, 2, rng=0)
    found = KernelPairRegressor(n_top=10, reduction=None).fit(A, B, Y)
    results = found.cv_results_
    best = int(np.argmax(results["mean_score"]))
    assert results["alpha_left"][best] == found.alpha_["left"]
    assert results["bandwidth_right"][best] == found.bandwidth_["right"]
    problem, _ = found._problem(*tables(A, B), Links(Y))
    point = Point(*(SidePoint(found.bandwidth_[s], found.alpha_[s], (1.0,), 0.0) for s in ("left", "right")))
    assert search(problem, {}, point).score(point) == pytest.approx(results["mean_score"][best])


def test_reduction_helps_where_few_directions_matter_and_auto_finds_out():
    A, B, Y, _ = make_pairs(200, 120, 12, 2, rng=0)
    auto = KernelPairRegressor(n_top=20, reduction="auto").fit(A, B, Y)
    assert auto.reduction_ == "joint"
    scores = {
        r: KernelPairRegressor(n_top=20, reduction=r).fit(A[:150], B, Y[:150]).predict(A[150:])
        for r in (None, "joint")
    }
    recall = {r: recall_at_k(Y[150:], found, 10) for r, found in scores.items()}
    assert recall["joint"] > recall[None] + 0.1
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    S = np.exp(-(cdist(X, X[:90]) ** 2) / 0.05)
    waves = sparse.csr_array(np.where(S > 0.4, 1.0, 0.0))  # all directions matter
    assert (
        KernelPairRegressor(n_top=20, reduction="auto", n_components=1).fit(X, X[:90], waves).reduction_
        is None
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shrinkage": 0.1}, "shrinkage=0.1 belongs to reduction='joint', got reduction=None"),
        ({"shrinkage": 0.1, "reduction": "pca"}, "got reduction='pca'"),
        ({"n_components": 2}, "n_components=2 belongs to a reduction"),
        (
            {"metric": "cosine"},
            r"bandwidth=\(0.8, 0.8\) belongs to kernels of distances, got metric \['cosine'\]",
        ),
        ({"target": "new-both", "profile": 0.5}, "profile=0.5 is of entities with links"),
        ({"reduction": "joint", "metric": ("gaussian", "linear")}, "takes one table of features a side"),
        ({"reduction": "joint", "n_components": 3}, "A has 3 features and B 2; use at most 2"),
        ({"metric": ("gaussian", "linear", "cosine")}, "names 3 kernels, but the left side has 2 tables"),
    ],
)
def test_settings_that_would_do_nothing(table, options, message):
    A, B, Y = table
    with pytest.raises(ValueError, match=message):
        model(**options).fit([A, A] if "names 3" in message else A, B, Y)


def test_tables_of_a_side_have_the_same_entities(table):
    A, B, Y = table
    with pytest.raises(ValueError, match="the tables of the left side have 12 and 11 entities"):
        model().fit([A, A[:11]], B, Y)
    frame = pd.DataFrame(A, index=[f"d{i}" for i in range(12)])
    with pytest.raises(
        ValueError, match="tables of the left side name different entities, or in another order"
    ):
        model().fit([frame, frame[::-1]], B, Y)
    found = model().fit([frame, 2 * frame], B, Y)
    assert found.predict([frame[:2], frame[:2]]).index.tolist() == ["d0", "d1"]


def test_quality_is_free_from_the_tuning():
    A, B, Y, _ = make_pairs(120, 80, 6, 2, rng=0)
    fixed = KernelPairRegressor(bandwidth=0.7, alpha=(4.0, 0.5), reduction=None).fit(A, B, Y)
    found = fixed.held_out_quality(10).set_index("method")
    K, L = gaussian(A, h=0.7), gaussian(B, h=0.7)
    left, right = (Ridge(inverse_plus(M, a), a) for M, a in ((K, 4.0), (L, 0.5)))
    scores = left_out(left, right, Y, np.arange(120), "new-left")
    assert found.loc["kernel ridge", "recall"] == pytest.approx(recall_at_k(Y, scores, 10))
    assert found.loc["kernel ridge", "average precision"] == pytest.approx(
        average_precision_by_entity(Y, scores)
    )
    popular = Y.sum(axis=0) - Y.toarray()
    assert found.loc["popularity", "recall"] == pytest.approx(recall_at_k(Y, popular, 10))
    # tuned: each half by the settings that are best on the other
    tuned = KernelPairRegressor(reduction=None, n_top=10).fit(A, B, Y)
    way, tried = tuned._choice.ways[0]
    half = np.random.default_rng(way.seed).permutation(120) % 2 == 0
    each = np.zeros(120)
    for part in (half, ~half):
        point = max(tried.entities, key=lambda p: tried.score(p, ~part))
        (held,) = held_out(way, point)
        each[part] = recall_at_k(Y, held.scores, 10, per_entity=True)[part]
    assert tuned.held_out_quality(10)["recall"][0] == pytest.approx(each.mean())
    again = KernelPairRegressor()
    again.__setstate__(tuned.__getstate__())
    with pytest.raises(AttributeError, match="a model from a file does not hold"):
        again.held_out_quality()


@pytest.mark.parametrize("target", ["new-right", "new-both", "entries"])
def test_quality_of_other_targets(target):
    A, B, Y, _ = make_pairs(90, 60, 5, 2, rng=0)
    found = KernelPairRegressor(target, n_top=10, cv=2).fit(A, B, Y).held_out_quality(10).set_index("method")
    assert ("alternating least squares" in found.index) == (target == "entries")
    assert (found.loc["kernel ridge"] > 1.2 * found.loc["popularity"]).all()
    assert found.notna().all().all()
    observed = KernelPairRegressor(target, bandwidth=0.7, alpha=0.5, reduction=None, profile=0.0, cv=2)
    scores = np.tanh(A[:, :2] @ B[:, :2].T)
    errors = observed.fit(A, B, scores, np.random.default_rng(0).random(Y.shape) < 0.6).held_out_quality()
    assert errors["method"].tolist() == ["kernel ridge", "mean"]
    assert errors["error"][0] < errors["error"][1]


def test_rivals_by_hand():
    rng = np.random.default_rng(0)
    S, T = (X @ X.T for X in (rng.random((7, 3)), rng.random((5, 3))))
    Y = sparse.csr_array(np.where(rng.random((7, 5)) < 0.5, 1.0, 0.0))
    dense = Y.toarray()
    left = np.zeros((7, 7))
    for i in range(7):
        order = [p for p in np.argsort(-S[i]) if p != i][:2]
        left[i, order] = S[i, order] / S[i, order].sum()
    right = np.zeros((5, 5))
    for j in range(5):
        order = [q for q in np.argsort(-T[j]) if q != j][:2]
        right[j, order] = T[j, order] / T[j, order].sum()
    rows = np.array([1, 4])
    np.testing.assert_allclose(neighbours(S, T, Y, rows, "new-left", 2), (left @ dense)[rows])
    np.testing.assert_allclose(neighbours(S, T, Y, rows, "new-both", 2), (left @ dense @ right.T)[rows])
    both = (left @ dense + dense @ right.T)[rows] / 2
    np.testing.assert_allclose(neighbours(S, T, Y, rows, "entries", 2), both)
    U, V = alternating_least_squares(Y, 2, 0.3, 4.0, rounds=400)
    weight = 1 + 4.0 * dense
    for one, other, W, table in ((U, V, weight, dense), (V, U, weight.T, dense.T)):
        for i in range(len(one)):  # each row is its ridge regression
            gram = other.T @ (other * W[i][:, None]) + 0.3 * np.eye(2)
            np.testing.assert_allclose(one[i], np.linalg.solve(gram, other.T @ (W[i] * table[i])), atol=1e-5)


def test_ways_are_judged_on_other_folds_than_their_settings_were_tuned_by():
    A, B, Y, _ = make_pairs(80, 60, 6, 2, rng=0)
    for target in ("new-left", "new-both"):
        choice = KernelPairRegressor(target, n_top=10).fit(A, B, Y)._choice
        joint, tried = choice.ways[1]
        assert joint.reduction == "joint"
        best = tried.best()
        assert best in choice.judged[1].entities
        assert choice.judged[1].score(best) != tried.score(best)
