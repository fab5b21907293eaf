"""Linear reductions as ONNX graphs, by skl2onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._extras import require
from ._files import replacing

LINEAR = (
    "JointReduction",
    "SteinReduction",
    "SteinReductionCV",
    "PrincipalHessian",
    "SlicedInverse",
    "SlicedAverage",
    "StructuredOLS",
    "ReducedRank",
)


def to_onnx(model: Any, path: Any = None, *, dtype: Any = np.float32) -> Any:
    """The ``transform`` of a linear reduction, or a pipeline with one in it, as an ONNX graph; written to ``path`` if that is given.

    The graph has one input, X (rows, columns) of ``dtype`` (float32 or float64). Pipelines may hold whatever skl2onnx converts.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from colspace import JointReduction
    >>> from colspace.io import to_onnx
    >>> model = JointReduction(2).fit(*load_diabetes(return_X_y=True))
    >>> [node.op_type for node in to_onnx(model).graph.node]
    ['Sub', 'MatMul']
    """
    check_is_fitted(model)
    skl2onnx = require("skl2onnx", "onnx", "to_onnx")
    types = require("skl2onnx.common.data_types", "onnx", "to_onnx")
    kinds = {"float32": types.FloatTensorType, "float64": types.DoubleTensorType}
    kind = kinds.get(np.dtype(dtype).name)
    if kind is None:
        msg = f"dtype={dtype!r}: the graph's input is float32 or float64"
        raise ValueError(msg)
    from .. import reduction

    for name in LINEAR:
        skl2onnx.update_registered_converter(getattr(reduction, name), f"Colspace{name}", _shape, _convert)
    graph = skl2onnx.to_onnx(model, initial_types=[("X", kind([None, int(model.n_features_in_)]))])
    if path is not None:
        with replacing(path) as file:
            file.write(graph.SerializeToString())
    return graph


def _shape(operator: Any) -> None:
    """The type of the output: that of the input, with a column a direction."""
    given = operator.inputs[0].type
    operator.outputs[0].type = type(given)([None, operator.raw_operator.components_.shape[0]])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """(X - mean) components'."""
    ops = require("skl2onnx.algebra.onnx_ops", "onnx", "to_onnx")
    types = require("skl2onnx.common.data_types", "onnx", "to_onnx")
    model, version = operator.raw_operator, container.target_opset
    dtype = np.float64 if isinstance(operator.inputs[0].type, types.DoubleTensorType) else np.float32
    centred = ops.OnnxSub(operator.inputs[0], model.mean_.astype(dtype), op_version=version)
    directions = np.ascontiguousarray(model.components_.T, dtype=dtype)
    ops.OnnxMatMul(centred, directions, op_version=version, output_names=operator.outputs[:1]).add_to(
        scope, container
    )
