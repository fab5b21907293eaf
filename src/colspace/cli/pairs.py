"""``colspace pairs``: the likeliest partners of entities."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from . import _options as options
from ._files import check_files, given_command
from ._group import one_line_errors
from ._levels import words_note
from ._marks import marks_told
from ._options import NumberOr, option
from ._pairs_say import print_report, settings_of
from ._pairs_tables import features, links_of, open_tables, similarities
from ._words import phrased, warnings_on_stderr

_PHRASES = (
    ("unknown='drop'", "--drop-unknown"),
    ("exchange the two sides", "exchange --left and --right"),
    ("duplicates='sum', 'max' or 'mean'", "--duplicates sum, max or mean"),
    (r"colspace\.CopulaImputer can fill them: .*", "--impute fills them."),
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
    (r"\b(bandwidth|alpha)=\((\S+), (\S+)\)", r"--\1 \2,\3"),
    (r"\b(bandwidth|alpha)=", r"--\1 "),
    (r"\breduction='(\w+)'", r"--reduction \1"),
    (r"\breduction=None", "--reduction none"),
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


_words = phrased(_PHRASES)


class _Widths(options.ParamType):
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
@options.named("--left", "TABLE", "Left entities: id in the first column, then features.")
@options.named("--right", "TABLE", "Right entities, likewise.")
@options.named(
    "--left-similarity",
    "TABLE",
    "In the place of --left: id in the first column, then the similarity to each left entity.",
)
@options.named("--right-similarity", "TABLE", "In the place of --right, likewise.")
@options.named(
    "--links", "TABLE", "Known links: left id, right id, and a score if there is one.", required=True
)
@options.named(
    "--predict new",
    "TABLE",
    "Left entities to find partners for, as --left or --left-similarity; without it, those of --left.",
)
@click.option(
    "--target",
    type=click.Choice(["new-left", "new-right", "new-both", "entries"]),
    help="What is tuned for: partners of left or right entities without links, of two such, or further links.  "
    "[default: new-left with --predict, else entries]",
)
@option("--top", click.IntRange(1), 20, "Partners of each entity.")
@options.flag("--exclude-known", "Leave out pairs that are in --links.")
@options.flag("--probability", "Add probabilities of a link, calibrated on held-out pairs.")
@options.many(
    "--id ids",
    "COLUMN",
    "Column of ids in tables of entities; repeatable, where they are called otherwise.  [default: the first]",
)
@options.drop_option
@options.na_option
@options.out_option("them", required=True)
@option(
    "--method",
    ["ridge", "joint"],
    "ridge",
    "Kernel ridge regression, or joint reduction and kernel regression.",
)
@click.option(
    "-r",
    "--components",
    type=click.IntRange(1),
    help="Directions per side.  [default: found by ridge; 10, or the number of features, by joint]",
)
@option(
    "--reduction",
    ["auto", "none", "joint", "pca", "phd", "cphd", "sols"],
    "auto",
    "How coordinates are found, if at all.",
)
@option(
    "--bandwidth",
    _Widths(),
    "auto",
    "Kernel widths, left and right, relative to the median distance; auto tunes.",
)
@option("--alpha", _Widths(), "auto", "Ridges, left and right; auto tunes.")
@option(
    "--shrinkage",
    NumberOr(float, "auto"),
    "auto",
    "Weight of the identity in the correlations of the features; auto tunes.",
)
@options.flag("--impute", "Fill gaps in features.")
@options.flag("--observed", "Pairs that are not in --links are unknown instead of zero.")
@options.flag("--drop-unknown", "Leave out links with ids that no table has.")
@option("--duplicates", ["raise", "sum", "max", "mean"], "raise", "What to do with links that stand twice.")
@options.check_option("How good the ranks are on entities or links left out, beside rivals")
@options.result_options("the folds")
@options.encoding_option
@one_line_errors(_words)
def command(**given: Any) -> None:
    """Rank the partners of entities by their features and the links of others.

    Tables are CSV, TSV, JSON lines, Parquet or Arrow files or pipes, folders or 'patterns' of such files, and one of them may be -
    for standard input. Features are numbers, or words of 2 to 20 levels, which become indicators. Ids are text, and written as they are, also those that a
    spreadsheet would run as a formula. Absent links count as zero, so any list of links will do. What is found is
    judged on entities left out, beside popularity, nearest neighbours and, for further links, a factorisation.

    \b
    Example:
      colspace pairs --left diseases.csv --right genes.csv --links links.csv \\
          --predict new_diseases.csv --top 20 --out top.csv
    """
    asked = SimpleNamespace(**given)
    others = ("left", "left-similarity", "right", "right-similarity", "links")
    paths = {f"--{name}": given[name.replace("-", "_")] for name in others} | {"--predict": asked.new}
    files = {"model": asked.model, "report": asked.report}
    check_files(list(paths.values()), out=[asked.out], as_json=asked.as_json, **files)
    from ..io import save, write_table
    from ..pairs._features import check_features
    from ..pairs._similarity import check_new_similarities
    from ._say import note, step, write_json

    with warnings_on_stderr("Note"):
        sources = open_tables(paths, asked.ids, asked.marks, asked.encoding, asked.drop)
        A, B, wanted, metric, words = _sides(sources)
        Y = _links(sources["--links"], A, B, asked)
    for text in words:
        note(text)
    if wanted is not None and metric["left"] == "precomputed":  # before a long search
        check_new_similarities(wanted, "left", len(A), A.index)
    elif wanted is not None and not asked.impute:
        check_features(wanted, "left")
    target = asked.target or ("entries" if wanted is None else "new-left")
    estimator = _estimator(asked, target, metric, min(A.shape[1], B.shape[1]))
    mask, top = "observed" if asked.observed else None, min(asked.top, len(B))
    with warnings_on_stderr("Warning", _words) as notes:
        with step("fitting"):
            estimator.fit(A, B, Y, mask)
        with step("checking on what is left out"):
            quality = None if not asked.check else _quality(estimator, A, B, Y, mask, top)
    if asked.check and quality is None:
        note("nothing that is left out has a link to be found, so the ranks are not judged")
    if asked.top > len(B):
        note(f"--top {asked.top} is more than the {len(B)} right entities; all of them are ranked")
    ranked = _named(estimator.rank(wanted, k=top, exclude_known=asked.exclude_known), A, B)
    write_table(ranked, asked.out)
    said = [*words, *notes]
    about = _about(asked.links, (A, B), metric, Y, target, quality, asked.seed)
    about |= {"recall_at": top} if quality is not None and "recall" in quality else {}
    if asked.model is not None:
        told = {"warnings": said, "line": given_command(), "settings": settings_of(estimator)}
        save(estimator, asked.model, about=about | marks_told(asked.marks) | told)
    if asked.report is not None:
        code = "" if words else _code(estimator, A, B, wanted, asked)
        _write_page(estimator, ranked, (A, B, Y, wanted), quality, target, said, code, asked)
    write_json(about | {"settings": settings_of(estimator)}, asked.as_json)
    count = len(A if wanted is None else wanted)
    files = {"partners": asked.out, **files, "JSON": asked.as_json}
    print_report(estimator, Y, ranked, count, quality, top, files)


def _links(source: Any, A: Any, B: Any, asked: SimpleNamespace) -> Any:
    """The matrix of links between the rows of A and B."""
    from ..pairs import link_matrix

    ends, scores = links_of(source)
    return link_matrix(
        *ends,
        scores,
        left_ids=list(A.index),
        right_ids=list(B.index),
        unknown="drop" if asked.drop_unknown else "raise",
        duplicates=asked.duplicates,
    )


def _named(ranked: Any, A: Any, B: Any) -> Any:
    """The ranks, with columns called as those of ids are, where that leaves every name once."""
    return ranked.rename(columns=_names(A, B))


def _names(A: Any, B: Any) -> dict[str, str]:
    """What the columns of left and right entities are called in results, unless left and right."""
    names = {"left": A.index.name, "right": B.index.name} if A.index.name != B.index.name else {}
    fixed = ("rank", "score", "known", "probability")
    taken = any(name in fixed or name.startswith("Unnamed: ") for name in names.values())
    return {} if taken else names


def _write_page(
    estimator: Any,
    ranked: Any,
    data: tuple[Any, Any, Any, Any],
    quality: Any,
    target: str,
    notes: list[str],
    code: str,
    asked: SimpleNamespace,
) -> None:
    from ..report import write_report
    from ..report._partners import partners_report

    A, B, Y, wanted = data
    name = Path(asked.links).name
    sides = ((asked.left, A), (asked.right, B))
    page = partners_report(
        estimator,
        ranked,
        source=name,
        shape=Y.shape,
        links=int(Y.nnz),
        settings=settings_of(estimator),
        tables={Path(path).name: table for path, table in sides if path is not None},
        wanted=wanted,
        quality=quality,
        at=min(asked.top, len(B)),
        facts={"links from": name, "target": target, "seed": asked.seed},
        notes=notes,
        command=given_command(),
        python=code,
    )
    write_report(page, asked.report)


def _code(estimator: Any, A: Any, B: Any, wanted: Any, asked: SimpleNamespace) -> str:
    """The fit in Python, where tables are files of features and are taken as they are."""
    paths = [asked.left, asked.right, asked.links]
    changed = asked.marks or asked.drop or asked.drop_unknown or asked.observed or asked.encoding
    if None in paths or "-" in (*paths, asked.new) or changed or asked.duplicates != "raise":
        return ""
    from ..io import read_table
    from ._python import pairs_code

    ids = str(A.index.name), str(B.index.name)
    ends = [str(name) for name in read_table(asked.links).columns]
    new = None if asked.new is None else (asked.new, str(wanted.index.name))
    return pairs_code(
        estimator, (asked.left, asked.right, asked.links), ids, ends, min(asked.top, len(B)), new
    )


def _about(
    links: str, sides: Any, metric: Any, Y: Any, target: str, quality: Any, seed: int
) -> dict[str, Any]:
    """What a saved model says of the fit."""
    import math

    told: dict[str, Any] = {
        "command": "pairs",
        "links_table": Path(links).name,
        "entities": list(Y.shape),
        "links": int(Y.nnz),
        "target": target,
        "seed": seed,
        "names": _names(*sides),
    }
    if metric["left"] != "precomputed":
        told["left_columns"] = [str(name) for name in sides[0].columns]
    if quality is not None:
        told["held_out"] = [
            {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
            for row in quality.to_dict("records")
        ]
    return told


def _sides(sources: dict[str, Any]) -> tuple[Any, Any, Any, Any, list[str]]:
    """Tables of both sides and of the entities to rank, their metrics, and what to say of columns of words."""
    found: dict[str, Any] = {}
    metric: dict[str, str] = {}
    words: list[str] = []
    for side in ("left", "right"):
        table, given = f"--{side}", f"--{side}-similarity"
        if (table in sources) == (given in sources):
            msg = f"give the {side} entities by {table} (features) or by {given}, one of them"
            raise ValueError(msg)
        metric[side] = "precomputed" if given in sources else "auto"
        if given in sources:
            found[side] = similarities(sources[given])
        else:
            found[side], made = features(sources[table])
            if made:
                words.append(f"{Path(sources[table].path).name}: {words_note(made)}")
    wanted = None
    if "--predict" in sources:
        like = found["left"]
        if metric["left"] == "precomputed":
            wanted = similarities(sources["--predict"], like.index)
        else:
            wanted, _ = features(sources["--predict"], like)
    return found["left"], found["right"], wanted, metric, words


def _estimator(asked: SimpleNamespace, target: str, metric: Any, most: int) -> Any:
    """The model that the options describe."""
    from ..pairs import KernelPairRegressor, PairRegressor

    shared = {
        "bandwidth": asked.bandwidth,
        "shrinkage": asked.shrinkage,
        "impute": asked.impute,
        "calibrate": asked.probability,
        "n_top": max(asked.top, 10),
        "random_state": asked.seed,
    }
    reduction, components, alpha = asked.reduction, asked.components, asked.alpha
    if asked.method == "ridge":
        if reduction not in ("auto", "none", "joint", "pca"):
            msg = f"--reduction {reduction} goes with --method joint; kernel ridge takes auto, none, joint or pca"
            raise ValueError(msg)
        return KernelPairRegressor(
            target,
            metric=metric,
            alpha=alpha,
            reduction=None if reduction == "none" else reduction,
            n_components="auto" if components is None else components,
            **shared,
        )
    if target not in ("new-left", "entries"):
        msg = f"--target {target} goes with --method ridge; joint reduction and kernel regression is for new left entities"
        raise ValueError(msg)
    if reduction == "none":
        msg = "--reduction none goes with --method ridge; give joint, pca, phd, cphd or sols"
        raise ValueError(msg)
    if alpha != "auto":
        msg = f"--alpha {','.join(f'{a:g}' for a in alpha)} is a ridge, and goes with --method ridge"
        raise ValueError(msg)
    kinds = set(metric.values())
    if len(kinds) > 1:
        msg = "--method joint takes features of both sides or similarities of both; use --method ridge"
        raise ValueError(msg)
    return PairRegressor(
        components if components is not None else min(10, most),
        metric="precomputed" if kinds == {"precomputed"} else "features",
        reduction="joint" if reduction == "auto" else reduction,
        **shared,
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
