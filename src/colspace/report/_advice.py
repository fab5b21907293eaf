"""Which commands fit tables, written out so that they can be pasted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from ._profile import FEW, Column, Profile

FILLED = "filled.csv"
_KNOWN = 0.5  # share of links whose entities are known
_MANY = 50  # different words that a filled table may cost little
# what responses are called, the surest first, as a name or a word within it
_NAMES = (
    *("y", "target", "label", "labels", "outcome", "response", "class"),
    *(
        "diagnosis",
        "survived",
        "died",
        "churn",
        "fraud",
        "fraudulent",
        "default",
        "species",
        "price",
        "sales",
    ),
    *("income", "wage", "wages", "salary", "earnings", "quality", "rating"),
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PREFIX = re.compile(r"^(.+?)[_.:-]")


@dataclass(frozen=True)
class Advice:
    """A command that fits, and why."""

    why: str
    command: list[str]

    @property
    def line(self) -> str:
        """The command as it can be pasted."""
        return shlex.join(self.command)


def advise(
    profiles: Sequence[Profile], frames: Mapping[str, Any], options: Sequence[str] = ()
) -> list[Advice]:
    """Commands that fit the tables, the first first; ``options`` are what it takes to read them."""
    found = [*_pairs_advice(profiles, frames), *_joined_advice(profiles, frames)]
    together = {part for advice in found for part in advice.command}
    alone = [table for table in profiles if table.path not in together]
    found += [advice for table in alone for advice in _table_advice(table)]
    return [replace(advice, command=[*advice.command, *options]) for advice in found]


def _each(option: str, names: Sequence[str]) -> list[str]:
    return [part for name in names for part in (option, name)]


def _table_advice(table: Profile) -> list[Advice]:
    """What fits a table as it is."""
    found = []
    if table.gap_cells:
        many = [c.name for c in table.columns if c.kind == "words" and c.distinct > _MANY]
        command = ["colspace", "impute", table.path, "--out", FILLED]
        command += _each("--id", [*table.of("id", "text", "number?", "date?"), *many])
        command += _each("--kinds", [f"{name}=nominal" for name in table.of("mixed")])
        command += _each("--drop", table.of("empty", "infinite"))
        share = 100 * table.gap_cells / (table.rows * len(table.columns))
        kept = f"; more than {_MANY} different words are kept as they are" if many else ""
        found.append(
            Advice(f"{share:.2g} % of the cells are gaps: fill them, with intervals or draws{kept}", command)
        )
    response, texts = _response(table), table.of("text")
    if (
        response is not None
        and texts
        and response.kind in ("levels", "yes/no", "words")
        and not response.gaps
    ):
        beside = [c.name for c in _covariates(table) if c.name != response.name]
        command = ["colspace", "atoms", table.path, "--label", response.name, *_each("--text", texts)]
        command += [
            *(["--covariates", ",".join(beside)] if beside else []),
            "--out",
            "topics",
            *_each("--id", table.of("id")),
        ]
        why = f"topics of {_listed(texts)} that tell {response.name!r}, or what else --label names"
        found.append(Advice(f"{why}{', beside covariates' if beside else ''}", command))
    if response is not None:
        found += _reduce_advice(table, response)
    return found


def _covariates(table: Profile) -> list[Column]:
    """Columns of levels that topics may stand beside; gaps in words are a level of their own."""
    words = _worded(table)
    levels = [
        c for c in table.columns if c.kind in ("levels", "yes/no") and "," not in c.name == c.name.strip()
    ]
    return [c for c in levels if c.name in words or not c.gaps]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(map(repr, names[:-1])), repr(names[-1]))))


def _numeric(table: Profile) -> list[str]:
    """Columns of numbers."""
    words = _worded(table)
    return [name for name in table.of("number", "whole", "levels", "yes/no") if name not in words]


def _taken(table: Profile) -> list[str]:
    """Columns that a reduction takes: numbers, dates, and words of few levels."""
    words = _worded(table)
    levels = {
        c.name
        for c in table.columns
        if c.name in words
        and c.kind in ("levels", "yes/no", "words")
        and 2 <= c.distinct <= min(FEW, (table.rows - c.gaps) // 2)
    }
    dates = {c.name for c in table.columns if c.kind == "date" and re.match(r"\d{4}-\d\d-\d\d", c.example)}
    return [c.name for c in table.columns if c.name in {*_numeric(table), *levels, *dates}]


def _reduce_advice(table: Profile, response: Column) -> list[Advice]:
    ids, taken = table.of("id"), [name for name in _taken(table) if name != response.name]
    if len(taken) < 2:
        return []
    command = ["colspace", "reduce", table.path, "--response", response.name]
    command += ["--labels"] if _are_codes(table, response) else []
    command += _each("--id", ids)
    command += _each("--drop", [c.name for c in table.columns if c.name not in (*ids, *taken, response.name)])
    command += _each("--block", _blocks(taken))
    gaps = any(c.gaps for c in table.columns if c.name in taken)
    why = f"the directions of the {len(taken)} columns that tell {response.name!r}, or what else --response names"
    return [Advice(f"{why}{'; gaps are filled on the way' if gaps else ''}", command)]


def _are_codes(table: Profile, response: Column) -> bool:
    """Whether a response is classes that are written as numbers."""
    return response.kind in ("levels", "yes/no") and response.name not in _worded(table)


def _worded(table: Profile) -> set[str]:
    """Columns of levels or yes/no that are words, not numbers."""
    return {c.name for c in table.columns if not re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", c.example.lower())}


def _response(table: Profile) -> Column | None:
    """The column that looks like a response: by its name, else the last where it has levels, else the first of words that recur, else the last.

    One that is known by its name may have gaps, as many as half of the rows.
    """
    able = [c for c in table.columns if c.kind in ("number", "whole", "levels", "yes/no", "words")]
    known = [c for c in able if _called(c.name) < 2 * len(_NAMES) and 2 * c.gaps <= table.rows]
    named = sorted(known, key=lambda c: _called(c.name))
    fit = [c for c in able if not c.gaps]
    last = [c for c in fit[-1:] if c.kind in ("levels", "yes/no")]
    worded = [c for c in fit if c.kind in ("levels", "yes/no") and c.name in _worded(table)]
    return next(iter([*named, *last, *worded]), fit[-1] if len(fit) > 1 else None)


def _called(name: str) -> int:
    """Where a name stands among those of responses, or its surest word behind them all: y_pos is no y."""
    if name.lower() in _NAMES:
        return _NAMES.index(name.lower())
    words = {word.lower() for word in _WORD.findall(name)} - {"y"}
    return len(_NAMES) + next((i for i, known in enumerate(_NAMES) if known in words), len(_NAMES))


def _blocks(names: Sequence[str]) -> list[str]:
    """NAME=COLUMNS of blocks, where all columns begin with one of a few words."""
    stems = [found[0] if (found := _PREFIX.match(name)) else None for name in names]
    counts = {stem: stems.count(stem) for stem in stems if stem is not None}
    if None in stems or not 2 <= len(counts) <= 8 or min(counts.values()) < 2:
        return []
    return [f"{stem[:-1]}={stem}*" for stem in counts]


def _has_key(table: Profile) -> bool:
    """Whether the first column tells the rows apart, and may name them."""
    first = table.columns[0] if table.columns else None
    return first is not None and (
        first.kind == "id" or (first.kind == "whole" and first.distinct == table.rows)
    )


def _pairs_advice(profiles: Sequence[Profile], frames: Mapping[str, Any]) -> list[Advice]:
    """Links between the ids of two other tables; some may be of entities that no table has."""
    keys = {p.path: p.columns[0] for p in profiles if _has_key(p)}
    ids = {path: set(frames[path].iloc[:, 0].astype(str)) for path in keys}
    found = []
    for links in profiles:
        if not 2 <= len(links.columns) <= 3:
            continue
        ends = [frames[links.path].iloc[:, j].dropna().astype(str) for j in (0, 1)]
        for left, right in permutations([path for path in ids if path != links.path], 2):
            sides = list(zip(links.columns, ends, (left, right), strict=False))
            if not all(keys[path].kind == "id" or keys[path].name == end.name for end, _, path in sides):
                continue
            known = [share for _, end, path in sides if (share := end.isin(ids[path]).mean()) >= _KNOWN]
            if len(known) == 2:
                why = f"{links.path} links the entities of {left} and {right}: rank partners"
                unknown = ["--drop-unknown"] if min(known) < 1 else []
                command = _pairs_command(links, left, right, profiles, frames)
                found.append(Advice(why, [*command, *unknown]))
    return found


def _pairs_command(
    links: Profile, left: str, right: str, profiles: Sequence[Profile], frames: Mapping[str, Any]
) -> list[str]:
    ids = {path: set(frames[path].iloc[:, 0].astype(str)) for path in (left, right)}
    alike = [path for path in ids if ids[path] == set(map(str, frames[path].columns[1:]))]
    options = [f"--{s}{'-similarity' * (p in alike)}" for s, p in (("left", left), ("right", right))]
    command = ["colspace", "pairs", options[0], left, options[1], right, "--links", links.path]
    sides = [p for p in profiles if p.path in ids and p.path not in alike]
    return [*command, "--out", "partners.csv", *_for_features(sides)]


def _for_features(tables: Sequence[Profile]) -> list[str]:
    """Options for features that are neither numbers nor words of few levels, or have gaps."""
    taken = {p.path: set(_taken(p)) for p in tables}
    odd = [c.name for p in tables for c in p.columns[1:] if c.name not in taken[p.path]]
    gaps = any(c.gaps for p in tables for c in p.columns[1:] if c.name in taken[p.path])
    return [*_each("--drop", list(dict.fromkeys(odd))), *(["--impute"] if gaps else [])]


def _joined_advice(profiles: Sequence[Profile], frames: Mapping[str, Any]) -> list[Advice]:
    """Several tables about the same entities, under an id of the same name."""
    tables = [p for p in profiles if _has_key(p)]
    groups: dict[str, list[Profile]] = {}
    for table in tables:
        groups.setdefault(table.columns[0].name, []).append(table)
    found = []
    for key, group in groups.items():
        ids = [set(frames[p.path].iloc[:, 0].astype(str)) for p in group]
        shared = set.intersection(*ids)
        if len(group) < 2 or not shared:
            continue
        counts = ", ".join(f"{len(own):,}" for own in ids)
        names = ", ".join(p.path for p in group)
        why = f"{names} share {len(shared):,} ids of {key!r} (of {counts}): join them"
        responses = [(p, r) for p in group if (r := _response(p)) is not None]
        named = [(p, r) for p, r in responses if r.name.lower() in _NAMES]
        if any(p.gap_cells for p in group):
            command = ["colspace", "impute", *(p.path for p in group), "--id", key, "--out", "filled.csv"]
            found.append(Advice(f"{why}, and fill their gaps", command))
        if responses:
            table, response = (named or responses[-1:])[0]
            command = ["colspace", "reduce", *(p.path for p in group), "--id", key]
            kept = {p.path: {*_taken(p), response.name} for p in group}
            words = [c.name for p in group for c in p.columns[1:] if c.name not in kept[p.path]]
            command += ["--response", response.name, *(["--labels"] if _are_codes(table, response) else [])]
            command += _each("--drop", [name for name in words if words.count(name) == 1])
            of = "both" if len(group) == 2 else f"all {len(group)}"
            told = f"the directions of {of} that tell {response.name!r}, or what else --response names, a block a table"
            found.append(Advice(f"{why}; {told}", command))
    return found
