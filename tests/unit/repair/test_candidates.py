"""One candidate edit in a report: where it is certain enough, with the right lines, and never at any cost."""

from __future__ import annotations

import contextlib
import runpy
from dataclasses import replace

import pytest

import unclobber
from programs.running import with_edits
from unclobber.model import Edit, Report
from unclobber.repair import _plan, with_candidates
from unclobber.repair import candidates as module
from unclobber.repair.project import Project
from unclobber.static import check_files

HEAD = "import torch\n\nw = torch.ones(3, requires_grad=True)\n"
REFUSED = HEAD + "y = w.exp()\nz = y * w\ny *= 2  # scaled\n(z + y).sum().backward()\n"


def reported(path, text=None):
    """The report of a run of a script, as ``unclobber run script.py`` has it before anything is added."""
    if text is not None:
        path.write_bytes(text.encode())
    with contextlib.suppress(unclobber.InplaceError), unclobber.watch() as watched:
        runpy.run_path(str(path), run_name="__main__")
    return Report("refused", watched.findings, command=("script.py", "--lr", "1"))


def candidate(report, path):
    """The first finding's edit; None where it has none."""
    fixes = with_candidates(report, str(path)).findings[0].fixes
    return next((fix for fix in fixes if fix.edits), None)


def test_the_edit(tmp_path):
    """The line to write, where, and what proves it; it stands in place of general words."""
    path = tmp_path / "script.py"
    report = reported(path, REFUSED)
    first, *others = with_candidates(report, str(path)).findings[0].fixes
    assert first.edits == (Edit(str(path), 6, "y *= 2  # scaled", "y = y * 2  # scaled"),)
    assert (first.title, first.code) == ("write `y` into a new tensor, in line 6", "y = y * 2")
    assert first.proved_by == "unclobber fix script.py --lr 1"
    assert first.verified is False
    assert "-y *= 2" in first.diff
    assert [fix.guard for fix in others] == [True]
    elsewhere = [replace(finding, processes=("SpawnProcess-1",)) for finding in report.findings]
    # What a process of the script's own runs, `fix` does not follow.
    assert candidate(replace(report, findings=tuple(elsewhere)), path).proved_by is None


def test_advice_without_code_keeps_its_own_words(tmp_path):
    """An edit of two words, `loss.backward(retain_graph=True)`, takes the place of none."""
    path = tmp_path / "script.py"
    report = reported(path, f"{HEAD}loss = w.exp().sum()\nfor _ in range(2):\n    loss.backward()\n")
    fixes = with_candidates(report, str(path)).findings[0].fixes
    (edit,) = [fix for fix in fixes if fix.edits]
    assert edit.title.startswith("keep the graph in `loss.backward()`")
    assert [fix for fix in fixes if fix is not edit] == list(report.findings[0].fixes)


def test_each_finding_has_its_own(tmp_path):
    """Also those which backward did not come to."""
    path = tmp_path / "script.py"
    found = with_candidates(reported(path, REFUSED), str(path)).findings
    assert len(found) == 2
    assert all(any(fix.edits for fix in finding.fixes) for finding in found)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("y = x.mul_(2) if x.sum() < 0 else x.div_(2)", "y = x.mul_(2) if x.sum() < 0 else (x := x.div(2))"),
        ("y = torch.zeros(3); y += x.mul_(2)", "y = torch.zeros(3); y += (x := x.mul(2))"),
        ("y = torch.zeros(3); y[0] += x.mul_(2).sum()", "y = torch.zeros(3); y[0] += (x := x.mul(2)).sum()"),
        ("y = torch.zeros(3); y[0] = x.mul_(2).sum()", "y = torch.zeros(3); y[0] = (x := x.mul(2)).sum()"),
        ("y = [0.0]; y[0] += x.mul_(2).sum()", "y = [0.0]; y[0] += (x := x.mul(2)).sum()"),
        ("y = torch.zeros(3); y += x.mul_(2).div_(3)", "y = torch.zeros(3); y += (x := x.mul(2).div(3))"),
        ("y = torch.zeros(3); y.add_(x.mul_(2))", "y = torch.zeros(3); y.add_((x := x.mul(2)))"),
        ("y = torch.zeros(3); y += torch.nn.ReLU(True)(x)", "x = w.exp().clone()"),
    ],
)
def test_the_call_that_wrote(tmp_path, line, code):
    """Of several in one statement, or in one that writes something else itself, no other is edited."""
    path = tmp_path / "script.py"
    text = f"{HEAD}x = w.exp()\n{line}\n(y[0] + x).sum().backward()\n"
    edit = candidate(reported(path, text), path)
    assert edit.code == code
    path.write_text(with_edits(text, edit.edits))
    with unclobber.watch():
        runpy.run_path(str(path))


def test_windows_line_ends_stay(tmp_path):
    """No carriage return is lost, and none is part of a line's text."""
    path = tmp_path / "script.py"
    text = REFUSED.replace("\n", "\r\n")
    (edit,) = candidate(reported(path, text), path).edits
    assert (edit.old, edit.new) == ("y *= 2  # scaled", "y = y * 2  # scaled")


@pytest.mark.parametrize(
    ("old", "new", "edit"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", (2, "b", "B")),
        ("a\nb\n", "a\nx\nb\n", (1, "a", "a\nx")),
        ("a\nb\n", "x\na\nb\n", (1, "a", "x\na")),
        ("a\nb\nc\n", "a\nc\n", (1, "a\nb", "a")),
        ("a\nb", "b", (1, "a\nb", "b")),
        ("a\nb", "a\nb\nc", (2, "b", "b\nc")),
    ],
)
def test_edits_are_whole_lines(tmp_path, old, new, edit):
    """Lines that are put in or taken out come with the one beside them: no edit is empty."""
    path = tmp_path / "a.py"
    path.write_text(old)
    (found,) = Project(str(tmp_path)).edits({str(path): new})
    assert (found.line, found.old, found.new) == edit
    lines = old.split("\n")
    lines[found.line - 1 : found.end_line] = found.new.split("\n")
    assert "\n".join(lines) == new


CARRIED = HEAD + "h = torch.ones(3)\nfor _ in range(2):\n    h = h * w.exp()\n    h.sum().backward()\n"
DOUBTFUL = {
    "somebody else may hold it": HEAD
    + "y = w.exp()\nkeep = [y]\nz = torch.sqrt(y.mul_(2))\ny.mul_(2)\n(z + keep[0]).sum().backward()\n",
    "an optimizer's step": HEAD
    + "opt = torch.optim.SGD([w], lr=1.0)\nloss = (w * w.exp()).sum()\nloss.backward(retain_graph=True)\n"
    "opt.step()\nloss.backward()\n",
}


PART = HEAD + "i = {index}\ny = w.exp()\ny[i] = 0.5\n(y * w).sum().backward()\n"


@pytest.mark.parametrize(
    ("index", "code"),
    [
        ("torch.tensor([2, 0])", None),
        ("(w > 0)", "y = y.masked_fill(i, 0.5)"),
        ("~torch.isnan(w)", "y = y.masked_fill(i, 0.5)"),
    ],
)
def test_a_part_is_filled_by_mask_only_where_it_is_one(tmp_path, index, code):
    """``y[i] = 0.5`` takes indices, too, which ``masked_fill`` refuses: the candidate runs in each case, with
    the gradient of the program as written."""
    path = tmp_path / "script.py"
    found = candidate(reported(path, PART.format(index=index)), path)
    assert code is None or found.code == code
    assert "masked_fill" not in found.diff or code is not None
    _runs_rightly(path, found)


def _runs_rightly(path, fix):
    with unclobber.guard():
        expected = runpy.run_path(str(path))["w"].grad
    path.write_text(with_edits(path.read_text(), fix.edits))
    assert runpy.run_path(str(path))["w"].grad.equal(expected)


WRITTEN_AGAIN = {
    "the first write is to be edited": ("y = w.exp()\ny[w > 0] = 0.5\ny /= y.sum()\nz = y", "(w > 0, 0.5)"),
    "a new tensor would lose the gradient": (
        "y = w.exp()\nwith torch.no_grad(): y *= 2\nz = y",
        "w.exp().clone()",
    ),
    "so would one that is filled by a mask": (
        "y = w.exp()\nwith torch.no_grad(): y[w > 0] = 0.5\nz = y",
        "w.exp().clone()",
    ),
    "so would one in a function that records nothing": (
        "y = w.exp()\n@torch.no_grad()\ndef halve(t):\n    t *= 0.5\n    return t\nz = halve(y)",
        "w.exp().clone()",
    ),
    "another name sees the writes": ("v = w * 1\ny = v.mul_(0.5).exp_()\nz = y.mul_(2) + v", "v.copy_("),
}


@pytest.mark.parametrize("name", WRITTEN_AGAIN)
def test_several_writes(tmp_path, name):
    """The edit cures the whole: an edit of a later write alone would leave the first."""
    text, part = WRITTEN_AGAIN[name]
    path = tmp_path / "script.py"
    fix = candidate(reported(path, f"{HEAD}{text}\n(z * w).sum().backward()\n"), path)
    assert part in fix.code
    _runs_rightly(path, fix)


def test_an_optimizers_step_is_no_line_to_edit(tmp_path):
    """Where to step is the user's to decide: words."""
    path = tmp_path / "script.py"
    report = reported(path, DOUBTFUL["an optimizer's step"])
    fix = candidate(report, path)
    assert fix is None or ".clone()" in fix.code


def test_who_looks_for_an_edit_is_named(tmp_path):
    """Where every edit is in doubt, the command that tries them; for a script alone, which it can run."""
    path = tmp_path / "script.py"
    report = reported(path, CARRIED)
    told = with_candidates(report, str(path)).findings[0].fixes
    assert not any(fix.edits for fix in told)
    said = "`unclobber fix script.py --lr 1` looks for an edit, and proves it by running it"
    assert [fix.title for fix in told].count(said) == 1
    assert with_candidates(report).findings == report.findings


def test_never_for_another_holder(tmp_path):
    """Nobody loses a write by a candidate: of two ways the one is shown that hides none."""
    path = tmp_path / "script.py"
    fix = candidate(reported(path, DOUBTFUL["somebody else may hold it"]), path)
    assert fix is None or "into a new tensor" not in fix.title


KEPT_TWICE = """
class Bank:
    rows = torch.ones(3)

    def read(self):
        y = (w * self.rows).sum() + (w / self.rows).sum()
        self.rows += 1
        return y

Bank().read().backward()
"""


def test_the_edit_at_a_write_to_what_others_may_hold(tmp_path):
    """It ends both findings of that write, so it comes first, and says on what it depends."""
    path = tmp_path / "script.py"
    first, second, *_ = with_candidates(reported(path, HEAD + KEPT_TWICE), str(path)).findings[0].fixes
    assert first.title.endswith("unless other code holds the old one, in line 10")
    assert first.code == "self.rows = self.rows + 1"
    assert ".clone()" in second.code
    _runs_rightly(path, first)


def test_the_edit_at_a_write_of_a_whole_tensor(tmp_path):
    """Its shape may be one that the write broadcasts, so binding it comes second, and says so."""
    path = tmp_path / "script.py"
    loop = "for _ in range(2):\n    state[:] = w.sin() * state\n"
    found = reported(path, f"{HEAD}state = torch.ones(3)\n{loop}state.sum().backward()\n")
    first, second, *_ = with_candidates(found, str(path)).findings[0].fixes
    assert first.code == "state[:] = w.sin() * state.clone()"
    assert second.title == "or bind `state` to the new values if they have its shape and dtype, in line 6"
    assert second.code == "state = w.sin() * state"
    _runs_rightly(path, second)


def test_the_edit_of_a_hook_alone(tmp_path):
    """A name that the hook binds anew is lost with it, because torch holds what it was given."""
    path = tmp_path / "script.py"
    lines = (
        "net = torch.nn.Softmax(0)",
        "def sharpen(module, args, out):",
        "    out.pow_(2)",
        "    out.div_(out.sum())",
        "net.register_forward_hook(sharpen)",
        "net(w * 1)[0].backward()",
    )
    fixes = with_candidates(reported(path, HEAD + "\n".join(lines)), str(path)).findings[0].fixes
    (only,) = [fix for fix in fixes if fix.edits]
    assert "+    return out" in only.diff
    _runs_rightly(path, only)


ALONE = {
    "a module's result": ("y = act(w * 1)\ny += 1\n", "y = y + 1"),
    "another name's tensor": ("x = act(w * 1)\ny = x\ny += 1\n", None),
    "a part": ("y = act(w * 1)[:2]\ny += 1\n", None),
    "a view": ("y = act(w * 1).view(3)\ny += 1\n", None),
    "an entry": ("ys = {0: act(w * 1)}\ny = ys[0]\ny += 1\n", None),
    "what the caller reads": ("def turn(y):\n    y.mul_(2)\n    y.add_(1)\ny = act(w * 1)\nturn(y)\n", None),
    "a global's": ("y = act(w * 1)\ndef add():\n    y.add_(1)\n    return y\nadd()\n", None),
}


@pytest.mark.parametrize("name", ALONE)
def test_the_edit_at_a_write_alone(tmp_path, name):
    """The module may keep its result, so no other edit is sure: shown if no other name shares the tensor."""
    text, code = ALONE[name]
    path = tmp_path / "script.py"
    act = "act = torch.nn.LeakyReLU(inplace=True)\n"
    fix = candidate(reported(path, f"{HEAD}{act}{text}y.sum().backward()\n"), path)
    assert (fix and fix.code) == code
    if fix:
        assert "unless other code holds the old one" in fix.title
        _runs_rightly(path, fix)


def test_the_part_that_an_unnamed_save_keeps(tmp_path):
    """einsum saves a view of its own making of what is written: the part is cloned where it is bound."""
    path = tmp_path / "script.py"
    text = "x = w.outer(w).sin()\nlow = x[:2]\nb = x[2:].clone().expand(3, 3)\n"
    text += "x[:2] = torch.einsum('im,jm->ij', low, b)\n"
    fix = candidate(reported(path, f"{HEAD}{text}x.sum().backward()\n"), path)
    assert fix.code == "low = x[:2].clone()"
    _runs_rightly(path, fix)


def test_no_edit_at_a_later_write(tmp_path):
    """The first one has no out-of-place form here, and would still overwrite what is saved."""
    text = HEAD + KEPT_TWICE.replace(
        "        self.rows += 1\n", "        self.rows[0] = 5\n        self.rows += 1\n"
    )
    fixes = (
        with_candidates(reported(tmp_path / "script.py", text), str(tmp_path / "script.py")).findings[0].fixes
    )
    assert [fix.code for fix in fixes if fix.edits and "clone()" not in fix.code] == []


def test_a_file_that_has_changed(tmp_path):
    """What ran is not there any more: no edit of another program."""
    path = tmp_path / "script.py"
    report = reported(path, REFUSED)
    path.write_text("# new\n" + REFUSED)
    assert with_candidates(report, str(path)) == report


def test_a_long_file_is_not_parsed(tmp_path):
    """It would hold up a report."""
    path = tmp_path / "script.py"
    report = reported(path, REFUSED + "#" * module.LONGEST)
    assert with_candidates(report, str(path)) == report


def test_enough_was_read(tmp_path, monkeypatch):
    """After the limit of characters only the first finding has been looked at."""
    monkeypatch.setattr(module, "MOST_READ", 0)
    path = tmp_path / "script.py"
    found = with_candidates(reported(path, REFUSED), str(path)).findings
    assert [any(fix.edits for fix in finding.fixes) for finding in found] == [True, False]


def test_a_fault_leaves_the_report(tmp_path, monkeypatch):
    """Words alone are better than no report."""

    def broken(*_):
        raise ValueError("broken")

    path = tmp_path / "script.py"
    report = reported(path, REFUSED)
    monkeypatch.setattr(_plan, "candidates", broken)
    assert with_candidates(report, str(path)) == report


def test_installed_code_is_left_alone(tmp_path):
    """What lies in ``site-packages`` is nobody's to edit."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    path = folder / "script.py"
    report = reported(path, REFUSED)
    assert with_candidates(report, str(tmp_path / "other.py")) == report


def test_the_edit_at_a_write_to_a_part(tmp_path):
    """Another line has saved the memory, too, so only a new tensor at the write ends both findings."""
    path = tmp_path / "script.py"
    body = "def couple(z):\n    gate = z[:1] * w[:1]\n    z[1:] = z[1:] * gate.exp()\n    return z\n"
    found = reported(path, f"{HEAD}{body}couple(w * 1).sum().backward()\n")
    first, second, *_ = with_candidates(found, str(path)).findings[0].fixes
    assert ".clone()" in first.code
    assert second.code == "z = z.slice_scatter(z[1:] * gate.exp(), 0, 1)"
    assert second.title.startswith(
        "or build the new `z` with `slice_scatter` unless other code holds the old one"
    )
    _runs_rightly(path, second)


@pytest.mark.parametrize(
    ("made", "code"),
    [("{'a': w * 1}", "held[key] = held[key] + 1"), ("torch.stack([w, w])", None), ("load(w)", None)],
)
def test_the_edit_at_an_element_of_a_container(made, code, tmp_path):
    """Only if the text shows a list or dict: in a tensor's place the assignment is a write, too."""
    path = tmp_path / "script.py"
    key = "'a'" if "'a'" in made else "0"
    body = f"def load(x):\n    return [x * 1]\nheld, key = {made}, {key}\n"
    body += "y = held[key].square().sum()\nheld[key] += 1\n(y + held[key].sum()).backward()\n"
    fixes = with_candidates(reported(path, HEAD + body), str(path)).findings[0].fixes
    shown = [fix for fix in fixes if fix.code == "held[key] = held[key] + 1"]
    assert [fix.code for fix in shown] == ([code] if code else [])
    for fix in shown:
        assert "unless other code holds the old one" in fix.title
        _runs_rightly(path, fix)


def test_the_edit_of_a_write_is_first_where_several_lines_saved(tmp_path):
    """Else each of the lines that saved needs an edit of its own; after one, a copy comes first."""
    path = tmp_path / "script.py"
    body = (
        "def run(h):\n    a = h ** 2\n{}    h.mul_(2)\n    return a.sum() + h.sum()\nrun(w * 1).backward()\n"
    )
    saves = ("", "    a = a + h ** 3\n")
    once, twice = (with_candidates(reported(path, HEAD + body.format(more)), str(path)) for more in saves)
    assert [fix.title.split(",")[0] for fix in once.findings[0].fixes[:2]] == [
        "clone `h` before it is saved",
        "or write `h` into a new tensor unless other code holds the old one",
    ]
    assert [fix.title.split(",")[0] for fix in twice.findings[0].fixes[:2]] == [
        "write `h` into a new tensor unless other code holds the old one",
        "or clone `h` before it is saved",
    ]


RESCALE = (
    HEAD
    + """
def rescale(h):
    low = h.amin()
    high = h.amax()
    return h.sub_(low).div_(high - low)

class Rescale(torch.nn.Module):
    def forward(self, h):
        low = h.amin()
        high = h.amax()
        return h.sub_(low).div_(high - low)
"""
)


@pytest.mark.parametrize(
    ("calls", "is_first"),
    [
        ("a = w * 2\nh = rescale(a)\n(h.sum() + a.sum())", False),
        ("a = w * 2\nh = Rescale()(a)\n(h.sum() + a.sum())", False),
        ("a = w * 2\nh = rescale(a) + a\nh.sum()", False),
        ("def run(a):\n    return rescale(a), a.sum()\nh = rescale(w * 2)\nh.sum()", False),
        ("a = w * 2\na = rescale(a)\n(a.sum() + a.exp().sum())", True),
        ("a = w * 2\nh = rescale(a)\nh.sum()", True),
    ],
)
def test_the_edit_of_a_write_is_second_where_a_caller_reads_what_it_hands_over(tmp_path, calls, is_first):
    """By another name than the result's: it reads what is written, which a new tensor would hide from it."""
    path = tmp_path / "script.py"
    report = with_candidates(reported(path, f"{RESCALE}{calls}.backward()\n"), str(path))
    titles = [fix.title.removeprefix("or ").split(",")[0] for fix in report.findings[0].fixes[:2]]
    write = "write the result into a new tensor unless other code holds the old one"
    assert titles.index(write) == (not is_first)
    assert titles[is_first] == "clone `h` before it is saved"


@pytest.mark.parametrize(("loop", "is_shown"), [("for _ in range(2):\n", False), ("if True:\n", True)])
@pytest.mark.parametrize("write", ["w.clamp_(0, 4)", "s = w.clamp_(0, 4).exp()"])
def test_a_leaf_that_is_trained_stays_the_leaf(tmp_path, write, loop, is_shown):
    """The next turn would write to a new tensor of its name, whose graph the turn before has freed."""
    path = tmp_path / "script.py"
    fixes = with_candidates(
        reported(path, f"{HEAD}{loop}    {write}\n    (w * 2).sum().backward()\n"), str(path)
    )
    assert any("w = w." in (fix.diff or "") for fix in fixes.findings[0].fixes) is is_shown


@pytest.mark.parametrize(("kept", "is_said"), [("h", True), ("h.sum()", False)])
def test_the_edit_of_a_write_to_what_a_list_collects_is_first(tmp_path, kept, is_said):
    """A copy for backward would leave all items of the list the same tensor."""
    path = tmp_path / "script.py"
    body = "h, hs = w * 1, []\nfor _ in range(2):\n    h += h.exp() * h.square()\n"
    text = f"{HEAD}{body}    hs.append({kept})\nsum(h.sum() for h in hs).backward()\n"
    report, project = reported(path, text), Project(str(tmp_path))
    first, *_ = with_candidates(report, str(path)).findings[0].fixes
    new = "write `h` into a new tensor, so that each item of `hs` keeps its values, in line 6"
    assert (first.title == new) is is_said
    # `fix`, which proves the copy, says what it leaves.
    for each in _plan.candidates(report.findings[0], project):
        note = _plan.with_note(each, report.findings[0], project).note
        assert note.startswith("each item of `hs` stays") is (is_said and each.fixer == "clone-saved")


def test_the_edit_of_a_write_through_a_detached_name_is_first(tmp_path):
    """A copy for backward would leave the other name with the written values."""
    path = tmp_path / "script.py"
    text = "{}m.mul_(2)\nprint(m)\nz.sum().backward()\n"
    computed = text.format(f"{HEAD}y = w.softmax(-1)\nz = y * 2\nm = y.detach()\n")
    first, second, *_ = with_candidates(reported(path, computed), str(path)).findings[0].fixes
    assert first.title == "write `m` into a new tensor, so that `y` keeps its values, in line 7"
    assert second.title.startswith("or let the write go to a copy of `w.softmax(-1)`")
    leaf = text.format(f"{HEAD}z = w.exp() * w.square()\nm = w.detach()\n")
    first, second, *_ = with_candidates(reported(path, leaf), str(path)).findings[0].fixes
    assert "keeps its values" not in first.title + second.title


def test_a_copy_to_write_to_is_first_where_several_lines_saved(tmp_path):
    """It ends both findings, and the line is the one before which it is inserted."""
    path = tmp_path / "script.py"
    text = f"{HEAD}y = w.exp()\nz = y[:2].log()\ny[0] = 1\n(z.sum() + y.log().sum()).backward()\n"
    first, *_ = with_candidates(reported(path, text), str(path)).findings[0].fixes
    assert first.title == "write to a copy of `y`, in line 6"
    assert first.edits == (Edit(str(path), 5, "z = y[:2].log()", "z = y[:2].log()\ny = y.clone()"),)


def test_a_folder_of_many_findings(tmp_path):
    """Each of twelve has its edit, because the limit is what is parsed."""
    for number in range(12):
        (tmp_path / f"net_{number}.py").write_text(REFUSED)
    checked = check_files(sorted(map(str, tmp_path.glob("*.py"))))
    report = with_candidates(Report("suspected", tuple(each for file in checked for each in file.findings)))
    assert [any(fix.edits for fix in finding.fixes) for finding in report.findings] == [True] * 12


WRITES_PART = HEAD + "x = w.outer(w).exp()\nq, k = {made}\nfor t in (q, k):\n    {write}\n"
WRITES_PART += "(q.sum() * k.sum()).backward()\n"


@pytest.mark.parametrize(
    ("write", "new"),
    [
        ("t /= t.norm()", "t /= t.clone().norm()"),
        ("t.div_(torch.norm(t))", "t.div_(torch.norm(t.clone()))"),
        ("t -= t.mean()", "t -= t.mean()"),
    ],
)
@pytest.mark.parametrize("made", ["(x + 1).chunk(2)", "(x + 1).split([1, 2])"])
def test_what_the_refused_write_itself_saves_is_copied_with_the_parts(tmp_path, made, write, new):
    """Else the edit of the views alone would be refused at the backward that needs what this line saved."""
    path = tmp_path / "script.py"
    text = WRITES_PART.format(made=made, write=write)
    fix = candidate(reported(path, text), path)
    copied = tmp_path / "copied.py"
    copied.write_text(text.replace(made, f"[part.clone() for part in {made}]"))
    with unclobber.guard():
        expected = runpy.run_path(str(copied))["w"].grad
    path.write_text(with_edits(text, fix.edits))
    assert runpy.run_path(str(path))["w"].grad.equal(expected)
    assert [edit.new.strip() for edit in fix.edits][1:] == ([new] if new != write else [])
    assert ("clone `t` before it is saved" in fix.title) is (new != write)


AGAIN = {
    "a name": ("c = w.detach() * 2", "c", "c.mul_(3)", None),
    "an attribute": ("net.c = w.detach() * 2", "net.c", "net.c *= 3", None),
    "an entry": ("net.c = [w.detach() * 2]", "net.c[0]", "net.c[0] *= 3", None),
    "a part": ("c = w.detach() * 2", "c", "c[0] = 3", None),
    "another name": ("c = w.detach() * 2", "c", "d = c.mul_(3)", "d = c.mul(3)"),
}


@pytest.mark.filterwarnings("ignore::unclobber.SilentWriteWarning")
@pytest.mark.parametrize("name", AGAIN)
def test_no_name_that_a_recomputation_reads_is_bound(tmp_path, name):
    """It would read the new tensor, unobserved, and `fix` has nothing to compare an edit with."""
    made, read, written, code = AGAIN[name]
    path = tmp_path / "script.py"
    call = f"torch.utils.checkpoint.checkpoint(lambda x: (x * {read}).exp(), w, use_reentrant=False)"
    body = f"def run(net):\n    {made}\n    y = {call}\n    {written}\n    y.sum().backward()\n"
    body += "run(torch.nn.Module())\n"
    found = reported(path, HEAD.replace("torch\n", "torch.utils.checkpoint\n", 1) + body)
    assert [finding.variant for finding in found.findings] == ["recomputed"]
    fixes = with_candidates(found, str(path)).findings[0].fixes
    assert [fix.code for fix in fixes if fix.edits] == ([code] if code else [])
    assert not any("unclobber fix" in fix.title or fix.proved_by for fix in fixes)
    for each in _plan.candidates(found.findings[0], Project(str(tmp_path))):
        assert f"{read} = " not in "".join(each.texts.values()).split("use_reentrant=False)")[1]


HALF = """\
class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v / 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


v = w * 1
h = Half.apply(v)
v -= h
(v + h).sum().backward()
"""


def test_a_name_of_another_function(tmp_path):
    """That a method has an argument of the same name says nothing of a variable of the script."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + HALF)
    (checked,) = check_files([str(path)])
    assert candidate(Report("suspected", checked.findings), path).code == "v = v - h"
