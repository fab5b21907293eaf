import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from colspace.datasets import load_jobs, load_pneumonia, make_dictionary, make_semisynthetic


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.images, data.target


def test_semisynthetic_atoms_are_images_of_the_digits(digits):
    images, labels = digits
    data = make_semisynthetic(images, labels, n_samples=60, n_atoms=4, rng=0)
    rows = {tuple(row): digit for row, digit in zip(images.reshape(len(images), -1), labels, strict=True)}
    assert [rows[tuple(atom * images.max())] for atom in data.atoms] == [2] * 4 + [5] * 4
    assert [rows[tuple(atom * images.max())] for atom in data.label_atoms] == [4] * 4 + [7] * 4
    assert_array_equal(data.coef, [1.0] * 4 + [-1.0] * 4)
    assert len({tuple(atom) for atom in data.atoms}) == 8  # drawn without replacement


def test_semisynthetic_law(digits):
    n = 8000
    data = make_semisynthetic(*digits, n_samples=n, noise=0.5, rng=1)
    X_train, X_test, y_train, y_test = data
    assert len(X_train) == 6400
    assert len(X_test) == len(y_test) == 1600
    X, y = np.vstack([X_train, X_test]), np.concatenate([y_train, y_test])
    clean = data.codes @ data.atoms
    assert np.linalg.matrix_rank(clean) == 20
    residual = X - clean
    assert abs(residual.mean()) < 4 * 0.5 / np.sqrt(residual.size)
    assert residual.std() == pytest.approx(0.5, rel=4 / np.sqrt(2 * residual.size))
    assert_allclose(data.codes.mean(axis=0), 0.5, atol=4 / np.sqrt(12 * n))
    assert data.codes.min() > 0
    assert data.codes.max() < 1
    # labels: a logistic law of the noiseless, centred activation, with slope 1 and no intercept
    a = clean @ data.label_atoms.T @ data.coef
    a -= a.mean()
    fit = LogisticRegression(C=np.inf, tol=1e-8).fit(a[:, None], y)
    information = np.linalg.inv(_information(a))
    assert abs(fit.coef_[0, 0] - 1) < 4 * np.sqrt(information[1, 1])
    assert abs(fit.intercept_[0]) < 4 * np.sqrt(information[0, 0])


def _information(a):
    p = 1 / (1 + np.exp(-a))
    design = np.column_stack([np.ones_like(a), a])
    return design.T @ (design * (p * (1 - p))[:, None])


def test_semisynthetic_is_settled_by_its_seed(digits):
    one, same, other = (make_semisynthetic(*digits, n_samples=40, rng=seed) for seed in (3, 3, 4))
    assert_array_equal(one.X_train, same.X_train)
    assert_array_equal(one.y_test, same.y_test)
    assert not np.array_equal(one.X_train, other.X_train)


def test_semisynthetic_follows_the_published_stream(digits):
    """The draws of a RandomState in the published order: atoms, noise, codes, labels, split."""
    images, labels = digits
    data = make_semisynthetic(images, labels, n_samples=30, rng=np.random.RandomState(1))
    state = np.random.RandomState(1)
    picked = [state.choice(np.flatnonzero(labels == digit), 10, replace=False) for digit in (2, 5, 4, 7)]
    atoms = images.reshape(len(images), -1)[np.concatenate(picked)] / images.max()
    noise = state.multivariate_normal(np.zeros(64), 0.25 * np.eye(64), 30)
    codes = state.rand(30, 20)
    X = codes @ atoms[:20] + noise
    a = codes @ atoms[:20] @ atoms[20:].T @ np.repeat([1, -1], 10)
    uniform = np.array([state.rand() for _ in range(30)])
    y = uniform < 1 / (1 + np.exp(-(a - a.mean())))
    rows = state.permutation(30)
    assert_allclose(data.X_test, X[rows[:6]], atol=1e-12)
    assert_allclose(data.X_train, X[rows[6:]], atol=1e-12)
    assert_array_equal(data.y_train, y[rows[6:]])
    assert_array_equal(data.codes[:24], codes[rows[6:]])


def test_semisynthetic_errors(digits):
    images, labels = digits
    with pytest.raises(ValueError, match=r"n_atoms=1000 are needed"):
        make_semisynthetic(images, labels, n_atoms=1000)
    with pytest.raises(ValueError, match="one label per image"):
        make_semisynthetic(images, labels[:-1])
    with pytest.raises(ValueError, match=r"test_size=1.0 of n_samples=500"):
        make_semisynthetic(images, labels, test_size=1.0)


@pytest.mark.parametrize("model", ["filter", "feature", "common"])
def test_dictionary_law(model):
    n, p, r, q, classes = 40_000, 7, 2, 3, 3
    data = make_dictionary(
        n, p, r, q, classes, model=model, noise=0.3, covariate_noise=0.5, signal=1.0, rng=0
    )
    X, y, covariates = data
    assert_allclose(data.components @ data.components.T, np.eye(r), atol=1e-12)
    x, z = X[:, :p], X[:, covariates]
    assert z.shape == (n, q)
    mean = data.codes @ data.components
    assert np.linalg.matrix_rank(mean) == (1 if model == "common" else r)
    assert (x - mean).std() == pytest.approx(0.3, rel=4 / np.sqrt(2 * x.size))
    if model == "common":
        assert_allclose(z.std(axis=0), 0.5, rtol=4 / np.sqrt(2 * n))
    else:
        assert_allclose(z.var(axis=0), 1 + 0.25, rtol=4 * np.sqrt(2 / n))
        assert_allclose(np.cov(data.codes.T), np.eye(r), atol=4 * np.sqrt(2 / n))
    source = data.codes if model == "feature" else x @ data.components.T
    assert_allclose(data.activation, source @ data.coef + z @ data.covariate_coef, atol=1e-10)
    # the classes have the probabilities of the log odds: scores sum to zero
    g = softmax(np.column_stack([np.zeros(n), data.activation]), axis=1)
    error = (np.eye(classes)[y] - g)[:, :, None] * np.column_stack([np.ones(n), data.activation])[:, None, :]
    assert np.all(np.abs(error.mean(axis=0)) < 4.5 * error.std(axis=0) / np.sqrt(n))


def test_dictionary_seed_and_no_covariates():
    one, two = (make_dictionary(20, 5, 2, 0, model="feature", rng=7) for _ in range(2))
    assert_array_equal(one.X, two.X)
    assert_array_equal(one.y, two.y)
    assert one.X.shape == (20, 5)
    assert one.covariate_coef.shape == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "odd"}, "model='odd' is unknown"),
        ({"n_components": 31}, "n_components=31 must lie between 1 and n_features=30"),
        ({"n_classes": 1}, "n_classes=1 must be at least 2"),
    ],
)
def test_dictionary_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_dictionary(**arguments)


def test_dictionary_signal_scales_the_coefficients():
    drawn = [make_dictionary(2, 40, 30, 20, 5, signal=2.0, rng=seed) for seed in range(20)]
    coef, covariate_coef = (
        np.array([getattr(d, name) for d in drawn]) for name in ("coef", "covariate_coef")
    )
    assert np.mean(coef**2) * 30 == pytest.approx(4.0, rel=4 * np.sqrt(2 / coef.size))
    assert np.mean(covariate_coef**2) * 20 == pytest.approx(4.0, rel=4 * np.sqrt(2 / covariate_coef.size))


# ----------------------------------------------------------------- loaders


def write_postings(folder, **columns):
    pandas = pytest.importorskip("pandas")
    table = {
        "title": ["cook", "cook", "earn"],
        "description": ["cook food", "cook food", None],
        "telecommuting": [0, 0, 1],
        "employment_type": ["Full-time", None, "Other"],
        "fraudulent": [0, 0, 1],
    }
    frame = pandas.DataFrame({**table, **columns})
    frame.to_csv(folder / "fake_job_postings.csv", index=False)
    return frame


def test_jobs(tmp_path):
    write_postings(tmp_path)
    jobs = load_jobs(tmp_path)
    assert jobs.text.tolist() == ["cook food", "cook food", ""]
    assert jobs.group[0] == jobs.group[1] != jobs.group[2]
    assert jobs.covariate_names == (
        "telecommuting",
        "employment_type=Full-time",
        "employment_type=Other",
        "employment_type missing",
    )
    assert_array_equal(jobs.covariates, [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0]])
    assert_array_equal(jobs.y, [0, 0, 1])


def test_job_titles_have_no_covariates(tmp_path):
    pytest.importorskip("pyarrow")
    write_postings(tmp_path)[["title", "fraudulent"]].to_parquet(tmp_path / "fake_jobs_titles.parquet")
    jobs = load_jobs(tmp_path, table="titles")
    assert jobs.text.tolist() == ["cook", "cook", "earn"]
    assert jobs.covariates.shape == (3, 0)
    assert jobs.group[0] == jobs.group[1] != jobs.group[2]


def test_jobs_errors(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="table='part' is unknown; choose from full"):
        load_jobs(tmp_path, table="part")
    with pytest.raises(FileNotFoundError, match=r"fake_job_postings\.csv does not exist.*Kaggle"):
        load_jobs(tmp_path)
    monkeypatch.delenv("COLSPACE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="COLSPACE_DATA is not set"):
        load_jobs()
    pandas.DataFrame({"title": ["a"]}).to_csv(tmp_path / "fake_job_postings.csv", index=False)
    with pytest.raises(ValueError, match="has no column 'description'"):
        load_jobs(tmp_path)


def pneumonia(**changes):
    arrays = {}
    for part in ("train", "val", "test"):
        arrays[f"{part}_images"] = np.zeros((2, 4, 4), dtype=np.uint8)
        arrays[f"{part}_labels"] = np.array([[0], [1]])
    return {**arrays, **changes}


@pytest.mark.parametrize("name", ["pneumoniamnist.npz", "pneumoniamnist_28.npz"])
def test_pneumonia(tmp_path, name):
    np.savez(tmp_path / name, **pneumonia())
    data = load_pneumonia(tmp_path)
    assert data.val_images.shape == (2, 4, 4)
    assert_array_equal(data.train_labels, [0, 1])


def test_pneumonia_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="MedMNIST"):
        load_pneumonia(tmp_path)
    np.savez(tmp_path / "pneumoniamnist.npz", **pneumonia(val_labels=np.array([1])))
    with pytest.raises(ValueError, match=r"val_images has shape \(2, 4, 4\) and val_labels \(1,\)"):
        load_pneumonia(tmp_path)
