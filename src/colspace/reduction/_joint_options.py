"""Known means and covariances of joint reduction, and which of its options go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky

from .._blocks import Blocks
from ..moments import CentredMoments

Array = NDArray[np.float64]

_POWER = 2  # default power iterations


@dataclass(frozen=True)
class KnownLaw:
    """Known means and covariances of the blocks, in block order; None: those of the rows."""

    mean: Array | None
    covariance: tuple[Array, ...] | None

    @property
    def variance(self) -> Array | None:
        """Known variances of all columns."""
        return None if self.covariance is None else np.concatenate([np.diag(S) for S in self.covariance])


def known_law(mean: Any, covariance: Any, blocks: Blocks) -> KnownLaw | None:
    """The options ``mean`` and ``covariance`` of JointReduction, checked against the blocks."""
    if mean is None and covariance is None:
        return None
    centres = None if mean is None else np.concatenate(_per_block("mean", mean, blocks, 1))
    if covariance is None:
        return KnownLaw(centres, None)
    matrices = _per_block("covariance", covariance, blocks, 2)
    for name, S in zip(blocks.names, matrices, strict=True):
        deviation = np.sqrt(np.maximum(np.diag(S), 0.0))
        unit = np.outer(deviation, deviation)
        try:
            if not (deviation > 0).all() or not np.allclose(S / unit, S.T / unit, rtol=0, atol=1e-8):
                raise LinAlgError
            cholesky(S / unit, lower=True)
        except LinAlgError:
            msg = (
                f"covariance of block {name!r} is not symmetric and positive definite, and its inverse root is needed. Remedies: "
                "(S + S.T) / 2, a small ridge on its diagonal, or covariance=None for that of the rows"
            )
            raise ValueError(msg) from None
    return KnownLaw(centres, tuple((S + S.T) / 2 for S in matrices))


def _per_block(name: str, given: Any, blocks: Blocks, ndim: int) -> list[Array]:
    if not isinstance(given, Mapping):
        if len(blocks) > 1:
            msg = f"{name} must be a mapping of the blocks {list(blocks.names)} to arrays, as there are {len(blocks)} blocks"
            raise ValueError(msg)
        given = {blocks.names[0]: given}
    if set(given) != set(blocks.names):
        msg = f"{name} names blocks {sorted(map(str, given))}, but blocks are {sorted(blocks.names)}; name each once"
        raise ValueError(msg)
    found = []
    for block, width in zip(blocks.names, blocks.widths, strict=True):
        values = np.asarray(given[block], dtype=np.float64)
        if values.shape != (width,) * ndim or not np.isfinite(values).all():
            msg = (
                f"{name} of block {block!r} has shape {values.shape}; {(width,) * ndim} finite numbers are needed, one for each of its "
                f"{width} columns" + (" with each" if ndim == 2 else "")
            )
            raise ValueError(msg)
        found.append(values)
    return found


def about(c: CentredMoments, law: KnownLaw | None) -> CentredMoments:
    r"""Moments about known means, with known covariances.

    With :math:`\delta = \bar x - \mu` and centred y: :math:`E[y(a-\mu_a)(b-\mu_b)^\top] = E[y a_c b_c^\top] + E[y a_c]\delta_b^\top +
    \delta_a E[y b_c]^\top`, while :math:`E[y(a-\mu_a)] = E[y a_c]`.
    """
    if law is None:
        return c
    covariance, triple, mean = dict(c.covariance), dict(c.triple), c.mean
    if law.mean is not None:
        mean, delta = law.mean, [(c.mean - law.mean)[s] for s in c.slices]
        linear = [c.linear[s].T for s in c.slices]
        covariance = {(i, j): S + np.outer(delta[i], delta[j]) for (i, j), S in covariance.items()}
        triple = {
            (i, j): T + linear[i][:, :, None] * delta[j] + delta[i][:, None] * linear[j][:, None, :]
            for (i, j), T in triple.items()
        }
    if law.covariance is not None:
        covariance |= {(b, b): S for b, S in enumerate(law.covariance)}
    return replace(c, mean=mean, covariance=covariance, triple=triple)


def check_options(model: Any) -> None:
    """Refuse options that the others leave without effect, and published ones beside "auto" moments."""
    if model.selection == "paper" and model.n_selected is None:
        msg = "selection='paper' says how columns are selected, but n_selected=None selects none; give n_selected, or leave it out"
        raise ValueError(msg)
    given = [name for name in ("mean", "covariance") if getattr(model, name) is not None]
    if given and model.moments == "auto":
        msg = (
            f"{given[0]} belongs to the published moments; moments='auto' learns a ridge and a regression from the rows themselves. "
            "Remedy: moments='joint' (or 'all')"
        )
        raise ValueError(msg)
    if model.covariance is not None and model.whiten is None:
        msg = "covariance is what columns are whitened by, but whiten=None leaves them as they are; use whiten='full' or 'diagonal'"
        raise ValueError(msg)
    if model.covariance is not None and model.shrinkage is not None:
        msg = f"shrinkage={model.shrinkage!r}, but a given covariance is not shrunk; set shrinkage=None, or leave covariance out"
        raise ValueError(msg)
    if model.eta is not None and "threshold" not in (model.n_components, model.n_selected):
        msg = (
            f"eta={model.eta!r} is the threshold of the rule 'threshold', which neither n_components={model.n_components!r} nor "
            f"n_selected={model.n_selected!r} asks for; set one of them to 'threshold'"
        )
        raise ValueError(msg)


def check_power(n_power: int, solver: str, columns: int) -> None:
    """Refuse power iterations of a solver that has none."""
    if n_power != _POWER and solver not in ("randomized", "countsketch"):
        msg = (
            f"n_power={n_power} counts power iterations, but the moments of {columns} columns are factored without any "
            f"({solver}). Remedies: solver='randomized' or 'countsketch', or n_power={_POWER}"
        )
        raise ValueError(msg)


def check_eta(wanted: frozenset[str], n_blocks: int, n_responses: int) -> None:
    """The rule of a given eta is about the proxy of two blocks and one response."""
    if wanted != {"joint"} or n_blocks != 2 or n_responses != 1:
        msg = (
            f"eta is a bound on the proxy of two blocks and one response; here {n_blocks} block(s), {n_responses} response(s), moments "
            f"{sorted(wanted)}. Remedies: moments='joint' with two blocks, or eta=None for the noise level"
        )
        raise ValueError(msg)


def half_eta(eta: float | None, y_scale: Sequence[float] | Array) -> float | None:
    """Half of eta, which is in units of y, for standardised responses."""
    return None if eta is None else 0.5 * eta / float(y_scale[0])


def check_rank_test(model: Any, n_permutations: int, alpha: float, max_components: int | None) -> None:
    """Refuse arguments of ``rank_test`` out of range, and a known law, which it has no use for."""
    if model.mean is not None or model.covariance is not None:
        msg = "rank_test whitens permuted rows by their own means and covariances; set mean and covariance to None for it"
        raise ValueError(msg)
    if n_permutations < 1 or not 0 < alpha < 1 or (max_components is not None and max_components < 1):
        msg = (
            f"n_permutations={n_permutations} and max_components={max_components} must be at least 1, "
            f"alpha={alpha} between 0 and 1"
        )
        raise ValueError(msg)
