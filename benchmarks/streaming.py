"""`colspace reduce` on a large CSV beside the reader alone: seconds and peak memory, each in a process of its own.

    python benchmarks/streaming.py [--rows 1e6] [--columns 50] [--runs 3] [--folder FOLDER]

"Reader" is a loop over the batches of ``pyarrow.csv.open_csv`` as it comes; the command is run as a user would, with the start
of Python and of the library in its time: with moments that take one pass and hold no more than a chunk (``--moments all``) and
with the default, which keeps the rows on disk for further passes; each with the check on rows left out and without it. The figures are the least of the runs, as seconds
on the clock (what people wait for) and of all cores. The table, twenty bytes a number, is written once to the folder.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COMPILED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as pip leaves a package
READER = """
import sys
from pyarrow import csv
print(sum(batch.num_rows for batch in csv.open_csv(sys.argv[1])))
"""


def write_rows(path: Path, rows: int, columns: int) -> None:
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    B = rng.standard_normal((columns, 2)) / np.sqrt(columns)
    names = [*(f"x{j}" for j in range(columns)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with csv.CSVWriter(path, schema) as writer:
        for start in range(0, rows, 50_000):
            X = rng.standard_normal((min(50_000, rows - start), columns))
            u = X @ B
            y = u[:, 0] * u[:, 1] + u[:, 0] + 0.3 * rng.standard_normal(len(X))
            table = dict(zip(names, [*X.T, y], strict=True))
            writer.write_table(pa.table(table, schema=schema))


def measured(command: list[str]) -> tuple[float, float, float]:
    """Seconds on the clock, seconds of all cores, and megabytes, of a process that ends well."""
    start = time.perf_counter()
    null = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(
        command[0], command, COMPILED, file_actions=[(os.POSIX_SPAWN_DUP2, null, n) for n in (1, 2)]
    )
    _, status, used = os.wait4(child, 0)
    os.close(null)
    if status:
        msg = f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}"
        raise RuntimeError(msg)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        folder = asked.folder or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rows-{int(asked.rows)}-{asked.columns}.csv"
        if not path.exists():
            write_rows(path, int(asked.rows), asked.columns)
        reduce = [sys.executable, "-m", "colspace", "reduce", str(path), "-y", "y"]
        jobs = {
            "reader": [sys.executable, "-c", READER, str(path)],
            "reduce --moments all --no-check": [*reduce, "--moments", "all", "--no-check"],
            "reduce --moments all": [*reduce, "--moments", "all"],
            "reduce --no-check": [*reduce, "--no-check"],
            "reduce": reduce,
            "reduce --no-check --out": [*reduce, "--no-check", "--out", str(Path(own) / "embedding.parquet")],
        }
        found = {name: [] for name in jobs}
        measured([*reduce[:3], "--version"])
        for _ in range(asked.runs):
            for name, command in jobs.items():
                found[name].append(measured(command))
    print(f"{path.name}: {asked.rows:,.0f} x {asked.columns}, least of {asked.runs} runs")
    print(f"{'':32} {'clock, s':>9} {'ratio':>6} {'cores, s':>9} {'ratio':>6} {'MB':>6}")
    base = np.min(found["reader"], axis=0)
    for name, runs in found.items():
        clock, cores, memory = np.min(runs, axis=0)
        print(
            f"{name:32} {clock:9.2f} {clock / base[0]:6.2f} {cores:9.2f} {cores / base[1]:6.2f} {memory:6.0f}"
        )


if __name__ == "__main__":
    main()
