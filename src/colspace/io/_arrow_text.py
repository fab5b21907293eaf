"""Tables of text by Arrow, where it reads and writes them as pandas does, only faster."""

from __future__ import annotations

import csv
import io
from typing import Any, BinaryIO

from ._source import Source

#: Words that pandas takes for gaps.
GAPS = (
    *(
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
    ),
    *("NaN", "None", "n/a", "nan", "null"),
)
_ROWS = 1 << 12  # written at once


def text_dtype(pandas: Any) -> Any:
    """The type of columns of text that Arrow holds; None where pandas has another."""
    dtype = pandas.Series(["a"]).dtype
    return dtype if getattr(dtype, "storage", "") == "pyarrow" else None


def read_words(pandas: Any, source: Source, fields: tuple[str, ...], separator: str) -> Any:
    """All cells of UTF-8 text as text; None where pandas might read them otherwise.

    That is where a quote, a zero byte or a lone carriage return is in the file, and where rows are not as long as the header.
    """
    dtype = text_dtype(pandas)
    if dtype is None or len(fields) < 2:  # a blank line may be a gap of the only column
        return None
    import pyarrow
    from pyarrow import csv as text

    with source.open() as file:
        content = file.read()
    if b'"' in content or b"\0" in content or content.count(b"\r") != content.count(b"\r\n"):
        return None
    if not content[: content.find(b"\n") + 1].removeprefix(b"\xef\xbb\xbf").strip():
        return None
    try:
        table = text.read_csv(
            pyarrow.BufferReader(content),
            text.ReadOptions(column_names=list(fields), skip_rows=1),
            text.ParseOptions(delimiter=separator),
            text.ConvertOptions(
                column_types=dict.fromkeys(fields, pyarrow.large_string()),
                null_values=list(GAPS),
                strings_can_be_null=True,
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    return pandas.DataFrame({name: dtype.__from_arrow__(table[name]) for name in fields})


def write_words(pandas: Any, frame: Any, file: BinaryIO, separator: str) -> bool:
    """Write a table all of whose columns are text, as pandas would, to an empty file; False, and nothing in it, where one needs quotes."""
    dtype = text_dtype(pandas)
    texts = dtype is not None and all(column == dtype for column in frame.dtypes)
    if not texts or frame.shape[1] < 2 or not file.seekable():
        return False
    import pyarrow
    from pyarrow import csv as text

    p = frame.shape[1]
    table = pyarrow.Table.from_arrays(
        [arrow_text(frame.iloc[:, j]) for j in range(p)], list(map(str, range(p)))
    )
    options = text.WriteOptions(
        include_header=False, quoting_style="none", delimiter=separator, batch_size=_ROWS
    )
    header = io.StringIO()
    csv.writer(header, delimiter=separator, lineterminator="\n").writerow(list(frame.columns))
    file.write(header.getvalue().encode("utf-8"))
    try:
        text.write_csv(table, file, options)
    except pyarrow.ArrowInvalid:
        file.seek(0)
        file.truncate()
        return False
    return True


def arrow_text(column: Any) -> Any:
    """A column of text as one Arrow array."""
    import pyarrow

    found = pyarrow.array(column, type=pyarrow.large_string())
    return found.combine_chunks() if isinstance(found, pyarrow.ChunkedArray) else found
