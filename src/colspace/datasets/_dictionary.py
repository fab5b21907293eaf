"""Simulations of supervised dictionary learning: images that hide another dictionary, and the generative models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Model = Literal["filter", "feature", "common"]


@dataclass(frozen=True)
class SemisyntheticData:
    """Mixed images, labels of what they are like, and the truth.

    Attributes
    ----------
    X_train, X_test : rows of pixels with noise.
    y_train, y_test : labels 0 and 1.
    atoms, label_atoms : the images that were mixed, and those that the labels compare with; atoms are rows.
    coef : +1 or -1 for each label atom.
    codes : shares of the atoms in all rows, training rows first.
    """

    X_train: Array
    X_test: Array
    y_train: NDArray[np.intp]
    y_test: NDArray[np.intp]
    atoms: Array
    label_atoms: Array
    coef: Array
    codes: Array

    def __iter__(self) -> Any:
        """Unpack as ``X_train, X_test, y_train, y_test``."""
        return iter((self.X_train, self.X_test, self.y_train, self.y_test))


def make_semisynthetic(
    images: Any,
    labels: Any,
    *,
    n_samples: int = 500,
    digits: tuple[Any, Any] = (2, 5),
    label_digits: tuple[Any, Any] = (4, 7),
    n_atoms: int = 10,
    noise: float = 0.5,
    test_size: float = 0.2,
    rng: Any = None,
) -> SemisyntheticData:
    """Mixtures of two digits, labelled by whether they are more like a third digit than like a fourth.

    Rows are x = W_x h + noise N(0, I) with h uniform on (0, 1) and W_x ``n_atoms`` images of each of ``digits``; y is 1
    with probability 1 / (1 + exp(-(a - mean a))), a = b'W_y'W_x h, W_y images of ``label_digits``, b = +1 for the first
    of them and -1 for the second. Pixels are divided by their largest value.

    Parameters
    ----------
    images : array (n, height, width) or (n, pixels), such as those of `load_mnist`.
    labels : array (n,) of digits.
    n_atoms : images of each digit.
    noise : standard deviation.
    test_size : share of the rows that are held out.
    rng : seed, Generator or RandomState. The published rows are those of ``RandomState(1)`` with all 70,000 images of
        MNIST, training images first.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> data = make_semisynthetic(digits.images, digits.target, n_samples=50, rng=0)
    >>> data.X_train.shape, data.X_test.shape, data.atoms.shape
    ((40, 64), (10, 64), (20, 64))
    """
    rng = rng if isinstance(rng, np.random.RandomState) else np.random.default_rng(rng)
    images, labels = map(np.asarray, (images, labels))
    if len(images) != len(labels):
        msg = f"{len(images)} images and {len(labels)} labels; one label per image is needed"
        raise ValueError(msg)
    n_test = int(np.ceil(test_size * n_samples))
    if not 0 < n_test < n_samples:
        msg = f"test_size={test_size} of n_samples={n_samples} leaves no rows for training or for the test; use a share like 0.2"
        raise ValueError(msg)
    pixels = images.reshape(len(images), -1)
    atoms, label_atoms = (
        np.vstack([_draw(pixels, labels, digit, n_atoms, rng) for digit in pair]) / float(pixels.max())
        for pair in (digits, label_digits)
    )
    coef = np.repeat([1.0, -1.0], n_atoms)
    spread = noise * rng.standard_normal((n_samples, pixels.shape[1]))
    codes = rng.random((n_samples, len(atoms)))
    clean = codes @ atoms
    activation = clean @ (label_atoms.T @ coef)
    y = (rng.random(n_samples) < expit(activation - activation.mean())).astype(np.intp)
    test, train = np.split(rng.permutation(n_samples), [n_test])
    X = clean + spread
    truth = atoms, label_atoms, coef, codes[np.r_[train, test]]
    return SemisyntheticData(X[train], X[test], y[train], y[test], *truth)


def _draw(pixels: NDArray[Any], labels: NDArray[Any], digit: Any, size: int, rng: Any) -> Array:
    rows = np.flatnonzero(labels == digit)
    if len(rows) < size:
        msg = f"{len(rows)} images have the label {digit!r}, n_atoms={size} are needed; pass more images, or fewer atoms"
        raise ValueError(msg)
    return np.asarray(pixels[rng.choice(rows, size, replace=False)], dtype=np.float64)


@dataclass(frozen=True)
class DictionaryData:
    """A table from a generative model, and its truth.

    Attributes
    ----------
    X : rows (n x (features + covariates)); ``covariates`` is the slice of its columns that are covariates.
    y : classes 0..K.
    components : atoms (r x features), orthonormal.
    codes : n x r.
    coef : r x K, coefficients of the atoms; class 0 is the reference.
    covariate_coef : covariates x K.
    activation : n x K, log odds against class 0.
    """

    X: Array
    y: NDArray[np.intp]
    covariates: slice
    components: Array
    codes: Array
    coef: Array
    covariate_coef: Array
    activation: Array

    def __iter__(self) -> Any:
        """Unpack as ``X, y, covariates``."""
        return iter((self.X, self.y, self.covariates))


def make_dictionary(
    n_samples: int = 500,
    n_features: int = 30,
    n_components: int = 3,
    n_covariates: int = 2,
    n_classes: int = 2,
    *,
    model: Model = "filter",
    noise: float = 0.1,
    covariate_noise: float = 0.5,
    signal: float = 2.0,
    rng: Any = None,
) -> DictionaryData:
    """Tables of the generative models (30), (34) and (36) of the supervised-dictionary paper.

    With atoms W (orthonormal), codes h and covariates z = c + noise: x = W h + noise, and classes are multinomial with
    log odds

    - "filter", (30): B'W'x + G'z, a code and a covariate mean c for each row;
    - "feature", (34): B'h + G'z, likewise;
    - "common", (36): as "filter", but all rows share one code and one mean, so that rows are identically distributed.

    Codes and means are standard normal; B and G are normal with standard deviations ``signal`` / sqrt(r) and
    ``signal`` / sqrt(covariates).

    Parameters
    ----------
    n_samples, n_features, n_components, n_covariates, n_classes : n, p, r, q, K + 1.
    noise, covariate_noise : standard deviations of the noise of x and z.
    rng : seed or Generator.

    Examples
    --------
    >>> X, y, covariates = make_dictionary(100, 8, 2, n_covariates=3, n_classes=3, rng=0)
    >>> X.shape, X[:, covariates].shape, sorted(set(y.tolist()))
    ((100, 11), (100, 3), [0, 1, 2])
    """
    _check(model, n_components, n_features, n_classes)
    rng = np.random.default_rng(rng)
    n, p, r, q, K = n_samples, n_features, n_components, n_covariates, n_classes - 1
    W = np.linalg.qr(rng.standard_normal((p, r)))[0]
    coef = signal / np.sqrt(r) * rng.standard_normal((r, K))
    covariate_coef = signal / np.sqrt(max(q, 1)) * rng.standard_normal((q, K))
    kinds = 1 if model == "common" else n
    codes = np.broadcast_to(rng.standard_normal((kinds, r)), (n, r)).copy()
    Z = rng.standard_normal((kinds, q)) + covariate_noise * rng.standard_normal((n, q))
    X = codes @ W.T + noise * rng.standard_normal((n, p))
    source = codes if model == "feature" else X @ W
    activation = source @ coef + Z @ covariate_coef
    odds = np.column_stack([np.zeros(n), activation])
    y = np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)  # the multinomial law of the log odds
    truth = W.T.copy(), codes, coef, covariate_coef, activation
    return DictionaryData(np.hstack([X, Z]), y, slice(p, p + q), *truth)


def _check(model: str, n_components: int, n_features: int, n_classes: int) -> None:
    if model not in ("filter", "feature", "common"):
        msg = f"model={model!r} is unknown; choose 'filter' (30), 'feature' (34) or 'common' (36)"
        raise ValueError(msg)
    if not 1 <= n_components <= n_features:
        msg = f"n_components={n_components} must lie between 1 and n_features={n_features}"
        raise ValueError(msg)
    if n_classes < 2:
        msg = f"n_classes={n_classes} must be at least 2"
        raise ValueError(msg)
