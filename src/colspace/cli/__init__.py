"""The ``colspace`` command: a thin shell over the library, which is imported only when a command runs."""

from __future__ import annotations

import sys

__all__ = ["main"]

_REFUSED = 2


def main() -> None:
    """Entry point of the command line."""
    try:
        from ._group import colspace

        colspace()
    except SystemExit as done:
        _leave(done)
        raise
    except ImportError as error:
        if error.name not in ("click", "rich"):
            raise
        print("colspace: the command line needs click and rich: pip install 'colspace[cli]'", file=sys.stderr)
        sys.exit(_REFUSED)
    except KeyboardInterrupt:  # before a command runs
        print("Error: interrupted", file=sys.stderr)
        _leave(SystemExit(_REFUSED))


def _leave(done: SystemExit) -> None:
    """End the process at once where Arrow was used, whose idle threads now and then abort an orderly end, or after an error.

    An interrupt within an import, though caught, makes ``python -m`` end by the signal and not with its exit code.
    """
    if done.code != _REFUSED and ("pyarrow" not in sys.modules or not isinstance(done.code, int | None)):
        return
    import atexit
    import os
    from contextlib import suppress

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(done.code if isinstance(done.code, int) else 0)
