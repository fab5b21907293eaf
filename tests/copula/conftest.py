"""Tables and fitted imputers that several tests share."""

import numpy as np
import pandas as pd
import pytest
from copula_tables import low_rank, mixed_values, words_table

from colspace import CopulaImputer


@pytest.fixture(scope="module")
def mixed():
    Z, gaps, _ = low_rank()
    X = mixed_values(Z)
    return X, np.where(gaps, np.nan, X)


@pytest.fixture(scope="module")
def fitted(mixed):
    return CopulaImputer(kinds={8: "count", 9: "count"}, random_state=0).fit(mixed[1])


@pytest.fixture
def frame(mixed):
    """A table with every kind of column that people have."""
    X = mixed[1]
    levels = np.array(["never", "seldom", "often", "always"])
    text = [None if np.isnan(v) else levels[int(v)] for v in X[:, 4]]
    return pd.DataFrame(
        {
            "a": X[:, 0],
            "b": X[:, 1].astype(np.float32),
            "income": X[:, 2],
            "often": pd.Categorical(text, categories=levels, ordered=True),
            "stars": pd.array([pd.NA if np.isnan(v) else int(v) for v in X[:, 5]], dtype="Int64"),
            "yes": pd.array([pd.NA if np.isnan(v) else bool(v) for v in X[:, 6]], dtype="boolean"),
            "word": np.array(text, dtype=object),
            "visits": X[:, 8],
            "paid": X[:, 10],
        },
        index=pd.Index(np.arange(len(X)) + 1000, name="person"),
    )


@pytest.fixture(scope="module")
def tables():
    return words_table()


@pytest.fixture(scope="module")
def model(tables):
    return CopulaImputer(random_state=0).fit(tables[0])
