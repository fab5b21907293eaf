"""``colspace pairs``: the likeliest partners of entities."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from ._files import check_files, given_command
from ._group import one_line_errors
from ._options import (
    NumberOr,
    ParamType,
    check_option,
    distinct,
    encoding_option,
    na_option,
    out_option,
    result_options,
)
from ._pairs_tables import entities, links_of, open_tables, similarities
from ._words import in_options, warnings_on_stderr

_SHOWN = 3  # entities whose best partners are printed

_PHRASES = (
    ("unknown='drop'", "--drop-unknown"),
    ("duplicates='sum', 'max' or 'mean'", "--duplicates sum, max or mean"),
    (r"colspace\.CopulaImputer can fill them: .*", "colspace impute can fill them."),
    (
        r"\(also profile, n_components and shrinkage where they are used\)",
        "(also --components and --shrinkage)",
    ),
    (r"Give bandwidth and alpha as numbers", "Give --bandwidth and --alpha as numbers"),
    (r"bandwidth and shrinkage as numbers", "--bandwidth and --shrinkage (also --alpha) as numbers"),
    (r"\bmask='observed'", "--observed"),
    (r"\b(scores?) in Y\b", r"\1 of --links"),
    (r"encode them \(sklearn\S* .*?\), convert", "encode them as numbers, convert"),
    (r"^A has (\d+) similarities", r"--left-similarity or --predict has \1 similarities"),
    (r"^B has (\d+) similarities", r"--right-similarity has \1 similarities"),
    (r"a smaller cv, or", "more links, or"),
    (r"\bbandwidth=", "--bandwidth "),
    (r"\breduction='(\w+)'", r"--reduction \1"),
    (r"; without mask absent", "; without --observed absent"),
    (r"\bentities of A\b", "entities of --left"),
    (r"\bentities of B\b", "entities of --right"),
    (r"\bof A and Y\b", "of --left and --links"),
    (r"\bof B and Y\b", "of --right and --links"),
    (r"\bA has (\d+) features and B\b", r"--left has \1 features and --right"),
    (r"^A is (not|zero)", r"--left-similarity is \1"),
    (r"^B is (not|zero)", r"--right-similarity is \1"),
    (r"\(([AB]) \+ \1\.T\) / 2", "the mean of the table and its transpose"),
    (r" \([AB] \+ \S+ \* np\.eye\(\d+\)\)", ""),
    (r"give colspace\.pairs\.spectral_features\([AB]\) as features", "give features instead"),
    (r"^A (contains|has)\b", r"--left or --predict \1"),
    (r"(, |covariance of )A (has|is)\b", r"\1--left \2"),
    (r"(, |covariance of )B (has|is)\b", r"\1--right \2"),
    (r"Drop them to silence this", "Leave them out of the table to silence this"),
    (r"^B (contains|has)\b", r"--right \1"),
)


def _words(text: str) -> str:
    for pattern, option in _PHRASES:
        text = re.sub(pattern, option, text)
    return in_options(text)


class _Widths(ParamType):
    """One bandwidth, two with a comma, or auto."""

    name = "X|X,X|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto" or isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) not in (1, 2):
            self.fail(f"{value!r} is neither a number, nor two with a comma, nor auto", param, ctx)
        return numbers * 2 if len(numbers) == 1 else numbers


@click.command("pairs")
@click.option("--left", metavar="TABLE", help="Left entities: id in the first column, then features.")
@click.option("--right", metavar="TABLE", help="Right entities, likewise.")
@click.option(
    "--left-similarity",
    metavar="TABLE",
    help="In the place of --left: id in the first column, then the similarity to each left entity.",
)
@click.option("--right-similarity", metavar="TABLE", help="In the place of --right, likewise.")
@click.option(
    "--links",
    required=True,
    metavar="TABLE",
    help="Known links: left id, right id, and a score if there is one.",
)
@click.option(
    "--predict",
    "new",
    metavar="TABLE",
    help="Left entities to find partners for, as --left or --left-similarity; without it, those of --left.",
)
@click.option(
    "--target",
    type=click.Choice(["new-left", "new-right", "new-both", "entries"]),
    help="What is tuned for: partners of left or right entities without links, of two such, or further links.  "
    "[default: new-left with --predict, else entries]",
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Partners of each entity.")
@click.option("--exclude-known", is_flag=True, help="Leave out pairs that are in --links.")
@click.option(
    "--probability", is_flag=True, help="Add probabilities of a link, calibrated on held-out pairs."
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    callback=distinct,
    metavar="COLUMN",
    help="Column of ids in tables of entities; repeatable, where they are called otherwise.  [default: the first]",
)
@na_option
@out_option("them", required=True)
@click.option(
    "--method",
    type=click.Choice(["ridge", "joint"]),
    default="ridge",
    show_default=True,
    help="Kernel ridge regression, or joint reduction and kernel regression.",
)
@click.option(
    "-r",
    "--components",
    type=click.IntRange(1),
    help="Directions per side.  [default: found by ridge; 10, or the number of features, by joint]",
)
@click.option(
    "--reduction",
    type=click.Choice(["auto", "none", "joint", "pca", "phd", "cphd", "sols"]),
    default="auto",
    show_default=True,
    help="How coordinates are found, if at all.",
)
@click.option(
    "--bandwidth",
    type=_Widths(),
    default="auto",
    show_default=True,
    help="Kernel widths, left and right, relative to the median distance; auto tunes.",
)
@click.option(
    "--alpha",
    type=_Widths(),
    default="auto",
    show_default=True,
    help="Ridges, left and right; auto tunes.",
)
@click.option(
    "--shrinkage",
    type=NumberOr(float, "auto"),
    default="auto",
    show_default=True,
    help="Weight of the identity in the correlations of the features; auto tunes.",
)
@click.option("--impute", is_flag=True, help="Fill gaps in features.")
@click.option("--observed", is_flag=True, help="Pairs that are not in --links are unknown instead of zero.")
@click.option("--drop-unknown", is_flag=True, help="Leave out links with ids that no table has.")
@click.option(
    "--duplicates",
    type=click.Choice(["raise", "sum", "max", "mean"]),
    default="raise",
    show_default=True,
    help="What to do with links that stand twice.",
)
@check_option("How good the ranks are on entities or links left out, beside rivals")
@result_options("the folds")
@encoding_option
@one_line_errors(_words)
def command(
    left: str | None,
    right: str | None,
    left_similarity: str | None,
    right_similarity: str | None,
    links: str,
    new: str | None,
    target: str | None,
    top: int,
    exclude_known: bool,
    probability: bool,
    ids: tuple[str, ...],
    marks: tuple[str, ...],
    out: str,
    method: str,
    components: int | None,
    reduction: str,
    bandwidth: Any,
    alpha: Any,
    shrinkage: Any,
    impute: bool,
    observed: bool,
    drop_unknown: bool,
    duplicates: str,
    check: bool,
    seed: int,
    model: str | None,
    report: str | None,
    as_json: str | None,
    quiet: bool,
    encoding: str | None,
) -> None:
    """Rank the partners of entities by their features and the links of others.

    Tables are CSV, TSV, JSON lines, Parquet or Arrow files or pipes, folders or 'patterns' of such files, and one of them may be -
    for standard input. Ids are text, and written as they are, also those that a
    spreadsheet would run as a formula. Absent links count as zero, so any list of links will do. What is found is
    judged on entities left out, beside popularity, nearest neighbours and, for further links, a factorisation.

    \b
    Example:
      colspace pairs --left diseases.csv --right genes.csv --links links.csv \\
          --predict new_diseases.csv --top 20 --out top.csv
    """
    given = {
        "--left": left,
        "--left-similarity": left_similarity,
        "--right": right,
        "--right-similarity": right_similarity,
        "--links": links,
        "--predict": new,
    }
    check_files(
        list(given.values()),
        tables=[("--out", out)],
        models=[("--save", model)],
        report=report,
        as_json=as_json,
    )
    from ..io import save, write_table
    from ..pairs import link_matrix
    from ..pairs._features import check_features
    from ..pairs._similarity import check_new_similarities
    from ._say import note, step, write_json

    with warnings_on_stderr("Note"):
        sources = open_tables(given, ids, marks, encoding)
        A, B, wanted, metric = _sides(sources)
        ends, scores = links_of(sources["--links"])
        Y = link_matrix(
            *ends,
            scores,
            left_ids=list(A.index),
            right_ids=list(B.index),
            unknown="drop" if drop_unknown else "raise",
            duplicates=duplicates,
        )
    if wanted is not None and metric["left"] == "precomputed":  # before a long search
        check_new_similarities(wanted, "left", len(A), A.index)
    elif wanted is not None and not impute:
        check_features(wanted, "left")
    settings = {
        "reduction": reduction,
        "components": components,
        "alpha": alpha,
        "bandwidth": bandwidth,
        "shrinkage": shrinkage,
        "impute": impute,
        "calibrate": probability,
        "n_top": max(top, 10),
        "random_state": seed,
    }
    target = target or ("entries" if wanted is None else "new-left")
    estimator = _estimator(method, target, metric, settings, min(A.shape[1], B.shape[1]))
    mask = "observed" if observed else None
    with warnings_on_stderr("Warning", _words) as notes:
        with step("fitting"):
            estimator.fit(A, B, Y, mask)
        with step("checking on what is left out"):
            quality = None if not check else _quality(estimator, A, B, Y, mask, min(top, len(B)))
    if check and quality is None:
        note("nothing that is left out has a link to be found, so the ranks are not judged")
    if top > len(B):
        note(f"--top {top} is more than the {len(B)} right entities; all of them are ranked")
    ranked = estimator.rank(wanted, k=min(top, len(B)), exclude_known=exclude_known)
    names = {"left": A.index.name, "right": B.index.name} if A.index.name != B.index.name else {}
    fixed = ("rank", "score", "known", "probability")
    if not any(name in fixed or name.startswith("Unnamed: ") for name in names.values()):
        ranked = ranked.rename(columns=names)
    write_table(ranked, out)
    about = _about(links, A, metric, Y, target, quality, seed)
    if model is not None:
        told = {"warnings": list(notes), "line": given_command(), "settings": settings_of(estimator)}
        save(estimator, model, about=about | told)
    if report is not None:
        from ..report import write_report
        from ..report._partners import partners_report

        page = partners_report(
            estimator,
            ranked,
            source=Path(links).name,
            shape=Y.shape,
            links=int(Y.nnz),
            settings=settings_of(estimator),
            tables={Path(path).name: table for path, table in ((left, A), (right, B)) if path is not None},
            wanted=wanted,
            quality=quality,
            facts={"links from": Path(links).name, "target": target, "seed": seed},
            notes=notes,
            command=given_command(),
        )
        write_report(page, report)
    write_json(about | {"settings": settings_of(estimator)}, as_json)
    count = len(A if wanted is None else wanted)
    files = {"partners": out, "model": model, "report": report, "JSON": as_json}
    _print_report(estimator, Y, ranked, count, quality, min(top, len(B)), files)


def _about(links: str, A: Any, metric: Any, Y: Any, target: str, quality: Any, seed: int) -> dict[str, Any]:
    """What a saved model says of the fit."""
    import math

    told: dict[str, Any] = {
        "command": "pairs",
        "links_table": Path(links).name,
        "entities": list(Y.shape),
        "links": int(Y.nnz),
        "target": target,
        "seed": seed,
    }
    if metric["left"] != "precomputed":
        told["left_columns"] = [str(name) for name in A.columns]
    if quality is not None:
        told["held_out"] = [
            {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
            for row in quality.to_dict("records")
        ]
    return told


def _sides(sources: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Tables of both sides and of the entities to rank, and their metrics."""
    found, metric = {}, {}
    for side in ("left", "right"):
        features, given = f"--{side}", f"--{side}-similarity"
        if (features in sources) == (given in sources):
            msg = f"give the {side} entities by {features} (features) or by {given}, one of them"
            raise ValueError(msg)
        metric[side] = "precomputed" if given in sources else "auto"
        read = similarities if given in sources else entities
        what = given if given in sources else features
        found[side] = read(sources[what])
    wanted = None
    if "--predict" in sources:
        like = found["left"]
        if metric["left"] == "precomputed":
            wanted = similarities(sources["--predict"], like.index)
        else:
            wanted = entities(sources["--predict"], like)
    return found["left"], found["right"], wanted, metric


def _estimator(method: str, target: str, metric: Any, given: dict[str, Any], most: int) -> Any:
    """The model that the options describe."""
    from ..pairs import KernelPairRegressor, PairRegressor

    reduction = given.pop("reduction")
    components, alpha = given.pop("components"), given.pop("alpha")
    if method == "ridge":
        if reduction not in ("auto", "none", "joint", "pca"):
            msg = f"--reduction {reduction} goes with --method joint; kernel ridge takes auto, none, joint or pca"
            raise ValueError(msg)
        return KernelPairRegressor(
            target,
            metric=metric,
            alpha=alpha,
            reduction=None if reduction == "none" else reduction,
            n_components="auto" if components is None else components,
            **given,
        )
    if target not in ("new-left", "entries"):
        msg = f"--target {target} goes with --method ridge; joint reduction and kernel regression is for new left entities"
        raise ValueError(msg)
    if reduction == "none":
        msg = "--reduction none goes with --method ridge; give joint, pca, phd, cphd or sols"
        raise ValueError(msg)
    if alpha != "auto":
        msg = f"--alpha {alpha} is a ridge, and goes with --method ridge"
        raise ValueError(msg)
    kinds = set(metric.values())
    if len(kinds) > 1:
        msg = "--method joint takes features of both sides or similarities of both; use --method ridge"
        raise ValueError(msg)
    return PairRegressor(
        components if components is not None else min(10, most),
        metric="precomputed" if kinds == {"precomputed"} else "features",
        reduction="joint" if reduction == "auto" else reduction,
        **given,
    )


def _quality(estimator: Any, A: Any, B: Any, Y: Any, mask: Any, k: int) -> Any:
    """Held-out quality, free from the tuning: by the formulas of kernel ridge, or by fits to thirds of the entities."""
    if hasattr(estimator, "held_out_quality"):
        judged = estimator.held_out_quality(k)
        return judged if len(judged) else None
    import pandas as pd

    from ..pairs._refit_quality import refit_quality

    found = refit_quality(estimator, A, B, Y, mask, k)
    return pd.DataFrame(found) if found else None


def _print_report(
    estimator: Any, Y: Any, ranked: Any, n: int, quality: Any, top: int, files: dict[str, str | None]
) -> None:
    from rich.markup import escape
    from rich.table import Table

    from ._say import console as console_of
    from ._say import print_written

    console = console_of(files["partners"], files["JSON"])
    share = 100 * Y.nnz / (Y.shape[0] * Y.shape[1])
    console.print(
        f"{Y.shape[0]} x {Y.shape[1]} entities, {Y.nnz} links ({share:.2f} % of pairs); {settings_of(estimator)}"
    )
    if quality is not None:
        notes = f"recall at {top}" if "recall" in quality else "error: root mean squared"
        table = Table(title=f"Held out, free from the tuning ({notes})", title_justify="left")
        for column in quality.columns:
            table.add_column(column, justify="left" if column == "method" else "right")
        for row in quality.itertuples(index=False):
            table.add_row(row[0], *(f"{value:.3f}" for value in row[1:]))
        console.print(table)
    table = Table(title=f"{n} entities ranked; the first of them", title_justify="left")
    first, _, second = ranked.columns[:3]
    table.add_column(escape(str(first)))
    table.add_column(escape(f"best {second}, with score"))
    for name in list(dict.fromkeys(ranked[first]))[:_SHOWN]:
        best = ranked[ranked[first] == name].head(5)
        cells = [f"{p} {s:.3g}" for p, s in zip(best[second], best["score"], strict=True)]
        table.add_row(escape(str(name)), escape(", ".join(cells)))
    console.print(table)
    print_written(console, **files)


def settings_of(estimator: Any) -> str:
    """The settings found, in words."""
    left, right = (estimator.bandwidth_[side] for side in ("left", "right"))
    widths = f"bandwidths {left:g} and {right:g} of the median distance"
    heavy = [side for side, names in getattr(estimator, "metric_", {}).items() if "multiquadric" in names]
    widths += f" with heavy tails ({' and '.join(heavy)})" if heavy else ""
    if not hasattr(estimator, "alpha_"):
        return (
            f"{estimator.reduction} reduction to {estimator.n_components_} directions, shrinkage {estimator.shrinkage_:g}, "
            f"{widths}"
        )
    front = "no reduction"
    if estimator.reduction_ is not None:
        front = f"{estimator.reduction_} reduction to {estimator.n_components_} directions"
    a, b = (estimator.alpha_[side] for side in ("left", "right"))
    shares = [estimator.profile_[side] for side in ("left", "right")]
    profiles = f", links' own kernel {shares[0]:g} and {shares[1]:g}" if any(shares) else ""
    signs = ", positive weights only" if any(estimator.positive_.values()) else ""
    return f"kernel ridge for {estimator.target}, {front}, {widths}, ridges {a:g} and {b:g}{profiles}{signs}"
