"""Whatever container the numbers come in, the result is that of the plain array, or an error that names the column."""

import datetime
import warnings
from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import joblib
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

import colspace
from colspace import (
    BilinearPairRegressor,
    CopulaImputer,
    JointReduction,
    KernelPairRegressor,
    PairRegressor,
    PrincipalHessian,
    ReducedRank,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
    SupervisedDictionaryClassifier,
    SupervisedDictionaryRegressor,
    scores,
)
from colspace._containers import as_column, as_table, canonical
from colspace._validation import check_weights
from colspace.copula._table import read_table
from colspace.pairs import PairTable, spectral_features
from colspace.pairs._links import read_links
from colspace.scores import GaussianScore, KernelScore, ScoreModel, StudentScore, choose_score

NAMES = ["p", "q", "r", "s"]

FEW = {"n_groups": 3}  # groups of rows for errors: the same path as with twenty, in a fifth of the fits
REDUCERS = {
    "joint": JointReduction(1, **FEW),
    "joint by passes": JointReduction(1, solver="randomized", whiten="diagonal", random_state=0, **FEW),
    "stein": SteinReduction(1, **FEW),
    "stein cv": SteinReductionCV(1, ridges=(0.0, 1.0), cv=3),
    "hessian": PrincipalHessian(1, **FEW),
    "inverse": SlicedInverse(1, n_slices=4, **FEW),
    "average": SlicedAverage(1, n_slices=4, **FEW),
    "sols": StructuredOLS(1, **FEW),
    "reduced rank": ReducedRank(1, **FEW),
}
DICTIONARIES = {
    "regressor": SupervisedDictionaryRegressor(2, positive=False, tol=1e-3, random_state=0),
    "classifier": SupervisedDictionaryClassifier(2, positive=False, tol=1e-3, random_state=0),
}
SCORES = {"gaussian": GaussianScore(), "student": StudentScore(df=5.0), "kernel": KernelScore(random_state=0)}
IMPUTER = {"copula": CopulaImputer(1)}
SPARSE = REDUCERS | DICTIONARIES
STRICT = SPARSE | SCORES
ALL = STRICT | IMPUTER


PLAIN = {}


def plain(model, X, y):
    """What a model makes of plain arrays, once for all containers that are compared with them."""
    key = repr(model), joblib.hash((X, y))
    if key not in PLAIN:
        PLAIN[key] = result(model, X, y)[1]
        PLAIN[key].flags.writeable = False
    return PLAIN[key]


def each(models):
    return pytest.mark.parametrize("model", models.values(), ids=list(models))


def result(model, X, y):
    """What a model makes of the rows, for classifiers with the response cut in two."""
    model = clone(model)
    if isinstance(model, SupervisedDictionaryClassifier):
        y = np.where(as_column(y).values.ravel() > 0, "high", "low")
    if isinstance(model, CopulaImputer):
        return model, np.asarray(model.fit(X).latent(X))
    model.fit(X, y)
    return model, np.asarray(model.score_function(X) if isinstance(model, ScoreModel) else model.transform(X))


class Array:
    """Something that is no array, but can be made one, as xarray's are."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


def frame(X):
    return pd.DataFrame(X, columns=NAMES)


def mixed(X):
    """Columns of four types that hold the same numbers."""
    table = frame(X).astype({"p": "float32", "q": "Float64", "r": "double[pyarrow]"})
    return table.assign(s=table["s"].astype(object))


TABLES = {
    "list": lambda X: X.tolist(),
    "columns": np.asfortranarray,
    "half": lambda X: X.astype(np.float16),
    "long": lambda X: X.astype(np.longdouble),
    "objects": lambda X: X.astype(object),
    "masked, nothing hidden": np.ma.masked_array,
    "array-like": Array,
    "pandas": frame,
    "pandas nullable": lambda X: frame(X).astype("Float64"),
    "pandas arrow": lambda X: frame(X).astype("double[pyarrow]"),
    "pandas half": lambda X: frame(X).astype("float16"),
    "pandas objects": lambda X: frame(X).astype(object),
    "pandas sparse, NaN": lambda X: frame(X).astype(pd.SparseDtype(float, np.nan)),
    "pandas mixed": mixed,
    "polars": lambda X: pl.DataFrame(frame(X)),
    "polars decimal": lambda X: pl.DataFrame(frame(X)).cast(pl.Decimal(20, 10)),
    "narwhals": lambda X: nw.from_native(pl.DataFrame(frame(X))),
    "pyarrow": lambda X: pa.Table.from_pandas(frame(X)),
    "pyarrow half": lambda X: pa.table({name: X[:, j].astype("f2") for j, name in enumerate(NAMES)}),
    "pyarrow chunks": lambda X: pa.concat_tables(
        [pa.Table.from_pandas(frame(part)) for part in (X[:7], X[7:])]
    ),
    "batch": lambda X: pa.RecordBatch.from_pandas(frame(X)),
}
FRAMES = [name for name in TABLES if name.split()[0] in ("pandas", "polars", "pyarrow", "batch")]

WHOLE = {
    "int8": lambda X: X.astype("i1"),
    "uint64": lambda X: np.abs(X).astype("u8"),
    "bool": lambda X: X > 0,
    "pandas nullable": lambda X: frame(X).astype("Int64"),
    "pandas booleans": lambda X: frame(X > 0).astype("boolean"),
    "pandas mixed": lambda X: frame(X).astype({"p": "int8", "q": "Int32"}).assign(r=X[:, 2] > 0),
    "polars": lambda X: pl.DataFrame(frame(X).astype("int16")),
    "polars wide": lambda X: pl.DataFrame(frame(X).astype("int16")).cast(pl.Int128),
    "polars booleans": lambda X: pl.DataFrame(frame(X > 0)),
    "pyarrow": lambda X: pa.Table.from_pandas(frame(X).astype("int64").assign(s=X[:, 3] > 0)),
}

RESPONSES = {
    "list": lambda y: y.tolist(),
    "half": lambda y: y.astype("f2"),
    "long": lambda y: y.astype(np.longdouble),
    "objects": lambda y: y.astype(object),
    "masked, nothing hidden": np.ma.masked_array,
    "array-like": Array,
    "pandas": pd.Series,
    "pandas nullable": lambda y: pd.Series(y, dtype="Float64"),
    "polars": lambda y: pl.Series("y", y),
    "polars decimal": lambda y: pl.Series("y", y).cast(pl.Decimal(20, 10)),
    "pyarrow": lambda y: pa.chunked_array([y[:9], y[9:]]),
    "pyarrow array": pa.array,
    "column": lambda y: y[:, None],
    "pandas frame": lambda y: pd.DataFrame({"y": y}),
    "polars frame": lambda y: pl.DataFrame({"y": y}),
    "pyarrow table": lambda y: pa.table({"y": y}),
    "batch": lambda y: pa.record_batch({"y": y}),
}


@pytest.fixture(scope="module")
def data():
    """Numbers of ten bits, which every type of float holds."""
    rng = np.random.default_rng(0)
    X = np.round(64 * rng.standard_normal((60, 4)).clip(-4, 4)) / 64
    y = np.round(64 * np.tanh(X[:, 0] + X[:, 1] / 2 + X[:, 2] ** 2 / 4)) / 64
    return X, y


def check_same(model, container, X, y, rtol=1e-8):
    fitted, found = result(model, container, y)
    np.testing.assert_allclose(found, plain(model, X, y), rtol=rtol, atol=rtol)
    return fitted


@each(ALL)
@pytest.mark.parametrize("container", TABLES)
def test_tables(model, container, data):
    X, y = data
    if isinstance(model, CopulaImputer) and container == "pandas sparse, NaN":
        with pytest.raises(ValueError, match="column 'p' holds values of type Sparse"):
            result(model, TABLES[container](X), y)
        return
    fitted = check_same(model, TABLES[container](X), X, y)
    names = NAMES if container in (*FRAMES, "narwhals") else None
    assert getattr(fitted, "feature_names_in_", None) is None or names is not None
    assert names is None or list(fitted.feature_names_in_) == names


@each(STRICT)
@pytest.mark.parametrize("container", WHOLE)
def test_whole_numbers(model, container, data):
    X = np.rint(4 * data[0])
    table = WHOLE[container](X)
    check_same(model, table, as_table(table).values.astype(np.float64), data[1])


@each(REDUCERS | {"regressor": DICTIONARIES["regressor"]})
@pytest.mark.parametrize("container", RESPONSES)
def test_responses(model, container, data):
    X, y = data
    np.testing.assert_allclose(
        result(model, X, RESPONSES[container](y))[1], plain(model, X, y), rtol=1e-8, atol=1e-8
    )


LABELS = {
    "list": list,
    "objects": lambda y: y.astype(object),
    "pandas": pd.Series,
    "pandas string": lambda y: pd.Series(y, dtype="string"),
    "category": lambda y: pd.Series(y, dtype="category"),
    "polars": pl.Series,
    "polars category": lambda y: pl.Series(y).cast(pl.Categorical),
    "polars enum": lambda y: pl.Series(y).cast(pl.Enum(["a", "b", "c"])),
    "pyarrow": lambda y: pa.chunked_array([y.tolist()]),
    "pyarrow dictionary": lambda y: pa.array(y.tolist()).dictionary_encode(),
    "masked, nothing hidden": np.ma.masked_array,
    "codes as category": lambda y: pd.Series(np.searchsorted(["a", "b", "c"], y), dtype="category"),
}


@each({k: m for k, m in SPARSE.items() if k not in ("reduced rank", "regressor", "classifier")})
@pytest.mark.parametrize("container", LABELS)
def test_labels(model, container, data):
    X, y = data
    y = np.array(["a", "b", "c"])[np.searchsorted([-0.3, 0.4], y)]
    np.testing.assert_allclose(
        result(model, X, LABELS[container](y))[1], plain(model, X, y), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("container", LABELS)
def test_labels_of_a_classifier(container, data):
    X, y = data
    y = np.array(["a", "b", "c"])[np.searchsorted([-0.3, 0.4], y)]
    model = SupervisedDictionaryClassifier(2, positive=False, tol=1e-3, random_state=0)
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.fit(X, LABELS[container](y)).predict_proba(X), expected, atol=1e-8)


def test_several_responses_in_frames(data):
    X, y = data
    Y = np.column_stack([y, X[:, 3] ** 2])
    expected = ReducedRank(2).fit(X, Y).predict(X)
    named = pd.DataFrame(Y, columns=["u", "v"])
    for frames in (named, named.astype("Float32").astype("Float64"), pl.DataFrame(named), pa.table(named)):
        np.testing.assert_allclose(ReducedRank(2).fit(X, frames).predict(X), expected)
    with pytest.raises(ValueError, match="class labels must be one column"):
        JointReduction().fit(X, pl.DataFrame(named.assign(v="a")))


# ---------------------------------------------------------------------- names


@each(ALL)
@pytest.mark.parametrize("container", ["pandas", "polars", "pyarrow", "batch"])
def test_names_are_kept_and_checked(model, container, data):
    X, y = data
    fitted, _ = result(model, TABLES[container](X), y)
    apply = fitted.score_function if isinstance(model, ScoreModel) else fitted.transform
    apply(TABLES[container](X[:3]))
    other = TABLES[container](X[:3]).select(NAMES[::-1]) if container != "pandas" else frame(X)[NAMES[::-1]]
    with pytest.raises(ValueError, match="feature names should match"):
        apply(other)
    fitted.fit(X, _response_for(model, y))
    assert not hasattr(fitted, "feature_names_in_")


def _response_for(model, y):
    return np.where(y > 0, "high", "low") if isinstance(model, SupervisedDictionaryClassifier) else y


# ---------------------------------------------------------------------- refusals


DAY = datetime.date(2024, 2, 29)
UNFIT = {
    "dates": lambda t: t.assign(q=pd.Timestamp("2024-02-29")),
    "date objects": lambda t: t.assign(q=DAY),
    "durations": lambda t: t.assign(q=pd.Timedelta("3h")),
    "text": lambda t: t.assign(q="x"),
    "some text": lambda t: t.assign(q=[*t["q"][1:], "x"]),
    "category": lambda t: t.assign(q=pd.Categorical(["u", "v"] * (len(t) // 2))),
    "complex": lambda t: t.assign(q=1j),
    "lists": lambda t: t.assign(q=[[1]] * len(t)),
    "polars dates": lambda t: pl.DataFrame(t).with_columns(q=pl.lit(DAY)),
    "polars text": lambda t: pl.DataFrame(t).with_columns(q=pl.lit("x")),
    "polars category": lambda t: pl.DataFrame(t).with_columns(q=pl.lit("x").cast(pl.Categorical)),
    "polars lists": lambda t: pl.DataFrame(t).with_columns(q=pl.lit([1])),
    "pyarrow dates": lambda t: pa.Table.from_pandas(t.assign(q=DAY)),
    "pyarrow text": lambda t: pa.Table.from_pandas(t.assign(q="x")),
    "batch of text": lambda t: pa.RecordBatch.from_pandas(t.assign(q="x")),
}


@each(STRICT)
@pytest.mark.parametrize("container", UNFIT)
def test_columns_that_are_no_numbers_are_named(model, container, data):
    X, y = data
    with pytest.raises((ValueError, TypeError), match="'q'"):
        result(model, UNFIT[container](frame(X)), y)


@each(IMPUTER)
@pytest.mark.parametrize("container", ["date objects", "complex", "lists", "polars lists"])
def test_columns_that_an_imputer_cannot_take_are_named(model, container, data):
    X, y = data
    with pytest.raises((ValueError, TypeError), match="'q'"):
        result(model, UNFIT[container](frame(X)), y)


@each(STRICT)
def test_arrays_that_hold_no_numbers(model, data):
    X, y = data
    dated = X.astype(object)
    dated[3, 1] = DAY
    text = X.tolist()
    text[3][1] = "x"
    for wrong, message in (
        (dated, "column 1 of X holds date"),
        (text, "column 1 of X holds str"),
        (X.astype("M8[D]"), r"hold dates \(datetime64"),
        (X.astype(str), "hold text"),
        (X * 1j, "Complex data not supported: X"),
        ([[1, 2], [3]], "X cannot be read as an array"),
        (X[:, 0], "got 1D array instead: X must be rows x columns"),
        (pl.Series(X[:, 0]), "got 1D array instead: X"),
        (pa.chunked_array([X[:, 0]]), "got 1D array instead: X"),
    ):
        with pytest.raises(ValueError, match=message):
            result(model, wrong, y)


@each(STRICT)
def test_missing_and_infinite_cells_are_named(model, data):
    X, y = data
    hole = X.copy()
    hole[5, 1] = np.nan
    masked = np.ma.masked_array(X, np.isnan(hole))
    for wrong, message in (
        (
            hole,
            "contains NaN(.|\n)*column 1, row 5. Remedies: colspace.CopulaImputer in front, HoleyReduction",
        ),
        (frame(hole), "contains NaN(.|\n)*column 'q', row 5"),
        (pl.DataFrame(frame(hole)), "contains NaN(.|\n)*column 'q', row 5"),
        (pl.DataFrame(frame(hole)).fill_nan(None), "contains NaN(.|\n)*column 'q', row 5"),
        (frame(hole).astype("Float64"), "contains NaN(.|\n)*column 'q', row 5"),
        (pa.Table.from_pandas(frame(hole)), "contains NaN(.|\n)*column 'q', row 5"),
        (masked, r"column 1 of X is masked \(missing\) in 1 row\(s\), first in row 5"),
        (np.ma.masked_array(np.rint(X).astype(int), np.isnan(hole)), "column 1 of X is masked"),
        (np.where(np.isnan(hole), np.inf, X), "contains infinity(.|\n)*column 1, row 5"),
        (
            np.where(np.isnan(hole), np.longdouble("1e4000"), X.astype(np.longdouble)),
            "contains infinity(.|\n)*column 1, row 5",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            result(model, wrong, y)
    fitted, _ = result(model, X, y)
    with pytest.raises(ValueError, match="column 1 of X is masked"):
        (fitted.score_function if isinstance(model, ScoreModel) else fitted.transform)(masked)


def test_missing_cells_of_sparse_tables_are_named(data):
    X, y = data
    X = sparse.csr_array(np.where(np.arange(4) == 2, np.nan, X))
    with pytest.raises(ValueError, match=r"contains NaN(.|\n)*column 2, row 0"):
        JointReduction().fit(X, y)


@each(ALL)
def test_lazy_frames_are_refused_with_the_remedy(model, data):
    X, y = data
    with pytest.raises(TypeError, match=r"X is a LazyFrame.*X\.collect\(\)"):
        result(model, pl.LazyFrame(frame(X)), y)


@each(REDUCERS | DICTIONARIES)
def test_a_response_that_is_none_is_named(model, data):
    X, y = data
    model = clone(model)
    for wrong, kind, message in (
        (pl.Series("when", [DAY] * len(y)), ValueError, r"y \('when'\) holds dates"),
        (pd.Series([DAY] * len(y)), ValueError, "y holds dates"),
        (np.array([DAY] * len(y)), ValueError, "y holds dates"),
        (pa.array([DAY] * len(y)), ValueError, "y holds dates"),
        (
            pd.DataFrame({"when": pd.to_datetime([DAY] * len(y))}),
            ValueError,
            "column 'when' of y holds dates",
        ),
        (y * 1j, ValueError, "Complex data not supported: y"),
        (pl.Series([[1]] * len(y)), ValueError, "y holds values of type List"),
        (pl.LazyFrame({"y": y}), TypeError, r"y is a LazyFrame.*y\.collect\(\)"),
        (sparse.csr_array(y[:, None]), TypeError, "Sparse data was passed for y"),
    ):
        with pytest.raises(kind, match=message):
            model.fit(X, wrong)


@each({k: m for k, m in (REDUCERS | DICTIONARIES).items() if not k.startswith("stein")})
def test_a_response_with_gaps_is_refused(model, data):
    X, y = data
    model = clone(model)
    hole = np.where(np.arange(len(y)) == 3, np.nan, y)
    for wrong in (
        np.ma.masked_invalid(hole),
        pl.Series(hole).fill_nan(None),
        pa.array(hole, mask=np.isnan(hole)),
        pd.Series(hole, dtype="Float64"),
        np.where(np.isnan(hole), None, y.astype(object)),
    ):
        with pytest.raises(ValueError, match="y contains NaN"):
            model.fit(X, wrong)


@pytest.mark.parametrize("model", [SteinReduction(1), SteinReductionCV(1, ridges=(1.0,), cv=3)])
def test_masked_and_null_responses_are_unlabelled(model, data):
    X, y = data
    hole = np.where(np.arange(len(y)) % 3 == 0, np.nan, y)
    expected = model.fit(X, hole).components_
    for same in (
        np.ma.masked_invalid(hole),
        pl.Series(hole).fill_nan(None),
        pd.Series(hole, dtype="Float64"),
    ):
        np.testing.assert_allclose(model.fit(X, same).components_, expected)
    labels = np.where(np.isnan(hole), None, np.where(y > 0, "high", "low").astype(object))
    expected = model.fit(X, labels).components_
    for same in (
        pl.Series(labels.tolist()),
        pl.Series(labels.tolist()).cast(pl.Categorical),
        pa.array(labels),
        pd.Series(labels),
    ):
        np.testing.assert_allclose(model.fit(X, same).components_, expected)


def test_masked_cells_are_imputed(data):
    X, _ = data
    hole = X.copy()
    hole[::7, 1] = np.nan
    model = CopulaImputer(1)
    expected = model.fit(hole).transform(hole)
    masked = np.ma.masked_array(X, np.isnan(hole))
    found = model.fit(masked).transform(masked)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected)
    assert np.isfinite(found).all()
    for container in ("polars", "pyarrow", "batch", "pandas nullable"):
        table = TABLES[container](hole)
        np.testing.assert_allclose(as_table(model.fit(table).transform(table)).values, expected)


def test_dask_collections_pass_through_or_are_refused_by_name(data):
    X, y = data
    array = da.from_array(X, chunks=(20, 4))
    assert as_table(array).values is array
    assert as_column(array).values is array
    with pytest.raises(ValueError, match="X is a Dask array of datetime64"):
        JointReduction().fit(array.astype("M8[D]"), da.from_array(y, chunks=20))
    with pytest.raises(TypeError, match="masked blocks"):
        JointReduction().fit(da.ma.masked_less(array, 0), da.from_array(y, chunks=20))
    dated = dd.from_pandas(frame(X).assign(q=pd.Timestamp("2024-02-29")), npartitions=2)
    with pytest.raises(ValueError, match=r"not numbers: \['q'\]"):
        JointReduction().fit(dated, dated["p"])


def test_choose_score_reads_frames(data):
    X, _ = data
    expected = choose_score(X, rng=0)[1]
    assert choose_score(TABLES["pyarrow"](X), rng=0)[1] == pytest.approx(expected)
    with pytest.raises(ValueError, match="'q'"):
        choose_score(frame(X).assign(q="x"))


# ---------------------------------------------------------------------- pairs


@pytest.fixture(scope="module")
def links(data):
    X, _ = data
    A, B = X[:40], X[40:]
    return A, B, np.round(np.tanh(A @ B.T), 3)


@pytest.fixture(scope="module", params=range(3), ids=["spectral", "bilinear", "kernel"])
def pair_model(request, links):
    """A model of pairs, and what it makes of plain arrays."""
    A, B, Y = links
    model = clone(PAIRS[request.param])
    return model, model.fit(A, B, Y).predict(A, B)


PAIRS = [
    PairRegressor(2, shrinkage=0.1, bandwidth=1.0, random_state=0),
    BilinearPairRegressor(2),
    KernelPairRegressor(bandwidth=1.0, alpha=1.0, reduction=None),
]


@pytest.mark.parametrize("container", [n for n in TABLES if n != "list"])
def test_features_of_pairs(pair_model, container, links):
    A, B, Y = links
    model, expected = pair_model
    found = model.fit(TABLES[container](A), TABLES[container](B), Y).predict(
        TABLES[container](A), TABLES[container](B)
    )
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("model", PAIRS)
def test_scores_and_masks_of_pairs_in_containers(model, links):
    A, B, Y = links
    hidden = np.arange(Y.size).reshape(Y.shape) % 5 == 0
    expected = model.fit(A, B, np.where(hidden, np.nan, Y), "observed").predict()
    masked = np.ma.masked_array(Y, hidden)
    names = [f"c{j}" for j in range(Y.shape[1])]
    holes = pl.DataFrame(np.where(hidden, np.nan, Y), schema=names).fill_nan(None)
    for scores_ in (masked, holes, holes.to_arrow()):
        np.testing.assert_allclose(model.fit(A, B, scores_, "observed").predict(), expected)
    with pytest.raises(ValueError, match="NaN is a pair that was not observed"):
        model.fit(A, B, masked)
    with pytest.raises(ValueError, match="'c3'"):
        model.fit(A, B, pl.DataFrame(Y, schema=names).with_columns(c3=pl.lit("x")))
    for unfit in ("dates", "polars text"):
        with pytest.raises(ValueError, match="'q'"):
            model.fit(UNFIT[unfit](frame(A)), B, Y)
    with pytest.raises(ValueError, match="column 0 of B is masked"):
        model.fit(A, np.ma.masked_array(B, np.broadcast_to(np.arange(4) == 0, B.shape)), Y)


def test_sparse_links_are_canonical(links):
    A, B, Y = links
    Y = np.where(np.abs(Y) > 0.5, Y, 0.0)
    for made in (twice(Y), twice(Y).tocoo(), sparse.csc_array(Y), sparse.dok_array(Y), wide_indices(Y)):
        np.testing.assert_array_equal(read_links(made, None, Y.shape).Y.toarray(), Y)
        np.testing.assert_array_equal(read_links(made, made != 0, Y.shape).mask.toarray(), Y != 0)
        np.testing.assert_allclose(
            PAIRS[0].fit(PairTable(A, B, made)).predict(), PAIRS[0].fit(A, B, Y).predict(), atol=1e-12
        )
    booleans = twice(np.where(Y != 0, 1.0, 0.0)).astype(bool)
    np.testing.assert_array_equal(read_links(booleans, None, Y.shape).Y.toarray(), Y != 0)


def test_similarities_in_containers():
    at = np.arange(8.0) ** 1.2
    S = np.exp(-np.square(np.subtract.outer(at, at)) / 8)
    expected = spectral_features(S, 2)
    for made in (
        twice(S),
        pl.DataFrame(S),
        pa.table(pd.DataFrame(S, columns=list("abcdefgh"))),
        S.astype("f4"),
    ):
        np.testing.assert_allclose(spectral_features(made, 2), expected, atol=1e-6)
    with pytest.raises(ValueError, match="n_components=True"):
        spectral_features(S, True)


# ---------------------------------------------------------------------- sparse tables


def twice(X):
    """Every stored cell as two halves, the columns of a row backwards."""
    csr = sparse.csr_array(X)
    indices = np.concatenate([np.repeat(csr.indices[a:b][::-1], 2) for a, b in pairwise(csr.indptr)])
    values = np.concatenate([np.repeat(csr.data[a:b][::-1] / 2, 2) for a, b in pairwise(csr.indptr)])
    return sparse.csr_array((values, indices, 2 * csr.indptr), shape=X.shape)


def wide_indices(X):
    csr = sparse.csr_array(X)
    return sparse.csr_array(
        (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), shape=X.shape
    )


SPARSE_TABLES = {
    **{
        f"{f} array": getattr(sparse, f"{f}_array") for f in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
    },
    **{
        f"{f} matrix": getattr(sparse, f"{f}_matrix")
        for f in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
    },
    "twice": twice,
    "twice, matrix": lambda X: sparse.csr_matrix(twice(X)),
    "wide indices": wide_indices,
    "float32": lambda X: sparse.csr_array(X.astype("f4")),
    "long": lambda X: sparse.csr_array(X.astype(np.longdouble)),
    "pandas": lambda X: frame(X).astype(pd.SparseDtype(float, 0.0)),
}


@each(SPARSE)
@pytest.mark.parametrize("container", SPARSE_TABLES)
def test_sparse_tables(model, container, data):
    X, y = data
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    table = SPARSE_TABLES[container](X)
    if container == "pandas":
        check_same(model, table, sparse.csr_array(X), y)
        return
    before = table.copy()
    check_same(model, table, sparse.csr_array(X), y, rtol=1e-3 if container == "float32" else 1e-8)
    assert table.nnz == before.nnz
    if table.format in ("csr", "csc", "bsr"):
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(table, part), getattr(before, part))
            assert getattr(table, part).dtype == getattr(before, part).dtype


@each(SPARSE)
@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", bool])
def test_sparse_whole_numbers(model, dtype, data):
    X, y = data
    X = np.where(np.abs(X) > 0.7, np.abs(np.rint(4 * X)), 0.0).astype(dtype)
    check_same(model, sparse.csr_array(X), sparse.csr_array(X.astype(float)), y)


def test_duplicates_do_not_mislead_the_randomized_solver(data):
    X, y = data
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    model = JointReduction(1, solver="randomized", whiten="diagonal", random_state=0)
    expected = model.fit(sparse.csr_array(X), y).components_
    np.testing.assert_allclose(model.fit(twice(X), y).components_, expected, atol=1e-12)


def test_sums_of_small_integers_do_not_wrap_around():
    cells = (np.array([100, 100], dtype="i1"), ([0, 0], [1, 1]))
    made = sparse.coo_array(cells, shape=(2, 2))
    assert canonical(made).toarray()[0, 1] == 200
    made = sparse.csr_array((np.array([100, 100], dtype="i1"), [1, 1], [0, 2, 2]), shape=(2, 2))
    assert canonical(made).toarray()[0, 1] == 200
    assert made.nnz == 2
    with pytest.raises(ValueError, match="Complex data not supported: X"):
        canonical(sparse.csr_array(np.eye(2) * 1j))
    with pytest.raises(ValueError, match="2-D"):
        canonical(sparse.coo_array(np.arange(3)))


# ---------------------------------------------------------------------- inputs are never changed


@each(ALL)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_read_only_inputs_are_enough_and_stay(model, dtype, data):
    X, y = np.rint(8 * data[0]).astype(dtype), data[1].copy()
    before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    result(model, X, y)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    table, series = frame(before[0]), pl.Series(before[1])
    copies = table.copy(), series.clone()
    result(model, table, series)
    pd.testing.assert_frame_equal(table, copies[0])
    assert series.equals(copies[1])
    masked = np.ma.masked_array(before[0], mask=np.zeros(X.shape, dtype=bool))
    result(model, masked, y)
    assert not masked.mask.any()


@each(SPARSE)
def test_sparse_inputs_may_be_read_only(model, data):
    X, y = data
    table = twice(np.where(np.abs(X) > 0.7, X, 0.0))
    for part in (table.data, table.indices, table.indptr):
        part.flags.writeable = False
    result(model, table, y)


# ---------------------------------------------------------------------- weights


def test_weights_in_containers():
    X, weight = np.ones((3, 1)), np.array([1.0, 0.0, 2.5])
    for same in (weight.tolist(), pl.Series(weight), pa.array(weight), pd.Series(weight, dtype="Float64")):
        np.testing.assert_array_equal(check_weights(same, X), weight)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        check_weights(np.ma.masked_equal(weight, 0.0), X)


# ---------------------------------------------------------------------- the door itself


def test_arrays_and_frames_of_one_type_are_not_copied():
    X = np.arange(12.0).reshape(6, 2)
    assert as_table(X).values is X
    assert np.shares_memory(as_table(np.ma.masked_array(X)).values, X)
    table = pd.DataFrame(X, columns=["a", "b"])
    assert np.shares_memory(as_table(table).values, table.to_numpy())
    csr = sparse.csr_array(X)
    assert np.shares_memory(as_table(csr).values.data, csr.data)
    assert as_table(X.astype("f4")).values.dtype == np.float32
    assert as_table(pl.DataFrame(X.astype("f4"))).values.dtype == np.float32


def test_gaps_of_every_kind_are_nan():
    there = {"a": [1, None, 3], "b": [True, None, False], "c": [0.5, None, 2.0]}
    expected = [[1, 1, 0.5], [np.nan] * 3, [3, 0, 2]]
    types = {"a": "Int64", "b": "boolean", "c": "Float32"}
    for table in (
        pd.DataFrame(there).astype(types),
        pd.DataFrame(there),
        pl.DataFrame(there),
        pa.table(there),
    ):
        np.testing.assert_array_equal(as_table(table).values, expected)
        assert read_table(table)[0].shape == (3, 3)
    big = pa.table({"a": [1, None, 2**60]})
    np.testing.assert_array_equal(as_table(big).values, [[1], [np.nan], [2.0**60]])


def test_a_warning_is_not_made_of_containers(data):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for container in FRAMES:
            as_table(TABLES[container](X))
            as_column(RESPONSES["polars"](y))
    assert scores is colspace.scores


@pytest.mark.parametrize("container", ["pandas", "pandas nullable", "polars", "pyarrow"])
def test_a_wide_frame_is_read_whole(container):
    names = [f"c{j}" for j in range(3000)]
    X = np.arange(6000.0).reshape(2, 3000)
    frames = {
        "pandas": lambda: pd.DataFrame(X, columns=names),
        "pandas nullable": lambda: pd.DataFrame(X, columns=names).astype("Float64"),
        "polars": lambda: pl.DataFrame(X, schema=names),
        "pyarrow": lambda: pl.DataFrame(X, schema=names).to_arrow(),
    }
    np.testing.assert_array_equal(as_table(frames[container]()).values, X)
