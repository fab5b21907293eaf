"""Data of five users, made up: two omics tables, a survey with gaps, texts of jobs, drugs and diseases, a folder of Parquet files."""

from pathlib import Path

import numpy as np
import pandas as pd

from colspace.datasets import make_pairs


def omics(folder: Path, rows: int = 160) -> pd.DataFrame:
    """Genes and proteins of patients, in another order, and an outcome that both act on; the last forty rows are held back."""
    rng = np.random.default_rng(0)
    ids = [f"P{i:04d}" for i in range(rows)]
    genes = pd.DataFrame(rng.normal(size=(rows, 12)), columns=[f"gene_{i}" for i in range(12)])
    proteins = pd.DataFrame(rng.normal(size=(rows, 8)), columns=[f"protein_{i}" for i in range(8)])
    outcome = genes["gene_0"] - genes["gene_3"] + proteins["protein_1"] + 0.5 * rng.normal(size=rows)
    genes.insert(0, "patient", ids)
    proteins.insert(0, "patient", ids)
    proteins["outcome"] = outcome
    new = rows - 40
    genes.iloc[:new].to_csv(folder / "genes.csv", index=False)
    proteins.iloc[:new].sample(frac=1, random_state=0).to_csv(folder / "proteins.csv", index=False)
    genes.iloc[new:].to_csv(folder / "new_genes.csv", index=False)
    proteins.iloc[new:].drop(columns="outcome").to_csv(folder / "new_proteins.csv", index=False)
    return genes.merge(proteins)


def survey(folder: Path, rows: int = 300, questions: int = 8) -> pd.DataFrame:
    """Answers from 1 to 5, income, town and a date, a tenth of them missing; the last fifty respondents are held back."""
    rng = np.random.default_rng(1)
    mood = rng.normal(size=(rows, 1))
    answers = np.clip(np.rint(3 + mood + 0.7 * rng.normal(size=(rows, questions))), 1, 5)
    frame = pd.DataFrame(answers, columns=[f"q{i + 1}" for i in range(questions)])
    frame["income"] = np.exp(7 + 0.5 * mood[:, 0] + 0.3 * rng.normal(size=rows)).round(0)
    frame["town"] = np.where(mood[:, 0] + 0.5 * rng.normal(size=rows) > 0, "Bonn", "Ulm")
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame.insert(0, "respondent", [f"{i:05d}" for i in range(rows)])
    frame.iloc[:-50].to_csv(folder / "survey.csv", index=False)
    frame.iloc[-50:].to_csv(folder / "wave2.csv", index=False)
    return frame


WORDS = {
    "real": [
        "team",
        "engineer",
        "design",
        "build",
        "review",
        "client",
        "report",
        "plan",
        "measure",
        "support",
        "train",
        "manage",
        "office",
        "schedule",
    ],
    "fake": [
        "earn",
        "money",
        "home",
        "fast",
        "weekly",
        "cash",
        "bonus",
        "easy",
        "wire",
        "transfer",
        "urgent",
        "signup",
        "prize",
        "free",
    ],
    "both": [
        "work",
        "job",
        "apply",
        "today",
        "time",
        "full",
        "company",
        "people",
        "skills",
        "new",
        "day",
        "start",
    ],
}


def jobs(folder: Path, rows: int = 260) -> pd.DataFrame:
    """Texts of job advertisements, a logo or none, and whether they are fraudulent; the last sixty are held back."""
    rng = np.random.default_rng(2)
    fraud = rng.random(rows) < 0.4
    texts = []
    for bad in fraud:
        own = WORDS["fake" if bad else "real"]
        texts.append(" ".join([*rng.choice(own, 9), *rng.choice(WORDS["both"], 9)]))
    logo = np.where(rng.random(rows) < np.where(fraud, 0.3, 0.8), "yes", "no")
    frame = pd.DataFrame({"job": [f"J{i}" for i in range(rows)], "description": texts, "logo": logo})
    frame["fraudulent"] = np.where(fraud, "yes", "no")
    frame.iloc[:-60].to_csv(folder / "jobs.csv", index=False)
    frame.iloc[-60:].to_csv(folder / "new_jobs.csv", index=False)
    return frame


def links(folder: Path) -> pd.DataFrame:
    """Features of diseases and drugs, and which are linked; the last ten diseases are held back."""
    A, B, Y, _ = make_pairs(50, 30, 5, 2, rng=3)
    diseases = pd.DataFrame(A).add_prefix("symptom_")
    diseases.insert(0, "disease", [f"D{i}" for i in range(50)])
    drugs = pd.DataFrame(B).add_prefix("target_")
    drugs.insert(0, "drug", [f"M{i}" for i in range(30)])
    dense = Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
    i, j = np.nonzero(dense > np.quantile(dense, 0.85))
    known = i < 40
    diseases.iloc[:40].to_csv(folder / "diseases.csv", index=False)
    diseases.iloc[40:].to_csv(folder / "new_diseases.csv", index=False)
    drugs.to_csv(folder / "drugs.csv", index=False)
    pd.DataFrame({"disease": [f"D{k}" for k in i[known]], "drug": [f"M{k}" for k in j[known]]}).to_csv(
        folder / "links.csv", index=False
    )
    return diseases


def parquet(folder: Path, rows: int = 600, parts: int = 4) -> pd.DataFrame:
    """Measurements in several files of one folder, and a class; the last hundred rows are held back."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(rows, 10)), columns=[f"sensor_{i}" for i in range(10)])
    signal = frame["sensor_0"] + frame["sensor_1"] ** 2 + 0.3 * rng.normal(size=rows)
    frame["state"] = np.where(signal > 1, "warn", "normal")
    frame.insert(0, "time", [f"t{i}" for i in range(rows)])
    (folder / "measured").mkdir()
    for k, places in enumerate(np.array_split(np.arange(rows - 100), parts)):
        frame.iloc[places].reset_index(drop=True).to_parquet(folder / "measured" / f"part-{k}.parquet")
    frame.iloc[-100:].reset_index(drop=True).to_parquet(folder / "later.parquet")
    return frame
