"""Pictures of reports as Vega-Lite, made with Altair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..displays._style import COLOURS
from ..io import require

Records = Sequence[dict[str, Any]]

_PLACE = "place of the point"  # no column is likely to be called so
_BLUE, _ORANGE, _PALE = COLOURS[0], COLOURS[1], "#9aa3af"


def _altair() -> Any:
    return require("altair", "report", "reports")


def _spec(chart: Any) -> dict[str, Any]:
    return {**chart.to_dict(), "autosize": {"type": "fit-x", "contains": "padding"}}


def intervals(
    rows: Records, *, label: str, value: str, error: str, title: str, marked: str = ""
) -> dict[str, Any]:
    """A dot with two standard errors to each side, one row a label; those with ``marked`` true stand out, of false are as others."""
    alt = _altair()
    records = _with_ends([row for row in rows if row[value] is not None], value, error)
    colour = alt.value(_BLUE)
    if marked:
        colour = alt.condition(alt.datum[marked], alt.value(_ORANGE), colour)
    base = _chart(records, label, [_number(value), _number(error)], color=colour)
    return _spec(_lines(base, value, title).properties(height=_height(records, label, 20)))


def _height(rows: Records, label: str, step: int) -> int:
    """Of a picture with one line a label."""
    return step * max(1, len({row[label] for row in rows}))


def _with_ends(rows: Records, value: str, error: str) -> list[dict[str, Any]]:
    return [
        {**row, "low": row[value] - 2 * (row[error] or 0.0), "high": row[value] + 2 * (row[error] or 0.0)}
        for row in rows
    ]


def _chart(rows: Records, label: str, tooltip: Sequence[Any], **more: Any) -> Any:
    """A chart with a line a label."""
    alt = _altair()
    place = alt.Y(f"{_escape(label)}:N", sort=None, title=None)
    base = alt.Chart(alt.Data(values=list(rows)), width="container")
    return base.encode(y=place, tooltip=[f"{_escape(label)}:N", *tooltip], **more)


def _number(name: str, digits: str = ".3f") -> Any:
    """A number in the note of a point."""
    return _altair().Tooltip(f"{_escape(name)}:Q", format=digits)


def _lines(
    base: Any,
    value: str,
    title: str,
    *,
    ends: tuple[str, str] = ("low", "high"),
    size: int = 65,
    zero: bool = False,
) -> Any:
    """A dot between two ends."""
    alt = _altair()
    x = alt.X(f"{ends[0]}:Q", title=title, scale=alt.Scale(zero=zero))
    lines = base.mark_rule(strokeWidth=2).encode(x=x, x2=f"{ends[1]}:Q")
    return lines + base.mark_point(filled=True, size=size, opacity=1).encode(
        x=alt.X(f"{_escape(value)}:Q", title=title)
    )


def dots(rows: Records, *, label: str, value: str, group: str, title: str) -> dict[str, Any]:
    """A dot for each measure of each label."""
    alt = _altair()
    chart = _chart(rows, label, [f"{_escape(group)}:N", _number(value)]).mark_point(
        filled=True, size=80, opacity=1
    )
    chart = chart.encode(
        x=alt.X(f"{_escape(value)}:Q", title=title, scale=alt.Scale(zero=False)),
        yOffset=alt.YOffset(f"{_escape(group)}:N", sort=None),  # equal scores lie side by side
        color=alt.Color(f"{_escape(group)}:N", scale=alt.Scale(range=list(COLOURS)), sort=None, title=None),
        shape=alt.Shape(f"{_escape(group)}:N", sort=None, title=None),
    )
    return _spec(chart.properties(height=_height(rows, label, 30)))


def bars(
    rows: Records, *, label: str, value: str, title: str, colour: str = "", most: float | None = None
) -> dict[str, Any]:
    """One bar a label, on an axis that ends at ``most``."""
    alt = _altair()
    scale = alt.Scale() if most is None else alt.Scale(domain=[0, most])
    chart = _chart(
        rows, label, [_number(value, ".4g")], x=alt.X(f"{_escape(value)}:Q", title=title, scale=scale)
    )
    chart = chart.mark_bar(color=_BLUE)
    if colour:
        chart = chart.encode(
            color=alt.Color(f"{_escape(colour)}:N", scale=alt.Scale(range=list(COLOURS)), title=None)
        )
    return _spec(chart.properties(height=_height(rows, label, 20)))


def loadings(rows: Records, title: str) -> dict[str, Any]:
    """Loadings with two errors to each side and a line at zero; rows have feature, loading, error (or None) and clear, the others are pale."""
    alt = _altair()
    colour = alt.condition(alt.datum.clear, alt.value(_BLUE), alt.value(_PALE))
    tooltip = [_number("loading"), _number("error")]
    base = _chart(_with_ends(rows, "loading", "error"), "feature", tooltip, color=colour)
    lines = _lines(base, "loading", title, zero=True)
    zero = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[3, 3]).encode(x=alt.datum(0))
    return _spec((zero + lines).properties(height=_height(rows, "feature", 20), width="container"))


def scatter(
    rows: Records, *, x: str, y: str, colour: str, classes: bool, tooltip: Sequence[str]
) -> dict[str, Any]:
    """Points with hover; dragging selects points and pales the others; ``usermeta`` is for the keys of the page's script.

    Without ``colour`` all points have one.
    """
    alt = _altair()
    brush, place = alt.selection_interval(name="chosen"), alt.param(name="place", value=-1)
    scale = alt.Scale(range=list(COLOURS)) if classes else alt.Scale(scheme="viridis")
    shade = alt.value(_BLUE)
    if colour:
        shade = alt.Color(f"{_escape(colour)}:{'N' if classes else 'Q'}", scale=scale)
    numbered = [{**row, _PLACE: i} for i, row in enumerate(rows)]
    base = alt.Chart(alt.Data(values=numbered), width="container", height=380).encode(
        x=alt.X(f"{_escape(x)}:Q", scale=alt.Scale(zero=False)),
        y=alt.Y(f"{_escape(y)}:Q", scale=alt.Scale(zero=False)),
    )
    points = base.mark_circle(size=40, opacity=0.75).encode(
        color=alt.condition(brush, shade, alt.value(_PALE)),
        tooltip=[
            alt.Tooltip(
                f"{_escape(name)}:{'N' if name == colour and classes else 'Q'}",
                **({} if name == colour and classes else {"format": ".4~g"}),
            )
            for name in tooltip
        ],
    )
    ring = base.mark_point(size=260, strokeWidth=2.5, color=_ORANGE).transform_filter(
        f"datum['{_PLACE}'] === place"
    )
    chart = (points.add_params(brush) + ring).add_params(place)
    return {**_spec(chart), "usermeta": {"points": {"x": x, "y": y, "shown": list(tooltip)}}}


def ranges(rows: Records, *, label: str, title: str) -> dict[str, Any]:
    """A dot ``filled`` between ``lower`` and ``upper``, one line a label."""
    tooltip = [_number(name, ".4~g") for name in ("filled", "lower", "upper")]
    base = _chart(rows, label, tooltip, color=_altair().value(_BLUE))
    chart = _lines(base, "filled", title, ends=("lower", "upper"), size=55)
    return _spec(chart.properties(height=_height(rows, label, 16)))


def against(rows: Records, *, label: str, value: str, title: str, line: float) -> dict[str, Any]:
    """A dot a label between its ``low`` and ``high``, beside a line where it should be."""
    alt = _altair()
    lines = _lines(_chart(rows, label, [_number(value)], color=alt.value(_BLUE)), value, title)
    where = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[4, 3]).encode(x=alt.datum(line))
    return _spec((where + lines).properties(height=_height(rows, label, 18), width="container"))


def _escape(name: str) -> str:
    """A column's name as a field: dots, brackets and colons would be read as paths and types."""
    for letter in ("\\", ".", "[", "]", ":", "'", '"'):
        name = name.replace(letter, f"\\{letter}")
    return name
