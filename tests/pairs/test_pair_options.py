"""Options of both regressors: known links, gaps in features, similarities, probabilities, tolerances."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from colspace import CopulaImputer, KernelPairRegressor, PairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import recall_at_k
from colspace.pairs import _kernel, _tune
from colspace.pairs._links import Links


def nadaraya(**kw):
    return PairRegressor(**{"n_components": 2, "shrinkage": 0.1, "bandwidth": 0.3, **kw})


def ridge(**kw):
    return KernelPairRegressor(**{"bandwidth": 0.7, "alpha": 1.0, "reduction": None, **kw})


BOTH = pytest.mark.parametrize("make", [nadaraya, ridge])


@pytest.fixture
def data():
    A, B, Y, _ = make_pairs(40, 30, 5, 2, rng=0)
    A = pd.DataFrame(A, index=[f"d{i}" for i in range(40)])
    return A, pd.DataFrame(B, index=[f"g{i}" for i in range(30)]), Y


# ---------------------------------------------------------------------- known links


@BOTH
def test_known_links_are_marked_and_left_out(make, data):
    A, B, Y = data
    model = make().fit(A, B, Y)
    for table in (model.rank(k=30), model.rank(A[::-1], k=30), model.rank(A, B[::-1], k=30)):
        known = [Y[int(r.left[1:]), int(r.right[1:])] > 0 for r in table.itertuples()]
        assert list(table["known"]) == known
    whole, rest = model.rank(k=30), model.rank(k=30, exclude_known=True)
    kept = whole[~whole["known"]]
    assert list(rest["left"]) == list(kept["left"])
    assert list(rest["right"]) == list(kept["right"])
    np.testing.assert_allclose(rest["score"], kept["score"])
    assert not rest["known"].any()
    assert list(rest["rank"][:3]) == [1, 2, 3]
    new = A[:3].set_axis(["x", "y", "z"])
    mixed = pd.concat([new, A[5:6]])
    table = model.rank(mixed, k=30)
    assert table.groupby("left")["known"].sum().to_dict() == {"d5": Y[[5]].nnz, "x": 0, "y": 0, "z": 0}
    observed = make().fit(A, B, Y.toarray(), Y.toarray() + np.eye(40, 30) > 0)
    table = observed.rank(k=30)
    assert table["known"].sum() == np.sum(Y.toarray() + np.eye(40, 30) > 0)  # zeros that were observed, too


# ---------------------------------------------------------------------- gaps in features


@BOTH
def test_gaps_are_filled_when_asked(make, data):
    A, B, Y = data
    A = A + 3 * np.outer(np.arange(40) % 7, np.ones(5))  # columns that tell each other
    holes = A.mask(np.random.default_rng(0).random(A.shape) < 0.1)
    with pytest.raises(ValueError, match="CopulaImputer can fill them"):
        make().fit(holes, B, Y)
    model = make(impute=True).fit(holes, B, Y)
    imputer = CopulaImputer(random_state=0).fit(holes)
    done = pd.DataFrame(np.asarray(imputer.transform(holes)), A.index, A.columns)
    full = make().fit(done, B, Y)
    np.testing.assert_allclose(model.predict(), full.predict(), rtol=1e-8, atol=1e-12)
    new = holes[:5].set_axis(list("vwxyz"))
    expected = full.predict(pd.DataFrame(np.asarray(imputer.transform(new)), new.index, new.columns))
    pd.testing.assert_frame_equal(model.predict(new), expected, rtol=1e-7)
    bare = holes[:2].copy()
    bare.iloc[0] = np.nan  # no feature at all
    assert np.isfinite(model.predict(bare).to_numpy()).all()


# ---------------------------------------------------------------------- similarities


def test_similarities_as_principal_coordinates(data):
    A, B, Y = data
    S, T = A @ A.T, B @ B.T
    model = nadaraya(metric="precomputed").fit(S, T, Y)
    plain = nadaraya().fit(
        A, B, Y
    )  # S says all of A but a rotation, which whitening with a little shrinkage feels
    exact = nadaraya(metric="precomputed", shrinkage=0.0).fit(S, T, Y)
    same = nadaraya(shrinkage=0.0).fit(A, B, Y)
    np.testing.assert_allclose(exact.predict(), same.predict(), rtol=1e-6)
    new = A[:4] * 0.9
    np.testing.assert_allclose(exact.predict(new @ A.T), same.predict(new), rtol=1e-6)
    assert np.corrcoef(model.predict().ravel(), plain.predict().ravel())[0, 1] > 0.95
    assert model.predict(A[:3] @ A.T).shape == (3, 30)


@BOTH
def test_bad_similarities(make, data):
    A, B, Y = data
    S, T = A @ A.T, B @ B.T
    model = make(metric="precomputed", **({} if make is nadaraya else {"bandwidth": "auto"}))
    with pytest.raises(ValueError, match=r"A has shape \(40, 5\).*square table"):
        model.fit(A, T, Y)
    odd = S.copy()
    odd.iloc[2, 5] += 1
    with pytest.raises(
        ValueError, match=r"A is not symmetric: entities 'd2' and 'd5'.*Remedy: \(A \+ A\.T\) / 2"
    ):
        model.fit(odd, T, Y)
    low = S - 2 * np.eye(40)
    with pytest.raises(
        ValueError, match=r"least eigenvalue is -2, so it is no kernel. Remedy: add 2\.02 to its diagonal"
    ):
        model.fit(low, T, Y)
    assert np.isfinite(np.asarray(model.fit(low + 2.02 * np.eye(40), T, Y).predict())).all()
    with pytest.raises(ValueError, match="columns of B name the rows in another order"):
        model.fit(S, T[T.columns[::-1]], Y)
    with pytest.raises(
        ValueError,
        match=r"columns of A are not the rows: 'q' are none of them, and similarities to 'd0' are missing",
    ):
        model.fit(S.rename(columns={"d0": "q"}), T, Y)
    with pytest.raises(ValueError, match="B is zero"):
        model.fit(S, T * 0, Y)
    with pytest.raises(ValueError, match=r"Y has shape \(40, 30\), but A has 39"):
        model.fit(S.iloc[1:, 1:], T, Y)
    gap = T.copy()
    gap.iloc[3, 4] = gap.iloc[4, 3] = np.nan
    with pytest.raises(
        ValueError, match="B has 2 similarities that are missing or infinite, of the entities 'g3', 'g4'"
    ):
        model.fit(S, gap, Y)
    twice = S.set_axis(["d0", *S.index[:-1]]).set_axis(["d0", *S.index[:-1]], axis=1)
    with pytest.raises(ValueError, match="stand twice: 'd0'"):
        model.fit(twice, T, Y)
    model.fit(S, T, Y)
    with pytest.raises(ValueError, match="not the entities of fit: similarities to 'd0' are missing"):
        model.predict(S.iloc[:2, 1:])
    with pytest.raises(ValueError, match="A has similarities to 39 entities, but fit had 40"):
        model.predict(S.iloc[:2, 1:].to_numpy())
    with pytest.raises(ValueError, match="columns of A name the entities of fit in another order"):
        model.predict(S.iloc[:2, ::-1])
    with pytest.raises(ValueError, match="similarities that are missing"):
        model.predict(S.iloc[:2].mask(S.iloc[:2] == S.iloc[0, 1]))


# ---------------------------------------------------------------------- probabilities


@BOTH
def test_probabilities_are_shares_of_links_among_held_out_pairs(make):
    A, B, Y, _ = make_pairs(400, 60, 4, 2, n_links=6, rng=0)
    model = make(calibrate=True, bandwidth=0.3).fit(A[:300], B, Y[:300])
    scores, p = model.predict(A[300:]), model.predict_proba(A[300:])
    assert (np.argsort(scores, axis=None)[-1] == np.argsort(p, axis=None)[-1]) or p.max() == p.ravel()[
        scores.argmax()
    ]
    truth = Y[300:].toarray() > 0
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 1.01)):
        inside = (p >= low) & (p < high)
        assert truth[inside].mean() == pytest.approx(p[inside].mean(), abs=0.05)
    table = model.rank(A[300:], k=3)
    np.testing.assert_allclose(table["probability"], p[table["left"], table["right"]])
    with pytest.raises(AttributeError, match="learnt with calibrate=True"):
        make().fit(A[:40], B, Y[:40]).predict_proba()
    with pytest.raises(ValueError, match="calibrate=True needs pairs with and without a link"):
        make(calibrate=True).fit(A[:60], B, Y[:60], "observed")


def test_probabilities_of_observed_pairs_are_about_those():
    A, B, Y, _ = make_pairs(100, 40, 4, 2, rng=0)
    mask = np.random.default_rng(0).random(Y.shape) < 0.5
    model = ridge(calibrate=True, cv=2).fit(A, B, (Y.toarray() > 0) * 1.0, mask)
    assert model.predict_proba().min() >= 0
    assert abs(model.predict_proba().mean() - Y.nnz / 4000) < 0.05


# ---------------------------------------------------------------------- numbers of directions


def test_number_of_directions_is_found_with_the_rest():
    A, B, Y, _ = make_pairs(150, 90, 20, 12, width=1.5, rng=0)
    model = PairRegressor("auto", bandwidth=0.4, cv=3, n_top=10).fit(A, B, Y)
    tried = model.cv_results_
    assert set(tried["n_components"]) == {10, 20}
    best = int(np.argmax(tried["mean_score"]))
    assert model.n_components_ == tried["n_components"][best]
    assert model.loadings_["left"].shape == (20, model.n_components_)
    again = PairRegressor(model.n_components_, bandwidth=0.4, shrinkage=model.shrinkage_).fit(A, B, Y)
    np.testing.assert_allclose(again.predict(), model.predict())
    for reduction in ("cphd", "sols"):
        with pytest.raises(ValueError, match=f"do not; give a number|{reduction}"):
            PairRegressor("auto", reduction=reduction).fit(A, B, Y)


def test_singular_vectors_nest():
    """The judge of several numbers of directions says of each what a search with that number alone says."""
    A, B, Y, _ = make_pairs(80, 50, 8, 3, rng=0)
    links = Links(Y)
    wide = _tune.Problem(A, B, links, "joint", 6, 10)
    for r in (2, 6):
        (_,), both = _tune.tune(wide, _tune.Grid((0.3,), (0.2,), (0.2,), (r,)), 3, np.random.default_rng(0))
        alone = _tune.Problem(A, B, links, "joint", r, 10)
        (_,), one = _tune.tune(alone, _tune.Grid((0.3,), (0.2,), (0.2,)), 3, np.random.default_rng(0))
        assert both[0] == pytest.approx(one[0], abs=1e-3)


# ---------------------------------------------------------------------- speed without loss


def test_dropped_weights_and_single_precision(monkeypatch):
    monkeypatch.setattr(_kernel, "_FEW", 0.9)
    A, B, Y, _ = make_pairs(300, 400, 8, 3, rng=0)
    links = Links(Y)
    model = PairRegressor(3, shrinkage=0.1, bandwidth=0.2).fit(A, B, Y)
    exact = model.predict(A[:50])
    smoother = model._smoother()
    for tol, precision, limit in (
        (0.0, np.float32, 1e-5),
        (1e-5, np.float64, 2e-2),
        (1e-5, np.float32, 2e-2),
    ):
        fast = _kernel.Smoother(smoother.left, smoother.right, links, smoother.widths, tol, precision)
        K = fast.right_kernel(smoother.right)
        np.testing.assert_allclose(np.asarray(K.sum(axis=1)).ravel(), 1, rtol=1e-5)
        if tol:
            assert sparse.issparse(K)
            assert K.nnz < 0.9 * 400 * 400
            whole = smoother.right_kernel(smoother.right)
            large = whole >= tol * whole.max(axis=1, keepdims=True)
            assert np.mean((K.toarray() > 0) != large) < 1e-4  # rounding at the limit
            np.testing.assert_allclose(
                K.toarray()[large],
                (whole / np.sum(whole * large, axis=1, keepdims=True))[large],
                rtol=1e-4,
                atol=1e-7,
            )
        (block,) = fast.blocks(model.transform(A[:50]), smoother.right)
        assert np.abs(block[2] - exact).max() < limit * exact.max()
        found = PairRegressor(3, shrinkage=0.1, bandwidth=0.2, tol=tol).fit(A, B, Y)
        assert recall_at_k(Y[:50], found.predict(A[:50]), 10) == pytest.approx(
            recall_at_k(Y[:50], exact, 10), abs=0.01
        )
    np.testing.assert_array_equal(
        PairRegressor(3, shrinkage=0.1, bandwidth=0.2, tol=0).fit(A, B, Y).predict(A[:50]), exact
    )


def test_weights_are_dropped_where_that_leaves_few():
    rng = np.random.default_rng(0)
    E, links = rng.standard_normal((200, 2)), Links(sparse.csr_array(np.eye(200)))
    narrow, wide = (_kernel.Smoother(E, E, links, (h, h), 1e-5) for h in (0.05, 0.5))
    assert narrow.drops == (True, True)
    assert sparse.issparse(narrow.right_kernel(E))
    assert wide.drops == (False, False)
    assert isinstance(wide.right_kernel(E), np.ndarray)
    assert not _kernel.Smoother(E, E, links, (0.05, 0.05), 0.0).drops[1]


def test_far_entities_keep_double_precision():
    rng = np.random.default_rng(0)
    E, F = rng.standard_normal((4, 3)) + 1e6, rng.standard_normal((5, 3))
    assert _kernel.excess_distances(E, F, 1.0, np.float32).dtype == np.float64
    assert _kernel.excess_distances(F, F, 1.0, np.float32).dtype == np.float32


@BOTH
def test_the_right_side_is_kept_between_calls_but_not_in_files(make, data):
    A, B, Y = data
    model = make().fit(A, B, Y)
    before = model.predict(A[:3])
    assert "_kept" in vars(model)
    assert "_kept" not in model.__getstate__()
    pd.testing.assert_frame_equal(model.predict(A[:3]), before)
    model.fit(A, B, Y * 2.0)
    np.testing.assert_allclose(model.predict(A[:3]), 2 * before)


# ---------------------------------------------------------------------- little to learn from


@BOTH
def test_one_link_and_equal_links(make, data):
    A, B, Y = data
    one = sparse.csr_array(([1.0], ([3], [4])), shape=Y.shape)
    table = make().fit(A, B, one).rank(A[3:4], k=1)
    assert table["right"].tolist() == ["g4"]
    with pytest.raises(ValueError, match="all observed pairs have the score 1"):
        make().fit(A, B, np.ones((40, 30)))
    with pytest.raises(ValueError, match="all observed pairs have the score 2"):
        make().fit(A, B, (Y > 0) * 2.0, "observed")


@pytest.mark.parametrize("target", ["new-left", "new-right", "new-both", "entries"])
def test_the_search_with_one_link(target, data):
    A, B, Y = data
    one = sparse.csr_array(([1.0], ([3], [4])), shape=Y.shape)
    if target == "entries":  # kernels of links are tuned by folds
        with pytest.raises(
            ValueError, match=r"too few links to tune by\. Give bandwidth and alpha as numbers"
        ):
            KernelPairRegressor(target).fit(A, B, one)
    model = KernelPairRegressor(target, profile=0.0).fit(A, B, one)
    assert model.reduction_ is None
    assert model.rank(A[3:4], k=1)["right"].tolist() == ["g4"]
    with pytest.raises(ValueError, match=r"too few|folds need|nothing to learn"):
        KernelPairRegressor(target, reduction="joint", n_components=1).fit(A, B, one)
