"""The report of ranked partners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _charts
from ._page import Figure, Part, Report, Table
from ._shared import repeat, warned

_SHOWN = 30  # entities in the picture


def partners_report(
    estimator: Any,
    ranked: Any,
    *,
    source: str,
    shape: tuple[int, int],
    links: int,
    settings: str,
    quality: Any = None,
    notes: Sequence[str] = (),
    command: str = "",
) -> Report:
    """Entities and links, quality on what was left out beside rivals, the partners, and how to repeat it.

    Parameters
    ----------
    estimator : fitted pair regressor.
    ranked : its ``rank``: left, rank, right, score and more, a DataFrame of pandas.
    shape, links : entities of both sides and links that the fit saw.
    settings : what was chosen, in words.
    quality : table of ``held_out_quality``: a column of methods and measures.
    """
    share = 100 * links / (shape[0] * shape[1])
    asked = Part(
        "What was asked",
        [
            f"{shape[0]:,} left and {shape[1]:,} right entities with {links:,} links ({share:.2g} % of the pairs).",
            settings,
        ],
    )
    parts = [asked]
    if quality is not None:
        parts.append(_quality(quality))
    parts.append(_partners(ranked))
    parts += [*warned(notes), repeat(command, _python(estimator)), _next()]
    first = ranked.columns[0]
    lead = f"The best partners of {ranked[first].nunique():,} entities."
    return Report(f"{source}: partners", lead, parts)


def _quality(quality: Any) -> Part:
    methods, measures = quality.columns[0], list(quality.columns[1:])
    rows = [[row[0], *(_number(v) for v in row[1:])] for row in quality.itertuples(index=False)]
    records = [
        {"method": row[0], "measure": name, "value": value}
        for row in rows
        for name, value in zip(measures, row[1:], strict=True)
        if value is not None
    ]
    spec = _charts.dots(records, label="method", value="value", group="measure", title="on what was left out")
    return Part(
        "Quality on what was left out",
        [
            "Scores on entities or links left out, free from the tuning; the first method is the one that ranked the partners."
        ],
        [Figure(spec, "Each measure of each method on entities or links left out")] if records else [],
        Table([str(methods), *map(str, measures)], rows),
        opened=True,
    )


def _partners(ranked: Any) -> Part:
    first, rank, second = (str(name) for name in ranked.columns[:3])
    best = ranked[ranked[rank] == ranked[rank].min()].head(_SHOWN)
    records = [
        {"pair": f"{a}, {b}", "score": float(s)}
        for a, b, s in zip(best[first], best[second], best["score"], strict=True)
    ]
    rows = [[_plain(v) for v in row] for row in ranked.itertuples(index=False)]
    return Part(
        "Partners",
        [f"The best {second} of each {first}; the picture has the first {len(records)}, the table more."],
        [
            Figure(
                _charts.bars(records, label="pair", value="score", title="score"),
                f"Score of the best {second} of each {first}",
            )
        ],
        Table([str(c) for c in ranked.columns], rows),
    )


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(float(value)) else float(value)


def _python(estimator: Any) -> str:
    name = type(estimator).__name__
    return f"from colspace import {name}\n\nmodel = {estimator!r}\nmodel.fit(A, B, Y)\nmodel.rank(new_entities, k=10)"


def _next() -> Part:
    return Part(
        "Next steps",
        [
            "Compare with neighbours and popularity in the table of quality: where they are as good, the ranking follows similarity or fame alone.",
            "A score orders the partners of one entity; for probabilities ask for them (--probability).",
            "colspace apply ranks the partners of new entities with a saved model.",
        ],
    )
