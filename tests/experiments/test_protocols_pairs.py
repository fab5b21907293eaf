"""Held-out diseases of the pairs: their scores reach no model and no choice, partitions are apart, links that say nothing give chance."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from colspace import experiments
from colspace.datasets import make_pairs
from colspace.experiments import _pair_rivals as rivals
from colspace.experiments import pairs_gene_disease as module
from colspace.pairs._tune import Grid, Settings

SETTINGS = Settings(0.3, 0.3, 0.3)
BEST = {**dict.fromkeys(module.REDUCTIONS, SETTINGS), module.IMC: 0.1}
START = {name: rival.at(rival.start) for name, rival in rivals.RIVALS.items()}


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setattr(module, "GRID", {True: Grid((0.1, 0.5), (0.2, 0.4), (0.2, 0.4))})
    monkeypatch.setattr(module, "PENALTIES", {True: (0.03, 0.3)})
    A, B, Y, _ = make_pairs(120, 110, 8, 3, rng=0)
    return module.Study(A, B, Y, (3,), 3, float(np.median(Y.data)), False)


def _poisoned(study, rows):
    """The same study, the scores of some diseases replaced by others."""
    Y = study.Y.toarray()
    Y[rows] = np.random.default_rng(7).permutation(Y[rows].ravel()).reshape(len(rows), -1)
    return replace(study, Y=sparse.csr_array(Y))


def _predictions(study, parts, monkeypatch):
    """Scores of every method, as they reach the recall."""
    seen = []
    monkeypatch.setattr(module, "recalls", lambda Y, scores, level: seen.append(np.array(scores)) or {})
    module.evaluate(study, BEST, *parts)
    module.evaluate_rivals(study, rivals.Memory(study.A, study.B, study.Y), START, *parts)
    monkeypatch.undo()
    return seen


def test_scores_of_held_out_diseases_reach_no_prediction(study, monkeypatch):
    parts = module.partition(120, 0, 0)
    honest = _predictions(study, parts, monkeypatch)
    poisoned = _predictions(_poisoned(study, parts[1]), parts, monkeypatch)
    assert len(honest) == len(poisoned) == 1 + len(BEST) + len(START)
    for one, other in zip(honest, poisoned, strict=True):
        np.testing.assert_array_equal(one, other)
    moved = _predictions(_poisoned(study, parts[0]), parts, monkeypatch)
    assert not any(np.allclose(one, other) for one, other in zip(honest, moved, strict=True))


def test_settings_come_from_a_partition_that_is_not_evaluated(study, monkeypatch):
    """Of the diseases that a run holds out none of the sets is that of the tuning, whatever the seed."""
    drawn, plain = [], module.partition
    monkeypatch.setattr(module, "PARTITIONS", {True: 3})
    monkeypatch.setattr(module, "gene_disease", lambda quick: study)
    monkeypatch.setattr(module, "partition", lambda *a: drawn.append((a, plain(*a))) or drawn[-1][1])
    result = experiments.run("pairs-gene-disease", quick=True, rng=1)
    tuned = [tuple(found[1]) for (_, _, k), found in drawn if k == module.TUNING]
    tested = [tuple(found[1]) for (_, _, k), found in drawn if k != module.TUNING]
    assert len(set(tuned)) == 1
    assert len(set(tested)) == len(tested) == 3
    assert not set(tuned) & set(tested)
    assert {row["partitions"] for row in result.rows} == {3}
    others = {tuple(plain(120, 2, k)[1]) for k in range(20)}
    assert not others & {tuple(plain(120, 1, k)[1]) for k in range(20)}


def test_links_of_other_diseases_give_chance(study):
    """Diseases' features permuted: no method finds more than popularity does, beyond chance."""
    mixed = replace(study, A=np.random.default_rng(7).permutation(study.A))
    k = 10

    def recall(some, name):
        values = []
        for i in range(4):
            parts = module.partition(120, 0, i)
            found = module.evaluate(some, {"JDR": SETTINGS}, *parts)
            memory = rivals.Memory(some.A, some.B, some.Y)
            found |= module.evaluate_rivals(some, memory, {"kernel ridge": START["kernel ridge"]}, *parts)
            values.append(found[name, 3, "all", k])
        return np.mean(values)

    for name in ("JDR", "kernel ridge"):
        assert recall(mixed, name) < recall(mixed, module.POPULAR) + 0.06
        assert recall(study, name) > recall(mixed, name) + 0.15
