"""The numbers of the earlier joint-reduction paper, typed a second time from its text."""

from colspace.experiments import _jdr_bounds as bounds
from colspace.experiments._claims import read_paper

PAPER = read_paper("002")


def test_constants_of_the_experiments():
    # Section 5.4: N(0, 1) noise, 100 repetitions, Poisson with lambda = 4, slopes of the four columns of Fig. 1
    assert PAPER.settings == {
        "repetitions": 100,
        "noise_variance": 1,
        "poisson_mean": 4,
        "slopes": {"rows": -0.5, "columns": 0.5, "sparsity": 1},
    }


def test_constants_of_the_bilinear_link():
    # Section 5.2 with r = 5: sigma_r = 1, sigma^2 = 5 * 49 - 5, tau_0^2 = 5, tau_1^2 = tau_2^2 = 35
    c = bounds.bilinear(5)
    assert (c.q, c.sigma2, c.tau02, c.tau12) == (1, 240, 5, 35)
    found = {
        x.where["model"] for x in PAPER.claims if x.id.startswith("section-5.2") and x.target == "jdr-theory"
    }
    assert found == {"sigma^2", "tau_0^2", "tau_1^2", "tau_2^2"}


def test_slopes_of_figure_1():
    found = {
        (c.place, c.where["panel"]): (c.published, c.tolerance)
        for c in PAPER.claims
        if c.id.startswith("fig1-")
    }
    assert found == {
        ("Fig. 1, row 1, plot 1", "bilinear: rows"): (-0.5, 0.1),
        ("Fig. 1, row 1, plot 2", "bilinear: columns"): (0.5, 0.1),
        ("Fig. 1, row 1, plot 3", "bilinear: rows, with selection"): (-0.5, 0.1),
        ("Fig. 1, row 1, plot 4", "bilinear: sparsity, with selection"): (1, 0.2),
        ("Fig. 1, row 2, plot 1", "RBF: rows"): (-0.5, 0.1),
        ("Fig. 1, row 2, plot 2", "RBF: columns"): (0.5, 0.1),
        ("Fig. 1, row 2, plot 3", "RBF: rows, with selection"): (-0.5, 0.1),
        ("Fig. 1, row 2, plot 4", "RBF: sparsity, with selection"): (1, 0.2),
    }


def test_every_other_number_of_a_claim():
    numbers = {
        c.id: (c.rule, c.published) for c in PAPER.claims if c.published is not None and "fig1" not in c.id
    }
    equal = ["theorem-1-mean-bilinear", "theorem-1-mean-binary", "theorem-1-variance-bilinear"]
    equal += [f"section-5.2-{name}" for name in ("sigma", "tau-0", "tau-1", "tau-2")]
    equal += ["section-5.3-rank", "section-5.3-sparsity"]
    lost = [f"section-5.2-odd-{name}" for name in ("sir", "save", "save-both", "phd-both")]
    lost += ["fig3-odd-phd", "fig3-even-jdr"]
    assert numbers == {
        **dict.fromkeys(equal, ("near", 1)),
        **dict.fromkeys(("theorem-1-variance-binary", "theorem-2", "theorem-3"), ("at_most", 1)),
        **dict.fromkeys(lost, ("at_least", 0.85)),
        "corollary-1": ("at_most", -0.4),
        "corollary-2": ("at_most", -0.4),
        "corollary-3": ("at_most", 0.75),
    }


def test_orders_and_likenesses():
    pairs = {
        c.id: (c.rule, c.where.get("curve"), c.against.get("curve"))
        for c in PAPER.claims
        if c.rule in ("below", "like") and c.target != "jdr-theory"
    }
    assert pairs == {
        "fig2-sample": ("like", "sample normalisation", "assumptions met"),
        "fig2-uniform": ("like", "uniform columns", "assumptions met"),
        "fig2-poisson": ("like", "Poisson(4) columns", "assumptions met"),
        "fig2-weakly": ("like", "correlated blocks (0.1)", "assumptions met"),
        "fig3-odd": ("below", "joint (JDR)", "Hessian (pHd per block)"),
        "fig3-even": ("below", "Hessian (pHd per block)", "joint (JDR)"),
    }
