"""Text in blocks of whole lines, parsed side by side."""

import gzip
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from colspace._threads import in_threads
from colspace.io import _text_blocks
from colspace.io._text_blocks import Block, TextReader, blocks_of


def reader(names=("a", "b"), types=None, **given):
    kinds = dict.fromkeys(names, pa.float64()) if types is None else types
    settings = {"separator": ",", "encoding": "utf-8", "decimal": ".", "gaps": ("", "NA")} | given
    return TextReader(names, kinds, **settings)


def frame_of(batches):
    return pa.Table.from_batches(list(batches)).to_pandas()


@pytest.fixture(params=["plain", "held"])
def opened(request, tmp_path):
    """A function that opens text: as a file, or as bytes in memory."""

    def of(text):
        if request.param == "held":
            return io.BytesIO(text)
        (tmp_path / "t.csv").write_bytes(text)
        return files.enter_context((tmp_path / "t.csv").open("rb"))

    with ExitStack() as files:
        yield of


@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("size", [1, 2, 5, 7, 100])
def test_blocks_are_the_lines(opened, size, end):
    text = b"a,b\n1,2\n3,4\n55555,66666\n\n7,8" + end
    file = opened(text)
    file.readline()
    blocks = list(blocks_of(file, size))
    lines = [block.read() for block in blocks]
    assert b"".join(lines) == text[4:]
    assert all(line.endswith(b"\n") for line in lines[:-1])
    assert all(len(line) >= size for line in lines[:-1])
    assert [block.start for block in blocks] == [4, *(block.end for block in blocks[:-1])]


def test_a_plain_file_is_read_by_who_takes_the_block(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"1,2\n3,4\n5,6\n")
    with path.open("rb") as file:
        first, second = blocks_of(file, 6)
        assert first.held == file.fileno()
        assert second.read() == b"5,6\n"
        os.truncate(path, 10)
        assert first.read() == b"1,2\n3,4\n"
        with pytest.raises(OSError, match="shorter while it was read"):
            second.read()
    assert Block(0, 4, b"1,2\n").read() == b"1,2\n"


def test_as_many_are_ahead_as_asked_for():
    done = []
    with ThreadPoolExecutor(1) as pool:
        found = in_threads(pool, done.append, range(100), 40)
        next(found)
        pool.submit(int).result()  # one thread: what was asked for before is done
        assert len(done) == 41
        found.close()


@pytest.mark.parametrize(("kind", "most"), [("plain", 50), ("packed", 2 * _text_blocks._MOST_THREADS)])
def test_no_more_is_unpacked_than_is_parsed_at_once(tmp_path, monkeypatch, kind, most):
    """Files that are read by who parses them are parsed far ahead of what is asked for."""
    taken, blocks = [], _text_blocks.blocks_of
    monkeypatch.setattr(_text_blocks, "_AHEAD", 50 * 400)
    monkeypatch.setattr(
        _text_blocks, "blocks_of", lambda *given: (taken.append(block) or block for block in blocks(*given))
    )
    text = b"a,b\n" + b"1,2\n" * 20_000
    (tmp_path / "t.csv").write_bytes(text if kind == "plain" else gzip.compress(text))
    with (gzip.open if kind == "packed" else open)(tmp_path / "t.csv", "rb") as file:
        found = reader().batches(file, 400)
        next(found)
        assert len(taken) == 51 if kind == "plain" else 2 <= len(taken) <= 1 + most
        found.close()


@pytest.mark.parametrize("size", [4, 17, 64, 1 << 20])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("quoted", [None, 0, 40, 99])
def test_tables_are_those_of_pandas(opened, size, line_end, quoted):
    rng = np.random.default_rng(3)
    rows = [
        f"{a!r},{'NA' if b > 1 else repr(b)},w{i}"
        for i, (a, b) in enumerate(rng.normal(size=(100, 2)).tolist())
    ]
    if quoted is not None:
        rows[quoted] = f'1.5,2.5,"says ""no, {line_end}never"""'
    text = line_end.join(["a,b,word", *rows]).encode()
    types = {"word": pa.string(), "a": pa.float64(), "b": pa.float64()}
    longest = max(map(len, rows)) + 10
    found = frame_of(reader(("a", "b", "word"), types).batches(opened(text), max(size, longest)))
    expected = pd.read_csv(io.BytesIO(text))
    assert list(found.columns) == ["word", "a", "b"]
    np.testing.assert_allclose(found[["a", "b"]], expected[["a", "b"]], rtol=1e-14)
    assert found["word"].str.replace("\r", "").tolist() == expected["word"].str.replace("\r", "").tolist()


@pytest.mark.parametrize("size", [40, 41, 42, 43, 100])
def test_line_breaks_within_quotes_may_stand_where_blocks_end(opened, size):
    text = b"a,word\n" + b"".join(b'%d,"one\ntwo\n%d"\n' % (i, i) for i in range(200))
    types = {"a": pa.float64(), "word": pa.string()}
    found = frame_of(reader(("a", "word"), types).batches(opened(text), size))
    assert found["word"].tolist() == [f"one\ntwo\n{i}" for i in range(200)]


def test_packed_text_and_other_encodings():
    text = "a,b\n" + "".join(f"{i},né{i}\n" for i in range(500))
    types = {"a": pa.float64(), "b": pa.string()}
    packed = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(text.encode())))
    for file, encoding in (
        (packed, "utf-8"),
        (io.BytesIO(text.encode("latin-1")), "latin-1"),
        (io.BytesIO(text.encode("utf-16")), "utf-16"),
        (io.BytesIO(text.replace("\n", "\r").encode()), "utf-8"),  # no line end but the old one
        (io.BytesIO(b"\xef\xbb\xbf" + text.encode()), "utf-8"),
    ):
        found = frame_of(reader(types=types, encoding=encoding).batches(file, 100))
        assert found["a"].tolist() == list(range(500))
        assert found["b"].tolist() == [f"né{i}" for i in range(500)]


@pytest.mark.parametrize(("bad", "what"), [(b"1,2,3\n", "got 3"), (b"x,1\n", "'x'")])
def test_errors_name_the_line_of_the_file(opened, bad, what):
    lines = b"".join(b"%d,%d\n" % (i, i) for i in range(1000))
    text = b"a,b\n" + lines + bad + lines  # line 1002
    with pytest.raises(pa.ArrowInvalid, match=rf"Row #1002: .*{what}"):
        list(reader().batches(opened(text), 256))


@pytest.mark.parametrize("size", [8, 64, 4096])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_lines_are_empty_or_cells_wherever_blocks_end(opened, size, line_end):
    text = line_end.join([b"word", b"a", *[b""] * 50, *[b"  "] * 50, b"b", *[b""] * 50])
    found = frame_of(reader(("word",), {"word": pa.string()}).batches(opened(text), size))
    assert found["word"].tolist() == ["a", *["  "] * 50, "b"]


def test_what_is_read_in_pieces_is_put_together(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_bytes(b"1,2\n3,4\n5,6\n")
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda file, count, start: read(file, min(count, 3), start))
    with (tmp_path / "t.csv").open("rb") as file:
        assert [block.read() for block in blocks_of(file, 7)] == [b"1,2\n3,4\n", b"5,6\n"]


def test_decimal_commas_and_marks():
    text = b"a;b\n" + b"1,5;-9\n2,5;3,5\n" * 50
    found = frame_of(reader(separator=";", decimal=",", gaps=("-9",)).batches(io.BytesIO(text), 32))
    assert found["a"].tolist() == [1.5, 2.5] * 50
    np.testing.assert_array_equal(found["b"], [np.nan, 3.5] * 50)


def test_who_stops_early_leaves_nothing_behind():
    batches = reader().batches(io.BytesIO(b"a,b\n" + b"1,2\n" * 10_000), 1000)
    assert next(batches).num_rows == 251
    batches.close()


def test_what_waits_is_not_parsed_for_who_stops_early(monkeypatch):
    parsed, gate, call = [], threading.Event(), TextReader._parsed

    class Pool(ThreadPoolExecutor):
        def shutdown(self, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            gate.set()
            super().shutdown()

    def waiting(self, block):
        parsed.append(block)
        if len(parsed) > 1:
            gate.wait(60)
        return call(self, block)

    monkeypatch.setattr(_text_blocks, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(TextReader, "_parsed", waiting)
    batches = reader().batches(io.BytesIO(b"a,b\n" + b"1,2\n" * 10_000), 400)
    next(batches)
    batches.close()
    assert len(parsed) <= 1 + _text_blocks._MOST_THREADS
