import csv
import importlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from colspace import experiments
from colspace.datasets import load_jobs, make_dictionary, make_semisynthetic
from colspace.dictionary._losses import one_hot
from colspace.dictionary._objective import make_problem
from colspace.experiments import (
    _core,
    _sdl,
    _sdl_mixed,
    _sdl_path,
    _sdl_published,
    sdl_convergence,
    sdl_estimation,
    sdl_jobs,
    sdl_mnist,
    sdl_xray,
)

pandas = pytest.importorskip("pandas")

PATH = 2 * (
    2 + 4 * 2
)  # of job postings: with and without covariates, two plain methods and four models at two xi
ROWS = {"sdl-mnist": 2 + 4 + 11 + 3, "sdl-xray": 5 + 4}
WORDS = {
    0: "team client software project develop engineer website support market design",
    1: "earn money home link click cash easy week apply email",
}


def _postings(rng, n):
    y = np.arange(n) % 2
    shared = ["work", "job", "new", "day", "time", "office", "phone", "train", "skill", "people"]
    texts = [" ".join([*rng.choice(WORDS[k].split(), 6), *rng.choice(shared, 10)]) for k in y]
    kinds = np.where(rng.random(n) < 0.3, None, "Full-time")
    return pandas.DataFrame(
        {
            "title": [f"title {i // 2}" for i in range(n)],
            "description": texts,
            "telecommuting": rng.integers(0, 2, n),
            "has_company_logo": np.where(rng.random(n) < 0.8, 1 - y, y),
            "has_questions": 0,
            "employment_type": kinds,
            "fraudulent": y,
        }
    )


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Tiny files of the same names, and tiny sizes of the experiments that read them."""
    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) * 15).astype(np.uint8)
    arrays = {
        "x_train": images[:900],
        "y_train": labels[:900],
        "x_test": images[900:],
        "y_test": labels[900:],
    }
    np.savez(tmp_path / "mnist.npz", **arrays)
    pictures = {
        f"{part}_{what}": array[place]
        for part, place in {"train": slice(0, 200), "val": slice(200, 260), "test": slice(260, 340)}.items()
        for what, array in (("images", images), ("labels", (labels > 4).astype(int)[:, None]))
    }
    np.savez(tmp_path / "pneumoniamnist.npz", **pictures)
    _postings(rng, 120).to_csv(tmp_path / "fake_job_postings.csv", index=False)
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    monkeypatch.setattr(sdl_mnist, "SIZES", {True: sdl_mnist.Size((1.0,), 1, 1, 150, 5)})
    monkeypatch.setattr(sdl_mnist, "SHARES", (1.0,))
    for module in (sdl_mnist, _sdl_mixed):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(_sdl_published, "SWEEPS", 5)
    monkeypatch.setattr(sdl_xray, "ATOMS", 9)
    monkeypatch.setattr(sdl_xray, "BOOTSTRAP", 5)
    short = {name: (fit, values[-1:]) for name, (fit, values) in sdl_xray.METHODS.items()}
    monkeypatch.setattr(sdl_xray, "METHODS", short)
    monkeypatch.setattr(sdl_jobs, "TOPICS", 3)
    monkeypatch.setattr(sdl_jobs, "PATH", {True: sdl_jobs.PathSize(100, 2, 5)})
    for module in (sdl_jobs, _sdl_path):
        monkeypatch.setattr(module, "XIS", (0.1, 1.0))
    monkeypatch.setattr(sdl_convergence, "SWEEPS", {True: 10})
    monkeypatch.setattr(sdl_convergence, "REPETITIONS", {True: 2})
    monkeypatch.setattr(sdl_estimation, "ROWS", {True: (100, 400)})
    monkeypatch.setattr(sdl_estimation, "REPETITIONS", {True: 2})
    return tmp_path


@pytest.mark.parametrize("name", ["sdl-mnist", "sdl-jobs", "sdl-xray", "sdl-convergence", "sdl-estimation"])
def test_runs_and_writes(name, data, tmp_path):
    result = experiments.run(name, quick=True, out=tmp_path / "out")
    assert result.path is not None
    assert result.path.stat().st_size > 10_000
    with (tmp_path / "out" / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.rows) == ROWS.get(name, len(rows))
    assert len(result.summary) > 2
    assert result.size
    assert not result.stand_in
    if name == "sdl-jobs":
        parts = Counter(row["part"] for row in result.rows)
        assert (parts["folds"], parts["path"], parts["best"]) == (6, PATH, 12)
        assert parts["covariate"] > 0
    assert experiments.describe(name) == importlib.import_module(
        experiments.EXPERIMENTS[name]
    ).__doc__.splitlines()[0].rstrip(".")


def test_mnist_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("COLSPACE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"pneumoniamnist\.npz does not exist.*MedMNIST"):
        experiments.run("sdl-xray", quick=True)
    with pytest.raises(FileNotFoundError, match=r"fake_jobs_partial\.parquet does not exist.*Kaggle"):
        experiments.run("sdl-jobs", quick=True)


def test_f_level_is_the_best_of_all():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    odds = y + rng.standard_normal(60)
    best = max(f1_score(y, odds >= level) for level in odds)
    assert f1_score(y, odds >= _sdl.best_f_level(y, odds)) == best


def test_sparse_error_is_the_dense_one():
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = sparse.random_array((30, 8), density=0.3, rng=rng, format="csr")
    H, W = rng.random((30, 2)), rng.random((8, 2))
    assert _sdl.sparse_error(X, H, W) == pytest.approx(_sdl.squared_error(X.toarray(), H @ W.T))


def test_measures_by_hand():
    y, odds = np.array([1, 1, 1, 0, 0]), np.array([2.0, 1.0, -1.0, 0.5, -2.0])
    found = _sdl.measures(y, odds)  # two of three found, one of two false alarms
    assert_allclose(
        [found[key] for key in ("accuracy", "sensitivity", "specificity", "F")], [0.6, 2 / 3, 0.5, 2 / 3]
    )
    assert _sdl.measures(y, odds, 5.0)["F"] == 0.0
    assert _core.averaged([{"a": 1.0}, {"a": 3.0}]) == {"a": 2.0, "a_se": 1.0}
    assert _sdl.cosine(np.array([[1.0, 0.0], [1.0, 1.0], [9.0, 9.0]])) == pytest.approx(np.sqrt(0.5))


def test_bootstrap_errors_are_binomial():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    odds = np.where(rng.random(400) < 0.8, 2.0 * y - 1, 1 - 2.0 * y)
    found = sdl_xray.resampled(y, odds, 0.0, 0)
    expected = np.sqrt(found["accuracy"] * (1 - found["accuracy"]) / 400)
    assert found["accuracy_se"] == pytest.approx(expected, rel=0.3)


def test_the_best_xi_of_each_method_is_kept():
    path = [
        {"covariates": c, "method": m, "xi": xi, "F": F, "part": "path"}
        for c, m, xi, F in (
            (True, "a", 1, 0.2),
            (True, "a", 5, 0.4),
            (False, "a", 1, 0.3),
            (True, "b", 1, 0.1),
        )
    ]
    found = _sdl_path.best_rows(path)
    assert [(row["covariates"], row["method"], row["xi"], row["part"]) for row in found] == [
        (True, "a", 5, "best"),
        (False, "a", 1, "best"),
        (True, "b", 1, "best"),
    ]


# ----------------------------------------------------------------- convergence


def test_factor_power_and_rises_of_known_runs():
    t = np.arange(200.0)
    assert sdl_convergence.judged(5.0 + 0.9**t)["factor"] == pytest.approx(0.9, abs=1e-3)
    slow = np.concatenate([1.0 + (t[:150] + 1.0) ** -2.0, [1.0]])
    assert sdl_convergence.judged(slow)["power"] == pytest.approx(-2.0, abs=0.1)
    bumpy = np.array([5.0, 4.0, 4.5, 3.0, 3.2, 1.0])
    assert sdl_convergence.judged(bumpy)["rises"] == 2
    assert sdl_convergence.judged(np.array([2.0, 1.0])) == {"factor": 0.0, "power": -np.inf, "rises": 0}


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_theorems_hold_on_generated_problems(model):
    problem, start = sdl_convergence.small_problem(model, 3)
    assert sdl_convergence.contraction(problem, start) <= 1.0
    assert 0 < sdl_convergence.settling(problem, start, (4,)) <= 1.0


# ----------------------------------------------------------------- published sweeps


@pytest.fixture(scope="module")
def mixed():
    digits = load_digits()
    return make_semisynthetic(digits.images, digits.target, n_samples=200, rng=0)


def test_published_filter_descends_and_keeps_its_signs(mixed):
    X, y = mixed.X_train, mixed.y_train
    problem = make_problem(X, one_hot(y, 2), xi=1.0)
    trace = sdl_convergence.published(problem, 2, 0)
    assert trace.values[-1] < 0.8 * trace.values[0]
    model = _sdl_published.published_filter(X, y, 1.0, 2, np.random.default_rng(0))
    assert model.W.min() >= 0
    assert np.linalg.norm(model.W) == pytest.approx(1.0)
    # the coefficients are scikit-learn's default on X W
    fit = LogisticRegression().fit(X @ model.W, y)
    assert_allclose(model.activation(X), fit.decision_function(X @ model.W), atol=1e-10)


def test_published_codes_are_least_squares(mixed):
    model = _sdl_published.published_feature(mixed.X_train, mixed.y_train, 1.0, 2, np.random.default_rng(0))
    H = model.codes(mixed.X_test)
    gradient = (H @ model.W.T - mixed.X_test) @ model.W
    assert H.min() >= 0
    assert np.abs(gradient[H > 0]).max() < 1e-9
    assert gradient[H == 0].min(initial=0.0) > -1e-9
    error = np.linalg.norm(mixed.X_test - H @ model.W.T) / np.linalg.norm(mixed.X_test)
    assert model.relative_error(mixed.X_test) == pytest.approx(error)


def test_published_convex_filter_has_the_rows_lifted_error(mixed):
    """With a large xi the lifted matrix is the truncated SVD of the rows."""
    X = mixed.X_train
    model = _sdl_published.published_convex(
        X, mixed.y_train, 20.0, 2, np.random.default_rng(0), "filter", step=0.02
    )
    values = np.linalg.svd(X, compute_uv=False) ** 2
    assert model.relative_error(X) ** 2 == pytest.approx(values[2:].sum() / values.sum(), rel=0.02)


def test_youden_level():
    y, score = np.array([0, 0, 1, 0, 1, 1, 1]), np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    # sensitivity - (1 - specificity): 0.3 gives 1 - 1/3, 0.5 gives 3/4
    assert _sdl_published.youden(y, score) == 0.5


# ----------------------------------------------------------------- jobs


def test_jobs_keep_equal_texts_together(data, monkeypatch):
    jobs = load_jobs()
    twice = replace(
        jobs,
        text=np.tile(jobs.text, 2),
        group=np.tile(jobs.group, 2),
        covariates=np.tile(jobs.covariates, (2, 1)),
        y=np.tile(jobs.y, 2),
    )
    seen = []
    original = sdl_jobs.words

    def watched(train):
        seen.append(set(train))
        return original(train)

    monkeypatch.setattr(sdl_jobs, "words", watched)
    sdl_jobs.cross_validate("x", twice, 1, ("NMF + LR",), 0, lambda: None)
    outer, inner = seen[0], seen[1]
    assert len(outer) < 0.85 * len(set(jobs.text))  # a split by rows would leave 96 % of the texts
    assert len(inner) < 0.8 * len(outer)
    assert inner < outer  # chosen inside the fold


def test_topics_tell_the_words_of_the_classes(data):
    learned = sdl_jobs.topics(load_jobs(), 0)
    assert len(learned.lines()) == 3
    top = set(learned.words[int(np.argmax(learned.coef))][:5])
    assert len(top & set(WORDS[1].split())) >= 3
    names = dict(zip(learned.covariate_names, learned.covariate_coef, strict=True))
    assert names["has_company_logo"] < 0
    assert {"employment_type=Full-time", "employment_type missing"} <= set(names)


# ----------------------------------------------------------------- estimation


def test_common_code_fit_is_a_minimum():
    data = make_dictionary(400, 20, 2, 2, model="common", noise=0.5, rng=0)
    A, mean, G = sdl_estimation.fit_common(data, 0.5, 0.0, 0)
    X, Z = data.X[:, :20], data.X[:, 20:]
    # without ridge two atoms leave A free: logistic regression, and the mean of the rows
    fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(data.X, data.y)
    assert_allclose(A, fit.coef_[0, :20], atol=1e-3 * np.abs(A).max())
    assert_allclose(G, fit.coef_[0, 20:], atol=1e-3 * np.abs(A).max())
    assert_allclose(mean, X.mean(axis=0), atol=1e-4)

    def ridged(v):
        W, h, b, g = v[:40].reshape(20, 2), v[40:42], v[42:44], v[44:]
        a = X @ W @ b + Z @ g
        loss = np.mean(-np.log(np.where(data.y == 1, expit(a), expit(-a))))
        return loss + np.mean(np.sum((X - W @ h) ** 2, axis=1)) / (2 * 0.25) + 0.1 * v @ v

    shrunk = sdl_estimation.fit_common(data, 0.5, 0.1, 0)
    from scipy.optimize import minimize

    rng = np.random.default_rng(1)
    ends = [minimize(ridged, rng.standard_normal(46), method="L-BFGS-B") for _ in range(2)]
    best = min(ends, key=lambda end: end.fun).x
    assert np.abs(approx_fprime(best, ridged)).max() < 1e-2
    assert_allclose(shrunk[1], best[:40].reshape(20, 2) @ best[40:42], atol=5e-3)
    assert_allclose(shrunk[2], best[44:], atol=5e-3)


@pytest.mark.parametrize("model", ["filter", "feature"])
def test_errors_fall_with_the_rows(model):
    errors = sdl_estimation.per_row_code(model)
    few, many = (
        [np.median([errors(n, seed)[model][part] for seed in range(5)]) for part in "ABG"]
        for n in (200, 3200)
    )
    assert np.all(np.array(many) < 0.6 * np.array(few))  # 1/4 by the theorem
