"""The demo's section on links between two kinds of entities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV

from ..datasets import make_pairs
from ..displays._style import COLOURS, MARKERS, pyplot, tidy
from ..io._files import write_picture
from ..metrics import recall_at_k
from ..pairs import BilinearPairRegressor, HeldOutEntities, PairRegressor, PairTable, pair_scorer
from ._core import Row
from ._demo_report import beside, print_table

SIZE = (900, 500, 20, 3)
LIST = 20
LISTS = (1, 2, 5, 10, 20, 50, 100)
PENALTIES = (0.01, 0.03, 0.1)


def predictions(A: Any, B: Any, Y: Any, new: Any) -> dict[str, Any]:
    """Scores of all partners for new left entities by each method, tuned on held-out entities of the training part."""
    r = SIZE[-1]
    search = GridSearchCV(
        BilinearPairRegressor(r, max_iter=1000),
        {"alpha": list(PENALTIES)},
        cv=HeldOutEntities(3, random_state=0),
        scoring=pair_scorer("recall", LIST),
    )
    popular = np.asarray(Y.sum(axis=0)).ravel()
    return {
        "joint reduction + kernel": PairRegressor(r, n_top=LIST).fit(A, B, Y).predict(new),
        "inductive matrix completion": search.fit(PairTable(A, B, Y)).best_estimator_.predict(new),
        "PCA + kernel": PairRegressor(r, reduction="pca", n_top=LIST).fit(A, B, Y).predict(new),
        "popularity": np.broadcast_to(popular, (len(new), len(popular))),
    }


def recalls(splits: int = 3) -> dict[str, list[list[float]]]:
    """Recall of each method, over splits and lengths of the list."""
    found: dict[str, list[list[float]]] = {}
    for seed in range(splits):
        A, B, Y, _ = make_pairs(*SIZE, rng=seed)
        held_out = len(A) // 3
        for name, scores in predictions(A[held_out:], B, Y[held_out:], A[:held_out]).items():
            found.setdefault(name, []).append([recall_at_k(Y[:held_out], scores, k) for k in LISTS])
    return found


def pairs_section(out: Path, console: Any, *, splits: int = 3) -> Row:
    """Users never seen and their films: recall of partners beside rivals."""

    left, right, width, r = SIZE
    console.print(
        f"[bold]Partners of entities never seen[/]: {left} viewers and {right} films with {width} features each, linked when "
        f"{r} hidden combinations agree and the film is popular; a third of the viewers is held out with all their links; "
        f"{splits} generated tables, mean ± standard error. All methods are tuned on training viewers."
    )
    found = {name: np.array(values) for name, values in recalls(splits).items()}
    rows: list[Row] = []
    for name, values in found.items():
        error = values.std(axis=0, ddof=1) / np.sqrt(splits) if splits > 1 else np.zeros(len(LISTS))
        cells = {
            f"recall at {k}": f"{m:.3f} ± {e:.3f}"
            for k, m, e in zip(LISTS, values.mean(axis=0), error, strict=True)
            if k in (5, LIST, 100)
        }
        rows.append({"method": name, "directions": "" if name == "popularity" else str(r), **cells})
    print_table(console, rows)
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    for i, (name, values) in enumerate(found.items()):
        ax.plot(LISTS, values.mean(axis=0), color=COLOURS[i], marker=MARKERS[i], markersize=4, label=name)
    ax.set_xscale("log")
    ax.set_xticks(LISTS, [str(k) for k in LISTS])
    ax.set_xlabel("length of the list k")
    ax.set_ylabel("recall")
    ax.legend(frameon=False, fontsize="small")
    tidy(ax)
    path = out / "pairs.png"
    write_picture(figure, path)
    plt.close(figure)
    console.print(f"wrote {path}", soft_wrap=True, highlight=False)
    return beside("partners of entities never seen", rows, f"recall at {LIST}")
