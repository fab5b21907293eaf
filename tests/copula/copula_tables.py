"""Tables that several tests of the copula share."""

import numpy as np
import pandas as pd

WORDS = np.array(["red", "green", "blue", "grey"], dtype=object)


def words_table(n=240, seed=0, missing=0.2):
    """Words that two numbers tell, a yes/no of text, days and unique names; with gaps, and complete."""
    rng = np.random.default_rng(seed)
    t = rng.standard_normal((n, 2))
    scores = np.column_stack([t[:, 0], t[:, 1], -t[:, 0], -t[:, 1]]) + 0.4 * rng.gumbel(size=(n, 4))
    full = pd.DataFrame(t + 0.4 * rng.standard_normal((n, 2)), columns=["a", "b"])
    full["word"] = WORDS[scores.argmax(axis=1)]
    full["answer"] = np.where(t[:, 0] + 0.3 * rng.standard_normal(n) > 0, "yes", "no")
    full["day"] = pd.Timestamp("2021-03-01") + pd.to_timedelta(np.rint(30 * t[:, 1]).astype(int), unit="D")
    X = full.mask(rng.random(full.shape) < missing)
    return X, full


def low_rank(n=300, p=12, k=2, noise=0.2, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, k))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1, keepdims=True)
    Z = rng.standard_normal((n, k)) @ W.T + np.sqrt(noise) * rng.standard_normal((n, p))
    return Z, rng.random((n, p)) < missing, W


def mixed_values(Z):
    """Continuous, skewed, ordinal, binary, count and zero-inflated columns, two of each."""
    X = Z.copy()
    X[:, 2:4] = np.exp(Z[:, 2:4])
    X[:, 4:6] = np.digitize(Z[:, 4:6], [-0.8, 0.0, 0.9])
    X[:, 6:8] = Z[:, 6:8] > 0.3
    X[:, 8:10] = np.floor(np.exp(1.2 * Z[:, 8:10] + 2.5))
    X[:, 10:12] = np.maximum(Z[:, 10:12], -0.4) + 0.4
    return X


KINDS = {"word": ["never", "seldom", "often", "always"]}  # of the frame of every type


def ordinal_table(n=200, p=12, noise=0.15, seed=0):
    """Four levels a column of two factors with a fifth of the cells gone; loadings and noise variances."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((p, 2))
    W *= np.sqrt(1 - noise) / np.linalg.norm(W, axis=1)[:, None]
    Z = rng.standard_normal((n, 2)) @ W.T + np.sqrt(noise) * rng.standard_normal((n, p))
    X = np.digitize(Z, [-0.8, 0.1, 0.9]).astype(float)
    X[rng.random((n, p)) < 0.2] = np.nan
    return X, W, np.full(p, noise)
