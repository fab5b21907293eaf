"""Stein's method on MNIST: reconstruction and classification from h numbers per image, with one decoder for all.

The published comparison gives PCA its linear decoder and the other methods a network. Here the network
(h - 2h - 4h - 784, ReLU, Adam, batches of 128) decodes every embedding, PCA's included, and PCA is shown with its
linear decoder too. Pixels are divided by 255; training images are drawn from the training set, errors are on the test
set: NRSE, SSIM (range 1), and the accuracy of multinomial logistic regression on the standardised embedding. Every
choice is made on training images: a fifth of them is held out, and the network's NRSE there at the smallest h decides.

- first order, kernel, validated: unsupervised block E[s x'] of a kernel score (nu-method, curl-free IMQ) fitted on a
  sample of the images, regularisation (of the normalised kernel) by held-out reconstruction;
- first order, kernel, fitted: the same with the regularisation of least score-matching loss, the best score;
- first order, denoising: a small network's score of the images plus noise of standard deviation 1, the largest level
  of the published network, which is not rebuilt (needs torch);
- second order: E[mean pixel T(x)] with a Gaussian score, the published average over pixels, with a ridge, by
  held-out reconstruction, in the place of the published pseudo-inverse;
- autoencoder 784 - 4h - 2h - h - 2h - 4h - 784, trained end to end (needs torch).

A Gaussian score with any ridge gives PCA itself and has no row of its own.

Data: ``mnist.npz`` in the folder that COLSPACE_DATA names, else OpenML's copy, see `colspace.datasets.load_mnist`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._validation import ConstantColumnWarning
from ..datasets import load_mnist
from ..displays._style import tidy
from ..metrics import nrse, ssim
from ..reduction import SteinReduction
from ..scores import GaussianScore, KernelScore, NeuralScore
from ._claims import read_paper
from ._core import Result, Row, standard_error, unfinished, working, write
from ._figures import below_all, columns_of, look, opened
from ._stein_network import one_thread
from ._stein_sim import median_error

Array = NDArray[np.float64]
PAPER = read_paper("001").settings["mnist"]
MEASURES = ("nrse", "ssim", "accuracy")


@dataclass(frozen=True)
class Size:
    """How much is done."""

    dimensions: tuple[int, ...]
    train: int
    kernel: int  # images of the kernel score
    epochs: int
    draws: int  # of training images
    decoders: int  # networks, from different starts, for each draw and embedding


SIZES = {
    True: Size((12,), PAPER["training"], 600, 10, 1, 2),
    False: Size(tuple(PAPER["dimensions"][::4]), PAPER["training"], 2_000, PAPER["epochs"], 2, 1),
}
BATCH: int = PAPER["batch"]
HELD_OUT = 0.2
REGULARIZATIONS = (1.0, 0.1, 0.01)  # 1 is one step: the score is a smoothed density's slope
RIDGES = (1.0, 100.0, 10_000.0)
NOISE = 1.0  # standard deviation, in pixels, of what the denoising score sees
BASE, LINEAR = "PCA, network", "PCA, linear decoder"


@dataclass(frozen=True)
class Images:
    """Rows of pixels in 0..1 and labels."""

    X: Array
    y: Any
    X_test: Array
    y_test: Any

    @property
    def side(self) -> int:
        """Pixels along one side."""
        return int(np.sqrt(self.X.shape[1]))


def draw_images(size: Size, rng: Any) -> Images:
    """Random training images, the whole test set."""
    data = load_mnist(fetch=True)
    rows = np.random.default_rng(rng).choice(
        len(data.x_train), min(size.train, len(data.x_train)), replace=False
    )
    X, T = (x.reshape(len(x), -1) / 255.0 for x in (data.x_train[rows], data.x_test))
    return Images(X, data.y_train[rows], T, data.y_test)


def directions(model: Any, X: Array, y: Any = None) -> Array:
    """Components of a fitted model (h x pixels), the first of which are those of a smaller h."""
    with warnings.catch_warnings():
        # border pixels are constant, and without labels nothing is determined
        warnings.simplefilter("ignore", ConstantColumnWarning)
        warnings.filterwarnings("ignore", "without labels the scores prefer no direction", UserWarning)
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        components: Array = model.fit(X, y).components_
    return components


def kernel_directions(X: Array, size: Size, regularization: float | str, seed: int) -> Array:
    """First order without labels, kernel score."""
    score = KernelScore(
        regularization=regularization, standardize=False, max_samples=size.kernel, random_state=seed
    )
    return directions(
        SteinReduction(max(size.dimensions), score_model=score, standardize=False, n_groups=None), X
    )


def second_directions(X: Array, size: Size, ridge: float) -> Array:
    """Second order with the mean pixel as response, Gaussian score."""
    plain: dict[str, Any] = {
        "whiten": False,
        "whiten_response": False,
        "standardize": False,
        "n_groups": None,
    }
    model = SteinReduction(max(size.dimensions), order=2, score_model=GaussianScore(ridge=ridge), **plain)
    return directions(model, X, X.mean(axis=1))


def validated(images: Images, size: Size, seed: int) -> tuple[float, float]:
    """The regularisation of the kernel score and the ridge of the second order, on held-out training images."""
    X, held_out = train_test_split(images.X, test_size=HELD_OUT, random_state=seed)
    mean, h = X.mean(axis=0), min(size.dimensions)

    def error(components: Array) -> float:
        Z, Z_held_out = ((A - mean) @ components[:h].T for A in (X, held_out))
        return nrse(held_out, decode(Z, X, Z_held_out, h, size.epochs // 2, seed))

    return (
        min(REGULARIZATIONS, key=lambda value: error(kernel_directions(X, size, value, seed))),
        min(RIDGES, key=lambda value: error(second_directions(X, size, value))),
    )


def encoders(images: Images, size: Size, seed: int, regularization: float, ridge: float) -> dict[str, Array]:
    """Name -> directions (largest h x pixels)."""
    X, h = images.X, max(size.dimensions)
    found = {
        "PCA": directions(PCA(h, svd_solver="covariance_eigh"), X),
        "first order, kernel, validated": kernel_directions(X, size, regularization, seed),
        "first order, kernel, fitted": kernel_directions(X, size, "auto", seed),
    }
    if find_spec("torch") is not None:
        noisy = X + NOISE * np.random.default_rng(seed).standard_normal(X.shape)
        net = NeuralScore(noise=0.3, standardize=False, max_epochs=6, random_state=seed)
        found["first order, denoising"] = directions(
            SteinReduction(h, score_model=net, standardize=False, n_groups=None), noisy
        )
    found["second order, validated"] = second_directions(X, size, ridge)
    return found


def decode(Z: Array, X: Array, Z_new: Array, h: int, epochs: int, seed: int) -> Array:
    """New images from their embedding by the network that every method shares."""
    net = MLPRegressor(
        hidden_layer_sizes=tuple(k * h for k in PAPER["decoder"]),
        alpha=0.0,
        batch_size=min(BATCH, len(Z)),
        max_iter=epochs,
        tol=0.0,
        n_iter_no_change=epochs,
        random_state=seed,
    )
    z, x, z_new = (A.astype(np.float32) for A in (Z, X, Z_new))
    with unfinished():  # a fixed number of epochs, as published
        prediction: Array = net.fit(z, x).predict(z_new).astype(np.float64)
    return prediction


def autoencode(images: Images, h: int, epochs: int, seed: int) -> tuple[Array, Array, Array]:
    """Embeddings of training and test images and the decoded test images of the published autoencoder."""
    import torch
    from torch import nn

    p = images.X.shape[1]
    X, T = (torch.tensor(A, dtype=torch.float32) for A in (images.X, images.X_test))
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        encoder, decoder = (
            nn.Sequential(
                nn.Linear(w[0], w[1]), nn.ReLU(), nn.Linear(w[1], w[2]), nn.ReLU(), nn.Linear(w[2], w[3])
            )
            for w in (
                (p, *(k * h for k in PAPER["encoder"]), h),
                (h, *(k * h for k in PAPER["decoder"]), p),
            )
        )
        for layer in (*encoder[::2], *decoder[::2]):
            nn.init.xavier_uniform_(layer.weight)  # where the shared decoder starts too
        optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], fused=True)
        for _ in range(epochs):
            for rows in torch.randperm(len(X)).split(BATCH):
                optimiser.zero_grad()
                loss = ((decoder(encoder(X[rows])) - X[rows]) ** 2).sum(dim=1).mean()
                loss.backward()
                optimiser.step()
        with torch.no_grad():
            Z, Z_test = encoder(X), encoder(T)
            Z, Z_test, decoded = (A.double().numpy() for A in (Z, Z_test, decoder(Z_test)))
    return Z, Z_test, decoded


def measures(images: Images, Z: Array, Z_test: Array, decoded: Array) -> tuple[float, float, float]:
    """NRSE, SSIM and accuracy on test images."""
    stack = (-1, images.side, images.side)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return (
        nrse(images.X_test, decoded),
        ssim(images.X_test.reshape(stack), decoded.reshape(stack), data_range=1.0),
        float(classifier.fit(Z, images.y).score(Z_test, images.y_test)),
    )


def one_width(
    images: Images, found: dict[str, Array], h: int, epochs: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    """Method -> measures at one h."""
    mean, out = images.X.mean(axis=0), {}
    for name, components in found.items():
        Z, Z_test = ((A - mean) @ components[:h].T for A in (images.X, images.X_test))
        if name == "PCA":
            out[LINEAR] = measures(images, Z, Z_test, mean + Z_test @ components[:h])
        decoded = decode(Z, images.X, Z_test, h, epochs, seed)
        out[BASE if name == "PCA" else name] = measures(images, Z, Z_test, decoded)
    if find_spec("torch") is not None:
        out["autoencoder"] = measures(images, *autoencode(images, h, epochs, seed))
    return out


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Medians over draws of training images and starts of the decoder."""
    size = SIZES[quick]
    table: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    choices = []
    total = size.draws * size.decoders * len(size.dimensions)
    with working(total, "stein-mnist", progress) as advance:
        for child in np.random.SeedSequence(rng).spawn(size.draws):
            seed, *starts = (int(value) for value in child.generate_state(1 + size.decoders) >> 1)
            images = draw_images(size, child)
            choices.append(validated(images, size, seed))
            found = encoders(images, size, seed, *choices[-1])
            for start in starts:
                for h in size.dimensions:
                    for name, values in one_width(images, found, h, size.epochs, start).items():
                        table.setdefault((h, name), []).append(values)
                    advance()
    rows = [
        tabulate(h, name, np.array(values), {key: np.array(table[h, key]) for key in (BASE, LINEAR)})
        for (h, name), values in sorted(table.items(), key=lambda item: item[0][0])
    ]
    title = f"Paper 001, Fig. 3: MNIST, {size.train:,} training images, h numbers each, on the test images"
    what = f"{size.draws} draw(s) of {size.train:,} training images, {size.decoders} start(s) of each decoder, {size.epochs} epochs"
    regularizations, ridges = (
        ", ".join(f"{value:g}" for value in sorted(set(values))) for values in zip(*choices, strict=True)
    )
    notes: tuple[str, ...] = (
        "'minus PCA' is the mean difference in NRSE from PCA with the network from the same start, and its standard error.",
        f"Chosen on held-out training images: kernel regularisation {regularizations}; ridge of the second order {ridges}.",
    )
    if find_spec("torch") is None:
        left_out = "Without torch (pip install torch) the autoencoder and the denoising score are left out."
        notes = (*notes, left_out)
    summary: list[Row] = [
        {
            "h": row["h"],
            "method": row["method"],
            "NRSE": f"{row['nrse']:.3f}",
            "minus PCA": f"{row['nrse_minus_pca']:+.4f} ± {row['nrse_minus_pca_se']:.4f}",
            "SSIM": f"{row['ssim']:.3f}",
            "accuracy": f"{row['accuracy']:.3f}",
        }
        for row in rows
    ]
    figure = partial(draw, title, rows)
    return write(Result("stein-mnist", title, rows, summary, notes, figure, size=what), out)


def tabulate(h: int, name: str, values: Array, bases: dict[str, Array]) -> Row:
    """Medians of the runs (runs x measures) with standard errors, and mean differences from PCA's runs with theirs."""
    row: Row = {"method": name, "h": h}
    for i, measure in enumerate(MEASURES):
        row |= {measure: float(np.median(values[:, i])), f"{measure}_se": median_error(values[:, i])}
        for other, base in ((BASE, "pca"), (LINEAR, "linear")):
            difference = values[:, i] - bases[other][:, i]
            row |= {
                f"{measure}_minus_{base}": float(difference.mean()),
                f"{measure}_minus_{base}_se": standard_error(difference),
            }
    return {**row, "runs": len(values)}


def draw(title: str, rows: list[Row]) -> Any:
    """One Axes per measure, over h."""
    figure, axes = opened(title, 1, 3, (12.6, 4.4))
    for ax, measure in zip(axes.flat, MEASURES, strict=True):
        for i, name in enumerate(dict.fromkeys(row["method"] for row in rows)):
            here = [row for row in rows if row["method"] == name]
            ax.plot(*columns_of(here, "h", measure), label=name, **look(i))
        ax.set_ylabel(measure.upper() if measure != "accuracy" else measure)
        ax.set_xlabel("embedding dimension h")
        ax.set_xticks(sorted({row["h"] for row in rows}))
        tidy(ax)
    below_all(figure, axes[0, 0])
    return figure
