import csv

import numpy as np
import pytest
from rich.console import Console
from scipy import sparse

from colspace import KernelPairRegressor, experiments
from colspace.datasets import make_pairs
from colspace.experiments import _demo_pairs
from colspace.experiments import _pair_rivals as rivals
from colspace.experiments import pairs_gene_disease as module
from colspace.metrics import recall_at_k
from colspace.pairs._similarity import profile_kernel
from colspace.pairs._tune import Grid, Settings

SMALL = Grid((0.1, 0.5), (0.2, 0.4), (0.2, 0.4))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(module, "GRID", {True: SMALL})
    monkeypatch.setattr(module, "PENALTIES", {True: (0.03, 0.3)})
    monkeypatch.setattr(module, "PARTITIONS", {True: 3, False: 3})
    monkeypatch.setattr(module, "FEATURES", {True: 6})


def graph(X):
    """Similarities as edges, each once."""
    D = np.sum((X[:, None] - X) ** 2, axis=2)
    S = np.exp(-D / np.median(D))
    i, j = np.triu_indices(len(X), 1)
    return i, j, S[i, j]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    A, B, Y, truth = make_pairs(90, 130, 6, 2, n_links=4, rng=0)
    d, g = graph(A @ truth["left"]), graph(B @ truth["right"])
    y = Y.tocoo()
    np.savez(
        tmp_path / "gene_disease.npz",
        disease_id=[str(i) for i in range(90)],
        disease_name=[f"d{i}" for i in range(90)],
        dsim_i=d[0],
        dsim_j=d[1],
        dsim_w=d[2],
        gene_symbol=[f"g{i}" for i in range(130)],
        ppi_i=g[0],
        ppi_j=g[1],
        assoc_d=y.coords[0],
        assoc_g=y.coords[1],
        assoc_disgenet_score=y.data,
        assoc_omim=np.zeros(y.nnz, dtype=bool),
    )
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    return tmp_path


def small_study(quick):
    A, B, Y, _ = make_pairs(120, 110, 8, 3, rng=0)
    return module.Study(A, B, Y, (2, 3), 3, float(np.median(Y.data)), False)


def test_generated_pairs_say_what_is_missing(tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    monkeypatch.setattr(module, "generated", small_study)
    result = experiments.run("pairs-gene-disease", quick=True, out=tmp_path)
    assert result.notes[0].startswith("Pairs are generated: no folder with gene_disease.npz")
    with (tmp_path / "pairs-gene-disease.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.rows) == 12 * 2 * 2 * 10
    assert (tmp_path / "pairs-gene-disease.png").stat().st_size > 10_000
    assert result.summary[0]["method"] in ("JDR", "cpHd", "JDR + ridge")
    by_name = {
        row["method"]: row for row in result.rows if (row["r"], row["k"], row["positives"]) == (3, 10, "all")
    }
    assert by_name["JDR"]["recall"] > by_name["PCA"]["recall"] + 0.1
    assert by_name["JDR"]["behind"] == 0
    gap = by_name["JDR"]["recall"] - by_name["IMC"]["recall"]
    assert by_name["IMC"]["behind"] == pytest.approx(gap)
    assert sum(note.startswith("method ") for note in result.notes) == 7


def test_reads_the_folder(tiny, folder):
    study = module.gene_disease(quick=True)
    assert study.real
    assert study.A.shape == (90, 6)
    assert study.Y.shape == (90, len(study.B))
    assert np.diff(study.Y.tocsc().indptr).min() >= 1  # genes without any score are left out
    assert study.main == 80


def test_partitions_are_disjoint_and_differ_from_the_tuning_one():
    train, test = module.partition(95, 0, 3)
    assert sorted([*train, *test]) == list(range(95))
    assert len(test) == 9
    tests = [tuple(module.partition(95, 0, k)[1]) for k in (*range(20), module.TUNING)]
    assert len(set(tests)) == 21


def test_grid_and_estimator_agree(tiny):
    study = small_study(True)
    train, test = module.partition(120, 0, 0)
    for name in ("JDR", "PCA"):
        found = module.grid_recalls(study, module.REDUCTIONS[name], train, test, SMALL, k=10)
        assert len(found) == (8 if name == "JDR" else 4)
        for settings, value in found.items():
            model = module.regressor(name, 3, settings).fit(study.A[train], study.B, study.Y[train])
            assert recall_at_k(study.Y[test], model.predict(study.A[test]), 10) == pytest.approx(
                value, abs=0.01
            )


def test_rivals_are_the_estimators():
    study = small_study(True)
    train, test = module.partition(120, 0, 0)
    memory = rivals.Memory(study.A, study.B, study.Y)
    Y = study.Y[train]
    K, L = (memory.kernel(side, h).astype(float) for side, h in (("left", 0.7), ("right", 0.5)))
    for positive in (False, True):
        scores = rivals.two_step(memory, train, test, (0.7, 2.0, 0.5, 0.5, positive))
        fitted = KernelPairRegressor(metric="precomputed", alpha=(2.0, 0.5), positive=positive)
        fitted.fit(K[np.ix_(train, train)], L, Y)
        np.testing.assert_allclose(scores, fitted.predict(K[np.ix_(test, train)]), rtol=1e-3, atol=1e-5)
        joint = rivals.joint_ridge(memory, train, test, (0.7, 2.0, 0.5, 0.5, 3, 0.1, positive))
        given = {"bandwidth": (0.7, 0.5), "alpha": (2.0, 0.5), "positive": positive, "shrinkage": 0.1}
        model = KernelPairRegressor(reduction="joint", n_components=3, **given).fit(
            study.A[train], study.B, Y
        )
        # the unit of the width is the median distance of all diseases there, of the training ones here
        assert np.corrcoef(joint.ravel(), model.predict(study.A[test]).ravel())[0, 1] > 0.999
    k = K[np.ix_(test, train)]
    for share in (0.0, 0.5):
        P = profile_kernel(sparse.csr_array(Y.T), np.arange(110), np.arange(110))
        mixed = (1 - share) * L + share * P
        few = rivals.Memory(study.A, study.B, study.Y)
        few.kept = {"kernel left": {0.7: K}, "kernel right": {0.5: L}}
        found = rivals.kronecker(few, train, test, (0.7, 0.5, 0.3, share))
        U, V = K[np.ix_(train, train)], mixed
        # K W L + alpha W = Y
        a, Q = np.linalg.eigh(U)
        W = (
            Q
            @ np.linalg.solve(
                np.einsum("i,jk->ijk", a, V) + 0.3 * np.eye(110), (Q.T @ Y.toarray())[:, :, None]
            )[:, :, 0]
        )
        assert np.abs(U @ W @ V + 0.3 * W - Y.toarray()).max() < 1e-8
        np.testing.assert_allclose(found, k @ W @ V, atol=1e-5)
    three = rivals.near(memory, train, test, (0.7, 3))
    for i in range(len(test)):
        order = np.argsort(-k[i])[:3]
        expected = k[i, order] @ Y[order].toarray() / k[i, order].sum()
        np.testing.assert_allclose(three[i], expected, rtol=1e-4, atol=1e-6)


def test_settings_in_words():
    assert module._words(Settings(0.1, 0.2, 0.3)) == "shrinkage 0.1, bandwidths 0.2 and 0.3"
    assert module._words(0.03) == "penalty 0.03"


def test_demo_of_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(_demo_pairs, "SIZE", (210, 120, 8, 2))
    console = Console(record=True, width=160, force_terminal=False)
    _demo_pairs.pairs_section(tmp_path, console, splits=1)
    text = console.export_text()
    assert "inductive matrix completion" in text
    assert (tmp_path / "pairs.png").exists()
    found = _demo_pairs.recalls(1)
    at = _demo_pairs.LISTS.index(20)
    assert found["joint reduction + kernel"][0][at] > max(
        found[name][0][at] for name in found if name != "joint reduction + kernel"
    )


def test_significant_positives_are_those_above_the_threshold():
    Y = sparse.csr_array(np.array([[0.2, 0.9, 0.0] * 40]))
    scores = np.tile([3.0, 2.0, 1.0], 40)[None]
    found = module.recalls(Y, scores, 0.5)
    assert found["all", 40] == pytest.approx(0.5)
    assert found["significant", 40] == 0.0


@pytest.mark.parametrize("name", ["neighbours", "kernel ridge"])
def test_rivals_climb_from_their_start(name):
    """A full run tunes them: the settings found are at least as good as those where they begin."""
    study = small_study(True)
    train, test = module.partition(120, 0, module.TUNING)
    memory, rival = rivals.Memory(study.A, study.B, study.Y), rivals.RIVALS[name]
    best = module.tuned_rivals(study, memory, 0, True, lambda: None)
    assert best[name] == rival.at(rival.start)
    _, recall = rivals.tuned_rival(rival, memory, train, test, k=10)
    assert recall >= recall_at_k(study.Y[test], np.asarray(rival.scores(memory, train, test, best[name])), 10)
