"""Partners of a thousand new entities among twenty thousand, kernel ridge, and what "auto" loses against its grid.

    python benchmarks/pairs.py [--quick] [--ridge] [--targets] [--sum] [--default FIRST LAST] [--auto N] [--similarities FIRST LAST] [--twins FIRST LAST]

20,000 x 20,000 entities with 200 features a side and a million links: CPU seconds to fit and to find the 20 best partners
of 1,000 new entities, with small weights dropped, in single precision, and in double precision with all weights, and how
many partners agree. ``--ridge``: kernel ridge at 5,000 x 5,000. ``--targets``: recall of all methods for each target on
generated tables. ``--sum``: cpHd with its own kernel. ``--default FIRST LAST``: partitions of the gene-disease data
(COLSPACE_DATA) as the experiment in full has them (20: 0 20), recall of KernelPairRegressor() tuned on each by itself.
``--auto N``: N partitions of the gene-disease data (COLSPACE_DATA), recall at 100 of PairRegressor's defaults and of
every setting of the grid. ``--similarities FIRST LAST``: new entities whose partners are given by similarities, seeds from
FIRST, beside nearest neighbours. ``--twins FIRST LAST``: the same with partners of a few binary features, many of which have
the same. One BLAS thread throughout, CPU seconds, peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from colspace import KernelPairRegressor, PairRegressor
from colspace.datasets import make_pairs
from colspace.metrics import average_precision_by_entity, recall_at_k
from colspace.pairs._quality import NEIGHBOURS
from colspace.pairs._ranking import ranked_frame, top_of_blocks
from colspace.pairs._rivals import alternating_least_squares, nearest, neighbours, popularity
from colspace.pairs._similarity import base_kernel


def timed(f: Callable[[], Any]) -> tuple[Any, float]:
    """Result and CPU seconds."""
    start = time.process_time()
    found = f()
    return found, time.process_time() - start


def peak() -> float:
    """Peak memory of the process so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def random_pairs(n: int, p: int, links: int) -> tuple[Any, Any, Any]:
    """Normal features, links at random."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((n, p)), rng.standard_normal((n, p))
    where = np.unique(rng.integers(0, n * n, links))
    Y = sparse.csr_array((rng.random(len(where)), (where // n, where % n)), shape=(n, n))
    return A, B, Y


def line(step: str, seconds: float, note: str = "") -> None:
    """One row of the table."""
    print(f"{step:44} {seconds:8.2f} {peak():8.2f}  {note}", flush=True)


def agreement(one: Any, other: Any, k: int) -> float:
    """Share of the k best partners that two rankings have in common."""
    lists = [table["right"].to_numpy().reshape(-1, k) for table in (one, other)]
    return float(np.mean([len(set(x) & set(y)) / k for x, y in zip(*lists, strict=True)]))


def in_double(model: PairRegressor, A: Any, k: int) -> Any:
    """The k best partners with kernels in double precision, all weights, and nothing kept."""
    smoother = replace(model._smoother(), tol=0.0, precision=np.float64)
    E = model.transform(A)
    blocks = smoother.blocks(E, model.embedding_["right"])
    return ranked_frame(*top_of_blocks(blocks, len(E), k), None, None)


def large(n: int, p: int, links: int, new: int, bandwidth: float) -> None:
    """Fit and rank at full size."""
    A, B, Y = random_pairs(n, p, links)
    A_new = np.random.default_rng(1).standard_normal((new, p))
    print(
        f"{n:,} x {n:,} entities, {p} features a side, {Y.nnz:,} links, r = 50, bandwidth {bandwidth:g}; data take {peak():.2f} GB",
        flush=True,
    )
    print(f"{'step':44} {'CPU s':>8} {'peak GB':>8}", flush=True)
    given = {"shrinkage": 0.3, "bandwidth": bandwidth}
    model, seconds = timed(lambda: PairRegressor(50, **given).fit(A, B, Y))
    line("fit, settings given", seconds)
    best = f"20 best partners of {new:,} new"
    fast, first = timed(lambda: model.rank(A_new, k=20))
    line(f"{best}, tol=1e-5", first)
    _, again = timed(lambda: model.rank(A_new, k=20))
    line("the same again, right kernel kept", again)
    exact = PairRegressor(50, **given, tol=0).fit(A, B, Y)
    single, seconds = timed(lambda: exact.rank(A_new, k=20))
    line(f"{best}, tol=0", seconds)
    double, slow = timed(lambda: in_double(model, A_new, 20))
    line(f"{best}, double precision", slow)
    print(
        f"against double precision: tol=1e-5 {slow / first:.1f} times faster, {slow / again:.1f} with the kernel kept, the same "
        f"partners {agreement(fast, double, 20):.4f}; tol=0 {slow / seconds:.1f} times, {agreement(single, double, 20):.4f}",
        flush=True,
    )


def ridge(n: int, p: int, links: int, new: int) -> None:
    """Kernel ridge: fit with settings given, rank, and what landmarks lose."""
    A, B, Y = random_pairs(n, p, links)
    A_new = np.random.default_rng(1).standard_normal((new, p))
    print(f"kernel ridge, {n:,} x {n:,} entities, {p} features a side, {Y.nnz:,} links", flush=True)
    given = {"bandwidth": 0.5, "alpha": 1.0, "reduction": None}
    scores = {}
    for marks in (None, n // 5):
        model, seconds = timed(lambda: KernelPairRegressor(**given, n_landmarks=marks).fit(A, B, Y))  # noqa: B023
        line(
            f"fit, settings given, landmarks {marks}",
            seconds,
            f"kernel lost {model.kernel_error_['left']:.3f}",
        )
        for call in ("first", "again"):
            _, seconds = timed(lambda: model.rank(A_new, k=20))  # noqa: B023
            line(f"20 best partners of {new:,} new, {call}", seconds)
        scores[marks] = model.predict(A_new[:200])
    both = np.corrcoef(*(found.ravel() for found in scores.values()))[0, 1]
    print(f"correlation of scores with and without landmarks {both:.3f}", flush=True)


def entry_table(seed: int) -> tuple[Any, Any, Any]:
    """Links by eight hidden tastes, of which features say little: a table that knows itself better than its features do."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((300, 8)), rng.standard_normal((200, 8))
    A = 0.3 * U @ rng.standard_normal((8, 10)) + 2 * rng.standard_normal((300, 10))
    B = 0.3 * V @ rng.standard_normal((8, 10)) + 2 * rng.standard_normal((200, 10))
    liking = U @ V.T + rng.gumbel(size=(300, 200))
    return A, B, sparse.csr_array((liking >= np.sort(liking, axis=1)[:, -16:-15]) * 1.0)


def split(Y: Any, target: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Left and right entities to learn from, links seen, and the pairs asked for (rows, columns)."""
    rng = np.random.default_rng(seed)
    n, m = Y.shape
    rows, columns = rng.permutation(n)[: n // 4], rng.permutation(m)[: m // 4]
    seen = Y.toarray()
    if target in ("new-left", "new-both"):
        seen[rows] = 0
    if target in ("new-right", "new-both"):
        seen[:, columns] = 0
    if target == "entries":
        i, j = Y.nonzero()
        gone = rng.permutation(len(i))[: len(i) // 5]
        seen[i[gone], j[gone]] = 0
    left = np.setdiff1d(np.arange(n), rows) if target in ("new-left", "new-both") else np.arange(n)
    right = np.setdiff1d(np.arange(m), columns) if target in ("new-right", "new-both") else np.arange(m)
    return left, right, sparse.csr_array(seen), (rows, columns)


def recall_of(scores: Any, Y: Any, seen: Any, target: str, asked: Any, k: int = 20) -> float:
    """Recall at k of what the target asks for: of new entities on their own side, of entries among pairs without a link."""
    rows, columns = asked
    truth = Y.toarray()
    if target == "new-left":
        return float(recall_at_k(truth[rows], scores[rows], k))
    if target == "new-right":
        return float(recall_at_k(truth[:, columns].T, scores[:, columns].T, k))
    if target == "new-both":
        part = np.ix_(rows, columns)
        return float(recall_at_k(truth[part], scores[part], max(1, round(k / 4))))
    hidden = seen.toarray() > 0
    return float(recall_at_k(np.where(hidden, 0, truth), np.where(hidden, -1e30, scores), k))


def methods(A: Any, B: Any, left: Any, right: Any, seen: Any, target: str) -> dict[str, Any]:
    """Scores of all pairs by each method, tuned by itself on what is seen."""
    Y = seen[left][:, right]
    found: dict[str, Any] = {}
    for name, reduction in (("ridge, auto", "auto"), ("ridge", None), ("joint + ridge", "joint")):
        model = KernelPairRegressor(target, reduction=reduction, n_top=20).fit(A[left], B[right], Y)
        found[name] = whole(model, A, B, left, right, target)
        if name == "ridge, auto":
            found["chosen"] = (
                f"{model.reduction_}, profiles {model.profile_['left']:g} {model.profile_['right']:g}"
            )
    if target == "entries":
        model = KernelPairRegressor(target, reduction="auto", profile=0.0, n_top=20).fit(A, B, Y)
        found["ridge, no profiles"] = model.predict()
        U, V = alternating_least_squares(seen, 8, 3.0, 10.0)
        found["ALS, true rank"] = U @ V.T
    swap = target == "new-right"
    pair = (B[right], A[left], sparse.csr_array(Y.T)) if swap else (A[left], B[right], Y)
    model = PairRegressor(min(10, A.shape[1]), n_top=20).fit(*pair)
    found["PairRegressor"] = model.predict(B, A).T if swap else model.predict(A, B)
    S, T = (np.exp(-2 * D / np.median(D)) for D in (squares(A), squares(B)))
    best = "new-left" if target != "entries" else target
    if target == "new-both":
        best = "new-both"
    near = []
    for k in (1, 3, 10, 30):
        if swap:
            near.append(neighbours(T, S, sparse.csr_array(seen.T), np.arange(len(B)), best, k).T)
        else:
            near.append(neighbours(S, T, seen, np.arange(len(A)), best, k))
    found["neighbours, best k"] = near
    found["popularity"] = popularity(
        seen, np.arange(len(A)), "new-left" if target != "new-right" else "new-both"
    )
    return found


def whole(model: Any, A: Any, B: Any, left: Any, right: Any, target: str) -> Any:
    """Scores of all pairs: of entities of fit as those, of others by their features."""
    if target == "entries":
        return model.predict()
    return model.predict(A if target != "new-right" else None, B if target != "new-left" else None)


def squares(X: Any) -> Any:
    """Squared distances of standardised rows."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.maximum(np.add.outer((Z**2).sum(axis=1), (Z**2).sum(axis=1)) - 2 * Z @ Z.T, 0)


def targets(tables: int) -> None:
    """Recall at 20 (new-both: at 5 of a quarter) over generated tables, for every target and method."""
    makers: dict[str, Callable[[int], Any]] = {
        "make_pairs, 300 x 200, 20 features": lambda seed: make_pairs(300, 200, 20, 3, rng=seed).__iter__(),
        "tastes that features hardly tell": lambda seed: iter((*entry_table(seed), None)),
    }
    for title, make in makers.items():
        for target in ("new-left", "new-right", "new-both", "entries"):
            total: dict[str, list[float]] = {}
            chosen = []
            for seed in range(tables):
                A, B, Y, _ = make(seed)
                left, right, seen, asked = split(Y, target, seed)
                for name, scores in methods(A, B, left, right, seen, target).items():
                    if name == "chosen":
                        chosen.append(scores)
                        continue
                    each = scores if isinstance(scores, list) else [scores]
                    total.setdefault(name, []).append(max(recall_of(s, Y, seen, target, asked) for s in each))
            print(f"{title}, {target}; auto took {'; '.join(chosen)}", flush=True)
            for name, values in sorted(total.items(), key=lambda item: -np.mean(item[1])):
                error = np.std(values, ddof=1) / np.sqrt(tables) if tables > 1 else 0.0
                print(f"    {name:22} {np.mean(values):.3f} ± {error:.3f}", flush=True)


def regret(partitions: int, seed: int = 1) -> None:
    """What "auto" loses against the best single setting of the grid, over partitions of the gene-disease data."""
    from colspace.experiments.pairs_gene_disease import GRID, gene_disease, grid_recalls, partition

    study = gene_disease(quick=False)
    total: dict[Any, float] = {}
    autos = []
    for k in range(partitions):
        train, test = partition(len(study.A), seed, k)
        for settings, value in grid_recalls(study, "joint", train, test, GRID[False]).items():
            total[settings] = total.get(settings, 0.0) + value / partitions
        model, seconds = timed(lambda: PairRegressor(study.main).fit(study.A[train], study.B, study.Y[train]))  # noqa: B023
        autos.append(recall_at_k(study.Y[test], model.predict(study.A[test]), 100))
        best = max(total, key=lambda s: total[s])
        print(
            f"partition {k}: auto {autos[-1]:.4f} in {seconds:.0f} CPU s (shrinkage {model.shrinkage_:g}, bandwidths "
            f"{model.bandwidth_['left']:g}, {model.bandwidth_['right']:g}); means so far: auto {np.mean(autos):.4f}, "
            f"best of the grid {total[best] * partitions / (k + 1):.4f} {best}",
            flush=True,
        )


def default(first: int, last: int, seed: int = 0) -> None:
    """Recall of KernelPairRegressor() as it is, tuned on the training part of each partition of the gene-disease data."""
    from colspace.experiments.pairs_gene_disease import gene_disease, partition

    study = gene_disease(quick=False)
    found = []
    for k in range(first, last):
        train, test = partition(len(study.A), seed, k)
        model, seconds = timed(lambda: KernelPairRegressor().fit(study.A[train], study.B, study.Y[train]))  # noqa: B023
        scores = model.predict(study.A[test])
        found.append([recall_at_k(study.Y[test], scores, k) for k in (10, 50, 100)])
        print(
            f"partition {k}: recall at 10, 50, 100 {' '.join(f'{v:.4f}' for v in found[-1])} in {seconds:.0f} CPU s "
            f"({model.reduction_} reduction, {model.metric_['left'][0]} {model.bandwidth_['left']:g}, "
            f"{model.metric_['right'][0]} {model.bandwidth_['right']:g}, ridges "
            f"{model.alpha_['left']:g} {model.alpha_['right']:g}, positive {model.positive_['left']})",
            flush=True,
        )
    mean = np.mean(found, axis=0)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.zeros(3)
    both = ", ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
    print(f"{len(found)} partitions: recall at 10, 50, 100, mean and standard error: {both}", flush=True)


SIMILARITIES = {
    "correlations": (80, 140, 0.035, "correlation", False),
    "10 % links": (80, 140, 0.1, "correlation", False),
    "Jaccard": (80, 140, 0.035, "Jaccard", False),
    "both sides": (80, 140, 0.035, "correlation", True),
    "cosines, larger": (200, 300, 0.035, "cosine", False),
}
TWINS = {  # the fourth is how many features partners have
    "6 marks": (80, 140, 0.035, 6, False),
    "3 marks": (80, 140, 0.035, 3, False),
    "10 marks": (80, 140, 0.035, 10, False),
    "6 marks, 10 % links": (80, 140, 0.1, 6, False),
    "6 marks, larger": (200, 300, 0.035, 6, False),
}
_NEW = 150


def similarity(X: Any, kind: str) -> Any:
    """Similarities of rows, of binary features but for correlations."""
    if kind == "correlation":
        return np.corrcoef(X)
    both = X @ X.T
    size = np.diagonal(both)
    of = np.sqrt(np.outer(size, size)) if kind == "cosine" else size[:, None] + size - both
    S = both / np.where(of > 0, of, 1.0)
    S[np.diag_indices_from(S)] = 1.0
    return S


def factor_table(n: int, m: int, share: float, seed: int) -> tuple[Any, Any, Any]:
    """Features of entities, binary ones of partners, and links by four hidden factors."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((n, 4)), rng.standard_normal((m, 4))
    X = A @ rng.standard_normal((4, 18)) + 0.6 * rng.standard_normal((n, 18))
    marks = B @ rng.standard_normal((4, 30)) + 0.8 * rng.standard_normal((m, 30)) > 0.5
    marks[~marks.any(axis=1), 0] = True
    scores = A @ B.T + 0.8 * rng.standard_normal((n, m))
    return X, marks.astype(np.float64), (scores > np.quantile(scores, 1 - share)) * 1.0


def alone(first: int, last: int, cases: dict[str, Any]) -> None:
    """Recall at 5 and average precision of new entities: nearest neighbours, and ridges with and without a share of
    partners by themselves."""
    for name, (n, m, share, kind, both) in cases.items():
        found = []
        for seed in range(first, last):
            X, marks, Y = factor_table(n + _NEW, m, share, seed)
            featured = isinstance(kind, int)
            T = marks[:, :kind] if featured else similarity(marks, kind)
            seen, truth = sparse.csr_array(Y[:n]), Y[n:]
            base = base_kernel(X[:n], "gaussian")
            S = similarity(X, kind) if both else base.kernel(base.raw(base.see(X)), 0.5)
            S, S_new = S[:n, :n], S[n:, :n]
            linked = Y[:n].sum(axis=1) > 0
            near = [(nearest(S, k) @ seen).toarray()[linked] for k in NEIGHBOURS]
            best = NEIGHBOURS[int(np.argmax([recall_at_k(Y[:n][linked], P, 5) for P in near]))]
            ways = [(nearest(S_new, best, itself=True) @ seen).toarray()]
            for own in (0.0, "auto"):
                metric = {
                    "left": "precomputed" if both else "auto",
                    "right": "auto" if featured else "precomputed",
                }
                model = KernelPairRegressor(metric=metric, n_top=10, own=own)
                ways.append(model.fit(S if both else X[:n], T, seen).predict(S_new if both else X[n:]))
            kept = truth.sum(axis=1) > 0
            found.append(
                [
                    [recall_at_k(truth[kept], P[kept], 5), average_precision_by_entity(truth[kept], P[kept])]
                    for P in ways
                ]
            )
        each = np.array(found)  # draws x ways x measures
        ahead = each[:, 2] - each[:, 0]
        error = ahead.std(axis=0, ddof=1) / np.sqrt(len(ahead))
        text = [f"{recall:.3f} {precision:.3f}" for recall, precision in each.mean(axis=0)]
        print(
            f"{name:19} neighbours {text[0]}, own=0 {text[1]}, auto {text[2]}, auto minus neighbours "
            f"{ahead.mean(axis=0)[0]:+.3f} ± {error[0]:.3f}, {ahead.mean(axis=0)[1]:+.3f} ± {error[1]:.3f}",
            flush=True,
        )


def own_kernel() -> None:
    """cpHd with the product kernel and with its own: CPU seconds and recall on generated tables."""
    print(
        f"{'entities':>16} {'kernel':>10} {'CPU s of 50 rows':>18} {'one score, us':>14} {'recall at 20':>13}"
    )
    for n, m in ((300, 200), (1000, 800), (2000, 3000)):
        A, B, Y, _ = make_pairs(n + 50, m, 20, 3, rng=0)
        for kernel in ("separable", "sum"):
            given = {"shrinkage": 0.1, "bandwidth": 0.3}
            model = PairRegressor(6, reduction="cphd", kernel=kernel, **given).fit(A[50:], B, Y[50:])
            scores, seconds = timed(lambda: model.predict(A[:50]))  # noqa: B023
            one = 1e6 * seconds / scores.size
            recall = recall_at_k(Y[:50], scores, 20)
            print(f"{n:>8} x {m:>5} {kernel:>10} {seconds:>18.2f} {one:>14.2f} {recall:>13.3f}", flush=True)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the entities and links")
    parser.add_argument(
        "--bandwidth", type=float, default=0.15, help="of the kernels, relative to the median distance"
    )
    parser.add_argument("--ridge", action="store_true", help="kernel ridge at 5,000 x 5,000")
    parser.add_argument("--targets", action="store_true", help="all targets and methods on generated tables")
    parser.add_argument("--sum", action="store_true", help="cpHd with its own kernel")
    parser.add_argument(
        "--default", type=int, nargs=2, metavar=("FIRST", "LAST"), help="partitions of the experiment"
    )
    parser.add_argument("--auto", type=int, metavar="N", help="partitions of the gene-disease data")
    parser.add_argument(
        "--similarities", type=int, nargs=2, metavar=("FIRST", "LAST"), help="partners given by similarities"
    )
    parser.add_argument(
        "--twins", type=int, nargs=2, metavar=("FIRST", "LAST"), help="partners with the same features"
    )
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.auto:
            regret(arguments.auto)
        elif arguments.default:
            default(*arguments.default)
        elif arguments.similarities:
            alone(*arguments.similarities, SIMILARITIES)
        elif arguments.twins:
            alone(*arguments.twins, TWINS)
        elif arguments.sum:
            own_kernel()
        elif arguments.targets:
            targets(1 if arguments.quick else 8)
        elif arguments.ridge:
            ridge(*((1_000, 50, 20_000, 100) if arguments.quick else (5_000, 200, 250_000, 1_000)))
        elif arguments.quick:
            large(2_000, 200, 100_000, 100, arguments.bandwidth)
        else:
            large(20_000, 200, 1_000_000, 1_000, arguments.bandwidth)


if __name__ == "__main__":
    main()
