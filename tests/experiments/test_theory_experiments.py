"""The targets that check theorems, on small sizes, and their bounds against brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from colspace import experiments
from colspace.datasets import make_rbf
from colspace.experiments import _jdr_bounds as bounds
from colspace.experiments import jdr_theory, stein_theory
from colspace.experiments._book import Outcome, verdicts
from colspace.experiments._claims import read_paper


@pytest.fixture
def small(monkeypatch):
    size = jdr_theory.Size(3, 8, 400, 6, (10, 800), (200, 800), ((200, 400), (8, 12)))
    monkeypatch.setattr(jdr_theory, "SIZES", {True: size})
    monkeypatch.setattr(stein_theory, "SIZES", {True: stein_theory.Size(2, (400, 800), (6, 8), 500)})
    monkeypatch.setattr(stein_theory, "find_spec", lambda name: None)


def steady(rows):
    """Rows that do not hold times."""
    return [repr(row) for row in rows if not row["check"].startswith("CPU")]


@pytest.mark.parametrize("name", ["jdr-theory", "stein-theory"])
def test_every_claim_on_theory_finds_its_rows(small, tmp_path, name):
    result = experiments.run(name, quick=True, out=tmp_path, rng=1)
    assert result.path.read_bytes()[:4] == b"\x89PNG"
    assert result.size.startswith(("3 repetitions", "2 repetitions"))
    assert steady(experiments.run(name, quick=True, rng=1).rows) == steady(result.rows)
    assert steady(experiments.run(name, quick=True, rng=2).rows) != steady(result.rows)
    judged = 0
    for number in ("000", "001", "002"):
        found = verdicts(read_paper(number), [Outcome(name, result.rows)])
        judged += sum(claim.target == name for claim, _ in found)
    assert judged > 15


def test_constants_of_the_rbf_link_by_drawing():
    r, rng = 3, np.random.default_rng(0)
    c = bounds.rbf(r)
    u, v = rng.standard_normal((2, 1_000_000, r))
    f, u2, v2 = np.exp(-np.sum((u - v) ** 2, axis=1)), np.sum(u**2, axis=1), np.sum(v**2, axis=1)
    assert_allclose(np.mean(f * np.sum(u * v, axis=1)) / r, c.q, rtol=0.03)
    assert_allclose(np.mean(f**2), c.tau02, rtol=0.03)
    assert_allclose(np.mean(f**2 * u2), c.tau12, rtol=0.03)
    assert_allclose(np.mean(f**2 * u2 * v2) - r * c.q**2, c.sigma2, rtol=0.03)


def test_explicit_bound_follows_from_theorem_one():
    # 2/sigma_r sqrt(E||X0 - X||^2), with (n1 + 2)(n2 + 2) for (n1 + 2)(n2 + 2) - 1/(c + 1)
    for n1, n2, r, noise2 in ((7, 9, 2, 1.0), (30, 20, 5, 3.0)):
        c = bounds.bilinear(r, noise2)
        tight = 2 * np.sqrt(bounds.theorem_one(c, n1, n2, 100))
        loose = bounds.bilinear_error(c, n1, n2, 100)
        assert tight < loose < 1.5 * tight


def test_variance_of_the_proxy_by_drawing():
    rng = np.random.default_rng(0)
    n, m, r = 6, 50, 2
    c, off = bounds.bilinear(r), []
    for _ in range(2000):
        a, b = rng.standard_normal((2, m, n))
        y = np.sum(a[:, :r] * b[:, :r], axis=1) + rng.standard_normal(m)
        off.append(np.sum((jdr_theory.proxy(a, y, b) - np.eye(n)[:, :r] @ np.eye(n)[:r]) ** 2))
    assert_allclose(np.mean(off), bounds.theorem_one(c, n, n, m), rtol=0.05)


def test_light_tails_hold():
    c = bounds.bilinear(3)
    large, rate = bounds.light_tails(c)
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 200_000, 3))
    y = np.abs(np.sum(u * v, axis=1) + rng.standard_normal(200_000))
    for t in (2.0, 5.0, 10.0):
        assert np.mean(y >= t) <= large * np.exp(-rate * t)
    assert_allclose(np.mean(np.exp(y / 2 * np.sign(rng.standard_normal(200_000)))) * 2, large, rtol=0.1)


def test_explicit_bounds_by_hand():
    # r = 1, noise 1: r^2 Var + sigma^2 = 9, Var + tau_0^2 = 2, r Var + tau_1^2 = 4; n1 = n2 = 8, s = 2, m = 100
    c, log8, log16 = bounds.bilinear(1), 2.0794415, 2.7725887
    first, cross = 2 * 0.3, 4 * (8 * 4 / 100 * log8) ** 0.5
    assert_allclose(
        bounds.selection_error(c, 8, 8, 2, 2, 100),
        first + 8 * (8 * log8 * log8 * 2 / 100) ** 0.5 + 2 * cross,
        rtol=1e-6,
    )
    large = 2 * 1.1331485 / 0.75**0.5  # 2 e^(1/8) (1 - 1/4)^(-1/2)
    middle = 512 * 2**0.5 * (large + 2) * (16 * 4.6051702**2 * log16**4 / 100) ** 0.5
    assert_allclose(
        bounds.light_tail_error(c, 8, 8, 100), first + middle + 2 * 2 * (8 * 4 / 100) ** 0.5, rtol=1e-6
    )


def test_counting_above_half_of_eta_finds_rank_and_columns():
    found = jdr_theory.threshold_checks(0)
    assert [value for (check, _), (value, _) in found.items() if "by eta/2" in check] == [1.0, 1.0]
    distance, limit = found["premise of eta/2", "bilinear"]
    assert distance < limit


def test_known_and_sample_normalisation_are_of_the_same_columns():
    size = jdr_theory.Size(1, 8, 4_000, 6, (10, 800), (200, 800), ((200, 400), (8, 12)))
    errors = [value for value, _ in jdr_theory.known_moments(size, 0).values()]
    assert max(errors) < 0.15


def test_bounds_fall_with_rows():
    c = bounds.bilinear(5)
    for bound in (
        lambda m: bounds.selection_error(c, 20, 30, 6, 8, m),
        lambda m: bounds.bilinear_error(c, 20, 30, m),
    ):
        assert_allclose(bound(400) / bound(1600), 2)
    both = [bounds.light_tail_error(c, 20, 30, m) for m in (1_000, 4_000)]
    assert 1 < both[0] / both[1] < 2


def test_worst_repetition_is_shown_for_statements_of_every_data_set():
    found = [{("Lemma 4", "x"): (v, 2.0), ("other", "x"): (v, 2.0)} for v in (1.0, 3.0)]
    rows = {row["check"]: row for row in jdr_theory.summarise(found)}
    assert (rows["Lemma 4"]["ratio"], rows["Lemma 4"]["ratio_se"]) == (1.5, 0.0)
    assert (rows["other"]["ratio"], rows["other"]["ratio_se"]) == (1.0, 0.5)


def test_selection_leaves_columns_whole(monkeypatch):
    """X2 keeps s entries in each of s columns: brute force over columns finds nothing nearer to the proxy."""
    from itertools import combinations

    X, y, blocks, _ = make_rbf(300, 5, 2, rng=0)
    X0 = jdr_theory.proxy(X[:, blocks["a"]], y, X[:, blocks["b"]])
    s = 2
    best = min(
        np.sum(X0**2) - sum(np.sort(X0[:, j] ** 2)[-s:].sum() for j in columns)
        for columns in combinations(range(5), s)
    )
    columns = jdr_theory.sparse_proxy(X0, s, s)[2]
    X2 = np.zeros_like(X0)
    X2[:, columns] = jdr_theory.keep_largest_in_columns(X0, s)[:, columns]
    assert_allclose(np.sum((X0 - X2) ** 2), best)


def test_known_scores_of_the_laws_are_exact():
    for name in ("gaussian", "hyperbolic", "student"):
        X, B, score = stein_theory.law(name, 40_000, 4, np.random.default_rng(0))
        moment = score.fit(X).first_moment(X, X) / len(X)
        assert_allclose(moment, np.eye(4), atol=0.06)  # integration by parts, any law
        assert_allclose(B.T @ B, np.eye(3), atol=1e-10)
