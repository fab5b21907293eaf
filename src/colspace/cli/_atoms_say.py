"""What ``colspace atoms`` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def print_atoms(
    screen: Any,
    summary: dict[str, Any],
    task: Any,
    model: Any,
    encoded: Any,
    wrote: list[Path],
    files: dict[str, str | None],
    *,
    pictured: bool,
) -> None:
    from rich.markup import escape

    from ._check import print_scores
    from ._say import print_written

    rows, held = f"{summary['rows']:,}", summary["held_out"]
    scored = f"{held:,} rows held out" if held else "scores of the rows that were fitted, so they flatter"
    what = "words" if task.texts else "columns"
    more = len(encoded.covariates)
    beside = f" and {more} covariate{'s' if more > 1 else ''}" if more else ""
    title = (
        f"{rows} rows, {len(summary['classes'])} classes; {summary['components']} atoms of {summary['columns']:,} {what}"
        f"{beside}; {scored}"
    )
    two = len(summary["classes"]) == 2
    of = f"of class {escape(summary['classes'][1])}" if two else "mean over classes"
    print_scores(
        screen,
        summary["scores"],
        title,
        f"F1: {of}; reconstruction error: squared, relative to the rows' squares",
    )
    if not pictured:
        _print_atoms(screen, task, model, encoded)
    chosen = f", threshold {summary['threshold']:.3g}" if two else ""
    screen.print(f"xi {summary['xi']:.3g}{chosen}, {summary['iterations']} iterations")
    names = ", ".join(path.name for path in wrote)
    screen.print(escape(f"wrote {names} to {wrote[0].parent}"), soft_wrap=True)
    print_written(screen, **files)


def _print_atoms(console: Any, task: Any, model: Any, encoded: Any) -> None:
    """The leading words or columns of each atom, with the coefficient times the deviation of what it multiplies."""
    from rich.markup import escape
    from rich.table import Table

    from ..displays import TopicsDisplay
    from ..displays._dictionary import dictionary_of

    found = dictionary_of(model, encoded.X, encoded.names)
    topics = TopicsDisplay(
        found.atoms, found.names, found.coefficients, found.targets, n_words=8, stability=found.stability
    ).frame()
    table = Table(
        caption="coefficients are times the standard deviation of what they multiply", caption_justify="left"
    )
    several = len(found.targets) > 1
    table.add_column("atom", justify="right")
    if several:
        table.add_column("for class")
    table.add_column("coefficient" if several else f"for {escape(found.targets[0])}", justify="right")
    stable = found.stability is not None
    if stable:
        table.add_column("stable", justify="right")
    table.add_column("leading words" if task.texts else "leading columns", overflow="fold")
    for (atom, target, value), group in topics.groupby(["component", "target", "coefficient"], sort=False):
        first = [str(atom), escape(str(target))] if several else [str(atom)]
        shown = f"{value:+.2f}" if several or target != "neutral" else f"neutral {value:+.2f}"
        last = [f"{group['stability'].iloc[0]:.2f}"] if stable else []
        table.add_row(*first, shown, *last, escape(", ".join(group["word"])))
    console.print(table)
