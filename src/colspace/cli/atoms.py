"""``colspace atoms``: atoms or topics that rebuild a table and predict its label."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from . import _options as options
from ._atoms_say import print_atoms
from ._files import check_files, given_command
from ._group import one_line_errors
from ._join import read_tables
from ._marks import marks_told
from ._options import NumberOr, option
from ._say import console, note, step, write_json
from ._words import phrased, warnings_on_stderr

_PHRASES = (
    (r"drop the sign constraint \(positive=False\)", "drop the sign constraint with --free"),
    (
        r"shift X by its column minima \(X - X\.min\(axis=0\)\)",
        "subtract each column's least value in the table",
    ),
    (r"positive=False", "--free"),
    (r" or tol \(now [^)]*\)", ""),
    (r"\bxi=", "--xi "),
    (r"\bl1=", "--l1 "),
    (r"\bthreshold='?(\w+)'?", r"--threshold \1"),
    (r"\bclass_weight=", "--class-weight "),
    (r"The '(xi|l1|threshold)' parameter of \w+", r"--\1"),
    (r"\bmax_iter=(\d+)", r"--max-iter \1"),
    (r"(?<![-\w])max_iter\b", "--max-iter"),
)


_words = phrased(_PHRASES)


def _image_shape(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[xX,]\s*([1-9]\d*)\s*", given)
    if found is None:
        msg = f"{given!r} is not of the form HEIGHTxWIDTH, e.g. 28x28"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return int(found[1]), int(found[2])


@click.command("atoms")
@options.tables_argument
@options.named("-y --label", "COLUMN", "Column of class labels.", required=True)
@options.many(
    "-t --text texts",
    "COLUMN",
    "Column of text, whose words (TF-IDF) the atoms are made of: topics. Repeatable: texts are joined. Without it "
    "atoms are made of all columns of numbers.",
)
@options.named(
    "-c --covariates",
    "A,B",
    "Columns that help to predict but are in no atom: names, ranges as in a:f or patterns as in g_*, with commas; repeatable. "
    "Numbers are scaled, categories one-hot encoded.",
    multiple=True,
)
@options.drop_option
@options.id_option("Column that is not used but carried into rows.csv")
@options.na_option
@option("-r --components", click.IntRange(1), 20, "Number of atoms.")
@click.option(
    "--xi",
    type=NumberOr(float, "auto", "topics"),
    show_default="topics with --text, else auto",
    help="Weight of the reconstruction against that of the labels; auto lets both count alike, topics is ten times that.",
)
@option(
    "--model kind",
    ["filter", "feature"],
    "filter",
    "Predict from the row filtered by the atoms, or from its code.",
)
@options.flag("--free", "Atoms and codes of any sign; nonnegative otherwise.")
@option("--l1", click.FloatRange(0), 0.0, "Penalty that makes codes sparse.")
@option(
    "--threshold",
    NumberOr(float, "youden", "f1"),
    "0.5",
    "Two classes: probability from which the second is predicted, or how to choose it.",
)
@option("--class-weight", ["none", "balanced"], "none", "balanced: every class weighs alike.")
@options.named("--image-shape", "28x28", "Rows are images: draw the atoms as such.", callback=_image_shape)
@option("--words", click.IntRange(1), 2500, "Words to keep, the most frequent.")
@option("--stop-words", ["english", "none"], "english", "Words to leave out.")
@option(
    "--test share",
    click.FloatRange(0, 0.9),
    0.2,
    "Share of rows held out for the scores, equal texts together; 0 fits all rows.",
)
@option(
    "--bootstraps",
    click.IntRange(0),
    0,
    "Fits to rows drawn with replacement, which tell how stable each atom is.",
)
@option("--max-iter", click.IntRange(1), 1000, "Iterations at most.")
@options.folder_option("the tables, scores and pictures", required=True)
@options.result_options("split and start")
@options.encoding_option
@one_line_errors(_words)
def command(**given: Any) -> None:
    """Learn atoms that rebuild TABLE and predict its label: topics of texts, parts of images, profiles of rows.

    TABLE is a CSV, TSV, JSON lines, Parquet or Arrow file or pipe, a folder or 'pattern' of such files that are one table, or -
    for standard input; several tables are joined on --id. Prints scores on held-out rows beside those of NMF with logistic
    regression, and writes to the directory: topics.csv or atoms.csv, coefficients.csv, rows.csv (label, prediction and
    probabilities of every row, and whether it was held out), scores.json, and pictures where matplotlib is installed. Atoms come
    from the rows that were not held out. Names and words are written as they are, also those that a spreadsheet would run as a
    formula.

    \b
    Example:
      colspace atoms jobs.csv --label fraudulent --text description \\
          --covariates telecommuting,has_company_logo --components 20 --out topics
      colspace atoms digits.csv --label digit --image-shape 28x28 --components 25 --out parts
    """
    asked = SimpleNamespace(**given)
    _check_options(asked)
    import numpy as np

    from ..io._files import directory
    from ._atoms_fit import cancelled, compare, encode, encode_more, save_pipeline
    from ._atoms_table import check_image, make_task, split_rows

    with warnings_on_stderr("Note"):
        with step("reading"):
            joined = read_tables(asked.tables, asked.ids, asked.marks, asked.encoding, texts=asked.texts)
        task = make_task(joined.frame, asked.label, asked.texts, asked.covariates, asked.drop, asked.ids)
    check_image(task, asked.image_shape)
    train, test = split_rows(task, asked.share, asked.seed)
    encoded = encode(task, train, asked.words, None if asked.stop_words == "none" else asked.stop_words)
    atoms = _estimator(asked, task, encoded)
    y, held = task.y[train], len(test) > 0
    with warnings_on_stderr("Warning", _words) as warned:
        with step("fitting"):
            atoms.fit(encoded.X, y).set_params(verbose=False)
        X_test = encode_more(encoded, task, test) if held else encoded.X
        with step("checking on rows held out"):
            scores = compare(atoms, encoded, y, X_test, task.y[test] if held else y, asked.seed)
    absent = np.setdiff1d(y, task.y[test] if held else y)
    notes = [f"no held-out row is of class {label}, so its scores say nothing" for label in absent]
    notes += cancelled(atoms)
    for text in notes:
        note(text)
    summary = _summary(atoms, encoded, train, test, scores, asked)
    with directory(asked.out):
        wrote = _write(atoms, encoded, task, test, summary, asked)
        if asked.model is not None:
            about = {
                **joined.about(),
                **marks_told(asked.marks),
                "warnings": [*warned, *notes],
                "line": given_command(),
            }
            save_pipeline(encoded, atoms, asked.model, task, summary, about)
        if asked.report is not None:
            _write_page(atoms, encoded, task, joined.source, summary, [*warned, *notes], asked)
    write_json(summary, asked.as_json)
    files = {"model": asked.model, "report": asked.report, "JSON": asked.as_json}
    pictured = asked.image_shape is not None
    print_atoms(console(asked.as_json), summary, task, atoms, encoded, wrote, files, pictured=pictured)


def _estimator(asked: SimpleNamespace, task: Any, encoded: Any) -> Any:
    from ..dictionary import SupervisedDictionaryClassifier

    return SupervisedDictionaryClassifier(
        asked.components,
        model=asked.kind,
        xi=asked.xi if asked.xi is not None else "topics" if task.texts else "auto",
        positive=not asked.free,
        l1=asked.l1,
        covariates=encoded.covariates or None,
        class_weight=None if asked.class_weight == "none" else asked.class_weight,
        threshold=asked.threshold,
        max_iter=asked.max_iter,
        n_bootstraps=asked.bootstraps,
        verbose=not asked.quiet,
        random_state=asked.seed,
    )


def _summary(
    atoms: Any, encoded: Any, train: Any, test: Any, scores: Any, asked: SimpleNamespace
) -> dict[str, Any]:
    """The numbers of the result."""
    return {
        "rows": len(train) + len(test),
        "fitted": len(train),
        "held_out": len(test),
        "classes": [str(c) for c in atoms.classes_],
        "columns": encoded.width,
        "covariates": encoded.names[encoded.width :],
        "components": asked.components,
        "xi": float(atoms.xi_),
        "threshold": float(atoms.threshold_) if len(atoms.classes_) == 2 else None,
        "iterations": int(atoms.n_iter_),
        "seed": asked.seed,
        "scores": scores,
    }


def _write(
    atoms: Any, encoded: Any, task: Any, test: Any, summary: dict[str, Any], asked: SimpleNamespace
) -> list[Path]:
    """The files of --out."""
    from ._atoms_fit import draw, write_rows, write_scores, write_tables

    wrote = write_tables(atoms, encoded, task, asked.out)
    wrote += [write_rows(atoms, encoded, task, test, asked.out), write_scores(summary, asked.out)]
    try:
        with warnings_on_stderr("Note"):
            wrote += draw(atoms, encoded, task, asked.image_shape, asked.out)
    except ImportError:
        note("pictures need matplotlib: pip install 'colspace[plot]'")
    return wrote


def _write_page(
    atoms: Any,
    encoded: Any,
    task: Any,
    source: str,
    summary: dict[str, Any],
    notes: list[str],
    asked: SimpleNamespace,
) -> None:
    from ..report import write_report
    from ..report._atoms import atoms_report
    from ._python import model_code

    facts = {"table": source, "text": ", ".join(asked.texts) or "none"}
    facts |= {"rows held out": summary["held_out"], "seed": asked.seed}
    page = atoms_report(
        atoms,
        encoded.X,
        task.frame,
        source=source,
        label=asked.label,
        names=encoded.names,
        words=bool(task.texts),
        scores=summary["scores"],
        held_out=summary["held_out"],
        facts=facts,
        notes=notes,
        command=given_command(),
        python=model_code(asked.model or "model.skops", asked.tables, "classifier"),
    )
    write_report(page, asked.report)


def _check_options(asked: SimpleNamespace) -> None:
    """Refuse options that would be ignored, and files that could not be written."""
    from click.core import ParameterSource

    ctx, texts = click.get_current_context(), asked.texts
    if texts and asked.image_shape is not None:
        msg = "--image-shape draws rows of pixels, and --text makes atoms of words; choose one"
        raise click.UsageError(msg)
    for name, flag in (("words", "--words"), ("stop_words", "--stop-words")):
        if not texts and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            msg = f"{flag} is about words, so it needs --text"
            raise click.UsageError(msg)
    names = [
        f"{name}{end}"
        for name in ("topics" if texts else "atoms", "coefficients")
        for end in (".csv", ".png")
    ]
    targets = {"folder": asked.out, "names": [*names, "rows.csv", "scores.json"]}
    check_files(asked.tables, model=asked.model, report=asked.report, as_json=asked.as_json, **targets)
