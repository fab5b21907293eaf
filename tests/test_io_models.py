"""Model files: sizes are checked before unpacking, and every damage is one error that names the file."""

import io
import json
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import colspace.quality
from colspace import JointReduction, PairRegressor, __version__
from colspace.datasets import make_bilinear, make_pairs
from colspace.io import NewerFileError, info, load, save
from colspace.io._models import _is_ours

BIG = 300_000_000  # bytes that a bomb would take


@pytest.fixture(scope="module")
def model():
    X, y, blocks, _ = make_bilinear(200, 4, 1, rng=0)
    return JointReduction(1, blocks=blocks).fit(X, y)


@pytest.fixture
def path(tmp_path, model):
    save(model, tmp_path / "m.skops")
    return tmp_path / "m.skops"


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def pack(path, members, **kw):
    with zipfile.ZipFile(path, "w", **kw) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def refused(path, message=""):
    with pytest.raises(
        ValueError, match=rf"m\.skops is damaged or not a file written by colspace\.io\.save: .*{message}"
    ):
        load(path)


# ---------------------------------------------------------------------- bombs


def array_of(members):
    return next(name for name in members if name.endswith(".npy"))


def zeros_in_schema(path, members):
    pack(path, {**members, "schema.json": b" " * BIG}, compression=zipfile.ZIP_DEFLATED)


def zeros_in_array(path, members):
    content = io.BytesIO()
    np.save(content, np.zeros(BIG // 8))
    pack(path, {**members, array_of(members): content.getvalue()}, compression=zipfile.ZIP_DEFLATED)


def shape_in_header(path, members):
    content = members[array_of(members)].replace(b"'shape': (", b"'shape': (99999999, ", 1)
    content = content.replace(b" " * 10, b"", 1)
    pack(path, {**members, array_of(members): content})


def matrix_within(path, members):
    content = io.BytesIO()
    sparse.save_npz(content, sparse.csr_array(np.zeros((1, 2))))
    pack(path, {**members, "1.npz": content.getvalue()})


def array_for_many(path, members):
    schema = json.loads(members["schema.json"])
    node = find(schema, lambda n: n.get("file") == array_of(members))
    many = [{**node, "__id__": i} for i in range(1, 1000)]
    schema["content"] = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": many,
    }
    pack(path, {**members, "schema.json": json.dumps(schema)})


def array_without_owner(path, members):
    schema = json.loads(members["schema.json"])
    del find(schema, lambda n: n.get("file") == array_of(members))["__id__"]
    pack(path, {**members, "schema.json": json.dumps(schema)})


def false_sizes(path, members):
    """The directory says of two members that they are the larger one."""
    data = bytearray(path.read_bytes())
    archive = zipfile.ZipFile(io.BytesIO(bytes(data)))
    large = max(archive.infolist(), key=lambda m: m.file_size)
    at = archive.start_dir
    for member in archive.infolist():
        if member.filename.endswith(".npy"):
            data[at + 20 : at + 28] = large.file_size.to_bytes(4, "little") * 2
            data[at + 42 : at + 46] = large.header_offset.to_bytes(4, "little")
        at += 46 + len(member.filename.encode())
    path.write_bytes(data)


def find(node, wanted):
    """The first mapping in a tree that is wanted."""
    if isinstance(node, dict):
        if wanted(node):
            return node
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        found = find(child, wanted)
        if found is not None:
            return found
    return None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (zeros_in_schema, "is compressed"),
        (zeros_in_array, "is compressed, .* bytes for 300,000,128"),
        (shape_in_header, "claims .* bytes of an array and has"),
        (matrix_within, "convert it with tocsr"),
        (array_for_many, "stands for several objects"),
        (array_without_owner, "stands for several objects"),
        (false_sizes, "members are larger than the file"),
    ],
)
def test_bombs_are_refused_before_they_are_unpacked(path, make, message):
    make(path, members_of(path))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    try:
        refused(path, message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000


def test_a_member_twice_is_refused(path):
    members = members_of(path)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(array_of(members), members[array_of(members)])
    refused(path, "holds a member twice")


# ---------------------------------------------------------------------- damages


def test_whatever_byte_is_wrong_the_model_is_the_same_or_refused(path, model):
    whole = path.read_bytes()
    X = np.ones((1, 8))
    expected = model.transform(X)
    same = 0
    for at in np.random.default_rng(0).choice(len(whole), 150, replace=False):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            found = load(path).transform(X)
        except ValueError:
            refused(path)
        else:
            assert_array_equal(found, expected)
            same += 1
    assert same < 30  # dates and the like


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_half_a_file_is_refused(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"protocol": 2}',
        b'{"protocol": 2, "__loader__": "ListNode", "__class__": "list", "__module__": "builtins", "content": 3}',
        b'{"protocol": 2, "__loader__": "ObjectNode", "__class__": "Ridge", "__module__": "sklearn", "content": {}}',
    ],
)
def test_nonsense_in_the_schema_is_refused(path, schema):
    pack(path, {**members_of(path), "schema.json": schema})
    refused(path)


def test_missing_members_and_wrong_arrays_are_refused(path):
    members = members_of(path)
    for name in members:
        if name != "colspace.json":
            pack(path, {key: value for key, value in members.items() if key != name})
            refused(path)
    for content in (b"", b"\x93NUMPY", b"hello", members[array_of(members)][:-1], b"\x93NUMPY\x09\x00abc"):
        pack(path, {**members, array_of(members): content})
        refused(path)
    pack(path, {**members, array_of(members): members[array_of(members)] + b"more"})
    refused(path, "claims .* bytes of an array and has")
    pack(path, {"a.txt": b"a foreign archive"})
    refused(path)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is a directory"):
        load(tmp_path)


# ---------------------------------------------------------------------- sparse matrices


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix])
def test_sparse_matrices_come_back_as_they_were(tmp_path, kind):
    matrix = kind(sparse.random_array((30, 20), density=0.2, rng=0, dtype=np.float32))
    model = LinearRegression()
    model.matrix_ = matrix
    save(make_pipeline(model), tmp_path / "m.skops")
    assert not any(name.endswith(".npz") for name in members_of(tmp_path / "m.skops"))
    again = load(tmp_path / "m.skops")[-1].matrix_
    assert type(again) is kind
    assert again.dtype == np.float32
    assert_array_equal(again.toarray(), matrix.toarray())
    assert model.matrix_ is matrix


def test_a_constant_matrix_is_not_taken_for_a_bomb(tmp_path):
    A, B, Y, _ = make_pairs(40, 30, 6, 2, rng=0)
    model = PairRegressor(2, bandwidth=0.3, shrinkage=0.1).fit(A, B, sparse.csr_array((Y > 0).astype(float)))
    model.ones_ = sparse.csr_array(np.ones((300, 1000)))
    save(model, tmp_path / "m.skops")
    again = load(tmp_path / "m.skops")
    assert_array_equal(again.predict(A, B), model.predict(A, B))
    assert again.ones_.sum() == 300_000


def test_indices_that_point_outside_are_refused(tmp_path):
    model = LinearRegression()
    model.matrix_ = sparse.csr_array(np.eye(3))
    model.matrix_.indices[0] = 1_000_000
    save(model, tmp_path / "m.skops")
    refused(tmp_path / "m.skops", "indices")


def test_other_sparse_formats_are_refused_with_the_remedy(tmp_path):
    model = LinearRegression()
    model.matrix_ = sparse.coo_array(np.eye(3))
    with pytest.raises(ValueError, match=r"LinearRegression cannot be saved: .*convert it with tocsr\(\)"):
        save(model, tmp_path / "m.skops")
    assert list(tmp_path.iterdir()) == []


def test_checksums_are_checked(path):
    members = members_of(path)
    name = array_of(members)
    data = path.read_bytes()
    at = data.index(members[name]) + len(members[name]) - 3
    path.write_bytes(data[:at] + b"\x00\x01\x02" + data[at + 3 :])
    refused(path, "CRC")


# ---------------------------------------------------------------------- what a file says of itself


def with_header(path, header):
    pack(path, {**members_of(path), "colspace.json": json.dumps(header)})


def test_a_file_says_what_it_holds(path, model, tmp_path):
    found = info(path)
    assert found["format"] == 1
    assert found["estimator"] == "JointReduction"
    assert found["columns"] is None
    assert found["n_features"] == 8
    assert found["versions"]["colspace"] == __version__
    assert found["versions"]["numpy"] == np.__version__
    assert found["about"] == {}
    pipeline = make_pipeline(LinearRegression())
    pipeline.fit(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}), [0.0, 1.0])
    save(pipeline, tmp_path / "p.skops", about={"rows": 2, "scores": [0.5, None]})
    found = info(tmp_path / "p.skops")
    assert (found["estimator"], found["columns"], found["n_features"]) == ("LinearRegression", ["a", "b"], 2)
    assert found["about"] == {"rows": 2, "scores": [0.5, None]}


def test_files_without_a_header_load(path, model):
    members = members_of(path)
    del members["colspace.json"]
    pack(path, members)
    assert_array_equal(load(path).components_, model.components_)
    assert info(path)["format"] == 0


def test_a_file_of_a_later_version_says_so(path):
    with_header(path, {**info(path), "format": 2, "versions": {"colspace": "9.1"}})
    for read in (load, info):
        with pytest.raises(
            NewerFileError, match=r"m\.skops was written by colspace 9\.1 in format 2; .* upgrade colspace"
        ):
            read(path)


@pytest.mark.parametrize(
    "header", [[], {}, {"format": "1"}, {"format": True}, {"format": 0}, {"format": 1.5}]
)
def test_a_header_without_a_format_is_refused(path, header):
    with_header(path, header)
    refused(path, "its header has the format")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("estimator", 3),
        ("columns", ["a", 1]),
        ("n_features", "4"),
        ("n_features", True),
        ("versions", {"numpy": 2}),
        ("about", []),
    ],
)
def test_entries_of_a_header_are_of_the_types_that_are_written(path, name, value):
    with_header(path, {**info(path), name: value})
    refused(path, f"its header has {name}")


def test_a_pipeline_says_the_columns_of_its_first_step(tmp_path):
    X = pd.DataFrame({"a": [0.0, 1.0, 3.0, 2.0], "b": [1.0, 0.0, 2.0, 5.0]})
    pipeline = make_pipeline(make_pipeline(PolynomialFeatures()), LinearRegression()).fit(X, X["a"])
    save(pipeline, tmp_path / "p.skops")
    found = info(tmp_path / "p.skops")
    assert (found["estimator"], found["columns"], found["n_features"]) == ("LinearRegression", ["a", "b"], 2)


def test_classes_that_clean_up_after_themselves_are_not_trusted(monkeypatch):
    @dataclass
    class Kept:
        x: int = 0

    @dataclass
    class Cleans(Kept):
        def __del__(self):
            """As one that would remove files."""

    for kind, trusted in ((Kept, True), (Cleans, False)):
        kind.__module__ = "colspace.quality"
        monkeypatch.setattr(colspace.quality, kind.__name__, kind, raising=False)
        assert _is_ours(f"colspace.quality.{kind.__name__}") is trusted


@pytest.mark.parametrize("about", [{"x": np.nan}, {"x": np.zeros(2)}, {"x": {1, 2}}])
def test_what_json_does_not_have_is_refused_before_anything_is_written(tmp_path, model, about):
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        save(model, tmp_path / "new.skops", about=about)
    assert not (tmp_path / "new.skops").exists()


def test_save_and_load_are_at_the_front_door(tmp_path, model):
    colspace.save(model, tmp_path / "m.skops")
    assert_array_equal(colspace.load(tmp_path / "m.skops").components_, model.components_)


def test_models_do_without_libraries_they_hold_nothing_of(path):
    """skops imports all of scikit-learn, whose bridges to others would import them."""
    pytest.importorskip("torch")
    pytest.importorskip("dask")
    code = (
        f"import sys; from colspace.io import load, save; save(load({str(path)!r}), {str(path)!r}); "
        "print({'torch', 'dask'} & set(sys.modules)); from sklearn.externals.array_api_compat import dask, torch"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()"]
