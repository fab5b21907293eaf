"""The numbers of paper 004 written down a second time, table by table from its text; a constant changed in the data file turns red."""

import pytest

from colspace.experiments._claims import read_paper

COLUMNS = ("accuracy", "sensitivity", "specificity", "F", "error_column")
#: method, then a line for each xi: five means, each with its spread ("-": none)
TABLE3 = """
LR
. .720 - .583 - .925 - .714 - 1.000 -
NMF + LR
. .552 .127 .453 .296 .700 .240 .492 .299 1.000 .054
filter
0.01 .822 .075 .833 .079 .805 .078 .848 .067 3.326 .040
0.1 .788 .015 .793 .035 .780 .033 .818 .016 3.255 .035
1 .756 .005 .760 .009 .750 .000 .789 .006 3.196 .000
5 .752 .004 .743 .025 .765 .034 .782 .008 3.196 .000
10 .744 .015 .693 .028 .820 .033 .765 .017 7.432 1.769
feature
0.01 .646 .139 .680 .391 .595 .293 .776 .014 3.259 .014
0.1 .736 .030 .883 .020 .515 .058 .801 .020 3.251 .008
1 .746 .018 .750 .039 .740 .049 .780 .019 3.261 .018
5 .736 .0256 .723 .077 .755 .065 .765 .037 3.263 .008
10 .732 .008 .740 .040 .720 .045 .768 .014 3.274 .004
filter, convex
0.01 .780 .100 .807 .086 .740 .132 .815 .084 10.620 .291
0.1 .712 .080 .693 .114 .740 .070 .739 .087 6.323 3.108
1 .706 .072 .757 .074 .630 .087 .755 .062 3.277 .002
5 .764 .042 .783 .039 .735 .089 .800 .033 3.236 .001
10 .694 .079 .697 .057 .690 .128 .733 .066 3.226 .001
feature, convex
0.01 .680 .079 .667 .137 .700 .040 .708 .101 10.965 .096
0.1 .616 .167 .487 .353 .810 .149 .663 .212 10.965 .089
1 .604 .124 .647 .384 .540 .356 .735 .046 8.815 .074
5 .726 .073 .623 .172 .880 .078 .721 .104 3.256 .004
10 .728 .104 .650 .234 .845 .102 .718 .175 3.260 .005
"""
TABLE4 = """
LR
. .913 - .784 - .919 - .436 - 1.000 -
NMF + LR
. .665 .051 .724 .084 .662 .057 .156 .005 1.000 .003
filter
0.001 .926 .014 .727 .014 .935 .014 .460 .049 1.184 .006
0.01 .922 .011 .730 .016 .930 .011 .446 .038 1.183 .007
0.1 .928 .001 .725 .000 .937 .001 .464 .004 1.146 .006
1 .903 .005 .745 .012 .910 .005 .398 .008 1.089 .003
5 .885 .010 .725 .023 .892 .011 .352 .013 1.075 .001
10 .842 .017 .730 .049 .847 .019 .284 .014 1.076 .002
feature
0.001 .786 .052 .757 .050 .787 .056 .237 .031 1.150 .003
0.01 .810 .046 .732 .056 .814 .049 .253 .035 1.148 .003
0.1 .845 .025 .748 .016 .849 .026 .295 .034 1.151 .003
1 .842 .019 .704 .038 .848 .021 .279 .015 1.148 .004
5 .821 .066 .704 .062 .827 .070 .267 .072 1.103 .003
10 .771 .021 .784 .014 .770 .023 .227 .012 1.089 .001
filter, convex
0.001 .613 .274 .415 .321 .622 .300 .086 .012 1.185 .000
0.01 .593 .134 .503 .187 .597 .148 .094 .010 1.185 .000
0.1 .685 .431 .309 .465 .702 .471 .061 .026 1.185 .000
1 .395 .198 .740 .142 .380 .213 .098 .014 1.185 .000
5 .732 .063 .562 .064 .739 .067 .156 .037 1.075 .002
10 .507 .341 .688 .250 .499 .367 .130 .047 1.072 .002
feature, convex
0.001 .389 .379 .636 .424 .378 .415 .083 .001 1.195 .000
0.01 .767 .381 .212 .425 .791 .417 .083 - 1.195 .000
0.1 .390 .378 .637 .425 .379 .414 .083 .000 1.195 .000
1 .392 .377 .637 .425 .381 .413 .084 .001 1.195 .000
5 .387 .391 .657 .443 .375 .428 .086 .003 1.195 .003
10 .316 .428 .750 .500 .297 .469 .087 .002 1.174 .003
"""
TABLE5 = """
LR
. .919 - .817 - .924 - .463 - 1.000 -
NMF + LR
. .807 .052 .747 .043 .810 .056 .254 .034 1.000 .003
filter
0.001 .938 .001 .778 .000 .945 .001 .516 .002 1.181 .000
0.01 .936 .001 .784 .000 .943 .001 .512 .002 1.175 .008
0.1 .915 .000 .817 .000 .920 .000 .452 .000 1.135 .001
1 .921 .001 .757 .012 .928 .001 .451 .002 1.089 .001
5 .857 .011 .763 .008 .861 .012 .314 .017 1.076 .002
10 .853 .024 .711 .057 .859 .023 .296 .049 1.076 .002
feature
0.001 .825 .024 .783 .034 .826 .026 .278 .025 1.151 .001
0.01 .823 .007 .779 .010 .825 .007 .273 .006 1.151 .002
0.1 .833 .028 .794 .023 .834 .030 .292 .031 1.152 .002
1 .834 .009 .783 .025 .837 .010 .288 .006 1.134 .013
5 .815 .034 .776 .052 .817 .038 .268 .028 1.111 .016
10 .795 .021 .768 .034 .796 .024 .243 .012 1.089 .003
filter, convex
0.001 .518 .194 .634 .179 .513 .210 .105 .015 1.185 .000
0.01 .613 .111 .583 .106 .615 .121 .117 .012 1.185 .000
0.1 .506 .051 .645 .061 .500 .055 .101 .007 1.185 .000
1 .560 .212 .637 .206 .556 .231 .117 .023 1.185 .000
5 .735 .098 .503 .190 .746 .111 .140 .010 1.076 .002
10 .665 .191 .626 .163 .667 .201 .163 .085 1.071 .002
feature, convex
0.001 .495 .306 .562 .299 .492 .333 .091 .011 1.195 .000
0.01 .548 .116 .711 .080 .541 .124 .122 .017 1.195 .000
0.1 .499 .190 .649 .189 .492 .206 .104 .017 1.195 .000
1 .467 .292 .735 .182 .455 .313 .115 .026 1.195 .000
5 .629 .125 .609 .113 .630 .132 .130 .036 1.196 .001
10 .441 .323 .650 .348 .431 .352 .092 .011 1.173 .003
"""
METHODS = ("LR", "NMF + LR", "filter", "feature", "filter, convex", "feature, convex")
#: Table 2: accuracy and F, each with its spread, in the order of METHODS
TABLE2 = {
    "a": ".919 - .463 -, .807 .052 .254 .034, .938 .001 .516 .002, .833 .028 .292 .031, .665 .191 .163 .085, .629 .125 .130 .036",
    "b": ".913 - .436 -, .665 .051 .156 .005, .928 .001 .464 .004, .845 .025 .295 .034, .732 .063 .156 .037, .316 .428 .087 .002",
}
#: accuracy and F in the titles of figures; half a unit of the last digit is their spread
TITLES = {
    "fig6": {"filter-1": (0.75, 0.78), "filter-0.1": (0.78, 0.81), "filter-0.01": (0.82, 0.84)},
    "fig7": {
        "filter, convex-10": (0.77, 0.80),
        "feature, convex-10": (0.79, 0.82),
        "feature-0.01": (0.75, 0.81),
    },
    "fig8": {"LR": (0.91, 0.44)},
    "fig9a": {"NMF + LR-False": (0.66, 0.16), "NMF + LR-True": (0.82, 0.27)},
    "fig9bcd": {
        "filter-5-False": (0.83, 0.27),
        "filter-1-False": (0.92, 0.43),
        "filter-0.001-True": (0.94, 0.52),
    },
    "xray": {
        "NMF + LR": (0.785, 0.846),
        "feature, xi = 50, l1 = 5": (0.835, 0.866),
        "filter, xi = 0.01, l1 = 5, 20 atoms": (0.843, 0.879),
    },
}
STATED = {
    "text-filter-10": 0.8,
    "text-convex-best": 0.91,
    "nmf-alike-published": 0.9,
    "fraud-words": 0.0,
    "true-words": 0.0,
    "logo": 0.0,
    "xray-lr": 0.82,
    "xray-contrast": 10.0,
    "xray-seconds": 120.0,
    "theorem4.4": 1.0,
    "theorem4.5": 1.0,
    "theorem4.6": 1.0,
    "fig2-linear": 0.99,
    "fig2-polynomial": -1.0,
    "fig2-filter-descends": 0.0,
    "theorem4.7": -0.4,
    "theorem4.8": -0.4,
    "theorem4.9-consistent": -0.4,
}


def spread(text):
    return 0.0 if text == "-" else float(text)


def transcription():
    found = {}
    for number, table in ((3, TABLE3), (4, TABLE4), (5, TABLE5)):
        for line in table.strip().splitlines():
            if line in METHODS:
                method = line
                continue
            xi, *cells = line.split()
            for i, column in enumerate(COLUMNS):
                start = f"table{number}-plain-{column}-{method}"
                if xi != ".":
                    start = f"table{number}-{column}-{method}-{xi}"
                found[start] = float(cells[2 * i]), spread(cells[2 * i + 1])
    for part, line in TABLE2.items():
        for method, cell in zip(METHODS, line.split(", "), strict=True):
            accuracy, a, F, f = cell.split()
            found[f"table2{part}-accuracy-{method}"] = float(accuracy), spread(a)
            found[f"table2{part}-F-{method}"] = float(F), spread(f)
    for figure, titles in TITLES.items():
        half = 0.0005 if figure == "xray" else 0.005
        for place, pair in titles.items():
            for column, number in zip(("accuracy", "F"), pair, strict=True):
                found[f"{figure}-{column}-{place}"] = number, half
    return found | {name: (number, 0.0) for name, number in STATED.items()}


@pytest.fixture(scope="module")
def claims():
    return {claim.id: claim for claim in read_paper("004").claims}


def test_every_number_is_the_second_transcription_s(claims):
    written = {
        name: (claim.published, claim.published_sd)
        for name, claim in claims.items()
        if claim.published is not None
    }
    assert written == transcription()


def test_tables_read_the_rows_of_their_data(claims):
    for name, claim in claims.items():
        if name.startswith("table"):
            assert claim.value in name or claim.missing, name
            assert claim.target == {"3": "sdl-mnist"}.get(name[5], "sdl-jobs") or claim.missing, name
            assert claim.runs == 5 or claim.missing, name
        if name.startswith(("table4", "table2b")):
            assert claim.where["covariates"] is False
        if name.startswith(("table5", "table2a")):
            assert claim.where["covariates"] is True
