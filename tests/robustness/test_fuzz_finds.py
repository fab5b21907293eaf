"""Tables whose errors were no numbers, or whose units were lost: each fits with finite errors, or says why it has none."""

import numpy as np
import pytest
from scipy import sparse

from colspace import (
    ConstantColumnWarning,
    CopulaImputer,
    JointReduction,
    PrincipalHessian,
    ReducedRank,
    SlicedInverse,
    SteinReduction,
    StructuredOLS,
)
from colspace.reduction._count import standard_error
from colspace.reduction._groups import GroupSums
from colspace.reduction._jackknife import leave_out
from colspace.reduction._loo import row_unit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MODELS = [SteinReduction, SlicedInverse, StructuredOLS, PrincipalHessian, ReducedRank]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    return X, X[:, 0] + 0.1 * rng.standard_normal(40)


class Mean:
    """Rows, weight and weighted sum of directions: a statistic whose fit without a group is known in closed form."""

    def __init__(self, rows, count, total):
        self.rows, self.count, self.total = rows, count, total

    def __sub__(self, other):
        return Mean(self.rows - other.rows, self.count - other.count, self.total - other.total)

    def __add__(self, other):
        return Mean(self.rows + other.rows, self.count + other.count, self.total + other.total)


@pytest.mark.parametrize("nothing", [0.0, 1e-200, 1e-320])
def test_a_group_without_weight_is_no_group(nothing):  # its jackknife weight was infinite
    rng = np.random.default_rng(1)
    vectors = np.array([1.0, 0.0, 0.0]) + 0.1 * rng.standard_normal((5, 3))
    parts = {i: Mean(3, 2.0, 2.0 * v[:, None]) for i, v in enumerate(vectors)}
    total = Mean(15, 10.0, 2.0 * vectors.sum(axis=0)[:, None])
    light = {**parts, 9: Mean(3, nothing, np.full((3, 1), nothing))}

    def found(groups):
        mean = total.total / total.count
        return leave_out(
            GroupSums(total, groups), lambda s: [s.total / s.count], [mean], [lambda L: L / np.sum(mean**2)]
        )

    plain, also = found(parts), found(light)
    np.testing.assert_allclose(also.weights, (1 / 0.2 - 1) / 5)
    np.testing.assert_array_equal(also.directions[0], plain.directions[0])
    # the jackknife of a mean: its squared error is s^2 / n
    np.testing.assert_allclose(
        also.squares(also.directions[0], None)[:, 0], vectors.var(axis=0, ddof=1) / 5, rtol=1e-12
    )


@pytest.mark.parametrize("model", MODELS)
def test_rows_without_weight(model, data):
    X, y = data
    w = np.zeros(40)
    w[::4] = 1.0
    found = model(n_components=1).fit(X, y, sample_weight=w)
    assert not found.errors_note_
    assert found.n_groups_ <= 10
    assert np.isfinite(found.components_error_).all()
    assert (found.components_error_ > 0).all()


@pytest.mark.parametrize("model", [JointReduction, *MODELS])
def test_two_rows_have_no_errors(model, data):  # they were zero or NaN: one row is left without the other
    X, y = data
    w = np.zeros(40)
    w[:2] = 1.0
    found = model(n_components=1).fit(X, y, sample_weight=w)
    assert found.components_error_ is None
    assert found.expected_error_ is None
    assert "two" in found.errors_note_


def test_rows_without_labels_count(data):
    X, y = data
    for weight, some in (("auto", None), (1.0, np.where(np.arange(40) < 3, y, np.nan))):
        found = SteinReduction(1, unlabeled_weight=weight).fit(X, some)
        assert not found.errors_note_
        assert np.isfinite(found.components_error_).all()


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_two_orders_and_rows_without_weight(how, data):  # NaN in both rows of errors
    X, y = data
    Y = np.column_stack([y, X[:, 1] ** 2])
    w = np.random.default_rng(2).random(40) * (np.arange(40) % 3 > 0)
    found = getattr(SteinReduction(2, order="both"), how)(X.astype(np.float32), Y, sample_weight=w)
    assert np.isfinite(found.components_error_).all()


def test_errors_of_huge_losses():  # squares overflowed
    rng = np.random.default_rng(3)
    losses, w = rng.random((2, 12)), rng.random(12)
    for size in (2.0**1010, 2.0**-1000):
        np.testing.assert_allclose(
            standard_error(losses * size, w), standard_error(losses, w) * size, rtol=1e-12
        )
    equal = np.ones(12)
    np.testing.assert_allclose(standard_error(losses, equal), losses.std(axis=1, ddof=1) / np.sqrt(12))
    assert not standard_error(np.zeros((1, 12)), w).any()


@pytest.mark.parametrize("model", [SteinReduction, JointReduction])
def test_a_huge_cell_and_a_count(model, data):
    X, y = data
    X[3, 2] = 1e154
    found = model(n_components="auto").fit(sparse.csr_array(X) if model is SteinReduction else X, y)
    assert all(np.isfinite(v).all() for v in found.component_scores_.values())


@pytest.mark.parametrize("size", [5e-324, 2.0**-1060, 2.0**-1000])
@pytest.mark.parametrize("n_components", [1, "auto"])
def test_subnormal_responses(n_components, size, data):  # one over their unit overflowed; counts were NaN
    X, y = data
    y = np.round(10 * y)
    plain = JointReduction(n_components).fit(X, y)
    found = JointReduction(n_components).fit(X, y * size)
    np.testing.assert_allclose(found.components_, plain.components_, rtol=1e-6, atol=1e-6)
    assert np.isfinite(found.components_error_).all()
    if n_components == "auto":
        score, same = (m.component_scores_["score"] for m in (found, plain))
        np.testing.assert_allclose(score, same, atol=1e-3)


@pytest.mark.parametrize("size", [5e-324, 1e-300])
def test_responses_whose_squares_are_zero(size, data):  # were called constant
    with pytest.raises(ValueError, match=r"y spreads over .*, and squares of that are zero.*; multiply y by"):
        SteinReduction(1).fit(data[0], np.round(10 * data[1]) * size)


def test_weights_out_of_proportion(
    data,
):  # every float above 2^53 is whole: 1e200 copies of a row, whose squares overflow
    X, y = data
    w = np.where(np.arange(40) < 6, 1.0, 1e-200)
    assert row_unit(w) == pytest.approx(1.0)
    assert row_unit(np.array([0.5, 1.0, 2.0**40])) == 0.5
    found = JointReduction(1).fit(X, y, sample_weight=w)
    assert np.isfinite(found.components_).all()


@pytest.mark.parametrize("seed", range(3))
def test_halves_of_few_labelled_rows_show_no_direction(
    seed,
):  # a half without a difference of labels had rank zero
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((6, 3)), np.array([1.0, np.nan, 1.0, 2.0, np.nan, 1.0])
    model = SteinReduction(2).fit(X, y)
    assert np.isfinite(model.components_).all()
    assert np.linalg.matrix_rank(model.components_) == 2


def test_gaps_of_a_table_without_columns_that_vary():  # shares of no column
    X = np.tile([1.0, 2.0, np.nan], (21, 1))
    X[0, 2] = 3.0
    with pytest.warns(ConstantColumnWarning):
        filled = CopulaImputer(nonlinear="gaps").fit_transform(X)
    np.testing.assert_array_equal(filled, np.tile([1.0, 2.0, 3.0], (21, 1)))
