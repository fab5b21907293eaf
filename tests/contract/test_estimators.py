"""scikit-learn's contract, for every public estimator, nothing excused."""

import inspect
from numbers import Integral
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import colspace
from colspace import JointReduction, scores

ESTIMATORS = [
    member
    for _, member in inspect.getmembers(colspace, inspect.isclass)
    if issubclass(member, BaseEstimator) and member is not BaseEstimator
    if "X"
    in inspect.signature(member.fit).parameters  # pairs take two tables: tests/pairs/test_pairs_contract.py
]
NAMED = [pytest.param(E, id=E.__name__) for E in ESTIMATORS]


def test_estimators_are_discovered():
    assert JointReduction in ESTIMATORS
    assert len(ESTIMATORS) >= 6


SCORES = [
    member
    for _, member in inspect.getmembers(scores, inspect.isclass)
    if issubclass(member, scores.ScoreModel) and not inspect.isabstract(member) and "fit" in vars(member)
    if member is not scores.ScoreModel and member.__name__ != "NeuralScore"
]
# the checks hand one or two-valued responses, or none, to estimators of two directions; those rightly warn
pytestmark = [
    pytest.mark.filterwarnings("ignore:column 1 determines y"),
    pytest.mark.filterwarnings("ignore:n_components=2, but 2 slices carry at most 1 direction"),
    pytest.mark.filterwarnings("ignore:n_components=2 is more than the 1 direction"),
    pytest.mark.filterwarnings("ignore:without labels the scores prefer no direction"),
    pytest.mark.filterwarnings("ignore:no gap after component"),
    # and codes of three classes as numbers, which the supervised reducers ask about
    pytest.mark.filterwarnings("ignore::colspace.NumericLabelsWarning"),
    # rows that are seen once
    pytest.mark.filterwarnings("ignore:partial_fit sees rows once"),
    # tables with fewer rows than columns
    pytest.mark.filterwarnings("ignore::colspace.SingularCovarianceWarning"),
    # and sparse tables of a few values, nearly all absent, to the imputer
    pytest.mark.filterwarnings("ignore::colspace.ConstantColumnWarning"),
]


# as they come, but for what only repeats a fit: groups of rows for errors, folds, candidates, fills
FEWER = {
    "n_groups": 3,
    "n_refits": 2,
    "cv": 3,
    "xi_factors": (0.1, 1.0),
    "l2_factors": (1.0,),
    "ridges": (0.1, 1.0),
}


def with_fewer(E):
    model = E()
    return model.set_params(**{name: FEWER[name] for name in FEWER if name in model.get_params()})


@parametrize_with_checks([with_fewer(E) for E in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    try:
        check(estimator)
    except SkipTest:
        assert check.func.__name__ == "check_array_api_input"
        raise


# mixtures fitted to a few dozen rows of the checks end at a bound or at their last iteration, and say so
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([E() for E in SCORES])
def test_scikit_learn_checks_of_score_models(estimator, check):
    check(estimator)


@pytest.mark.parametrize("E", NAMED)
def test_no_check_is_left_out(E):
    names = {check.func.__name__ for _, check in estimator_checks_generator(E())}
    assert {
        "check_fit2d_1sample",
        "check_methods_sample_order_invariance",
        "check_readonly_memmap_input",
    } <= names


@pytest.fixture
def table(request):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((120, 4)), columns=["p", "q", "r", "s"])
    y = pd.Series(X["p"] * X["q"] + X["r"] + 0.1 * rng.standard_normal(120), name="y")
    E = getattr(request.node, "callspec", None) and request.node.callspec.params.get("E")
    return X, (y > 0).map({True: "high", False: "low"}) if E and issubclass(E, ClassifierMixin) else y


@pytest.mark.parametrize("E", NAMED)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_and_containers(E, library, table):
    X, y = table
    model = E().set_output(transform=library)
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    if library == "polars":
        X = pl.from_pandas(X)
    out = model.fit(X, y).transform(X)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert isinstance(out, pd.DataFrame if library == "pandas" else pl.DataFrame)
    assert list(model.feature_names_in_) == ["p", "q", "r", "s"]
    np.testing.assert_allclose(
        np.asarray(out), E().fit(np.asarray(X), y).transform(np.asarray(X)), atol=1e-10
    )


@pytest.mark.parametrize("E", NAMED)
def test_input_is_never_written_to(E, table):
    X, y = (np.asarray(t).copy() for t in table)
    before = X.copy(), y.copy()
    E().fit(X, y).transform(X)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize("E", NAMED)
def test_clone_and_refit_agree(E, table):
    X, y = table
    model = E().fit(X, y)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.transform(X), again.transform(X))


@pytest.mark.parametrize("E", NAMED)
def test_every_parameter_is_checked(E, table):
    X, y = table
    constraints = E._parameter_constraints
    assert set(constraints) == set(E().get_params())
    for name, rule in constraints.items():
        if isinstance(rule, str) and rule == "no_validation":
            continue
        with pytest.raises((ValueError, TypeError), match=name):
            E(**{name: type("Nonsense", (), {})()}).fit(X, y)


@pytest.mark.parametrize("E", NAMED)
def test_true_is_no_number(E, table):
    X, y = table
    counts = [
        name
        for name, rules in E._parameter_constraints.items()
        if not isinstance(rules, str) and any(getattr(rule, "type", None) is Integral for rule in rules)
    ]
    assert ("n_components" in counts) == ("n_components" in E().get_params())
    for name in counts:
        with pytest.raises(InvalidParameterError, match=f"'{name}' parameter.* Got True instead"):
            E(**{name: True}).fit(X, y)


def test_prefix_blocks_through_a_column_transformer_and_a_search(table):
    X, y = table
    split = ColumnTransformer(
        [("left", StandardScaler(), ["p", "r"]), ("right", StandardScaler(), ["q", "s"])]
    ).set_output(transform="pandas")
    pipeline = make_pipeline(split, JointReduction(1, blocks="prefix"), LinearRegression())
    search = GridSearchCV(
        pipeline, {"jointreduction__n_components": [1, 2], "jointreduction__moments": ["all", "joint"]}, cv=3
    ).fit(X, y)
    assert set(search.best_estimator_[1].loadings_) == {"left", "right"}
    assert next(iter(search.best_estimator_[:2].get_feature_names_out())) == "left__0"


def test_blocks_by_name_and_slice_through_cross_validation(table):
    X, y = table
    for blocks, data in (
        ({"a": ["p", "r"], "b": ["q", "s"]}, X),
        ({"a": [0, 2], "b": [1, 3]}, X.to_numpy()),
        ({"a": slice(0, 2), "b": slice(2, 4)}, X.to_numpy()),
    ):
        pipeline = make_pipeline(JointReduction(1, blocks=blocks), LinearRegression())
        scores = cross_validate(pipeline, data, y, cv=3, error_score="raise")["test_score"]
        assert len(scores) == 3


def test_output_names_chain_as_prefixes(table):
    X, y = table
    first = JointReduction(2, blocks={"a": ["p", "r"], "b": ["q", "s"]}).set_output(transform="pandas")
    Z = first.fit_transform(X, y)
    assert list(Z.columns) == ["a__0", "a__1", "b__0", "b__1"]
    assert set(JointReduction(1, blocks="prefix").fit(Z, y).loadings_) == {"a", "b"}
