"""What is learned beside the copula: of words, of columns that bend, and of few levels where forests pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ._bend import bent, spared_columns
from ._choice import warm_state
from ._columns import Columns, Group
from ._fit import CopulaModel
from ._nominal import Words
from ._passes import DaskRows, LocalRows
from ._word_learning import learn_steps, learn_words


class Corrections(NamedTuple):
    """``point`` predicts numbers and levels, ``odds`` and ``words`` nominal columns, ``steps`` columns of few levels that have a forest."""

    point: CopulaModel
    odds: CopulaModel
    words: tuple[Words, ...]
    steps: tuple[tuple[Group, Words], ...]


@dataclass(frozen=True)
class Refit:
    """Fits a copula to rows that lack some of its cells, from where it is; cuts move, knots do not."""

    tol: float
    common: bool

    def __call__(self, model: CopulaModel, rows: LocalRows) -> CopulaModel:
        passes = rows.passes(model.state.chain, model.factors.rank)
        state = warm_state(passes, model, self.tol, common=self.common, cuts=True)
        columns = tuple(
            replace(column, z=state.chain.z[state.chain.nodes(j)]) for j, column in enumerate(model.columns)
        )
        return replace(model, state=state, columns=columns)


def corrections(
    rows: LocalRows | DaskRows,
    model: CopulaModel,
    point: CopulaModel,
    columns: Columns,
    bridge: Callable[[CopulaModel], CopulaModel],
    refit: Refit,
    random_state: Any,
    *,
    nonlinear: bool | str,
) -> Corrections:
    """All of them, of a table whose factors are ``model`` and whose predictions ``point``.

    Words have theirs in any case. ``nonlinear``: False: nothing else; "auto": columns of two words, and all others if the table bends, by
    a test or since forests pay for its words; "gaps": of these the columns that have gaps.
    """
    spared = spared_columns(rows, nonlinear, len(model.columns))
    forests = [bool(group.width) and not spared[group.start] for group in columns.groups]
    words = learn_words(rows, model, columns, refit, random_state, forests=forests)
    steps: tuple[tuple[Group, Words], ...] = ()
    if not spared.all():
        found = nonlinear is True or any(known.gain > 0 for known in words)
        apart, levels = columns.grouped if columns.groups else None, columns.apart
        left_out = spared if levels is None else levels | spared
        point, curved = bent(rows, point, random_state, screen=not found, apart=apart, levels=left_out)
        point = bridge(point)
        tried = [
            group for group in (columns.steps if curved else columns.two_words) if not spared[group.start]
        ]
        steps = learn_steps(rows, point, tried, random_state)
    else:
        point = bridge(point)
    return Corrections(point, bridge(model), words, steps)
