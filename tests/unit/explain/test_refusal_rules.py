"""What is said of torch's refusals: who, where, why, and what to write instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unclobber.explain._evidence import FreedEvidence, ModuleHook, RefusalEvidence, StaleEvidence
from unclobber.explain.rules import judge_refusal
from unclobber.model import CODES, Frame, Need, Save, Site, Write


def site(line: int, source: str = "x.mul_(2)", below: tuple = ()) -> Site:
    return Site("train.py", line, 1, line, 1 + len(source), "f", source, line, line, source, below=below)


def write(expression: str | None = "x", operation: str = "mul_") -> Write:
    return Write(site(9), operation, True, True, expression=expression)


def made(operation: str = "chunk") -> Save:
    return Save(site(4), (3,), "float32", 12, 0, operation=operation, expression="x")


def evidence(code: str, **facts) -> RefusalEvidence:
    given = {"write": write(), "made": made(), "how": "chunk", **facts}
    return RefusalEvidence(code=code, torch_message="torch's own sentence", **given)


REFUSED = [code for code, entry in CODES.items() if entry.stage == "write"]


@pytest.mark.parametrize("code", REFUSED)
def test_every_finding_has_all_its_parts(code):
    """The sentence names tensor and operation; both places are labelled; there is a why and a help."""
    finding = judge_refusal(evidence(code))
    assert finding.code == code
    assert "`x`" in finding.message
    assert "mul_" in finding.message
    assert {"saved", "write"} == set(dict(finding.labels))
    assert finding.notes
    assert finding.fixes
    assert finding.torch_message == "torch's own sentence"
    assert not any(fix.verified for fix in finding.fixes)


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_not_known_is_not_said(code):
    """No place, no label; no name, no backticks with None in them."""
    finding = judge_refusal(evidence(code, write=write(None), made=None, how=None))
    assert finding.saved is None
    assert "saved" not in dict(finding.labels)
    said = [
        finding.message,
        *finding.notes,
        *dict(finding.labels).values(),
        *(f.title for f in finding.fixes),
    ]
    assert not any("None" in text.replace("stays None", "") for text in said)


def test_an_update_of_a_leaf_is_not_to_be_made_out_of_place():
    """The common advice, ``w = w - lr * w.grad``, makes a tensor whose ``.grad`` stays None."""
    facts = {"write": write(operation="sub_"), "out_of_place": "x = x - lr * x.grad"}
    finding = judge_refusal(evidence("UC201", in_no_grad="with torch.no_grad(): x -= lr * x.grad", **facts))
    assert finding.fixes[0].code == "with torch.no_grad(): x -= lr * x.grad"
    assert all(fix.code != "x = x - lr * x.grad" for fix in finding.fixes)
    assert (
        "after `x = x - lr * x.grad` it is a new tensor, no leaf, and its `.grad` stays None" in finding.notes
    )


def test_a_parameters_name_is_not_given_to_a_plain_tensor():
    """``self.w = self.w.mul(2)`` raises for an ``nn.Parameter``: only the right side is advised."""
    facts = {"out_of_place": "self.w = self.w.mul(2)", "parameter": True}
    codes = [fix.code for fix in judge_refusal(evidence("UC201", **facts)).fixes]
    assert "self.w.mul(2)" in codes
    assert "self.w = self.w.mul(2)" not in codes


def test_views_say_whose_they_are():
    finding = judge_refusal(evidence("UC202", leaf="net.weight", how="view"))
    assert "`x` is a view of the leaf `net.weight`" in finding.message
    assert dict(finding.labels)["saved"] == "`x` became a view of `net.weight` here, by view"


def test_a_module_path_with_a_number_is_no_code():
    codes = [fix.code for fix in judge_refusal(evidence("UC202", leaf="net.0.weight", leaf_here="w")).fixes]
    assert "x = net.0.weight.clone()" not in codes
    assert "x = w.clone()" in codes


@pytest.mark.parametrize(
    ("how", "advice"), [("unbind", "tensor[i]"), ("iteration", "tensor[i]"), ("chunk", "narrow")]
)
def test_one_view_at_a_time(how, advice):
    assert any(advice in fix.title for fix in judge_refusal(evidence("UC203", how=how)).fixes)


@pytest.mark.parametrize("carries_gradient", [True, False])
def test_a_start_value_carries_no_gradient(carries_gradient):
    """A forget gate's bias is one; ``x[..., 0::2] = even * cos`` of rotary positions is none."""
    facts = {"write": write(operation="copy_"), "carries_gradient": carries_gradient}
    titles = [fix.title for fix in judge_refusal(evidence("UC203", **facts)).fixes]
    assert any("start values" in title for title in titles) is not carries_gradient


@pytest.mark.parametrize(
    ("mode", "words"), [("no_grad", "under no_grad"), ("inference_mode", "inference mode")]
)
def test_which_mode_was_off(mode, words):
    assert words in judge_refusal(evidence("UC204", variant=mode)).message


def test_an_inference_tensor_is_written_or_saved_or_to_be_trained():
    messages = {
        judge_refusal(evidence("UC206", variant=variant)).message for variant in (None, "saved", "trained")
    }
    assert len(messages) == 3


# --- a second backward ----------------------------------------------------------------------------

FREED, AGAIN = Need(site(6, "a.backward()"), nth=1), Need(site(8, "b.backward()"), nth=2)
OPERATION = Save(site(3, "w.tanh()"), (3,), "float32", 12, 0, operation="tanh", node="TanhBackward0")


def freed(**facts) -> FreedEvidence:
    given = {"saved": OPERATION, "freed": FREED, "needed": AGAIN, **facts}
    return FreedEvidence("Trying to backward through the graph a second time", **given)


def titles(finding) -> str:
    return "\n".join(fix.title + (fix.code or "") for fix in finding.fixes)


def test_both_backwards_have_their_numbers():
    finding = judge_refusal(freed())
    assert finding.message == "tanh is part of this backward's graph and of one that backward 1 freed"
    assert dict(finding.labels) == {
        "saved": "tanh ran here",
        "freed": "backward 1 freed it here",
        "needed": "backward 2 needs it again here",
    }
    assert (finding.freed, finding.needed, finding.writes) == (FREED, AGAIN, ())


def test_one_line_that_is_both():
    """In a loop one line frees and needs: both marks say the same, and are shown once."""
    labels = dict(judge_refusal(freed(freed=Need(AGAIN.site, nth=1))).labels)
    assert labels["freed"] == labels["needed"]


@pytest.mark.parametrize(
    ("facts", "told", "advised"),
    [
        pytest.param({"same_root": True, "root": "loss"}, "`loss`", "forward again", id="same tensor"),
        pytest.param(
            {"hidden_state": ("h",), "detached": "h = h.detach()"},
            "`h` ties",
            "h = h.detach()",
            id="hidden state in a variable",
        ),
        pytest.param(
            {"hidden_state": ("h", "c")},
            "`h` and `c` tie",
            "where an iteration begins",
            id="hidden state of two",
        ),
        pytest.param(
            {"attribute": "net.state", "detached": "self.state = h.detach()"},
            "`net.state` ties",
            "self.state = h.detach()",
            id="kept by an object",
        ),
        pytest.param(
            {"attribute": "net.hidden"},
            "`net.hidden` ties",
            "detach the hidden state `net.hidden` between steps",
            id="a tuple kept by an object",
        ),
        pytest.param(
            {"attribute": "net.w", "attribute_is_freed": True},
            "`net.w` ties",
            "anew in each forward",
            id="made once",
        ),
        pytest.param({"saved": None, "freed": None}, "already", "compute it anew", id="nothing known"),
    ],
)
def test_what_ties_the_graphs_and_what_to_do(facts, told, advised):
    finding = judge_refusal(freed(**facts))
    assert told in finding.message
    assert advised in titles(finding)
    assert "retain_graph=True" in titles(finding)  # with its reason, and last
    assert "optimizer step" in finding.fixes[-1].title


def test_saved_before_watching():
    """A refusal of a tensor that was saved outside of the context has no places but the backward."""
    finding = judge_refusal(StaleEvidence("one of the variables …", AGAIN))
    assert (finding.code, finding.saved, finding.writes, finding.needed) == ("UC101", None, (), AGAIN)
    assert "before watching" in finding.message


def test_the_first_help_is_no_alternative():
    """``or`` joins a way out to the one before."""
    finding = judge_refusal(evidence("UC203", write=write("x[mask]", "index_put_")))
    assert finding.fixes[0].title.startswith("make a new tensor: `torch.where`")
    assert finding.fixes[1].title.startswith("or ")


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (
            ModuleHook("fc (Linear)", False, "note"),
            "`fc (Linear)` returned because of its full backward hook `note`",
        ),
        (ModuleHook("fc (Linear)", True), "`fc (Linear)` was given because of its full backward hook"),
        (ModuleHook(), "a module was given or returned because of its full backward hook"),
    ],
)
def test_a_modules_hook_is_no_function_of_the_programs(hook, said):
    """torch's sentence tells of a custom Function, and there is none whose forward could be changed."""
    finding = judge_refusal(evidence("UC205", module_hook=hook, how=None))
    assert finding.message == f"`x` is a view that {said}, and mul_ writes to it in place"
    assert not any("custom Function" in fix.title or "ctx." in fix.title for fix in finding.fixes)
    (copy,) = [fix.title for fix in finding.fixes if "clone" in fix.title]
    assert copy.startswith(f"or write into a copy: clone {'the input' if hook.given else 'what the module'}")


def test_a_library_that_writes_is_told_at_its_construction():
    """Nobody can put a clone into ``nn.ReLU``'s forward."""
    by_module = replace(
        write("self.act(x)", "relu_"), site=site(9, below=(Frame("relu.py", 1, "ReLU.forward", "", True),))
    )
    finding = judge_refusal(evidence("UC205", module_hook=ModuleHook("act (ReLU)", True), write=by_module))
    assert "`inplace=True`" in finding.fixes[0].title
    assert not any("clone" in fix.title for fix in finding.fixes)


@pytest.mark.parametrize(
    ("node", "by", "advice"),
    [
        ("UnbindBackward0", "`unbind`, or a loop over a tensor,", "`tensor[i]`"),
        ("Split", "`split` or `chunk`", "`tensor.narrow("),
        ("FusedQKV", "one call", "clone the view"),
    ],
)
def test_the_maker_by_torchs_own_message(node, by, advice):
    """Where the line isn't known, torch still says whose output the view is."""
    unknown = replace(
        evidence("UC203", how=None, made=None),
        torch_message=f"Output 1 of {node} is a view and is being modified inplace.",
    )
    finding = judge_refusal(unknown)
    assert f"several views that {by} returned" in finding.message
    assert advice in finding.fixes[-1].title


@pytest.mark.parametrize("node", ["SliceBackward0", "ViewAsReal", "ViewAsComplex", "Conj", "NegView"])
def test_a_view_of_one_of_the_views(node):
    """torch names the node of what is written, which indexing or another view made of one of them."""
    message = f"Output 0 of {node} is a view and is being modified inplace."
    sliced = replace(evidence("UC203", how="unbind"), torch_message=message)
    assert "`x` is a view of one of several views that `unbind` returned" in judge_refusal(sliced).message


def test_what_is_read_through_another_tensor_is_not_to_be_made_anew():
    """In `for row in x: row /= 2` a new row would leave `x` as it is, without an error."""
    facts = {"out_of_place": "x / 2", "saved_at": site(3, "w.exp()")}
    finding = judge_refusal(evidence("UC203", how="iteration", read_through=True, **facts))
    assert [fix.title.split(",")[0] for fix in finding.fixes] == ["take one part at a time by an index"]
    assert "saved for backward, too (line 3: `w.exp()`)" in finding.notes[-1]
