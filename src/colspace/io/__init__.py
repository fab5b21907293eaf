"""Tables in and out, and fitted estimators in files without pickle.

Files are written beside their target under another name and renamed when whole, so what was there stays until then.
"""

from ._extras import require
from ._models import NewerFileError, check_model_target, info, load, save
from ._onnx import to_onnx
from ._tables import check_table_target, read_table, write_table

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
