"""What ``colspace atoms`` writes of each row agrees with its scores, and nothing of rows held out is in the fit."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from colspace import load
from colspace.cli._group import colspace


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Parts of a whole with a covariate; the third class is rare."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.gamma(1.0, size=(90, 5)), columns=list("abcde"))
    frame["age"] = rng.integers(20, 60, 90) + np.linspace(0, 30, 90)
    frame["kind"] = np.array(["many", "some", "few"])[
        np.digitize(frame["a"] + 0.3 * rng.random(90), [0.9, 2.4])
    ]
    frame["who"] = [f"p{i:02d}" for i in range(90)]
    frame.to_csv("t.csv", index=False)
    return frame


def test_rows_scores_and_the_saved_model_agree(table):
    line = "atoms t.csv --label kind -c age --id who -r 2 --test 0.3 --out o --save m.skops"
    done = CliRunner().invoke(colspace, line.split())
    assert done.exit_code == 0, done.output
    rows, scores = pd.read_csv("o/rows.csv"), json.loads(Path("o/scores.json").read_text())
    model = load("m.skops")
    assert rows["who"].tolist() == table["who"].tolist()
    assert rows["kind"].tolist() == table["kind"].tolist()
    assert rows["predicted"].tolist() == model.predict(table).tolist()
    assert_allclose(rows[[f"p_{c}" for c in model.classes_]], model.predict_proba(table), rtol=1e-9)
    held = rows["held_out"]
    assert held.sum() == scores["held_out"] == 27
    found = scores["scores"]
    assert found["supervised dictionary"]["accuracy"] == np.mean((rows["kind"] == rows["predicted"])[held])
    commonest = rows["kind"][~held].mode()[0]
    assert found["largest class"]["accuracy"] == np.mean(rows["kind"][held] == commonest)
    scaler = model.steps[0][1].named_transformers_["numbers"][-1]
    assert_allclose(scaler.mean_, table["age"][~held].mean())  # not of all rows
