"""The ``colspace`` command: a thin shell over the library, which is imported only when a command runs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the command line."""
    try:
        from ._group import colspace

        colspace()
    except ImportError as error:
        if error.name not in ("click", "rich"):
            raise
        print("colspace: the command line needs click and rich: pip install 'colspace[cli]'", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before a command runs
        print("Error: interrupted", file=sys.stderr)
        sys.exit(2)
