"""The derivative table and what autograd really does, over torch's operation database."""

from __future__ import annotations

import dataclasses

import pytest

from unclobber.derivatives import check as rules_check
from unclobber.derivatives.check import check

SEEDED = (
    "exp", "mul", "mm", "pow", "sigmoid", "add", "addmm", "nn.functional.linear", "nn.functional.relu",
    "nn.functional.elu", "nn.functional.bilinear", "softmax", "clamp", "matmul", "where", "cat", "max",
)  # fmt: skip


@pytest.mark.parametrize("name", SEEDED)
def test_a_few_agree(name):
    """What is saved, what may be overwritten and what the in-place variant keeps."""
    results = list(check(samples=3, only=[name]))
    assert results
    assert all(one.agrees for one in results), results


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_all_agree():
    """At least 97 % of the operations that the database can run; each disagreement has its reason."""
    ran = [one for one in check() if one.runs]
    assert len(ran) > 500
    assert sum(one.agrees for one in ran) >= 0.97 * len(ran)
    assert all(found.why for one in ran for found in one.disagreements)


def test_a_wrong_table_is_caught(monkeypatch):
    """The comparison can fail: a table that says exp keeps its input."""
    right = rules_check.by_node

    def wrong(name):
        rule = right(name)
        if name != "ExpBackward0":
            return rule
        kept = rule.kept[0]._replace(role="self", output=False)
        return dataclasses.replace(rule, kept=(kept,))

    monkeypatch.setattr(rules_check, "by_node", wrong)
    (result,) = check(samples=1, only=["exp"])
    assert {found.question for found in result.disagreements} == {"keeps"}


def test_a_wrong_verdict_is_caught(monkeypatch):
    """The comparison can fail: torch's refusals turned round."""
    right = rules_check._refused

    def wrong(*args, **kwargs):
        answer = right(*args, **kwargs)
        return None if answer is None else not answer

    monkeypatch.setattr(rules_check, "_refused", wrong)
    (result,) = check(samples=1, only=["exp"])
    assert {found.question for found in result.disagreements} == {"overwrite"}
