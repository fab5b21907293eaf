"""The numbers of the multiple-response paper, typed a second time from its text."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from colspace.datasets import make_multiple_response
from colspace.datasets._stein import LINKS
from colspace.experiments import (
    _stein_network,
    _stein_sim,
    stein_fig2,
    stein_mnist,
    stein_patchseq,
    stein_s,
    stein_theory,
)
from colspace.experiments._claims import read_paper

PAPER = read_paper("001")
CLAIMS = {claim.id: claim for claim in PAPER.claims}
FIRST, SECOND, LINEAR = "first order, published", "second order, published", "reduced-rank regression"


def test_constants_of_the_simulations():
    simulations = {name: value for name, value in PAPER.settings.items() if not isinstance(value, dict)}
    # II.1: q = 20; p in {30, 50, 80, 100}; r = 3; sigma_eps = .5; nu = 10; a ~ N(0, .5^2 I) or |z| + 3
    assert simulations == {
        "responses": 20,
        "columns": [30, 50, 80, 100],
        "rows": [300, 500, 1_000, 3_000, 5_000, 7_000, 9_000],
        "rank": 3,
        "noise": 1 / 2,
        "degrees_of_freedom": 10,
        "linear_scale": 1 / 2,
        "nonlinear_offset": 3,
        "repetitions": 100,
    }
    # II.3: h = 32, 200 epochs, batches of 0.5 % of the rows
    assert PAPER.settings["network"] == {"hidden": 32, "epochs": 200, "batch_share": 0.5 / 100}
    # Theorems 3.5 (sqrt(p/n)), 3.8 (1/sqrt(n)) and 3.13 (p/sqrt(n))
    assert PAPER.settings["rates"] == {"rows": -1 / 2, "columns_first": 1 / 2, "columns_second": 1}


def test_constants_of_the_real_data():
    # 5.1, III.1: 10000 images, h from 10 to 18, 100 repetitions, batches of 128, 50 epochs; Table S1
    assert PAPER.settings["mnist"] == {
        "training": 10_000,
        "dimensions": list(range(10, 19)),
        "repetitions": 100,
        "batch": 128,
        "epochs": 50,
        "pixels": 28 * 28,
        "encoder": [4, 2],
        "decoder": [2, 4],
    }
    # 5.2, III.2: n = 1213, q = 16, p = 1000; n1 = 213, n2 in {50, 75, 100}, n3 = 900; h from 4 to 8; 200 repetitions; e^-5
    assert PAPER.settings["patchseq"] == {
        "cells": 1_213,
        "features": 16,
        "genes": 1_000,
        "test": 213,
        "readout": [50, 75, 100],
        "labelled": 900,
        "dimensions": list(range(4, 9)),
        "repetitions": 200,
        "log_regularization": -5,
    }


def test_figure_2():
    for law in ("gaussian", "hyperbolic", "student"):
        like = CLAIMS[f"fig2-linear-{law}"]
        assert (like.rule, like.tolerance) == ("like", 0.1)
        assert (like.where["method"], like.against["method"]) == (FIRST, LINEAR)
        for links in ("cyclic", "random"):
            second = CLAIMS[f"fig2-second-{links}-{law}"]
            assert second.rule == "below"
            assert second.where == {"links": links, "law": law, "n": 9_000, "method": SECOND}
            assert second.against == {"method": LINEAR}
            first = CLAIMS[f"fig2-first-{links}-{law}"]
            assert first.rule == ("below" if law == "student" else "like")
            assert (first.where["method"], first.against["method"]) == (FIRST, LINEAR)
    assert CLAIMS["fig2-linear-network"].against == {"method": "network"}
    assert CLAIMS["fig2-second-network"].against == {"method": "network"}


@pytest.mark.parametrize(("figure", "columns"), [("s1", 30), ("s2", 50), ("s3", 80), ("s4", 100)])
def test_figures_of_the_supplement(figure, columns):
    mine = [claim for name, claim in CLAIMS.items() if name.startswith(f"{figure}-")]
    assert [claim.where["p"] for claim in mine] == [columns] * 5
    assert all(claim.where["n"] == 9_000 for claim in mine)
    assert {claim.id.split("-")[1]: (claim.rule, claim.against["method"]) for claim in mine} == {
        "linear": ("like", LINEAR),
        "second": ("below", LINEAR),
        "first": ("like", LINEAR),
        "student": ("below", LINEAR),
        "network": ("below", "network"),
    }


def test_columns_for_which_the_second_order_overtakes():
    pairs = [(c.where["p"], c.against["p"]) for name, c in CLAIMS.items() if name.startswith("s-overtaking")]
    assert pairs == [(30, 50), (50, 80), (80, 100)]


def test_figure_3():
    for order, method in (("first", "first order, kernel, validated"), ("second", "second order, validated")):
        rules = {
            "nrse": ("at_most", "nrse_minus_linear"),
            "ssim": ("at_least", "ssim_minus_linear"),
            "accuracy": ("at_least", "accuracy_minus_linear"),
            "decoder": ("at_most", "nrse_minus_pca"),
        }
        for name, rule in rules.items():
            claim = CLAIMS[f"fig3-{order}-{name}"]
            assert (claim.rule, claim.value, claim.published) == (*rule, 0)
            assert claim.where["method"] == method
        assert CLAIMS[f"fig3-{order}-accuracy"].where["h"] == [12, 13, 14, 15, 16, 17, 18]
        better = CLAIMS[f"fig3-{order}-autoencoder"], CLAIMS[f"fig3-{order}-autoencoder-ssim"]
        assert [c.where["method"] for c in better] == [method, "autoencoder"]
        assert [c.against["method"] for c in better] == ["autoencoder", method]
    last = CLAIMS["fig3-autoencoder-accuracy"]
    assert (last.where["method"], last.against["method"]) == ("autoencoder", "PCA, network")


def test_figure_4():
    found = {
        name: (c.rule, c.where.get("h"), c.value, c.published)
        for name, c in CLAIMS.items()
        if name.startswith("fig4")
    }
    assert found == {
        "fig4-semi-unsupervised": ("at_most", None, "minus_unsupervised", 0),
        "fig4-semi-supervised": ("at_most", 8, "minus_supervised", 0),
        "fig4-balanced-supervised": ("at_most", 8, "minus_supervised", 0),
        "fig4-semi-trend": ("below", 8, "minus_supervised", None),
        "fig4-unsupervised-pca": ("at_most", None, "minus_PCA", 0),
        "fig4-unsupervised-pca-few": ("at_most", 4, "minus_PCA", 0),
    }


def test_lemmas_and_theorems():
    laws = ("gaussian", "hyperbolic", "student")
    numbers = {
        name: (c.rule, c.published)
        for name, c in CLAIMS.items()
        if c.target == "stein-theory" and c.published is not None
    }
    assert numbers == {
        **{f"lemma-{lemma}-{law}": ("near", 1) for lemma in ("2.2", "2.3") for law in laws},
        "theorem-2.4": ("at_most", 0.05),
        "theorem-2.4-ridge": ("at_most", 0.05),
        "remark-I.1": ("at_most", 1e-6),
        "theorem-3.5-rows": ("at_most", -0.5 + 0.1),
        "theorem-3.5-columns": ("at_most", 0.5 + 0.1),
        "theorem-3.8": ("at_most", -0.5 + 0.1),
        "theorem-3.13-rows": ("at_most", -0.5 + 0.1),
        "theorem-3.13-columns": ("at_most", 1 + 0.1),
        "section-6-cost": ("at_most", 1),
        "section-6-cost-kernel": ("at_most", 1),
    }
    assert CLAIMS["s-columns-linear"].published == 0.6
    assert CLAIMS["fig2-network-rows"].published == -0.4


def test_the_experiments_use_the_constants():
    assert (_stein_sim.RESPONSES, _stein_sim.RANK, _stein_sim.RATE) == (20, 3, -0.5)
    assert (_stein_network.HIDDEN, _stein_network.EPOCHS, _stein_network.BATCHES) == (32, 200, 200)
    assert (stein_fig2.WIDTH, stein_s.WIDTHS) == (30, (30, 50, 80, 100))
    assert stein_fig2.ROWS[False] == stein_s.ROWS[False] == (300, 500, 1000, 3000, 5000, 7000, 9000)
    full = stein_mnist.SIZES[False]
    assert (full.dimensions, full.train, full.epochs, stein_mnist.BATCH) == (
        (10, 14, 18),
        10_000,
        50,
        128,
    )
    assert (stein_patchseq.GENES, stein_patchseq.TEST, stein_patchseq.LABELS) == (1000, 213, (50, 75, 100))
    assert_allclose(stein_patchseq.REGULARIZATION, 0.006737947)
    assert (stein_patchseq.DIMENSIONS[False], stein_patchseq.REPETITIONS[False]) == ((4, 5, 6, 7, 8), 200)
    assert (stein_theory.RANK, stein_theory.DF) == (3, 10)


def test_a_run_that_is_smaller_than_the_papers_is_said_to_be():
    repetitions = {
        "stein-fig2": (stein_fig2.REPETITIONS[False], 100),
        "stein-s": (stein_s.REPETITIONS[False], 100),
        "stein-mnist": (stein_mnist.SIZES[False].draws, 100),
    }
    for name, (ours, theirs) in repetitions.items():
        assert (ours < theirs) == (name in PAPER.sizes), name
    assert "1213 cells" in PAPER.sizes["stein-patchseq"]
    assert "every h from 10 to 18" in PAPER.sizes["stein-mnist"]


def test_the_generator_has_the_constants():
    X, Y, B = make_multiple_response(500, 6, 20, 3, links="linear", noise=0.0, rng=0)
    coefficients = np.linalg.lstsq(X @ B, Y, rcond=None)[0]
    assert_allclose(np.std(coefficients), 0.5, rtol=0.2)
    X, Y, B = make_multiple_response(500, 6, 20, 3, links="cyclic", noise=0.0, rng=0)
    for j, link in enumerate(LINKS):
        a = np.linalg.lstsq(link(X @ B), Y[:, j], rcond=None)[0]
        assert np.all(a > 3), j
    noisy = _stein_sim.simulate(_stein_sim.Setting("gaussian", "linear", 6), 4_000, 0)
    left = noisy[1] - noisy[0] @ np.linalg.lstsq(noisy[0], noisy[1], rcond=None)[0]
    assert_allclose(left.std(), 0.5, rtol=0.02)
    t = make_multiple_response(20_000, 6, 2, 1, law="student", rng=0)
    Q = np.sum(t.X @ np.linalg.inv(t.dispersion) * t.X, axis=1)
    assert_allclose(Q.mean(), 6, rtol=0.05)  # covariance form
