"""Tables as they come: streams, encodings, headers."""

import csv
import gzip
import io
import os
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from colspace.io import _tables, read_table, write_table
from colspace.io._source import parts_of
from colspace.io._text import _other_separator

FRAME = pd.DataFrame({"a": [1.5, np.nan], "b": ["x", None], "n": [3, 4], "é": [True, False]})


def as_bytes(kind, frame=FRAME):
    buffer = io.BytesIO()
    if kind == "parquet":
        frame.to_parquet(buffer)
    elif kind == "csv":
        buffer.write(frame.to_csv(index=False).encode())
    elif kind == "csv.gz":
        buffer.write(gzip.compress(frame.to_csv(index=False).encode()))
    else:
        table = pa.Table.from_pandas(frame)
        with (ipc.new_file if kind == "arrow" else ipc.new_stream)(buffer, table.schema) as writer:
            writer.write_table(table)
    return buffer.getvalue()


KINDS = ["parquet", "arrow", "stream", "csv", "csv.gz"]


class Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("kind", KINDS)
def test_standard_input_is_told_by_its_content(monkeypatch, kind):
    monkeypatch.setattr(sys, "stdin", Stdin(as_bytes(kind)))
    pd.testing.assert_frame_equal(read_table("-"), FRAME)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["pipe", "pipe.csv"])
def test_named_pipes_are_read(tmp_path, kind, name):
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(daemon=True, target=(tmp_path / name).write_bytes, args=(as_bytes(kind),))
    writer.start()
    found = read_table(tmp_path / name, text=["n"], gaps=False)  # a table that is parsed twice
    writer.join(10)
    assert found["n"].astype(str).tolist() == ["3", "4"]
    pd.testing.assert_frame_equal(found.drop(columns="n"), FRAME.drop(columns="n"))


def test_a_pipe_of_tabs_says_so_by_its_name(tmp_path):
    os.mkfifo(tmp_path / "p.tsv")
    writer = threading.Thread(daemon=True, target=(tmp_path / "p.tsv").write_text, args=("a\tb\n1\t2\n",))
    writer.start()
    assert read_table(tmp_path / "p.tsv").columns.tolist() == ["a", "b"]
    writer.join(10)


@pytest.mark.parametrize("kind", ["arrow", "stream"])
def test_files_of_arrow(tmp_path, kind):
    (tmp_path / "t.arrow").write_bytes(as_bytes(kind))
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.arrow"), FRAME)
    write_table(FRAME, tmp_path / "again.arrow")
    pd.testing.assert_frame_equal(read_table(tmp_path / "again.arrow"), FRAME)


def test_parquet_of_other_writers_reads_as_pandas_does(tmp_path):
    table = pa.table({"s": ["x", None], "n": [1, None], "d": pa.array(["u", "v"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), pd.read_parquet(tmp_path / "t.parquet"))


def test_content_that_the_name_does_not_tell(tmp_path):
    (tmp_path / "t.csv").write_bytes(as_bytes("parquet"))
    with pytest.raises(ValueError, match=r"t\.csv holds Parquet by its content; name it \.parquet"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(as_bytes("csv.gz"))
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv"), FRAME)
    (tmp_path / "t.csv.gz").write_bytes(as_bytes("csv"))
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv.gz"), FRAME)
    (tmp_path / "t.arrow").write_text("a,b\n")
    with pytest.raises(ValueError, match="is not an Arrow file"):
        read_table(tmp_path / "t.arrow")


@pytest.mark.parametrize("cut", [11, 30])
def test_half_a_packed_file(tmp_path, cut):
    (tmp_path / "t.csv").write_bytes(as_bytes("csv.gz")[:cut])
    with pytest.raises(ValueError, match=r"t\.csv is not a CSV table"):
        read_table(tmp_path / "t.csv")


# ---------------------------------------------------------------------- headers


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("name", ["x" * 200_000, '"' + "x" * 200_000 + '"', "x" * 2_000_000])
@pytest.mark.filterwarnings("ignore:.*columns are separated at")
def test_names_of_any_length(tmp_path, separator, name):
    limit = csv.field_size_limit()
    (tmp_path / "t.csv").write_text(f"a{separator}{name}{separator}b\n1{separator}2{separator}3\n")
    found = read_table(tmp_path / "t.csv", text=["b"])
    assert found.columns.tolist() == ["a", name.strip('"'), "b"]
    assert found.iloc[0].tolist() == [1, 2, "3"]
    assert csv.field_size_limit() == limit


def test_headers_of_any_width_and_the_separator_from_their_beginning(tmp_path):
    names = [f"column {i}" for i in range(15_000)]  # 190,000 letters
    (tmp_path / "t.csv").write_text(";".join(names) + "\n" + ";".join("1" * len(names)) + "\n")
    with pytest.warns(UserWarning, match="separated at ';'"):
        assert read_table(tmp_path / "t.csv").columns.tolist() == names


def test_names_with_line_breaks_and_separators(tmp_path):
    (tmp_path / "t.csv").write_text('"a;\nb";"c ""d"""\n1;2\n')
    with pytest.warns(UserWarning, match="separated at ';'"):
        assert read_table(tmp_path / "t.csv").columns.tolist() == ["a;\nb", 'c "d"']


@pytest.mark.parametrize("header", ["a,b,a", 'a,b,"a"', "a,b, a", "a;b;a", "a,a,b,b"])
def test_names_that_stand_twice_are_refused_in_text(tmp_path, header):
    (tmp_path / "t.csv").write_text(header + "\n" + "1,2,3,4"[: len(header)].replace(",", header[1]) + "\n")
    with pytest.raises(ValueError, match=r"t\.csv: column names that stand twice: 'a'.*; rename them"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_names_that_stand_twice_are_refused_in_parquet_and_arrow(tmp_path, monkeypatch, kind):
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"])
    buffer = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, buffer)
    else:
        with (ipc.new_file if kind == "arrow" else ipc.new_stream)(buffer, table.schema) as writer:
            writer.write_table(table)
    path = tmp_path / ("t.parquet" if kind == "parquet" else "t.arrow")
    path.write_bytes(buffer.getvalue())
    monkeypatch.setattr(sys, "stdin", Stdin(buffer.getvalue()))
    for source in (path, "-"):
        with pytest.raises(ValueError, match="column names that stand twice: 'a'; rename them"):
            read_table(source)


def test_many_columns_without_a_name(tmp_path):
    (tmp_path / "t.csv").write_text(",a,,\n1,2,3,4\n")
    assert read_table(tmp_path / "t.csv").columns.tolist() == ["Unnamed: 0", "a", "Unnamed: 2", "Unnamed: 3"]


# ---------------------------------------------------------------------- encodings

TEXT = "naïve,prix\né,1\nü,2\n"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_utf8_with_and_without_a_mark(tmp_path, monkeypatch, stream, bom):
    content = bom + TEXT.encode()
    (tmp_path / "t.csv").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", Stdin(content))
    for encoding in (None, "utf-8", "utf-8-sig"):
        monkeypatch.setattr(sys, "stdin", Stdin(content))
        found = read_table("-" if stream else tmp_path / "t.csv", text=["naïve"], encoding=encoding)
        assert found.columns.tolist() == ["naïve", "prix"]
        assert found["naïve"].tolist() == ["é", "ü"]


@pytest.mark.parametrize(
    ("content", "message", "encoding"),
    [
        (TEXT.encode("utf-16"), "is UTF-16 text, not UTF-8", "utf-16"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "is UTF-16 text", "utf-16"),
        (TEXT.encode("utf-16-le"), "is UTF-16 text", "utf-16-le"),
        (TEXT.encode("utf-16-be"), "is UTF-16 text", "utf-16-be"),
        (TEXT.encode("utf-32"), "is UTF-32 text", "utf-32"),
        (TEXT.encode("latin-1"), "line 1 holds the byte 0xef. It looks like Latin-1", "latin-1"),
        (
            ("a,b\n" + 70_000 * "1,2\n" + "é,3\n").encode("latin-1"),
            "line 70002 holds the byte 0xe9",
            "latin-1",
        ),
        ("naïve,prix\n5 €,1\n".encode("cp1252"), "line 1 holds the byte 0xef", "latin-1"),
        (
            "name,prix\n5 €,1\n".encode("cp1252"),
            "0x80. It looks like Windows-1252, a kind of Latin-1",
            "cp1252",
        ),
    ],
)
def test_other_encodings_are_named_with_the_remedy(tmp_path, monkeypatch, content, message, encoding):
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr(sys, "stdin", Stdin(content))
    for source in (tmp_path / "t.csv", tmp_path / "t.csv.gz", "-"):
        with pytest.raises(ValueError, match=message) as caught:
            read_table(source)
        assert str(caught.value).endswith(f"give encoding={encoding!r}")
        assert str(source) in str(caught.value)
    found = read_table(tmp_path / "t.csv", encoding=encoding)
    assert found.columns.tolist() == content.decode(encoding).split("\n")[0].split(",")
    assert found.iloc[-1, 0] == content.decode(encoding).split("\n")[-2].split(",")[0]


def test_encodings_that_are_wrong(tmp_path):
    (tmp_path / "t.csv").write_text(TEXT, encoding="utf-8")
    for encoding in ("klingon", "hex"):
        with pytest.raises(ValueError, match=f"encoding='{encoding}' is not an encoding of text; e.g. utf-8"):
            read_table(tmp_path / "t.csv", encoding=encoding)
    for encoding in ("ascii", "utf-16"):
        with pytest.raises(
            ValueError, match=rf"t\.csv cannot be read with encoding='{encoding}': .*name another"
        ):
            read_table(tmp_path / "t.csv", encoding=encoding)
    FRAME.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"encoding='latin-1' is about text, and .*t\.parquet has its own"):
        read_table(tmp_path / "t.parquet", encoding="latin-1")
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n\0\0\0\0,3\n")
    with pytest.raises(ValueError, match=r"t\.csv is not a CSV table: it holds bytes that are zero"):
        read_table(tmp_path / "t.csv")


def test_cells_that_look_like_formulas_stay_as_they_are(tmp_path):
    cells = ["=1+1", "+1", "-x", "@SUM(A1)", "\t=2", "'=3"]
    write_table(pd.DataFrame({"a": cells}), tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv", text=["a"])["a"].tolist() == cells
    assert (tmp_path / "t.csv").read_text().splitlines()[1:5] == cells[:4]


# ---------------------------------------------------------------------- JSON lines, other separators


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_json_lines_keep_every_digit(tmp_path, name):
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(size=50) * 10.0 ** rng.integers(-300, 300, 50), 0.1, np.nan, np.inf]
    frame = pd.DataFrame({"x": values, "f": rng.normal(size=53).astype(np.float32), "n": np.arange(53)})
    frame["when"] = pd.Timestamp("2024-02-29 12:30")
    frame["word"] = ['a"b', "c\nd", None, *["é"] * 50]
    frame["yes"] = True
    write_table(frame, tmp_path / name)
    again = read_table(tmp_path / name)
    np.testing.assert_array_equal(again["x"], np.where(np.isinf(values), np.nan, values))
    np.testing.assert_array_equal(again["f"].astype(np.float32), frame["f"])
    assert again["n"].tolist() == list(range(53))
    assert again["word"][:2].tolist() == ['a"b', "c\nd"]
    assert again["word"].isna().tolist() == frame["word"].isna().tolist()
    assert pd.to_datetime(again["when"]).iloc[0] == frame["when"].iloc[0]
    assert again["yes"].all()


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        (["a b c", "1 2 3", "4 5 6"], " "),
        (["a:b", "1:2"], ":"),
        (["full name", "Ann Lee", "Bob Ray"], None),
        (["a:b", "1:2", "12"], None),  # not in every row
        (["first_name", "x_y", "z_w"], None),
        (["value", "1.5", "2.5"], None),
        (["a:b"], None),
        (["", "a"], None),
    ],
)
def test_another_separator_is_one_that_every_row_has(lines, mark):
    assert _other_separator(lines) == mark


def test_none_among_words_is_told(tmp_path):
    """A gap as pandas has it, but it may be a level that is called so; a number that is None is a gap."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,None,x\n2,Some,NA\nNone,None,x\n4,NA,y\n")
    with pytest.warns(UserWarning, match=r"None are taken for gaps \(2 of 'b'\)"):
        frame = read_table(path)
    assert frame["b"].isna().sum() == 3
    with pytest.warns(UserWarning, match=r"\(2 of 'b'\)"):
        read_table(path, text=["a", "b", "c"])
    path.write_text("a,c\n1,x\n2,NA\nNone,x\n4,Nonesuch\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(path)


def test_the_expected_separator_comes_first(tmp_path):
    (tmp_path / "t.csv").write_text("a,b;c;d\n1,x;y;z\n")  # three columns at ;
    assert list(read_table(tmp_path / "t.csv")) == ["a", "b;c;d"]


def test_parts_in_hidden_folders_and_parts_with_more_columns(tmp_path):
    for name in ("a.csv", "_tmp/b.csv", "in/.cache/c.csv", "in/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x,y\n1,2\n")
    assert sorted(parts_of(tmp_path)) == [str(tmp_path / "a.csv"), str(tmp_path / "in/d.csv")]
    assert len(read_table(tmp_path)) == 2
    (tmp_path / "in/d.csv").write_text("x,y,z\n1,2,3\n")
    with pytest.raises(ValueError, match=r"d\.csv has 'z' besides, unlike .*a\.csv"):
        read_table(tmp_path)


def test_a_table_on_standard_output_has_one_header_and_its_index(monkeypatch, capsys):
    monkeypatch.setattr(_tables, "_ROWS", 2)
    frame = pd.DataFrame({"a": [1, 2, 3, 4, 5]})
    write_table(frame, "-")
    assert capsys.readouterr().out == "a\n1\n2\n3\n4\n5\n"
    write_table(frame[1:3], "-")
    assert capsys.readouterr().out == ",a\n1,2\n2,3\n"


def test_records_of_mixed_cells_keep_every_digit():
    assert _tables.json_lines(pd.DataFrame({"a": [0.123456789012345, "x"]})).startswith(
        '{"a":0.123456789012345}'
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_column_without_cells_in_one_part_has_no_type_there(tmp_path, kind):
    """Numbers stay numbers, words stay words."""
    for part, (numbers, words) in enumerate((([1.5, 2.5], ["a", "b"]), ([None, None], [None, None]))):
        table = pa.table({"x": pa.array(numbers), "w": pa.array(words), "y": [1, 2]})
        with pa.OSFile(str(tmp_path / f"{part}.{kind}"), "wb") as file:
            if kind == "parquet":
                pa.parquet.write_table(table, file)
            else:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
    frame = read_table(tmp_path)
    assert frame["x"].dtype == np.float64
    np.testing.assert_array_equal(frame["x"], [1.5, 2.5, np.nan, np.nan])
    assert frame["w"].dropna().tolist() == ["a", "b"]
    assert frame["y"].tolist() == [1, 2, 1, 2]


def test_lines_with_fewer_cells_are_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,2,3\n4,5\n\n6\n7,8,\n")
    with pytest.warns(
        UserWarning, match="2 lines have fewer cells than the header, the first line 3; what they lack is"
    ):
        assert read_table(path).isna().to_numpy().sum() == 4
    path.write_text("a,b,c\n1,2,3\n7,8,\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(path)
