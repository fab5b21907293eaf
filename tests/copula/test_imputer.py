"""CopulaImputer: the contract of an imputer, what it says about gaps, and bad input."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colspace import ConstantColumnWarning, CopulaImputer
from colspace.copula import _imputer, _passes, pool
from colspace.copula._predict import row_log_likelihood


def low_rank(n=300, p=12, k=2, noise=0.2, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    Z = rng.standard_normal((n, k)) @ W.T + np.sqrt(noise) * rng.standard_normal((n, p))
    return Z, rng.random((n, p)) < missing, W


def mixed_values(Z):
    """Continuous, skewed, ordinal, binary, count and zero-inflated columns, two of each."""
    X = Z.copy()
    X[:, 2:4] = np.exp(Z[:, 2:4])
    X[:, 4:6] = np.digitize(Z[:, 4:6], [-0.8, 0.0, 0.9])
    X[:, 6:8] = Z[:, 6:8] > 0.3
    X[:, 8:10] = np.floor(np.exp(1.2 * Z[:, 8:10] + 2.5))
    X[:, 10:12] = np.maximum(Z[:, 10:12], -0.4) + 0.4
    return X


@pytest.fixture(scope="module")
def mixed():
    Z, gaps, _ = low_rank()
    X = mixed_values(Z)
    return X, np.where(gaps, np.nan, X)


@pytest.fixture(scope="module")
def fitted(mixed):
    return CopulaImputer(kinds={8: "count", 9: "count"}, random_state=0).fit(mixed[1])


@pytest.fixture
def frame(mixed):
    """A table with every kind of column that people have."""
    X = mixed[1]
    levels = np.array(["never", "seldom", "often", "always"])
    text = [None if np.isnan(v) else levels[int(v)] for v in X[:, 4]]
    return pd.DataFrame(
        {
            "a": X[:, 0],
            "b": X[:, 1].astype(np.float32),
            "income": X[:, 2],
            "often": pd.Categorical(text, categories=levels, ordered=True),
            "stars": pd.array([pd.NA if np.isnan(v) else int(v) for v in X[:, 5]], dtype="Int64"),
            "yes": pd.array([pd.NA if np.isnan(v) else bool(v) for v in X[:, 6]], dtype="boolean"),
            "word": np.array(text, dtype=object),
            "visits": X[:, 8],
            "paid": X[:, 10],
        },
        index=pd.Index(np.arange(len(X)) + 1000, name="person"),
    )


KINDS = {"word": ["never", "seldom", "often", "always"]}


# ---------------------------------------------------------------- the contract


def test_kinds_are_found(fitted):
    kinds = fitted.kinds_
    assert kinds[:4] == ("continuous",) * 4
    assert kinds[4:8] == ("ordinal", "ordinal", "binary", "binary")
    assert kinds[10:] == ("lower", "lower")


def test_observed_cells_stay_bit_identical(mixed, fitted):
    X = mixed[1]
    before = X.copy()
    filled = fitted.transform(X)
    seen = ~np.isnan(X)
    assert (filled[seen] == X[seen]).all()
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("method", ["ep", "paper"])
def test_rows_do_not_know_of_each_other(mixed, method):
    X = mixed[1]
    model = CopulaImputer(2, method=method, random_state=0).fit(X)
    whole = model.transform(X[:40])
    single = np.vstack([model.transform(X[[i]]) for i in range(40)])
    np.testing.assert_allclose(single, whole, rtol=1e-9, atol=1e-9)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_allclose(model.transform(X[order]), whole[order], rtol=1e-9, atol=1e-9)
    lower, upper = model.interval(X[:40])
    np.testing.assert_allclose(model.interval(X[[3]])[0][0], lower[3], rtol=1e-9, atol=1e-9)
    assert (lower <= upper).all()


def test_levels_are_kept(mixed, fitted):
    X, filled = mixed[1], fitted.transform(mixed[1])
    for j in range(4, 10):
        assert set(np.unique(filled[:, j])) <= set(np.unique(X[~np.isnan(X[:, j]), j]))
    assert filled[:, 10:].min() >= 0.0


def test_a_frame_of_every_type_round_trips(frame):
    model = CopulaImputer(2, kinds=KINDS, random_state=0).fit(frame)
    copy = frame.copy()
    filled = model.transform(frame)
    pd.testing.assert_frame_equal(frame, copy)
    assert list(filled.columns) == list(frame.columns)
    assert filled.index.equals(frame.index)
    assert (filled.dtypes == frame.dtypes).all()
    assert not filled.isna().any().any()
    for name in frame:
        seen = frame[name].notna()
        assert filled[name][seen].equals(frame[name][seen])
    assert dict(zip(frame.columns, model.kinds_, strict=True))["word"] == "ordinal"
    new = model.transform(frame.iloc[5:8])
    pd.testing.assert_frame_equal(new, filled.iloc[5:8])
    lower, upper = model.interval(frame)
    assert (lower["often"] <= upper["often"]).all()
    assert list(model.get_feature_names_out()) == list(frame.columns)
    draws = model.sample(frame, 2, random_state=0)
    assert (draws[0].dtypes == frame.dtypes).all()
    mean = model.mean(frame)
    assert mean["often"].between(0, 3).all()


def test_a_polars_frame_comes_back_as_one(mixed):
    table = pl.DataFrame({f"c{j}": mixed[1][:, j] for j in range(6)}).fill_nan(None)
    filled = CopulaImputer(2).fit_transform(table)
    assert isinstance(filled, pl.DataFrame)
    assert filled.null_count().sum_horizontal()[0] == 0
    assert filled.schema == table.schema


def test_sparse_equals_dense_and_is_never_densified_in_fit(mixed, monkeypatch):
    X = mixed[1][:, 4:6]
    X = np.hstack([X, mixed[1][:, 5:8]]) + 1
    row, column = np.nonzero(~np.isnan(X))
    table = sparse.csr_array((X[row, column], (row, column)), shape=X.shape)
    dense = CopulaImputer(2, nonlinear=False, random_state=0).fit(X)
    with monkeypatch.context() as patch:
        for name in ("toarray", "todense"):
            patch.setattr(sparse.csr_array, name, lambda self: pytest.fail("densified"))
        model = CopulaImputer(2, nonlinear=False, random_state=0).fit(table)
    np.testing.assert_allclose(model.correlation_, dense.correlation_, atol=1e-10)
    np.testing.assert_allclose(model.transform(table), dense.transform(X), atol=1e-10)


@pytest.mark.parametrize("method", ["ep", "paper"])
def test_dask_equals_local(mixed, method):
    X = mixed[1]
    local = CopulaImputer(2, method=method, random_state=0).fit(X)
    for table in (
        da.from_array(X, chunks=(110, -1)),
        dd.from_pandas(pd.DataFrame(X, columns=[f"c{j}" for j in range(12)]), npartitions=3),
    ):
        model = CopulaImputer(2, method=method, random_state=0).fit(table)
        np.testing.assert_allclose(model.correlation_, local.correlation_, atol=1e-8)
        rows = X if table.__class__.__module__.startswith("dask.array") else table.compute()
        np.testing.assert_allclose(np.asarray(model.transform(rows)), local.transform(X), atol=1e-6)
    with pytest.raises(TypeError, match="map_partitions"):
        local.transform(da.from_array(X))


def test_blocks_of_rows_do_not_matter(mixed, fitted, monkeypatch):
    monkeypatch.setattr(_passes, "rows_per_block", lambda p, k, thin: 37)
    model = clone(fitted).fit(mixed[1])
    np.testing.assert_allclose(model.correlation_, fitted.correlation_, atol=1e-9)


def test_units_and_order_of_columns_do_not_matter(mixed, fitted):
    X = mixed[1][:, :6]
    one = CopulaImputer(2, random_state=0, tol=1e-6).fit(X)
    scaled = CopulaImputer(2, random_state=0, tol=1e-6).fit(X * [1, 1e6, 1, 1, 1, 1])
    np.testing.assert_allclose(
        scaled.transform(X * [1, 1e6, 1, 1, 1, 1])[:, 1], one.transform(X)[:, 1] * 1e6, rtol=1e-6
    )
    turned = CopulaImputer(2, random_state=0, tol=1e-6).fit(X[:, ::-1])
    np.testing.assert_allclose(turned.correlation_[::-1, ::-1], one.correlation_, atol=1e-3)


def test_pipelines_clone_and_refit(mixed):
    X = mixed[1][:, :5]
    pipe = make_pipeline(CopulaImputer(2, random_state=0), StandardScaler()).fit(X)
    np.testing.assert_allclose(clone(pipe).fit(X).transform(X), pipe.transform(X))
    table = CopulaImputer(2).set_output(transform="pandas").fit_transform(X)
    assert list(table.columns) == [f"x{j}" for j in range(5)]


# ---------------------------------------------------------------- what is said about gaps


def test_rank_is_found():
    Z, gaps, _ = low_rank(400, 40, 3)
    assert CopulaImputer(random_state=0).fit(np.where(gaps, np.nan, Z)).n_components_ == 3


def test_loadings_are_those_of_the_model():
    Z, gaps, W = low_rank(2000, 15, 2, missing=0.2)
    model = CopulaImputer(2, random_state=0).fit(np.where(gaps, np.nan, Z**3))
    truth = W @ W.T
    off = ~np.eye(15, dtype=bool)
    assert np.abs(model.correlation_ - truth)[off].max() < 0.08
    np.testing.assert_allclose(np.diag(model.correlation_), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.components_, model.loadings_.T)
    assert abs(model.noise_variance_.mean() - 0.2) < 0.02


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_cover(level):
    """Continuous, skewed columns; 2,400 gaps, four standard errors of a binomial share (rows are dependent: doubled)."""
    Z, gaps, _ = low_rank(400, 20, 2, seed=3)
    X = np.exp(Z)
    model = CopulaImputer(2, random_state=0).fit(np.where(gaps, np.nan, X))
    lower, upper = model.interval(np.where(gaps, np.nan, X), level)
    share = ((lower <= X) & (upper >= X))[gaps].mean()
    assert abs(share - level) < 8 * np.sqrt(level * (1 - level) / gaps.sum())


def test_level_probabilities_are_calibrated():
    Z, gaps, _ = low_rank(600, 20, 2, noise=0.4, seed=4)
    X = np.digitize(Z, [-0.7, 0.2, 1.0]).astype(float)
    holes = np.where(gaps, np.nan, X)
    model = CopulaImputer(2, random_state=0).fit(holes)
    filled, p = model.transform(holes), model.probability_within(holes, 0)
    right = filled == X
    for low, high in ((0.3, 0.5), (0.5, 0.7), (0.7, 0.9)):
        here = gaps & (p > low) & (p <= high)
        assert abs(right[here].mean() - p[here].mean()) < 8 * 0.5 / np.sqrt(here.sum())
    bound = model.probability_within(holes, 0, bound=True)
    assert (bound <= p + 1e-9).all()
    assert (p[~gaps] == 1).all()
    assert (model.probability_within(holes, 1)[gaps] >= p[gaps]).all()
    assert (model.probability_within(holes, 3) == 1).all()


def test_probability_within_a_distance():
    Z, gaps, _ = low_rank(400, 15, 2, seed=5)
    holes = np.where(gaps, np.nan, Z)
    model = CopulaImputer(2, random_state=0).fit(holes)
    p, near = model.probability_within(holes, 0.4), np.abs(model.transform(holes) - Z) <= 0.4
    assert abs(p[gaps].mean() - near[gaps].mean()) < 0.03
    assert (model.probability_within(holes, 0.4, bound=True) <= p + 1e-9).all()


def test_the_mean_beats_the_median_in_squared_error():
    Z, gaps, _ = low_rank(500, 20, 2, noise=0.4, seed=6)
    X = np.exp(Z)
    holes = np.where(gaps, np.nan, X)
    model = CopulaImputer(2, random_state=0).fit(holes)
    errors = [np.mean((table - X)[gaps] ** 2) for table in (model.mean(holes), model.transform(holes))]
    assert errors[0] < errors[1]
    X = np.digitize(Z, [-0.5, 0.5]).astype(float)
    holes = np.where(gaps, np.nan, X)
    model = CopulaImputer(2, random_state=0).fit(holes)
    mean = model.mean(holes)[gaps]
    assert mean.min() >= 0
    assert mean.max() <= 2
    assert abs(mean.mean() - X[gaps].mean()) < 0.05


def test_reliable_cells_have_smaller_errors():
    Z, gaps, _ = low_rank(400, 20, 2, noise=0.3, seed=7)
    for X in (Z, np.digitize(Z, [-0.5, 0.5]).astype(float)):
        holes = np.where(gaps, np.nan, X)
        model = CopulaImputer(2, random_state=0).fit(holes)
        error = np.abs(model.transform(holes) - X)
        r = model.reliability(holes)
        assert np.isnan(r[~gaps]).all()
        best = gaps & (r >= np.nanquantile(r, 0.75))
        size = np.abs(X[best]).mean() / np.abs(X[gaps]).mean() if X is Z else 1.0
        assert error[best].mean() / size < 0.8 * error[gaps].mean()
        v = model.reliability(holes, measure="variance")
        assert np.nanmin(v) >= 0
        assert np.nanmax(v) <= 1


def test_draws_have_the_conditional_law():
    Z, gaps, _ = low_rank(60, 8, 2, noise=0.3, seed=8)
    holes = np.where(gaps, np.nan, Z)
    model = CopulaImputer(2, correlation="factors", random_state=0).fit(holes)
    draws = np.stack(model.sample(holes, 800, random_state=1))
    assert (draws[:, ~gaps] == holes[~gaps]).all()
    lower, upper = np.quantile(draws, [0.05, 0.95], axis=0)
    latent = model.probability_within(holes, 0.3)
    near = (np.abs(draws - model.transform(holes)) <= 0.3).mean(axis=0)
    assert np.abs(near - latent)[gaps].mean() < 0.03
    assert (upper > lower)[gaps].all()
    again = model.sample(holes, 3, random_state=1)
    assert np.array_equal(np.stack(model.sample(holes, 3, random_state=1)), np.stack(again))
    # rows are independent given the model
    where = np.argwhere(gaps)
    first, second = where[0], where[np.flatnonzero(where[:, 0] != where[0, 0])[0]]
    r = np.corrcoef(draws[:, first[0], first[1]], draws[:, second[0], second[1]])[0, 1]
    assert abs(r) < 4 / np.sqrt(800)


def test_pooled_intervals_cover():
    """Mean of a column with 40 % gaps at random, 20 draws, 60 data sets: share within a binomial band of 95 %."""
    hits = 0
    for seed in range(60):
        Z, gaps, _ = low_rank(120, 6, 1, noise=0.4, missing=0.4, seed=100 + seed)
        holes = np.where(gaps, np.nan, Z)
        tables = CopulaImputer(1, random_state=0).fit(holes).sample(holes, 20, random_state=seed)
        estimates = [table[:, 0].mean() for table in tables]
        found = pool(estimates, [table[:, 0].var(ddof=1) / 120 for table in tables], complete_df=119)
        hits += found.lower <= 0.0 <= found.upper
    assert 51 <= hits <= 60


def test_score_prefers_the_right_rank():
    Z, gaps, _ = low_rank(600, 20, 3, seed=9)
    holes = np.where(gaps, np.nan, Z)
    scores = [CopulaImputer(k, random_state=0).fit(holes[:400]).score(holes[400:]) for k in (1, 3)]
    assert scores[1] > scores[0] + 1
    model = CopulaImputer(3, random_state=0).fit(holes[:400])
    assert model.score(holes[400:]) == pytest.approx(row_log_likelihood(holes[400:], model._model).mean())


def test_latent_space_is_that_of_the_factors():
    rng = np.random.default_rng(0)
    t = rng.standard_normal(300)
    X = np.digitize(np.outer(t, np.ones(12)) + 0.6 * rng.standard_normal((300, 12)), [-0.5, 0.6]).astype(
        float
    )
    X[rng.random(X.shape) < 0.2] = np.nan
    model = CopulaImputer(1, random_state=0).fit(X)
    assert abs(np.corrcoef(model.latent(X)[:, 0], t)[0, 1]) > 0.93


def test_clip_keeps_imputations_inside():
    Z, gaps, _ = low_rank(60, 6, 1, noise=0.05, missing=0.5, seed=2)
    X = np.where(gaps, np.nan, Z**3)
    free = CopulaImputer(1, random_state=0).fit(X)
    bound = CopulaImputer(1, random_state=0, clip=True).fit(X)
    limits = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    upper = free.interval(X, 0.999)[1]
    assert (upper > limits[1]).any()
    assert (bound.interval(X, 0.999)[1] <= limits[1]).all()
    assert (bound.mean(X) >= limits[0]).all()


def test_new_values_of_continuous_and_count_columns_have_a_place(mixed, fitted):
    X = mixed[1][:3].copy()
    X[0, 0], X[1, 0], X[2, 8] = 50.0, -50.0, 1e6
    filled = fitted.transform(X)
    assert np.isfinite(filled).all()
    assert (filled[:2, 0] == [50.0, -50.0]).all()


def test_common_noise_and_warm_start(mixed):
    X = mixed[1]
    common = CopulaImputer(2, noise="common", random_state=0).fit(X)
    assert np.ptp(common.noise_variance_) < 1e-12
    model = CopulaImputer(2, random_state=0, warm_start=True).fit(X)
    first = model.n_iter_
    model.fit(X)
    assert model.n_iter_ < first


def test_paper_has_one_noise_and_values_of_the_column():
    Z, gaps, _ = low_rank(300, 10, 2)
    X = np.where(gaps, np.nan, np.exp(Z))
    model = CopulaImputer(2, method="paper", random_state=0).fit(X)
    filled = model.transform(X)
    assert np.ptp(model.noise_variance_) == 0
    assert (filled.max(axis=0) <= np.nanmax(X, axis=0)).all()
    error = [
        np.sqrt(np.mean((np.log(t) - Z)[gaps] ** 2)) for t in (filled, CopulaImputer(2).fit(X).transform(X))
    ]
    assert error[1] < error[0] < 0.7


# ---------------------------------------------------------------- bad input


def test_constant_columns_are_named_and_filled(mixed):
    X = mixed[1][:, :5].copy()
    X[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 7.0)
    with pytest.warns(ConstantColumnWarning, match="3"):
        model = CopulaImputer(2, random_state=0).fit(X)
    assert (model.transform(X)[:, 3] == 7.0).all()
    assert model.kinds_[3] == "constant"
    assert (model.loadings_[3] == 0).all()
    lower, upper = model.interval(X)
    assert (lower[:, 3] == upper[:, 3]).all()
    assert np.isnan(model.reliability(X)[:, 3]).all()
    assert (model.probability_within(X)[:, 3] == 1).all()


def test_rows_and_columns_without_values(mixed, fitted):
    X = mixed[1].copy()
    X[5] = np.nan
    model = CopulaImputer(2, random_state=0).fit(X)
    filled = model.transform(X)
    assert np.isfinite(filled[5]).all()
    assert abs(ndtr(model.latent(X)[5]) - 0.5).max() < 1e-9
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="without an observed value"):
        CopulaImputer().fit(X)
    with pytest.raises(NotFittedError):
        CopulaImputer().transform(X)
    assert fitted.transform(np.full((1, 12), np.nan)).shape == (1, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 12}, "must be less than"),
        ({"n_components": 0}, "n_components"),
        ({"kinds": "ordered"}, "ordinal"),
        ({"kinds": {3: "binary"}}, "binary"),
        ({"kinds": {99: "ordinal"}}, "99"),
        ({"method": "em"}, "method"),
        ({"noise": "row"}, "noise"),
    ],
)
def test_bad_parameters(mixed, options, message):
    with pytest.raises(ValueError, match=message):
        CopulaImputer(**options).fit(mixed[1])


def test_bad_values(mixed, fitted, frame):
    X = mixed[1]
    with pytest.raises(ValueError, match="infinit"):
        CopulaImputer().fit(np.where(np.arange(12) == 2, np.inf, X))
    new = X[:2].copy()
    new[0, 4] = 17.0
    with pytest.raises(ValueError, match="17"):
        fitted.transform(new)
    new = X[:2].copy()
    new[0, 10] = -3.0
    with pytest.raises(ValueError, match="limit"):
        fitted.transform(new)
    with pytest.raises(ValueError, match="'word' cannot be 'count': its values are words without an order"):
        CopulaImputer(kinds={"word": "count"}).fit(frame)
    twice = pd.DataFrame(X[:, :3], columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="twice"):
        CopulaImputer().fit(twice)
    with pytest.raises(ValueError, match="n_samples"):
        CopulaImputer().fit(X[:1])
    with pytest.raises(ValueError, match="level"):
        fitted.interval(X, 95)
    with pytest.raises(ValueError, match="d="):
        fitted.probability_within(X, -1)
    with pytest.raises(ValueError, match="measure"):
        fitted.reliability(X, measure="best")
    with pytest.raises(ValueError, match="n_samples"):
        fitted.sample(X, 0)


def test_it_says_when_it_has_not_converged(mixed):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        CopulaImputer(2, max_iter=1).fit(mixed[1])


def test_an_interrupted_fit_changes_nothing(mixed, fitted, monkeypatch):
    model = clone(fitted).fit(mixed[1])
    before = model.transform(mixed[1])

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_imputer, "fit_copula", stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(mixed[1][:, :10])
    np.testing.assert_array_equal(model.transform(mixed[1]), before)


def test_independent_columns_are_no_trouble():
    X = np.random.default_rng(0).standard_normal((50, 4))
    X[::3, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CopulaImputer(random_state=0).fit(X)
    assert np.abs(model.correlation_ - np.eye(4)).max() < 0.6
    assert np.isfinite(model.transform(X)).all()
