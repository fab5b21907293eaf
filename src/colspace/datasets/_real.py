"""Real data from a folder of the user or from their public source: nothing is shipped."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

#: Environment variable that names the folder.
FOLDER = "COLSPACE_DATA"

_NAMED = f"A folder is named by folder=... or the environment variable {FOLDER}"
_OPENML = {"name": "mnist_784", "version": 1}
_MNIST_TRAIN = 60_000

_MNIST = (
    "Remedies: load_mnist(fetch=True) downloads OpenML's copy (mnist_784, 15 MB); or put there the mnist.npz that Keras "
    "downloads (keras.datasets.mnist.load_data), with the arrays x_train and x_test (images, 28, 28), uint8, and y_train "
    "and y_test"
)
_PATCHSEQ = (
    "It is not downloaded for you, no table of this form is published. Public source: mouse motor cortex Patch-seq, "
    "Scala et al. 2021 (Nature): exon counts in github.com/daifengwanglab/scMNC "
    "(mouse_motor_cortex/data/motor_data_filtered.rda), electrophysiology in github.com/berenslab/mini-atlas "
    "(data/m1_patchseq_ephys_features.csv). Save the cells common to both with numpy.savez: counts (cells, genes), "
    "gene_var_rank (genes,) with 0 the most variable in log2(1 + counts per million), ephys (cells, features), ephys_names "
    "(features,), ephys_in16 (features,) true for the 16 features of the published analysis"
)

_PNEUMONIA = (
    "It is not downloaded for you. Public source: PneumoniaMNIST of MedMNIST v2 (medmnist.com, CC BY 4.0), whose file is "
    "pneumoniamnist.npz, with the arrays train_images, train_labels, val_images, val_labels, test_images and test_labels"
)
_JOBS = (
    "Public source: 'Real or Fake Job Posting Prediction' (EMSCAD, University of the Aegean; Kaggle, CC0), whose file is "
    "fake_job_postings.csv; or a Parquet table with columns of the same names"
)
#: Table of job postings -> files that may hold it, the first found is read.
_JOB_FILES = {
    "full": ("fake_job_postings.csv", "fake_job_postings.parquet"),
    "case-control": ("fake_jobs_partial.parquet",),
    "titles": ("fake_jobs_titles.parquet",),
}
_FLAGS = ("telecommuting", "has_company_logo", "has_questions")
_CHOICES = ("employment_type", "required_experience", "required_education", "function")


@dataclass(frozen=True)
class PneumoniaData:
    """Chest X-rays, images n x side x side of 0..255, labelled 0 (normal) or 1 (pneumonia)."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[Any]
    val_images: NDArray[np.uint8]
    val_labels: NDArray[Any]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[Any]


@dataclass(frozen=True)
class JobsData:
    """Job postings.

    Attributes
    ----------
    text : what is to be modelled, the description or, in the table of titles, the title.
    group : the same number for postings with the same title and description, which must not be split.
    covariates : n x q, flags and one-hot columns; no columns in the table of titles.
    covariate_names : q names.
    y : 1 for fraudulent.
    """

    text: NDArray[Any]
    group: NDArray[np.intp]
    covariates: NDArray[np.float64]
    covariate_names: tuple[str, ...]
    y: NDArray[np.intp]


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


def load_mnist(
    folder: str | Path | None = None, *, fetch: bool = False, data_home: str | Path | None = None
) -> MnistData:
    """MNIST from ``mnist.npz`` in a folder, or from OpenML.

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA.
    fetch : download OpenML's copy when the file is not there; scikit-learn keeps it, so that it is downloaded once.
    data_home : where scikit-learn keeps it; None is its own default.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from colspace.datasets import load_mnist
    >>> folder = tempfile.mkdtemp()
    >>> images = np.zeros((2, 28, 28), dtype=np.uint8)
    >>> np.savez(folder + "/mnist.npz", x_train=images, y_train=[3, 4], x_test=images, y_test=[5, 6])
    >>> load_mnist(folder).x_train.shape
    (2, 28, 28)
    """
    file, names = "mnist.npz", tuple(MnistData.__dataclass_fields__)
    path = _path(file, folder)
    if fetch and (path is None or not path.is_file()):
        return _fetch_mnist(file, path, data_home)
    data = MnistData(**_read(file, path, names, _MNIST))
    for x, y, name in ((data.x_train, data.y_train, "train"), (data.x_test, data.y_test, "test")):
        if x.ndim != 3 or len(x) != len(y):
            msg = f"mnist.npz: x_{name} has shape {x.shape} and y_{name} {y.shape}; n images and n labels are needed"
            raise ValueError(msg)
    return data


def load_patchseq(folder: str | Path | None = None) -> PatchSeqData:
    """Patch-seq cells of the mouse motor cortex from ``m1_patchseq.npz``.

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA. The error that a missing file
        gives says what to download and how to make the file.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from colspace.datasets import load_patchseq
    >>> folder = tempfile.mkdtemp()
    >>> np.savez(
    ...     folder + "/m1_patchseq.npz",
    ...     counts=[[0, 3, 1], [2, 0, 5]],
    ...     gene_var_rank=[1, 0, 2],
    ...     ephys=[[0.5, -70.0], [0.7, -65.0]],
    ...     ephys_names=["width", "rest"],
    ...     ephys_in16=[True, False],
    ... )
    >>> load_patchseq(folder).counts.shape
    (2, 3)
    """
    file, names = "m1_patchseq.npz", tuple(PatchSeqData.__dataclass_fields__)
    data = PatchSeqData(**_read(file, _path(file, folder), names, _PATCHSEQ))
    cells, genes, features = len(data.counts), data.gene_var_rank.shape, data.ephys_names.shape
    if data.counts.shape != (cells, *genes) or data.ephys.shape != (cells, *features):
        msg = (
            f"m1_patchseq.npz: counts {data.counts.shape} and ephys {data.ephys.shape} do not fit {genes[0]} genes, "
            f"{features[0]} features and one another's rows"
        )
        raise ValueError(msg)
    return data


def load_pneumonia(folder: str | Path | None = None) -> PneumoniaData:
    """Chest X-rays of PneumoniaMNIST from ``pneumoniamnist.npz`` (or ``pneumoniamnist_28.npz``).

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from colspace.datasets import load_pneumonia
    >>> folder = tempfile.mkdtemp()
    >>> images = {f"{part}_images": np.zeros((2, 28, 28), dtype=np.uint8) for part in ("train", "val", "test")}
    >>> labels = {f"{part}_labels": [[0], [1]] for part in ("train", "val", "test")}
    >>> np.savez(folder + "/pneumoniamnist.npz", **images, **labels)
    >>> load_pneumonia(folder).test_labels
    array([0, 1])
    """
    names, file = tuple(PneumoniaData.__dataclass_fields__), "pneumoniamnist.npz"
    path = _path(file, folder)
    other = _path("pneumoniamnist_28.npz", folder)
    if path is not None and other is not None and not path.is_file() and other.is_file():
        path = other
    data = _read(file, path, names, _PNEUMONIA)
    for part in ("train", "val", "test"):
        images, labels = data[f"{part}_images"], data[f"{part}_labels"]
        if images.ndim != 3 or len(images) != labels.size:
            msg = f"{file}: {part}_images has shape {images.shape} and {part}_labels {labels.shape}; n images and n labels are needed"
            raise ValueError(msg)
        data[f"{part}_labels"] = labels.ravel()
    return PneumoniaData(**data)


def load_jobs(
    folder: str | Path | None = None, *, table: Literal["full", "case-control", "titles"] = "full"
) -> JobsData:
    """Real and fake job postings.

    Parameters
    ----------
    folder : where the file is; None takes the environment variable COLSPACE_DATA.
    table : "full", all postings (``fake_job_postings.csv``); "case-control", a part of them with frauds in excess
        (``fake_jobs_partial.parquet``); "titles", titles alone (``fake_jobs_titles.parquet``).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from colspace.datasets import load_jobs
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [
    ...     "title,description,telecommuting,has_company_logo,has_questions,employment_type,fraudulent",
    ...     "Cook,Cook and clean,0,1,0,Full-time,0",
    ...     "Earn,Earn money at home,1,0,0,,1",
    ... ]
    >>> _ = (folder / "fake_job_postings.csv").write_text(chr(10).join(lines))
    >>> data = load_jobs(folder)
    >>> data.covariate_names
    ('telecommuting', 'has_company_logo', 'has_questions', 'employment_type=Full-time', 'employment_type missing')
    """
    try:
        import pandas
    except ImportError as error:
        msg = "load_jobs needs pandas, which is not installed: pip install 'colspace[cli]'"
        raise ImportError(msg) from error
    if table not in _JOB_FILES:
        msg = f"table={table!r} is unknown; choose from {', '.join(_JOB_FILES)}"
        raise ValueError(msg)
    path = _job_file(table, folder)
    frame = (pandas.read_csv if path.suffix == ".csv" else pandas.read_parquet)(path)
    needed = ("title", "fraudulent") if table == "titles" else ("title", "description", "fraudulent")
    missing = [name for name in needed if name not in frame]
    if missing:
        msg = f"{path} has no column {missing[0]!r}; it must have {', '.join(needed)}. {_JOBS}"
        raise ValueError(msg)
    words = [frame[name].fillna("").astype(str) for name in needed[:-1]]
    group = pandas.factorize(words[0] if len(words) == 1 else words[0] + "\n" + words[1])[0]
    columns = {} if table == "titles" else _covariates(frame)
    covariates = np.column_stack(list(columns.values())) if columns else np.zeros((len(frame), 0))
    y = frame["fraudulent"].to_numpy(dtype=np.intp)
    return JobsData(words[-1].to_numpy(dtype=object), group, covariates, tuple(columns), y)


def _job_file(table: str, folder: str | Path | None) -> Path:
    """The first file that holds the table, or an error that says how to get it."""
    paths = [path for file in _JOB_FILES[table] if (path := _path(file, folder)) is not None]
    for path in paths:
        if path.is_file():
            return path
    place = (
        f"{paths[0]} does not exist"
        if paths
        else f"no folder with job postings is known: {FOLDER} is not set"
    )
    msg = f"{place}. {_JOBS}. {_NAMED}"
    raise FileNotFoundError(msg)


def _covariates(frame: Any) -> dict[str, Any]:
    """Flags, and an indicator of each level of the choices and of its absence."""
    columns = {name: frame[name].to_numpy(dtype=float) for name in _FLAGS if name in frame}
    for name in [name for name in _CHOICES if name in frame]:
        levels = sorted(frame[name].dropna().unique())
        columns |= {f"{name}={level}": (frame[name] == level).to_numpy(dtype=float) for level in levels}
        columns[f"{name} missing"] = frame[name].isna().to_numpy(dtype=float)
    return columns


def _path(file: str, folder: str | Path | None) -> Path | None:
    """Where the file should be; None when no folder is known."""
    given = folder if folder is not None else os.environ.get(FOLDER)
    return Path(given).expanduser() / file if given else None


def _read(file: str, path: Path | None, names: tuple[str, ...], source: str) -> dict[str, Any]:
    """The named arrays of a file, or an error that says how to get it."""
    remedy = f"{source}. {_NAMED}"
    if path is None:
        msg = f"no folder with {file} is known: {FOLDER} is not set. {remedy}"
        raise FileNotFoundError(msg)
    if not path.is_file():
        msg = f"{path} does not exist. {remedy}"
        raise FileNotFoundError(msg)
    with np.load(path, allow_pickle=False) as stored:
        missing = [name for name in names if name not in stored.files]
        if missing:
            msg = f"{path} has no array {missing[0]!r}; it must hold {', '.join(names)}. {remedy}"
            raise ValueError(msg)
        return {name: stored[name] for name in names}


def _fetch_mnist(file: str, path: Path | None, data_home: str | Path | None) -> MnistData:
    """OpenML's 70,000 images, of which the first 60,000 are the training set."""
    from sklearn.datasets import fetch_openml

    parser = "pandas" if find_spec("pandas") is not None else "liac-arff"
    try:
        table = fetch_openml(**_OPENML, as_frame=False, parser=parser, data_home=data_home)
    except (OSError, ValueError) as reason:
        place = f"{FOLDER} is not set" if path is None else f"{path} does not exist"
        msg = (
            f"{file} is not at hand ({place}), and OpenML's mnist_784 could not be had: {reason}. Try again with a "
            f"connection, or pass folder=... or set {FOLDER} to a folder that has the {file} of Keras"
        )
        raise FileNotFoundError(msg) from reason
    x = np.asarray(table.data).reshape(-1, 28, 28).astype(np.uint8)
    y = np.asarray(table.target).astype(np.int64)
    return MnistData(x[:_MNIST_TRAIN], y[:_MNIST_TRAIN], x[_MNIST_TRAIN:], y[_MNIST_TRAIN:])
