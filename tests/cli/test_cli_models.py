"""Model files that were damaged or made to do harm: one line, exit code 2, nothing run and nothing written."""

import io
import json
import lzma
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from colspace import __version__
from colspace.cli._group import colspace

KEPT = Path(__file__).parents[1] / "models" / __version__
TABLES = {
    "reduction": ["new_genes.csv", "new_proteins.csv", "--id", "patient"],
    "imputer": ["wave2.csv", "--id", "respondent"],
    "dictionary": ["new_jobs.csv", "--id", "job"],
    "pairs": ["new_diseases.csv"],
}


def model(family):
    return lzma.decompress((KEPT / f"{family}.skops.xz").read_bytes())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in KEPT.glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def run(*arguments):
    """The outcome of a command, which is right or one line."""
    done = CliRunner().invoke(colspace, list(arguments))
    assert done.exit_code in (0, 2), (done.exit_code, done.exception, done.output)
    assert "Traceback" not in done.output
    if done.exit_code:
        assert (done.stderr.startswith("Error: "), done.stderr.count("\n")) == (True, 1), done.stderr
    return done


def everything(family="reduction"):
    """info, apply and report of m.skops; whether all were refused."""
    tables = TABLES[family]
    return [
        run("info", "m.skops").exit_code,
        run("apply", "m.skops", *tables, "--out", "out.csv").exit_code,
        run("report", "m.skops", *tables, "--out", "out.html").exit_code,
    ]


# ---------------------------------------------------------------------- damaged


def damaged(data, rng):
    """A copy with one kind of damage."""
    kind = rng.integers(5)
    at = int(rng.integers(len(data)))
    if kind == 0:  # bits
        return data[:at] + bytes([data[at] ^ int(rng.integers(1, 256))]) + data[at + 1 :]
    if kind == 1:  # its end
        return data[:at]
    if kind == 2:  # a hole
        return data[:at] + data[at + int(rng.integers(1, 2000)) :]
    if kind == 3:  # zeros, as a crashed disk leaves them
        size = int(rng.integers(1, 2000))
        return data[:at] + bytes(min(size, len(data) - at)) + data[at + size :]
    size = int(rng.integers(1, 500))
    return data[:at] + rng.bytes(size) + data[at:]


@pytest.mark.parametrize("family", TABLES)
def test_two_hundred_damaged_files(folder, family):
    """Fifty of each family."""
    whole, rng = model(family), np.random.default_rng(len(family))
    (folder / "m.skops").write_bytes(whole)
    run("apply", "m.skops", *TABLES[family], "--out", "right.csv")
    right = (folder / "right.csv").read_bytes()
    refused = 0
    for _ in range(50):
        (folder / "m.skops").write_bytes(damaged(whole, rng))
        (folder / "out.csv").unlink(missing_ok=True)
        run("info", "m.skops")
        done = run("apply", "m.skops", *TABLES[family], "--out", "out.csv")
        refused += done.exit_code == 2
        if done.exit_code:
            assert not (folder / "out.csv").exists()
        else:  # a byte that says nothing, such as the date of a member
            assert (folder / "out.csv").read_bytes() == right
    assert refused > 35


# ---------------------------------------------------------------------- malicious


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def pack(members, **options):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def value(content):
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(content),
        "is_json": True,
    }


def mapping(content):
    """skops' node of a dict with text keys."""
    texts = [{"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode", "__id__": 71}] * len(
        content
    )
    keys = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "__id__": 72,
        "content": texts,
    }
    node = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode", "__id__": 73}
    return {**node, "key_types": keys, "content": content}


def node(module, name, loader, **content):
    return {"__class__": name, "__module__": module, "__loader__": loader, "__id__": 77, **content}


def thing(module, name, **state):
    """An object of a class with some state, made without its constructor."""
    return node(module, name, "ObjectNode", content=mapping(state))


def function(module, name):
    return node(module, name, "FunctionNode", content={"module_path": module, "function": name})


def as_root(root):
    """The object in the place of the model."""

    def change(members):
        schema = json.loads(members["schema.json"])
        kept = {key: schema[key] for key in ("protocol", "_skops_version") if key in schema}
        return pack({**members, "schema.json": json.dumps({**kept, **root})})

    return change


def as_parameter(root):
    """The object as a parameter of the model, which is otherwise whole."""

    def change(members):
        schema = json.loads(members["schema.json"])
        schema["content"]["content"]["response"] = root
        return pack({**members, "schema.json": json.dumps(schema)})

    return change


def in_header(**entries):
    """Entries of the header, or of what it says about the fit."""

    def change(members):
        header = json.loads(members["colspace.json"])
        for name, entry in entries.items():
            place = header if name in header else header["about"]
            place[name] = entry
        return pack({**members, "colspace.json": json.dumps(header)})

    return change


class Run:
    """A pickle that makes a folder when it is read."""

    def __reduce__(self):
        return os.mkdir, ("pwned",)


def objects(members):
    array = next(name for name in members if name.endswith(".npy"))
    content = io.BytesIO()
    np.save(content, np.array([Run()], dtype=object), allow_pickle=True)
    return pack({**members, array: content.getvalue()})


def outside(members):
    return pack({**members, "../pwned": b"x", "/tmp/pwned": b"x"})


def deep(members):
    return pack({**members, "schema.json": "[" * 200_000 + "]" * 200_000})


def bomb(members):
    return pack({**members, "schema.json": b" " * 50_000_000}, compression=zipfile.ZIP_DEFLATED)


MADE = "import os; os.mkdir('pwned')"
REDUCED = {
    "reduce": {
        "__class__": "tuple",
        "__module__": "builtins",
        "__loader__": "TupleNode",
        "__id__": 78,
        "content": [value(MADE)],
    }
}
MALICIOUS = {
    "a pickle": lambda _: pickle.dumps(Run()),
    "an array of pickled objects": objects,
    "os.system for the model": as_root(function("os", "system")),
    "os.mkdir as a parameter": as_parameter(function("os", "mkdir")),
    "exec as a parameter": as_parameter(function("builtins", "exec")),
    "a partial of a system call": as_parameter(node("functools", "partial", "PartialNode", content={"func": function("os", "mkdir"), "args": value([]), "kwds": mapping({}), "namespace": mapping({})})),
    "a process": as_root(thing("subprocess", "Popen", args=value("mkdir pwned"))),
    "an object that is reduced": as_parameter(node("builtins", "exec", "ReduceNode", content=REDUCED)),
    "a method caller": as_parameter(node("operator", "methodcaller", "OperatorFuncNode", attrs=REDUCED["reduce"])),
    "a numpy object that removes a folder": as_root(thing("numpy.lib._datasource", "DataSource", _istmpdest=value(True), _destpath=value("precious"))),
    "the same inside a sound model": as_parameter(thing("numpy.lib.npyio", "DataSource", _istmpdest=value(True), _destpath=value("precious"))),
    "a mapped file": as_root(thing("numpy", "memmap", filename=value("precious/file"))),
    "a function of ours that writes": as_parameter(function("colspace.io._files", "write_text")),
    "a function of scikit-learn that fetches": as_parameter(function("sklearn.datasets._base", "_fetch_remote")),
    "a class that only looks like ours": as_root(thing("colspace.io._files", "Path")),
    "a name with more dots": as_parameter(function("colspace.io._models.importlib", "import_module")),
    "members that lead outside": outside,
    "brackets without end": deep,
    "a bomb": bomb,
    "columns that are a mapping": in_header(columns={"a": 1}),
    "a quality that is nonsense": in_header(quality={"scores": 3, "sample_of": None, "rows": "x"}),
    "tables that are nonsense": in_header(tables=[[1]]),
    "a header that is a list": lambda m: pack({**m, "colspace.json": "[]"}),
    "a number without end": lambda m: pack({**m, "colspace.json": '{"format": ' + "9" * 20_000 + "}"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MALICIOUS)
def test_malicious_files_do_nothing(folder, name):
    (folder / "precious").mkdir()
    (folder / "precious" / "file").write_text("kept")
    (folder / "m.skops").write_bytes(MALICIOUS[name](members_of(model("reduction"))))
    before = sorted(path.name for path in folder.iterdir())
    codes = everything()
    assert 2 in codes
    new = {path.name for path in folder.iterdir()} - set(before) - {"out.csv", "out.html"}
    assert not new
    assert (folder / "precious" / "file").read_text() == "kept"
    if codes[1] == 2:
        assert not (folder / "out.csv").exists()
    if codes[2] == 2:
        assert not (folder / "out.html").exists()


@pytest.mark.parametrize("names", ["left", [1], {"left": 3}])
def test_names_of_entities_that_are_nonsense(folder, names):
    (folder / "m.skops").write_bytes(in_header(names=names)(members_of(model("pairs"))))
    done = run("apply", "m.skops", *TABLES["pairs"], "--out", "out.csv")
    assert (done.exit_code, "the model's header has names" in done.stderr) == (2, True)
    assert not (folder / "out.csv").exists()


def test_what_a_header_says_is_only_shown(folder):
    """Neither the terminal nor a browser obeys it."""
    evil = "\x1b]0;pwned\x07[link=file:///etc]</script><script>alert(1)</script>"
    data = in_header(table=evil, line=evil, warnings=[evil])(members_of(model("reduction")))
    (folder / "m.skops").write_bytes(data)
    shown = run("info", "m.skops").output
    assert "\x1b" not in shown
    assert "?]0;pwned?[link=file:///etc]" in shown
    assert run("report", "m.skops", "--out", "r.html").exit_code == 0
    page = (folder / "r.html").read_text()
    assert page.count("<script") == 3 + page.count("<script>alert(1)") == 3


def test_a_later_version_says_so_and_a_foreign_file_too(folder):
    (folder / "m.skops").write_bytes(
        in_header(format=99, versions={"colspace": "9.1"})(members_of(model("pairs")))
    )
    line = run("info", "m.skops").stderr
    assert f"m.skops was written by colspace 9.1 in format 99; this is {__version__}" in line
    assert run("apply", "m.skops", "new_diseases.csv", "--out", "o.csv").stderr == line
    (folder / "m.skops").write_text("a,b\n1,2\n")
    assert "m.skops is damaged or not a file written by colspace.io.save" in run("info", "m.skops").stderr
    assert "no.skops does not exist" in run("info", "no.skops").stderr
