"""The numbers of the first joint-reduction paper, typed a second time from its text."""

import numpy as np
from numpy.testing import assert_allclose

from colspace.datasets import make_bilinear
from colspace.experiments import jdr_fig1, jdr_fig3, jdr_fig5
from colspace.experiments._claims import judge, read_paper

PAPER = read_paper("000")


def test_constants_of_the_experiments():
    assert PAPER.settings == {
        # Section 6.1: r = 5, 100 repetitions, N(0, 1) noise; Section 7: Poisson with lambda = 4
        "rank": 5,
        "repetitions": 100,
        "noise_variance": 1,
        "poisson_mean": 4,
        # slopes roughly -0.5 (columns 1 and 3), 0.5 (column 2), 1 (column 4)
        "slopes": {"rows": -1 / 2, "columns": 1 / 2, "sparsity": 1},
        # Section 6.2: n_D = n_G = 200; m_D = 2358, m_G = 2020, 40854 scores; 2122 + 236 diseases; 1 + 20 partitions
        "disease_features": 200,
        "gene_features": 200,
        "diseases": 2122 + 236,
        "genes": 2020,
        "scores": 40_854,
        "training_diseases": 2_122,
        "test_diseases": 236,
        "tuning_partitions": 1,
        "partitions": 20,
        # k = 10, 20, ..., 100 with r = 80; r = 20, 40, ..., 100 with k = 100
        "list_lengths": list(range(10, 110, 10)),
        "main_directions": 80,
        "directions": list(range(20, 120, 20)),
        # Section 8: scores larger than 0.01
        "significant": 1e-2,
    }


def test_slopes_of_figure_1():
    found = {
        tuple(claim.where["panel"].split(": ")): (claim.published, claim.tolerance)
        for claim in PAPER.claims
        if claim.id.startswith("fig1-")
    }
    columns = ("rows", "columns", "rows, with selection", "sparsity, with selection")
    slopes = ((-0.5, 0.1), (0.5, 0.1), (-0.5, 0.1), (1.0, 0.2))
    assert found == {
        (model, column): slope
        for model in ("bilinear", "RBF")
        for column, slope in zip(columns, slopes, strict=True)
    }


def test_every_other_number_of_a_claim():
    numbers = {
        c.id: (c.rule, c.published) for c in PAPER.claims if c.published is not None and "fig1" not in c.id
    }
    equal = ["theorem-1-mean-bilinear", "theorem-1-mean-rbf", "theorem-1-variance-bilinear"]
    equal += ["section-11-rank", "section-11-sparsity"]
    bounded = ["theorem-1-variance-rbf", "theorem-1-bilinear-bound", "section-11-premise"]
    bounded += [f"lemma-{k}" for k in (4, 6, 7, 9, 13)]
    ahead = ["fig2-imc-lists", "fig2-imc-directions", "fig2-jdr-best", "fig4-imc"]
    lost = ["fig5-odd-phd", "fig5-odd-phd-both", "fig5-even-jdr"]
    consistent = ["three-blocks", "vector-response", "fig5-odd-jdr", "fig5-even-phd-slope"]
    assert numbers == {
        **dict.fromkeys(equal, ("near", 1)),
        **dict.fromkeys(bounded, ("at_most", 1)),
        **dict.fromkeys(ahead, ("at_least", 0)),
        **dict.fromkeys(lost, ("at_least", 0.85)),
        **dict.fromkeys(consistent, ("near", -0.5)),
        "theorem-1-rate": ("at_most", -0.5 + 0.1),
        "theorem-2-columns": ("at_most", 0.75),  # between sqrt(n), the claim, and n
        "theorem-2-columns-rbf": ("at_most", 0.75),
        "cost-rows": ("at_most", 1 + 0.1),
        "cost-columns": ("at_most", 2),
        "cost-algorithm-2": ("at_most", 1 + 0.1),
        "cost-countsketch": ("at_most", 1 + 0.1),
    }


def test_orders_and_likenesses():
    pairs = {c.id: (c.rule, {**c.where}, {**c.against}) for c in PAPER.claims if c.rule in ("below", "like")}
    odd, even = {"panel": "odd link (bilinear)"}, {"panel": "even link (squares)"}
    joint, hessian = {"curve": "joint (JDR)"}, {"curve": "Hessian (pHd per block)"}
    assert pairs["fig5-odd-order"] == ("below", odd | joint, hessian)
    assert pairs["fig5-even-phd"] == ("below", even | hessian, joint)
    for name, panel in {
        "sample-normalisation": "sample normalisation",
        "uniform": "uniform columns",
        "poisson": "Poisson(4) columns",
        "correlated": "correlated blocks (0.1)",
    }.items():
        where = {"panel": panel, "curve": panel}
        assert pairs[f"fig3-{name}"] == ("like", where, {"curve": "assumptions met"})
    imc = {"method": "IMC", "r": [20, 40, 60, 80, 100], "k": 100, "positives": "all"}
    for name, method in {"pca": "PCA", "phd": "pHd", "sols": "sOLS"}.items():
        assert pairs[f"fig2-{name}"] == ("below", imc, {"method": method})
    assert pairs["fig2-cphd"] == ("below", imc | {"r": 80}, {"method": "cpHd"})
    assert pairs["fig4-more"] == ("below", imc, {"positives": "significant"})
    assert pairs["algorithm-2-accuracy"][1]["model"] == "Algorithm 2, printed"
    assert len(pairs) == 16


def test_the_experiments_use_the_constants():
    assert jdr_fig1.RANK == jdr_fig3.RANK == 5
    assert {rank for _, rank in jdr_fig5.LINKS.values()} == {5, 1}
    panels = jdr_fig1.panels(jdr_fig1.FULL[0])
    assert [list(panel.slopes.values()) for panel in panels] == [[-0.5], [0.5], [-0.5], [1.0]]
    X, y, blocks, loadings = make_bilinear(20_000, 4, 2, law="poisson", rng=0)
    counts = 2 * X + 4  # a Poisson variable of mean 4 has standard deviation 2
    assert_allclose(counts, np.rint(counts), atol=1e-9)
    assert_allclose([counts.mean(), counts.var()], [4, 4], rtol=0.02)
    u, v = (X[:, blocks[name]] @ loadings[name] for name in "ab")
    assert_allclose(np.var(y - np.sum(u * v, axis=1)), 1, rtol=0.03)


def test_a_run_that_is_smaller_than_the_papers_is_said_to_be():
    modules = {"jdr-fig1": jdr_fig1, "jdr-fig3": jdr_fig3, "jdr-fig5": jdr_fig5}
    for paper in (PAPER, read_paper("002")):
        for name, module in modules.items():
            assert (module.REPETITIONS[False] < 100) == (name in paper.sizes)


def test_generated_pairs_answer_no_claim():
    """Their numbers of directions are none of the paper's."""
    rows = [
        {"method": m, "r": r, "k": 100, "positives": "all", "behind": 0.1, "behind_error": 0.01}
        for m in ("IMC", "PCA", "pHd", "cpHd", "sOLS")
        for r in (2, 4, 6, 8, 10)
    ]
    for claim in PAPER.claims:
        if claim.target == "pairs-gene-disease":
            assert judge(claim, rows).verdict == "not reproducible here"
