"""No option is accepted and ignored: what another option leaves without effect is refused, with the rule and a remedy."""

import numpy as np
import pytest
from sklearn.base import clone

from colspace import (
    CopulaImputer,
    JointReduction,
    SlicedAverage,
    SlicedInverse,
    SteinReduction,
    SteinReductionCV,
    StructuredOLS,
)
from colspace.scores import GaussianScore

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.stack([X[:, 0] + X[:, 1] ** 2, X[:, 2]], axis=1)
y = Y[:, 0]
LABELS = np.array(["a", "b", "c"])[np.digitize(y, [0.2, 1.2])]
GAPS = np.where(np.arange(60)[:, None] % 3 == 0, np.nan, Y)
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
BLOCKS = {"a": [0, 1], "b": [2, 3]}


# estimator, arguments of fit, message, options under which it is accepted
CASES = [
    (
        JointReduction(1, n_power=3),
        (X, y),
        r"n_power=3 .*\(moments='auto'\)\. Remedies: solver",
        {"solver": "randomized"},
    ),
    (
        JointReduction(1, n_power=0, moments="all"),
        (X, y),
        r"n_power=0 .*\(exact\)\. Remedies",
        {"solver": "countsketch"},
    ),
    (
        JointReduction(1, n_power=0, solver="exact"),
        (X, y),
        r"n_power=0 .*\(exact\)",
        {"solver": "randomized"},
    ),
    (
        JointReduction(1, n_power=3, moments="tensor", blocks=BLOCKS),
        (X, y),
        r"n_power=3 .*\(tensor\)",
        {"moments": "joint", "solver": "randomized"},
    ),
    (
        JointReduction(1, selection="paper"),
        (X, y),
        r"n_selected=None selects none; give n_selected",
        {"selection": "refit"},
    ),
    (
        JointReduction(1, whiten="diagonal", shrinkage=0.0),
        (X, y),
        r"shrinkage=0\.0 belongs to whiten='full'",
        {"whiten": "full"},
    ),
    (
        JointReduction(1, eta=2.0, moments="joint", blocks=BLOCKS),
        (X, y),
        r"eta=2\.0 .*set one of them to 'threshold'",
        {"n_components": "threshold", "eta": 0.5},
    ),
    (SteinReduction(1, combine="mean"), (X, Y), r"order=1 has none\. Remedies: order=2", {"order": 2}),
    (
        SteinReduction(1, response="rank"),
        (X,),
        r"response='rank' transforms y.*give y, or response=None",
        None,
    ),
    (
        SteinReduction(1, whiten_response=True),
        (X,),
        r"whiten_response=True whitens y.*or whiten_response='auto'",
        None,
    ),
    (
        SteinReduction(1, unlabeled_weight=0.5),
        (X,),
        r"unlabeled_weight=0\.5 weighs.*or unlabeled_weight='auto'",
        None,
    ),
    (SteinReductionCV(1, combine="mean"), (X, Y), r"order=1 has none\. Remedies", {"order": "both"}),
    (
        SteinReductionCV(1, weights=(0.1,)),
        (X, Y),
        r"weights=\[0\.1\] are of rows without labels.*default",
        {"weights": (0.0,)},
    ),
    (
        SlicedInverse(1, n_slices=2),
        (X, LABELS),
        r"n_slices=2, but y holds 3 class labels.*Remedies: n_slices=3",
        {"n_slices": 3},
    ),
    (SlicedAverage(1, n_slices=2), (X, LABELS), r"n_slices=2, but y holds 3 class labels", {"n_slices": 3}),
    (
        StructuredOLS(1, n_slices=3),
        (X, y, LABELS),
        r"n_slices=3, but groups take the place of slices",
        {"n_slices": 1},
    ),
    (
        CopulaImputer(warm_start=True),
        (HOLES,),
        r"warm_start=True.*Remedies: the number found",
        {"n_components": 1},
    ),
    (
        CopulaImputer(method="paper"),
        (HOLES,),
        r"n_components='auto' cannot be had.*Remedies",
        {"n_components": 1},
    ),
    (
        CopulaImputer(1, method="paper", nonlinear=True),
        (HOLES,),
        r"method='paper' has no correction",
        {"nonlinear": False},
    ),
    (
        CopulaImputer(1, method="paper", correlation="full"),
        (HOLES,),
        r"method must be 'ep'",
        {"correlation": "factors"},
    ),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("model", "arguments", "message", "remedy"), CASES, ids=[str(case[0]) for case in CASES]
)
def test_refused_and_the_remedy_works(model, arguments, message, remedy):
    with pytest.raises(ValueError, match=message):
        clone(model).fit(*arguments)
    if remedy is None:
        clone(model).fit(X, Y)
    else:
        clone(model).set_params(**remedy).fit(*arguments)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_streams_refuse_the_same():
    for model, (table, *rest), message, _ in CASES:
        if hasattr(model, "partial_fit") and "tensor" not in message:
            with pytest.raises(ValueError, match=message.replace(r"\(moments='auto'\)", r"\(exact\)")):
                clone(model).partial_fit(table, *rest)
    kept = SteinReduction(1, unlabeled_weight=0.5, score_model=GaussianScore(ridge=1.0)).partial_fit(X, GAPS)
    assert kept.unlabeled_weight_ == 0.5
