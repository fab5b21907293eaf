"""The book of reproduction: every experiment run once, every claim judged, one page a paper and one over all."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..datasets._real import FOLDER
from ..io._files import directory, write_text
from ._claims import NO_DATA, PAPERS, VERDICTS, Claim, Paper, Verdict, judge, read_paper

_RULE = (
    "A number *holds* within two standard errors or 3 % of the published one (or the stated tolerance), else it *differs*. An order or a bound *holds* "
    "if it does in the mean of every comparison, *fails* if one goes the other way by more than two standard errors, and *differs* in between. "
    "That there is no difference *holds* within two standard errors or 3 % (or the stated tolerance), else it *differs*. "
    "*Not reproducible here* names what is missing. Verdicts are computed from the run. After ± stands a standard error, in brackets the paper's "
    "own spread over its runs, or its rounding."
)
_FEW = 3  # numbers of one place that lack their data and are printed


@dataclass(frozen=True)
class Outcome:
    """What a target gave: its rows and remarks, or what it lacked."""

    name: str
    rows: list[dict[str, Any]] | None
    size: str = ""
    stand_in: bool = False
    cpu: float = 0.0
    lacks: str = ""
    notes: Sequence[str] = ()
    quick: bool = False


def run_all(
    out: Path,
    *,
    quick: bool = False,
    rng: int = 0,
    progress: bool = False,
    names: Iterable[str] | None = None,
    told: Callable[[Outcome, bool], None] = lambda outcome, again: None,
) -> list[Outcome]:
    """Run the experiments into ``out``; one whose ``<name>.json`` has the same version, size and seed is read, not run.

    ``told`` hears of every outcome, and whether it was run now.
    """
    from . import EXPERIMENTS

    found = []
    for name in EXPERIMENTS if names is None else names:
        key = {"version": __version__, "quick": quick, "seed": rng}
        outcome = _stored(out / f"{name}.json", key)
        now = outcome is None
        if outcome is None:
            outcome = _run(name, out, key, progress=progress)
        told(outcome, now)
        found.append(outcome)
    return found


def _stored(path: Path, key: Mapping[str, Any]) -> Outcome | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or data.get("key") != key:
        return None
    return Outcome(**{**data["outcome"], "quick": key["quick"]})


def _run(name: str, out: Path, key: Mapping[str, Any], *, progress: bool) -> Outcome:
    from . import run

    start = time.process_time()
    try:
        result = run(name, quick=key["quick"], out=out, rng=key["seed"], progress=progress)
    except FileNotFoundError as error:
        return Outcome(name, None, lacks=_anywhere(str(error)))
    cpu = round(time.process_time() - start, 1)
    notes, quick = [_anywhere(note) for note in result.notes], bool(key["quick"])
    outcome = Outcome(name, result.rows, result.size, result.stand_in, cpu, notes=notes, quick=quick)
    with directory(out):
        text = json.dumps(
            {"key": dict(key), "outcome": outcome.__dict__}, indent=0, allow_nan=True, default=_plain
        )
        write_text(text, out / f"{name}.json")
    return outcome


def _anywhere(text: str) -> str:
    """The text without the place of the data on this machine."""
    folder = os.environ.get(FOLDER)
    return text.replace(str(Path(folder)), FOLDER) if folder else text


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


# ---------------------------------------------------------------------- pages


def verdicts(paper: Paper, outcomes: Sequence[Outcome]) -> list[tuple[Claim, Verdict]]:
    """Every claim of a paper with its verdict; a target that was not asked for gives none."""
    known = {outcome.name: outcome for outcome in outcomes}
    found = []
    for claim in paper.claims:
        if claim.missing:
            found.append((claim, judge(claim, None)))
        elif claim.target in known:
            outcome = known[claim.target]
            found.append((claim, judge(claim, outcome.rows, stand_in=outcome.stand_in)))
    return found


def write_book(
    out: Path, outcomes: Sequence[Outcome], *, quick: bool, papers: Sequence[Paper] | None = None
) -> Counter[str]:
    """``index.md`` and a page a paper; the counts by verdict."""
    papers = [read_paper(number) for number in PAPERS] if papers is None else papers
    judged = {paper.number: verdicts(paper, outcomes) for paper in papers}
    with directory(out):
        for paper in papers:
            write_text(paper_page(paper, judged[paper.number], outcomes), out / f"paper-{paper.number}.md")
        write_text(index_page(papers, judged, outcomes, quick=quick), out / "index.md")
    return Counter(verdict.verdict for pairs in judged.values() for _, verdict in pairs)


def index_page(
    papers: Sequence[Paper],
    judged: Mapping[str, Sequence[tuple[Claim, Verdict]]],
    outcomes: Sequence[Outcome],
    *,
    quick: bool,
) -> str:
    """Counts by paper and verdict, what every target cost, and all claims that do not hold."""
    lines = ["# Book of reproduction", "", _RULE, ""]
    command = "colspace reproduce --all" + (" --quick" if quick else "")
    lines += [f"Made by `{command}`, colspace {__version__}.", ""]
    short = [outcome.name for outcome in outcomes if outcome.quick]
    if short and not quick:
        lines += [f"Of a quick run, with fewer repetitions on smaller grids: {', '.join(short)}.", ""]
    counts = []
    for paper in papers:
        count = Counter(verdict.verdict for _, verdict in judged[paper.number])
        counts.append(
            [f"[{paper.number}](paper-{paper.number}.md)", paper.title, *(str(count[v]) for v in VERDICTS)]
        )
    lines += _table(["paper", "title", *VERDICTS], counts)
    lines += ["", "## Targets", ""]
    lines += _table(
        ["target", "size", "CPU s"],
        [
            [
                o.name,
                _size(o) if o.rows is not None else o.lacks,
                f"{o.cpu:.0f}" if o.rows is not None else "",
            ]
            for o in outcomes
        ],
    )
    lines += ["", "## What does not hold", ""]
    rows = [
        [
            paper.number,
            claim.place,
            claim.says,
            *_published(claim),
            verdict.ours,
            verdict.verdict,
            _why(claim, verdict),
        ]
        for paper in papers
        for claim, verdict in judged[paper.number]
        if verdict.verdict in ("differs", "fails")
    ]
    lines += _table(["paper", "place", "claim", "published", "ours", "verdict", "why"], rows)
    return "\n".join(lines) + "\n"


def paper_page(paper: Paper, pairs: Sequence[tuple[Claim, Verdict]], outcomes: Sequence[Outcome]) -> str:
    """A section a target, with its picture and the claims it answers, and what is not computed here."""
    count = Counter(verdict.verdict for _, verdict in pairs)
    lines = [f"# {paper.number}: {paper.title}", "", _RULE, ""]
    lines += [", ".join(f"{count[v]} {v}" for v in VERDICTS) + ".", "", "[All papers](index.md)"]
    known = {outcome.name: outcome for outcome in outcomes}
    for name in dict.fromkeys(claim.target for claim, _ in pairs if claim.target):
        lines += _section(paper, known[name], [pair for pair in pairs if pair[0].target == name])
    missing = [(claim, verdict) for claim, verdict in pairs if not claim.target]
    if missing:
        lines += ["", "## Not computed here", ""]
        lines += _table(
            ["place", "claim", "published", "why"],
            [[c.place, c.says, *_published(c), v.note] for c, v in missing],
        )
    return "\n".join(lines) + "\n"


def _size(outcome: Outcome) -> str:
    """How much was run; a quick run is said to be one."""
    size = outcome.size or "One run"
    return f"Quick run: {size}" if outcome.quick else size


def _section(paper: Paper, outcome: Outcome, pairs: Sequence[tuple[Claim, Verdict]]) -> list[str]:
    """What was run and how it differs from the paper, the picture, and every claim."""
    name = outcome.name
    lines = ["", f"## {name}", ""]
    if outcome.rows is None:
        lines += [f"Not run: {outcome.lacks}", ""]
    else:
        parts = [f"{_size(outcome)}, {outcome.cpu:.0f} s of CPU."]
        if name in paper.sizes:
            parts.append(f"The paper: {paper.sizes[name]}.")
        if outcome.stand_in:
            parts.append("Other data stand in for the published.")
        if name in paper.differences:
            parts.append(f"Other than in the paper: {paper.differences[name]}.")
        lines += [" ".join(parts), "", f"![{name}]({name}.png)", ""]
        lines += [f"- {note}" for note in outcome.notes] + [""] * bool(outcome.notes)
    head = ["place", "claim", "target", "published", "ours", "evidence", "verdict", "why"]
    rows, gone = [], Counter[str]()
    for c, v in pairs:
        if v.note == NO_DATA:
            gone[c.place] += 1
        if v.note != NO_DATA or gone[c.place] <= _FEW:
            rows.append([c.place, c.says, c.target, *_published(c), v.ours, v.note, v.verdict, _why(c, v)])
    for place, number in gone.items():
        if number > _FEW:
            rest = f"{number - _FEW} more number" + "s" * (number > _FEW + 1)
            rows.append([place, rest, name, "", "", NO_DATA, VERDICTS[3], ""])
    return lines + _table(head, rows)


def _published(claim: Claim) -> list[str]:
    if claim.published is None:
        return [{"below": "an order", "like": "no difference"}.get(claim.rule, "")]
    sign = {"at_most": "≤ ", "at_least": "≥ "}.get(claim.rule, "")
    error = f" ± {claim.published_error:g}" if claim.published_error else ""
    error += f" ({claim.published_sd:g})" if claim.published_sd else ""
    return [f"{sign}{claim.published:g}{error}"]


def _why(claim: Claim, verdict: Verdict) -> str:
    return claim.why.get(verdict.verdict, "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(head), line(["---"] * len(head)), *(line(row) for row in rows)]
