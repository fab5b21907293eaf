import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from colspace import JointReduction, SupervisedDictionaryClassifier
from colspace.datasets import make_bilinear
from colspace.dictionary import Radius
from colspace.io import load, read_table, save, write_table


@pytest.fixture
def frame():
    return pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet"])
def test_table_round_trip(tmp_path, frame, suffix):
    path = tmp_path / f"t{suffix}"
    write_table(frame, path)
    pd.testing.assert_frame_equal(read_table(path), frame)
    pd.testing.assert_frame_equal(read_table(str(path)), frame)


def test_text_keeps_an_index_that_says_something(tmp_path, frame):
    write_table(frame.set_index("b"), tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").columns.tolist() == ["b", "a"]


def test_dash_is_standard_input_and_output(monkeypatch, capsys, frame):
    write_table(frame, "-")
    text = capsys.readouterr().out
    assert text == "a,b\n1.5,x\n2.5,y\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    pd.testing.assert_frame_equal(read_table("-"), frame)


def test_table_errors(tmp_path, frame):
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(FileNotFoundError, match="is a folder without tables"):
        read_table(tmp_path / "d.csv")
    with pytest.raises(ValueError, match=r"unknown kind of table.*\.parquet"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match="unknown kind"):
        write_table(frame, tmp_path / "t.xlsx")
    with pytest.raises(FileNotFoundError, match="make the directory first"):
        write_table(frame, tmp_path / "no" / "t.csv")
    with pytest.raises(IsADirectoryError, match=r"d\.csv cannot be written: it is a directory"):
        write_table(frame, tmp_path / "d.csv")
    for name, text in (("nothing.csv", ""), ("header.csv", "a,b\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match="is empty"):
            read_table(tmp_path / name)
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3,4\n")
    with pytest.raises(
        ValueError, match=r"not a CSV table: line 3 has 4 cells where 2 are expected; put .* in quotes"
    ):
        read_table(tmp_path / "ragged.csv")
    (tmp_path / "bad.parquet").write_text("a,b\n")
    with pytest.raises(ValueError, match="not a Parquet file"):
        read_table(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("name", "text", "separator"),
    [
        ("t.csv", "a;b\n1.5;x, y\n2.5;y\n", ";"),
        ("t.csv", "a\tb\n1.5\tx, y\n2.5\ty\n", "\t"),
        ("t.csv", "a|b\n1.5|x, y\n2.5|y\n", "|"),
        ("t.tsv", 'a,b\n1.5,"x, y"\n2.5,y\n', ","),
        ("-", "a;b\n1.5;x, y\n2.5;y\n", ";"),
    ],
)
def test_another_separator_is_found_and_told(tmp_path, monkeypatch, name, text, separator):
    path = name if name == "-" else tmp_path / name
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    (tmp_path / name).write_text(text)
    with pytest.warns(UserWarning, match="columns are separated at ") as caught:
        frame = read_table(path)
    assert repr(separator) in str(caught[0].message)
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"a": [1.5, 2.5], "b": ["x, y", "y"]}))


def test_decimal_commas_between_semicolons(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wt", encoding="utf-8-sig") as file:
        file.write("a;b;c\n1,5;2;x\n2,5;3;y\n")
    with pytest.warns(UserWarning, match="',' is the decimal mark"):
        frame = read_table(tmp_path / "t.csv.gz")
    pd.testing.assert_frame_equal(frame, pd.DataFrame({"a": [1.5, 2.5], "b": [2, 3], "c": ["x", "y"]}))


@pytest.mark.parametrize("text", ["a\n1\n2\n", '"a;b"\n1\n2\n', "a;b,c\n1,2\n"])
def test_an_expected_separator_or_none_is_left_alone(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert read_table(tmp_path / "t.csv").columns.tolist() == text.split("\n")[0].replace('"', "").split(",")


def test_spaces_around_names(tmp_path):
    (tmp_path / "t.csv").write_text(" a,b ,c d\n1,2,3\n")
    with pytest.warns(UserWarning, match=r"spaces around 2 column name\(s\) are left out: ' a', 'b '"):
        assert read_table(tmp_path / "t.csv").columns.tolist() == ["a", "b", "c d"]


def test_text_columns_stay_as_written(tmp_path):
    (tmp_path / "t.csv").write_text(" id,a\n007,1\n1e3,2\n")
    with pytest.warns(UserWarning, match="spaces around"):
        frame = read_table(tmp_path / "t.csv", text=["id"])
    assert frame["id"].tolist() == ["007", "1e3"]
    assert frame["a"].tolist() == [1, 2]


def test_text_columns_without_gaps_or_names(tmp_path):
    (tmp_path / "t.csv").write_text(",a,b\n007,NA,1\nNA,,2\n")
    found = read_table(tmp_path / "t.csv", text=["Unnamed: 0"], gaps=False)
    assert found["Unnamed: 0"].tolist() == ["007", "NA"]
    assert found["a"].isna().all()
    assert found["b"].tolist() == [1, 2]
    assert read_table(tmp_path / "t.csv", text=["Unnamed: 0"])["Unnamed: 0"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("module", "extra", "call"),
    [
        ("pandas", "cli", lambda path: read_table(path / "t.csv")),
        ("pyarrow", "cli", lambda path: write_table(pd.DataFrame({"a": [1]}), path / "t.parquet")),
        ("skops.io", "save", lambda path: save(LinearRegression(), path / "m.skops")),
    ],
)
def test_missing_extra_is_named(tmp_path, monkeypatch, module, extra, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"colspace\[{extra}\]"):
        call(tmp_path)


@pytest.fixture(scope="module")
def data():
    return make_bilinear(600, 6, 2, rng=0)


def _same(left, right):
    """Equal, at any depth."""
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert_array_equal(left, right)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            _same(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert type(left) is type(right)
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            _same(a, b)
    elif type(left).__module__.startswith("colspace"):
        assert type(left) is type(right)
        _same(vars(left), vars(right))
    else:
        assert left == right


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"whiten": "diagonal", "n_selected": {"a": 3, "b": 4}, "moments": ("linear", "joint")},
        {"response": np.arctan, "random_state": 3, "shrinkage": "auto"},
        {"response": "rank"},
    ],
)
def test_save_round_trip(tmp_path, data, params):
    X, y, blocks, _ = data
    model = JointReduction(2, blocks=blocks, **params).fit(X, y)
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    _same(model, again)
    assert_array_equal(again.transform(X), model.transform(X))
    assert_array_equal(again.fit(X, y).transform(X), model.transform(X))


def test_a_saved_stream_goes_on(tmp_path, data):
    X, y, blocks, _ = data
    model = JointReduction(2, blocks=blocks, moments="all").partial_fit(X[:300], y[:300])
    before = dict(vars(model))
    save(model, tmp_path / "m.skops")
    assert all(vars(model)[key] is value for key, value in before.items())
    again = load(tmp_path / "m.skops")
    _same(model, again)
    again.partial_fit(X[300:], y[300:])
    model.partial_fit(X[300:], y[300:])
    assert_array_equal(again.components_, model.components_)


def test_a_saved_stream_of_labels_goes_on(tmp_path, data):
    X, y, blocks, _ = data
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = JointReduction(2, blocks=blocks, moments="all")
    model.partial_fit(X[:300], labels[:300], classes=["low", "middle", "high"])
    pipeline = make_pipeline(model)
    save(pipeline, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")[-1].partial_fit(X[300:], labels[300:])
    model.partial_fit(X[300:], labels[300:])
    assert_array_equal(again.components_, model.components_)


def test_saved_names_are_kept(tmp_path, data):
    X, y, _, _ = data
    table = pd.DataFrame(X, columns=[f"{'ab'[i >= 6]}__{i}" for i in range(12)])
    model = JointReduction(1, blocks="prefix").set_output(transform="pandas").fit(table, y)
    save(model, tmp_path / "m.skops")
    pd.testing.assert_frame_equal(load(tmp_path / "m.skops").transform(table), model.transform(table))


class Foreign(BaseEstimator):
    pass


def test_foreign_types_are_refused_and_named(tmp_path):
    import skops.io

    with pytest.raises(TypeError, match=r"cannot be saved.*Foreign"):
        save(make_pipeline(Foreign()), tmp_path / "m.skops")
    assert not (tmp_path / "m.skops").exists()
    skops.io.dump(Foreign(), tmp_path / "m.skops")
    with pytest.raises(TypeError, match=r"was not loaded.*Foreign"):
        load(tmp_path / "m.skops")


def test_lambda_is_refused(tmp_path, data):
    X, y, blocks, _ = data
    model = JointReduction(1, blocks=blocks, response=lambda v: v).fit(X, y)
    with pytest.raises(TypeError, match="lambda"):
        save(model, tmp_path / "m.skops")


@pytest.mark.parametrize(
    "name", ["os.system", "numpy.testing.runstring", "colspace.io._models.Path", "colspace_evil.X"]
)
def test_names_that_only_look_trusted(name):
    from colspace.io._models import _is_ours

    assert not _is_ours(name)
    assert _is_ours("colspace._blocks.Blocks")


def test_save_needs_the_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"m\.skops cannot be written.*make the directory first"):
        save(LinearRegression(), tmp_path / "no" / "m.skops")


def test_load_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load(tmp_path / "none.skops")
    (tmp_path / "text.skops").write_text("hello")
    with pytest.raises(ValueError, match=r"not a file written by colspace\.io\.save"):
        load(tmp_path / "text.skops")
    with zipfile.ZipFile(tmp_path / "zip.skops", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(ValueError, match=r"not a file written by colspace\.io\.save"):
        load(tmp_path / "zip.skops")


def test_a_dictionary_is_saved_without_its_training_rows(tmp_path):
    X = np.random.default_rng(0).exponential(size=(400, 6))
    y = np.where(X[:, 0] > X[:, 1], "more", "less")
    model = SupervisedDictionaryClassifier(
        2, positive=True, solver="bcd", radius=Radius(), covariates=[5], tol=1e-3
    ).fit(X, y)
    save(model, tmp_path / "atoms.skops")
    again = load(tmp_path / "atoms.skops")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.radius == Radius()
    assert again._state.H.size == 0
