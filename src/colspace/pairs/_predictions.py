"""Scores, probabilities and ranked partners of any entities, the same for both kernel methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._calibrate import probabilities, require_calibration
from ._features import sides
from ._ranking import Blocks, assemble, check_k, known_pairs, rank_blocks, require_pandas, scores_frame

Index = NDArray[np.intp]


@dataclass(frozen=True)
class Asked:
    """Entities of both sides, their names and their places in fit (-1: new), and what makes blocks of their scores."""

    names: tuple[Any, Any]
    places: tuple[Index, Index]
    blocks: Callable[[], Blocks]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of entities."""
        return len(self.places[0]), len(self.places[1])


class PairPredictions(ABC):
    """Predictions of a fitted model of pairs, which has ``Y_``, ``mask_`` and, if calibrated, ``calibration_``."""

    @abstractmethod
    def _ask(self, A: Any, B: Any) -> Asked:
        """Entities to predict for: tables as in fit, or None for those of fit."""

    def predict(self, A: Any = None, B: Any = None) -> Any:
        """Scores of all pairs of an entity of A and one of B.

        Parameters
        ----------
        A : table as in fit (of similarities: new entities x those of fit), a PairTable, or None for the entities of fit
        B : likewise

        Returns
        -------
        ndarray (entities of A, entities of B); a DataFrame when A or B is one with names
        """
        A, B = sides(A, B)
        asked = self._ask(A, B)
        scores = assemble(asked.blocks(), asked.shape)
        return scores_frame(scores, *asked.names) if _named(A) or _named(B) else scores

    def predict_proba(self, A: Any = None, B: Any = None) -> Any:
        """Probabilities of a link for all pairs, of a fit with ``calibrate=True``; parameters as in predict."""
        found = require_calibration(self)
        scores = self.predict(A, B)
        values = probabilities(found, np.asarray(scores))
        return scores_frame(values, scores.index, scores.columns) if hasattr(scores, "iloc") else values

    def rank(self, A: Any = None, B: Any = None, k: int = 10, *, exclude_known: bool = False) -> Any:
        """The k best partners of each entity of A; never more than a block of scores in memory.

        Parameters
        ----------
        A, B : as in predict
        k : length of the lists
        exclude_known : leave out pairs with a link that fit saw; lists of entities with few others are shorter

        Returns
        -------
        DataFrame with the columns left, rank (1 is best), right, score and known (the pair had a link in fit;
        entities are recognised by name), and probability with ``calibrate=True``; left and right are the entities'
        names, or positions where they have none. Ties go by position.
        """
        require_pandas("rank")
        asked = self._ask(*sides(A, B))
        check_k(k, asked.shape[1])
        model: Any = self
        known = known_pairs(model.Y_ if model.mask_ is None else model.mask_, *asked.places)
        table = rank_blocks(asked.blocks(), asked.shape, k, asked.names, known, exclude_known)
        if model.calibrate:
            table["probability"] = probabilities(model.calibration_, table["score"].to_numpy())
        return table


def _named(X: Any) -> bool:
    return hasattr(X, "iloc") or (isinstance(X, list | tuple) and any(hasattr(table, "iloc") for table in X))
