"""The report of ranked partners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _charts
from ._page import Figure, Part, Report, Table, pictured
from ._shared import asked, call_of, glance, repeat, warned

_SHOWN = 30  # entities in the picture
_EXPLAINED = 10  # entities whose best partner is explained
_SPEAKERS = 3  # known entities or links that are named for each


def partners_report(
    estimator: Any,
    ranked: Any,
    *,
    source: str,
    shape: tuple[int, int],
    links: int,
    settings: str,
    tables: Mapping[str, Any] | None = None,
    wanted: Any = None,
    quality: Any = None,
    at: int | None = None,
    facts: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    python: str = "",
) -> Report:
    """Entities and links, quality on what was left out beside rivals, the partners and why, and how to repeat it.

    Parameters
    ----------
    estimator : fitted pair regressor.
    ranked : its ``rank``: left, rank, right, score and more, a DataFrame of pandas.
    shape, links : entities of both sides and links that the fit saw.
    settings : what was chosen, in words.
    tables : features of the sides, under the names of their files.
    wanted : features of the ranked left entities; None for those of the fit.
    quality : table of ``held_out_quality``: a column of methods and measures.
    at : partners that its recall looks at.
    facts : what else was asked.
    """
    share = 100 * links / (shape[0] * shape[1])
    said = {
        "method": type(estimator).__name__,
        **dict(facts or {}),
        "left entities": shape[0],
        "right entities": shape[1],
        "links": f"{links:,} ({share:.2g} % of the pairs)",
        "settings": settings,
    }
    first = str(ranked.columns[0])
    count = int(ranked[first].nunique())
    parts = [
        asked([f"The best partners of {count:,} entities, by their features and the links of others."], said)
    ]
    for name, frame in (tables or {}).items():
        part = glance(frame, name)
        parts.append(Part(f"{part.title}: {name}", part.text, part.figures, part.table))
    if quality is not None:
        parts.append(_quality(quality, at))
    parts.append(_partners(ranked))
    if (why := _why(estimator, ranked, wanted)) is not None:
        parts.append(why)
    parts += [*warned(notes), repeat(command, python or _python(estimator)), _next()]
    found = f" {_sentence(quality, at)}" if quality is not None and len(quality) else ""
    return Report(f"{source}: partners", f"The best partners of {count:,} entities.{found}", parts)


def _sentence(quality: Any, at: int | None) -> str:
    """The first measure of ours beside the others."""
    measure = str(quality.columns[1])
    measure += f" at {at}" if at is not None and measure == "recall" else ""
    ours, *others = [(str(row[0]), _number(row[1])) for row in quality.itertuples(index=False)]
    rivals = ", ".join(f"{name} {value:.3f}" for name, value in others if value is not None)
    return "" if ours[1] is None else f"On what was left out, {measure} is {ours[1]:.3f} ({rivals})."


def _quality(quality: Any, at: int | None) -> Part:
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
            _sentence(quality, at),
            "Scores on entities or links left out, free from the tuning; the first method is the one that ranked the partners.",
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
    text = f"The best {second} of each {first}; the picture has the first {len(records)}, the table more."
    spec = _charts.bars(records, label="pair", value="score", title="score")
    table = Table([str(c) for c in ranked.columns], rows)
    return pictured("Partners", [text], spec, f"Score of the best {second} of each {first}", table)


# ---------------------------------------------------------------------- why


def _why(estimator: Any, ranked: Any, wanted: Any) -> Part | None:
    """What carried the score of the best partner of the first entities."""
    first, rank, second = (str(name) for name in ranked.columns[:3])
    best = ranked[ranked[rank] == ranked[rank].min()].head(_EXPLAINED)
    pairs = list(zip(best[first], best[second], strict=True))
    if hasattr(estimator, "dual_coef_"):
        rows, words = _speakers(estimator, pairs, wanted, first)
    elif hasattr(estimator, "explain"):
        rows, words = _carriers(estimator, pairs, wanted)
    else:
        return None
    if not rows:
        return None
    records = [
        {"why": f"{row[2]} for {row[0]}, {row[1]}", "part of the score": row[3], "of": f"{row[0]}, {row[1]}"}
        for row in rows
    ]
    spec = _charts.bars(records, label="why", value="part of the score", title="part of the score")
    alt = f"What the {_SPEAKERS} strongest add to the score of the best {second} of each {first}"
    table = Table([first, second, "by", "part of the score", "is linked"], rows)
    return pictured("Why these partners", [words], spec, alt, table)


def _speakers(
    estimator: Any, pairs: Sequence[tuple[Any, Any]], wanted: Any, first: str
) -> tuple[list[list[Any]], str]:
    """Known left entities whose kernels with the entity make its score: k(a, p) times what p says of the partner."""
    names, _, K = estimator._kernel(wanted, "left")
    _, _, half = estimator._right(None)
    lefts, rights = (_names(estimator, side) for side in ("left", "right"))
    basis = estimator.basis_["left"]
    places = {str(n): i for i, n in enumerate(range(len(K)) if names is None else names)}
    there = {str(n): j for j, n in enumerate(rights)}
    links = estimator.Y_
    rows = []
    for a, b in pairs:
        i, j = places[str(a)], there[str(b)]
        parts = np.asarray(K[i] * half[:, j])
        for p in np.argsort(-np.abs(parts))[:_SPEAKERS]:
            entity = int(basis[p])
            linked = bool(links[entity, j] != 0)
            rows.append([str(a), str(b), str(lefts[entity]), float(parts[p]), "yes" if linked else "no"])
    level = float(np.ravel(estimator.level_)[0]) if np.size(estimator.level_) else 0.0
    start = f", on top of {level:.3g}" if level else ""
    words = (
        f"A score is a sum over the known entities of {first}{start}: how like this one each is, times what it says of the partner. "
        f"Here are the {_SPEAKERS} strongest of each pair; the table tells which have a link to the partner."
    )
    return rows, words


def _carriers(estimator: Any, pairs: Sequence[tuple[Any, Any]], wanted: Any) -> tuple[list[list[Any]], str]:
    """Links of the fit that carried a score, by their weights."""
    rows = []
    for a, b in pairs:
        found = estimator.explain(a, b, A=wanted, k=_SPEAKERS)
        rows += [
            [str(a), str(b), f"{left}, {right}", float(part), "yes"]
            for left, right, part in zip(found["left"], found["right"], found["contribution"], strict=True)
        ]
    return rows, f"Known links that carried the score, the {_SPEAKERS} strongest of each pair."


def _names(estimator: Any, side: str) -> Sequence[Any]:
    known = estimator.entities_[side]
    return list(range(estimator.Y_.shape[0 if side == "left" else 1])) if known is None else list(known)


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(float(value)) else float(value)


def _python(estimator: Any) -> str:
    name = type(estimator).__name__
    return f"from colspace import {name}\n\nmodel = {call_of(estimator)}\nmodel.fit(A, B, Y)\nmodel.rank(new_entities, k=10)"


def _next() -> Part:
    return Part(
        "Next steps",
        [
            "Compare with neighbours and popularity in the table of quality: where they are as good, the ranking follows similarity or fame alone.",
            "A score orders the partners of one entity; for probabilities ask for them (--probability).",
            "colspace apply ranks the partners of new entities with a saved model.",
        ],
    )
