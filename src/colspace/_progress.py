"""Progress of long computations: a bar on a terminal that asks for one, the log otherwise."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

logger = logging.getLogger("colspace")

DELAY = 2.0  # seconds after which a bar is drawn


class Advance(Protocol):
    """Counts steps that are done."""

    def __call__(self, steps: int = 1, /) -> None: ...


@contextmanager
def track(total: int | None, description: str, *, show: bool = False) -> Iterator[Advance]:
    """Count ``total`` steps; the body calls what it is given once per step, or with how many are done.

    Parameters
    ----------
    total : number of steps; None if it is not known.
    description : what is being done, in a few words.
    show : after two seconds, draw a bar with the time that is left on standard error, when that is a terminal and rich is
        installed; a count within another has a bar below it. Otherwise each tenth of the way is logged (logger "colspace",
        level INFO).

    Examples
    --------
    >>> from colspace._progress import track
    >>> with track(3, "counting") as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if show and sys.stderr.isatty():
        try:
            import rich.progress  # noqa: F401
        except ImportError:
            pass
        else:
            with _bars() as bars:
                task = bars.add_task(description, total=total)
                try:
                    yield lambda steps=1: bars.advance(task, steps)
                finally:
                    bars.remove_task(task)
            return
    yield _log_steps(total, description)


class _Live(threading.local):
    """The bars that are drawn, of this thread."""

    bars: Any = None


_live = _Live()


@contextmanager
def _bars() -> Iterator[Any]:
    """One display for counts within each other, which a terminal has room for once; drawn after a while."""
    if _live.bars is not None:
        yield _live.bars
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    _live.bars = bars
    timer = threading.Timer(DELAY, bars.start)
    timer.daemon = True
    timer.start()
    try:
        yield bars
    finally:
        _live.bars = None
        timer.cancel()
        timer.join()
        bars.stop()


def _log_steps(total: int | None, description: str) -> Advance:
    done = 0

    def advance(steps: int = 1, /) -> None:
        nonlocal done
        before, done = done, done + steps
        if total and done * 10 // total > before * 10 // total:
            logger.info("%s: %d of %d", description, done, total)

    return advance
