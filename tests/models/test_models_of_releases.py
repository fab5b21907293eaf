"""Models that earlier versions saved load for ever and give what they gave; tests/models/make_models.py makes those of a version."""

import lzma
import shutil
from pathlib import Path

import make_models as make
import numpy as np
import pandas as pd
import pytest

from colspace import __version__, load
from colspace.io import info

RELEASES = sorted(
    path for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name[0].isdigit()
)
SETTLED = {"imputer": 1e-3}  # answers that sweeps approach: versions may stop at other distances
CASES = [(release, family) for release in RELEASES for family in make.FAMILIES]


def test_this_version_has_its_models():
    """A new version needs python tests/models/make_models.py."""
    assert __version__ in [release.name for release in RELEASES]


@pytest.mark.parametrize(("release", "family"), CASES, ids=lambda value: getattr(value, "name", value))
def test_an_old_model_gives_what_it_gave(release, family, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in make.NEW:
        shutil.copy(release / name, name)
    Path("m.skops").write_bytes(lzma.decompress((release / f"{family}.skops.xz").read_bytes()))
    header = info("m.skops")
    assert header["about"]["command"] in make.FAMILIES[family][0]
    assert header["versions"]["colspace"] == release.name
    model = load("m.skops")
    assert repr(model)  # with parameters that came since
    assert model._repr_html_()
    make.run(make.FAMILIES[family][1], model="m.skops", out="found.csv")
    found, told = pd.read_csv("found.csv"), pd.read_csv(release / f"{family}.csv")
    assert list(found.columns) == list(told.columns)
    for name in told:
        if told[name].dtype.kind in "if":
            np.testing.assert_allclose(found[name], told[name], rtol=SETTLED.get(family, 1e-6), atol=1e-9)
        else:
            assert found[name].tolist() == told[name].tolist()


def test_the_tables_of_the_script_are_those_that_were_kept(tmp_path):
    """The script shows how they were made."""
    make.tables(tmp_path)
    kept = next(release for release in RELEASES if release.name == __version__)
    for name in make.NEW:
        assert (tmp_path / name).read_bytes() == (kept / name).read_bytes()
