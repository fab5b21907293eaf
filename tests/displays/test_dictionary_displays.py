import sys
from copy import copy

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from colspace.dictionary import SupervisedDictionaryClassifier, SupervisedDictionaryRegressor
from colspace.displays import AtomsDisplay, CoefficientsDisplay, ParetoDisplay, TopicsDisplay
from colspace.displays._dictionary import (
    coefficient_title,
    dictionary_of,
    reconstruction_error,
    relative_error,
)
from colspace.displays._topics import pack

SEA = ["salt wave boat sail", "boat harbour wave tide", "sail tide salt harbour", "wave boat tide sail"]
SKY = ["cloud wing bird wind", "bird wind storm cloud", "wing storm bird feather", "feather wind cloud wing"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    """Images of three digits with two covariates in front, as a DataFrame."""
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, [3, 5, 8]))[:240]
    table = pd.DataFrame(X[rows] / 16, columns=[f"pixel {j}" for j in range(64)])
    table.insert(0, "ink", X[rows].mean(axis=1) / 16)
    table.insert(5, "left", X[rows][:, :32].mean(axis=1))
    return table, y[rows]


@pytest.fixture(scope="module")
def three(digits):
    return SupervisedDictionaryClassifier(4, positive=True, covariates=["ink", "left"], random_state=0).fit(
        *digits
    )


@pytest.fixture(scope="module")
def two(digits):
    X, y = digits
    rows = y != 5
    labels = np.where(y == 3, "three", "eight")[rows]
    model = SupervisedDictionaryClassifier(3, covariates=["left", "ink"], xi=0.1, random_state=0)
    return model.fit(X[rows], labels), X[rows], labels


@pytest.fixture(scope="module")
def topics():
    """A model of sparse words, the words, and the names of the columns with a covariate behind."""
    words = TfidfVectorizer()
    X = sparse.csr_array(words.fit_transform([*SEA, *SKY] * 3))
    rain = np.tile([0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0], 3)
    X = sparse.csr_array(sparse.hstack([X, rain[:, None]]))
    y = np.repeat([["sea", "sky"]], 3, axis=0).repeat(4, axis=1).ravel()
    model = SupervisedDictionaryClassifier(2, positive=True, covariates=[X.shape[1] - 1], random_state=0).fit(
        X, y
    )
    return model, X, [*words.get_feature_names_out(), "rain"]


# ---------------------------------------------------------------------- the numbers


def test_coefficients_of_two_classes_are_those_of_the_decision(two):
    model, X, _ = two
    found = dictionary_of(model)
    table = X.to_numpy()
    activation = table[:, model.dictionary_columns_] @ found.atoms.T @ found.coefficients
    activation += X[found.covariate_names].to_numpy() @ found.covariates + model.intercept_
    assert_allclose(activation[:, 0], model.decision_function(X), rtol=1e-8, atol=1e-10)
    assert found.targets == ("three",)
    assert found.against == "eight"
    assert sorted(found.covariate_names) == ["ink", "left"]
    assert found.names == [f"pixel {j}" for j in range(64)]


def test_coefficients_of_more_classes_are_centred_and_keep_their_differences(three):
    found = dictionary_of(three)
    assert found.targets == ("3", "5", "8")
    assert_allclose(found.coefficients.sum(axis=1), 0.0, atol=1e-9)
    assert_allclose(found.covariates.sum(axis=1), 0.0, atol=1e-9)
    assert_allclose(found.coefficients[:, 1] - found.coefficients[:, 0], three.coef_[1] - three.coef_[0])
    assert np.abs(three.coef_).max() > 0


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_coefficients_times_deviation(digits, model):
    X, y = digits
    fitted = SupervisedDictionaryClassifier(
        3, model=model, positive=True, covariates=["ink"], random_state=0
    ).fit(X, y)
    raw, scaled = dictionary_of(fitted), dictionary_of(fitted, X)
    pixels = X.drop(columns="ink").to_numpy()
    seen = pixels @ fitted.components_.T if model == "filter" else np.asarray(fitted.transform(X))
    assert_allclose(scaled.coefficients, raw.coefficients * seen.std(axis=0)[:, None])
    assert_allclose(scaled.covariates, raw.covariates * X["ink"].std(ddof=0))


def test_sparse_numbers_equal_dense_ones(topics):
    model, X, names = topics
    dense = dictionary_of(model, X.toarray(), names)
    found = dictionary_of(model, X, names)
    assert_allclose(found.coefficients, dense.coefficients)
    assert_allclose(found.covariates, dense.covariates)
    assert found.covariate_names == ["rain"]
    assert_allclose(reconstruction_error(model, X), reconstruction_error(model, X.toarray()))


def test_reconstruction_error_is_that_of_reconstruct(two):
    model, X, _ = two
    pixels = X.to_numpy()[:, model.dictionary_columns_]
    rebuilt = np.asarray(model.reconstruct(X))
    assert_allclose(reconstruction_error(model, X), ((pixels - rebuilt) ** 2).sum() / (pixels**2).sum())


def test_relative_error_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = rng.random((9, 7)) * (rng.random((9, 7)) < 0.4)
    H, W = rng.random((9, 2)), rng.standard_normal((2, 7))
    expected = np.linalg.norm(X - H @ W) ** 2 / np.linalg.norm(X) ** 2
    assert_allclose(relative_error(sparse.csr_array(X), H, W), expected)
    assert_allclose(relative_error(X, H, W), expected)
    assert relative_error(sparse.csr_array(0 * X), 0 * H, W) == relative_error(0 * X, 0 * H, W) == 0.0
    exact = sparse.csr_array(H @ np.abs(W))  # the difference of large numbers is not below 0
    assert 0.0 <= relative_error(exact, H, np.abs(W)) < 1e-12


def test_titles_of_classes_and_responses():
    assert coefficient_title(("yes", "no", "maybe"), "", False) == "coefficient, centred over classes"
    assert coefficient_title(("y0", "y1"), "", True) == "coefficient times std"


# ---------------------------------------------------------------------- atoms


def test_atoms_are_images_without_covariates(three):
    display = AtomsDisplay.from_estimator(three, image_shape=(8, 8))
    order = display.frame()["component"].drop_duplicates().tolist()
    assert sorted(order) == [0, 1, 2, 3]
    for panel, k in zip(display.ax_, order, strict=True):
        assert_allclose(panel.get_images()[0].get_array(), three.components_[k].reshape(8, 8))
        assert panel.get_images()[0].get_cmap().name == "Greys"
        assert panel.get_images()[0].get_clim()[0] == 0.0
        assert panel.get_title() == f"atom {k}"
    display.figure_.canvas.draw()


def test_atoms_of_several_classes_have_bars_of_centred_coefficients(three):
    display = AtomsDisplay.from_estimator(three)
    frame = display.frame()
    wide = frame.pivot(index="component", columns="target", values="coefficient")
    assert_allclose(wide.sum(axis=1), 0.0, atol=1e-9)
    bars = [ax for ax in display.figure_.axes if ax.patches]
    for ax, (_, group) in zip(bars, frame.groupby("component", sort=False), strict=True):
        assert_allclose([patch.get_height() for patch in ax.patches], group["coefficient"])
    best = wide.loc[frame["component"].drop_duplicates()].to_numpy().argmax(axis=1)
    assert_array_equal(best, np.sort(best))
    legend = display.figure_.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["3", "5", "8"]


def test_signed_atoms_diverge_and_are_sorted(two):
    model, X, _ = two
    display = AtomsDisplay.from_estimator(model, X)
    values = display.frame()["coefficient"].to_numpy()
    assert (np.diff(values) <= 0).all()
    low, high = display.ax_[0].get_images()[0].get_clim()
    assert low == -high < 0
    assert display.ax_[0].get_images()[0].get_cmap().name == "RdBu"
    first = display.frame()["component"].iloc[0]
    assert display.ax_[0].get_title() == f"atom {first}: {values[0]:+.3g}"
    assert "above zero speaks for three, below for eight" in display.figure_.get_suptitle().replace("\n", " ")


def test_atoms_chosen_and_on_given_axes(two):
    figure, axes = plt.subplots(1, 2)
    display = AtomsDisplay.from_estimator(two[0], components=[2, 0], ax=axes[1], cmap="viridis")
    assert display.figure_ is figure
    assert display.frame()["component"].tolist() == [2, 0]
    assert display.ax_[0].get_images()[0].get_cmap().name == "viridis"
    assert not axes[1].axison


def test_atoms_errors(two):
    model, X, _ = two
    with pytest.raises(ValueError, match=r"image_shape=\(8, 9\) has 72 pixels, but atoms have 64"):
        AtomsDisplay.from_estimator(model, image_shape=(8, 9))
    with pytest.raises(ValueError, match=r"image_shape=\(-8, -8\) .* give height and width"):
        AtomsDisplay.from_estimator(model, image_shape=(-8, -8))
    with pytest.raises(ValueError, match="columns=0 must be at least 1"):
        AtomsDisplay.from_estimator(model, columns=0)
    with pytest.raises(ValueError, match=r"components=\[3\]: there are 3 atoms, numbered from 0"):
        AtomsDisplay.from_estimator(model, components=[3])
    with pytest.raises(ValueError, match="66 columns; give the same"):
        AtomsDisplay.from_estimator(model, X.iloc[:, :5])
    with pytest.raises(NotFittedError):
        AtomsDisplay.from_estimator(SupervisedDictionaryClassifier())
    with pytest.raises(TypeError, match="PCA has no atoms with coefficients"):
        AtomsDisplay.from_estimator(PCA(2).fit(X))
    cancer = SupervisedDictionaryClassifier(2, random_state=0).fit(*load_breast_cancer(return_X_y=True))
    with pytest.raises(ValueError, match="30 entries, which are no square; give image_shape"):
        AtomsDisplay.from_estimator(cancer)


# ---------------------------------------------------------------------- topics


def test_topics_are_the_words_of_their_class(topics):
    model, X, names = topics
    display = TopicsDisplay.from_estimator(model, X, names=names, n_words=4)
    frame = display.frame()
    sea = set(" ".join(SEA).split())
    for k, group in frame.groupby("component"):
        atom = model.components_[k]
        order = np.argsort(-atom, kind="stable")[: len(group)]
        assert group["word"].tolist() == [names[j] for j in order]
        assert_allclose(group["weight"], atom[order])
        assert group["rank"].tolist() == list(range(len(group)))
        assert (set(group["word"]) <= sea) == (group["coefficient"].iloc[0] < 0)
    assert frame["coefficient"].is_monotonic_decreasing
    assert "rain" not in frame["word"].tolist()


def test_words_are_inside_their_panel_and_apart(topics):
    model, _, names = topics
    display = TopicsDisplay.from_estimator(model, names=names, n_words=8)
    display.figure_.canvas.draw()
    expected = np.minimum(8, np.count_nonzero(model.components_, axis=1)).sum()
    assert sum(len(panel.patches) for panel in display.ax_) == len(display.frame()) == expected
    for panel in display.ax_:
        boxes = [patch.get_path().get_extents() for patch in panel.patches]
        (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
        for i, box in enumerate(boxes):
            assert left <= box.x0 < box.x1 <= right
            assert low <= box.y0 < box.y1 <= high
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_size_of_words_goes_with_weight():
    atoms = np.array([[1.0, 0.25, 0.0]])
    display = TopicsDisplay(atoms, ["mmm", "mmm", "mmm"], np.array([[1.0]])).plot()
    large, small = (patch.get_path().get_extents() for patch in display.ax_[0].patches)
    assert_allclose(small.width / large.width, 0.5, rtol=0.02)


def test_neutral_atoms_and_stability_are_told():
    atoms, words = np.array([[0.5, 0.1], [0.2, 0.9], [0.3, 0.3]]), ["sea", "sky"]
    stability = np.array([0.97, 0.5, 1.0])
    several = np.array([[1.0, -1.0, 0.0], [0.04, -0.03, -0.01], [-0.5, 0.0, 0.5]])
    display = TopicsDisplay(atoms, words, several, ("x", "y", "z"), stability=stability).plot()
    titles = {panel.get_title() for panel in display.ax_}
    assert titles == {
        "atom 0: x +1\nstable 0.97",
        "atom 1: neutral\nstable 0.50",
        "atom 2: z +0.5\nstable 1.00",
    }
    frame = display.frame().drop_duplicates("component").set_index("component")
    assert frame["target"].to_dict() == {0: "x", 1: "neutral", 2: "z"}
    assert frame["stability"].to_dict() == {0: 0.97, 1: 0.5, 2: 1.0}
    images = AtomsDisplay(np.ones((3, 2, 2)), several, ("x", "y", "z"), stability=stability).plot()
    assert {panel.get_title() for panel in images.ax_} == {
        "atom 0\nstable 0.97",
        "atom 1: neutral\nstable 0.50",
        "atom 2\nstable 1.00",
    }
    assert images.frame()["stability"].nunique() == 3
    one = AtomsDisplay(np.ones((2, 2, 2)), np.array([[-2.0], [0.06]]), ("ill",)).plot()
    assert [panel.get_title() for panel in one.ax_] == ["atom 1: neutral", "atom 0: -2"]
    assert "stability" not in one.frame()
    nothing = TopicsDisplay(atoms, words, np.zeros((3, 1))).frame()
    assert set(nothing["target"]) == {"neutral"}


def test_stability_of_an_estimator_is_drawn(two):
    model, X, y = two
    measured = clone(model).set_params(n_bootstraps=2).fit(X, y)
    display = AtomsDisplay.from_estimator(measured, X)
    assert all("stable" in panel.get_title() for panel in display.ax_)
    shown = display.frame().set_index("component")["stability"]
    assert_allclose(shown.sort_index(), measured.stability_)


def test_topics_of_signed_atoms_and_of_several_classes():
    atoms = np.array([[0.5, -0.9], [0.0, 0.0]])
    coefficients = np.array([[1.0, -0.5, -0.5], [-1.0, 0.2, 0.8]])
    display = TopicsDisplay(atoms, ["$a$", "b"], coefficients, ("x", "y$z", "w")).plot()
    assert display.frame()["word"].tolist() == ["b", "$a$"]
    assert display.frame()["target"].tolist() == ["x", "x"]
    assert [panel.get_title() for panel in display.ax_] == ["atom 0: x +1", "atom 1: w +0.8"]
    assert display.ax_[0].patches[0].get_alpha() < display.ax_[0].patches[1].get_alpha()
    assert display.ax_[1].texts[0].get_text() == "no words"
    display.figure_.canvas.draw()


def test_boxes_are_packed_apart_even_where_they_are_many():
    rng = np.random.default_rng(0)
    extents = np.column_stack([rng.uniform(1, 6, 60), rng.uniform(0.4, 1.2, 60)])
    centres = pack(extents, 1.5)
    for i in range(60):
        apart = np.abs(centres[:i] - centres[i]) >= (extents[:i] + extents[i]) / 2
        assert apart.any(axis=1).all()


def test_topics_errors(topics):
    model, _, names = topics
    with pytest.raises(ValueError, match="names has 3 entries, but the estimator was fitted on"):
        TopicsDisplay.from_estimator(model, names=names[:3])
    with pytest.raises(ValueError, match="n_words=0 must be at least 1"):
        TopicsDisplay.from_estimator(model, names=names, n_words=0)


# ---------------------------------------------------------------------- coefficients


def test_coefficients_of_atoms_and_covariates(two):
    model, X, _ = two
    display = CoefficientsDisplay.from_estimator(model, X)
    frame = display.frame()
    assert frame["kind"].tolist() == ["atom"] * 3 + ["covariate"] * 2
    assert set(frame["name"][3:]) == {"ink", "left"}
    found = dictionary_of(model, X)
    by_name = frame.set_index("name")["coefficient"]
    for k in range(3):
        assert_allclose(by_name[f"atom {k}"], found.coefficients[k, 0])
    for name, value in zip(found.covariate_names, found.covariates[:, 0], strict=True):
        assert_allclose(by_name[name], value)
    for kind in ("atom", "covariate"):
        assert frame["coefficient"][frame["kind"] == kind].is_monotonic_decreasing
    widths = [patch.get_width() for patch in display.ax_.patches]
    assert_allclose(widths, frame["coefficient"])
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == frame["name"].tolist()
    assert "times std" in display.ax_.get_xlabel()
    display.figure_.canvas.draw()


def test_coefficients_with_words_and_panels(three, topics):
    model, _, names = topics
    display = CoefficientsDisplay.from_estimator(model, names=names, n_words=2, height=0.5)
    assert all(name.count(",") == 1 for name in display.frame()["name"][:2])
    assert display.ax_.patches[0].get_height() == 0.5
    signed = copy(model)
    signed.components_ = np.where(np.arange(12) == 1, -9.0, model.components_)
    shown = CoefficientsDisplay.from_estimator(signed, names=names, n_words=1).frame()["name"]
    assert all(label.endswith(f": {names[1]}") for label in shown[:2])
    panels = CoefficientsDisplay.from_estimator(three)
    assert [ax.get_title() for ax in panels.ax_] == ["3", "5", "8"]
    assert len(panels.frame()) == 6 * 3
    _, axes = plt.subplots(1, 2)
    assert CoefficientsDisplay.from_estimator(three, ax=axes[0]).ax_.shape == (3,)
    assert CoefficientsDisplay.from_estimator(model, ax=axes[1]).ax_ is axes[1]


def test_coefficients_of_a_regressor(digits):
    X, _ = digits
    y = X["ink"] * 3 + X["pixel 12"]
    model = SupervisedDictionaryRegressor(2, covariates="ink", random_state=0).fit(X, y)
    found = dictionary_of(model)
    assert found.targets == ("",)
    assert CoefficientsDisplay.from_estimator(model).ax_.get_xlabel() == "coefficient"
    both = SupervisedDictionaryRegressor(2, random_state=0).fit(X, np.column_stack([y, -y]))
    assert [ax.get_title() for ax in CoefficientsDisplay.from_estimator(both).ax_] == ["y0", "y1"]


# ---------------------------------------------------------------------- Pareto front


def test_front_of_a_path(digits):
    X, y = digits
    model = SupervisedDictionaryClassifier(3, random_state=0)
    path = model.xi_path(X, y, [1e-3, 1e-1, 10.0])
    display = ParetoDisplay.from_path(path)
    assert_array_equal(display.frame()["xi"], path.xi)
    assert_allclose(display.frame()["reconstruction_error"], path.reconstruction_error)
    assert_allclose(display.frame()["label_error"], path.label_loss)
    again = ParetoDisplay.from_estimator(model, X, y, xis=[1e-3, 1e-1, 10.0], X_test=X[:50], y_test=y[:50])
    assert_allclose(again.frame()["label_error"], [1 - m.score(X[:50], y[:50]) for m in path.models])
    assert_allclose(
        again.frame()["reconstruction_error"], [reconstruction_error(m, X[:50]) for m in path.models]
    )
    assert again.ax_.get_ylabel() == "share of wrong labels"
    with pytest.raises(ValueError, match="give both, or none"):
        ParetoDisplay.from_path(path, X)


def test_front_has_no_point_that_is_beaten():
    errors, losses = np.array([1.0, 2.0, 2.0, 3.0, 1.0]), np.array([3.0, 2.0, 2.5, 2.0, 3.0])
    _, ax = plt.subplots()
    display = ParetoDisplay(np.arange(1.0, 6.0), errors, losses).plot(ax=ax, s=9)
    assert display.frame()["front"].tolist() == [True, True, False, False, True]
    assert display.ax_ is ax
    assert {text.get_text() for text in ax.texts} >= {"ξ=1", "ξ=2"}
    assert ax.get_legend() is not None


def test_frames_need_no_matplotlib(monkeypatch):
    display = TopicsDisplay(np.eye(2), ["a", "b"], np.ones((2, 1)))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert len(display.frame()) == 2
    with pytest.raises(ImportError, match=r"colspace\[plot\]"):
        display.plot()
