"""torch's refusals at the write and at a second backward, with every place that can be known."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import torch
from refused_programs import HEAD, PROGRAMS, marked, run_watched

import unclobber
from unclobber.evidence.refusals import Kind, kind_of, levels_of


def places(finding: unclobber.model.Finding) -> SimpleNamespace:
    """First lines of the statements that a finding names."""

    def line(fact: object) -> int | None:
        site = getattr(fact, "site", None)
        return None if site is None else site.statement_line

    saves = finding.variant == "saved"
    return SimpleNamespace(
        made=line(finding.made if saves else finding.saved),
        saves=line(finding.saved) if saves else None,
        write=line(finding.writes[0]) if finding.writes else None,
        needed=line(finding.needed),
        freed=line(finding.freed),
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_code_and_every_place(name, tmp_path):
    """The code, and each marked line; nothing is said of a place without a mark."""
    code, body = PROGRAMS[name]
    text = HEAD + body
    error = run_watched(text, tmp_path)
    assert error is not None
    found = places(error.finding)
    expected = {word: marked(text, word) for word in ("made", "saves", "write", "needed", "freed")}
    assert (error.finding.code, vars(found)) == (code, expected)
    assert str(error).startswith(error.finding.torch_message)


def test_marks_are_found():
    """A program without marks would pass with a finding that says nothing."""
    assert marked("a\nb  # made freed\nc", "freed") == 2
    assert marked("a\nb  # made", "freed") is None
    assert all(any(mark in text for mark in ("saves", "write", "needed")) for _, text in PROGRAMS.values())


TWINS = {
    "leaf under no_grad": "w = torch.ones(3, requires_grad=True)\nwith torch.no_grad():\n    w.normal_()",
    "view of a leaf under no_grad": (
        "w = torch.ones(3, requires_grad=True)\nwith torch.no_grad():\n    w[0] = 5."
    ),
    "narrow instead of chunk": "h = torch.ones(4, requires_grad=True) * 1\nh.narrow(0, 0, 2).mul_(2)",
    "index instead of unbind": "h = torch.ones(2, 2, requires_grad=True) * 1\nh[0].mul_(2)",
    "view and write with grad": "h = torch.ones(4, requires_grad=True) * 1\nv = h[1:]\nv.mul_(2)",
    "copy of an inference tensor": (
        "with torch.inference_mode():\n    x = torch.ones(3)\nx = x.clone()\n"
        "(x * torch.ones(3, requires_grad=True)).sum().backward()"
    ),
    "copy of an expanded tensor": "x = torch.ones(1).expand(3).clone()\nx.add_(1)",
    "graph made anew": (
        "w = torch.ones(3, requires_grad=True)\nfor _ in range(2):\n    w.exp().sum().backward()"
    ),
    "graph retained": (
        "w = torch.ones(3, requires_grad=True)\ny = w.exp().sum()\n"
        "y.backward(retain_graph=True)\ny.backward()"
    ),
    "state detached": (
        "w = torch.ones(3, requires_grad=True)\nh = torch.zeros(3)\nfor _ in range(2):\n"
        "    h = torch.tanh(w * h.detach() + 1)\n    h.sum().backward()"
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_harmless_twin(name, tmp_path):
    """What the helps advise is not refused."""
    assert run_watched(HEAD + TWINS[name], tmp_path) is None


LEAF_PARTS = "a, b = (torch.ones(2, requires_grad=True) * 2).unbind()\n"


@pytest.mark.parametrize(
    ("text", "subject", "code"),
    [
        pytest.param("b.clamp_(0, 1)", "`b`", "b = b.clamp(0, 1)", id="variable"),
        pytest.param("p = [a, b]\np[1].clamp_(0, 1)", "`p[1]`", "p[1] = p[1].clamp(0, 1)", id="list"),
        pytest.param("p = {'b': b}\np['b'] += a", "`p['b']`", "p['b'] = p['b'] + a", id="dictionary"),
        pytest.param("c = [x.clamp_(0) for x in (a, b)]", "`x`", "x.clamp(0)", id="in an expression"),
        pytest.param("def f():\n    b.neg_()\nf()", "`b`", "b.neg()", id="global of a function"),
        pytest.param("for c in (a, b):\n    c += 1", "`c`", "c + 1", id="a loop's variable"),
        pytest.param("for c in (a, b):\n    c.exp_()", "`c`", "c.exp()", id="by a method"),
        pytest.param(
            "for c in (a, b):\n    c += 1\n    d = c * 2", "`c`", "c = c + 1", id="a loop's, which reads it"
        ),
        pytest.param("b = b.view(1)\nb[b > 0] = 1", "`b`", None, id="by a mask"),
        pytest.param("b = b.view(1)\nb[b > 0] += 1", "`b`", None, id="added by a mask"),
        pytest.param("b = b.view(1)\nb[0] = 1", "`b[0]`", None, id="by an index"),
    ],
)
def test_what_is_written_and_the_way_out(text, subject, code, tmp_path):
    """An index by a tensor makes no view; an element of a list is a tensor; only its own variables can a
    function set."""
    finding = run_watched(HEAD + LEAF_PARTS + text, tmp_path).finding
    assert finding.message.startswith(f"{subject} is one of several views")
    assert finding.fixes[0].code == code


@pytest.mark.parametrize(
    ("write", "advised"),
    [("v += 1", False), ("v.zero_()", True), ("v[0].mul_(2)", True)],
)
def test_no_grad_is_advised_where_it_helps(write, advised, tmp_path):
    """torch allows few writes to an expanded tensor, whatever the grad mode."""
    make = "w = torch.ones(1, 3, requires_grad=True)\nv = w.expand(2, 3)\n"
    finding = run_watched(f"{HEAD}{make}{write}", tmp_path).finding
    assert finding.code == "UC202"
    assert any(f"torch.no_grad(): {write}" in (fix.code or "") for fix in finding.fixes) == advised
    assert any("refuses this under no_grad" in note for note in finding.notes) != advised
    under = f"{HEAD}{make}with torch.no_grad():\n    {write}"
    if advised:
        assert run_watched(under, tmp_path) is None
    else:
        assert run_watched(under, tmp_path).finding.code == "UC207"


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
    assert levels_of(cause)[0].frame.f_code.co_filename == __file__


def test_finding_survives_pickling():
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
