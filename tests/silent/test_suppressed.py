"""``# unclobber: ignore`` and the settings of the file that enters a context count in every context."""

from __future__ import annotations

import runpy
import warnings

import pytest

import unclobber
from unclobber.session import program

PROGRAM = """
import torch, unclobber

def step(context):
    with context:
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.data.zero_()  {comment}
        y.sum().backward()
        return w.grad
"""
IGNORED = "# unclobber: ignore[UC102]"


@pytest.fixture
def step(tmp_path):
    """Gives the function of a program in a folder of its own, with the settings that are asked for."""

    def make(comment="", settings=""):
        (tmp_path / "pyproject.toml").write_text(f"[tool.unclobber]\n{settings}\n")
        path = tmp_path / "train.py"
        path.write_text(PROGRAM.format(comment=comment))
        return runpy.run_path(str(path))["step"]

    return make


@pytest.mark.parametrize(
    ("comment", "settings"),
    [
        (IGNORED, ""),
        (IGNORED, "strict = true"),
        ("", 'ignore = ["UC1"]'),
        ("", 'select = ["UC2"]\nstrict = true'),
        ("", 'per-file-ignores = {"train.py" = ["UC102"]}'),
    ],
)
def test_watch_is_silent(step, comment, settings):
    """It neither warns nor raises, nor is it among the findings; the gradient is as it is without us."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watching = unclobber.watch()
        gradient = step(comment, settings)(watching)
    assert watching.findings == ()
    assert gradient.tolist() == [0, 0, 0]


def test_the_twin_without_a_word_warns(step):
    with pytest.warns(unclobber.SilentWriteWarning):
        step()(unclobber.watch())


def test_settings_say_what_the_argument_leaves_open(step):
    """``strict`` of the project counts, and an explicit argument beats it."""
    with pytest.raises(unclobber.InplaceError):
        step("", "strict = true")(unclobber.watch())
    with pytest.warns(unclobber.SilentWriteWarning):
        step("", "strict = true")(unclobber.watch(strict=False))


def test_fingerprints_by_the_settings(step):
    watching = unclobber.watch()
    with pytest.warns(unclobber.SilentWriteWarning):
        step("", "fingerprint = 1")(watching)
    assert watching._last.fingerprint == 1
    watching = unclobber.watch(fingerprint=0)
    with pytest.warns(unclobber.SilentWriteWarning):
        step("", "fingerprint = 1")(watching)
    assert watching._last.fingerprint == 0


def test_wrong_settings_are_told_where_the_context_is_entered(step):
    with pytest.raises(unclobber.UnclobberError, match=r"no key `strct` .*did you mean `strict`"):
        step("", "strct = true")(unclobber.watch())


def test_guard_gives_the_right_gradient_all_the_same(step):
    """What it repairs is told, whatever a comment says."""
    guarding = unclobber.guard()
    gradient = step(IGNORED)(guarding)
    assert gradient.tolist() == pytest.approx([2.7182817] * 3)
    assert [finding.repaired for finding in guarding.conflicts] == [True]


def test_audit_keeps_what_is_suppressed_apart(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.unclobber]\nignore = ["UC102"]\n')
    path = tmp_path / "audited.py"
    path.write_text(
        "import contextlib, unclobber\n"
        + PROGRAM.format(comment="")
        + "report = unclobber.audit(step, contextlib.nullcontext())\n"
    )
    report = runpy.run_path(str(path))["report"]
    assert (report.outcome, report.findings) == ("clean", ())
    assert [(one.finding.code, one.by) for one in report.suppressed] == [("UC102", "settings")]


def test_what_guard_can_not_give_back_is_refused_all_the_same(tmp_path):
    """A recomputation that reads other values has no right gradient to go on with."""
    path = tmp_path / "recomputed.py"
    path.write_text(
        "import torch, unclobber\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "scale = torch.ones(3)\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "with unclobber.guard() as guarding:\n"
        "    y = checkpoint(lambda x: x * scale, x, use_reentrant=False)\n"
        "    scale.mul_(2)  # unclobber: ignore\n"
        "    try:\n"
        "        y.sum().backward()\n"
        "    except unclobber.InplaceError as error:\n"
        "        code = error.finding.code\n"
        "findings = guarding.findings\n"
    )
    ran = runpy.run_path(str(path))
    assert (ran["code"], [finding.code for finding in ran["findings"]]) == ("UC105", ["UC105"])


def test_a_comment_that_can_not_be_read_suppresses_nothing(step, monkeypatch):
    """A fault of ours costs the suppression, never the finding."""
    from unclobber.settings import suppression

    def broken(path):
        raise OSError("gone")

    monkeypatch.setattr(suppression.IgnoreComment, "all_in", broken)
    with pytest.warns(unclobber.SilentWriteWarning):
        step(IGNORED)(unclobber.watch())


def test_settings_that_change_while_it_runs(tmp_path, monkeypatch):
    """Files are looked for once a second, for a context may be entered in each step."""
    now = [100.0]
    monkeypatch.setattr(program, "monotonic", lambda: now[0])
    path = tmp_path / "train.py"
    path.write_text("from unclobber.session.program import settings_here\nask = lambda: settings_here()\n")
    ask = runpy.run_path(str(path))["ask"]
    assert ask().strict is False
    (tmp_path / "pyproject.toml").write_text("[tool.unclobber]\nstrict = true\n")
    assert ask().strict is False
    now[0] += 1
    assert ask().strict is True
