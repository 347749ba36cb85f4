"""torch's refusals at the write and at a second backward: whose error it is, and what is advised."""

from __future__ import annotations

import os
import pickle
import runpy
from pathlib import Path

import pytest
import torch

import unclobber
from unclobber.explain.refusals import Kind, kind_of, live_frames_of


def run_watched(text: str, folder: Path) -> unclobber.InplaceError | None:
    """Run a program from a file under ``watch`` and give back what it raised."""
    path = folder / "program.py"
    path.write_text(f"import torch\n{text}")
    os.utime(path, (1, 1))  # older than this process: its text is what runs
    try:
        with unclobber.watch():
            runpy.run_path(str(path), run_name="__main__")
    except unclobber.InplaceError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("write", "why_not"),
    [
        ("v += 1", "refuses this under no_grad"),
        ("v.zero_()", ""),
        ("v[0].mul_(2)", "would change, too"),
        ("v[torch.tensor([True, False])] = 1", "would change, too"),
        ("v.index_fill_(0, torch.tensor([0]), 1)", "would change, too"),
    ],
)
def test_no_grad_is_advised_where_it_helps(write, why_not, tmp_path):
    """torch allows few writes to an expanded tensor, and those of a part change what shares its memory."""
    make = "w = torch.ones(1, 3, requires_grad=True)\nv = w.expand(2, 3)\n"
    finding = run_watched(f"{make}{write}", tmp_path).finding
    assert finding.code == "UC202"
    assert any(f"torch.no_grad(): {write}" in (fix.code or "") for fix in finding.fixes) == (not why_not)
    assert why_not in finding.notes[-1]
    under = f"{make}with torch.no_grad():\n    {write}\n    assert bool(v[0, 0] == v[1, 0]) and v[1, 0] != 1"
    refused = run_watched(under if not why_not.startswith("would") else "", tmp_path)
    assert (refused and refused.finding.code) == ("UC207" if why_not.startswith("refuses") else None)


@pytest.mark.parametrize(
    ("statement", "code", "remainder"),
    [
        ("s = w.clamp_(0, 4).exp()", "with torch.no_grad(): w.clamp_(0, 4)", "s = w.exp()"),
        ("s = w.mul_(2).add_(1).exp()", "with torch.no_grad(): w.mul_(2).add_(1)", "s = w.exp()"),
        ("s += w.clamp_(0, 4)", "with torch.no_grad(): w.clamp_(0, 4)", "s += w"),
        ("s[0] = w.clamp_(0, 4)", "with torch.no_grad(): w.clamp_(0, 4)", "s[0] = w"),
        ("s = torch.relu_(w).exp()", "with torch.no_grad(): torch.relu_(w)", "s = w.exp()"),
        ("s = w.mul_(2).add_(1)", "with torch.no_grad(): s = w.mul_(2).add_(1)", None),
        ("s = w.sum() + w.clamp_(0, 4)", None, None),
        ("s = w.clamp_(0, 4).exp() if len(s) else w", None, None),
    ],
)
def test_no_grad_is_put_around_the_write_alone(statement, code, remainder, tmp_path):
    """What the statement computes of the written leaf would get no gradient under `no_grad`."""
    text = f"w = torch.ones(3, requires_grad=True)\ns = torch.zeros(2, 3)\n{statement}\n"
    first, *_ = run_watched(text, tmp_path).finding.fixes
    assert "no gradient is to flow" in first.title
    assert first.code == code
    assert first.title.endswith(
        f", before `{remainder}`" if remainder else "hand)" if code else "no_grad():`"
    )


SEM = """class Sem(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.adj = torch.nn.Parameter(torch.ones(2, 2))
    def forward(self):
        w = self.adj
        w.diagonal().zero_()
def main():
    model = Sem()
    model()
main()
"""
ALIASED = """adj = torch.nn.Parameter(torch.ones(2, 2))
def weights():
    w = adj
    w.diagonal().zero_()
weights()
"""


@pytest.mark.parametrize(
    ("program", "label", "code"),
    [
        (SEM, "`model.adj` was made here, a leaf that requires grad", "x = w.clone()"),
        (ALIASED, "it was made here, a leaf that requires grad", "x = w.clone()"),
        (
            SEM.replace("    model =", "    global model; model =").replace(
                "w = self.adj", "w = self.adj[:1]"
            ),
            "`w.diagonal()` became a view of `model.adj` here",
            "x = self.adj.clone()",
        ),
    ],
)
def test_a_leaf_is_copied_by_a_name_of_the_refused_line(program, label, code, tmp_path):
    """`model` is another function's variable or the script's; `w` is no name where the leaf is made."""
    finding = run_watched(program, tmp_path).finding
    assert code in [fix.code for fix in finding.fixes]
    assert dict(finding.labels)["saved"] == label


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        ("for x in xs:\n        state.add_(x.sin())", "state = xs.new_zeros(3)"),
        ("x = xs * 2\n    state.add_(x)", "state = xs.new_zeros(3)"),
        ("state.add_(xs.sum(0))", "state = xs.new_zeros(3)"),
        ("xs = xs * 2\n    state.add_(xs)", None),
    ],
)
def test_a_batch_comes_from_what_is_bound_where_the_tensor_is_made(loop, code, tmp_path):
    text = f"def total(xs):\n    state = torch.zeros(3)\n    {loop}\n    return state\n"
    finding = run_watched(f"{text}torch.func.vmap(total)(torch.ones(5, 4, 3))\n", tmp_path).finding
    assert (finding.code, finding.fixes[0].code) == ("UC209", code)


@pytest.mark.parametrize(("function", "first"), [("forward", "copy"), ("update", "no gradient is to flow")])
def test_a_parameter_that_forward_writes(function, first, tmp_path):
    """What `forward` writes into a parameter, as a hypernetwork does, has a gradient; an update has none."""
    text = (
        "class Net(torch.nn.Linear):\n"
        f"    def {function}(self, given):\n"
        "        self.weight.copy_(given)\n"
        f"Net(1, 1).{function}(torch.ones(1, 1, requires_grad=True) * 2)\n"
    )
    assert first in run_watched(text, tmp_path).finding.fixes[0].title


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%"])
def test_every_operator_has_an_out_of_place_form(operator, tmp_path):
    finding = run_watched(f"w = torch.ones(3, requires_grad=True)\nw {operator}= 2\n", tmp_path).finding
    assert f"w {operator} 2" in [fix.code for fix in finding.fixes]


LEAF = "w = torch.ones(4, requires_grad=True)\nh = w * 1\n"


@pytest.mark.parametrize(
    ("write", "is_saved"),
    [
        ("v /= v.norm(dim=-1, keepdim=True)", True),
        ("v.div_(torch.norm(v) + 1)", True),
        ("v -= v.mean()", False),
        ("v /= v.detach().norm()", False),
        ("v /= v.norm().item()", False),
        ("v *= v.abs() > 0.5", False),
    ],
)
def test_the_refused_statement_itself_saves_what_it_writes(write, is_saved, tmp_path):
    """The node that saved it is gone with the refusal, and copies of the views would be refused next."""
    finding = run_watched(f"{LEAF}for v in h.chunk(2):\n    {write}\n", tmp_path).finding
    said = [note for note in finding.notes if note.startswith("this memory is saved for backward, too")]
    assert [f"(line 5: `{write}`)" in note for note in said] == [True] * is_saved


MADE = [
    ("for v in reversed(h.chunk(2)):\n    v.mul_(2)", "UC203", "`v` is one of several", 4),
    ("with torch.no_grad():\n    v: torch.Tensor = h[:2]\nv.mul_(2)", "UC204", "`v`", 5),
    ("with torch.no_grad():\n    v = h[:2].mul_(3)\nv.mul_(2)", "UC204", "`v`", 5),
    ("v = w[:2]\ntry:\n    v.mul_(2)\nfinally:\n    pass", "UC202", "`v` is a view of the leaf `w`", 4),
    ("a, b = (c := h.chunk(2))\na.mul_(2)", "UC203", "`chunk` returned", 4),
    ("w[0] = -1", "UC202", "fill_ writes to it", 2),
    ("act = torch.nn.ReLU(inplace=True)\nact(w[0])", "UC202", "`w[0]` is a view of the leaf `w`", 2),
    ("with torch.inference_mode():\n    e = w * 2\ntorch.add(w.detach(), 1, out=e)", "UC206", "`e`", 5),
]


@pytest.mark.parametrize(("program", "code", "said", "line"), MADE)
def test_the_line_that_made_the_tensor_is_found(program, code, said, line, tmp_path):
    """The written tensor has its name and its origin, by whatever syntax it came to the write."""
    finding = run_watched(LEAF + program, tmp_path).finding
    assert (finding.code, finding.saved.site.line) == (code, line)
    assert said in finding.message


@pytest.mark.parametrize(
    "again", ["loss = 0.5 * b", "loss = -b", "loss = a * 0.5 + b.sum() * 0.5", "loss = b + a * 2."]
)
def test_the_operation_that_saved_only_a_number_is_found(again, tmp_path):
    """``b``'s operation has no stack: its line is found along the expression of the failed backward."""
    program = f"a = torch.ones((), requires_grad=True)\nb = a * 2.\n{again}\nloss.backward()\n"
    finding = run_watched(f"{program}{again}\nloss.backward()", tmp_path).finding
    assert (finding.code, finding.saved.site.line) == ("UC301", 3)


@pytest.mark.parametrize("added", ["loss = loss + a.square().sum()", "loss += a.square().sum()"])
def test_a_loss_that_each_turn_makes_does_not_tie_its_graph_to_the_last(added, tmp_path):
    """`a` was computed once; the statement sets `loss`, but the operation on `a` does not read it."""
    program = "w = torch.ones(3, requires_grad=True)\na = w.exp()\nfor _ in range(2):\n"
    program += f"    loss = (a * 2).sum()\n    {added}\n    loss.backward()\n"
    finding = run_watched(program, tmp_path).finding
    assert (finding.code, finding.fixes[0].code) == ("UC301", None)
    assert finding.fixes[0].title == "compute it anew for each backward, inside the loop"


# --- whose error it is ----------------------------------------------------------------------------

SENTENCE = "a leaf Variable that requires grad is being used in an in-place operation."


def caught(function) -> BaseException:
    with pytest.raises(RuntimeError) as info:
        function()
    return info.value


def test_the_same_words_from_python_are_the_users():
    """Only what comes out of a call into C is torch's."""

    def look_alike():
        raise RuntimeError(SENTENCE)

    def real():
        torch.ones(3, requires_grad=True).add_(1)

    assert kind_of(caught(look_alike)) is None
    assert kind_of(caught(real)) == Kind("UC201", "leaf")


def test_a_reraised_error_is_still_torchs():
    def again():
        try:
            torch.ones(3, requires_grad=True).add_(1)
        except RuntimeError as error:
            raise error

    assert kind_of(caught(again)) == Kind("UC201", "leaf")


def test_other_errors_are_the_users():
    assert kind_of(caught(lambda: torch.ones(3) @ torch.ones(4, 2))) is None
    with pytest.raises(RuntimeError, match="shapes"), unclobber.watch():
        torch.ones(3) @ torch.ones(4, 2)


def test_handled_errors_are_nobodys_finding():
    with unclobber.watch() as watching:
        with pytest.raises(RuntimeError):
            torch.ones(3, requires_grad=True).add_(1)
    assert watching.findings == ()


def test_wrapped_errors_are_the_users():
    """An error that the program raises because of torch's is its own."""

    def program():
        try:
            torch.ones(3, requires_grad=True).add_(1)
        except RuntimeError as error:
            raise ValueError("bad config") from error

    with pytest.raises(ValueError, match="bad config"), unclobber.watch():
        program()


def test_the_innermost_frame_is_the_programs():
    """Our own kernel, below which some checks stand, is no place of the program's."""
    with pytest.raises(RuntimeError) as info, unclobber.watch():
        torch.ones(1).expand(3).add_(1)
    cause = info.value.__cause__
    assert cause is not None
    assert live_frames_of(cause)[0].frame.f_code.co_filename == __file__


def test_finding_survives_pickling():
    """An error keeps its finding when it is pickled."""
    with pytest.raises(unclobber.InplaceError) as info, unclobber.watch():
        torch.ones(3, requires_grad=True).add_(1)
    assert pickle.loads(pickle.dumps(info.value)).finding == info.value.finding


def test_saved_before_watching():
    """torch's own check speaks; neither the save nor the write is made up."""
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y.add_(1)
    with pytest.raises(unclobber.InplaceError, match="modified by an inplace operation") as info:
        with unclobber.watch():
            y.sum().backward()
    finding = info.value.finding
    assert (finding.code, finding.saved, finding.writes) == ("UC101", None, ())
    assert finding.needed is not None
    assert finding.needed.site is not None


def test_freed_before_watching():
    """Who freed it was not seen: no line is named for it."""
    w = torch.ones(3, requires_grad=True)
    y = w.exp().sum()
    y.backward()
    with pytest.raises(unclobber.InplaceError) as info, unclobber.watch():
        y.backward()
    finding = info.value.finding
    assert (finding.code, finding.saved, finding.freed) == ("UC301", None, None)


def test_nodes_keep_no_tensor_alive():
    """The notes for a second backward hold places only."""
    import gc
    import weakref

    with unclobber.watch():
        w = torch.ones(3, requires_grad=True)
        h = w.exp()
        y = (h * h).sum()
        gone = weakref.ref(h)
        del h
        y.backward()
        gc.collect()
        assert gone() is None
