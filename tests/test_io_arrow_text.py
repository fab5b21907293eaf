"""Text by Arrow is text by pandas."""

import io

import numpy as np
import pandas as pd
import pytest
from pandas._libs.parsers import STR_NA_VALUES

from colspace.cli._cells import _spelled, read_cells, shortest
from colspace.io import _text, read_table, write_table
from colspace.io._arrow_text import GAPS, read_words, text_dtype, write_words
from colspace.io._source import open_source

arrow = pytest.mark.skipif(text_dtype(pd) is None, reason="this pandas holds text as objects")

PLAIN = {
    "gaps": "a,b\n" + "\n".join(f"{word},x" for word in sorted(STR_NA_VALUES)) + "\n",
    "spaces": "a , b\n 1, NA\n2 ,\n  x,y\n",
    "windows lines": "a,b\r\n1,2\r\n,4\r\n",
    "byte order mark": "\ufeffa,b\n1,2\n",
    "blank lines": "a,b\n1,2\n\n3,4\n\n",
    "no last line end": "a,b\n1,2\n3,",
    "letters": "ä,b\nö,日本\n\U0001f600,x\n",
    "unnamed": ",b\n1,2\n",
    "looks like numbers": "a,b\n007,1e5\n+1,0x10\n",
    "backslash and hash": "a,b\n\\,#\n\\n,1;2\n",
}
ODD = {
    "quotes": 'a,b\n"1,5",2\n',
    "a quote within": 'a,b\n5" pipe,2\n',
    "short row": "a,b,c\n1,2\n3,4,5\n",
    "blank of spaces": "a,b\n1,2\n   \n3,4\n",
    "lone carriage return": "a,b\r1,2\r",
    "carriage return among line ends": "a,b\n1,2\r3,4\n",
    "one column": "a\n1\n\n2\n",
    "header of quotes": '"a","b"\n1,2\n',
}


def as_pandas(path):
    frame = pd.read_csv(path, dtype=str)
    frame.columns = [str(name).strip() or name for name in frame.columns]
    return frame


def words_of(path):
    layout = _text.layout_of(pd, open_source(path), None)
    return read_words(pd, open_source(path), layout.fields, layout.separator)


@arrow
@pytest.mark.filterwarnings("ignore:.*spaces around")
@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_plain_text_is_read_as_pandas_reads_it(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    assert words_of(path) is not None
    pd.testing.assert_frame_equal(read_cells(str(path)).text, as_pandas(path))


@arrow
@pytest.mark.filterwarnings("ignore:.*fewer cells than the header")
@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_odd_text_is_left_to_pandas(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    assert words_of(path) is None
    pd.testing.assert_frame_equal(read_cells(str(path)).text, as_pandas(path))


def test_the_words_for_gaps_are_those_of_pandas():
    assert set(GAPS) == set(STR_NA_VALUES)


@arrow
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize(
    "cell", ["1", " a b ", "é", "#", "x;y", "", None, "a,b", "a\tb", 'say "a"', "a\nb", "a\rb"]
)
def test_text_is_written_as_pandas_writes_it(tmp_path, suffix, cell):
    frame = pd.DataFrame(
        {"a": pd.Series(["1", cell, None], dtype="str"), 'b,"': pd.Series(["x", "y", cell], dtype="str")}
    )
    separator = "\t" if suffix == "tsv" else ","
    write_table(frame, tmp_path / f"t.{suffix}")
    assert (tmp_path / f"t.{suffix}").read_bytes() == frame.to_csv(index=False, sep=separator).encode()
    quoted = cell is not None and any(letter in cell for letter in '"\n\r' + separator)
    file = io.BytesIO()
    assert write_words(pd, frame, file, separator) == (not quoted)
    assert bool(file.getvalue()) == (not quoted)


def test_other_tables_are_not_written_as_text():
    file = io.BytesIO()
    assert not write_words(pd, pd.DataFrame({"a": ["1"], "b": [2.0]}), file, ",")
    assert not write_words(
        pd, pd.DataFrame({"a": ["1", None]}), file, ","
    )  # pandas quotes the gap of the only column
    assert not file.getvalue()


def test_numbers_are_spelled_as_python_spells_them():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** np.arange(-12, 20)
    x = np.concatenate(
        [
            part
            for size in sizes
            for part in (rng.standard_normal(200) * size, np.rint(rng.standard_normal(50) * size))
        ]
    )
    x = np.concatenate([x, sizes, -sizes, np.nextafter(sizes, 0), [0.0, -0.0, 1e-300, 1e300, 0.1 + 0.2]])
    assert shortest(x).to_pylist() == list(map(str, x.tolist()))
    assert shortest(np.array([np.nan, 0.5])).to_pylist() == [None, "0.5"]


def test_a_value_is_spelled_as_the_column_first_has_it():
    text = pd.Series(["1.50", None, "1.5", None, "2.0", None], dtype="str")
    old = pd.Series([1.5, np.nan, 1.5, np.nan, 2.0, np.nan])
    new = pd.Series([1.5, 1.5, 1.5, 0.25, 2.0, np.nan])
    assert pd.Series(_spelled(old, text, new)).fillna("gap").tolist() == [
        "1.50",
        "1.50",
        "1.5",
        "0.25",
        "2.0",
        "gap",
    ]
    words = pd.Series(["Yes", None, "no"], dtype="str")
    truth = pd.Series([True, None, False], dtype="boolean")
    filled = pd.Series([True, True, False], dtype="boolean")
    assert pd.Series(_spelled(truth, words, filled)).tolist() == ["Yes", "Yes", "no"]
    whole = pd.Series([7, None, None], dtype="Int64")
    again = pd.Series([7, 7, 8], dtype="Int64")
    assert pd.Series(_spelled(whole, pd.Series(["007", None, None], dtype="str"), again)).tolist() == [
        "007",
        "007",
        "8",
    ]


def test_text_of_another_encoding_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\né,1\n".encode("latin-1"))
    assert read_table(path, text=["a", "b"], encoding="latin-1")["a"].tolist() == ["é"]
    with pytest.raises(ValueError, match="not UTF-8"):
        read_table(path, text=["a", "b"])
