"""Progress of long computations: a bar on a terminal that asks for one, the log otherwise."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("colspace")

Advance = Callable[[], None]


@contextmanager
def track(total: int, description: str, *, show: bool = False) -> Iterator[Advance]:
    """Count ``total`` steps; the body calls what it is given once per step.

    Parameters
    ----------
    total : number of steps.
    description : what is being done, in a few words.
    show : draw a rich bar on standard error when that is a terminal and rich is installed; otherwise each
        tenth of the way is logged (logger "colspace", level INFO).

    Examples
    --------
    >>> from colspace._progress import track
    >>> with track(3, "counting") as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if show and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import Progress
        except ImportError:
            pass
        else:
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task(description, total=total)
                yield lambda: bar.advance(task)
            return
    yield _log_steps(total, description)


def _log_steps(total: int, description: str) -> Advance:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done * 10 // total > (done - 1) * 10 // total:
            logger.info("%s: %d of %d", description, done, total)

    return advance
