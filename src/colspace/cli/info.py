"""``colspace info``: what a saved model is."""

from __future__ import annotations

from typing import Any

import click

from ._files import check_files
from ._group import one_line_errors
from ._options import json_option
from ._say import console, printable, sound_header, write_json
from ._words import in_options

_SHOWN = 12
_APART = (  # shown otherwise than as they are
    *("command", "quality", "hidden_cells", "tables", "warnings", "line"),
    *("scores", "held_out", "fitted", "left_columns", "names"),
)


@click.command("info")
@click.argument("model")
@json_option
@one_line_errors(in_options)
def command(model: str, as_json: str | None) -> None:
    """Show what the saved MODEL is: its kind, columns, versions, the rows it was fitted on, and how good it is.

    The model itself is not loaded.
    """
    from ..io import info

    found = info(model)
    if as_json is not None:
        check_files([model], as_json=as_json)
        write_json(found, as_json)
        return
    from rich.markup import escape

    from ._check import print_quality, print_scores, scores_of

    screen, about = console(), _printable(found["about"])
    for line in _lines(model, found):
        screen.print(escape(printable(line)), soft_wrap=True)
    with sound_header(model):
        by = about.get("command")
        if by == "reduce" and "quality" in about:
            print_quality(screen, about["quality"])
        if by == "atoms" and "scores" in about:
            print_scores(screen, about["scores"], _scored(about))
        if by == "pairs" and "held_out" in about:
            print_scores(screen, scores_of(about["held_out"]), "Held out, free from the tuning")


def _lines(path: str, found: dict[str, Any]) -> list[str]:
    if found["format"] == 0:
        return [f"{path}: a model from before files said what they hold; colspace.load reads it"]
    about, columns = found["about"], found["columns"]
    columns = about.get("left_columns", columns)
    lines = [
        f"{path}: {found['estimator']}"
        + (f", made by colspace {about['command']}" if "command" in about else "")
    ]
    if columns is not None:
        more = f" and {len(columns) - _SHOWN:,} more" if len(columns) > _SHOWN else ""
        lines.append(
            f"{len(columns):,} column{'s' * (len(columns) != 1)}: {', '.join(columns[:_SHOWN])}{more}"
        )
    elif found["n_features"] is not None:
        lines.append(f"{found['n_features']:,} columns without names")
    apart = _APART if "command" in about else ()
    lines += [f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in about.items() if key not in apart]
    if isinstance(about.get("hidden_cells"), dict):
        lines.append(str(about["hidden_cells"].get("sentence", "")))
    warned = about.get("warnings")
    lines += [f"warning at the fit: {text}" for text in (warned if isinstance(warned, list) else [])]
    if "line" in about:
        lines.append(f"fitted by: {about['line']}")
    lines.append(
        f"format {found['format']}, "
        + ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    )
    return lines


def _scored(about: dict[str, Any]) -> str:
    """Which rows the scores of a dictionary are of."""
    rows, held, fitted = (about.get(name) for name in ("rows", "held_out", "fitted"))
    return (
        f"{held:,} of {rows:,} rows held out" if held else f"Scores of the {fitted:,} rows that were fitted"
    )


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
