"""Files are written whole or not at all, and never over one that is read."""

import errno
import os
import resource
import signal
import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression

from colspace.io import _files as files
from colspace.io import load, read_table, save, write_table
from colspace.io._files import check_apart, check_directory, check_target, directory, is_stream, replacing

LARGE = pd.DataFrame(np.random.default_rng(0).standard_normal((3000, 4)), columns=list("abcd"))
MODEL = LinearRegression().fit(LARGE[["a"]].to_numpy(), LARGE["b"].to_numpy())
MODEL.extra_ = LARGE.to_numpy()


def picture(path):
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    files.write_picture(figure, path)


WRITERS = {
    "t.csv": lambda path: write_table(LARGE, path),
    "t.tsv": lambda path: write_table(LARGE, path),
    "t.csv.gz": lambda path: write_table(LARGE, path),
    "t.parquet": lambda path: write_table(LARGE, path),
    "m.skops": lambda path: save(MODEL, path),
    "p.png": picture,
    "s.json": lambda path: files.write_text("x" * 10_000, path),
}


@pytest.fixture(params=WRITERS)
def target(request, tmp_path):
    """A file that is there, and what writes it."""
    path = tmp_path / request.param
    path.write_text("what was there")
    return path, WRITERS[request.param]


def untouched(path):
    return path.read_text() == "what was there" and list(path.parent.iterdir()) == [path]


def test_a_file_that_grows_too_large_leaves_what_was_there(target):
    path, write = target
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))  # the kernel refuses the rest
    try:
        with pytest.raises(OSError, match="too large") as caught:
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert untouched(path)


def test_a_full_disk_leaves_what_was_there_and_names_the_file(target, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path, write = target
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=rf"No space left on device: '.*{path.name}'"):
        write(path)
    assert untouched(path)


def test_an_interrupt_before_the_renaming_leaves_what_was_there(target, monkeypatch):
    path, write = target
    monkeypatch.setattr(files.os, "fsync", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        write(path)
    assert untouched(path)


class Interrupting:
    """A cell that is written by Ctrl-C."""

    def __str__(self):
        signal.raise_signal(signal.SIGINT)
        return ""


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_an_interrupt_in_the_middle_of_a_table(tmp_path, name):
    path = tmp_path / name
    path.write_text("what was there")
    cells = [*["x" * 100] * 200_000, Interrupting()]
    with pytest.raises(KeyboardInterrupt):
        write_table(pd.DataFrame({"a": pd.Series(cells, dtype=object)}), path)
    assert untouched(path)


def test_a_new_file_comes_whole(target):
    path, write = target
    path.unlink()
    write(path)
    assert list(path.parent.iterdir()) == [path]
    if path.suffix == ".skops":
        np.testing.assert_array_equal(load(path).extra_, MODEL.extra_)
    elif path.name.startswith("t."):
        pd.testing.assert_frame_equal(read_table(path), LARGE, check_exact=False, rtol=1e-12)
    elif path.suffix == ".png":
        assert path.read_bytes()[:4] == b"\x89PNG"
    else:
        assert path.read_text() == "x" * 10_000


# ---------------------------------------------------------------------- permissions, links, streams


def test_permissions_stay_and_new_ones_follow_the_mask(tmp_path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("")
    old.chmod(0o640)
    mask = os.umask(0o022)
    try:
        for path in (old, new):
            write_table(LARGE, path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o644


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_a_link(tmp_path, there):
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "t.csv", tmp_path / "t.csv"
    if there:
        real.write_text("before")
    link.symlink_to(real)
    write_table(LARGE, link)
    assert link.is_symlink()
    assert not real.is_symlink()
    assert len(read_table(real)) == 3000
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["t.csv"]
    assert list(real.parent.iterdir()) == [real]


def test_another_name_of_the_file_keeps_what_was_there(tmp_path):
    path, other = tmp_path / "t.csv", tmp_path / "other.csv"
    path.write_text("before")
    other.hardlink_to(path)
    write_table(LARGE, path)
    assert other.read_text() == "before"


def test_devices_and_descriptors_are_streams(tmp_path):
    (tmp_path / "null.skops").symlink_to("/dev/null")
    for name in ("/dev/null", tmp_path / "null.skops"):
        assert is_stream(name)
        check_target(name)
    assert not is_stream(tmp_path)
    assert not is_stream(tmp_path / "none.csv")


def test_a_descriptor_is_written_as_it_is(tmp_path):
    """As in --model >(command), and where standard output goes to a file."""
    out, into = os.pipe()
    files.write_text("whole", f"/dev/fd/{into}")
    os.close(into)
    with os.fdopen(out) as reader:
        assert reader.read() == "whole"
    with (tmp_path / "log.txt").open("w") as log:
        files.write_text("whole", f"/dev/fd/{log.fileno()}")
        assert os.fstat(log.fileno()).st_nlink == 1  # the same file, not another in its place


def test_pipes_are_written_as_they_are(tmp_path):
    path, found = tmp_path / "t.csv", []
    os.mkfifo(path)
    reader = threading.Thread(daemon=True, target=lambda: found.append(path.read_text()))
    reader.start()
    write_table(LARGE.head(2), path)
    reader.join(10)
    assert found[0].startswith("a,b,c,d\n")
    assert path.is_fifo()


# ---------------------------------------------------------------------- checks


def test_targets_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match=r"no does not exist; make the directory first"):
        check_target(tmp_path / "no" / "t.csv")
    with pytest.raises(FileNotFoundError, match=r"file is not a directory; make the directory first"):
        check_target(tmp_path / "file" / "t.csv")
    with pytest.raises(IsADirectoryError, match="name a file in it"):
        check_target(tmp_path)
    with pytest.raises(NotADirectoryError, match="file is not a directory"):
        check_directory(tmp_path / "file" / "a" / "b")
    check_directory(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != tmp_path)
    for check, path in ((check_target, tmp_path / "t.csv"), (check_directory, tmp_path / "a" / "b")):
        with pytest.raises(PermissionError, match="new files are not allowed in"):
            check(path)
    monkeypatch.setattr(files.os, "access", lambda path, mode: path.name != "file")
    with pytest.raises(PermissionError, match="write-protected"), replacing(tmp_path / "file"):
        pass


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files of anyone")
def test_a_folder_that_takes_no_files_is_refused_before_anything_is_computed():
    for check in (check_target, check_directory):
        with pytest.raises(
            PermissionError, match=r"/proc/x\.csv cannot be written: new files are not allowed in /proc;"
        ):
            check("/proc/x.csv")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("t.csv", "t.csv"),
        ("t.csv", "./t.csv"),
        ("t.csv", "soft.csv"),
        ("soft.csv", "t.csv"),
        ("soft.csv", "other.csv"),
        ("t.csv", "hard.csv"),
        ("hard.csv", "soft.csv"),
        ("t.csv", "d/t.csv"),
        ("none.csv", "none.csv"),
    ],
)
def test_an_input_is_never_an_output(tmp_path, monkeypatch, source, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "d").symlink_to(".")
    for name in ("soft.csv", "other.csv"):
        (tmp_path / name).symlink_to("t.csv")
    (tmp_path / "hard.csv").hardlink_to("t.csv")
    with pytest.raises(ValueError, match=r"is the table itself.*never overwritten; give --out another name"):
        check_apart(["x.csv", None, source], [("--model", None), ("--out", target)])
    with pytest.raises(ValueError, match="--model and --out are both"):
        check_apart([], [("--model", source), ("--out", target)])
    check_apart([source], [("--out", "new.csv"), ("--model", "new.skops"), ("--two", "-")])


def test_devices_may_be_both(tmp_path):
    check_apart(["/dev/null", "-"], [("--out", "/dev/null"), ("--model", "/dev/null"), ("--more", "-")])


def test_a_directory_that_was_made_for_nothing_goes(tmp_path):
    with pytest.raises(KeyboardInterrupt), directory(tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with directory(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "whole.csv").write_text("")
    with pytest.raises(KeyboardInterrupt), directory(tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert (tmp_path / "a" / "b" / "whole.csv").exists()
