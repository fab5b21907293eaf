"""Imports point one way, files stay small, every public name is documented."""

import ast
import doctest
import inspect
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import colspace

ROOT = Path(colspace.__file__).parent
PROJECT = Path(__file__).parents[2]

# each room may import from rooms of a lower floor, and from its own
FLOORS = [
    {
        "_rows",
        "_threads",
        "_overflow",
        "_containers",
        "_blocks",
        "_random",
        "_sklearn_compat",
        "_streamable",
        "_progress",
        "_binary",
        "_summary",
        "_ranking",
        "metrics",
        "datasets",
    },
    {"_validation", "_response", "moments", "factor"},
    {"scores"},
    {"reduction", "copula", "dictionary", "pairs"},
    {"quality"},
    {"io", "displays", "experiments"},
    {"report"},
    {"cli"},
]
FLOOR = {room: i for i, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imported_rooms(path):
    """Rooms of colspace that a file imports, wherever in the file."""
    return list(_imported_rooms(path))


def _imported_rooms(path):
    package = ["colspace", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [stem if stem.count(".") else f"{stem}.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "colspace" and len(parts) > 1:
                yield parts[1]


FILES = sorted(p for p in ROOT.rglob("*.py") if p not in (ROOT / "__init__.py", ROOT / "__main__.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    room = room_of(path)
    assert room in FLOOR, f"give {room} a floor"
    for other in imported_rooms(path):
        if other in FLOOR and other != room:
            assert FLOOR[other] <= FLOOR[room], f"{path.name} imports {other} from a higher floor"


def test_same_floor_rooms_do_not_import_each_other_in_a_circle():
    edges = {}
    for path in FILES:
        edges.setdefault(room_of(path), set()).update(o for o in imported_rooms(path) if o in FLOOR)
    done = set()

    def visit(room, trail):
        assert room not in trail, " -> ".join([*trail, room])
        if room not in done:
            for other in edges.get(room, set()) - {room}:
                visit(other, [*trail, room])
            done.add(room)

    for room in edges:
        visit(room, [])


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_readable(path):
    assert len(path.read_text().splitlines()) <= 500


@pytest.mark.parametrize("name", colspace.__all__)
def test_public_names_are_documented_with_an_example(name):
    member = getattr(colspace, name)
    assert inspect.getdoc(member)
    if not (
        inspect.isclass(member) and (issubclass(member, Warning) or hasattr(member, "__dataclass_fields__"))
    ):
        assert doctest.DocTestFinder().find(member, name)[0].examples, f"{name} has no example"
    assert name in (PROJECT / "docs" / "api.md").read_text(), f"{name} is not in docs/api.md"


def test_version_is_the_same_everywhere():
    assert f'version: "{colspace.__version__}"' in (PROJECT / "CITATION.cff").read_text()
    assert f"## [{colspace.__version__}]" in (PROJECT / "CHANGELOG.md").read_text()


def test_core_import_loads_no_extra():
    code = (
        "import sys, sklearn.utils.estimator_checks; before = set(sys.modules); "
        "import colspace, colspace.metrics, colspace.datasets; new = set(sys.modules) - before; "
        "print(sorted(new & {'pandas','dask','matplotlib','click','rich','skops','pyarrow','polars'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_rooms_load_when_they_are_asked_for():
    rooms = sorted(p.name.removesuffix(".py") for p in ROOT.iterdir() if not p.name.startswith("_"))
    rooms = [room for room in rooms if room != "cli" and not room.endswith(".typed")]
    code = (
        "import sys, colspace; before = {m for m in sys.modules if m.startswith('colspace.')}; "
        f"assert set({rooms}) <= set(dir(colspace)), dir(colspace); "
        f"names = [getattr(colspace, room).__name__ for room in {rooms}]; print(sorted(before), names)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"[] {[f'colspace.{room}' for room in rooms]}"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = colspace.nothing


def test_files_of_tests_have_names_of_their_own():
    names = sorted(path.name for path in (PROJECT / "tests").rglob("test_*.py"))
    assert [name for name in names if names.count(name) > 1] == []  # pytest imports them by these names
