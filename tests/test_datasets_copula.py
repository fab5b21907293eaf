import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from colspace.datasets import COPULA_SETTINGS, load_ratings, make_copula, make_ratings


@pytest.mark.parametrize("name", COPULA_SETTINGS)
def test_settings(name):
    setting = COPULA_SETTINGS[name]
    X, complete, truth = make_copula(**setting, rng=0)
    assert X.shape == complete.shape == (500, 200)
    continuous = name.startswith("continuous")
    k, s2, missing = (10, 0.1, 0.4) if continuous else (5, 0.5 if "low SNR" in name else 0.1, 0.6)
    assert truth.loadings.shape == (200, k)
    assert_allclose(np.sum(truth.loadings**2, axis=1), 1 - s2, rtol=1e-12)
    assert truth.noise == s2
    hole = np.isnan(X)
    assert abs(hole.mean() - missing) < 4 * np.sqrt(missing * (1 - missing) / X.size)
    assert_array_equal(X[~hole], complete[~hole])
    again = make_copula(**setting, rng=0)
    assert_array_equal(again.X, X)
    if continuous:
        assert truth.cuts is None
        assert truth.link == ("cube" if "high" in name else "identity")
    else:
        levels = np.arange(1, 6) if name.startswith("ordinal") else np.arange(2)
        assert all(set(column) == set(levels) for column in complete.T)
        # cuts lie strictly between two quantiles, so both outer levels have their share
        assert np.mean(complete == levels[0], axis=0).min() >= 0.05
        assert np.mean(complete == levels[-1], axis=0).min() >= 0.05


@pytest.mark.parametrize("link", ["identity", "cube"])
def test_latent_law_of_continuous_columns(link):
    X, complete, truth = make_copula(40_000, 6, 2, link=link, missing=0.0, noise=0.3, rng=1)
    assert_array_equal(X, complete)
    z, upper = truth.bounds(X)
    assert_array_equal(z, upper)
    assert_allclose(truth.values(z), X, rtol=1e-12)
    expected = truth.loadings @ truth.loadings.T + 0.3 * np.eye(6)
    assert_allclose(np.cov(z.T), expected, atol=4 * np.sqrt(2 / 40_000))


def test_bounds_of_levels():
    X, complete, truth = make_copula(300, 5, 2, kind="ordinal", n_levels=4, rng=2)
    lower, upper = truth.bounds(X)
    hole = np.isnan(X)
    assert np.isneginf(lower[hole]).all()
    assert np.isposinf(upper[hole]).all()
    assert np.isneginf(lower[complete == 1]).all()
    assert np.isposinf(upper[complete == 4]).all()
    for j in range(5):
        inner = ~hole[:, j] & (X[:, j] == 2)
        assert_array_equal(lower[inner, j], truth.cuts[j, 0])
        assert_array_equal(upper[inner, j], truth.cuts[j, 1])
    middle = np.where(np.isfinite(lower), lower, upper - 1.0) + 1e-9
    assert_array_equal(truth.values(middle)[~hole], X[~hole])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": "nominal"}, "kind='nominal'"),
        ({"link": "log"}, "link='log'"),
        ({"noise": 1.0}, "noise=1.0"),
        ({"missing": 1.0}, "missing=1.0"),
        ({"n_levels": 1, "kind": "ordinal"}, "n_levels=1"),
        ({"n_samples": 4, "kind": "ordinal"}, "4 rows are too few"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        make_copula(**arguments)


def test_ratings_have_the_size_and_skew_of_movielens():
    X, rows, columns, values = make_ratings(rng=0)
    assert X.shape == (6040, 2514)
    assert X.nnz == round(0.064 * 6040 * 2514)
    assert len(values) == round(X.nnz / 9)
    assert set(X.data) == {1.0, 2.0, 3.0, 4.0, 5.0}
    per_user, per_item = np.diff(X.indptr), np.bincount(X.indices, minlength=2514)
    assert per_user.min() >= 15
    assert per_item.min() >= 45
    assert 1000 < per_user.max() < 2514
    assert 2000 < per_item.max() < 6040
    assert np.median(per_user) < 0.7 * per_user.mean()
    shares = np.bincount(X.data.astype(int), minlength=6)[1:] / X.nnz
    assert_allclose(shares, [0.056, 0.107, 0.261, 0.349, 0.227], atol=0.01)
    seen = np.repeat(np.arange(6040), per_user) * 2514 + X.indices
    held = rows * 2514 + columns
    assert len(np.unique(seen)) == X.nnz
    assert len(np.unique(held)) == len(held)
    assert not np.isin(held, seen).any()
    assert abs(values.mean() - X.data.mean()) < 0.02
    assert abs(per_item[columns].mean() / np.mean(per_item[X.indices]) - 1) < 0.05


def test_small_ratings():
    data = make_ratings(60, 40, density=0.06, rng=1)
    assert np.diff(data.X.indptr).min() >= 1
    assert np.bincount(data.X.indices, minlength=40).min() >= 1
    again = make_ratings(60, 40, density=0.06, rng=1)
    assert_array_equal(again.X.toarray(), data.X.toarray())
    assert len(make_ratings(60, 40, density=0.06, held_out=0.0, rng=1).values) == 0
    for density in (0.01, 0.6):
        with pytest.raises(ValueError, match=f"density={density}"):
            make_ratings(60, 40, density=density)


def test_load_ratings(tmp_path, monkeypatch):
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"COLSPACE_DATA is not set.*MovieLens"):
        load_ratings()
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"ratings.dat does not exist.*MovieLens"):
        load_ratings()
    (tmp_path / "ratings.dat").write_text("1::10::5::978\n1::11::3::978\n7::10::4::978\n")
    X = load_ratings(fewest=1)
    assert_array_equal(X.toarray(), [[5.0, 3.0], [4.0, 0.0]])
    assert_array_equal(load_ratings(fewest=2).toarray(), [[5.0], [4.0]])
    (tmp_path / "other.csv").write_text("userId,movieId,rating,timestamp\n1,10,4.5,978\n2,10,0.5,978\n")
    assert_array_equal(load_ratings(tmp_path / "other.csv", fewest=1).toarray(), [[4.5], [0.5]])
    with pytest.raises(ValueError, match="no item has 50 ratings"):
        load_ratings()
