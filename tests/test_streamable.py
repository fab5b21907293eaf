"""Which options of joint reduction let rows come in chunks."""

from types import SimpleNamespace

import pytest

from colspace._streamable import is_auto, passes_again, takes_chunks

PLAIN = {
    "n_components": 2,
    "moments": "auto",
    "whiten": "full",
    "shrinkage": None,
    "solver": "auto",
    "n_selected": None,
    "response": None,
}


@pytest.mark.parametrize(
    ("given", "auto", "again", "chunks"),
    [
        ({}, True, True, True),
        ({"response": "rank"}, True, True, True),
        ({"n_components": "auto"}, True, True, True),
        ({"n_components": "auto", "moments": "all"}, False, True, True),
        ({"n_components": "threshold"}, False, False, True),
        ({"n_components": "moments"}, False, False, False),
        ({"moments": "all"}, False, False, True),
        ({"moments": "all", "response": "rank"}, False, False, False),
        ({"moments": ("linear", "tensor")}, False, False, False),
        ({"whiten": None}, False, False, True),
        ({"whiten": None, "n_selected": "auto"}, False, False, False),
        ({"shrinkage": 0.1}, False, False, True),
        ({"shrinkage": "auto"}, False, False, False),
        ({"solver": "exact"}, False, False, True),
        ({"solver": "countsketch"}, False, False, False),
    ],
)
def test_options_tell_whether_rows_may_come_in_chunks(given, auto, again, chunks):
    options = SimpleNamespace(**PLAIN | given)
    assert (is_auto(options), passes_again(options), takes_chunks(options)) == (auto, again, chunks)
