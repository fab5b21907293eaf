"""Real data from a folder of the user: nothing is shipped, nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Environment variable that names the folder.
FOLDER = "COLSPACE_DATA"

_MNIST = (
    "Public source: MNIST (LeCun, Cortes and Burges); the mnist.npz that Keras downloads "
    "(keras.datasets.mnist.load_data) has these arrays"
)
_PATCHSEQ = (
    "Public source: mouse motor cortex Patch-seq, Scala et al. 2021: electrophysiology in github.com/berenslab/mini-atlas "
    "(data/m1_patchseq_ephys_features.csv), exon counts in github.com/daifengwanglab/scMNC "
    "(mouse_motor_cortex/data/motor_data_filtered.rda); save the cells common to both with numpy.savez"
)


@dataclass(frozen=True)
class MnistData:
    """Handwritten digits: images n x 28 x 28 of 0..255, and their labels."""

    x_train: NDArray[np.uint8]
    y_train: NDArray[Any]
    x_test: NDArray[np.uint8]
    y_test: NDArray[Any]


@dataclass(frozen=True)
class PatchSeqData:
    """Cells with gene counts (cells x genes) and electrophysiology (cells x features).

    ``gene_var_rank`` orders the genes, 0 the most variable; ``ephys_in16`` marks the 16 features of the published
    analysis.
    """

    counts: NDArray[Any]
    gene_var_rank: NDArray[Any]
    ephys: NDArray[Any]
    ephys_names: NDArray[Any]
    ephys_in16: NDArray[np.bool_]


def load_mnist(folder: str | Path | None = None) -> MnistData:
    """MNIST from ``mnist.npz``.

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from colspace.datasets._real import load_mnist
    >>> folder = tempfile.mkdtemp()
    >>> images = np.zeros((2, 28, 28), dtype=np.uint8)
    >>> np.savez(folder + "/mnist.npz", x_train=images, y_train=[3, 4], x_test=images, y_test=[5, 6])
    >>> load_mnist(folder).x_train.shape
    (2, 28, 28)
    """
    arrays = _read("mnist.npz", folder, ("x_train", "y_train", "x_test", "y_test"), _MNIST)
    data = MnistData(**arrays)
    for x, y, name in ((data.x_train, data.y_train, "train"), (data.x_test, data.y_test, "test")):
        if x.ndim != 3 or len(x) != len(y):
            msg = f"mnist.npz: x_{name} has shape {x.shape} and y_{name} {y.shape}; n images and n labels are needed"
            raise ValueError(msg)
    return data


def load_patchseq(folder: str | Path | None = None) -> PatchSeqData:
    """Patch-seq cells of the mouse motor cortex from ``m1_patchseq.npz``.

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA.
    """
    names = tuple(PatchSeqData.__dataclass_fields__)
    data = PatchSeqData(**_read("m1_patchseq.npz", folder, names, _PATCHSEQ))
    cells, genes, features = len(data.counts), data.gene_var_rank.shape, data.ephys_names.shape
    if data.counts.shape != (cells, *genes) or data.ephys.shape != (cells, *features):
        msg = (
            f"m1_patchseq.npz: counts {data.counts.shape} and ephys {data.ephys.shape} do not fit {genes[0]} genes, "
            f"{features[0]} features and one another's rows"
        )
        raise ValueError(msg)
    return data


def _read(file: str, folder: str | Path | None, names: Sequence[str], source: str) -> dict[str, Any]:
    """The named arrays of a file, or an error that says how to get it."""
    given = folder if folder is not None else os.environ.get(FOLDER)
    remedy = f"{source}. Then pass folder=..., or set the environment variable {FOLDER}=/path/to/folder"
    if not given:
        msg = f"no folder with {file} is known: {FOLDER} is not set. {remedy}"
        raise FileNotFoundError(msg)
    path = Path(given).expanduser() / file
    if not path.is_file():
        msg = f"{path} does not exist; it must hold the arrays {', '.join(names)}. {remedy}"
        raise FileNotFoundError(msg)
    with np.load(path, allow_pickle=False) as stored:
        missing = [name for name in names if name not in stored.files]
        if missing:
            msg = f"{path} has no array {missing[0]!r}; it must hold {', '.join(names)}. {remedy}"
            raise ValueError(msg)
        return {name: stored[name] for name in names}
