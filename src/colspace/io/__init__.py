"""Tables in and out, and fitted estimators in files without pickle.

Files are written beside their target under another name and renamed when whole, so what was there stays until then.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._extras import require
from ._tables import check_table_target, read_table, write_table

if TYPE_CHECKING:
    from ._models import NewerFileError, check_model_target, info, load, save
    from ._onnx import to_onnx

__all__ = [
    "NewerFileError",
    "check_model_target",
    "check_table_target",
    "info",
    "load",
    "read_table",
    "require",
    "save",
    "to_onnx",
    "write_table",
]

_HOMES = dict.fromkeys(("NewerFileError", "check_model_target", "info", "load", "save"), "_models")
_HOMES["to_onnx"] = "_onnx"


def __getattr__(name: str) -> Any:
    """What needs scikit-learn is imported when it is asked for."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
