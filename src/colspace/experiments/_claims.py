"""What the papers say, one entry a claim, and the verdict that a run gives on it.

``published/paper-NNN.toml`` holds the claims of a paper. Each names the experiment (``target``), the rows of its table
(``where``) and the column (``value``) that answer it, and one rule:

- ``near``: one row, within two standard errors or 3 % of ``published`` (or within ``tolerance``): holds, else differs;
- ``below``: the rows against those of ``against``, paired by ``by``: holds where the mean is lower in each pair, fails where it is
  higher by more than two standard errors in one, else differs;
- ``like``: the rows against those of ``against``, paired by ``by``: holds where each pair is within two standard errors or 3 % (or
  ``tolerance``, a fraction of the second), else differs;
- ``at_most``, ``at_least``: rows against the number ``published``: holds, differs within two standard errors of it, else fails.

Rows that agree in value and error, as the points of one curve do in its slope, count as one. ``[settings]`` has the published constants that
the experiments use; they read them from here. ``[sizes]`` has what the paper ran where that is more, ``[differences]`` how its protocol differs.

A claim without a target is not computed here: ``missing`` says why. ``needs`` names what its rows need that may be absent, an
optional package say; without such rows the claim is not reproducible here. Verdicts come from the run alone; ``why`` has a sentence for a
verdict, printed with that verdict only.

A ``[[table]]`` is one claim a cell: ``cells`` has rows of key values (columns ``keys``), the number and, if printed, its spread over ``runs``
repetitions; ``says`` may name the keys in braces; ``lacks`` has, for a value of the first key, why those cells are missing. With ``values``
(several columns, their errors ``<column>_se``) a row has a number and its spread for each; ``says`` may name the column as {value}, ``whys`` has a ``why`` of
some columns alone.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

Row = Mapping[str, Any]
Number = tuple[float, float]  # value and standard error

PAPERS = ("000", "001", "002", "003", "004")
VERDICTS = ("holds", "differs", "fails", "not reproducible here")
NO_DATA = "data"
RULES = ("near", "below", "like", "at_most", "at_least")
_PAIRED = ("below", "like")
_CLOSE = 0.03


@dataclass(frozen=True)
class Claim:
    """One number or order of a paper, and where a run answers it."""

    id: str
    place: str
    says: str
    rule: str = "near"
    target: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    against: Mapping[str, Any] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    value: str = ""
    error: str = ""
    published: float | None = None
    published_error: float = 0.0
    published_sd: float = 0.0
    runs: int = 1
    tolerance: float | None = None
    own_data: bool = False
    missing: str = ""
    needs: str = ""
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A paper's claims; ``sizes`` has what the paper ran where that is more than a full run here, ``settings`` its constants.

    ``differences`` says how the protocol of a target differs from the paper's.
    """

    number: str
    title: str
    claims: tuple[Claim, ...]
    sizes: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    differences: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """``ours`` and ``note`` are the evidence, in the words of the rule."""

    verdict: str
    ours: str = ""
    note: str = ""


def read_paper(number: str) -> Paper:
    """The claims of one paper; every entry is checked.

    Examples
    --------
    >>> from colspace.experiments._claims import read_paper
    >>> read_paper("003").number
    '003'
    """
    text = files(__package__).joinpath("published", f"paper-{number}.toml").read_text(encoding="utf-8")
    return parse_paper(text)


def parse_paper(text: str) -> Paper:
    """Claims from the text of a file."""
    data = tomllib.loads(text)
    entries = [*data.get("claim", ()), *(cell for table in data.get("table", ()) for cell in _cells(table))]
    claims = tuple(Claim(**{**entry, "by": tuple(entry.get("by", ()))}) for entry in entries)
    seen = set[str]()
    for claim in claims:
        _check(claim)
        if claim.id in seen:
            msg = f"claim {claim.id!r} is there twice; give each its own id"
            raise ValueError(msg)
        seen.add(claim.id)
    given = {key: data.get(key, {}) for key in ("sizes", "settings", "differences")}
    return Paper(data["paper"], data["title"], claims, **given)


def _cells(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The claims of a table's cells."""
    keys, lacks, several = table["keys"], table.get("lacks", {}), table.get("values")
    common = {k: v for k, v in table.items() if k not in ("keys", "cells", "lacks", "values", "whys")}
    most = 2 * len(several) if several else 2
    found = []
    for cell in table["cells"]:
        place, given = dict(zip(keys, cell, strict=False)), cell[len(keys) :]
        if len(given) != most if several else not 1 <= len(given) <= 2:
            msg = f"table {table['id']!r}: cell {cell} must have {len(keys)} keys, then for each value a number and its spread"
            raise ValueError(msg)
        for i, value in enumerate(several or [""]):
            entry = {**common, "where": {**table.get("where", {}), **place}, "published": float(given[2 * i])}
            if several:
                entry |= {"value": value, "error": f"{value}_se"}
            if value in (whys := table.get("whys", {})):
                entry["why"] = whys[value]
            spread = float(given[2 * i + 1]) if len(given) > 1 else 0.0
            entry["id"] = "-".join([table["id"], *([value] if value else []), *map(str, place.values())])
            entry["says"] = table["says"].format_map({**place, "value": value})
            entry["published_sd"] = 0.0 if math.isnan(spread) else spread
            if cell[0] in lacks:
                entry |= {"target": "", "missing": lacks[cell[0]]}
            found.append(entry)
    return found


def numbers(paper: Paper, target: str, value: str, *keys: str) -> dict[tuple[Any, ...], float]:
    """What a paper has for a column of a target: the values of ``keys`` -> the published number, of claims told apart by just these keys.

    Examples
    --------
    >>> from colspace.experiments._claims import numbers, read_paper
    >>> found = numbers(read_paper("003"), "copula-synthetic", "error", "setting", "method")
    >>> found["continuous, low rank", "published EM"]
    0.347
    """
    return {
        tuple(claim.where[key] for key in keys): claim.published
        for claim in paper.claims
        if (claim.target, claim.value) == (target, value)
        and claim.published is not None
        and set(claim.where) == set(keys)
    }


def _check(claim: Claim) -> None:
    rules = {
        f"rule {claim.rule!r} is none of {', '.join(RULES)}": claim.rule not in RULES,
        "either target or missing must be given, not both": bool(claim.target) == bool(claim.missing),
        "value names the column that answers it": bool(claim.target) and not claim.value,
        f"rule {claim.rule!r} needs a published number": bool(claim.target)
        and claim.rule not in _PAIRED
        and claim.published is None,
        f"rule {claim.rule!r} needs against": bool(claim.target)
        and claim.rule in _PAIRED
        and not claim.against,
        "why explains a verdict": not set(claim.why) <= set(VERDICTS),
    }
    for rule, broken in rules.items():
        if broken:
            msg = f"claim {claim.id!r}: {rule}"
            raise ValueError(msg)


# ---------------------------------------------------------------------- verdicts


def judge(claim: Claim, rows: Sequence[Row] | None, *, stand_in: bool = False) -> Verdict:
    """The verdict of a run's rows on a claim; None stands for a target that could not run.

    ``stand_in`` says that the rows come from generated data: only claims with ``own_data`` are judged on them.

    Examples
    --------
    >>> from colspace.experiments._claims import Claim, judge
    >>> claim = Claim("a", "Table 1", "error", target="t", where={"method": "ours"}, value="error", published=0.5)
    >>> judge(claim, [{"method": "ours", "error": 0.51}, {"method": "other", "error": 0.7}])
    Verdict(verdict='holds', ours='0.51', note='2 % off')
    """
    if claim.missing:
        return Verdict(VERDICTS[3], note=claim.missing)
    if rows is None or (stand_in and not claim.own_data):
        return Verdict(VERDICTS[3], note=NO_DATA)
    chosen, others = _select(claim, rows, claim.where), _select(claim, rows, {**claim.where, **claim.against})
    if not chosen or not others:
        return Verdict(VERDICTS[3], note=claim.needs)
    if claim.rule in _PAIRED:
        pairs = _pairs(claim, chosen, others)
        return _below(pairs) if claim.rule == "below" else _like(claim, pairs)
    found = list(dict.fromkeys(_number(claim, row) for row in chosen))
    if claim.rule == "near":
        if len(found) != 1:
            msg = f"claim {claim.id!r}: {len(found)} rows of {claim.target} match, rule 'near' takes one; say more in where"
            raise ValueError(msg)
        return _near(claim, *found[0])
    return _bounded(claim, found)


def _select(claim: Claim, rows: Sequence[Row], where: Row) -> list[Row]:
    chosen = [row for row in rows if all(_same(row.get(key), value) for key, value in where.items())]
    if not chosen and not claim.needs:
        msg = f"claim {claim.id!r}: no row of {claim.target} has {dict(where)}"
        raise ValueError(msg)
    return chosen


def _same(here: Any, there: Any) -> bool:
    if isinstance(there, list):
        return any(_same(here, one) for one in there)
    if isinstance(here, (int, float)) and isinstance(there, (int, float)):
        return math.isclose(here, there, rel_tol=1e-9)
    return bool(here == there)


def _number(claim: Claim, row: Row) -> Number:
    """Value and standard error; without a column of errors 0."""
    error = float(row[claim.error]) if claim.error else 0.0
    return float(row[claim.value]), 0.0 if math.isnan(error) else error


def _near(claim: Claim, value: float, error: float) -> Verdict:
    assert claim.published is not None
    off = abs(value - claim.published)
    printed = math.hypot(claim.published_error, claim.published_sd / math.sqrt(claim.runs))
    allowed = 2.0 * math.hypot(error, printed), _CLOSE * abs(claim.published)
    if claim.tolerance is not None:
        allowed = claim.tolerance, allowed[1]
    relative = f"{off / abs(claim.published):.0%}".replace("%", " %") if claim.published else f"{off:.2g}"
    return Verdict("holds" if off <= max(allowed) else "differs", _text(value, error), f"{relative} off")


def _pairs(claim: Claim, low: Sequence[Row], high: Sequence[Row]) -> list[tuple[Number, Number]]:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in claim.by)

    others = {key(row): row for row in high}
    if len(others) < len(high) or len({key(row) for row in low}) < len(low):
        msg = f"claim {claim.id!r}: rows are not told apart by {claim.by}; name more columns"
        raise ValueError(msg)
    pairs = [(_number(claim, row), _number(claim, others[key(row)])) for row in low if key(row) in others]
    if not pairs:
        msg = f"claim {claim.id!r}: no row has a partner with the same {claim.by}"
        raise ValueError(msg)
    return pairs


def _shown(pairs: Sequence[tuple[Number, Number]]) -> str:
    shown = "; ".join(f"{_text(*a)} against {_text(*b)}" for a, b in pairs[:3])
    return shown + (", ..." if len(pairs) > 3 else "")


def _below(pairs: Sequence[tuple[Number, Number]]) -> Verdict:
    lower = sum(a < b for (a, _), (b, _) in pairs)
    worse = sum(a - b > 2.0 * math.hypot(s, t) for (a, s), (b, t) in pairs)
    verdict = "holds" if lower == len(pairs) else "fails" if worse else "differs"
    return Verdict(verdict, _shown(pairs), f"lower in {lower} of {len(pairs)}")


def _like(claim: Claim, pairs: Sequence[tuple[Number, Number]]) -> Verdict:
    share = _CLOSE if claim.tolerance is None else claim.tolerance
    close = sum(abs(a - b) <= max(share * abs(b), 2.0 * math.hypot(s, t)) for (a, s), (b, t) in pairs)
    verdict = "holds" if close == len(pairs) else "differs"
    return Verdict(verdict, _shown(pairs), f"alike in {close} of {len(pairs)}")


def _bounded(claim: Claim, found: Sequence[Number]) -> Verdict:
    assert claim.published is not None
    sign = 1.0 if claim.rule == "at_most" else -1.0
    over = [(sign * (value - claim.published), error, value) for value, error in found]
    worst = max(over)
    inside = sum(o <= 0 for o, _, _ in over)
    verdict = (
        "holds" if inside == len(over) else "fails" if any(o > 2.0 * e for o, e, _ in over) else "differs"
    )
    return Verdict(verdict, _text(worst[2], worst[1]), f"inside in {inside} of {len(over)}")


def _text(value: float, error: float = 0.0) -> str:
    return f"{value:.4g}" + (f" ± {error:.2g}" if error else "")
