import subprocess
import sys
from copy import copy

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colspace import (
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    StructuredOLS,
)
from colspace.datasets import make_bilinear
from colspace.displays import EmbeddingDisplay, LoadingsDisplay, SingularValuesDisplay


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    X, y, blocks, _ = make_bilinear(1500, 6, 2, rng=0)
    names = [f"{b}{j}" for b, s in blocks.items() for j in range(s.stop - s.start)]
    table = pd.DataFrame(X * np.linspace(1, 5, 12), columns=names)
    return JointReduction(2, blocks={"a": "a*", "b": "b*"}).fit(table, y), table, y


# ---------------------------------------------------------------------- singular values


def test_singular_values_are_those_of_the_rank_test(fitted):
    model, X, y = fitted
    display = SingularValuesDisplay.from_estimator(model, X, y, n_permutations=19, random_state=0)
    test = model.rank_test(X, y, n_permutations=19, random_state=0)
    frame, tried = display.frame(), len(test.p_values)
    assert_allclose(frame["observed"][:tried], np.sqrt(test.statistics))
    assert_allclose(frame["observed"][tried:], test.spectrum[tried:])
    assert_allclose(frame["null_median"][:tried], np.sqrt(np.median(test.null_statistics, axis=1)))
    assert_allclose(
        frame["critical"][:tried], np.sqrt(test.null_statistics.max(axis=1))
    )  # 19 and a level of .05
    assert frame["critical"].notna().sum() == frame["p_value"].notna().sum() == tried
    assert display.ax_.figure is display.figure_
    assert "2 directions" in display.ax_.get_title()
    observed = display.ax_.get_lines()[0]
    assert_allclose(observed.get_ydata(), np.sqrt(test.statistics))


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3, 0.001])
@pytest.mark.parametrize("seed", range(3))
def test_directions_are_those_whose_values_lie_above_their_bars(seed, alpha):
    X, y, blocks, _ = make_bilinear(120, 4, 2, rng=seed)
    model = JointReduction(1, blocks=blocks)
    display = SingularValuesDisplay.from_estimator(
        model, X, y, n_permutations=39, alpha=alpha, random_state=0
    )
    frame = display.frame().dropna(subset="p_value")
    above = (frame["observed"] > frame["critical"]).to_numpy()
    assert_array_equal(above, frame["p_value"] <= alpha)
    assert above[:-1].all()
    if not above[-1]:
        assert_array_equal(above, frame["found"])
    heights = {round(bar.get_x() + 0.25): bar.get_y() + bar.get_height() for bar in display.ax_.patches}
    for component, critical in zip(frame["component"], frame["critical"], strict=True):
        assert_allclose(heights.get(component, np.inf), critical)


def test_a_count_at_its_limit_is_called_a_lower_bound(fitted):
    model, X, y = fitted
    display = SingularValuesDisplay.from_estimator(
        model, X, y, n_permutations=19, max_components=1, random_state=0
    )
    assert display.ax_.get_title() == "Permutation test: at least 1 direction (level 0.05)"


def test_singular_values_on_given_axes_with_style(fitted):
    model, X, _ = fitted
    _, ax = plt.subplots()
    noise = np.random.default_rng(0).standard_normal(len(X))
    display = SingularValuesDisplay.from_estimator(
        model, X, noise, n_permutations=19, max_components=3, random_state=0, ax=ax, color="k"
    )
    assert display.ax_ is ax
    assert len(display.frame()) == 4
    assert "no direction" in ax.get_title()
    assert ax.get_lines()[0].get_color() == "k"


# ---------------------------------------------------------------------- loadings


def with_scale(model, scale):
    """A copy of a model that knows these deviations of its columns, or none."""
    model = copy(model)
    model.__dict__.pop("scale_", None)
    if scale is not None:
        model.scale_ = scale
    return model


def test_loadings_have_error_bars(fitted):
    _, X, y = fitted
    X, y = X[:150], y[:150]  # few rows: not every loading is sure
    model = JointReduction(2, blocks={"a": "a*", "b": "b*"}, moments="all").fit(X, y)
    display = LoadingsDisplay.from_estimator(model, X, n_features=6)
    frame = display.frame().query("block == 'a'")
    at = [list(X.columns).index(f) for f in frame["feature"]]
    assert_allclose(frame["error"], model.components_error_[0, at] * X.to_numpy().std(axis=0)[at])
    panel = display.ax_[0, 0]
    (lines,) = (c for c in panel.collections if hasattr(c, "get_segments"))
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])[::-1]
    assert_allclose(ends[:, 1] - ends[:, 0], 4 * frame["error"])
    assert_allclose(ends.mean(axis=1), frame["loading"])
    pale = [bar.get_facecolor()[3] < 1 for bar in panel.patches][::-1]
    assert_array_equal(pale, frame["loading"].abs() < 2 * frame["error"])
    assert 0 < sum(pale) < len(pale)


def test_loadings_without_errors_have_none(fitted):
    _, X, y = fitted
    model = JointReduction(1, n_groups=None).fit(X, y)
    display = LoadingsDisplay.from_estimator(model)
    assert display.frame()["error"].isna().all()
    assert display.ax_.get_xlabel() == "loading times std"
    assert not display.ax_.collections


def test_loadings_panels_and_frame(fitted):
    model, X, _ = fitted
    model = with_scale(model, None)
    display = LoadingsDisplay.from_estimator(model, components=(0, 1), n_features=4)
    assert display.ax_.shape == (2, 2)
    frame = display.frame()
    assert len(frame) == 2 * 2 * 4
    for (block, k), part in frame.groupby(["block", "component"]):
        loading = pd.Series(model.loadings_[block][:, k], index=[c for c in X if c.startswith(block)])
        assert_allclose(part["loading"], loading[part["feature"]])
        assert_array_equal(np.sort(np.abs(loading))[::-1][:4], np.abs(part["loading"]))
    labels = [t.get_text() for t in display.ax_[0, 0].get_yticklabels()]
    first = frame[(frame["block"] == "a") & (frame["component"] == 0)]
    assert labels[::-1] == first["feature"].tolist()
    assert display.ax_[1, 0].get_xlabel() == "loading\n(lines: ± 2 standard errors)"


def test_bars_are_named_without_the_block_that_stands_above_them(fitted):
    _, X, y = fitted
    X = X.rename(columns=lambda name: f"{name[0]}__{name}")
    display = LoadingsDisplay.from_estimator(JointReduction(1, blocks="prefix").fit(X, y), n_features=2)
    assert {t.get_text()[0] for t in display.ax_[0, 0].get_yticklabels()} == {"a"}
    assert not any("__" in t.get_text() for t in display.ax_[0, 0].get_yticklabels())
    assert display.frame()["feature"].str.contains("__").all()


def test_loadings_times_standard_deviation(fitted):
    model, X, _ = fitted
    display = LoadingsDisplay.from_estimator(model, X, blocks=["b"], n_features=100)
    frame = display.frame().set_index("feature")["loading"]
    names = [c for c in X if c.startswith("b")]
    assert_allclose(frame[names], model.loadings_["b"][:, 0] * X[names].std(ddof=0))
    assert display.ax_.get_xlabel().startswith("loading times std")


def test_loadings_are_ranked_by_the_deviations_seen_in_fit(fitted):
    model, X, _ = fitted
    seen = with_scale(model, X.to_numpy().std(axis=0))
    display = LoadingsDisplay.from_estimator(seen)
    assert display.ax_[0, 0].get_xlabel().startswith("loading times std")
    pd.testing.assert_frame_equal(display.frame(), LoadingsDisplay.from_estimator(model, X).frame())
    other = LoadingsDisplay.from_estimator(seen, 2 * X).frame()  # X is asked first
    assert_allclose(other["loading"], 2 * display.frame()["loading"])
    raw = LoadingsDisplay.from_estimator(with_scale(model, None)).frame()
    assert raw["feature"].tolist() != display.frame()["feature"].tolist()


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_loadings_take_any_frame(fitted, kind):
    model, X, _ = fitted
    expected = LoadingsDisplay.from_estimator(model, X).frame()
    pd.testing.assert_frame_equal(LoadingsDisplay.from_estimator(model, kind(X)).frame(), expected)


def test_loadings_divide_given_axes(fitted):
    model, _, _ = fitted
    figure, ax = plt.subplots()
    display = LoadingsDisplay.from_estimator(model, ax=ax)
    assert display.figure_ is figure
    assert display.ax_.shape == (1, 2)
    display.plot()
    assert display.figure_ is not figure


def test_loadings_of_selected_columns_only():
    X, y, blocks, _ = make_bilinear(2000, 10, 1, n_active=2, rng=0)
    model = JointReduction(1, blocks=blocks, whiten="diagonal", n_selected=3).fit(X, y)
    frame = LoadingsDisplay.from_estimator(model).frame()
    assert set(frame["feature"]) == {f"x{i}" for b in model.selected_.values() for i in b}


def test_loadings_errors(fitted):
    model, X, _ = fitted
    with pytest.raises(ValueError, match="has 2 per block"):
        LoadingsDisplay.from_estimator(model, components=2)
    with pytest.raises(ValueError, match="block='c' is unknown; blocks: 'a', 'b'"):
        LoadingsDisplay.from_estimator(model, blocks=["c"])
    with pytest.raises(ValueError, match="X has 3 columns"):
        LoadingsDisplay.from_estimator(model, X.iloc[:, :3])
    with pytest.raises(NotFittedError):
        LoadingsDisplay.from_estimator(JointReduction())


# ---------------------------------------------------------------------- embedding


def test_embedding_of_numbers_has_a_colour_bar(fitted):
    model, X, y = fitted
    display = EmbeddingDisplay.from_estimator(model, X, y, block="b", components=(1, 0))
    embedding = model.transform(X)
    frame = display.frame()
    assert frame.columns.tolist() == ["b__1", "b__0", "y"]
    assert_array_equal(frame[["b__1", "b__0"]], embedding[:, [3, 2]])
    assert len(display.figure_.axes) == 2
    assert display.ax_.get_legend() is None
    assert display.ax_.get_xlabel() == "b__1"


@pytest.mark.parametrize("kind", ["text", "boolean", "category", "counts"])
def test_embedding_of_classes_has_a_legend(fitted, kind):
    model, X, y = fitted
    labels = {
        "text": pd.Series(np.where(y > 0, "high", "low"), name="level"),
        "boolean": pd.Series(y > 0, name="level"),
        "category": pd.Series(pd.Categorical(np.where(y > 0, "high", "low")), name="level"),
        "counts": pd.Series(np.digitize(y, [-1, 0, 1]), name="level"),
    }[kind]
    display = EmbeddingDisplay.from_estimator(model, X, labels)
    legend = display.ax_.get_legend()
    assert legend.get_title().get_text() == "level"
    assert len(legend.get_texts()) == labels.nunique()
    assert display.frame().columns.tolist() == ["a__0", "a__1", "level"]


def test_embedding_with_many_classes(fitted):
    model, X, y = fitted
    labels = np.array(list("abcdefghijkl"))[pd.qcut(y, 12, labels=False)]
    display = EmbeddingDisplay.from_estimator(model, X, labels)
    assert len(display.ax_.get_legend().get_texts()) == 12
    display.figure_.canvas.draw()


def test_embedding_takes_columns_of_different_blocks(fitted):
    _, X, y = fitted
    model = JointReduction(1, blocks={"a": "a*", "b": "b*"}).set_output(transform="pandas").fit(X, y)
    display = EmbeddingDisplay.from_estimator(model, X, y)
    assert display.names == ("a__0", "b__0")
    display = EmbeddingDisplay.from_estimator(model, X, y, components=("b__0", "a__0"))
    assert_array_equal(display.embedding, model.transform(X)[["b__0", "a__0"]])


def test_names_of_classes_do_not_cover_each_other():
    """The legend has all of them."""
    rng = np.random.default_rng(0)
    middles = np.array([[i % 4, i // 4] for i in range(11)], dtype=float) * 4
    middles[10] = middles[5]  # two classes at one place
    labels = np.repeat(np.arange(11), 20)
    Z = middles[labels] + 0.1 * rng.normal(size=(220, 2))
    display = EmbeddingDisplay(Z, labels, ("a", "b"), True).plot()
    assert sorted(int(t.get_text()) for t in display.ax_.texts) == list(range(10))
    assert len(display.ax_.get_legend().get_texts()) == 11


def test_embedding_errors(fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="give one or two columns"):
        EmbeddingDisplay.from_estimator(model, X, y, components=(0, 1, 0))
    with pytest.raises(ValueError, match=r"block 'a' has 2 component\(s\)"):
        EmbeddingDisplay.from_estimator(model, X, y, components=(0, 2))
    with pytest.raises(ValueError, match="no column is called 'z__0'"):
        EmbeddingDisplay.from_estimator(model, X, y, components=("a__0", "z__0"))
    with pytest.raises(ValueError, match="y must be one column"):
        EmbeddingDisplay.from_estimator(model, X, np.column_stack([y, y]))


def test_embedding_of_one_component_against_numbers(fitted):
    _, X, y = fitted
    model = JointReduction(1).fit(X, y)
    response = pd.Series(y, name="dose")
    display = EmbeddingDisplay.from_estimator(model, X, response)
    (points,) = display.ax_.collections
    assert_array_equal(points.get_offsets(), np.column_stack([model.transform(X), y]))
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("jointreduction0", "dose")
    assert display.frame().columns.tolist() == ["jointreduction0", "dose"]
    assert len(display.figure_.axes) == 1


def test_embedding_of_one_component_in_strips_of_classes(fitted):
    model, X, y = fitted
    labels = np.array(["low", "middle", "top"])[np.digitize(y, [-1, 1])]
    display = EmbeddingDisplay.from_estimator(model, X, labels, components="b__1", alpha=0.5)
    embedding = model.transform(X)[:, 3]
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["low", "middle", "top"]
    strips = [c for c in display.ax_.collections if c.get_label() in {"low", "middle", "top"}]
    assert len(strips) == 3
    for i, strip in enumerate(strips):
        x, height = strip.get_offsets().T
        assert_array_equal(x, embedding[labels == strip.get_label()])
        assert np.abs(height - i).max() < 0.31
        assert strip.get_alpha() == 0.5
    again = EmbeddingDisplay.from_estimator(model, X, labels, block="b", components=1)
    assert_array_equal(again.embedding, display.embedding)


def test_one_component_of_a_named_block(fitted):
    _, X, y = fitted
    model = JointReduction(1, blocks={"a": "a*", "b": "b*"}).fit(X, y)
    assert EmbeddingDisplay.from_estimator(model, X, y, block="b").names == ("b__0",)


# ---------------------------------------------------------------------- all


@pytest.mark.parametrize(
    "model",
    [
        JointReduction(2),
        SlicedInverse(2),
        SlicedAverage(2),
        PrincipalHessian(2),
        ReducedRank(1),
        StructuredOLS(1),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_every_linear_estimator_dense_and_sparse(model, kind):
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((300, 5)) * (rng.random((300, 5)) < 0.5)
    y = dense[:, 0] + dense[:, 1] ** 2
    X = kind(dense)
    model = clone(model).fit(X, y)
    display = EmbeddingDisplay.from_estimator(model, X, y)
    assert display.names == tuple(model.get_feature_names_out())
    assert_allclose(display.embedding, model.transform(dense), atol=1e-12)
    bars = LoadingsDisplay.from_estimator(model, X, blocks=["x"]).frame().set_index("feature")["loading"]
    expected = model.components_[0] * dense.std(axis=0)
    assert_allclose(bars[[f"x{i}" for i in range(5)]], expected, rtol=1e-9)


def test_a_pipeline_is_embedded_and_has_no_loadings(fitted):
    _, X, y = fitted
    model = make_pipeline(StandardScaler(), SlicedInverse(2)).fit(X, y)
    assert EmbeddingDisplay.from_estimator(model, X, y).names == ("slicedinverse0", "slicedinverse1")
    with pytest.raises(TypeError, match="Pipeline has no components_"):
        LoadingsDisplay.from_estimator(model)


def test_matplotlib_is_asked_for_only_when_drawing(fitted, monkeypatch):
    code = "import sys, colspace.displays; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    display = LoadingsDisplay.from_estimator(fitted[0])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert len(display.frame()) > 0
    with pytest.raises(ImportError, match=r"colspace\[plot\]"):
        display.plot()
