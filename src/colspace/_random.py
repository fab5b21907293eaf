"""scikit-learn's ``random_state`` outside, a numpy Generator inside."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def generator(random_state: Any) -> np.random.Generator:
    """A Generator from a ``random_state`` (None, int, RandomState) or a Generator itself."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
