"""A tour on real data: ``python -m colspace.experiments.demo --out DIR``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from threadpoolctl import threadpool_limits

from .._validation import ConstantColumnWarning
from ..copula import CopulaImputer
from ..datasets import make_bilinear
from ..displays import (
    EmbeddingDisplay,
    ImputationDisplay,
    LoadingsDisplay,
    ReliabilityDisplay,
    SingularValuesDisplay,
)
from ..metrics import coverage, smae
from ..quality import PlsDirections, compare_reductions
from ..reduction import JointReduction, SteinReduction, SteinReductionCV
from ._core import Row
from ._demo_atoms import atoms_section
from ._demo_pairs import pairs_section
from ._demo_report import beside, print_table, save_displays

#: The three natural blocks of the breast cancer table: ten measurements of cell nuclei, each as the mean over
#: nuclei, its standard error, and the mean of the three largest.
BLOCKS = {"mean": "mean *", "error": "* error", "worst": "worst *"}
PERMUTATIONS = 199


def breast_cancer() -> tuple[Any, Any]:
    """The table as a DataFrame, and the diagnosis as labels."""
    data = load_breast_cancer(as_frame=True)
    labels = data.target.map(dict(enumerate(data.target_names))).rename("diagnosis")
    return data.data, labels


def compare(
    X: Any, y: Any, *, per_block: Sequence[int] = (1, 2, 3), folds: int = 10
) -> tuple[list[Row], str]:
    """Accuracy on rows left out after each reduction and on all columns, and what it says."""
    found = compare_reductions(X, y, blocks=BLOCKS, n_components=per_block, cv=folds)
    rows: list[Row] = []
    for row in sorted(found.rows, key=lambda r: r.n_components or np.inf):
        method, directions, columns, score, error, difference, _ = found.cells(row)
        rows.append(
            {
                "reduction": method,
                "per block": directions,
                "columns": columns,
                found.metric: f"{score} ± {error}",
                f"minus {found.methods[0]}": difference,
            }
        )
    return rows, found.sentence


def blocks_section(out: Path, console: Any, *, per_block: Sequence[int] = (1, 2, 3), folds: int = 10) -> Row:
    """Three blocks, one diagnosis: prediction beside PCA and PLS, and what the directions are made of."""
    X, y = breast_cancer()
    console.print(
        f"[bold]Joint reduction of three blocks[/]: {X.shape[0]} tumours, {len(BLOCKS)} blocks of "
        f"{X.shape[1] // len(BLOCKS)} columns. Diagnosis from the reduced columns by the best of three readers; "
        f"{folds}-fold cross-validation, mean ± standard error."
    )
    rows, sentence = compare(X, y, per_block=per_block, folds=folds)
    print_table(console, rows)
    console.print(sentence, highlight=False)
    model = JointReduction(2, blocks=BLOCKS).fit(X, y)
    displays: dict[str, Any] = {
        "singular_values": SingularValuesDisplay.from_estimator(
            model, X, y, n_permutations=PERMUTATIONS, random_state=0
        ),
        "loadings": LoadingsDisplay.from_estimator(model, components=(0, 1)),
        "embedding": EmbeddingDisplay.from_estimator(model, X, y, block="worst"),
    }
    save_displays(displays, out, console)
    return beside("three blocks, one diagnosis", rows, list(rows[0])[3])


def interaction_section(out: Path, console: Any, *, n_samples: int = 4000) -> Row:
    """Two blocks that matter only together: no column of either is correlated with the response."""
    X, y, blocks, _ = make_bilinear(n_samples, 20, 2, rng=0)
    console.print(
        f"[bold]Two blocks that act together[/] (simulated): {n_samples} rows, 2 blocks of 20 columns; y is a sum of "
        "products of two hidden directions of each, plus noise. R² of a quadratic regression on the reduced columns; "
        "5-fold cross-validation; 0.67 is the best possible."
    )
    rows: list[Row] = []
    reducers = {"joint reduction": JointReduction(2, blocks=blocks), "PLS": PlsDirections(4), "PCA": PCA(4)}
    for name, reducer in reducers.items():
        model = make_pipeline(StandardScaler(), reducer, PolynomialFeatures(2), LinearRegression())
        scores = cross_validate(model, X, y, cv=5, error_score="raise")["test_score"]
        error = scores.std(ddof=1) / np.sqrt(len(scores))
        rows.append({"reduction": name, "components": 4, "R²": f"{scores.mean():.3f} ± {error:.3f}"})
    print_table(console, rows)
    return beside("two blocks that act together", rows, "R²")


def few_labels(
    X: Any, y: Any, *, dimensions: Sequence[int] = (5, 10, 15), labels: int = 200, splits: int = 20
) -> list[Row]:
    """Accuracy of logistic regression on each embedding where few rows are labelled, on the other rows.

    Stein's method and PCA see all rows, labels only of some; PLS and LDA can use the labelled rows alone.
    """
    drawn = list(StratifiedShuffleSplit(splits, train_size=labels, random_state=0).split(X, y))
    rows: list[Row] = []
    for h in dimensions:
        shrunken = {"solver": "eigen", "shrinkage": "auto"}
        # nine directions are all that ten classes can show, so beyond them unlabelled rows must have some weight
        grid: dict[str, Any] = {"ridges": (0.3, 1.0, 3.0, 10.0), "weights": (0.1, 0.3, 1.0)}
        # pixels have one unit, and those at the rim hardly vary
        pixels: dict[str, Any] = {"response": "labels", "standardize": False}
        chosen = SteinReductionCV(h, **grid, **pixels, cv=3)
        models: dict[str, tuple[Any, str]] = {
            "semi-supervised Stein, defaults": (SteinReduction(h, **pixels), "some"),
            "semi-supervised Stein, cross-validated": (chosen, "some"),
            "PLS": (PlsDirections(h), "indicators"),
            "PCA": (PCA(h, svd_solver="full"), "none"),
        }
        if h < len(np.unique(y)):  # LDA has no more directions than classes less one
            models["LDA"] = LinearDiscriminantAnalysis(n_components=h, **shrunken), "labels"
        for name, (model, sees) in models.items():
            scores = [_few_label_accuracy(model, sees, X, y, labelled, rest) for labelled, rest in drawn]
            error = np.std(scores, ddof=1) / np.sqrt(len(scores))
            rows.append(
                {"reduction": name, "components": h, "accuracy": f"{np.mean(scores):.3f} ± {error:.3f}"}
            )
    return rows


def _few_label_accuracy(model: Any, sees: str, X: Any, y: Any, labelled: Any, rest: Any) -> float:
    """Accuracy on the unlabelled rows of one split; ``sees`` says what the reduction is fitted on."""
    with warnings.catch_warnings():
        # three pixels are always white; with ten classes alike, no gap after five directions is expected
        warnings.simplefilter("ignore", ConstantColumnWarning)
        warnings.filterwarnings("ignore", "no gap after component", UserWarning)
        if sees == "some":
            partly = np.full(len(y), np.nan)
            partly[labelled] = y[labelled]
            model.fit(X, partly)
        elif sees == "none":
            model.fit(X)
        else:
            known = y[labelled]
            model.fit(X[labelled], np.eye(y.max() + 1)[known] if sees == "indicators" else known)
        Z = model.transform(X)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(classifier.fit(Z[labelled], y[labelled]).score(Z[rest], y[rest]))


def labels_section(out: Path, console: Any, *, splits: int = 20) -> Row:
    """A table with few labels: unlabelled rows help to find the directions."""
    X, y = load_digits(return_X_y=True)
    console.print(
        f"[bold]Few labels, many rows[/]: {len(y)} handwritten digits of {X.shape[1]} pixels, 200 labelled. Accuracy of "
        "logistic regression on the reduced columns, fitted on the labelled rows and scored on the others; "
        f"{splits} splits, mean ± standard error."
    )
    rows = few_labels(X, y, splits=splits)
    print_table(console, rows)
    return beside("few labels, many rows", rows, "accuracy")


#: Columns of each table that are cut into five levels of equal size.
LEVELS = {
    "breast cancer": [
        "mean texture",
        "mean smoothness",
        "texture error",
        "symmetry error",
        "worst area",
        "worst concavity",
    ],
    "wine": ["ash", "magnesium", "flavanoids", "hue"],
}
MASKED = 0.2


def tables_with_levels() -> dict[str, Any]:
    """The breast cancer and wine tables, some columns cut into five levels."""
    tables = {"breast cancer": load_breast_cancer(as_frame=True).data, "wine": load_wine(as_frame=True).data}
    for name, X in tables.items():
        for column in LEVELS[name]:
            edges = np.quantile(X[column], [0.2, 0.4, 0.6, 0.8])
            X[column] = np.searchsorted(edges, X[column]).astype(float)
    return tables


def masked(X: Any, seed: int) -> Any:
    """X with a fifth of its cells hidden at random."""
    return X.mask(np.random.default_rng(seed).random(X.shape) < MASKED)


def fill(imputer: Any, M: Any, stepped: Any) -> Any:
    """The table filled by an imputer of scikit-learn on scaled columns, levels rounded to those there are."""
    model = make_pipeline(StandardScaler(), imputer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds of regressions are its default
        filled = model[0].fit(M).inverse_transform(model.fit_transform(M))
    filled[:, stepped] = np.clip(np.rint(filled[:, stepped]), 0, 4)
    return filled


def imputers(tables: dict[str, Any], *, masks: int = 3) -> list[Row]:
    """Errors on hidden cells of each table and imputer, and how many intervals hold the value."""
    rows: list[Row] = []
    for table, X in tables.items():
        stepped = X.columns.isin(LEVELS[table])
        found: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(masks):
            M = masked(X, seed)
            hidden = M.isna().to_numpy()
            filled: dict[str, tuple[Any, tuple[float, ...]]] = {}
            model = CopulaImputer(random_state=0).fit(M)
            lower, upper = (np.asarray(end) for end in model.interval(M))
            shares = (coverage(lower, upper, X, hidden & columns) for columns in (~stepped, stepped))
            filled["CopulaImputer"] = np.asarray(model.transform(M)), tuple(shares)
            filled["IterativeImputer"] = fill(IterativeImputer(random_state=0), M, stepped), ()
            filled["KNNImputer"] = fill(KNNImputer(), M, stepped), ()
            filled["median of the column"] = np.asarray(M.fillna(M.median())), ()
            for name, (values, inside) in filled.items():
                numbers = np.nanmean(smae(X, values, M, per_column=True)[~stepped])
                levels = np.abs(values - X.to_numpy())[hidden & stepped].mean()
                found.setdefault(name, []).append((float(numbers), float(levels), *inside))
        for name, scores in found.items():
            mean = np.mean(scores, axis=0)
            error = np.std(scores, axis=0, ddof=1) / np.sqrt(masks) if masks > 1 else np.zeros_like(mean)
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            cells += [""] * (4 - len(cells))
            titles = ("numbers, SMAE", "levels, MAE", "95 % cover: numbers", "levels")
            rows.append({"imputer": name, "table": table, **dict(zip(titles, cells, strict=True))})
    return rows


def gaps_section(out: Path, console: Any, *, masks: int = 3) -> Row:
    """Tables with gaps and columns of levels: errors beside scikit-learn's imputers, and honest intervals."""
    tables = tables_with_levels()
    sizes = " and ".join(f"{name} ({X.shape[0]} x {X.shape[1]})" for name, X in tables.items())
    console.print(
        f"[bold]Gaps in mixed tables[/]: {sizes}, {len(LEVELS['breast cancer'])} and {len(LEVELS['wine'])} columns cut into "
        f"5 levels, {100 * MASKED:.0f} % of the cells hidden at random; {masks} masks, mean ± standard error. SMAE: 1 is the "
        "median of the column; MAE: in levels. Last: share of hidden cells in the 95 % interval (levels come in steps, so "
        "theirs hold more)."
    )
    rows = imputers(tables, masks=masks)
    print_table(console, rows)
    X = tables["breast cancer"]
    M = masked(X, 0)
    model = CopulaImputer(random_state=0).fit(M)
    displays: dict[str, Any] = {
        "imputation": ImputationDisplay.from_estimator(model, M, X),
        "reliability": ReliabilityDisplay.from_estimator(model, M, X),
    }
    save_displays(displays, out, console)
    return beside("gaps in mixed tables", rows, "numbers, SMAE", least=True)


#: What the demo shows, in order; each section prints to the console, writes its pictures to the directory, and returns a line of the summary.
SECTIONS: list[Callable[[Path, Any], Row]] = [
    blocks_section,
    interaction_section,
    labels_section,
    gaps_section,
    atoms_section,
    pairs_section,
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every section."""
    parser = argparse.ArgumentParser(
        prog="python -m colspace.experiments.demo", description="A tour on real data"
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), help="directory for the pictures")
    out: Path = parser.parse_args(arguments).out
    try:
        from rich.console import Console
    except ImportError:
        parser.exit(1, "the demo needs rich and pandas: pip install 'colspace[cli,plot]'\n")
    import matplotlib as mpl

    mpl.use("Agg")
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    with threadpool_limits(1):
        rows = [section(out, console) for section in SECTIONS]
    console.print(
        "[bold]In short[/]: the first table or number of directions of each, beside the best of the others there; "
        "of SMAE less is better."
    )
    print_table(console, rows)


if __name__ == "__main__":
    main()
