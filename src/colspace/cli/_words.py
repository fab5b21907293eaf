"""The library's messages in the words of the command line."""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import click

from ._say import is_quiet

_OPTIONS = {
    "n_components": "--components",
    "n_selected": "--select",
    "whiten": "--whiten",
    "shrinkage": "--shrinkage",
    "moments": "--moments",
    "solver": "--solver",
    "random_state": "--seed",
    "score_model": "--score",
    "order": "--order",
    "encoding": "--encoding",
}
_NAMES = "|".join(_OPTIONS)

# whole phrases first, then parameters with a value, then bare parameters that no option is called like
_PHRASES = (
    ("blocks={..., 'drop': '*'}", "--drop-rest"),
    ("use response=None", "leave it out"),
    ("y has one class only", "--response has one class only"),
    ("leave those rows out; otherwise response='rank'", "give --na VALUE; otherwise --rank-response"),
    ("response='rank'", "--rank-response"),
    ("; if they are numbers, response='numbers' silences this", ""),
    ("response='labels'", "--labels"),
    ("score_model=GaussianScore(ridge=1.0)", "--score gaussian"),
    (", or unlabeled_weight > 0", ""),
    ("pass y=None to look for directions without labels", "fill in some, or name another --response"),
    ("(or None)", "(or none)"),
    ("instead of None", "instead of none"),
    ("or a tuple of them", "or several with commas"),
    (
        "Correct it, or make it NaN if it is missing",
        "Give --na inf or --na -inf if it stands for a gap",
    ),
    ("learned about them. Drop them,", "learned about them. Leave them out with --drop,"),
    ("Drop them to silence this", "Leave them out with --drop to silence this"),
)
_DROPPED = (
    r",? or [^,.;]*response=np\.\w+",  # functions cannot be given on the command line
    r" \(n_(?:features|samples) ?= ?\d+\)",
    r" \((?:pandas|sklearn)\.[\w.]+\)",
)
#: What to do with columns that are skipped in some rows.
SKIPPED = (
    ": where there is nothing to ask, nothing tells a value either, and --id keeps such columns as they are"
)
_FEW_ROWS = re.compile(r"Found array with (\d+) sample\(s\).* while a minimum of (\d+) is required[^;]*")
# y as the library calls it, not a column of that name, which is quoted
_RESPONSE = re.compile(
    r"(^|\b(?:determines|class of|it is|prediction of|rows of|divide|multiply|that|column \d+ of|values? of) )y(?=[ ;,]|\.? |\.?$)"
)
_VALUE = re.compile(rf"\b({_NAMES})=(\([^)]*\)|'[^']*'|[\w.]+\b)")
_SKLEARN = re.compile(rf"The '({_NAMES})' parameter of \w+")
_BARE = re.compile(r"(?<![\w'\-])(n_components|n_selected|rank_test)(?![\w'])")


def in_options(text: str) -> str:
    """A message of the library with options in the place of parameters.

    Examples
    --------
    >>> from colspace.cli._words import in_options
    >>> in_options("Remedies: shrinkage='auto', whiten='diagonal', moments=('linear', 'joint')")
    'Remedies: --shrinkage auto, --whiten diagonal, --moments linear,joint'
    """
    for pattern in _DROPPED:
        text = re.sub(pattern, "", text)
    text = _FEW_ROWS.sub(_rows_needed, text)
    for phrase, option in _PHRASES:
        text = text.replace(phrase, option)
    text = _RESPONSE.sub(r"\1the response", text)
    text = _VALUE.sub(lambda m: f"{_OPTIONS[m[1]]} {_value(m[2])}", text)
    text = _SKLEARN.sub(lambda m: _OPTIONS[m[1]], text)
    return _BARE.sub(lambda m: _OPTIONS.get(m[1], "--rank-test"), text)


def _rows_needed(found: re.Match[str]) -> str:
    """What scikit-learn says of too few rows, with what to do."""
    rows = "1 row" if found[1] == "1" else f"{found[1]} rows"
    return f"{rows}, but at least {found[2]} are needed to learn from; give more rows"


def _value(text: str) -> str:
    return "none" if text == "None" else re.sub(r"[()'\s]", "", text).rstrip(",")


def phrased(phrases: Iterable[tuple[str, str | Callable[[re.Match[str]], str]]]) -> Callable[[str], str]:
    """What puts a message of the library in the words of a command: patterns of its own and what stands for them, then all options."""

    def words(text: str) -> str:
        for pattern, instead in phrases:
            text = re.sub(pattern, instead, text)
        return in_options(text)

    return words


def _as_gap(found: re.Match[str]) -> str:
    value = str(ast.literal_eval(found[1])) if found[1][0] in "'\"" else found[1]
    return f"{found[0].removesuffix('blank the value')}take it for a gap (--na {shlex.quote(value)})"


#: What cells that a fit has not seen can be taken for.
of_new_rows = phrased(
    (
        (r"holds (.+?), which fit did not see; .*?blank the value", _as_gap),
        (r"colspace\.CopulaImputer can fill them: .*", "colspace impute fills them."),
        (r"^A (contains|has)\b", r"the table \1"),
    )
)


@contextmanager
def warnings_on_stderr(word: str, words: Callable[[str], str] = in_options) -> Iterator[list[str]]:
    """Print each warning raised within as one line that begins with ``word``, in the words of a command; the list has them after."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield told
        finally:
            texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
            told += [words(text) for text in dict.fromkeys(texts)]
            for line in told if word != "Note" or not is_quiet() else ():
                click.echo(f"{click.style(word + ':', fg='yellow')} {line}", err=True)
