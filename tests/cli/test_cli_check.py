"""The check of ``colspace reduce`` on rows left out is of the model that was asked for, on the rows that it can use."""

import numpy as np
import pandas as pd
import pytest

from colspace import JointReduction, compare_reductions
from colspace.cli._check import quality_of
from colspace.cli._table import Choice, choose_columns, split_table

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((90, 4)), columns=list("abcd"))
TOLD = X["a"] - X["b"] + 0.5 * RNG.standard_normal(90)


def test_rows_without_one_of_the_responses_are_no_part_of_fit_and_check():
    frame = X.assign(y=TOLD, z=TOLD[::-1].to_numpy()).mask(
        np.arange(90)[:, None] % 9 == np.array([-1] * 4 + [0, 1])
    )
    parts = split_table(frame, Choice(list("abcd"), ["y", "z"], []))
    assert len(parts.labelled().X) == 70
    model = JointReduction(1).fit(parts.labelled().X, parts.labelled().y)
    found = quality_of(model, parts, None, 0)
    assert found["rows"] == 70
    assert found["metric"] == "R2"


@pytest.mark.parametrize(("response", "metric"), [("labels", "accuracy"), ("rank", "R2"), (None, "R2")])
def test_the_response_is_taken_as_in_the_fit(response, metric):
    y = (TOLD > 0).astype(int) if response == "labels" else np.exp(TOLD)
    parts = split_table(X.assign(y=y), Choice(list("abcd"), ["y"], []))
    found = quality_of(JointReduction(1, response=response).fit(X, y), parts, None, 0)
    assert found["metric"] == metric
    direct = compare_reductions(
        X, y, reducers={"ours": JointReduction(response=response)}, n_components=1, response=response
    )
    assert found["scores"][0]["score"] == pytest.approx(direct.row("ours").score)


def test_a_counted_rank_of_moments_is_checked_with_these_moments():
    parts = split_table(X.assign(y=TOLD), Choice(list("abcd"), ["y"], []))
    model = JointReduction("threshold", random_state=0).fit(X, TOLD)
    assert not hasattr(model, "parts_")
    found = quality_of(model, parts, None, 0)
    scores = [
        compare_reductions(X, TOLD, reducers={"ours": JointReduction(moments=m)}, n_components=1)
        .row("ours")
        .score
        for m in ("all", "auto")
    ]
    assert scores[0] != scores[1]
    assert found["scores"][0]["score"] == pytest.approx(scores[0])


def test_columns_stay_in_the_order_of_the_table():
    found = choose_columns(list("yabcd"), ["y"], [], [], {"two": ["d", "b"], "one": ["a"]}, drop_rest=True)
    assert found.features == ["a", "b", "d"]
