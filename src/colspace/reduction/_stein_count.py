"""The number of directions of Stein's method by prediction of rows left out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .._response import read_response
from .._rows import is_dask
from .._validation import check_table, check_weights
from ._count import MOST, Count, Embed, deal_folds, held_out_count, kept_components
from ._count_rows import classes_of, distinct_rows
from ._linear import column_labels
from ._source import Source, weighted_rows
from ._stein_sums import labelled_rows

Index = NDArray[np.intp]

IN_MEMORY = "n_components={!r} looks at labelled rows in memory; give a number here"


def fit_counted(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit a SteinReduction with the number of directions that its labelled rows ask for."""
    if y is None or is_dask(X):
        raise ValueError(IN_MEMORY.format("auto"))
    count = count_stein(clone(model), X, y, sample_weight)
    fitted = clone(model).set_params(n_components=kept_components(count))
    fitted.fit(X, y, sample_weight)
    for name in vars(fitted).keys() - fitted.get_params(deep=False).keys():
        setattr(model, name, vars(fitted)[name])
    model.component_scores_ = count.as_dict()
    return model


def count_stein(probe: Any, X: Any, y: Any, sample_weight: Any) -> Count:
    """Labelled rows are left out in turn, unlabelled ones never."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit on all rows gives them
        X = check_table(probe, X, reset=True, min_rows=2)
        weights = check_weights(sample_weight, X)
        y, response = read_response(y, probe.response)
        if len(y) == X.shape[0]:
            X, y, weights = weighted_rows(weights, X, y)
        encoder, Y = probe._encoder(X, y, response, weights=weights)
        known = labelled_rows(y)
        labelled, rest = np.flatnonzero(known), np.flatnonzero(~known)
        own = None if weights is None else weights[labelled]
        source = Source(X[labelled], Y[labelled], encoder, own, column_labels(probe))
        kept, w = distinct_rows(source, np.arange(X.shape[1]))
        rows = np.concatenate([labelled[kept], rest])
        full = None
        if w is not None or weights is not None:
            full = np.ones(len(rows)) if weights is None else weights[rows].copy()
            full[: len(kept)] = 1.0 if w is None else w
        X, y, Y = X[rows], y[rows], Y[rows]
        folds = np.full(len(rows), -1, dtype=np.intp)
        folds[: len(kept)] = deal_folds(classes_of(Y[: len(kept)], labels=encoder.labels), len(kept))
        limit = min(MOST, X.shape[1])
        if probe.order == 1 and not len(rest) and probe.unlabeled_weight in ("auto", 0.0):
            limit = min(limit, max(1, Y.shape[1] - (encoder.labels and Y.shape[1] > 1)))

        def fit_directions(train: Index) -> Embed:
            everyone = np.union1d(train, np.arange(len(kept), len(rows)))
            w_train = None if full is None else full[everyone]
            span = probe._span(X[everyone], w_train, ridged=True)
            r = limit if span is None else min(limit, *span.blocks.widths)
            part = clone(probe).set_params(n_components=r, n_groups=None, response=response)
            part.fit(X[everyone], y[everyone], w_train)
            return lambda chosen: [part.transform(X[chosen])]

        own = None if full is None else full[: len(kept)]
        return held_out_count(
            fit_directions, Y[: len(kept)], own, folds[: len(kept)], limit, labels=encoder.labels
        )
