"""Copula imputer, table 3 of the supplement: error and minutes on a large matrix of ratings.

MovieLens 1M from the user's ``ratings.dat`` (folder COLSPACE_DATA; it may not be redistributed), movies with at
least 50 ratings, one tenth held out. Without the file, `make_ratings` stands in: the same size, sparsity and
skew from a known law, so its errors are not those of the table, but the seconds are comparable. The copula has
rank 10 as published; soft-impute's penalty is lambda_0 / 4. ``mae`` and ``rmse`` are those of imputed levels, as published; ``rmse_mean``
is that of the value before it is rounded (the conditional mean).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..copula import CopulaImputer
from ..datasets import RatingsData, load_ratings, make_ratings
from ..displays._style import COLOURS, MARKERS, ink, tidy
from ._claims import numbers, read_paper
from ._copula_sim import Array, soft_impute_path
from ._core import Result, Row, spread_of, unfinished, working, write
from ._figures import opened

NAME = "copula-ratings"
REPETITIONS = {True: 2, False: 5}
SIZE = {True: (1500, 800), False: (6040, 2514)}  # of the generator
RANK, HELD_OUT, CHUNK = 10, 0.1, 1000
PENALTIES = (1.0, 0.5, 0.25)  # of lambda_0; the last counts
PAPER, SOFT = "copula, published EM", "soft-impute"


def split(X: csr_array, seed: Any) -> RatingsData:
    """Hold out a tenth of the ratings; every user and item keeps one."""
    rng = np.random.default_rng(seed)
    row, column = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices.astype(np.intp)
    out = rng.random(X.nnz) < HELD_OUT
    for index, size in ((row, X.shape[0]), (column, X.shape[1])):
        left = np.bincount(index[~out], minlength=size) == 0
        out &= ~left[index]
    kept = csr_array((X.data[~out], (row[~out], column[~out])), shape=X.shape)
    return RatingsData(kept, row[out], column[out], X.data[out])


def at_cells(apply: Callable[[Any], Any], data: RatingsData) -> Array:
    """A table's held-out cells, some rows at a time."""
    found = np.empty(len(data.values))
    for start in range(0, data.X.shape[0], CHUNK):
        here = (data.rows >= start) & (data.rows < start + CHUNK)
        if here.any():
            table = apply(data.X[start : start + CHUNK])
            found[here] = np.asarray(table)[data.rows[here] - start, data.columns[here]]
    return found


def measures(data: RatingsData) -> dict[str, tuple[float, float, float, float]]:
    """MAE and RMSE of levels, RMSE of the value before rounding, and seconds of every method."""
    levels = np.unique(data.X.data)
    found = {}

    def add(name: str, level: Array, value: Array, start: float) -> None:
        seconds = time.process_time() - start
        mae = float(np.mean(np.abs(level - data.values)))
        rmse, rmse_mean = (float(np.sqrt(np.mean((fill - data.values) ** 2))) for fill in (level, value))
        found[name] = mae, rmse, rmse_mean, seconds

    start = time.process_time()
    count = np.maximum(np.bincount(data.X.indices, minlength=data.X.shape[1]), 1)
    mean = np.bincount(data.X.indices, data.X.data, minlength=data.X.shape[1]) / count
    add("mean of the item", nearest(levels, mean[data.columns]), mean[data.columns], start)
    for name, model in {
        "copula": CopulaImputer(RANK, random_state=0),
        PAPER: CopulaImputer(RANK, method="paper", random_state=0),
    }.items():
        start = time.process_time()
        model.fit(data.X)
        add(name, at_cells(model.transform, data), at_cells(model.mean, data), start)
    start = time.process_time()
    *_, last = soft_impute_path(data.X, PENALTIES, max_rank=60, tol=3e-3)
    value = np.clip(last.at(data.rows, data.columns), levels[0], levels[-1])
    add(SOFT, nearest(levels, value), value, start)
    return found


def nearest(levels: Array, value: Array) -> Array:
    """The nearest level."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, value)]


def at_hand(size: tuple[int, int]) -> tuple[csr_array | None, tuple[str, ...]]:
    """The user's ratings, or None where they are to be generated, and remarks."""
    last = "Errors are those of imputed levels; seconds are CPU time on one thread."
    try:
        X = load_ratings()
    except FileNotFoundError as error:
        made = f"Ratings are generated ({size[0]} x {size[1]}, 6.4 % observed): {error}"
        apart = "Published errors are those of MovieLens 1M and cannot be compared with generated ratings."
        return None, (made, apart, last)
    return X, (f"MovieLens, {X.shape[0]} users x {X.shape[1]} items, {X.nnz} ratings.", last)


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Measure every method; one split when quick, five otherwise."""
    repetitions = REPETITIONS[quick]
    ratings, notes = at_hand(SIZE[quick])
    found: dict[str, list[tuple[float, ...]]] = {}
    with unfinished(), working(repetitions, NAME, progress) as advance:
        for child in np.random.SeedSequence(rng).spawn(repetitions):
            generator = np.random.default_rng(child)
            data = make_ratings(*SIZE[quick], rng=generator) if ratings is None else split(ratings, generator)
            for name, measured in measures(data).items():
                found.setdefault(name, []).append(measured)
            advance()
    rows: list[Row] = []
    paper = read_paper("003")
    for name, values in found.items():
        measured_of = dict(
            zip(("mae", "rmse", "rmse_mean", "seconds"), zip(*values, strict=True), strict=True)
        )
        row: Row = {"method": name, "repetitions": repetitions, **spread_of(**measured_of)}
        row["minutes"], row["minutes_se"] = row["seconds"] / 60, row["seconds_se"] / 60
        for key in ("mae", "rmse", "minutes"):
            row[f"published_{key}"] = numbers(paper, NAME, key, "method").get((name,))
        rows.append(row)
    summary: list[Row] = [
        {
            "method": row["method"],
            "MAE": f"{row['mae']:.4f}",
            "RMSE": f"{row['rmse']:.4f}",
            "RMSE of the mean": f"{row['rmse_mean']:.4f}",
            "CPU s": f"{row['seconds']:.1f}",
            "published MAE, RMSE, minutes": "  ".join(
                f"{row[key]:g}"
                for key in ("published_mae", "published_rmse", "published_minutes")
                if row[key]
            ),
        }
        for row in rows
    ]
    title = f"Paper 003, Table 3: held-out {'generated ' if ratings is None else ''}ratings"
    users, items = SIZE[quick] if ratings is None else ratings.shape
    figure = partial(draw, title, rows, comparable=ratings is not None)
    size = f"{repetitions} splits of {users} x {items} ratings"
    result = Result(NAME, title, rows, summary, notes, figure, size=size, stand_in=ratings is None)
    return write(result, out)


def draw(title: str, rows: list[Row], *, comparable: bool) -> Any:
    """Both errors of every method, the published ones beside if the data are the published ones."""
    figure, axes = opened(title, 1, 2, (9, 2.8), sharey=True)
    axes = axes[0]
    for ax, key in zip(axes, ("mae", "rmse"), strict=True):
        for i, row in enumerate(rows):
            style = {"fmt": MARKERS[0], "color": COLOURS[0], "label": "here" if i == 0 else None}
            ax.errorbar(row[key], i, xerr=row[f"{key}_se"], **style)
            if row[f"published_{key}"] is not None and comparable:
                label = "published" if row["method"] == PAPER else None
                ax.plot(row[f"published_{key}"], i, "x", color=ink(), label=label)
        ax.set_yticks(range(len(rows)), [row["method"] for row in rows])
        ax.set_xlabel(key.upper())
        tidy(ax)
    if comparable:
        axes[1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[0].margins(y=0.15)
    axes[0].invert_yaxis()
    return figure
