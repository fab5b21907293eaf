"""Inputs of every estimator as hypothesis strategies: the draws of the fuzz, made by a generator that can shrink them."""

from __future__ import annotations

from random import Random

from cases import Case, draw_case
from hypothesis import strategies as st
from tables import draw_response, draw_shape, draw_table, draw_values, draw_weights

_randoms = st.randoms(use_true_random=False)


def cases(name: str) -> st.SearchStrategy[Case]:
    """Parameters, tables, response and weights for an estimator: one of sixteen, the same on every machine."""
    return st.integers(0, 15).map(lambda seed: draw_case(Random(f"{name} {seed}"), name))


@st.composite
def tables(draw):
    """A table in some container, and its plain numbers."""
    random = draw(_randoms)
    _, held, plain = draw_table(random, draw_shape(random))
    return held, plain


@st.composite
def problems(draw, responses=("numbers", "labels")):
    """A plain table with a response and weights beside it."""
    random = draw(_randoms)
    _, plain = draw_values(random, *draw_shape(random))
    _, y = draw_response(random, plain, plain, responses)
    return plain, y, draw_weights(random, len(plain))[1]
