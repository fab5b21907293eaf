import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colspace.metrics import nsee, principal_angles, procrustes_distance, subspace_distance


def rotated_plane(angle):
    """A plane in R^4 whose principal angles with span(e1, e2) are (angle, 0)."""
    return np.array([[1.0, 0], [0, np.cos(angle)], [0, np.sin(angle)], [0, 0]])


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.3, np.pi / 2])
def test_closed_forms(angle):
    U, V = np.eye(4)[:, :2], rotated_plane(angle)
    assert subspace_distance(U, V) == pytest.approx(np.sin(angle), abs=1e-12)
    assert nsee(U, V) == pytest.approx(np.sin(angle) / np.sqrt(2), abs=1e-12)
    assert procrustes_distance(U, V) == pytest.approx(2 * np.sin(angle / 2), abs=1e-12)
    np.testing.assert_allclose(principal_angles(U, V), [angle, 0], atol=1e-9)


def test_procrustes_against_a_search_over_rotations():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((5, 2)))[0] for _ in range(2))
    angles = np.linspace(0, 2 * np.pi, 20_001)
    best = np.inf
    for flip in (1, -1):
        for a in angles:
            R = np.array([[np.cos(a), -np.sin(a) * flip], [np.sin(a), np.cos(a) * flip]])
            best = min(best, np.linalg.norm(U - V @ R))
    assert procrustes_distance(U, V) == pytest.approx(best, abs=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000))
def test_invariant_to_basis_sign_and_order(seed):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((2, 7, 3))
    R = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    for distance in (subspace_distance, nsee, procrustes_distance):
        assert distance(U @ R, V[:, ::-1] * [-1, 1, 2]) == pytest.approx(distance(U, V), abs=1e-9)


def test_blocks_take_the_worst():
    e = np.eye(4)
    true = {"a": e[:, :1], "b": e[:, :2]}
    assert nsee(true, {"a": e[:, :1], "b": e[:, 2:]}) == pytest.approx(1.0)
    assert nsee(list(true.values()), list(true.values())) == pytest.approx(0.0)
    assert nsee([1.0, 0.0], [1.0, 1.0]) == pytest.approx(np.sqrt(0.5))


def test_errors():
    e = np.eye(3)
    with pytest.raises(ValueError, match="different spaces: 3 and 4"):
        subspace_distance(e, np.eye(4))
    with pytest.raises(ValueError, match="equal dimensions, got 1 and 2"):
        procrustes_distance(e[:, :1], e[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        nsee(e, e * np.nan)
    with pytest.raises(ValueError, match="is zero"):
        nsee(e, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="blocks differ"):
        nsee({"a": e}, {"b": e})
    with pytest.raises(ValueError, match="2-D matrix"):
        nsee(np.zeros((2, 2, 2)), e)
