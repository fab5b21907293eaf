"""JointReduction: exactness, equivalences between inputs, numbers that are easy to get wrong."""

import tracemalloc
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from joint_tables import FEW, SAME, difference, mixed_bilinear, whitened
from scipy import sparse
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from colspace import JointReduction
from colspace.datasets import make_bilinear


def algorithm_1(A, B, y, r):
    """The published algorithm, line by line."""
    a, Ca = whitened(A)
    b, Cb = whitened(B)
    y = y - y.mean()
    X0 = sum(yi * np.outer(ai, bi) for ai, yi, bi in zip(a, y, b, strict=True)) / len(y)
    U, s, Vt = np.linalg.svd(X0)
    return {"a": np.linalg.inv(Ca.T) @ U[:, :r], "b": np.linalg.inv(Cb.T) @ Vt[:r].T}, s[:r] / y.std()


@pytest.fixture(scope="module")
def data():
    return mixed_bilinear()


def test_joint_is_algorithm_1(data):
    X, y, blocks = data
    expected, values = algorithm_1(X[:, :7], X[:, 7:], y, 2)
    model = JointReduction(2, blocks=blocks, moments="joint").fit(X, y)
    assert difference(model.loadings_, expected) < SAME
    np.testing.assert_allclose(model.singular_values_["a"], values, rtol=1e-9)
    np.testing.assert_allclose(model.singular_values_["b"], values, rtol=1e-9)


def test_all_is_the_three_moments_side_by_side(data):
    X, y, blocks = data
    (a, Ca), (b, Cb) = whitened(X[:, :7]), whitened(X[:, 7:])
    v = (y - y.mean()) / y.std()
    for block, other, C, name in ((a, b, Ca, "a"), (b, a, Cb, "b")):
        parts = [(block.T @ v)[:, None], (block * v[:, None]).T @ other, (block * v[:, None]).T @ block]
        U = np.linalg.svd(np.hstack(parts) / len(y))[0][:, :2]
        model = JointReduction(2, blocks=blocks, moments="all").fit(X, y)
        assert difference({name: model.loadings_[name]}, {name: np.linalg.inv(C.T) @ U}) < SAME


def test_single_block_joint_is_the_principal_hessian(data):
    X, y, _ = data
    z, C = whitened(X)
    H = (z * (y - y.mean())[:, None]).T @ z / len(y)
    values, vectors = np.linalg.eigh(H)
    top = np.argsort(-np.abs(values))[:3]
    model = JointReduction(3, moments="joint").fit(X, y)
    assert difference(model.loadings_, {"x": np.linalg.inv(C.T) @ vectors[:, top]}) < SAME
    np.testing.assert_allclose(model.singular_values_["x"], np.abs(values[top]) / y.std(), rtol=1e-9)
    hessian = JointReduction(3, moments="hessian").fit(X, y)
    assert difference(model.loadings_, hessian.loadings_) == 0.0


def test_linear_moment_is_least_squares(data):
    X, y, _ = data
    model = JointReduction(1, moments="linear").fit(X, y)
    coefficients = LinearRegression().fit(X, y).coef_[:, None]
    assert difference(model.loadings_, {"x": coefficients}) < 1e-7  # LinearRegression's own digits


def test_embedding_is_centred_and_white_under_full_whitening(data):
    X, y, blocks = data
    Z = JointReduction(2, blocks=blocks, moments="all").fit(X, y).transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-10)
    for part in (Z[:, :2], Z[:, 2:]):
        np.testing.assert_allclose(part.T @ part / len(Z), np.eye(2), atol=1e-9)


def test_equivariance_to_units_and_response_scale(data):
    X, y, blocks = data
    scale = np.geomspace(1e-3, 1e3, 12)
    for options in ({}, {"shrinkage": 0.3}, {"whiten": "diagonal"}, {"shrinkage": "auto"}):
        one = JointReduction(2, blocks=blocks, **FEW, **options).fit(X, y)
        two = JointReduction(2, blocks=blocks, **FEW, **options).fit(X * scale, 5 * y - 3)
        back = {b: two.loadings_[b] * scale[s, None] for b, s in blocks.items()}
        assert difference(one.loadings_, back) < SAME
        for b in blocks:
            np.testing.assert_allclose(one.singular_values_[b], two.singular_values_[b], rtol=1e-8)


def test_several_responses_are_unfolded_tensors(data):
    X, y, blocks = data
    Y = np.column_stack([y, X[:, 0] * X[:, 8], 100 * X[:, 1]])
    (a, Ca), (b, _) = whitened(X[:, :7]), whitened(X[:, 7:])
    V = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    T = np.einsum("mq,mi,mj->qij", V, a, b) / len(V)
    U = np.linalg.svd(T.transpose(1, 0, 2).reshape(7, -1))[0][:, :2]
    model = JointReduction(2, blocks=blocks, moments="joint").fit(X, Y)
    assert difference({"a": model.loadings_["a"]}, {"a": np.linalg.inv(Ca.T) @ U}) < SAME


def test_labels_are_centred_indicators(data):
    X, y, blocks = data
    labels = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    onehot = (labels[:, None] == np.unique(labels)).astype(float)
    by_name = JointReduction(2, blocks=blocks, moments="all").fit(X, labels)
    by_hand = JointReduction(2, blocks=blocks, moments="all").fit(X, onehot)
    assert difference(by_name.loadings_, by_hand.loadings_) < SAME
    codes = np.unique(labels, return_inverse=True)[1]
    by_code = JointReduction(2, blocks=blocks, response="labels", moments="all").fit(X, codes)
    assert difference(by_name.loadings_, by_code.loadings_) < SAME
    binary = JointReduction(2, blocks=blocks, moments="all").fit(X, labels == "low")
    number = JointReduction(2, blocks=blocks, moments="all").fit(X, (labels == "low").astype(int))
    assert difference(binary.loadings_, number.loadings_) < SAME


# ---------------------------------------------------------------- one result from every kind of input


@pytest.fixture(scope="module")
def cluster():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("moments", ["joint", "all", ("linear", "hessian")])
def test_fit_equals_partial_fit_csr_memmap_chunks_and_dask(data, tmp_path, cluster, moments, mean):
    X, y, blocks = data
    X = X + mean * X.std(axis=0)
    y = y + mean * y.std()

    def new():
        return JointReduction(2, blocks=blocks, **FEW, moments=moments)

    reference = new().fit(X, y)
    in_parts = new()
    for i in range(0, len(X), 400):
        in_parts.partial_fit(X[i : i + 400], y[i : i + 400])
    np.save(tmp_path / "x.npy", X)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefghijkl")).assign(y=y), npartitions=4)
    routes = {
        "partial_fit": in_parts,
        "chunks": new().fit((X[i : i + 50], y[i : i + 50]) for i in range(0, len(X), 50)),
        "csr": new().fit(sparse.csr_array(X), y),
        "csr matrix": new().fit(sparse.csr_matrix(X), y),
        "memmap": new().fit(np.load(tmp_path / "x.npy", mmap_mode="r"), y),
        "fortran": new().fit(np.asfortranarray(X), y),
        "dask array": new().fit(da.from_array(X, chunks=(350, 5)), da.from_array(y, chunks=200)),
        "dask array, y in memory": new().fit(da.from_array(X, chunks=(350, 5)), y),
        "dask frame": new().fit(frame.drop(columns="y"), frame["y"]),
    }
    for name, model in routes.items():
        assert difference(reference.loadings_, model.loadings_) < SAME, name
        assert model.n_samples_seen_ == len(X), name
        np.testing.assert_allclose(model.mean_, reference.mean_, rtol=1e-12, atol=1e-12, err_msg=name)


def test_sparse_products_equal_dense_ones():
    rng = np.random.default_rng(0)
    S = sparse.random_array((3000, 40), density=0.05, rng=rng, format="csr")
    y = np.asarray(S[:, :5].sum(axis=1) * S[:, 20:25].sum(axis=1)).ravel() + 0.1 * rng.standard_normal(3000)
    blocks = {"a": slice(0, 20), "b": slice(20, 40)}
    for options in ({}, {"whiten": "diagonal"}, {"shrinkage": "auto"}, {"moments": "joint", "whiten": None}):
        one = JointReduction(2, blocks=blocks, **FEW, **options).fit(S, y)
        two = JointReduction(2, blocks=blocks, **FEW, **options).fit(S.toarray(), y)
        assert difference(one.loadings_, two.loadings_) < SAME
        np.testing.assert_allclose(one.transform(S), two.transform(S.toarray()), atol=1e-10)


def test_interleaved_blocks_and_dropped_columns(data):
    X, y, blocks = data
    order = np.random.default_rng(0).permutation(12)
    place = np.argsort(order)
    junk = np.random.default_rng(1).standard_normal((len(X), 1))
    mixed = np.hstack([X[:, order], junk])
    where = {"a": place[:7], "b": place[7:], "drop": [12]}
    one = JointReduction(2, blocks=blocks, moments="all").fit(X, y)
    for options in ({"solver": "exact"}, {"solver": "randomized", "n_power": 60}):
        two = JointReduction(2, blocks=where, **options, random_state=0).fit(mixed, y)
        assert difference(one.loadings_, two.loadings_) < 1e-8
        np.testing.assert_allclose(np.abs(two.transform(mixed)), np.abs(one.transform(X)), atol=1e-6)
        assert (two.components_[:, 12] == 0).all()


def test_threads_do_not_change_the_result(data):
    X, y, blocks = data
    models = []
    for n in (1, 2):
        with threadpool_limits(n):
            models.append(JointReduction(2, blocks=blocks, **FEW).fit(X, y))
    assert difference(models[0].loadings_, models[1].loadings_) < SAME


def test_float32_stays_float32_and_integers_work(data):
    X, y, blocks = data
    model = JointReduction(2, blocks=blocks, **FEW).fit(X.astype(np.float32), y)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    assert model.components_.dtype == np.float32
    reference = JointReduction(2, blocks=blocks, **FEW).fit(X, y)
    assert difference(model.loadings_, reference.loadings_) < 1e-4
    whole = np.round(X * 100).astype(int)
    assert JointReduction(2, blocks=blocks, **FEW).fit(whole, y).transform(whole).dtype == np.float64


def test_no_copy_of_the_table_is_made():
    X, y, blocks, _ = make_bilinear(60_000, 40, 2, rng=0)
    peaks = {}
    for moments in ("joint", "all"):
        tracemalloc.start()
        JointReduction(2, blocks=blocks, moments=moments).fit(X, y)
        peaks[moments] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert max(peaks.values()) < 5 * (8 << 20)  # a few chunks; the table has 38 MB and grows, they do not


# ---------------------------------------------------------------- numbers that are easy to get wrong


def test_integer_counts_in_sparse_tables_do_not_overflow():
    counts = np.random.default_rng(0).integers(0, 120, (2000, 6)).astype(np.uint8)
    y = counts[:, 0].astype(float) * counts[:, 3]
    for options in ({"solver": "randomized", "whiten": "diagonal", "n_power": 8}, {"shrinkage": "auto"}):
        one = JointReduction(1, random_state=0, **options).fit(sparse.csr_array(counts), y)
        two = JointReduction(1, random_state=0, **options).fit(counts.astype(float), y)
        assert difference(one.loadings_, two.loadings_) < 1e-8


@pytest.mark.parametrize("density", [0.05, 1.0])
@pytest.mark.parametrize("solver", ["exact", "randomized"])
def test_sparse_columns_with_large_means(solver, density):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((4000, 40)) < density, rng.standard_normal((4000, 40)), 0.0)
    X[:, 7] += 1e4 * X[:, 7].std()  # one dense column far from zero in a sparse table
    y = X[:, 0] * X[:, 1] + 0.1 * X[:, 7] + 0.1 * rng.standard_normal(4000)
    options = {"solver": solver, "whiten": "diagonal", "random_state": 0, "response": "rank"}
    one = JointReduction(2, **options).fit(sparse.csr_array(X), y)
    two = JointReduction(2, **options).fit(X, y)
    assert difference(one.loadings_, two.loadings_) < 1e-9
    low = one.transform(sparse.csr_array(X.astype(np.float32)))
    np.testing.assert_allclose(low, two.transform(X.astype(np.float32)), atol=1e-5 * np.abs(low).max())


def test_folds_are_centred_by_their_own_means():
    rng = np.random.default_rng(3)
    shared_part = rng.standard_normal((400, 8))
    X = np.hstack(
        [shared_part, shared_part + 0.3 * rng.standard_normal((400, 8))]
    )  # strongly correlated blocks
    y = X[:, 0] * X[:, 9] + X[:, 1] * X[:, 10] + rng.standard_normal(400) + 50.0
    blocks = {"a": slice(0, 8), "b": slice(8, 16)}
    one = JointReduction("moments", blocks=blocks, moments="joint").fit(X, y)
    two = JointReduction("moments", blocks=blocks, moments="joint").fit(X - 1.0, y - 50.0)
    lazy = JointReduction("moments", blocks=blocks, moments="joint").fit(
        da.from_array(X, chunks=(200, 16)), y
    )
    assert one.n_components_ == two.n_components_ == lazy.n_components_


def test_auto_works_where_a_fold_would_be_singular():
    X, y, blocks, _ = make_bilinear(100, 45, 1, rng=0)
    X[:, 3] = 0.0
    X[17, 3] = 1.0  # varies in one row only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rule in ("auto", "moments"):
            assert JointReduction(rule, blocks=blocks).fit(X, y).n_components_ >= 1


def test_selection_never_gives_more_directions_than_columns():
    X, y, blocks, _ = make_bilinear(4000, 10, 3, rng=0)
    for rule in ("threshold", "moments", "auto"):
        model = JointReduction(rule, blocks=blocks, whiten="diagonal", n_selected=2).fit(X, y)
        assert model.n_components_ <= 2
        assert (np.abs(model.components_).sum(axis=1) > 0).all()


def test_dask_labels_and_float32_frames(data):
    X, y, blocks = data
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcdefghijkl")).assign(y=labels)
    lazy = dd.from_pandas(frame, npartitions=3)
    columns = list("abcdefghijkl")
    one = JointReduction(2, blocks=blocks, moments="all").fit(lazy[columns], lazy["y"])
    two = JointReduction(2, blocks=blocks, moments="all").fit(frame[columns], labels)
    assert difference(one.loadings_, two.loadings_) < 1e-5
    assert one.components_.dtype == np.float32
    assert one.transform(lazy[columns]).dtype == one.transform(lazy[columns]).compute().dtype == np.float32
    three = JointReduction(2, blocks=blocks, moments="all").fit(da.from_array(X, chunks=(500, 12)), labels)
    assert (
        difference(three.loadings_, JointReduction(2, blocks=blocks, moments="all").fit(X, labels).loadings_)
        < SAME
    )


def test_many_classes_do_not_swell_the_sketches():
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((40_000, 40)), rng.integers(0, 20, 40_000)
    tracemalloc.start()
    JointReduction(2, response="labels", solver="randomized", random_state=0).fit(X, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * (8 << 20)


def test_a_dask_collection_is_read_once_per_pass():
    reads = []

    def load(block_info=None):
        reads.append(block_info[None]["chunk-location"])
        return np.random.default_rng(block_info[None]["chunk-location"][0]).standard_normal((200, 6))

    lazy = da.map_blocks(load, chunks=((200, 200, 200), (6,)), dtype=float)
    y = np.random.default_rng(9).standard_normal(600)
    reads.clear()
    with dask.config.set(scheduler="synchronous"):
        JointReduction(1, moments="all").fit(lazy, y)
    assert len(reads) == 4  # a sample from the first partition, then each of the three once
