"""What tests of the classics share: a table, reference values, spans."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
from scipy.linalg import eigh

REFERENCE = Path(__file__).parents[1] / "reference"


def projector(directions):
    """Orthogonal projector on the span of the columns."""
    Q = np.linalg.qr(np.asarray(directions, dtype=float))[0]
    return Q @ Q.T


def assert_same_span(a, b, atol=1e-8):
    np.testing.assert_allclose(projector(a), projector(b), atol=atol)


def whitened(X):
    """Centred X and the symmetric inverse root of its covariance (1/m)."""
    Z = X - X.mean(axis=0)
    values, vectors = eigh(Z.T @ Z / len(Z))
    return Z, vectors / np.sqrt(values) @ vectors.T


def stored_reference():
    spec = importlib.util.spec_from_file_location("make_dimred", REFERENCE / "make_dimred.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stored = json.loads((REFERENCE / "dimred.json").read_text())
    X, y = module.make_data(stored["seed"])
    return X, y, stored


def correlated_table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 6)) @ (np.eye(6) + 0.3 * rng.standard_normal((6, 6))) + 2.0
    Y = np.column_stack([np.tanh(X[:, 0] - X[:, 1]), X[:, 2] ** 2 / 4]) + 0.1 * rng.standard_normal((400, 2))
    return X, Y
