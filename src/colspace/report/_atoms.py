"""The report of a supervised dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..displays._dictionary import atom_order, dictionary_of
from . import _charts
from ._page import Part, Report, Table, pictured
from ._shared import asked, call_of, glance, repeat, warned

MOST_WORDS = 8
NEW_ROWS = "these "  # begins the name of scores of new rows
MOST_ATOMS = 30
_SCORES = ("accuracy", "F1", "AUC", "reconstruction error")


def atoms_report(
    model: Any,
    X: Any = None,
    frame: Any = None,
    *,
    source: str,
    label: str,
    names: Sequence[str] | None,
    words: bool,
    scores: dict[str, dict[str, float]] | None = None,
    held_out: int = 0,
    rows: int | None = None,
    facts: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    python: str = "",
) -> Report:
    """Scores beside NMF's, atoms with their words or columns and coefficients, covariates, and how to repeat it.

    Parameters
    ----------
    model : fitted SupervisedDictionaryClassifier or -Regressor.
    X : encoded rows that scale the coefficients; without them they are as they are.
    frame : the table as it was read.
    names : names of the columns of X.
    rows : that were fitted, where they are not those of X.
    facts : what else was asked.
    words : whether the dictionary's columns are words.
    scores : method -> measure -> value.
    held_out : rows that the scores are of; 0 if they are of those that were fitted.
    """
    found = dictionary_of(model, X, None if names is None else list(names))
    what = "topics" if words else "atoms"
    said = {
        "method": type(model).__name__,
        "label": label,
        **dict(facts or {}),
        "classes": ", ".join(map(str, getattr(model, "classes_", []))),
        what: len(found.atoms),
        "words" if words else "columns": len(found.names),
        "covariates": _few(found.covariate_names),
    }
    parts = [asked([f"{what.capitalize()} that rebuild the rows and tell {label}."], said)]
    if frame is not None:
        parts.append(glance(frame, source))
    if scores:
        parts.append(_scores(scores, held_out))
    parts.append(_atoms(found, words=words))
    if len(found.covariate_names):
        parts.append(_covariates(found))
    parts += [*warned(notes), repeat(command, python or _python(model)), _next(words=words)]
    count = X.shape[0] if rows is None and X is not None else rows
    of = "the rows" if count is None else f"{count:,} rows"
    lead = f"{len(found.atoms)} {what} that rebuild {of} and predict {label}."
    if scores:
        lead += f" {_sentence(scores, held_out)}"
    return Report(f"{source}: {what} that tell {label}", lead, parts)


def _sentence(scores: dict[str, dict[str, float]], held_out: int) -> str:
    """Ours beside the others in words."""
    (_, first), *others = scores.items()
    said = {name: f"{name} {values['accuracy']:.3f}" for name, values in others if "accuracy" in values}
    rivals = ", ".join(text for name, text in said.items() if not name.startswith(NEW_ROWS))
    new = "".join(f"; on {text}" for name, text in said.items() if name.startswith(NEW_ROWS))
    of = f"{held_out:,} rows held out" if held_out else "the rows that were fitted"
    beside = f" ({rivals})" if rivals else ""
    return f"Accuracy on {of} is {first['accuracy']:.3f}{beside}{new}."


def _scores(scores: dict[str, dict[str, float]], held_out: int) -> Part:
    rows = [[method, *(values.get(name) for name in _SCORES)] for method, values in scores.items()]
    of = f"{held_out:,} rows held out" if held_out else "the rows that were fitted, so they flatter"
    records = [
        {"method": method, "measure": name, "value": values[name]}
        for method, values in scores.items()
        for name in _SCORES[:3]
        if name in values
    ]
    spec = _charts.dots(records, label="method", value="value", group="measure", title="score")
    text = f"Scores are of {of}. The reconstruction error is squared, relative to the rows' squares."
    table, alt = Table(["method", *_SCORES], rows), "Accuracy, F1 and AUC of each method"
    return pictured("Quality", [_sentence(scores, held_out), text], spec, alt, table, opened=True)


def _atoms(found: Any, *, words: bool) -> Part:
    order = [int(k) for k in atom_order(found.coefficients)]
    rows, records = [], []
    for k in order:
        atom = found.atoms[k]
        top = (-abs(atom)).argsort()[:MOST_WORDS]
        leading = ", ".join(found.names[int(j)] for j in top if atom[j] != 0)
        for t, target in enumerate(found.targets):
            value = float(found.coefficients[k, t])
            kept = () if found.stability is None else (float(found.stability[k]),)
            rows.append([k, target, value, *kept, leading])
            if k in order[:MOST_ATOMS]:
                name = f"{k}: {_short(leading)}"
                records.append({"atom": name, "target": str(target), "coefficient": value})
    noun = "words" if words else "columns"
    spec = _coefficients(records, "atom", found)
    against = f" against {found.against}" if found.against else ""
    target = str(found.targets[0]) if len(found.targets) == 1 else "the class"
    text = [f"An atom above zero speaks for {target}{against}; near zero it says nothing of the label."]
    if found.standardised:
        text.append("Coefficients are times the standard deviation of what they multiply.")
    stable = [] if found.stability is None else ["stability"]
    table = Table(["atom", "target", "coefficient", *stable, f"leading {noun}"], rows)
    alt = f"Coefficient of each atom, named by its leading {noun}"
    return pictured("Topics" if words else "Atoms", text, spec, alt, table)


def _coefficients(records: _charts.Records, label: str, found: Any) -> Any:
    """Bars of coefficients, in colours where there are several targets."""
    colour = "target" if len(found.targets) > 1 else ""
    return _charts.bars(records, label=label, value="coefficient", title="coefficient", colour=colour)


def _few(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most]) or "none"
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _covariates(found: Any) -> Part:
    rows = [
        [name, str(target), float(found.covariates[j, t])]
        for j, name in enumerate(found.covariate_names)
        for t, target in enumerate(found.targets)
    ]
    rows.sort(key=lambda row: -abs(row[2]))
    records = [
        {"covariate": r[0], "target": r[1], "coefficient": r[2]}
        for r in rows[: MOST_ATOMS * len(found.targets)]
    ]
    spec = _coefficients(records, "covariate", found)
    table = Table(["covariate", "target", "coefficient"], rows)
    text = ["They help to predict and are in no atom."]
    return pictured("Covariates", text, spec, "Coefficient of each covariate", table)


def _short(text: str, limit: int = 46) -> str:
    """As many words as there is room for, the first cut if need be."""
    if len(text) <= limit:
        return text
    whole, comma, _ = text[: limit - 1].rpartition(", ")
    return f"{whole}, …" if comma else text[: limit - 1] + "…"


def _python(model: Any) -> str:
    name, predict = type(model).__name__, "predict_proba" if hasattr(model, "predict_proba") else "predict"
    return f"from colspace import {name}\n\nmodel = {call_of(model)}\nmodel.fit(X, y)\nmodel.{predict}(X)"


def _next(*, words: bool) -> Part:
    return Part(
        "Next steps",
        [
            "Compare with NMF in the table of quality: where it predicts as well, the labels did not shape the atoms.",
            f"Fewer atoms are easier to read; a larger xi lets the {'texts' if words else 'rows'} count more and the labels less.",
            "colspace apply predicts the labels of new rows with a saved model.",
        ],
    )
