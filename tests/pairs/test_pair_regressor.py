"""PairRegressor against loops over every pair, and what it promises."""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from scipy import sparse

from colspace import JointReduction, PairRegressor, stack_blocks
from colspace.datasets import make_pairs
from colspace.metrics import nsee, recall_at_k
from colspace.pairs import _kernel, _ranking, _tune
from colspace.pairs._links import check_links, read_links
from colspace.pairs._reduce import pair_moments


def small(seed=0, m=14, n=11, p=4, q=3):
    """A few entities, correlated features, a third of the pairs linked."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, p)) @ rng.standard_normal((p, p)) + 2.0
    B = rng.standard_normal((n, q)) @ rng.standard_normal((q, q)) - 1.0
    Y = np.where(rng.random((m, n)) < 0.35, rng.random((m, n)) + 0.2, 0.0)
    observed = (rng.random((m, n)) < 0.6) | (Y > 0)
    return A, B, Y, observed


def loops(A, B, Y, observed, shrinkage, r, bandwidth, A_new, B_new):
    """The method with one Python loop per sum: proxy, directions, medians, kernel regression."""
    pairs = [(i, j) for i in range(len(A)) for j in range(len(B)) if observed[i, j]]
    y = np.array([Y[i, j] for i, j in pairs])
    sides = []
    for X, place in ((A, 0), (B, 1)):
        rows = np.array([X[pair[place]] for pair in pairs])
        mean = sum(rows) / len(rows)
        C = sum(np.outer(x - mean, x - mean) for x in rows) / len(rows)
        s = np.sqrt(np.diag(C))
        R = (1 - shrinkage) * C / np.outer(s, s) + shrinkage * np.eye(len(s))
        W = np.linalg.inv(np.linalg.cholesky(R)) @ np.diag(1 / s)
        sides.append((mean, W))
    (ma, WA), (mb, WB) = sides
    proxy = np.zeros((A.shape[1], B.shape[1]))
    for i, j in pairs:
        proxy += (Y[i, j] - y.mean()) / y.std() * np.outer(WA @ (A[i] - ma), WB @ (B[j] - mb)) / len(pairs)
    U, s, Vt = np.linalg.svd(proxy)
    root = np.sqrt(s[:r])

    def left(a):
        return root * (U[:, :r].T @ WA @ (a - ma))

    def right(b):
        return root * (Vt[:r] @ WB @ (b - mb))

    def median(E):
        return np.median([np.linalg.norm(E[i] - E[j]) for i in range(len(E)) for j in range(i)])

    ha = bandwidth[0] * median([left(a) for a in A])
    hb = bandwidth[1] * median([right(b) for b in B])
    out = np.zeros((len(A_new), len(B_new)))
    for i, a in enumerate(A_new):
        for j, b in enumerate(B_new):
            top = bottom = 0.0
            for p, q in pairs:
                da = np.sum((left(a) - left(A[p])) ** 2)
                db = np.sum((right(b) - right(B[q])) ** 2)
                k = np.exp(-da / (2 * ha**2)) * np.exp(-db / (2 * hb**2))
                top, bottom = top + k * Y[p, q], bottom + k
            out[i, j] = top / bottom
    return s[:r], out


@pytest.mark.parametrize("masked", [False, True], ids=["zero-filled", "observed"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.4])
def test_against_loops(masked, shrinkage):
    A, B, Y, observed = small()
    if not masked:
        observed = np.ones_like(observed)
    rng = np.random.default_rng(1)
    A_new, B_new = rng.standard_normal((3, 4)) + 2, rng.standard_normal((4, 3)) - 1
    values, expected = loops(A, B, Y, observed, shrinkage, 2, (0.6, 0.9), A_new, B_new)
    model = PairRegressor(2, shrinkage=shrinkage, bandwidth=(0.6, 0.9))
    variants = (
        [(Y, observed)] if masked else [(Y, None), (sparse.csr_matrix(Y), None), (sparse.coo_array(Y), None)]
    )
    if masked:
        rows, columns = np.nonzero(observed)
        stored = sparse.csr_array((Y[rows, columns], (rows, columns)), shape=Y.shape)  # zeros are stored
        variants += [
            (np.where(observed, Y, np.nan), "observed"),
            (stored, "observed"),
            (Y, sparse.csr_array(observed)),
        ]
    for scores, mask in variants:
        model.fit(A, B, scores, mask)
        np.testing.assert_allclose(model.singular_values_["left"], values, rtol=1e-10)
        np.testing.assert_allclose(model.predict(A_new, B_new), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_directions_are_those_of_joint_reduction_on_the_table_of_pairs(masked):
    A, B, Y, observed = small(3)
    observed = observed if masked else np.ones_like(observed)
    i, j = np.nonzero(observed)
    X, blocks = stack_blocks([A[i], B[j]])
    joint = JointReduction(2, blocks=blocks, moments="joint", shrinkage=0.2).fit(X, Y[i, j])
    model = PairRegressor(2, shrinkage=0.2, bandwidth=1.0).fit(A, B, Y, observed)
    for side, loadings in zip(("left", "right"), joint.loadings_.values(), strict=True):
        signs = np.sign(np.sum(loadings * model.loadings_[side], axis=0))
        np.testing.assert_allclose(model.loadings_[side] * signs, loadings, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(
            model.singular_values_[side], next(iter(joint.singular_values_.values())), rtol=1e-9
        )


def test_finds_the_directions_behind_the_links():
    A, B, Y, truth = make_pairs(1500, 1200, 10, 2, n_links=20, rng=0)
    model = PairRegressor(2, shrinkage=0.0, bandwidth=0.2).fit(A, B, Y)
    assert nsee(truth, model.loadings_) < 0.2
    assert nsee(truth, PairRegressor(2, reduction="pca", bandwidth=0.2).fit(A, B, Y).loadings_) > 0.9


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("chunk", [1, 40, 1000])
def test_chunks_change_nothing(masked, chunk):
    A, B, Y, observed = small(4)
    model = PairRegressor(2, shrinkage=0.1, bandwidth=0.3).fit(A, B, Y, observed if masked else None)
    smoother = model._smoother()
    E, F = model.embedding_["left"], model.embedding_["right"]
    blocks = list(smoother.blocks(E, F, chunk))
    assert chunk >= 1000 or len(blocks) > 10
    whole = model.predict()
    np.testing.assert_allclose(_ranking.assemble(blocks, whole.shape), whole, rtol=1e-12)
    places, values = _ranking.top_of_blocks(blocks, len(E), 4)
    np.testing.assert_array_equal(places, np.argsort(-whole, axis=1, kind="stable")[:, :4])
    np.testing.assert_allclose(values, -np.sort(-whole, axis=1)[:, :4], rtol=1e-12)


def test_ties_go_by_position_wherever_the_chunks_end():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (6, 40)).astype(float)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :7]
    for step in (1, 5, 39, 40):
        blocks = [
            (slice(0, 6), slice(j, min(j + step, 40)), scores[:, j : j + step]) for j in range(0, 40, step)
        ]
        np.testing.assert_array_equal(_ranking.top_of_blocks(blocks, 6, 7)[0], expected)


def test_entities_far_from_all_others_take_the_score_of_the_nearest():
    A, B, Y, _ = small(5)
    model = PairRegressor(3, shrinkage=0.1, bandwidth=1e-3).fit(A, B, Y)
    far = model.predict(A + 1e4 * (np.arange(len(A)) == 3)[:, None] + 0.0)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(np.delete(far, 3, axis=0), np.delete(Y, 3, axis=0), atol=1e-8)


@pytest.mark.parametrize("reduction", ["joint", "pca", "phd", "cphd", "sols"])
@pytest.mark.parametrize("masked", [False, True])
def test_entities_very_far_away_have_finite_scores(reduction, masked):
    A, B, Y, observed = small(5)
    shrinkage = "auto" if reduction == "pca" else 0.1
    model = PairRegressor(2, reduction=reduction, shrinkage=shrinkage, bandwidth=0.3)
    model.fit(A, B, Y, observed if masked else None)
    # from so far away only the direction counts
    np.testing.assert_allclose(model.predict(A * 1e200), model.predict(A * 1e9), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.predict(A, B * 1e200), model.predict(A, B * 1e9), rtol=1e-6, atol=1e-9)


def test_scores_stay_between_the_observed_ones_where_kernels_underflow():
    A, B, Y, _ = make_pairs(60, 40, 5, 2, rng=0)
    for width in np.geomspace(0.005, 0.05, 12):
        model = PairRegressor(2, shrinkage=0.1, bandwidth=width).fit(A, B, Y, "observed")
        scores = model.predict()
        assert scores.min() > Y.data.min() - 1e-9
        assert scores.max() < Y.data.max() + 1e-9


def test_pairs_out_of_reach_of_what_was_observed_get_the_mean():
    A, B = np.eye(6) * 5 + np.arange(6)[:, None] * 0.01, np.eye(5) * 5
    mask = np.zeros((6, 5), dtype=bool)
    mask[:3, :2] = True
    mask[3:, 2:] = True
    Y = np.where(mask, np.arange(30).reshape(6, 5) + 1.0, 0.0)
    model = PairRegressor(4, shrinkage=0.5, bandwidth=1e-3).fit(A, B, Y, mask)
    scores = model.predict()
    np.testing.assert_allclose(scores[mask], Y[mask])
    np.testing.assert_allclose(scores[~mask], Y[mask].mean())
    assert model.explain(0, 4, k=None)["contribution"].sum() == pytest.approx(Y[mask].mean())


def test_sparse_scores_are_never_dense(monkeypatch):
    A, B, Y, _ = make_pairs(120, 90, rng=0)

    def refuse(*_, **__):
        pytest.fail("densified")

    for kind in (sparse.csr_array, sparse.coo_array, sparse.csc_array, sparse.csr_matrix):
        for name in ("toarray", "todense", "__array__"):
            monkeypatch.setattr(kind, name, refuse, raising=False)
    model = PairRegressor(3, bandwidth=0.3, shrinkage=0.1)
    model.fit(A, B, Y).rank(A[:5], k=3)
    model.fit(A, B, Y, "observed").predict(A[:5])
    PairRegressor(3).fit(A, B, Y)


def test_twenty_thousand_by_twenty_thousand_stays_within_a_chunk():
    rng = np.random.default_rng(0)
    smoother = _kernel.Smoother(
        rng.standard_normal((20_000, 2)),
        rng.standard_normal((20_000, 2)),
        _kernel.Links(sparse.random_array((20_000, 20_000), density=1e-6, rng=rng, format="csr")),
        (1.0, 1.0),
    )
    rows, columns, scores = next(smoother.blocks(smoother.left, smoother.right))
    sizes = scores.size, (rows.stop - rows.start) * 20_000, (columns.stop - columns.start) * 20_000
    assert _kernel.CHUNK // 2 < max(sizes) <= _kernel.CHUNK


@pytest.fixture(scope="module")
def named():
    A, B, Y, _ = make_pairs(80, 60, rng=1)
    A = pd.DataFrame(A, index=[f"d{i}" for i in range(80)], columns=[f"f{i}" for i in range(20)])
    B = pd.DataFrame(B, index=[f"g{i}" for i in range(60)])
    return A, B, Y


def test_names_in_names_out(named):
    A, B, Y = named
    model = PairRegressor(3, shrinkage=0.1, bandwidth=0.3).fit(A[:70], B, Y[:70])
    scores = model.predict(A[70:])
    assert list(scores.index) == list(A.index[70:])
    assert list(scores.columns) == list(B.index)
    top = model.rank(A[70:], k=3)
    assert list(top.columns) == ["left", "rank", "right", "score", "known"]
    first = top[top["left"] == "d75"]
    assert list(first["rank"]) == [1, 2, 3]
    best = scores.loc["d75"].sort_values(ascending=False, kind="stable")[:3]
    assert list(first["right"]) == list(best.index)
    np.testing.assert_allclose(first["score"], best)
    bare = PairRegressor(3, shrinkage=0.1, bandwidth=0.3).fit(A[:70].to_numpy(), B.to_numpy(), Y[:70])
    places = bare.rank(A[70:].to_numpy(), k=3)
    np.testing.assert_array_equal(places["left"], np.repeat(np.arange(10), 3))
    assert [f"g{j}" for j in places["right"]] == list(top["right"])
    assert isinstance(bare.predict(A[70:].to_numpy()), np.ndarray)


def test_numbers_as_names_stay_numbers(named):
    A, B, Y = named
    A, B = A.set_axis(np.arange(80) + 100), B.set_axis(np.arange(60) * 2)
    model = PairRegressor(3, shrinkage=0.1, bandwidth=0.3).fit(A, B, Y)
    top = model.rank(k=2)
    assert top["left"].dtype == top["right"].dtype == B.index.dtype
    assert len(top.merge(B, left_on="right", right_index=True)) == 160
    assert model.predict(A).columns.equals(B.index)
    assert model.explain(101, 4)["right"].dtype == B.index.dtype
    pairs = pd.MultiIndex.from_product([["x", "y"], range(40)])
    again = PairRegressor(3, shrinkage=0.1, bandwidth=0.3).fit(A.set_axis(pairs), B, Y)
    pd.testing.assert_series_equal(again.explain(("x", 1), 4)["weight"], model.explain(101, 4)["weight"])


@pytest.mark.parametrize("mask", [None, "observed"])
def test_contributions_sum_to_the_prediction(named, mask):
    A, B, Y = named
    Y = Y[:70].copy()
    Y.data += np.random.default_rng(0).random(Y.nnz)
    model = PairRegressor(3, shrinkage=0.1, bandwidth=0.5).fit(A[:70], B, Y, mask)
    for i, j in (("d70", "g3"), ("d79", "g59")):
        parts = model.explain(i, j, A[70:], k=None)
        assert len(parts) == Y.nnz
        np.testing.assert_allclose(parts["contribution"].sum(), model.predict(A[70:]).loc[i, j])
        np.testing.assert_allclose(parts["weight"] * parts["score"], parts["contribution"])
        row = parts.iloc[0]
        assert Y[A.index.get_loc(row["left"]), B.index.get_loc(row["right"])] == row["score"]
        if mask:
            np.testing.assert_allclose(parts["weight"].sum(), 1.0)
    signed = PairRegressor(3, shrinkage=0.1, bandwidth=0.5).fit(A[:70], B, Y - 2 * (Y > 1), mask)
    sizes = signed.explain("d1", "g1")["contribution"].abs()
    assert (signed.explain("d1", "g1", k=None)["contribution"] < 0).any()
    assert list(sizes) == sorted(signed.explain("d1", "g1", k=None)["contribution"].abs(), reverse=True)[:10]
    few = model.explain("d1", "g1", k=4)
    assert len(few) == 4
    assert list(few["contribution"]) == sorted(few["contribution"], reverse=True)


def test_auto_is_near_the_best_of_its_grid():
    A, B, Y, _ = make_pairs(400, 250, 12, 3, rng=3)
    train, test = slice(0, 300), slice(300, 400)
    model = PairRegressor(3, random_state=0).fit(A[train], B, Y[train])
    auto = recall_at_k(Y[test], model.predict(A[test]), 20)
    found = model.cv_results_
    best = int(np.argmax(found["mean_score"]))
    assert model.shrinkage_ == found["shrinkage"][best]
    assert model.bandwidth_ == {
        "left": found["bandwidth_left"][best],
        "right": found["bandwidth_right"][best],
    }
    others = [
        PairRegressor(3, shrinkage=a, bandwidth=(h, g)).fit(A[train], B, Y[train]).predict(A[test])
        for a in (0.1, 0.5)
        for h in (0.1, 0.2, 0.3, 0.5)
        for g in (0.1, 0.2, 0.3, 0.5)
    ]
    assert auto > max(recall_at_k(Y[test], scores, 20) for scores in others) - 0.01


def test_auto_with_observed_scores_minimises_their_error():
    A, B, _, truth = make_pairs(200, 150, 8, 2, rng=4)
    rng = np.random.default_rng(0)
    # every pair has a score: how well two combinations of features agree
    scores = np.sin(A @ truth["left"] @ (B @ truth["right"]).T)
    Y = np.where(rng.random(scores.shape) < 0.3, scores, np.nan)
    model = PairRegressor(2).fit(A[:150], B, Y[:150], "observed")
    error = np.mean((model.predict(A[150:]) - scores[150:]) ** 2)
    assert error < 0.6 * scores.var()
    assert (model.cv_results_["mean_score"] <= 0).all()
    wide = PairRegressor(2, shrinkage=0.3, bandwidth=1.0).fit(A[:150], B, Y[:150], "observed")
    assert error < np.mean((wide.predict(A[150:]) - scores[150:]) ** 2)


@pytest.mark.parametrize("mask", [None, "observed"])
def test_the_search_scores_what_the_model_would_predict(mask):
    A, B, Y, _ = make_pairs(90, 70, 6, 2, rng=0)
    links = check_links(Y, mask, Y.shape)
    problem = _tune.Problem(A, B, links, "joint", 2, 20)
    grid = _tune.Grid((0.3,), (0.03, 0.2, 1.0), (0.03, 0.5))
    tried, found = _tune.tune(problem, grid, 3, np.random.default_rng(0))
    folds = list(_tune._folds(problem, 3, np.random.default_rng(0)))
    for s, score in zip(tried, found, strict=True):
        each = []
        for fold in folds:
            assert not set(fold.train) & set(fold.test)
            model = PairRegressor(2, shrinkage=s.shrinkage, bandwidth=(s.left, s.right))
            scores = model.fit(A[fold.train], B, Y[fold.train], mask).predict(A[fold.test])
            truth = Y[fold.test].toarray()
            if mask is None:
                each.append(np.mean([recall_at_k(truth, scores, k) for k in range(1, 21)]))
            else:
                each.append(-np.mean((scores - truth)[truth > 0] ** 2))
        assert score == pytest.approx(np.mean(each), rel=5e-3 if mask is None else 1e-9)


@pytest.mark.parametrize("n_top", [1, 3, 9, 10])
def test_score_of_the_search_is_recall_averaged_over_k(n_top):
    rng = np.random.default_rng(0)
    for levels in (3, 1000):
        scores = rng.integers(0, levels, (6, 10)).astype(np.float32)
        rows, columns = np.nonzero(rng.random((6, 10)) < 0.4)
        expected = []
        for i in np.unique(rows):
            gains = []
            for j in columns[rows == i]:
                middle = np.sum(scores[i] > scores[i, j]) + (np.sum(scores[i] == scores[i, j]) + 1) / 2
                gains.append(max(0.0, 1 - (middle - 1) / n_top))
            expected.append(np.mean(gains))
        assert _tune.top_score(scores, rows, columns, n_top) == pytest.approx(np.mean(expected))
    positive = np.zeros((6, 10))
    positive[rows, columns] = 1
    scores = rng.permuted(np.tile(np.arange(10.0), (6, 1)), axis=1)
    recall = np.mean([recall_at_k(positive, scores, k) for k in range(1, n_top + 1)])
    assert _tune.top_score(scores, rows, columns, n_top) == pytest.approx(recall)


def test_the_search_begins_in_the_middle_and_knows_all_combinations():
    grid = _tune.Grid((0.1, 0.3), (0.05, 0.15, 1.0), (0.2,), (10, 25, 50))
    assert grid.start == (1, 1, 0, 1)
    assert len(grid.settings) == 18
    assert grid.settings[-1] == _tune.Settings(0.3, 1.0, 0.2, 50)


def test_the_search_holds_out_entities_with_positive_scores_only():
    A, B, Y, _ = make_pairs(30, 20, 5, 2, rng=0)
    Y = Y.toarray()
    Y[:10] *= -1
    Y = sparse.csr_array(Y)
    Y.data[Y.indptr[20] :] = 0.0  # stored
    problem = _tune.Problem(A, B, check_links(Y, None, Y.shape), "joint", 2, 5)
    folds = list(_tune._folds(problem, 3, np.random.default_rng(0)))
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(10, 20))


def test_median_distance(monkeypatch):
    E = np.array([[0.0], [0.0], [0.0], [3.0], [0.0]])
    assert _kernel.median_distance(E) == pytest.approx(1.2)  # the median is zero, the mean is not
    assert _kernel.median_distance(E[:3]) == _kernel.median_distance(E[:1]) == 1.0
    monkeypatch.setattr(_kernel, "_SAMPLE", 2)
    assert _kernel.median_distance(np.arange(5.0)[:, None] ** 2) == 9.0  # the first and the fourth


def test_both_sides_of_a_direction_agree_in_sign():
    A, B, Y, _ = small(6)
    model = PairRegressor(3, shrinkage=0.1, bandwidth=0.5).fit(A, B, Y)
    E, F = model.embedding_["left"], model.embedding_["right"]
    together = np.einsum("ik,ij,jk->k", E, Y - Y.mean(), F) / Y.size / Y.std()
    np.testing.assert_allclose(together, model.singular_values_["left"] ** 2, rtol=1e-10)


def test_many_partners_are_sampled_with_those_of_held_out_entities(monkeypatch):
    monkeypatch.setattr(_tune, "CANDIDATES", 50)
    monkeypatch.setattr(_tune, "SAMPLE", 40)
    A, B, Y, _ = make_pairs(60, 90, 6, 2, rng=0)
    chosen = _tune._candidates(Y[:5], 90, np.random.default_rng(0))
    assert len(np.unique(chosen)) == len(chosen) == 40
    for i in range(5):  # up to 40 / (2 * 5) partners of each
        own = set(Y[[i]].indices)
        assert len(own & set(chosen)) >= min(4, len(own))
    lengths = []
    monkeypatch.setattr(_tune, "top_score", lambda *given: lengths.append(given[3]) or 0.5)
    PairRegressor(2, n_top=18, bandwidth=0.3).fit(A, B, Y)
    monkeypatch.undo()
    assert 8 <= min(lengths) <= max(lengths) < 18  # a list of 18 among 90, as long among the sampled
    monkeypatch.setattr(_tune, "CANDIDATES", 50)
    monkeypatch.setattr(_tune, "SAMPLE", 40)
    model = PairRegressor(2).fit(A, B, Y)
    assert 0 < model.cv_results_["mean_score"].max() < 1


def test_a_proxy_on_which_a_driver_fails_is_fitted(monkeypatch):
    A, B, Y, _ = make_pairs(40, 30, 8, 2, rng=0)
    expected = PairRegressor(2, shrinkage=0.1, bandwidth=0.3).fit(A, B, Y).predict()
    gesvd, drivers = scipy.linalg.svd, []

    def unwilling(*given, **options):
        drivers.append("gesdd")
        msg = "SVD did not converge"
        raise np.linalg.LinAlgError(msg)

    def willing(*given, lapack_driver="gesdd", **options):
        drivers.append(lapack_driver)
        return gesvd(*given, lapack_driver=lapack_driver, **options)

    monkeypatch.setattr(np.linalg, "svd", unwilling)
    monkeypatch.setattr(scipy.linalg, "svd", willing)
    found = PairRegressor(2, shrinkage=0.1, bandwidth=0.3).fit(A, B, Y).predict()
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert drivers[:3] == ["gesdd", "gesdd", "gesvd"]


def test_moments_of_scores_that_are_all_the_same_are_zero():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((5, 2))
    found = pair_moments(A, B, read_links(np.ones((6, 5)), None, (6, 5)), "joint", 1)
    np.testing.assert_array_equal(found.cross, 0.0)
