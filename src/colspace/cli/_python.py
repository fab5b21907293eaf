"""What commands did, as Python that can be pasted: for the page's part on how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from pprint import pformat
from typing import TYPE_CHECKING, Any

from ._levels import DAYS, dates_among

if TYPE_CHECKING:
    from ._join import Joined
    from ._table import Parts

_MOST = 200  # names that are listed


def reduce_code(model: Any, joined: Joined, ids: Sequence[str], parts: Parts) -> str:
    """The fit of a reduction and its embedding; nothing where tables were renamed, streamed or have marks of gaps."""
    from ..report._shared import block_code, call_of
    from ._gaps import takes_gaps

    holey = takes_gaps(model)
    estimator = model.reducer if holey else model
    table, y, features = _table_code(joined, ids), parts.y, list(parts.X)
    used = {*features, *_names(y), *parts.words}
    others = [name for name in joined.frame.columns if name not in used] if table else []
    if not table or max(len(others), len(parts.words)) > _MOST:
        return ""
    call, blocks = call_of(estimator, blocks="blocks"), ""
    if getattr(estimator, "blocks", None) is not None:
        blocks = f"blocks = {block_code(estimator.blocks, features)}\n"
    names = type(estimator).__name__
    pandas = "import pandas as pd\n" if dates_among(parts.words) else ""
    if holey:
        names = f"CopulaImputer, HoleyReduction, {names}"
        call = call_of(model, reducer=call)
    response = repr(_names(y)[0] if len(_names(y)) == 1 else _names(y))
    if len(parts.X) < len(joined.frame):
        table += f"table = table.dropna(subset={_names(y)!r})\n"
    return (
        f"{pandas}from colspace import {names}\nfrom colspace.io import read_table\n\n{table}{_words_code(parts)}"
        f"y = table[{response}]\nX = table.drop(columns={[*others, *_names(y)]!r})\n{blocks}model = {call}\n"
        "embedding = model.fit(X, y).transform(X)\nprint(model.summary())"
    )


def _words_code(parts: Parts) -> str:
    """Lines that put the indicators of columns of words, and days of dates, in their place."""
    if not parts.words:
        return ""
    words = pformat(dict(parts.words), width=100, compact=True, sort_dicts=False)
    dates = dates_among(parts.words)
    lines = [
        f"words = {words}\norder = [new for name in table for new in words.get(name, [name])]\ntable = table.copy()\n"
    ]
    if len(dates) < len(parts.words):
        lines.append(
            "for name, columns in words.items():\n    for column in columns:\n"
            '        is_level = table[name] == column.removeprefix(f"{name}=")\n'
            "        table[column] = is_level.astype(float).where(table[name].notna())\n"
        )
    if dates:
        lines.append(f"for name in {dates!r}:\n    table[words[name][0]] = {_days_code('table[name]')}\n")
    return "".join([*lines, "table = table[order]\n"])


def _days_code(column: str) -> str:
    dates = f'pd.to_datetime({column}, format="ISO8601", utc=True)'
    return f'({dates} - pd.Timestamp("1970-01-01", tz="UTC")).dt.total_seconds() / 86400'


def _as_dates(columns: str) -> str:
    return f'{columns}.apply(pd.to_datetime, format="ISO8601")'


def impute_code(imputer: Any, joined: Joined, ids: Sequence[str], X: Any) -> str:
    """The fit of an imputer to X and its filled table; nothing where several tables were joined."""
    from ..report._shared import call_of

    table = _table_code(joined, ids) if len(joined.tables) == 1 else ""
    others = [name for name in joined.frame.columns if name not in set(X)] if table else []
    if not table or len(others) > _MOST:
        return ""
    kept = f".drop(columns={others!r})" if others else ""
    dates = [name for name in X if X[name].dtype.kind == "M"]
    pandas = "import pandas as pd\n" if dates else ""
    as_dates = f"X[{dates!r}] = {_as_dates(f'X[{dates!r}]')}\n" if dates else ""
    return (
        f"{pandas}from colspace import {type(imputer).__name__}\nfrom colspace.io import read_table\n\n{table}X = table{kept}\n"
        f"{as_dates}model = {call_of(imputer)}\nfilled = model.fit_transform(X)\nlower, upper = model.interval(X)\nprint(model.summary())"
    )


def pairs_code(
    estimator: Any,
    paths: tuple[str, str, str],
    ids: tuple[str, str],
    ends: Sequence[str],
    top: int,
    new: tuple[str, str] | None = None,
) -> str:
    """The fit of pairs and the partners of their left entities, or of those of a new table.

    ``ids`` are the columns of ids, ``ends`` those of the links, and ``new`` the table of new entities with its column of ids.
    """
    from ..report._shared import call_of

    left, right, links = paths
    sides = "".join(
        f"{side} = read_table({path!r}, text=[{key!r}]).set_index({key!r})\n"
        for side, path, key in (("A", left, ids[0]), ("B", right, ids[1]))
    )
    more, given = "", ""
    if new is not None:
        more = f"new = read_table({new[0]!r}, text=[{new[1]!r}]).set_index({new[1]!r})[A.columns]\n"
        given = "new, "
    return (
        f"from colspace import {type(estimator).__name__}\nfrom colspace.io import read_table\n"
        f"from colspace.pairs import link_matrix\n\n{sides}{more}links = read_table({links!r}, text={list(ends[:2])!r})\n"
        f"Y = link_matrix(\n    {', '.join(f'links[{name!r}]' for name in ends)},\n"
        "    left_ids=list(A.index), right_ids=list(B.index),\n)\n"
        f"model = {call_of(estimator)}\npartners = model.fit(A, B, Y).rank({given}k={top})\nprint(model.summary())"
    )


def model_code(
    model: str,
    tables: Sequence[str],
    kind: str,
    *,
    ids: Sequence[str] = (),
    columns: Sequence[str] = (),
    dates: Sequence[str] = (),
) -> str:
    """A saved model on a table, or on several that are joined on ``ids``; ``columns`` are those of the fit, ``dates`` those that are text."""
    first, *others = tables or ["new.csv"]
    text = f", text={list(ids)!r}" if others else ""
    rows = f"rows = read_table({first!r}{text})\n"
    rows += "".join(f"rows = rows.merge(read_table({other!r}{text}), on={list(ids)!r})\n" for other in others)
    made = [name.removesuffix(f"={DAYS}") for name in columns if name.endswith(f"={DAYS}")]
    if made:
        rows += (
            f'for name in {made!r}:\n    if f"{{name}}={DAYS}" not in rows:\n'
            f'        rows[f"{{name}}={DAYS}"] = {_days_code("rows[name]")}\n'
        )
    if sum("=" in name for name in columns) > len(made):
        rows += (
            'for name in model.feature_names_in_:\n    word, _, level = name.partition("=")\n    if name not in rows and word in rows:\n'
            "        rows[name] = (rows[word] == level).astype(float).where(rows[word].notna())\n"
        )
    if dates:
        rows += f"rows[{list(dates)!r}] = {_as_dates(f'rows[{list(dates)!r}]')}\n"
    last = {
        "imputer": "filled = model.transform(rows[model.feature_names_in_])",
        "pairs": "partners = model.rank(rows.set_index(rows.columns[0]), k=10)",
        "reducer": "embedding = model.transform(rows[model.feature_names_in_])",
        "classifier": "labels, chances = model.predict(rows), model.predict_proba(rows)",
        "regressor": "numbers = model.predict(rows)",
    }
    pandas = "import pandas as pd\n" if dates or made else ""
    return f"{pandas}from colspace import load\nfrom colspace.io import read_table\n\nmodel = load({model!r})\n{rows}{last[kind]}"


def _table_code(joined: Joined, ids: Sequence[str]) -> str:
    """Lines that read the tables as one."""
    plain = all(t.path != "-" and not t.renamed for t in joined.tables)
    if joined.frame is None or not plain:
        return ""
    read = [
        f"read_table({t.path!r}, text={list(ids)!r})" if ids else f"read_table({t.path!r})"
        for t in joined.tables
    ]
    table = f"table = {read[0]}\n"
    return table + "".join(f"table = table.merge({other}, on={list(joined.keys)!r})\n" for other in read[1:])


def _names(y: Any) -> list[str]:
    return [str(name) for name in y.columns] if hasattr(y, "columns") else [str(y.name)]
