"""Reference directions from statsmodels: ``python tests/reference/make_dimred.py`` writes dimred.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20240601


def make_data(seed: int = SEED) -> tuple[Any, Any]:
    """200 correlated rows of 5 columns, a response with a monotone and an even part."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(5) + 0.4 * rng.standard_normal((5, 5))
    X = rng.standard_normal((200, 5)) @ mixing + np.arange(5.0)
    y = np.exp(0.3 * X[:, 0]) + (X[:, 1] - X[:, 2]) ** 2 + 0.3 * rng.standard_normal(200)
    return X, y


def main() -> None:
    """Fit statsmodels' estimators on the data and write what they found."""
    import statsmodels
    from statsmodels.regression.dimred import (
        PrincipalHessianDirections,
        SlicedAverageVarianceEstimation,
        SlicedInverseReg,
    )

    X, y = make_data()
    fits = {
        "sir": SlicedInverseReg(y, X).fit(slice_n=20),
        "save": SlicedAverageVarianceEstimation(y, X).fit(slice_n=20),
        "phd": PrincipalHessianDirections(y, X).fit(),
        "phd_residuals": PrincipalHessianDirections(y, X).fit(resid=True),
    }
    out: dict[str, Any] = {"seed": SEED, "statsmodels": statsmodels.__version__, "n_slices": 10}
    for name, fit in fits.items():
        out[name] = {
            "directions": np.real(np.asarray(fit.params)).tolist(),
            "eigenvalues": np.real(np.asarray(fit.eigs)).tolist(),
        }
    Path(__file__).with_name("dimred.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
