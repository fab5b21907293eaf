"""Cells as a file has them, as values, and as they are written again."""

import numpy as np
import pandas as pd
import pytest

from colspace.cli import _filled
from colspace.cli._cells import Cells, _floats, _typed, parse_kinds, refuse_mixtures, shortest


def test_numbers_of_text_are_those_of_python():
    """Rounded as float() does, whether Arrow reads them or the slow way; what is no number stays text."""
    rng = np.random.default_rng(0)
    written = [repr(float(x)) for x in rng.standard_normal(2000) * 10.0 ** rng.integers(-300, 300, 2000)]
    text = pd.Series([None, *written], dtype="str")
    found = _typed(text)
    assert np.isnan(found.iloc[0])
    assert found.iloc[1:].tolist() == [float(cell) for cell in written]
    assert _floats(pd.Series(written, dtype="str")) is not None
    spaced = pd.Series([" 1.5", "2.25"], dtype="str")
    assert _floats(spaced) is None
    assert _typed(spaced).tolist() == [1.5, 2.25]
    for odd in ("1_0", "0x10", "1,5", "one"):
        assert _typed(pd.Series([odd, "2.5"], dtype="str")).tolist() == [odd, "2.5"]


def test_floats_are_spelled_as_python_does():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * 10.0 ** rng.integers(-20, 25, 2000)
    assert shortest(values).to_pylist() == list(map(str, values.tolist()))


def test_numbers_are_written_as_the_first_that_is_equal():
    values, text = pd.Series([1.5, 1.5, None, 2.0]), pd.Series(["1.50", "1.5", None, "2"], dtype="str")
    cells = Cells(pd.DataFrame({"a": values}), pd.DataFrame({"a": text}))
    for new, word in ((1.5, "1.50"), (2.0, "2"), (2.5, "2.5")):
        assert cells.filled(pd.DataFrame({"a": values.fillna(new)}), as_text=True)["a"][2] == word


def test_half_words_are_words_and_fewer_are_a_mixture():
    refuse_mixtures(pd.DataFrame({"a": ["1", "2", "x", "y"] * 5}), {})
    with pytest.raises(ValueError, match=r"1 column.s. hold numbers and some text: 'a' .'x'.*--na 'x'"):
        refuse_mixtures(pd.DataFrame({"a": ["1", "2", "3", "x"] * 5}), {})


def test_kinds_by_name_pattern_and_quotes():
    names = ["q1", "q2", "a=b", "size"]
    found = parse_kinds(["q?=ordinal", "a=b=count", 'size="S, or less",M'], names)
    assert found == {"q1": "ordinal", "q2": "ordinal", "a=b": "count", "size": ["S, or less", "M"]}


def test_few_gaps_are_in_the_sample_that_the_summary_looks_at(monkeypatch):
    monkeypatch.setattr(_filled, "_ROWS", 50)
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((2000, 2)), columns=["a", "b"])
    X.loc[[7, 1500], "a"] = np.nan
    X.loc[::2, "b"] = np.nan
    part = _filled.some_rows(X, 0)
    assert {7, 1500} <= set(part.index)
    assert len(part) < 300
    small = X[:50]
    assert _filled.some_rows(small, 0) is small
