"""``colspace atoms``: atoms or topics that rebuild a table and predict its label."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ._files import check_files, given_command
from ._group import one_line_errors
from ._join import read_tables
from ._options import (
    NumberOr,
    distinct,
    drop_option,
    encoding_option,
    id_option,
    na_option,
    result_options,
    tables_argument,
)
from ._say import console, note, step, write_json
from ._words import in_options, warnings_on_stderr

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


def _words(text: str) -> str:
    """A message of the library in the words of this command."""
    for pattern, option in _PHRASES:
        text = re.sub(pattern, option, text)
    return in_options(text)


def _image_shape(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[xX,]\s*([1-9]\d*)\s*", given)
    if found is None:
        msg = f"{given!r} is not of the form HEIGHTxWIDTH, e.g. 28x28"
        raise click.BadParameter(msg, ctx=ctx, param=param)
    return int(found[1]), int(found[2])


@click.command("atoms")
@tables_argument
@click.option("-y", "--label", required=True, metavar="COLUMN", help="Column of class labels.")
@click.option(
    "-t",
    "--text",
    "texts",
    multiple=True,
    callback=distinct,
    metavar="COLUMN",
    help="Column of text, whose words (TF-IDF) the atoms are made of: topics. Repeatable: texts are joined. Without it "
    "atoms are made of all columns of numbers.",
)
@click.option(
    "-c",
    "--covariates",
    multiple=True,
    metavar="A,B",
    help="Columns that help to predict but are in no atom: names, ranges as in a:f or patterns as in g_*, with commas; repeatable. "
    "Numbers are scaled, categories one-hot encoded.",
)
@drop_option
@id_option("Column that is not used but carried into rows.csv")
@na_option
@click.option(
    "-r", "--components", type=click.IntRange(1), default=20, show_default=True, help="Number of atoms."
)
@click.option(
    "--xi",
    type=NumberOr(float, "auto", "topics"),
    show_default="topics with --text, else auto",
    help="Weight of the reconstruction against that of the labels; auto lets both count alike, topics is ten times that.",
)
@click.option(
    "--model",
    "kind",
    type=click.Choice(["filter", "feature"]),
    default="filter",
    show_default=True,
    help="Predict from the row filtered by the atoms, or from its code.",
)
@click.option("--free", is_flag=True, help="Atoms and codes of any sign; nonnegative otherwise.")
@click.option(
    "--l1", type=click.FloatRange(0), default=0.0, show_default=True, help="Penalty that makes codes sparse."
)
@click.option(
    "--threshold",
    type=NumberOr(float, "youden", "f1"),
    default="0.5",
    show_default=True,
    help="Two classes: probability from which the second is predicted, or how to choose it.",
)
@click.option(
    "--class-weight",
    type=click.Choice(["none", "balanced"]),
    default="none",
    show_default=True,
    help="balanced: every class weighs alike.",
)
@click.option(
    "--image-shape", callback=_image_shape, metavar="28x28", help="Rows are images: draw the atoms as such."
)
@click.option(
    "--words",
    type=click.IntRange(1),
    default=2500,
    show_default=True,
    help="Words to keep, the most frequent.",
)
@click.option(
    "--stop-words",
    type=click.Choice(["english", "none"]),
    default="english",
    show_default=True,
    help="Words to leave out.",
)
@click.option(
    "--test",
    "share",
    type=click.FloatRange(0, 0.9),
    default=0.2,
    show_default=True,
    help="Share of rows held out for the scores, equal texts together; 0 fits all rows.",
)
@click.option(
    "--bootstraps",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Fits to rows drawn with replacement, which tell how stable each atom is.",
)
@click.option(
    "--max-iter", type=click.IntRange(1), default=1000, show_default=True, help="Iterations at most."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Directory for the tables, scores and pictures.",
)
@result_options("split and start")
@encoding_option
@one_line_errors(_words)
def command(
    tables: tuple[str, ...],
    label: str,
    texts: tuple[str, ...],
    covariates: tuple[str, ...],
    drop: tuple[str, ...],
    ids: tuple[str, ...],
    marks: tuple[str, ...],
    components: int,
    xi: Any,
    kind: str,
    free: bool,
    l1: float,
    threshold: Any,
    class_weight: str,
    image_shape: tuple[int, int] | None,
    words: int,
    stop_words: str,
    share: float,
    bootstraps: int,
    max_iter: int,
    seed: int,
    out: Path,
    model: str | None,
    report: str | None,
    as_json: str | None,
    quiet: bool,
    encoding: str | None,
) -> None:
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
    _check_options(texts, image_shape)
    first = "topics" if texts else "atoms"
    names = [
        f"{first}.csv",
        f"{first}.png",
        "coefficients.csv",
        "coefficients.png",
        "rows.csv",
        "scores.json",
    ]
    check_files(tables, models=[("--save", model)], folder=out, names=names, report=report, as_json=as_json)
    import numpy as np

    from ..dictionary import SupervisedDictionaryClassifier
    from ..io._files import directory
    from ._atoms_fit import (
        cancelled,
        compare,
        draw,
        encode,
        encode_more,
        save_pipeline,
        write_rows,
        write_scores,
        write_tables,
    )
    from ._atoms_table import check_image, make_task, split_rows

    with warnings_on_stderr("Note"):
        with step("reading"):
            joined = read_tables(tables, ids, marks, encoding, texts=texts)
        task = make_task(joined.frame, label, texts, covariates, drop, ids)
    check_image(task, image_shape)
    train, test = split_rows(task, share, seed)
    encoded = encode(task, train, words, None if stop_words == "none" else stop_words)
    atoms = SupervisedDictionaryClassifier(
        components,
        model=kind,
        xi=xi if xi is not None else "topics" if task.texts else "auto",
        positive=not free,
        l1=l1,
        covariates=encoded.covariates or None,
        class_weight=None if class_weight == "none" else class_weight,
        threshold=threshold,
        max_iter=max_iter,
        n_bootstraps=bootstraps,
        verbose=not quiet,
        random_state=seed,
    )
    y = task.y[train]
    held = len(test) > 0
    with warnings_on_stderr("Warning", _words) as warned:
        with step("fitting"):
            atoms.fit(encoded.X, y).set_params(verbose=False)
        X_test = encode_more(encoded, task, test) if held else encoded.X
        with step("checking on rows held out"):
            scores = compare(atoms, encoded, y, X_test, task.y[test] if held else y, seed)
    absent = np.setdiff1d(y, task.y[test] if held else y)
    notes = [f"no held-out row is of class {label}, so its scores say nothing" for label in absent]
    notes += cancelled(atoms)
    for text in notes:
        note(text)
    summary = {
        "rows": len(task.y),
        "fitted": len(train),
        "held_out": len(test),
        "classes": [str(c) for c in atoms.classes_],
        "columns": encoded.width,
        "covariates": encoded.names[encoded.width :],
        "components": components,
        "xi": float(atoms.xi_),
        "threshold": float(atoms.threshold_) if len(atoms.classes_) == 2 else None,
        "iterations": int(atoms.n_iter_),
        "seed": seed,
        "scores": scores,
    }
    with directory(out):
        wrote = [*write_tables(atoms, encoded, task, out), write_rows(atoms, encoded, task, test, out)]
        wrote.append(write_scores(summary, out))
        try:
            with warnings_on_stderr("Note"):
                wrote += draw(atoms, encoded, task, image_shape, out)
        except ImportError:
            note("pictures need matplotlib: pip install 'colspace[plot]'")
        if model is not None:
            about = {**joined.about(), "warnings": [*warned, *notes], "line": given_command()}
            save_pipeline(encoded, atoms, model, task, summary, about)
        if report is not None:
            from ..report import write_report
            from ..report._atoms import atoms_report
            from ._python import model_code

            page = atoms_report(
                atoms,
                encoded.X,
                task.frame,
                source=joined.source,
                label=label,
                names=encoded.names,
                words=bool(task.texts),
                scores=scores,
                held_out=len(test),
                facts={
                    "table": joined.source,
                    "text": ", ".join(texts) or "none",
                    "rows held out": len(test),
                    "seed": seed,
                },
                notes=[*warned, *notes],
                command=given_command(),
                python=model_code(model or "model.skops", tables, "classifier"),
            )
            write_report(page, report)
    write_json(summary, as_json)
    files = {"model": model, "report": report, "JSON": as_json}
    _print(console(as_json), summary, task, atoms, encoded, wrote, files, pictured=image_shape is not None)


def _check_options(texts: tuple[str, ...], image_shape: Any) -> None:
    """Refuse options that would be ignored."""
    from click.core import ParameterSource

    ctx = click.get_current_context()
    if texts and image_shape is not None:
        msg = "--image-shape draws rows of pixels, and --text makes atoms of words; choose one"
        raise click.UsageError(msg)
    for name, option in (("words", "--words"), ("stop_words", "--stop-words")):
        if not texts and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            msg = f"{option} is about words, so it needs --text"
            raise click.UsageError(msg)


# ---------------------------------------------------------------------- what is printed


def _print(
    screen: Any,
    summary: dict[str, Any],
    task: Any,
    model: Any,
    encoded: Any,
    wrote: list[Path],
    files: dict[str, str | None],
    *,
    pictured: bool,
) -> None:
    from rich.markup import escape

    from ._check import print_scores
    from ._say import print_written

    rows, held = f"{summary['rows']:,}", summary["held_out"]
    scored = f"{held:,} rows held out" if held else "scores of the rows that were fitted, so they flatter"
    what = "words" if task.texts else "columns"
    more = len(encoded.covariates)
    beside = f" and {more} covariate{'s' if more > 1 else ''}" if more else ""
    title = (
        f"{rows} rows, {len(summary['classes'])} classes; {summary['components']} atoms of {summary['columns']:,} {what}"
        f"{beside}; {scored}"
    )
    two = len(summary["classes"]) == 2
    of = f"of class {escape(summary['classes'][1])}" if two else "mean over classes"
    print_scores(
        screen,
        summary["scores"],
        title,
        f"F1: {of}; reconstruction error: squared, relative to the rows' squares",
    )
    if not pictured:
        _print_atoms(screen, task, model, encoded)
    chosen = f", threshold {summary['threshold']:.3g}" if two else ""
    screen.print(f"xi {summary['xi']:.3g}{chosen}, {summary['iterations']} iterations")
    names = ", ".join(path.name for path in wrote)
    screen.print(escape(f"wrote {names} to {wrote[0].parent}"), soft_wrap=True)
    print_written(screen, **files)


def _print_atoms(console: Any, task: Any, model: Any, encoded: Any) -> None:
    """The leading words or columns of each atom, with the coefficient times the deviation of what it multiplies."""
    from rich.markup import escape
    from rich.table import Table

    from ..displays import TopicsDisplay
    from ..displays._dictionary import dictionary_of

    found = dictionary_of(model, encoded.X, encoded.names)
    topics = TopicsDisplay(
        found.atoms, found.names, found.coefficients, found.targets, n_words=8, stability=found.stability
    ).frame()
    table = Table(
        caption="coefficients are times the standard deviation of what they multiply", caption_justify="left"
    )
    several = len(found.targets) > 1
    table.add_column("atom", justify="right")
    if several:
        table.add_column("for class")
    table.add_column("coefficient" if several else f"for {escape(found.targets[0])}", justify="right")
    stable = found.stability is not None
    if stable:
        table.add_column("stable", justify="right")
    table.add_column("leading words" if task.texts else "leading columns", overflow="fold")
    for (atom, target, value), group in topics.groupby(["component", "target", "coefficient"], sort=False):
        first = [str(atom), escape(str(target))] if several else [str(atom)]
        shown = f"{value:+.2f}" if several or target != "neutral" else f"neutral {value:+.2f}"
        last = [f"{group['stability'].iloc[0]:.2f}"] if stable else []
        table.add_row(*first, shown, *last, escape(", ".join(group["word"])))
    console.print(table)
