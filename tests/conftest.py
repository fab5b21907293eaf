import signal
from contextlib import suppress
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background: tests of Ctrl-C need the signal
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """A test that leaves a file where it was started fails: it wants ``monkeypatch.chdir(tmp_path)``."""
    root = Path.cwd()
    before = set(root.iterdir())
    yield
    left = {path.name for path in set(root.iterdir()) - before if not path.name.startswith(".")}
    assert not left - {"demo", "__pycache__"}, f"left behind: {sorted(left)}"
