"""One module per published table or figure; `EXPERIMENTS` lists them, `run` runs one by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ._core import Result

#: Name -> module, imported when asked for.
EXPERIMENTS: dict[str, str] = {
    name: f"{__name__}.{name.replace('-', '_')}"
    for name in (
        *("jdr-fig1", "jdr-fig3", "jdr-fig5", "jdr-theory"),
        *("stein-fig2", "stein-s", "stein-mnist", "stein-patchseq", "stein-theory"),
        *("copula-synthetic", "copula-reliability", "copula-rank", "copula-bounds", "copula-ratings"),
        *("sdl-convergence", "sdl-mnist", "sdl-jobs", "sdl-xray", "sdl-estimation"),
        "pairs-gene-disease",
    )
}

__all__ = ["EXPERIMENTS", "Result", "describe", "run"]


def describe(name: str) -> str:
    """One line on what an experiment shows."""
    return (import_module(_module(name)).__doc__ or name).strip().splitlines()[0].rstrip(".")


def run(
    name: str, *, quick: bool = False, out: str | Path | None = None, rng: int = 0, progress: bool = False
) -> Result:
    """Run an experiment by name.

    Parameters
    ----------
    name : a key of `EXPERIMENTS`.
    quick : fewer repetitions on smaller grids, about a minute.
    out : directory for ``<name>.png`` and ``<name>.csv``; made when missing. None writes nothing.
    rng : seed; every repetition has its own child seed.
    progress : show a bar on a terminal.
    """
    module = import_module(_module(name))
    result: Result = module.run(
        quick=quick, out=None if out is None else Path(out), rng=rng, progress=progress
    )
    return result


def _module(name: str) -> str:
    if name not in EXPERIMENTS:
        msg = f"no experiment is called {name!r}; choose from {', '.join(EXPERIMENTS)}"
        raise ValueError(msg)
    return EXPERIMENTS[name]
