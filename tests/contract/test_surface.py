"""What every estimator offers beside scikit-learn's contract: a summary, pictures, containers, a shown state."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_union
from sklearn.utils import estimator_html_repr

import colspace
from colspace.datasets import make_pairs
from colspace.scores import GaussianScore, StudentScore

X, y = load_diabetes(return_X_y=True, as_frame=True)
FLOWERS, KINDS = load_iris(return_X_y=True, as_frame=True)
REDUCERS = [
    colspace.JointReduction(2),
    colspace.JointReduction(
        2, blocks={"body": ["age", "sex", "bmi", "bp"], "blood": ["s1", "s2", "s3", "s4", "s5", "s6"]}
    ),
    colspace.SteinReduction(1),
    colspace.SteinReductionCV(1),
    colspace.PrincipalHessian(2),
    colspace.SlicedInverse(2),
    colspace.SlicedAverage(2),
    colspace.StructuredOLS(1),
    colspace.ReducedRank(1),
    colspace.HoleyReduction(n_refits=2),
]


def name(estimator):
    return type(estimator).__name__ + ("-blocks" if getattr(estimator, "blocks", None) else "")


def holes(table, share=0.1):
    table = table.copy()
    table[np.random.default_rng(0).random(table.shape) < share] = np.nan
    return table


@pytest.fixture(scope="module")
def imputer():
    return colspace.CopulaImputer(n_components=1).fit(holes(FLOWERS))


@pytest.fixture(scope="module")
def classifier():
    table = FLOWERS.assign(light=np.linspace(0, 1, len(FLOWERS)))
    return colspace.SupervisedDictionaryClassifier(2, covariates=["light"], n_bootstraps=2).fit(table, KINDS)


@pytest.mark.parametrize("estimator", REDUCERS, ids=name)
def test_a_reduction_shows_its_largest_loadings(estimator):
    model = clone(estimator).fit(X, y)
    text = str(model.summary())
    assert text.splitlines()[1] == type(model).__name__
    assert re.search(r"^columns +10$", text, re.MULTILINE)
    scale = getattr(model, "scale_", np.ones(10))
    first = model.components_[0] * scale
    k = np.argmax(np.abs(first))
    line = re.search(rf"^{X.columns[k]} +{re.escape(f'{first[k]:+.3f}')} *(.*)$", text, re.MULTILINE)
    assert line, text
    errors = getattr(model, "components_error_", None)
    if errors is None:
        assert line.group(1) == ""
    else:
        error = errors[0, k] * scale[k]
        assert [float(word) for word in line.group(1).split()] == [
            pytest.approx(error, abs=5e-4),
            pytest.approx(abs(first[k]) / error, abs=0.06),
        ]


@pytest.mark.parametrize("estimator", [*REDUCERS, colspace.CopulaImputer(), GaussianScore()], ids=name)
def test_no_summary_before_the_fit(estimator):
    with pytest.raises(NotFittedError):
        clone(estimator).summary()


def test_blocks_and_parts_are_named():
    model = clone(REDUCERS[1]).fit(X, y)
    text = str(model.summary())
    assert "body (4), blood (6)" in text
    assert f"linear {model.parts_['linear']:.4g}" in text
    assert "Direction 1 of blood" in text


def test_further_directions_are_counted():
    text = str(colspace.SlicedInverse(7).fit(X, y).summary())
    assert "Direction 4:" in text
    assert "Direction 5:" not in text
    assert "2 further direction(s)" in text


def test_summary_of_an_imputer(imputer):
    text = str(imputer.summary())
    assert re.search(r"^factors +1$", text, re.MULTILINE)
    R = imputer.correlation_
    share = 1 - 1 / np.linalg.inv(R)[2, 2]
    assert re.search(rf"^petal length \(cm\) +continuous +{share:.2f}", text, re.MULTILINE)


def test_summary_of_a_dictionary(classifier):
    text = str(classifier.summary())
    assert "Covariates" in text
    assert "light" in text
    assert re.search(rf"^reconstruction error +{classifier.reconstruction_error_:.4g}$", text, re.MULTILINE)
    assert f"{classifier.stability_[0]:.4g}" in text


def test_summary_of_pairs():
    data = make_pairs(60, 50, 6, 2, rng=0)
    for model in (
        colspace.KernelPairRegressor(target="new-left"),
        colspace.PairRegressor(2, bandwidth=0.3, shrinkage=0.1),
        colspace.BilinearPairRegressor(2),
    ):
        text = str(model.fit(data.A, data.B, data.Y).summary())
        assert type(model).__name__ in text
        assert re.search(r"^features +6 +6$", text, re.MULTILINE)
        if hasattr(model, "cv_results_"):
            first = text[text.index("Tuning: the best of") :].splitlines()[2].split()[0]
            assert float(first) == pytest.approx(np.max(model.cv_results_["mean_score"]), rel=1e-3)


def test_summary_of_a_score_model():
    model = StudentScore().fit(X.to_numpy())
    assert re.search(rf"^df_ +{model.df_:.4g}$", str(model.summary()), re.MULTILINE)


def test_html_is_escaped():
    table = X.rename(columns={"bmi": "<b>&"})
    found = colspace.SlicedInverse(1).fit(table, y).summary()._repr_html_()
    assert "&lt;b&gt;&amp;" in found
    assert "<b>&" not in found
    assert found.count("<table>") == 3


def test_plot_draws_the_display(imputer, classifier):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt

    from colspace.displays import CoefficientsDisplay, EmbeddingDisplay, LoadingsDisplay, MarginalDisplay

    model = colspace.JointReduction(2).fit(X, y)
    assert isinstance(model.plot(), LoadingsDisplay)
    assert isinstance(model.plot(X, y, kind="embedding"), EmbeddingDisplay)
    assert isinstance(imputer.plot(holes(FLOWERS)), MarginalDisplay)
    assert isinstance(classifier.plot(), CoefficientsDisplay)
    with pytest.raises(
        ValueError,
        match="kind='pie' is no picture of JointReduction; choose from 'loadings', 'embedding', 'singular",
    ):
        model.plot(kind="pie")
    with pytest.raises(ValueError, match=r"choose from 'loadings', 'embedding'$"):
        colspace.SlicedInverse(1).fit(X, y).plot(kind="singular values")
    with pytest.raises(TypeError, match=r"kind='loadings' is not.*too many.*plot\(X, y, kind='embedding'\)"):
        model.plot(X, y)
    with pytest.raises(TypeError, match=r"missing a required argument: 'X'.*plot\(X, kind='marginals'\)"):
        imputer.plot()
    plt.close("all")


def test_every_picture_exists():
    from colspace import displays

    for estimator in (*REDUCERS, colspace.CopulaImputer(), colspace.SupervisedDictionaryRegressor()):
        for display in estimator._pictures.values():
            assert hasattr(getattr(displays, display), "from_estimator")


@pytest.mark.parametrize(
    ("kind", "container"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_tables_out(kind, container):
    plain = colspace.JointReduction(2).fit_transform(X, y)
    model = colspace.JointReduction(2).set_output(transform=kind).fit(X, y)
    found = model.transform(X)
    assert isinstance(found, container)
    names = found.column_names if kind == "pyarrow" else list(found.columns)
    assert names == list(model.get_feature_names_out())
    np.testing.assert_array_equal(np.column_stack([np.asarray(found[n]) for n in names]), plain)
    both = make_union(colspace.JointReduction(2), colspace.SlicedInverse(1)).set_output(transform=kind)
    assert both.fit(X, y).transform(X).shape == (442, 3)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    "container",
    [pd.DataFrame, pl.from_pandas, lambda t: pa.Table.from_pandas(t, preserve_index=False), np.asarray],
    ids=["pandas", "polars", "pyarrow", "numpy"],
)
def test_filled_tables_out(kind, container):
    table = holes(FLOWERS)
    model = colspace.CopulaImputer(n_components=1, nonlinear=False, random_state=0)
    plain = clone(model).fit_transform(table)
    found = model.set_output(transform=kind).fit_transform(container(table))
    assert type(found).__module__.startswith(kind)
    columns = found.columns if kind == "pyarrow" else [found[c] for c in found.columns]
    np.testing.assert_allclose(np.column_stack([np.asarray(c) for c in columns]), plain, rtol=1e-12)


@pytest.mark.parametrize("estimator", [*REDUCERS, colspace.CopulaImputer(n_components=1)], ids=name)
def test_notebooks_show_whether_it_is_fitted(estimator):
    assert "Not fitted" in estimator_html_repr(clone(estimator))
    assert "Not fitted" not in estimator_html_repr(clone(estimator).fit(X[:60], y[:60]))
