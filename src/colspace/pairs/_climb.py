"""A search along one setting at a time."""

from __future__ import annotations

from collections.abc import Callable

Score = Callable[[tuple[int, ...]], float]


def climb(score: Score, lengths: tuple[int, ...], start: tuple[int, ...]) -> tuple[int, ...]:
    """Places on ladders of some lengths from which no step up or down one of them leads higher; strides of two first."""
    best = start
    for stride in (2, 1):
        before = None
        while best != before:
            before = best
            for axis, length in enumerate(lengths):
                for sign in (stride, -stride):
                    moved = False
                    while 0 <= best[axis] + sign < length:
                        there = (*best[:axis], best[axis] + sign, *best[axis + 1 :])
                        if not score(there) > score(best):
                            break
                        best, moved = there, True
                    if moved:
                        break
    return best
