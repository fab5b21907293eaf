"""Promises on simulated truth: error rates, their slopes, and what each solver costs in accuracy.

Small versions of benchmarks/accuracy.py. Bands are about four standard errors of the mean over the seeds.
"""

import numpy as np
import pytest

from colspace import JointReduction
from colspace.datasets import make_bilinear, make_rbf
from colspace.metrics import nsee


def mean_nsee(make, sizes, seeds=6, r=3, **fit):
    errors = []
    for options in sizes:
        runs = []
        for seed in range(seeds):
            X, y, blocks, truth = make(n_components=r, rng=seed, **options)
            runs.append(
                nsee(truth, JointReduction(r, blocks=blocks, n_groups=None, **fit).fit(X, y).loadings_)
            )
        errors.append(np.mean(runs))
    return np.array(errors)


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


@pytest.mark.parametrize("moments", ["joint", "all"])
def test_error_falls_as_one_over_root_m(moments):
    m = [2000, 6000, 18_000]
    errors = mean_nsee(make_bilinear, [{"n_samples": k, "n_features": 20} for k in m], moments=moments)
    assert slope(m, errors) == pytest.approx(-0.5, abs=0.08)


def test_error_grows_as_root_n():
    n = [10, 20, 40]
    errors = mean_nsee(make_bilinear, [{"n_samples": 12_000, "n_features": k} for k in n], moments="joint")
    assert slope(n, errors) == pytest.approx(0.5, abs=0.12)


def test_selection_error_falls_as_one_over_root_m_and_grows_with_s():
    fit = {"moments": "joint", "whiten": "diagonal"}
    m = [4000, 12_000, 36_000]
    sizes = [{"n_samples": k, "n_features": 40, "n_active": 6} for k in m]
    assert slope(m, mean_nsee(make_bilinear, sizes, n_selected=6, **fit)) == pytest.approx(-0.5, abs=0.12)
    errors = [
        mean_nsee(
            make_bilinear, [{"n_samples": 12_000, "n_features": 40, "n_active": s}], n_selected=s, **fit
        )[0]
        for s in (4, 8)
    ]
    assert 0.5 < slope([4, 8], errors) < 1.5


def test_selection_beats_the_published_variant_and_no_selection():
    size = [{"n_samples": 2000, "n_features": 40, "n_active": 6}]
    fit = {"moments": "joint", "whiten": "diagonal"}
    none = mean_nsee(make_bilinear, size, **fit)[0]
    paper = mean_nsee(make_bilinear, size, n_selected=6, selection="paper", **fit)[0]
    refit = mean_nsee(make_bilinear, size, n_selected=6, **fit)[0]
    assert refit < paper < none


def test_all_moments_beat_the_joint_one_on_the_rbf_link():
    size = [{"n_samples": 20_000, "n_features": 12}]
    joint = mean_nsee(make_rbf, size, r=2, moments="joint")[0]
    everything = mean_nsee(make_rbf, size, r=2)[0]
    assert everything < 0.8 * joint


@pytest.mark.parametrize("solver", ["randomized", "countsketch"])
def test_two_power_iterations_reach_the_exact_error(solver):
    size = [{"n_samples": 4000, "n_features": 60}]
    exact = mean_nsee(make_bilinear, size, seeds=3, moments="joint")[0]
    fast = mean_nsee(make_bilinear, size, seeds=3, moments="joint", solver=solver, random_state=0)[0]
    printed = mean_nsee(
        make_bilinear, size, seeds=3, moments="joint", solver=solver, n_power=0, random_state=0
    )[0]
    assert fast < 1.03 * exact
    assert printed > 1.1 * exact
