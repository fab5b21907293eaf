"""Which options of joint reduction let rows come in chunks; told without importing it."""

from __future__ import annotations

from typing import Any


def is_auto(model: Any) -> bool:
    """Whether "auto" is meant, and no option asks for published moments."""
    given = (model.whiten, model.shrinkage, model.solver, model.n_selected)
    published = given != ("full", None, "auto", None)
    counted = model.n_components in ("moments", "threshold")
    return bool(model.moments == "auto" and not published and not counted)


def passes_again(model: Any) -> bool:
    """Whether the fit keeps the rows of chunks for further passes."""
    return is_auto(model) or model.n_components == "auto"


def takes_chunks(model: Any) -> bool:
    """Whether rows that come in chunks are fitted at all: kept for further passes, or read once.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from colspace._streamable import takes_chunks
    >>> options = {"n_components": 2, "moments": "all", "whiten": "full", "shrinkage": None, "solver": "auto", "n_selected": None}
    >>> [takes_chunks(SimpleNamespace(**options, response=response)) for response in (None, "rank")]
    [True, False]
    """
    if passes_again(model):
        return True
    try:
        check_streamable(model)
    except ValueError:
        return False
    return bool(model.response != "rank")


def check_streamable(model: Any) -> None:
    """Refuse what reads the data more than once."""
    reasons = {
        "solver": model.solver in ("randomized", "countsketch"),
        "shrinkage": model.shrinkage == "auto",
        "n_components": model.n_components in ("auto", "moments"),
        "n_selected": isinstance(model.n_selected, str) and model.n_selected == "auto",
        "moments": "tensor" in ((model.moments,) if isinstance(model.moments, str) else model.moments),
    }
    for name, wrong in reasons.items():
        if wrong:
            msg = (
                f"{name}={getattr(model, name)!r} reads the data more than once, so it does not work in chunks. "
                "Remedies: a number (or 'threshold' for n_components and n_selected), solver='exact', "
                "moments='joint', or fit on an array, memmap or Dask collection"
            )
            if name == "n_components" and model.n_components == "auto":
                msg += " (or an iterator of chunks), whose n_components_ partial_fit can take on"
            raise ValueError(msg)
