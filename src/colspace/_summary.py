"""What a fitted estimator says of itself: a few facts and small tables, as plain text and as HTML."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

_WIDTH = 78
_GAP = "  "


@dataclass(frozen=True)
class Section:
    """A small table: a heading, names of columns, rows of texts; columns of numbers are set to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Summary:
    """Facts, tables and notes on a fitted estimator; ``print`` shows it, notebooks draw it as HTML.

    Examples
    --------
    >>> from colspace._summary import Section, Summary
    >>> print(Summary("Model", {"rows": "4", "columns": "2"}, (Section("Loadings", ("column", "weight"), (("a", "+0.5"),)),)))
    ==============================================================================
    Model
    ==============================================================================
    rows     4
    columns  2
    ------------------------------------------------------------------------------
    Loadings
    column  weight
    a         +0.5
    ==============================================================================
    """

    title: str
    facts: Mapping[str, str]
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        double, single = "=" * _WIDTH, "-" * _WIDTH
        lines = [double, self.title, double]
        name = max(map(len, self.facts), default=0)
        for key, value in self.facts.items():
            lines += _wrapped(f"{key:<{name}}{_GAP}", value)
        for section in self.sections:
            lines += [single, section.title, *_aligned(section)]
        if self.notes:
            lines.append(single)
            for note in self.notes:
                lines += _wrapped("", note)
        return "\n".join([*lines, double])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th style='text-align:left'>{escape(key)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for key, value in self.facts.items()
        )
        parts = [f"<h4>{escape(self.title)}</h4><table>{facts}</table>"]
        for section in self.sections:
            head = "".join(f"<th>{escape(column)}</th>" for column in section.columns)
            body = "".join(
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in section.rows
            )
            parts.append(
                f"<table><caption style='text-align:left'>{escape(section.title)}</caption><thead><tr>{head}</tr></thead>"
                f"<tbody>{body}</tbody></table>"
            )
        parts += [f"<p>{escape(note)}</p>" for note in self.notes]
        return f"<div class='colspace-summary'>{''.join(parts)}</div>"


def _aligned(section: Section) -> list[str]:
    table = [section.columns, *section.rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(section.columns))]
    right = [
        bool(section.rows) and all(_is_number(row[i]) for row in section.rows)
        for i in range(len(section.columns))
    ]
    return [
        _GAP.join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in table
    ]


def _is_number(text: str) -> bool:
    try:
        float(text.replace("±", "").replace(",", "").replace("%", "") or "0")
    except ValueError:
        return False
    return True


def _wrapped(head: str, text: str) -> list[str]:
    """The text after ``head``, broken between words at the width, further lines indented as the first."""
    import textwrap

    lines = textwrap.wrap(text, max(_WIDTH - len(head), 20), break_long_words=False) or [""]
    return [head + lines[0], *(" " * len(head) + line for line in lines[1:])]


def number(value: Any) -> str:
    """A number in four digits, whole ones as they are.

    Examples
    --------
    >>> [number(v) for v in (3, 0.123456, 1234.5678, 1e-9, True)]
    ['3', '0.1235', '1235', '1e-09', 'True']
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    return f"{float(value):.4g}"


def numbers(values: Iterable[Any], most: int = 6) -> str:
    """A few numbers in a line, the rest as dots.

    Examples
    --------
    >>> numbers([1, 0.5, 0.25], most=2)
    '1, 0.5, ...'
    """
    found = [number(v) for v in values]
    return ", ".join(found[:most]) + (", ..." if len(found) > most else "")


def fact(value: Any) -> str | None:
    """A learned attribute as a short text; None for one that is too large or no plain value."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bool | np.bool_ | int | float | np.integer | np.floating):
        return number(value)
    if isinstance(value, dict) and value and len(value) <= 6:
        texts = {str(key): fact(item) for key, item in value.items()}
        if all(text is not None and len(text) <= 24 for text in texts.values()):
            return ", ".join(f"{key} {text}" for key, text in texts.items())
        return None
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) > 0 and value.dtype.kind in "iuf":
        return numbers(value)
    return None


def learned_facts(estimator: Any, names: Mapping[str, str]) -> dict[str, str]:
    """Those of the attributes ``names`` (attribute -> words) that the estimator has, as short texts."""
    found = {words: fact(getattr(estimator, name, None)) for name, words in names.items()}
    return {words: text for words, text in found.items() if text is not None}


class SummaryMixin:
    """``summary`` of a fitted estimator."""

    def summary(self) -> Summary:
        """What was learned, in a few lines and tables: ``print`` it, or let a notebook show it."""
        check_is_fitted(self)
        return self._summary()

    def _summary(self) -> Summary:
        """Every learned attribute that is a plain value."""
        names = {
            name: name
            for name in vars(self)
            if name.endswith("_") and not name.startswith(("_", "n_features_in"))
        }
        columns = {"columns": str(self.n_features_in_)} if hasattr(self, "n_features_in_") else {}
        return Summary(type(self).__name__, {**columns, **learned_facts(self, names)})


class PlotMixin(SummaryMixin):
    """``summary`` and ``plot`` of an estimator that has pictures."""

    @property
    @abstractmethod
    def _pictures(self) -> Mapping[str, str]:
        """What ``plot`` draws: word -> name in `colspace.displays`, the first one by default."""

    def plot(self, *data: Any, kind: str | None = None, **options: Any) -> Any:
        """Draw the fitted model: a shortcut to the ``from_estimator`` of a display in `colspace.displays`.

        Parameters
        ----------
        *data : what the display asks for (X, y), see there.
        kind : which picture, by default the first that the estimator has.
        **options : of the display.
        """
        chosen = next(iter(self._pictures)) if kind is None else kind
        if chosen not in self._pictures:
            msg = f"kind={kind!r} is no picture of {type(self).__name__}; choose from {', '.join(map(repr, self._pictures))}"
            raise ValueError(msg)
        display = getattr(import_module("colspace.displays"), self._pictures[chosen])
        try:
            signature(display.from_estimator).bind(self, *data, **options)
        except TypeError as reason:
            calls = " or ".join(self._call(picture) for picture in self._pictures)
            msg = f"kind={chosen!r} is not drawn from that: {reason}. Remedies: {calls}"
            raise TypeError(msg) from None
        return display.from_estimator(self, *data, **options)

    def _call(self, kind: str) -> str:
        """How a picture is asked for."""
        display = getattr(import_module("colspace.displays"), self._pictures[kind])
        asked = list(signature(display.from_estimator).parameters.values())[1:]
        data = [p.name for p in asked if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
        return f"plot({', '.join([*data, f'kind={kind!r}'])})"


def leading(words: Sequence[str], most: int = 8) -> str:
    """A few words in a line, and how many more there are.

    Examples
    --------
    >>> leading(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"
