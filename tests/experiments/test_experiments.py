import csv
import importlib
import io
import logging
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.console import Console

from colspace import _progress, experiments
from colspace._progress import track
from colspace.experiments import _core, demo, jdr_fig1, jdr_fig3, jdr_fig5
from colspace.experiments._core import Point, power_slope
from colspace.experiments._demo_report import print_table


@pytest.mark.parametrize("exponent", [-0.5, 0.5, 1.0, 2.0])
def test_slope_of_an_exact_power_law(exponent):
    x = np.array([2.0, 5.0, 11.0, 40.0])
    assert_allclose(power_slope(x, 3.0 * x**exponent), exponent, rtol=1e-12)


def test_slope_needs_two_places():
    assert np.isnan(power_slope([3.0], [1.0]))
    assert np.isnan(power_slope([3.0, 3.0], [1.0, 2.0]))


def test_error_of_a_slope_is_that_of_repeated_draws():
    rng = np.random.default_rng(0)
    x, y, error = np.array([1.0, 3.0, 10.0]), np.array([2.0, 1.0, 0.5]), np.array([0.05, 0.02, 0.02])
    slopes = [power_slope(x, y + error * rng.standard_normal(3)) for _ in range(4000)]
    assert_allclose(_core.slope_error(x, y, error), np.std(slopes), rtol=0.05)
    assert np.isnan(_core.slope_error([3.0], [1.0], [0.1]))


def _small(monkeypatch):
    grid = jdr_fig1.Grid(
        make="make_bilinear",
        label="bilinear",
        rows=(400, 1600),
        rows_width=8,
        widths=(8, 12),
        widths_rows=500,
        selection_rows=(400, 1600),
        selection_width=12,
        selection_size=6,
        sizes=(6, 8),
        sizes_rows=800,
    )
    monkeypatch.setattr(jdr_fig1, "QUICK", (grid,))
    monkeypatch.setattr(jdr_fig3, "ROWS", {True: (300, 1200)})
    monkeypatch.setattr(jdr_fig3, "WIDTH", 8)
    monkeypatch.setattr(jdr_fig5, "ROWS", {True: (300, 1200)})
    monkeypatch.setattr(jdr_fig5, "WIDTH", 8)
    for module in (jdr_fig1, jdr_fig3, jdr_fig5):
        monkeypatch.setattr(module, "REPETITIONS", {True: 2})


#: name -> number of curves of the small version
CURVES = {"jdr-fig1": 6, "jdr-fig3": 8, "jdr-fig5": 21}


@pytest.mark.parametrize("name", sorted(CURVES))
def test_experiment_writes_what_it_returns(monkeypatch, tmp_path, name):
    _small(monkeypatch)
    result = experiments.run(name, quick=True, out=tmp_path / "new", rng=1)
    assert result.name == name
    assert len(result.summary) == CURVES[name]
    assert len(result.rows) == 2 * CURVES[name]
    assert all(0.0 <= row["nsee"] <= 1.0 and row["repetitions"] == 2 for row in result.rows)
    assert all(row["se"] >= 0 and row["slope_se"] >= 0 for row in result.rows)
    assert result.size.startswith("2 repetitions")
    assert result.path == tmp_path / "new" / f"{name}.png"
    assert result.path.read_bytes()[:4] == b"\x89PNG"
    with (tmp_path / "new" / f"{name}.csv").open() as file:
        written = list(csv.DictReader(file))
    assert_allclose([float(row["nsee"]) for row in written], [row["nsee"] for row in result.rows])
    again = experiments.run(name, quick=True, rng=1)
    assert again.rows == result.rows
    assert again.path is None
    other = experiments.run(name, quick=True, rng=2)
    assert other.rows != result.rows


def test_errors_fall_with_rows_and_grow_with_columns(monkeypatch):
    _small(monkeypatch)
    slopes = {}
    for name in ("jdr-fig1", "jdr-fig3"):
        for row in experiments.run(name, quick=True).summary:
            slopes[row["panel"], row["curve"]] = float(row["slope"].split()[0])
    for (panel, _), slope in slopes.items():
        if panel not in ("bilinear: columns", "bilinear: sparsity, with selection"):
            assert slope < -0.2
    assert slopes["bilinear: columns", "Algorithm 1"] > 0


@pytest.mark.parametrize("name", sorted(CURVES))
def test_every_published_grid_is_well_formed(name):
    module = importlib.import_module(experiments.EXPERIMENTS[name])
    if module is jdr_fig1:
        panels = [p for grid in (*module.FULL, *module.QUICK) for p in module.panels(grid)]
    else:
        panels = [p for rows in module.ROWS.values() for p in module.panels(rows)]
    for panel in panels:
        x = [point.x for point in panel.points]
        assert x == sorted(set(x))
        assert set(panel.slopes) <= set(panel.points[0].estimators)
    assert module.REPETITIONS[False] >= 20
    assert experiments.describe(name)


def test_curves_with_the_same_data_share_it(monkeypatch):
    drawn = []
    make = _core.datasets.make_bilinear

    def counting(**kw):
        drawn.append(kw.get("law"))
        return make(**kw)

    monkeypatch.setattr(_core.datasets, "make_bilinear", counting)
    estimators = {"one": ({}, {}), "two": ({}, {"whiten": None}), "three": ({"law": "uniform"}, {})}
    point = Point(1, "make_bilinear", {"n_samples": 200, "n_features": 5, "n_components": 1}, estimators)
    errors = _core.point_errors(point, np.random.SeedSequence(0))
    assert drawn == [None, "uniform"]
    assert set(errors) == set(estimators)


def test_unknown_experiment():
    with pytest.raises(ValueError, match="choose from jdr-fig1"):
        experiments.run("fig9")


def test_progress_goes_to_the_log(caplog):
    caplog.set_level(logging.INFO, logger="colspace")
    with track(20, "counting") as advance:
        for _ in range(20):
            advance()
    assert len(caplog.records) == 10
    assert caplog.messages[-1] == "counting: 20 of 20"


def test_progress_bar_on_a_terminal(monkeypatch, caplog):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with track(2, "counting", show=True) as advance:
        advance()
        advance()
    assert not caplog.records


@pytest.mark.parametrize(("delay", "seen"), [(60.0, False), (0.0, True)])
def test_a_bar_with_the_time_left_comes_after_a_while(monkeypatch, delay, seen):
    """Two counts within each other, on one display."""
    screen, threads = io.StringIO(), threading.active_count()
    monkeypatch.setattr(_progress, "DELAY", delay)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with track(None, "fitting", show=True), track(4, "counting", show=True) as advance:
        advance(2)
        time.sleep(0.3)
    text = screen.getvalue()
    assert [word in text for word in ("fitting", "counting", "50%", "left")] == [seen] * 4
    for _ in range(100):  # the thread that draws is told to stop, not waited for
        if threading.active_count() > threads:
            time.sleep(0.02)
    assert threading.active_count() <= threads


def test_demo_section_on_a_cut(tmp_path, monkeypatch):
    X, y = demo.breast_cancer()
    monkeypatch.setattr(demo, "breast_cancer", lambda: (X.iloc[::2], y.iloc[::2]))
    monkeypatch.setattr(demo, "PERMUTATIONS", 19)
    console = Console(record=True, width=120)
    demo.blocks_section(tmp_path, console, per_block=(1,), folds=3)
    text = console.export_text()
    for word in (
        "joint reduction",
        "PCA",
        "PLS",
        "ridge",
        "all columns",
        "on rows left out",
        "embedding.png",
    ):
        assert word in text
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "embedding.png",
        "loadings.png",
        "singular_values.png",
    ]


def test_demo_interaction_is_seen_by_joint_reduction_only(tmp_path):
    console = Console(record=True, width=120)
    demo.interaction_section(tmp_path, console)
    rows = [line for line in console.export_text().splitlines() if "±" in line]
    joint, pls, pca = (float(row.split("│")[3].split("±")[0]) for row in rows)
    assert joint > 0.6
    assert max(pls, pca) < 0.05


def test_demo_compares_at_equal_numbers_of_components():
    X, y = demo.breast_cancer()
    rows, sentence = demo.compare(X.iloc[::2], y.iloc[::2], per_block=(2,), folds=3)
    assert [row["columns"] for row in rows] == ["6", "6", "6", "6", "30", "0"]
    assert all(float(row["accuracy"].split()[0]) > 0.8 for row in rows[:-1])
    assert sentence.startswith("With 2 directions per block joint reduction reads diagnosis with accuracy")


def test_demo_makes_its_directory(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        demo, "SECTIONS", [lambda out, console: seen.append(out) or {"what": "a", "measure": "R2"}]
    )
    demo.main(["--out", str(tmp_path / "a" / "b")])
    assert seen == [tmp_path / "a" / "b"]
    assert seen[0].is_dir()


def test_tables_of_the_demo_cut_no_word():
    console = Console(width=80, file=io.StringIO())
    cells = {f"column {i}": "0.123 ± 0.004" for i in range(5)}
    print_table(console, [{"imputer": "IterativeImputer", **cells}])
    assert "IterativeImputer" in console.file.getvalue()


def test_demo_of_gaps_beats_the_median_and_covers():
    tables = {"wine": demo.tables_with_levels()["wine"]}
    rows = {row["imputer"]: row for row in demo.imputers(tables, masks=1)}
    ours = rows["CopulaImputer"]
    assert float(ours["numbers, SMAE"].split()[0]) < 0.9
    assert float(ours["95 % cover: numbers"].split()[0]) > 0.88
    assert float(rows["median of the column"]["numbers, SMAE"].split()[0]) == 1.0
