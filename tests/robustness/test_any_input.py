"""Any input: a finite result, or an error that names a column, a parameter or a remedy; inputs stay as they are."""

import inspect

import endless
import fuzz
import numpy as np
import pytest
from cases import PLANS, Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judge import judge, not_finite, snapshot, unhelpful
from sklearn.base import BaseEstimator
from strategies import cases, tables

import colspace
from colspace import JointReduction, scores
from colspace._containers import as_table

ROBUST = settings(
    max_examples=12, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def test_every_estimator_has_a_plan():
    public = {
        name
        for room in (colspace, scores)
        for name, member in inspect.getmembers(room, inspect.isclass)
        if issubclass(member, BaseEstimator) and not inspect.isabstract(member)
    }
    assert public - {"BaseEstimator"} == set(PLANS)


@pytest.mark.parametrize("name", PLANS)
def test_every_parameter_is_drawn(name):
    given_laws = {"location", "covariance", "dispersion", "radius", "score_function", "threshold_cv"}
    told = {"random_state", "verbose", "warm_start", "tol"}
    known = set(PLANS[name].parameters)
    assert set(PLANS[name].make().get_params()) - given_laws - told <= known
    assert known <= set(PLANS[name].make().get_params())


@pytest.mark.parametrize("name", PLANS)
@ROBUST
@given(data=st.data())
def test_fitted_or_refused_with_a_reason(name, data):
    case = data.draw(cases(name))
    verdict = judge(case)
    assert verdict.kind != "failed", f"{case}: {verdict.reason}"


@settings(ROBUST, max_examples=60)
@given(drawn=tables())
def test_containers_have_the_numbers_of_the_array_or_say_why_not(drawn):
    held, plain = drawn
    before = snapshot(held)
    try:
        values = as_table(held).values
    except (TypeError, ValueError) as error:
        wrong = unhelpful(error, Case("JointReduction", "", {}, {}, None, ""))
    else:
        more = values.shape[1] - plain.shape[1]  # an odd column beside the others may hold numbers after all
        rows = values.shape[0]  # lazy in a Dask frame
        same = not isinstance(rows, int) or rows == len(plain)
        wrong = "" if more in (0, 1) and same else f"shape {values.shape}"
    assert not wrong
    assert snapshot(held) == before


# ---------------------------------------------------------------------- the fuzz itself


def test_five_inputs_of_every_estimator():
    """In a process of their own, as ``make fuzz`` runs ten thousand."""
    found = fuzz.run(5 * len(PLANS), seed=20, seconds=60.0)  # machines may be busy
    assert len(found) == 5 * len(PLANS)
    failures = [(words, why) for *_, words, kind, why in found if kind == "failed"]
    assert not failures
    assert sum(kind == "fitted" for *_, kind, _ in found) >= 0.3 * len(found)


def test_report_counts_and_tells_how_to_run_a_failure_again():
    found = [
        (0, "SlicedInverse", "input a", "fitted", ""),
        (1, "SlicedInverse", "input b", "refused", "y is constant"),
        (2, "SlicedAverage", "input c", "failed", "no end after 10 s"),
    ]
    text = fuzz.report(found, 7, None, 1.0)
    assert "3 inputs in 1 s: 33.3% fitted, 33.3% refused, 1 failures" in text
    assert "33.33%  y is constant" in text
    assert "FAILED no end after 10 s" in text
    assert "again: fuzz.py --seed 7 --number 2" in text


def test_inputs_are_the_same_for_the_same_seed():
    one, two, other = (str(fuzz.case_of(seed, 5)) for seed in (3, 3, 4))
    assert one == two != other


def _case(fit, X=None, **learned):
    """A case of an estimator whose fit does this."""

    class Fitted(JointReduction):
        def fit(self, X, y=None, sample_weight=None):
            fit(X)
            vars(self).update(learned)
            return self

        def transform(self, X):
            return np.zeros(1)

    X = np.ones((3, 2)) if X is None else X
    arguments = {"X": X, "y": None, "sample_weight": None}
    return Case("planted", "", {}, arguments, np.ones((1, 2)), "transform"), Fitted


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("fit", "learned", "why"),
    [
        (lambda X: _raise(KeyError("c")), {}, "KeyError"),
        (lambda X: _raise(ValueError("")), {}, "empty message"),
        (lambda X: _raise(ValueError("operands could not be broadcast together")), {}, "internal words"),
        (lambda X: _raise(np.linalg.LinAlgError("SVD did not converge")), {}, "internal words"),
        (lambda X: _raise(ValueError("no")), {}, "names no column"),
        (lambda X: np.divide(X, 0 * X), {}, "RuntimeWarning"),
        (lambda X: np.negative(X, out=X), {}, "X was changed"),
        (lambda X: None, {"components_": np.array([np.nan])}, "components_ is not finite"),
        (lambda X: None, {"loadings_": {"a": np.array([np.inf])}}, "loadings_.a is not finite"),
    ],
)
def test_planted_faults_are_seen(fit, learned, why, monkeypatch):
    case, estimator = _case(fit, **learned)
    monkeypatch.setitem(PLANS, "planted", PLANS["JointReduction"].__class__(estimator, {}))
    verdict = judge(case)
    assert verdict.kind == "failed"
    assert why in verdict.reason


@pytest.mark.parametrize("message", ["column 3 holds nothing", "use fewer slices", "n_components=9"])
def test_helpful_refusals_pass(message, monkeypatch):
    case, estimator = _case(lambda X: _raise(ValueError(message)))
    monkeypatch.setitem(
        PLANS, "planted", PLANS["JointReduction"].__class__(estimator, {"n_components": ([], [])})
    )
    assert judge(case).kind == "refused"


def test_gaps_in_intervals_are_no_infinity():
    assert not not_finite({"low": np.array([np.nan, 1.0])}, gaps=True)
    assert not_finite({"low": np.array([np.inf, 1.0])}, gaps=True) == "low"
    assert not_finite({"low": np.array([np.nan, 1.0])}) == "low"


def test_an_input_without_end_is_ended_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr(fuzz, "_work", endless.work)
    found = fuzz.run(3, seed=0, seconds=0.5)
    assert [kind for *_, kind, _ in found] == ["fitted", "failed", "fitted"]
    assert "no end after 0.5 s" in found[1][4]
