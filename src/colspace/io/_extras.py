"""Modules that come with an extra."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str, purpose: str) -> Any:
    """A module, or an ImportError that names the extra it comes with."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = (
            f"{purpose} needs {module.split('.')[0]}, which is not installed: pip install 'colspace[{extra}]'"
        )
        raise ImportError(msg) from error
