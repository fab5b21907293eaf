"""The verdict on one input: fitted, refused for a stated reason, or a failure."""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple

import numpy as np
from cases import PLANS, Case
from scipy import sparse

# words of numpy, scipy and LAPACK that tell a user nothing
_INTERNAL = re.compile(
    r"SVD did not converge|Eigenvalues did not converge|could not be broadcast|infs or NaNs|out of bounds|"
    r"Singular matrix|zero-size array|leading minor|Array must not|shapes \(|not aligned|matmul:|cannot reshape|"
    r"truth value|unexpected keyword|object is not|has no attribute|NoneType|unhashable|"
    r"unsupported operand|setting an array element|cannot convert float|illegal value|ARPACK|"
    r"must be real number|dtype\('O'\)|ufunc 'is",
    re.IGNORECASE,
)
# what a message must have: a column, a row, an argument, a rule or a remedy
_HELPFUL = re.compile(
    r"column|row|sample|\bX\b|\by\b|\bA\b|\bB\b|\bY\b|mask|remed|use |give |drop |must|need|at least|parameter|feature",
)


class Verdict(NamedTuple):
    """``reason`` is a class of refusals, or what failed."""

    kind: str  # "fitted", "refused", "failed"
    reason: str = ""


def judge(case: Case) -> Verdict:
    """Fit, call one more method, and look at what came out."""
    before = {key: snapshot(value) for key, value in case.arguments.items()}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        verdict = _run(case)
    if verdict.kind == "failed":
        return verdict
    for warning in seen:
        if not issubclass(warning.category, UserWarning):
            where = f"{'/'.join(warning.filename.split('/')[-2:])}:{warning.lineno}"
            return Verdict("failed", f"{warning.category.__name__}: {warning.message} at {where}")
    for key, value in case.arguments.items():
        if snapshot(value) != before[key]:
            return Verdict("failed", f"{key} was changed")
    return verdict


def _run(case: Case) -> Verdict:
    fitted = False
    try:
        import dask

        with dask.config.set(scheduler="synchronous"):
            model = PLANS[case.name].make(**case.parameters)
            model.fit(**case.arguments)
            fitted = True
            wrong = not_finite(fitted_numbers(model))
            if wrong:
                return Verdict("failed", f"{wrong} is not finite")
            return call(model, case)
    except (ValueError, TypeError) as error:
        wrong = unhelpful(error, case)
        if wrong:
            return Verdict("failed", f"{_where(error)} {type(error).__name__}: {wrong}")
        return Verdict("fitted") if fitted else Verdict("refused", reason(error))
    except Exception as error:  # noqa: BLE001
        return Verdict("failed", f"{_where(error)} {type(error).__name__}: {error}")


def call(model: Any, case: Case) -> Verdict:
    """One more method, on the rows of fit or on fresh ones."""
    arguments = case.arguments
    rows = arguments.get("X", arguments.get("A"))
    if case.call == "partial_fit":
        rows, y = arguments["X"], arguments["y"]
        again = PLANS[case.name].make(**case.parameters)
        result: Any = fitted_numbers(again.partial_fit(rows, y, sample_weight=arguments["sample_weight"]))
    elif case.call == "rank_test":
        test = model.rank_test(arguments["X"], arguments["y"], n_permutations=3, random_state=0)
        result = {"p_values": np.asarray(test.p_values)} if hasattr(test, "p_values") else {}
    elif case.call in ("first_moment", "second_moment"):
        result = {case.call: getattr(model, case.call)(rows, np.ones(_height(rows)))}
    elif case.call == "rank":
        result = {"rank": model.rank(k=2)}
    elif case.call == "sample":
        result = {"sample": model.sample(rows, 1, random_state=0)[0]}
    elif case.call == "transform" and PLANS[case.name].pairs:
        result = {"transform": model.transform(arguments["A"])}
    else:
        result = {case.call: getattr(model, case.call)(rows)}
    wrong = not_finite(result, gaps=case.call in ("interval", "reliability", "probability_within"))
    if not wrong and hasattr(model, case.call) and case.call in ("transform", "predict", "score_function"):
        wrong = not_finite({f"{case.call} of fresh rows": getattr(model, case.call)(case.fresh)})
    return Verdict("failed", f"{wrong} is not finite") if wrong else Verdict("fitted")


def _height(rows: Any) -> int:
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def _where(error: BaseException) -> str:
    """The last line of the library in the traceback."""
    trace = error.__traceback__
    found = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/colspace/" in file:
            found = f"{'/'.join(file.split('/')[-2:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def unhelpful(error: Exception, case: Case) -> str:
    """What is wrong with the message of a refusal, or nothing."""
    text = str(error)
    if not text.strip():
        return "empty message"
    if _INTERNAL.search(text):
        return f"internal words: {text}"
    if any(name in text for name in PLANS[case.name].parameters) or _HELPFUL.search(text):
        return ""
    return f"names no column, parameter or remedy: {text}"


def reason(error: Exception) -> str:
    """A class of refusals: the message without numbers and quoted names."""
    text = str(error).split("\n")[0]
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'..'", text)
    text = re.sub(r"-?\d[\d.e+-]*|\bnan\b|\binf\b", "#", text)
    return " ".join(text.split())[:60]


def fitted_numbers(model: Any) -> dict[str, Any]:
    """What a fit has learned."""
    return {
        key: value
        for key, value in vars(model).items()
        if key.endswith("_") and not key.startswith("_") and key not in _MAY_BE_INFINITE
    }


# criteria of models that were not tried, and laws at the end of their range
_MAY_BE_INFINITE = {
    "cv_results_",
    "scores_",
    "ridge_",
    "losses_",
    "held_out_log_density_",
    "history_",
    "feature_names_in_",
    "log_density_",
    "tails_",
}


def not_finite(result: Any, gaps: bool = False) -> str:
    """The first part of a result that holds NaN or infinity, or nothing; ``gaps``: infinity alone is wrong."""
    for key, value in result.items() if isinstance(result, dict) else enumerate(result):
        if isinstance(value, dict | list | tuple):
            inner = not_finite(value, gaps)
            if inner:
                return f"{key}.{inner}"
            continue
        if type(value).__module__.startswith("dask"):
            value = value.compute()
        values = value.data if sparse.issparse(value) else value
        if isinstance(values, float | np.ndarray) or hasattr(values, "to_numpy"):
            values = np.asarray(values)
            if values.dtype.kind == "f" and not (np.isfinite(values) | (gaps & np.isnan(values))).all():
                return str(key)
    return ""


def snapshot(value: Any) -> Any:
    """What must be the same before and after: the bytes of a container in memory."""
    if value is None or type(value).__module__.startswith(("dask", "pyarrow", "polars")):
        return None  # Dask and Arrow cannot be written to
    if sparse.issparse(value):
        parts = ("data", "indices", "indptr", "row", "col")
        return [snapshot(getattr(value, part)) for part in parts if hasattr(value, part)]
    if isinstance(value, np.ma.MaskedArray):
        return snapshot(np.ma.getdata(value)), snapshot(np.ma.getmaskarray(value))
    if hasattr(value, "iloc"):
        columns = [value] if value.ndim == 1 else [value.iloc[:, j] for j in range(value.shape[1])]
        return [(str(c.dtype), repr(c.tolist())) for c in columns]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return repr(value.tolist())
    return (str(value.dtype), value.tobytes()) if isinstance(value, np.ndarray) else repr(value)
