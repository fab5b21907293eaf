"""What ``colspace pairs`` prints."""

from __future__ import annotations

from typing import Any

_SHOWN = 3  # entities whose best partners are printed


def print_report(
    estimator: Any, Y: Any, ranked: Any, n: int, quality: Any, top: int, files: dict[str, str | None]
) -> None:
    from ._check import print_scores, scores_of
    from ._say import console as console_of
    from ._say import grid, print_written

    console = console_of(files["partners"], files["JSON"])
    share = 100 * Y.nnz / (Y.shape[0] * Y.shape[1])
    console.print(
        f"{Y.shape[0]:,} x {Y.shape[1]:,} entities, {Y.nnz:,} links ({share:.2f} % of pairs); {settings_of(estimator)}"
    )
    if quality is not None:
        notes = f"recall at {top}" if "recall" in quality else "error: root mean squared"
        print_scores(
            console, scores_of(quality.to_dict("records")), f"Held out, free from the tuning ({notes})"
        )
    first, _, second = ranked.columns[:3]
    rows = []
    for name in list(dict.fromkeys(ranked[first]))[:_SHOWN]:
        best = ranked[ranked[first] == name].head(5)
        cells = [f"{p} {s:.3g}" for p, s in zip(best[second], best["score"], strict=True)]
        rows.append((str(name), ", ".join(cells)))
    columns = (str(first), f"best {second}, with score")
    console.print(grid(columns, rows, f"{n:,} entities ranked; the first of them"))
    print_written(console, **files)


def settings_of(estimator: Any) -> str:
    """The settings found, in words."""
    left, right = (estimator.bandwidth_[side] for side in ("left", "right"))
    widths = f"bandwidths {left:g} and {right:g} of the median distance"
    metrics = getattr(estimator, "metric_", {})
    heavy = [side for side, names in metrics.items() if any(name.endswith("multiquadric") for name in names)]
    widths += f" with heavy tails ({' and '.join(heavy)})" if heavy else ""
    if not hasattr(estimator, "alpha_"):
        return (
            f"{estimator.reduction} reduction to {estimator.n_components_} directions, shrinkage {estimator.shrinkage_:g}, "
            f"{widths}"
        )
    front = "no reduction"
    if estimator.reduction_ is not None:
        front = f"{estimator.reduction_} reduction to {estimator.n_components_} directions"
    a, b = (estimator.alpha_[side] for side in ("left", "right"))
    shares = [estimator.profile_[side] for side in ("left", "right")]
    profiles = f", links' own kernel {shares[0]:g} and {shares[1]:g}" if any(shares) else ""
    alone = [estimator.own_[side] for side in ("left", "right")]
    profiles += f", entities by themselves {alone[0]:g} and {alone[1]:g}" if any(alone) else ""
    signs = ", positive weights only" if any(estimator.positive_.values()) else ""
    return f"kernel ridge for {estimator.target}, {front}, {widths}, ridges {a:g} and {b:g}{profiles}{signs}"
