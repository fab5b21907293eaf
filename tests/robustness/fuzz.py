"""Many odd inputs for every estimator: each is fitted, or refused with a reason.

python tests/robustness/fuzz.py --inputs 10000 --seed 0 [--only Estimator]

Inputs run in a process of their own, which is ended when one takes too long: LAPACK cannot be interrupted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

SECONDS = 10.0  # for one input
STARTS = 60.0  # for the first, which imports everything


def case_of(seed: int, number: int, only: str | None = None) -> Any:
    """Input ``number`` of a seed: the estimators take turns."""
    from cases import PLANS, draw_case

    names = [only] if only else list(PLANS)
    return draw_case(Random(f"{seed} {number}"), names[number % len(names)])


def _work(pipe: Any, seed: int, numbers: range, only: str | None) -> None:
    from judge import judge

    for number in numbers:
        case = case_of(seed, number, only)
        verdict = judge(case)
        pipe.send((number, case.name, str(case), verdict.kind, verdict.reason))
    pipe.send(None)


def run(
    inputs: int, seed: int, only: str | None = None, *, seconds: float = SECONDS, start: int = 0
) -> list[tuple]:
    """The verdicts: (number, estimator, input, kind, reason)."""
    context = multiprocessing.get_context("spawn")
    found: list[tuple] = []
    while len(found) < inputs:
        first = start + len(found)
        here, there = context.Pipe()
        process = context.Process(
            target=_work, args=(there, seed, range(first, start + inputs), only), daemon=True
        )
        process.start()
        there.close()
        patience = STARTS
        while True:
            number = start + len(found)
            try:
                answered = here.poll(patience)
                message = here.recv() if answered else "late"
            except EOFError:
                message = "died"
            if message is None:
                break
            if isinstance(message, str):
                process.kill()
                case = case_of(seed, number, only)
                why = f"no end after {patience:g} s" if message == "late" else "the process died"
                found.append((number, case.name, str(case), "failed", why))
                break
            found.append(message)
            patience = seconds
        process.join()
    return found


def report(found: list[tuple], seed: int, only: str | None, seconds: float) -> str:
    """What was tried, and what became of it."""
    kinds = Counter(kind for *_, kind, _ in found)
    lines = [
        f"{len(found)} inputs in {seconds:.0f} s: {kinds['fitted'] / len(found):.1%} fitted, {kinds['refused'] / len(found):.1%} refused, {kinds['failed']} failures"
    ]
    for name in dict.fromkeys(name for _, name, *_ in found):
        own = Counter(kind for _, who, _, kind, _ in found if who == name)
        share = own["fitted"] / own.total()
        lines.append(f"  {name:32s} {own.total():6d} inputs, {share:6.1%} fitted, {own['failed']} failures")
    lines.append("refused because:")
    reasons = Counter(reason for *_, kind, reason in found if kind == "refused")
    lines += [f"  {count / len(found):6.2%}  {reason}" for reason, count in reasons.most_common(40)]
    rest = sum(count for _, count in reasons.most_common()[40:])
    lines.append(f"  {rest / len(found):6.2%}  {max(0, len(reasons) - 40)} other reasons")
    option = f" --only {only}" if only else ""
    for number, _, words, kind, why in found:
        if kind == "failed":
            lines.append(f"FAILED {why}\n  {words}\n  again: fuzz.py --seed {seed}{option} --number {number}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="an estimator")
    parser.add_argument("--number", type=int, help="run this input alone, here, with its traceback")
    options = parser.parse_args(argv)
    if options.number is not None:
        return _again(options.seed, options.number, options.only)
    started = time.perf_counter()
    found = run(options.inputs, options.seed, options.only)
    print(report(found, options.seed, options.only, time.perf_counter() - started))
    fitted = sum(kind == "fitted" for *_, kind, _ in found)
    failed = any(kind == "failed" for *_, kind, _ in found)
    if fitted < 0.3 * len(found):
        print(
            f"FAILED only {fitted / len(found):.1%} were fitted; 30% are needed for the rest to mean anything"
        )
    return int(failed or fitted < 0.3 * len(found))


def _again(seed: int, number: int, only: str | None) -> int:
    import warnings

    import dask
    from cases import PLANS
    from judge import call, judge

    case = case_of(seed, number, only)
    print(case)
    print(case.arguments)
    verdict = judge(case)
    print(verdict)
    with warnings.catch_warnings(), dask.config.set(scheduler="synchronous"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model = PLANS[case.name].make(**case.parameters)
            call(model.fit(**case.arguments), case)
        except Exception:  # noqa: BLE001
            traceback.print_exc()
    return int(verdict.kind == "failed")


if __name__ == "__main__":
    sys.exit(main())
