"""The numbers of paper 003 written down a second time, table by table from its text; a constant changed in the data file turns red."""

import numpy as np
import pytest

from colspace.experiments._claims import read_paper

SIX = (
    "continuous, low rank",
    "continuous, high rank",
    "ordinal, high SNR",
    "ordinal, low SNR",
    "binary, high SNR",
    "binary, low SNR",
)
#: Table 2 as printed: a block of columns for each kind of table, seconds and their spread
SECONDS = {
    SIX[0:2]: {
        "published EM": "5.7(0.2) 6.5(0.3)",
        "PPCA": "2.9(0.4) 0.3(0.1)",
        "soft-impute": "0.7(0.0) 1.1(0.2)",
        "GLRM-l2": "3.3(1.0) 7.6(2.0)",
        "MMC": "457.9(10.4) 554.4(32.0)",
    },
    SIX[2:4]: {
        "published EM": "27.2(0.7) 19.8(0.8)",
        "PPCA": "1.0(0.2) 0.3(0.1)",
        "soft-impute": "1.2(0.1) 1.3(0.0)",
        "GLRM-BvS": "19.2(1.5) 17.4(1.5)",
        "GLRM-l1": "17.4(1.2) 17.0(1.4)",
    },
    SIX[4:6]: {
        "published EM": "66.7(3.0) 52.0(4.4)",
        "PPCA": "0.9(0.5) 0.3(0.1)",
        "soft-impute": "1.4(0.3) 1.5(0.2)",
        "GLRM-hinge": "3.8(0.3) 3.4(0.4)",
        "GLRM-logistic": "4.4(0.6) 3.3(0.4)",
    },
}
TABLE3 = {
    "copula, published EM": "0.619(.002) 0.910(.003) 38(1)",
    "soft-impute": "0.629(.003) 0.905(.003) 93(2)",
    "GLRM-BvS": "0.633(.002) 0.921(.002) 25(1)",
}
#: the authors' errors on 100, 50, 25, 10 and 1 % of the cells
CURVES = (
    ".347 .266 .221 .189 .167",
    ".517 .486 .482 .482 .472",
    ".357 .127 .029 .001 0",
    ".788 .582 .414 .243 .042",
    ".103 .004 0 0 0",
    ".205 .075 .029 .010 .001",
)
#: what sections, theorems and equations say
STATED = {
    "oracle-gain-low": 0.01,
    "oracle-gain-high": 0.08,
    "random-part-dominates": 1.0,
    "gap-to-completion": 0.18,
    "fig1-like-levels": 0.1,
    "fig2-inside-low": 0.0,
    "fig2-inside-high": 0.0,
    "fig2-copula-flat": 0.05,
    "fig2-ppca-flat": 0.05,
    "soft-finer-path": 0.01,
    "theorem1": 0.95,
    "theorem1-cube": 0.95,
    "theorem4": 0.0,
    "theorem3": 0.0,
    "lemma2": 0.0,
    "corollary1": 0.0,
    "corollary1-rate": 0.5,
    "eq2": 1e-12,
    "eq3": 1e-12,
    "lemma4": 1e-12,
    "eq14": 1e-12,
}


def pair(text):
    number, spread = text.rstrip(")").split("(")
    return float(number), float(spread)


def transcription():
    found = {
        "table1-continuous, low rank-published EM": (0.347, 0.004),
        "table1-continuous, high rank-published EM": (0.517, 0.011),
        "table1-continuous, low rank-oracle": (0.330, 0.004),
        "table1-continuous, high rank-oracle": (0.433, 0.007),
    }
    for setting, error in zip(SIX[2:], (0.357, 0.788, 0.1025, 0.205), strict=True):
        found[f"authors-mae-{setting}-published EM"] = error, 0.0
    for settings, block in SECONDS.items():
        for method, line in block.items():
            for setting, cell in zip(settings, line.split(), strict=True):
                found[f"table2-{method}-{setting}"] = pair(cell)
    for method, line in TABLE3.items():
        for column, cell in zip(("mae", "rmse", "minutes"), line.split(), strict=True):
            found[f"table3-{column}-{method}"] = pair(cell)
    for setting, line in zip(SIX, CURVES, strict=True):
        for share, number in zip((1.0, 0.5, 0.25, 0.1, 0.01), line.split(), strict=True):
            found[f"authors-reliability-{setting}-{share}"] = float(number), 0.0
    return found | {name: (number, 0.0) for name, number in STATED.items()}


@pytest.fixture(scope="module")
def claims():
    return {claim.id: claim for claim in read_paper("003").claims}


def test_every_number_is_the_second_transcription_s(claims):
    written = {
        name: (claim.published, claim.published_sd)
        for name, claim in claims.items()
        if claim.published is not None
    }
    assert written == transcription()


def test_repetitions_are_those_of_the_paper(claims):
    runs = {"table1": 20, "authors-mae": 20, "table2": 20, "table3": 5, "authors-reliability": 5}
    for name, claim in claims.items():
        expected = next((n for start, n in runs.items() if name.startswith(start)), 1)
        assert claim.runs == (1 if name.startswith("table3-order") else expected), name


def test_rows_that_answer_are_those_of_the_table(claims):
    """An entry reads the method and the setting that its id names."""
    for name, claim in claims.items():
        if name.startswith(("table1", "table2", "authors", "table3-m", "table3-r")):
            told = [str(value) for key, value in claim.where.items() if key in ("setting", "method", "share")]
            assert all(value in name or value == "published EM" for value in told), name
    kinds = {name: claim.rule for name, claim in claims.items() if claim.target}
    assert {kinds[name] for name in kinds if name.startswith("table1")} == {"near"}
    assert {kinds[name] for name in kinds if name.startswith("table2")} == {"at_most"}
    assert np.all([claim.missing for name, claim in claims.items() if "GLRM" in name or "MMC" in name])
