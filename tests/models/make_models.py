"""Models of this version, which every later version must load: ``python tests/models/make_models.py`` once for a release.

Writes a folder named after the version beside this file: a packed model of each family, made by the commands, the rows that it
is put to, and what it makes of them. What is there is never made again, once the version is released; before that, remove the
folder and run it again when what a fit stores has changed.
"""

import lzma
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent

#: Command that fits, and command that puts the model to new rows, of each family.
FAMILIES = {
    "reduction": (
        "reduce genes.csv proteins.csv --id patient -y outcome -r 1 --save {model}",
        "apply {model} new_genes.csv new_proteins.csv --id patient --out {out}",
    ),
    "stein": (
        "reduce genes.csv --id patient -y gene_0 --method stein -r 1 --save {model}",
        "apply {model} new_genes.csv --id patient --out {out}",
    ),
    "imputer": (
        "impute survey.csv --id respondent --rank 1 --out filled.csv --save {model}",
        "apply {model} wave2.csv --id respondent --intervals --out {out}",
    ),
    "dictionary": (
        "atoms jobs.csv -y kind -t text -c logo --id job -r 2 --stop-words none --out topics --save {model}",
        "apply {model} new_jobs.csv --id job --out {out}",
    ),
    "pairs": (
        "pairs --left diseases.csv --right drugs.csv --links links.csv --bandwidth 1 --alpha 1 --shrinkage 0.1 -o p.csv --save {model}",
        "apply {model} new_diseases.csv --top 3 --out {out}",
    ),
}
NEW = ["new_genes.csv", "new_proteins.csv", "wave2.csv", "new_jobs.csv", "new_diseases.csv"]


def tables(folder: Path) -> None:
    """Small tables of all families; those whose name begins with new, and wave2, are put to the models later."""
    rng = np.random.default_rng(0)

    def write(frame: pd.DataFrame, name: str, new: str = "", held: int = 6) -> None:
        frame = frame.round(4)
        (frame.iloc[:-held] if new else frame).to_csv(folder / name, index=False)
        if new:
            frame.iloc[-held:].to_csv(folder / new, index=False)

    ids = [f"P{i}" for i in range(46)]
    genes = pd.DataFrame(rng.normal(size=(46, 3)), columns=["gene_0", "gene_1", "gene_2"])
    genes.insert(0, "patient", ids)
    write(genes, "genes.csv", "new_genes.csv")
    proteins = pd.DataFrame(rng.normal(size=(46, 2)), columns=["protein_0", "protein_1"])
    proteins.insert(0, "patient", ids)
    proteins["outcome"] = genes["gene_0"] * proteins["protein_1"] + 0.1 * rng.normal(size=46)
    write(proteins, "proteins.csv", "new_proteins.csv")
    survey = pd.DataFrame({"respondent": [f"{i:03d}" for i in range(66)]})
    mood = rng.normal(size=66)
    survey["answer"] = np.clip(np.rint(3 + mood + 0.4 * rng.normal(size=66)), 1, 5)
    survey["income"] = (100 * np.exp(mood + 0.2 * rng.normal(size=66))).round(1)
    survey["town"] = np.where(mood + 0.3 * rng.normal(size=66) > 0, "Bonn", "Ulm")
    gaps = rng.random((66, 3)) < 0.1
    survey.iloc[:, 1:] = survey.iloc[:, 1:].mask(gaps)
    write(survey, "survey.csv", "wave2.csv")
    words = {"a": ["red", "round", "sweet"], "b": ["long", "green", "bitter"]}
    kinds = np.where(rng.random(46) < 0.5, "a", "b")
    jobs = pd.DataFrame({"job": [f"J{i}" for i in range(46)]})
    jobs["text"] = [
        " ".join([*rng.choice(words[k], 4), *rng.choice(["fruit", "market", "fresh"], 3)]) for k in kinds
    ]
    jobs["logo"], jobs["kind"] = rng.choice(["yes", "no"], 46), kinds
    write(jobs, "jobs.csv", "new_jobs.csv")
    diseases = pd.DataFrame(rng.normal(size=(26, 2)), columns=["s1", "s2"])
    diseases.insert(0, "disease", [f"D{i}" for i in range(26)])
    write(diseases, "diseases.csv", "new_diseases.csv")
    drugs = pd.DataFrame(rng.normal(size=(8, 2)), columns=["t1", "t2"])
    drugs.insert(0, "drug", [f"M{i}" for i in range(8)])
    write(drugs, "drugs.csv")
    score = diseases[["s1", "s2"]].iloc[:20].to_numpy() @ drugs[["t1", "t2"]].to_numpy().T
    i, j = np.nonzero(score > 1)
    write(pd.DataFrame({"disease": [f"D{k}" for k in i], "drug": [f"M{k}" for k in j]}), "links.csv")


def run(line: str, **names: object) -> None:
    """A command in this folder."""
    from click.testing import CliRunner

    from colspace.cli._group import colspace

    done = CliRunner().invoke(colspace, shlex.split(line.format(**names)))
    assert done.exit_code == 0, done.output


def main() -> None:
    from contextlib import chdir

    from colspace import __version__

    target = HERE / __version__
    if target.exists():
        sys.exit(f"{target} is there; models of a release are made once")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        tables(Path(folder))
        target.mkdir()
        for name in NEW:
            shutil.copy(name, target / name)
        for family, (fit, apply) in FAMILIES.items():
            run(fit, model=f"{family}.skops")
            run(apply, model=f"{family}.skops", out=target / f"{family}.csv")
            (target / f"{family}.skops.xz").write_bytes(
                lzma.compress(Path(f"{family}.skops").read_bytes(), preset=9)
            )
    print(f"wrote {target}: {sum(p.stat().st_size for p in target.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
