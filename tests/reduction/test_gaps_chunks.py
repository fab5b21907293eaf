"""HoleyReduction on chunks of rows."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer

from colspace import CopulaImputer, HoleyReduction, JointReduction
from colspace.metrics import nsee
from colspace.reduction import _gaps, _gaps_chunks

NAMES = [f"c{j}" for j in range(5)]


def table(n=600, share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) @ (np.eye(5) + 0.4 * rng.standard_normal((5, 5)))
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)
    X[rng.random(X.shape) < share] = np.nan
    return X, y


def chunks(X, *others, size=170):
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        yield X[rows], *(other[rows] for other in others)


KINDS = {
    "arrays": lambda X: X,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "numbered": pd.DataFrame,
    "single": lambda X: X.astype(np.float32),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_give_what_the_whole_table_gives(kind, weighted):
    X, y = table()
    others = (y, 1.0 + np.arange(len(y)) % 3) if weighted else (y,)
    whole = KINDS[kind](X)
    expected = HoleyReduction(random_state=0).fit(whole, *others)
    found = HoleyReduction(random_state=0).fit(chunks(whole, *others))
    assert found.components_.dtype == expected.components_.dtype
    for name in ("components_", "components_error_", "missing_share_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-9)
    assert found.expected_error_ == pytest.approx(expected.expected_error_, rel=1e-6)
    np.testing.assert_allclose(found.transform(whole), expected.transform(whole), rtol=1e-6, atol=1e-6)
    names = NAMES if kind in ("pandas", "polars") else None
    assert (
        getattr(found, "feature_names_in_", None) is None
        if names is None
        else list(found.feature_names_in_) == names
    )


@pytest.mark.parametrize("response", ["numbers", "words"])
def test_published_moments_and_labels(response):
    X, y = table()
    y = y if response == "numbers" else np.where(y > 0.5, "high", "low")
    model = HoleyReduction(reducer=JointReduction(1, moments="all"), random_state=0)
    expected = model.fit(X, y).components_
    np.testing.assert_allclose(model.fit(chunks(X, y)).components_, expected, rtol=1e-6, atol=1e-9)


def test_chunks_without_gaps_are_reduced_as_they_are(monkeypatch):
    monkeypatch.setattr(_gaps, "refitted", None)  # nothing is filled, so that no imputer adds a variance
    X, y = table(share=0.0)
    found = HoleyReduction(random_state=0).fit(chunks(X, y))
    assert np.array_equal(found.components_, JointReduction().fit(X, y).components_)
    assert found.missing_share_ == 0.0


@pytest.mark.parametrize("pieces", [False, True])
def test_a_sample_of_the_rows_teaches_how_to_fill(monkeypatch, pieces):
    X, y = table(4000, 0.2)
    whole = HoleyReduction(random_state=0).fit(X, y)
    seen = []
    fit = HoleyReduction._fit_imputer
    monkeypatch.setattr(_gaps, "LEARNED", 800)
    monkeypatch.setattr(
        HoleyReduction, "_fit_imputer", lambda self, X, w: (seen.append(np.asarray(X)), fit(self, X, w))
    )
    model = HoleyReduction(random_state=0)
    found = model.fit(chunks(X, y)) if pieces else model.fit(X, y)
    places = {row.tobytes(): i for i, row in enumerate(X)}
    drawn = [places[row.tobytes()] for row in seen[0]]
    assert len(drawn) == len(set(drawn)) == 800
    assert abs(np.mean(drawn) - 2000) < 200  # five standard errors
    assert np.mean(np.diff(drawn) > 0) > 0.98  # in order; two rows are gaps alone
    assert found.reducer_.n_groups_ == whole.reducer_.n_groups_
    assert found.missing_share_ == whole.missing_share_
    assert 0 < nsee(found.loadings_, whole.loadings_) < 0.1
    assert 0.9 < found.expected_error_["x"] / whole.expected_error_["x"] < 2  # the imputer knows less


@pytest.mark.parametrize(("learned", "refitted"), [(120, 120), (600, 120)])
def test_errors_know_what_the_imputer_has_seen(monkeypatch, learned, refitted):
    """Spread of the directions over tables, against the errors that each table tells: within a third."""
    monkeypatch.setattr(_gaps, "LEARNED", learned)
    monkeypatch.setattr(_gaps, "REFITTED", refitted)
    imputer = CopulaImputer(1, nonlinear=False, random_state=0)
    found, errors = [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((600, 4)) @ (np.eye(4) + 0.5)
        y = X.sum(axis=1) + 0.5 * rng.standard_normal(600)
        X[rng.random(X.shape) < 0.25] = np.nan
        model = HoleyReduction(imputer, JointReduction(1), random_state=0).fit(X, y)
        found.append(model.components_[0] * np.sign(model.components_[0].sum()))
        errors.append(model.components_error_[0])
    assert 0.67 < np.mean(errors) / np.std(found, axis=0).mean() < 1.5


def test_the_imputers_variance_is_scaled_to_the_rows_that_it_has_seen(monkeypatch):
    X, y = table(900, 0.2)
    few = HoleyReduction(random_state=0).fit(X, y)
    monkeypatch.setattr(_gaps, "REFITTED", 300)
    sizes, fit = [], _gaps.refitted
    monkeypatch.setattr(_gaps, "refitted", lambda i, rows, w: sizes.append(len(rows)) or fit(i, rows, w))
    variances, spread = [], _gaps.left_out_variance
    monkeypatch.setattr(_gaps, "left_out_variance", lambda f: variances.append(spread(f)) or variances[-1])
    model = HoleyReduction(random_state=0).fit(X, y)
    assert sizes == [240] * 5
    np.testing.assert_allclose(
        model.components_error_**2, model.reducer_.components_error_**2 + variances[0].T / 3, rtol=1e-9
    )
    assert np.array_equal(model.components_, few.components_)
    r = len(model.components_)
    outside = float(variances[1].sum()) / 3 / r
    expected = _gaps.widened(model.reducer_.expected_error_["x"], outside, 1 - r / 5)
    assert model.expected_error_["x"] == pytest.approx(expected, rel=1e-9)
    assert expected > model.reducer_.expected_error_["x"]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"n_components": 0}, "'n_components' parameter"), ({"selection": "paper"}, "n_selected")],
)
def test_options_are_refused_before_the_chunks_are_read(options, said):
    read = iter([table(40)])
    with pytest.raises(ValueError, match=said):
        HoleyReduction(reducer=JointReduction(**options)).fit(read)
    assert next(read, None) is not None


def test_bad_chunks():
    X, y = table(40)
    with pytest.raises(TypeError, match=r"call fit\(chunks\) alone"):
        HoleyReduction().fit(chunks(X, y), y)
    with pytest.raises(TypeError, match="must yield pairs"):
        HoleyReduction().fit(iter([X]))
    with pytest.raises(ValueError, match="no rows"):
        HoleyReduction().fit(iter([]))
    with pytest.raises(ValueError, match="infinity"):
        HoleyReduction().fit(iter([(X, y), (np.full((2, 5), np.inf), y[:2])]))
    with pytest.raises(ValueError, match="5 features"):
        HoleyReduction().fit(iter([(X, y), (X[:, :4], y)]))
    with pytest.raises(TypeError, match="reduced by JointReduction alone, but reducer is PCA"):
        HoleyReduction(SimpleImputer(), PCA(1)).fit(chunks(X, y))


def test_a_fit_whose_chunks_end_in_an_error_leaves_the_model_as_it_was():
    X, y = table(200)

    def broken():
        yield X[:100], y[:100]
        msg = "the disk is gone"
        raise OSError(msg)

    model = HoleyReduction(random_state=0).fit(X, y)
    expected = model.transform(X)
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(broken())
    assert np.array_equal(model.transform(X), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_refits_fill_pieces_of_the_rows(monkeypatch, kind):
    """Many rows are not filled at once, which would take several times their memory."""
    X, y = table(800)
    whole = KINDS[kind](X)
    model = HoleyReduction(
        CopulaImputer(1, nonlinear=False, tol=0.1), JointReduction(1), n_refits=2, random_state=0
    )
    expected = clone(model).fit(whole, y)
    sizes, fill = [], _gaps_chunks.filled_by
    monkeypatch.setattr(_gaps_chunks, "chunk_rows", lambda *a, **k: 256)
    monkeypatch.setattr(
        _gaps_chunks, "filled_by", lambda i, X, *rest: sizes.append(len(X)) or fill(i, X, *rest)
    )
    found = model.fit(whole, y)
    assert sizes == [256, 256, 256, 32] * 2
    for name in ("components_", "components_error_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-7)
