"""Linear reductions as ONNX graphs: what onnxruntime gives is what transform gives."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import colspace
from colspace.io import to_onnx
from colspace.io._onnx import LINEAR

onnxruntime = pytest.importorskip("onnxruntime")
X, y = load_diabetes(return_X_y=True)


def run(graph, table):
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": table})[0]


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_graph_is_transform(name, dtype, limit):
    table = X * np.linspace(1, 100, 10) + np.arange(10)
    model = getattr(colspace, name)(1).fit(table, y)
    found = run(to_onnx(model, dtype=dtype).SerializeToString(), table.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, model.transform(table), rtol=0, atol=limit * np.abs(model.transform(table)).max()
    )


def test_blocks_and_files(tmp_path):
    model = colspace.JointReduction(2, blocks={"a": [0, 2, 4], "b": [1, 3]}).fit(X[:, :5], y)
    to_onnx(model, tmp_path / "model.onnx")
    found = run((tmp_path / "model.onnx").read_bytes(), X[:, :5].astype(np.float32))
    np.testing.assert_allclose(found, model.transform(X[:, :5]), atol=1e-5 * np.abs(found).max())


def test_pipelines():
    steps = StandardScaler(), colspace.JointReduction(2), PolynomialFeatures(2), Ridge()
    model = make_pipeline(*steps).fit(X, y)
    found = run(to_onnx(model).SerializeToString(), X.astype(np.float32))
    np.testing.assert_allclose(found.ravel(), model.predict(X), rtol=1e-5)


def test_refusals():
    with pytest.raises(NotFittedError):
        to_onnx(colspace.JointReduction())
    with pytest.raises(ValueError, match="float32 or float64"):
        to_onnx(colspace.SlicedInverse(1).fit(X, y), dtype=np.int64)
