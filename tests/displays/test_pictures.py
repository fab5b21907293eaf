"""Pictures as they come out: nothing cut off, no legend over the data, readable in a dark style."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from colspace import CopulaImputer, JointReduction, RankTest, SupervisedDictionaryClassifier
from colspace.displays import (
    AtomsDisplay,
    CoefficientsDisplay,
    EmbeddingDisplay,
    ImputationDisplay,
    LoadingsDisplay,
    MarginalDisplay,
    MissingnessDisplay,
    ParetoDisplay,
    ReliabilityDisplay,
    SingularValuesDisplay,
    TopicsDisplay,
)

LONG = "a class whose name goes on and on"


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def gaps():
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((80, 2))
    whole = pd.DataFrame(
        latent @ rng.standard_normal((2, 4)), columns=["a", "b", "c", "a long name of a column"]
    )
    whole["a"] = np.exp(10 + whole["a"])
    whole["level"] = pd.qcut(latent[:, 0], 3, labels=["low", "middle", "high"])
    holes = whole.mask(rng.random(whole.shape) < 0.2)
    return CopulaImputer(1, random_state=0, nonlinear=False).fit(holes), holes, whole


@pytest.fixture(scope="module")
def atoms():
    rng = np.random.default_rng(1)
    codes = rng.random((80, 3))
    X = pd.DataFrame(codes @ rng.random((3, 9)), columns=[f"word{j}" for j in range(9)])
    X["a covariate with a long name, too"] = rng.standard_normal(80)
    y = np.where(codes[:, 0] > codes[:, 1], LONG, LONG + " still")
    model = SupervisedDictionaryClassifier(3, positive=True, covariates=[X.columns[-1]], n_bootstraps=2)
    return model.set_params(random_state=0).fit(X, y), X, y


def flat_test():
    """Chance alone: values that hardly fall, where a legend in the corner would lie over them."""
    null = np.linspace(0.9, 1.1, 39)[None]
    flat = np.linspace(1.0, 0.9, 12)
    return RankTest(0, np.array([0.5]), np.array([1.0]), null, flat, null, 0.05)


def embedding(classes):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 4))
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, classes) / classes))
    return EmbeddingDisplay.from_estimator(JointReduction(2).fit(X, y.astype(str)), X, y.astype(str))


def loadings():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.standard_normal((90, 3)), columns=["u", "v", "a column with quite a long name"])
    return LoadingsDisplay.from_estimator(JointReduction(1).fit(X, X["u"] + X["v"] * 0.1), X)


def pareto():
    xi = np.geomspace(1e-4, 10, 11)
    wrong = np.array([0.05, 0.05, 0.05, 0.02, 0.02, 0.02, 0.03, 0.03, 0.06, 0.09, 0.09])
    return ParetoDisplay(xi, np.r_[np.linspace(0.2, 0.081, 9), 0.0802, 0.08], wrong, "error")


PICTURES = {
    "singular values": lambda gaps, atoms: SingularValuesDisplay(flat_test()).plot(),
    "loadings": lambda gaps, atoms: loadings(),
    "three classes": lambda gaps, atoms: embedding(3),
    "nine classes": lambda gaps, atoms: embedding(9),
    "missingness": lambda gaps, atoms: MissingnessDisplay.from_table(gaps[1]),
    "imputation": lambda gaps, atoms: ImputationDisplay.from_estimator(*gaps),
    "imputation by column": lambda gaps, atoms: ImputationDisplay.from_estimator(
        *gaps, columns=["a", "b", "level"]
    ),
    "reliability": lambda gaps, atoms: ReliabilityDisplay.from_estimator(*gaps),
    "marginals": lambda gaps, atoms: MarginalDisplay.from_estimator(*gaps[:2]),
    "histograms": lambda gaps, atoms: MarginalDisplay.from_estimator(*gaps[:2], style="histogram"),
    "atoms": lambda gaps, atoms: AtomsDisplay.from_estimator(*atoms[:2]),
    "topics": lambda gaps, atoms: TopicsDisplay.from_estimator(*atoms[:2]),
    "coefficients": lambda gaps, atoms: CoefficientsDisplay.from_estimator(*atoms[:2], n_words=5),
    "pareto": lambda gaps, atoms: pareto().plot(),
}


def draw(name, gaps, atoms):
    figure = PICTURES[name](gaps, atoms).figure_
    figure.draw_without_rendering()
    return figure


@pytest.fixture(scope="module")
def drawn():
    """Pictures in the usual style, each drawn once for all that is asked of it."""
    figures = {}

    def once(name, gaps, atoms):
        if name not in figures:
            figures[name] = draw(name, gaps, atoms)
        FigureCanvasAgg(figures[name])  # pyplot takes the canvas from a figure that it closes
        return figures[name]

    return once


def boxes(figure):
    """What is written, and where."""
    renderer = figure.canvas.get_renderer()
    for text in figure.findobj(plt.Text):
        if text.get_visible() and text.get_text().strip():
            yield text, text.get_window_extent(renderer)


def unseen_ticks(figure):
    """Labels of ticks outside the view, or of axes that are switched off."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not axes.axison or not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                    yield from (tick.label1, tick.label2)


@pytest.mark.parametrize("name", PICTURES)
def test_no_word_is_cut_off(name, drawn, gaps, atoms):
    figure = drawn(name, gaps, atoms)
    width, height = figure.bbox.size
    hidden = set(unseen_ticks(figure))
    for text, box in boxes(figure):
        if text in hidden:
            continue
        where = f"{text.get_text()!r} at {box.extents.round()} of {width:g} x {height:g}"
        assert box.x0 >= -1, where
        assert box.y0 >= -1, where
        assert box.x1 <= width + 1, where
        assert box.y1 <= height + 1, where


@pytest.mark.parametrize("name", PICTURES)
def test_no_legend_covers_the_data(name, drawn, gaps, atoms):
    figure = drawn(name, gaps, atoms)
    legends = [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]
    for legend in legends:
        box = legend.get_window_extent(figure.canvas.get_renderer())
        for axes in figure.axes:
            assert not box.shrunk(0.98, 0.98).overlaps(axes.get_window_extent())


@pytest.mark.parametrize("name", ["atoms", "topics", "imputation by column", "loadings"])
def test_titles_do_not_run_into_each_other(name, drawn, gaps, atoms):
    figure = drawn(name, gaps, atoms)
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    for i, one in enumerate(titles):
        assert not any(one.overlaps(other) for other in titles[:i])


@pytest.mark.parametrize("name", PICTURES)
def test_labels_of_ticks_keep_apart(name, drawn, gaps, atoms):
    figure = drawn(name, gaps, atoms)
    hidden = set(unseen_ticks(figure))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            labels = [
                t for t in axis.get_ticklabels() if t.get_visible() and t.get_text() and t not in hidden
            ]
            places = [t.get_window_extent() for t in labels]
            assert not any(a.overlaps(b) for i, a in enumerate(places) for b in places[:i]), name


@pytest.mark.parametrize("name", PICTURES)
def test_words_stand_out_in_a_dark_style(name, gaps, atoms):
    with plt.style.context("dark_background"):
        figure = draw(name, gaps, atoms)
        paper = luminance(figure.get_facecolor())
        for text, _ in boxes(figure):
            contrast = (luminance(text.get_color()) + 0.05) / (paper + 0.05)
            assert contrast > 3, text.get_text()


def luminance(colour):
    """Relative luminance of sRGB, as in the guidelines for accessible pages."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_labels_of_the_front_keep_apart_and_off_the_points(drawn, gaps, atoms):
    figure = drawn("pareto", gaps, atoms)
    axes = figure.axes[0]
    renderer = figure.canvas.get_renderer()
    labels = [t.get_window_extent(renderer) for t in axes.texts]
    assert len(labels) >= 8
    points = axes.transData.transform(pareto().frame()[["reconstruction_error", "label_error"]])
    for i, one in enumerate(labels):
        assert not any(one.overlaps(other) for other in labels[:i])
        assert not any(one.contains(*point) for point in points)


def test_a_beaten_point_does_not_lie_on_top_of_the_front(gaps, atoms):
    display = pareto().plot()
    front, beaten = display.ax_.collections
    assert front.get_zorder() > beaten.get_zorder()
    assert len(front.get_offsets()) == display.frame()["front"].sum() < 11
    (line,) = display.ax_.get_lines()  # the path from the least xi to the largest, not the front
    np.testing.assert_allclose(line.get_xdata(), display.reconstruction_error)
