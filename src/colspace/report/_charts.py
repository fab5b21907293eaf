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
    colour = (
        alt.condition(alt.datum[marked], alt.value(_ORANGE), alt.value(_BLUE)) if marked else alt.value(_BLUE)
    )
    return _spec(_lines(records, label, value, error, title, colour, zero=False))


def _height(rows: Records, label: str, step: int) -> int:
    """Of a picture with one line a label."""
    return step * max(1, len({row[label] for row in rows}))


def _with_ends(rows: Records, value: str, error: str) -> list[dict[str, Any]]:
    return [
        {**row, "low": row[value] - 2 * (row[error] or 0.0), "high": row[value] + 2 * (row[error] or 0.0)}
        for row in rows
    ]


def _lines(rows: Records, label: str, value: str, error: str, title: str, colour: Any, *, zero: bool) -> Any:
    alt = _altair()
    base = alt.Chart(alt.Data(values=list(rows)), width="container").encode(
        y=alt.Y(f"{_escape(label)}:N", sort=None, title=None),
        color=colour,
        tooltip=[
            alt.Tooltip(f"{_escape(label)}:N"),
            alt.Tooltip(f"{_escape(value)}:Q", format=".3f"),
            alt.Tooltip(f"{_escape(error)}:Q", format=".3f"),
        ],
    )
    scale = alt.Scale(zero=zero)
    lines = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title, scale=scale), x2="high:Q")
    dots = base.mark_point(filled=True, size=65, opacity=1).encode(
        x=alt.X(f"{_escape(value)}:Q", title=title)
    )
    return (lines + dots).properties(height=_height(rows, label, 20))


def dots(rows: Records, *, label: str, value: str, group: str, title: str) -> dict[str, Any]:
    """A dot for each measure of each label."""
    alt = _altair()
    chart = alt.Chart(alt.Data(values=list(rows)), width="container").mark_point(
        filled=True, size=80, opacity=1
    )
    chart = chart.encode(
        x=alt.X(f"{_escape(value)}:Q", title=title, scale=alt.Scale(zero=False)),
        y=alt.Y(f"{_escape(label)}:N", sort=None, title=None),
        color=alt.Color(f"{_escape(group)}:N", scale=alt.Scale(range=list(COLOURS)), title=None),
        shape=alt.Shape(f"{_escape(group)}:N", title=None),
        tooltip=[
            f"{_escape(label)}:N",
            f"{_escape(group)}:N",
            alt.Tooltip(f"{_escape(value)}:Q", format=".3f"),
        ],
    )
    return _spec(chart.properties(height=_height(rows, label, 30)))


def bars(
    rows: Records, *, label: str, value: str, title: str, colour: str = "", most: float | None = None
) -> dict[str, Any]:
    """One bar a label, on an axis that ends at ``most``."""
    alt = _altair()
    chart = alt.Chart(alt.Data(values=list(rows)), width="container").mark_bar(color=_BLUE)
    chart = chart.encode(
        x=alt.X(
            f"{_escape(value)}:Q",
            title=title,
            scale=alt.Scale() if most is None else alt.Scale(domain=[0, most]),
        ),
        y=alt.Y(f"{_escape(label)}:N", sort=None, title=None),
        tooltip=[alt.Tooltip(f"{_escape(label)}:N"), alt.Tooltip(f"{_escape(value)}:Q", format=".4g")],
    )
    if colour:
        chart = chart.encode(
            color=alt.Color(f"{_escape(colour)}:N", scale=alt.Scale(range=list(COLOURS)), title=None)
        )
    return _spec(chart.properties(height=_height(rows, label, 20)))


def loadings(rows: Records, title: str) -> dict[str, Any]:
    """Loadings with two errors to each side and a line at zero; rows have feature, loading, error (or None) and clear, the others are pale."""
    alt = _altair()
    colour = alt.condition(alt.datum.clear, alt.value(_BLUE), alt.value(_PALE))
    lines = _lines(
        _with_ends(rows, "loading", "error"), "feature", "loading", "error", title, colour, zero=True
    )
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
    alt = _altair()
    base = alt.Chart(alt.Data(values=list(rows)), width="container").encode(
        y=alt.Y(f"{_escape(label)}:N", sort=None, title=None),
        tooltip=[
            f"{_escape(label)}:N",
            *(alt.Tooltip(f"{n}:Q", format=".4~g") for n in ("filled", "lower", "upper")),
        ],
    )
    lines = base.mark_rule(strokeWidth=2, color=_BLUE).encode(
        x=alt.X("lower:Q", title=title, scale=alt.Scale(zero=False)), x2="upper:Q"
    )
    dots = base.mark_point(filled=True, size=55, opacity=1, color=_BLUE).encode(
        x=alt.X("filled:Q", title=title)
    )
    return _spec((lines + dots).properties(height=_height(rows, label, 16)))


def against(rows: Records, *, label: str, value: str, title: str, line: float) -> dict[str, Any]:
    """A dot a label between its ``low`` and ``high``, beside a line where it should be."""
    alt = _altair()
    base = alt.Chart(alt.Data(values=list(rows)), width="container").encode(
        y=alt.Y(f"{_escape(label)}:N", sort=None, title=None),
        tooltip=[f"{_escape(label)}:N", alt.Tooltip(f"{_escape(value)}:Q", format=".3f")],
    )
    bars = base.mark_rule(strokeWidth=2, color=_BLUE).encode(
        x=alt.X("low:Q", title=title, scale=alt.Scale(zero=False)), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=65, opacity=1, color=_BLUE).encode(
        x=alt.X(f"{_escape(value)}:Q", title=title)
    )
    where = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[4, 3]).encode(x=alt.datum(line))
    return _spec((where + bars + dots).properties(height=_height(rows, label, 18), width="container"))


def _escape(name: str) -> str:
    """A column's name as a field: dots, brackets and colons would be read as paths and types."""
    for letter in ("\\", ".", "[", "]", ":", "'", '"'):
        name = name.replace(letter, f"\\{letter}")
    return name
