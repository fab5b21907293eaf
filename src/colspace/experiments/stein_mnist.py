"""Stein's method on MNIST: reconstruction and classification from h numbers per image, with one decoder for all.

The published comparison gives PCA its linear decoder and the other methods a network. Here the network
(h - 2h - 4h - 784, ReLU, Adam, batches of 128) decodes every embedding, PCA's included, and PCA is shown with its
linear decoder too. Pixels are divided by 255; training rows are drawn from the training set, errors are on test
images: NRSE, SSIM (range 1), and the accuracy of multinomial logistic regression on the standardised embedding.

- first order, Gaussian ridge: unsupervised, by theory PCA itself, so the row is a check;
- first order, kernel: unsupervised block E[s x'] of a kernel score (nu-method, curl-free IMQ) fitted on a sample of
  the rows, heavily smoothed (regularisation 1 on the normalised kernel) or with the regularisation that
  fits held-out rows best;
- first order, denoising: the same with a small network's score of the images plus noise (needs torch; the published
  pre-trained network is not rebuilt);
- second order, Gaussian ridge: E[mean pixel T(x)], the published average over pixels, with a ridge in the place of
  the published pseudo-inverse;
- autoencoder 784 - 4h - 2h - h - 2h - 4h - 784, trained end to end (needs torch).

Data: ``mnist.npz`` in the folder that COLSPACE_DATA names, see `colspace.datasets`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from .._progress import track
from .._validation import ConstantColumnWarning
from ..datasets._real import load_mnist
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ..metrics import nrse, ssim
from ..reduction import SteinReduction
from ..scores import GaussianScore, KernelScore, NeuralScore
from ._core import Result, Row
from ._stein_sim import write

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """How much is done."""

    dimensions: tuple[int, ...]
    train: int
    test: int
    kernel: int  # rows of the kernel score
    epochs: int
    repetitions: int


SIZES = {
    True: Size((10, 14), 3_000, 2_000, 1_000, 40, 1),
    False: Size((10, 11, 12, 13, 14, 15, 16, 17, 18), 10_000, 10_000, 3_000, 50, 5),
}
BATCH = 128
DENOISING = (
    0.3  # noise added to pixels before a network learns their score: without it their law has no density
)

NOTES: tuple[str, ...] = (
    "Published claim: the first order beats PCA on NRSE and SSIM: only where PCA alone gets a linear decoder.",
    "Under one decoder a smooth score ties with PCA, because it is PCA.",
    "A better fitted score is worse, because an exact one prefers no direction.",
)


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
    """Random training rows; the first test rows."""
    data = load_mnist()
    rows = np.random.default_rng(rng).choice(
        len(data.x_train), min(size.train, len(data.x_train)), replace=False
    )
    X, T = (x.reshape(len(x), -1) / 255.0 for x in (data.x_train[rows], data.x_test[: size.test]))
    return Images(X, data.y_train[rows], T, data.y_test[: size.test])


def encoders(images: Images, size: Size, seed: int) -> dict[str, Array]:
    """Name -> directions (largest h x pixels); the first h of them are those of h."""
    X, h = images.X, max(size.dimensions)
    ridge = GaussianScore(ridge=1.0)
    smooth, fitted = (
        KernelScore(regularization=r, max_samples=size.kernel, random_state=seed) for r in (1.0, "auto")
    )
    models = {
        "PCA": (PCA(h, svd_solver="full"), X, None),
        "first order, Gaussian ridge 1": (SteinReduction(h, score_model=ridge), X, None),
        "first order, kernel, smooth": (SteinReduction(h, score_model=smooth), X, None),
        "first order, kernel, fitted": (SteinReduction(h, score_model=fitted), X, None),
    }
    if find_spec("torch") is not None:
        noise = DENOISING * np.random.default_rng(seed).standard_normal(X.shape)
        net = NeuralScore(noise=1.0, max_epochs=15, random_state=seed % 2**31)
        models["first order, denoising"] = (SteinReduction(h, score_model=net), X + noise, None)
    for strength in (1.0, 100.0):
        plain: dict[str, Any] = {
            "score_model": GaussianScore(ridge=strength),
            "whiten": False,
            "whiten_response": False,
        }
        second = SteinReduction(h, order=2, **plain)
        models[f"second order, Gaussian ridge {strength:g}"] = second, X, X.mean(axis=1)
    with warnings.catch_warnings():
        # border pixels are constant, and a Gaussian without labels says that it is PCA
        warnings.simplefilter("ignore", ConstantColumnWarning)
        warnings.filterwarnings("ignore", "without labels the scores prefer no direction", UserWarning)
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        return {name: model.fit(rows, y).components_ for name, (model, rows, y) in models.items()}


def decode(Z: Array, X: Array, Z_test: Array, h: int, epochs: int, seed: int) -> Array:
    """Test images from their embedding by the network that every method shares."""
    net = MLPRegressor(
        hidden_layer_sizes=(2 * h, 4 * h),
        alpha=0.0,
        batch_size=min(BATCH, len(Z)),
        max_iter=epochs,
        tol=0.0,
        n_iter_no_change=epochs,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of epochs, as published
        prediction: Array = net.fit(Z, X).predict(Z_test)
    return prediction


def autoencode(images: Images, h: int, epochs: int, seed: int) -> tuple[Array, Array, Array]:
    """Embeddings of training and test images and the decoded test images of the published autoencoder."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    p = images.X.shape[1]
    down, up = (p, 4 * h, 2 * h, h), (h, 2 * h, 4 * h, p)
    encoder, decoder = (
        nn.Sequential(
            nn.Linear(w[0], w[1]), nn.ReLU(), nn.Linear(w[1], w[2]), nn.ReLU(), nn.Linear(w[2], w[3])
        )
        for w in (down, up)
    )
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    X, T = (torch.tensor(A, dtype=torch.float32) for A in (images.X, images.X_test))
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
            out["PCA, linear decoder"] = measures(images, Z, Z_test, mean + Z_test @ components[:h])
        decoded = decode(Z, images.X, Z_test, h, epochs, seed)
        out["PCA, network" if name == "PCA" else name] = measures(images, Z, Z_test, decoded)
    if find_spec("torch") is not None:
        out["autoencoder"] = measures(images, *autoencode(images, h, epochs, seed))
    return out


def run(*, quick: bool = False, out: Path | None = None, rng: int = 0, progress: bool = False) -> Result:
    """Medians over repetitions; one repetition on fewer images when quick."""
    size = SIZES[quick]
    table: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    total = size.repetitions * len(size.dimensions)
    with threadpool_limits(1), track(total, "stein-mnist", show=progress) as advance:
        for child in np.random.SeedSequence(rng).spawn(size.repetitions):
            images, seed = draw_images(size, child), int(child.generate_state(1)[0])
            directions = encoders(images, size, seed)
            for h in size.dimensions:
                for name, values in one_width(images, directions, h, size.epochs, seed).items():
                    table.setdefault((name, h), []).append(values)
                advance()
    rows: list[Row] = []
    for (name, h), found in table.items():
        middle = np.median(found, axis=0)
        values_by_name = dict(zip(("nrse", "ssim", "accuracy"), map(float, middle), strict=True))
        rows.append({"method": name, "h": h, **values_by_name, "repetitions": size.repetitions})
    rows.sort(key=lambda row: row["h"])
    title = f"MNIST: {size.train:,} training images, h numbers each, errors on {size.test:,} test images"
    notes = NOTES
    if find_spec("torch") is None:
        notes = (
            *NOTES,
            "Without torch (pip install torch) the autoencoder and the denoising score are left out.",
        )

    def figure() -> Any:
        return draw(title, rows)

    summary: list[Row] = [
        {
            "h": row["h"],
            "method": row["method"],
            **{name.upper(): f"{row[name]:.3f}" for name in ("nrse", "ssim")},
            "accuracy": f"{row['accuracy']:.3f}",
        }
        for row in rows
    ]
    return write(Result("stein-mnist", title, rows, summary, notes, figure), out)


def draw(title: str, rows: list[Row]) -> Any:
    """One Axes per measure, over h."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(12.6, 3.8), layout="constrained")
    figure.suptitle(title, fontsize="large")
    for ax, measure in zip(axes, ("nrse", "ssim", "accuracy"), strict=True):
        for i, name in enumerate(dict.fromkeys(row["method"] for row in rows)):
            points = [(row["h"], row[measure]) for row in rows if row["method"] == name]
            style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
            line = "-" if i < len(COLOURS) else "--"
            ax.plot(*zip(*points, strict=True), line, markersize=4, linewidth=1.3, label=name, **style)
        ax.set_ylabel(measure.upper() if measure != "accuracy" else measure)
        ax.set_xlabel("embedding dimension h")
        ax.set_xticks(sorted({row["h"] for row in rows}))
        tidy(ax)
    axes[0].legend(frameon=False, fontsize="x-small")
    return figure
