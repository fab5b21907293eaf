import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from colspace.cli._atoms_fit import _logistic, cancelled, draw, encode, scores_of
from colspace.cli._atoms_table import make_task, split_rows
from colspace.cli._group import colspace
from colspace.cli.atoms import _words
from colspace.dictionary import SupervisedDictionaryClassifier
from colspace.dictionary._thresholds import best_threshold
from colspace.io import load

SEA = ["salt", "wave", "boat", "sail", "harbour", "tide", "shore", "anchor"]
SKY = ["cloud", "wing", "bird", "wind", "storm", "feather", "thunder", "sun"]


@pytest.fixture(scope="module")
def texts():
    """Texts of two themes, each twice, with a number, a truth value and a category with gaps."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(60):
        theme, other = (SEA, SKY) if i % 2 else (SKY, SEA)
        words = [*rng.choice(theme, 6), *rng.choice(other, 2), "and", "the"]
        rows.append(
            {
                "id": f"{i:03d}",
                "note": " ".join(words),
                "age": float(rng.integers(20, 60)),
                "paid": bool(rng.random() < 0.5),
                "town": rng.choice(["Rome", "Oslo", "Bern"]) if i % 7 else None,
                "kind": "sea" if i % 2 else "sky",
            }
        )
    table = pd.DataFrame(rows)
    again = table.assign(note=table["note"].str.upper() + "  ", id=[f"{i:03d}" for i in range(60, 120)])
    return pd.concat([table, again], ignore_index=True)


@pytest.fixture(scope="module")
def images():
    X, y = load_digits(return_X_y=True)
    rows = np.flatnonzero(np.isin(y, [3, 5, 8]))[:210]
    return pd.DataFrame(X[rows], columns=[f"p{j}" for j in range(64)]).assign(digit=y[rows])


@pytest.fixture
def files(tmp_path, texts, images, monkeypatch):
    texts.to_csv(tmp_path / "t.csv", index=False)
    texts.to_parquet(tmp_path / "t.parquet")
    images.to_csv(tmp_path / "d.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


TEXT = ["--label", "kind", "--text", "note", "-c", "age,paid,town", "-r", "2"]


def run(*arguments, code=0, **kw):
    result = CliRunner().invoke(colspace, ["atoms", *map(str, arguments)], **kw)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


# ---------------------------------------------------------------------- texts


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_topics_equal_the_library(files, texts, name):
    result = run(name, *TEXT, "--out", "o", "--save", "o/m.skops", "--seed", "3")
    assert sorted(path.name for path in (files / "o").iterdir()) == [
        "coefficients.csv",
        "coefficients.png",
        "m.skops",
        "rows.csv",
        "scores.json",
        "topics.csv",
        "topics.png",
    ]
    assert "Note: covariate 'town': 18 empty cells are a level of their own, 'missing'" in result.stderr
    assert "Note: columns not used (name them in --covariates to use them): 'id'" in result.stderr
    scores = json.loads((files / "o" / "scores.json").read_text())
    assert scores["covariates"] == ["age", "paid", "town=Bern", "town=Oslo", "town=Rome", "town=missing"]
    assert (scores["fitted"], scores["held_out"]) == (96, 24)

    with pytest.warns(UserWarning, match="covariate 'town'"), pytest.warns(UserWarning, match="not used"):
        task = make_task(texts, "kind", ["note"], ["age,paid,town"], [])
    train, test = split_rows(task, 0.2, 3)
    encoded = encode(task, train, 2500, "english")
    model = SupervisedDictionaryClassifier(
        2, positive=True, xi="topics", covariates=encoded.covariates, random_state=3
    )
    model.fit(encoded.X, task.y[train])
    ours = scores["scores"]["supervised dictionary"]
    pipeline = load("o/m.skops")
    rows = task.frame.iloc[test]
    assert (pipeline.predict(rows) == task.y[test]).mean() == ours["accuracy"]
    assert ours["accuracy"] > scores["scores"]["largest class"]["accuracy"]
    assert_allclose(
        pipeline.predict_proba(rows), model.predict_proba(encoded.encoder.transform(rows[task.used]))
    )
    assert_allclose(ours["AUC"], roc_auc_score(task.y[test] == "sky", pipeline.predict_proba(rows)[:, 1]))

    topics = pd.read_csv("o/topics.csv")
    for k, group in topics.groupby("component"):
        order = np.argsort(-model.components_[k], kind="stable")[: len(group)]
        assert group["word"].tolist() == [encoded.names[j] for j in order]
        assert_allclose(group["weight"], model.components_[k][order])
    coefficients = pd.read_csv("o/coefficients.csv")
    atoms = coefficients[coefficients["kind"] == "atom"]
    assert_allclose(atoms["coefficient"], model.coef_[0])
    assert_allclose(coefficients["coefficient"][2:], model.covariate_coef_[0])
    assert coefficients["name"].tolist() == ["atom 0", "atom 1", *scores["covariates"]]
    words = encoded.X[:, : encoded.width] @ model.components_.T
    assert_allclose(atoms["times_std"], model.coef_[0] * words.std(axis=0))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_saved_model_reads_gaps_as_its_fit_did(files, texts, name):
    """Empty cells of categories and texts: the loaded pipeline on the file equals the model on rows encoded by hand."""
    table = texts.assign(
        more=texts["town"].where(texts.index % 5 > 0), note=texts["note"].where(texts.index % 11 > 0)
    )
    table["code"] = np.where(table["age"] > 40, "7", np.where(table["age"] > 30, "8", "x"))
    table.to_csv("t.csv", index=False)
    table.to_parquet("t.parquet")
    options = ["-y", "kind", "-t", "note", "-t", "more", "-c", "age,paid,town,code", "-r", "2", "--test", "0"]
    run(name, *options, "--out", "o", "--save", "m.skops")
    pipeline = load("m.skops")
    words = table["note"].fillna("") + " " + table["more"].fillna("")
    parts = [pipeline[0].named_transformers_[part][-1] for part in ("atoms", "numbers", "categories")]
    numbers = table[["age", "paid"]].astype(float)
    levels = table[["town", "code"]].fillna("missing")
    encoded = sparse.hstack(
        [parts[0].transform(words), parts[1].transform(numbers), parts[2].transform(levels)], format="csr"
    )
    assert "missing" in parts[2].categories_[0]
    expected = pipeline[-1].predict_proba(encoded)
    again = pd.read_csv(name) if name == "t.csv" else pd.read_parquet(name)
    assert_allclose(pipeline.predict_proba(again), expected, rtol=1e-10)
    rows = np.flatnonzero(table["town"].isna())
    assert_allclose(pipeline.predict_proba(again.iloc[rows]), expected[rows], rtol=1e-10)  # gaps only
    few = again.iloc[np.flatnonzero(table["code"] != "x")]
    as_numbers = few.assign(code=few["code"].astype(float))  # as a smaller file is read
    assert_allclose(pipeline.predict_proba(as_numbers), expected[table["code"] != "x"], rtol=1e-10)
    with pytest.raises(ValueError, match="NaN"):  # numbers with gaps are refused, by the fit too
        pipeline.predict_proba(again.assign(age=again["age"].where(again.index > 3)))


def test_a_saved_model_of_numbers_reads_gaps_as_its_fit_did(files, images):
    table = images.assign(town=np.where(images["digit"] == 3, None, "Rome"), yes=images["p20"] > 5)
    table.to_csv("d.csv", index=False)
    run("d.csv", "-y", "digit", "-c", "town,yes", "-r", "2", "--test", "0", "--out", "o", "--save", "m.skops")
    pipeline, read = load("m.skops"), pd.read_csv("d.csv")
    filled = read.assign(town=read["town"].fillna("missing"))
    assert_allclose(pipeline.predict_proba(read), pipeline.predict_proba(filled), rtol=1e-12)
    scores = json.loads((files / "o" / "scores.json").read_text())["scores"]["supervised dictionary"]
    assert (pipeline.predict(read) == read["digit"]).mean() == scores["accuracy"]
    with pytest.raises(ValueError, match="NaN"):
        pipeline.predict(read.assign(p3=read["p3"].where(read.index > 3)))


def test_topics_are_printed_beside_the_peers(files):
    text = run("t.csv", *TEXT, "--drop", "id", "--out", "o").stdout
    for word in (
        "supervised dictionary",
        "NMF + logistic",
        "largest class",
        "24 rows held out",
        "F1: of class sky",
    ):
        assert word in text
    assert "leading words" in text
    assert any(word in text for word in SEA)


def test_words_stay_sparse_and_covariates_are_scaled(texts):
    task = make_task(texts.drop(columns="id").fillna("none"), "kind", ["note"], ["age", "paid", "town"], [])
    encoded = encode(task, np.arange(120), 2500, "english")
    assert sparse.issparse(encoded.X)
    assert set(encoded.names[: encoded.width]) == {*SEA, *SKY}
    age, paid = encoded.X[:, encoded.width : encoded.width + 2].toarray().T
    assert_allclose([age.mean(), age.std()], [0, 1], atol=1e-12)
    assert_allclose(paid.std(), 1)
    assert len(encode(task, np.arange(120), 5, None).names) == 5 + 2 + 4
    pair = texts.assign(town=np.where(texts["age"] > 40, "Rome", "Bern"))
    two = encode(make_task(pair, "kind", ["note"], ["town"], ["id", "age", "paid"]), np.arange(120), 5, None)
    assert two.names[two.width :] == ["town=Rome"]  # the other level of two says the same
    np.testing.assert_array_equal(two.X[:, [-1]].toarray()[:, 0], pair["age"] > 40)


def test_equal_texts_are_on_one_side_of_the_split(texts):
    task = make_task(texts.drop(columns="id"), "kind", ["note"], ["age", "paid"], ["town"])
    plain = texts["note"].str.lower().str.strip()
    for seed in range(5):
        train, test = split_rows(task, 0.2, seed)
        assert not set(plain[train]) & set(plain[test])
        assert sorted([*train, *test]) == list(range(120))
        assert len(test) == 24
        assert (task.y[test] == "sea").mean() == 0.5
    assert [len(rows) for rows in split_rows(task, 0, 0)] == [120, 0]


def test_texts_are_joined_and_all_rows_fitted(files):
    text = run("t.csv", *TEXT[:2], "-t", "note", "-t", "town", "-r", "2", "--test", "0", "-o", "o").stdout
    assert "scores of the rows that were fitted" in text
    assert {"rome", "oslo", "bern"} & set(pd.read_csv("o/topics.csv")["word"])
    assert json.loads((files / "o" / "scores.json").read_text())["held_out"] == 0


# ---------------------------------------------------------------------- numbers


def test_atoms_of_images(files, images):
    options = [
        "--label",
        "digit",
        "-r",
        "5",
        "--image-shape",
        "8x8",
        "--seed",
        "1",
        "--class-weight",
        "balanced",
    ]
    result = run("d.csv", *options, "--out", "a/b")
    assert "mean over classes" in result.stdout
    assert (files / "a" / "b" / "atoms.png").stat().st_size > 5000
    assert (files / "a" / "b" / "coefficients.png").exists()
    task = make_task(images.copy(), "digit", [], [], [])
    train, test = split_rows(task, 0.2, 1)
    X = images.drop(columns="digit").to_numpy()
    model = SupervisedDictionaryClassifier(5, positive=True, class_weight="balanced", random_state=1).fit(
        X[train], task.y[train]
    )
    atoms = pd.read_csv("a/b/atoms.csv")
    assert atoms.columns.tolist() == ["atom", *images.columns[:-1]]
    assert_allclose(atoms.iloc[:, 1:], model.components_, atol=0.01)  # both stop within tol of a flat minimum
    scores = json.loads((files / "a" / "b" / "scores.json").read_text())
    ours = scores["scores"]["supervised dictionary"]
    assert_allclose(ours["accuracy"], model.score(X[test], task.y[test]), atol=0.02)
    rebuilt = np.asarray(model.reconstruct(X[test]))
    expected = ((X[test] - rebuilt) ** 2).sum() / (X[test] ** 2).sum()
    assert_allclose(ours["reconstruction error"], expected, rtol=0.01)
    assert scores["scores"]["logistic regression, all columns"]["accuracy"] > 0.8
    assert scores["threshold"] is None
    coefficients = pd.read_csv("a/b/coefficients.csv")
    assert_allclose(coefficients.groupby("name")["coefficient"].sum(), 0, atol=1e-8)


def test_options_reach_the_estimator(files, images, monkeypatch):
    two = images[images["digit"] != 5].assign(digit=lambda t: t["digit"] == 8)
    shifted = two.assign(p0=-1.0, p1=two["p1"] - two["p2"])
    shifted.to_csv("two.csv", index=False)
    options = ["--free", "--xi", "0.5", "--threshold", "f1", "--model", "feature", "-c", "p3", "--drop", "p?"]
    text = run("two.csv", "-y", "digit", "-r", "2", *options, "-o", "o", code=2).stderr
    assert "column 'p3' is named by --covariates and by --drop" in text
    options[-1] = "p0"
    text = run("two.csv", "-y", "digit", "-r", "2", *options, "-o", "o").stdout
    assert "SVD + logistic regression" in text
    assert "xi 0.5" in text
    scores = json.loads((files / "o" / "scores.json").read_text())
    assert scores["classes"] == ["False", "True"]
    assert scores["columns"] == 62
    task = make_task(shifted.copy(), "digit", [], ["p3"], ["p0"])
    train, _ = split_rows(task, 0.2, 0)
    encoded = encode(task, train, 1, None)
    model = SupervisedDictionaryClassifier(
        2,
        model="feature",
        xi=0.5,
        positive=False,
        threshold="f1",
        covariates=encoded.covariates,
        random_state=0,
    ).fit(encoded.X, task.y[train])
    assert_allclose(scores["threshold"], model.threshold_)
    assert_allclose(pd.read_csv("o/atoms.csv").iloc[:, 1:], model.components_, rtol=1e-4, atol=1e-8)
    kept = []
    monkeypatch.setattr(plt, "close", kept.append)
    draw(model, encoded, task, None, files)
    assert "← digit=False  |  digit=True →" in kept[-1].axes[0].get_xlabel()
    assert model.classes_.tolist() == [False, True]


def test_standard_input(files):
    text = (files / "d.csv").read_text()
    run("-", "-y", "digit", "-r", "3", "-o", "o", input=text)
    assert (files / "o" / "atoms.csv").exists()


def test_without_matplotlib_there_are_tables(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("d.csv", "-y", "digit", "-r", "3", "-o", "o")
    assert "pip install 'colspace[plot]'" in result.stderr
    assert sorted(path.name for path in (files / "o").iterdir()) == [
        "atoms.csv",
        "coefficients.csv",
        "rows.csv",
        "scores.json",
    ]


def test_peers_have_the_same_rule_for_the_threshold():
    X, y = load_breast_cancer(return_X_y=True)
    scaled = StandardScaler().fit_transform(X)
    logistic = LogisticRegression(max_iter=5000).fit(scaled, y)
    for rule in (0.9, "youden"):
        found = _logistic(SupervisedDictionaryClassifier(threshold=rule), X, y, X, y)
        shares = logistic.predict_proba(scaled)[:, 1]
        cut = rule if rule == 0.9 else best_threshold(rule, y == 1, shares)
        assert found["accuracy"] == ((shares >= cut) == y).mean()
    plain = _logistic(SupervisedDictionaryClassifier(), X, y, X, y)
    assert plain["accuracy"] == logistic.score(scaled, y) != found["accuracy"]
    weights = {0: 9.0, 1: 1.0}
    peer = LogisticRegression(max_iter=5000, class_weight=weights).fit(scaled, y)
    weighed = _logistic(SupervisedDictionaryClassifier(class_weight=weights), X, y, X, y)
    assert weighed["accuracy"] == peer.score(scaled, y) != plain["accuracy"]


def test_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    probability = rng.dirichlet(np.ones(3), 60)
    predicted = probability.argmax(axis=1)
    found = scores_of(y, predicted, probability, np.arange(3))
    assert found["accuracy"] == (y == predicted).mean()
    assert_allclose(found["F1"], f1_score(y, predicted, average="macro"))
    assert_allclose(found["AUC"], roc_auc_score(y, probability, multi_class="ovr"))
    absent = scores_of(y[y < 2], predicted[y < 2], probability[y < 2], np.arange(3))
    assert np.isnan(absent["AUC"])
    none = scores_of(np.zeros(3, int), np.zeros(3, int), np.full((3, 2), 0.5), np.arange(2))
    assert none["F1"] == 0.0  # of a class that is neither there nor predicted


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "-y", "y"], "none.csv does not exist"),
        (["t.csv", "-y", "q"], "--label: no column is called 'q'. Columns: 'id', 'note'"),
        (["t.csv", "-y", "kind", "-t", "q"], "--text: no column is called 'q'"),
        (["t.csv", "-y", "kind", "-t", "note", "-c", "q"], "--covariates: no column is called 'q'"),
        (
            ["t.csv", "-y", "kind", "-t", "note", "-c", "kind"],
            "'kind' is named by --label and by --covariates",
        ),
        (["t.csv", "-y", "kind", "-t", "note", "-c", "age,age"], "'age' is named by --covariates twice"),
        (["t.csv", "-y", "kind"], "2 column(s) are not numbers: 'note' (e.g. '"),
        (["t.csv", "-y", "kind"], "Name one as --text for topics, name them in --covariates"),
        (["d.csv", "-y", "digit", "-t", "p3", "--image-shape", "8x8"], "choose one"),
        (["d.csv", "-y", "digit", "--image-shape", "8x9"], "--image-shape 8x9 has 72 pixels, but 64 columns"),
        (["d.csv", "-y", "digit", "--image-shape", "eight"], "not of the form HEIGHTxWIDTH"),
        (["d.csv", "-y", "digit", "--words", "9"], "--words is about words, so it needs --text"),
        (["d.csv", "-y", "digit", "--drop", "*"], "named by --label and by --drop"),
        (["d.csv", "-y", "digit", "--drop", "p*"], "no columns are left for the atoms"),
        (["d.csv", "-y", "digit", "-r", "65"], "--components 65"),
        (["d.csv", "-y", "digit", "--xi", "-1"], "--xi must be"),
        (["d.csv", "-y", "digit", "--xi", "some"], "'some' is neither a number nor one of auto, topics"),
        (["d.csv", "-y", "digit", "--threshold", "f1"], "--threshold f1"),
        (["d.csv", "-y", "digit", "--test", "0.005"], "--test 0.005 holds out 1 of 210 rows"),
        (["odd.csv", "-y", "y"], "--label y has 210 distinct values and looks like a number"),
        (["odd.csv", "-y", "same"], "--label same has one class, 'a'; two or more are needed"),
        (["odd.csv", "-y", "some"], "--label some: 3 of 210 labels are missing; drop those rows first"),
        (["odd.csv", "-y", "rare", "--drop", "s*"], "class b has one row"),
        (
            ["gaps.csv", "-y", "digit"],
            "missing values in X in 1 column(s): 'p1' (1); fill them with colspace impute, drop",
        ),
        (["gaps.csv", "-y", "digit", "-c", "p1"], "in --covariates in 1 column(s): 'p1' (1)"),
        (["negative.csv", "-y", "digit"], "--free"),
        (["words.csv", "-y", "y", "-t", "x"], "--text x: no word stands in two of the"),
        (["words.csv", "-y", "y", "-t", "blank"], "--text blank: all 40 texts are empty"),
        (["t.csv", "-y", "kind", "-t", "age"], "--text age holds numbers; name a column of text"),
        (["t.parquet", "-y", "kind", "-t", "age"], "--text age holds numbers; name a column of text"),
    ],
)
def test_bad_input_says_what_to_do(files, images, arguments, message):
    odd = images.assign(y=np.linspace(0.1, 1, 210), same="a", some="a", rare="a")
    odd.loc[:2, "some"], odd.loc[0, "rare"] = None, "b"
    odd.to_csv("odd.csv", index=False)
    images.assign(p1=images["p1"].where(images.index != 4)).to_csv("gaps.csv", index=False)
    images.assign(p1=-1.0).to_csv("negative.csv", index=False)
    words = pd.DataFrame({"x": [f"w{i}" for i in range(40)], "y": ["a", "b"] * 20, "blank": ""})
    words.to_csv("words.csv", index=False)
    result = run(*arguments, "-o", "o", code=2)
    assert message in result.stderr
    assert not (files / "o").exists()


def test_coefficients_that_cancel_are_noted(images):
    X = images.drop(columns="digit").to_numpy()
    model = SupervisedDictionaryClassifier(3, random_state=0).fit(X, images["digit"] == 3)
    assert cancelled(model) == []  # orthonormal atoms
    model.components_ = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    model.coef_ = np.array([[3.0, -3.0, 0.1]])
    (note,) = cancelled(model)  # sqrt(9 + 9.09 + 0.01) over 0.2
    assert note.startswith("coefficients of atoms 0, 1 cancel (alone they are 21 times as long as their sum)")
    model.coef_ = np.array([[3.0, 3.0, 0.1]])
    assert cancelled(model) == []
    model.components_ = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    model.coef_ = np.array([[1.0, -1.0, 0.0]])
    (note,) = cancelled(model)  # sqrt(2) over sqrt(.4): two atoms of cosine .8
    assert "alone they are 2.2 times as long as their sum" in note
    model.coef_ = np.array([[1.0, -0.3, 0.0]])
    assert cancelled(model) == []


def test_the_table_is_never_overwritten(files, images):
    (files / "o").mkdir()
    images.to_csv("o/atoms.csv", index=False)
    before = (files / "o" / "atoms.csv").read_bytes()
    text = run("o/atoms.csv", "-y", "digit", "-r", "2", "-o", "o", code=2).stderr
    assert "is the table itself, which is never overwritten" in text
    assert (files / "o" / "atoms.csv").read_bytes() == before


def test_notes_of_a_small_fit(files, images):
    few = images.assign(digit=np.where(images.index < 2, "b", "a"), atom=images["p20"])
    few.to_csv("few.csv", index=False)
    text = run("few.csv", "-y", "digit", "-r", "2", "--max-iter", "2", "-o", "o").stderr
    assert "no held-out row is of class b" in text
    assert "a larger --max-iter (now 2)\n" in text
    assert "max_iter" not in text
    columns = pd.read_csv("o/atoms.csv").columns
    assert [columns[0], columns[-1]] == ["atom_", "atom"]


def test_one_column_and_free_atoms(files, images):
    images[["p20", "digit"]].to_csv("one.csv", index=False)
    scores = json.loads(run_and_read("one.csv", "-y", "digit", "-r", "1", "--free"))["scores"]
    assert list(scores) == ["supervised dictionary", "logistic regression, all columns", "largest class"]


def run_and_read(*arguments):
    run(*arguments, "-o", "o")
    return Path("o/scores.json").read_text()


def test_letters_that_the_font_lacks_are_one_note(files):
    rows = [{"text": f"東京 大阪 {i % 3}x", "y": i % 2} for i in range(30)]
    pd.DataFrame(rows).to_csv("cjk.csv", index=False)
    text = run("cjk.csv", "-y", "y", "-t", "text", "-r", "1", "--test", "0", "-o", "o").stderr
    assert "lacks 4 letter(s), which are drawn as boxes" in text
    assert "Glyph" not in text


def test_messages_speak_of_options():
    assert _words("xi=-1 must be >= 0, or positive=False") == "--xi -1 must be >= 0, or --free"
    assert "--threshold youden" in _words("threshold='youden' needs two classes")


def test_help():
    text = run("--help").stdout
    for option in (
        "--label",
        "--text",
        "--covariates",
        "--components",
        "--xi",
        "--free",
        "--image-shape",
        "--test",
    ):
        assert option in text
