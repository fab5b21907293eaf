import matplotlib.pyplot as plt
import numpy as np
import pytest
from rich.console import Console

from colspace.experiments import _demo_atoms, demo


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def _numbers(cell):
    return float(cell.split("±")[0])


def test_supervised_atoms_predict_better_than_those_of_nmf_and_rebuild_nearly_as_well():
    X, y = _demo_atoms.digits()
    assert set(y) == {3, 5, 8}
    rows = {row["method"]: row for row in _demo_atoms.compare(X, y, splits=3)}
    ours, nmf = rows["supervised dictionary"], rows["NMF + logistic regression"]
    assert {row["atoms"] for row in rows.values()} == {10}
    assert _numbers(ours["accuracy"]) > _numbers(nmf["accuracy"])
    assert _numbers(ours["reconstruction error"]) < 1.15 * _numbers(nmf["reconstruction error"])


def test_rebuilding_by_pls_is_worse_than_by_as_many_principal_components():
    X, y = _demo_atoms.digits()
    _, error = _demo_atoms._pls(X, y, X, y)
    left = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[10:]
    assert error >= (left**2).sum() / (X**2).sum() - 1e-12


def test_section_prints_and_draws(tmp_path, monkeypatch):
    X, y = _demo_atoms.digits()
    monkeypatch.setattr(_demo_atoms, "digits", lambda: (X[::3], y[::3]))
    monkeypatch.setattr(_demo_atoms, "ATOMS", 3)
    console = Console(record=True, width=120)
    _demo_atoms.atoms_section(tmp_path, console, splits=2)
    text = console.export_text()
    for word in ("supervised dictionary", "NMF", "PLS", "reconstruction error", "atoms.png", "pareto.png"):
        assert word in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["atoms.png", "pareto.png"]
    assert _demo_atoms.atoms_section in demo.SECTIONS
