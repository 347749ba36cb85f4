"""Who else holds what a statement is about to write: nobody, names of its own frame, or others."""

from __future__ import annotations

from textwrap import dedent

import pytest

from unclobber.repair._holders import Holders
from unclobber.repair._probes import PASSED, PLACE, WriteStatement, instrumented
from unclobber.session import Session

SETTING = """
import functools
import torch
import torch.utils.checkpoint
from torch import nn
from torch._C._dynamo.eval_frame import set_eval_frame

net = nn.Linear(4, 4)
x = torch.ones(2, 4)
hist, kept = [], {}


class Thing:
    pass


thing = Thing()
"""
BY_DYNAMO = "set_eval_frame(False)\ntry:\n    {}\nfinally:\n    set_eval_frame(None)"


@pytest.fixture
def held(monkeypatch):
    """``held(body)``: what was seen at the statement of a function that ends in ``# here``."""

    def run(body, call="f()", parameter=""):
        text = (
            SETTING
            + f"\n\ndef f({parameter}):\n"
            + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
        )
        line = next(n for n, code in enumerate(text.splitlines(), 1) if code.endswith("# here"))
        code = text.splitlines()[line - 1]
        write = WriteStatement("program.py", line, len(code) - len(code.lstrip()) + 1)
        recorded = {}
        names = {"__name__": "program", "recorded": recorded}
        with Session("guard", warn=False) as session:
            holders = Holders(session, recorded)
            for name in (PASSED, PLACE):
                monkeypatch.setattr("builtins." + name, None, raising=False)
            holders.install()
            exec(instrumented(text, "program.py", [write]), names)
            exec(call, names)
        return holders.held[write]

    return run


@pytest.mark.parametrize(
    "body",
    [
        "h = torch.sigmoid(net(x))\nh *= 2  # here\nreturn h",
        "h = (net(x) * 2).view(-1)\nh *= 2  # here\nreturn h",
        "h = torch.tanh(net(x))\nprint(h.sum().item(), end='')\nz = h.pow(2)\nh[0] = 0  # here\nreturn h, z",
        "h = net(x) * 2\nz = h.exp() + h.sin()\nh += 1  # here\nreturn z",
        "h = torch.ones(4)\nz = net(x) * h[:]\nh += 1  # here\nreturn z",
        "for _ in range(3):\n    h = net(x).exp()\n    h.mul_(2)  # here",
        "h = net(x).exp()\ndef g():\n    nonlocal h\n    h *= 2  # here\ng()",
        "h = net(x).exp()\na, b = h[:1].clone(), h\ndel b\nh += 1  # here",
        "h = net(x).exp()\nrecorded[id(h)] = h, 0\nh += 1  # here",
    ],
    ids=[
        "result",
        "view of a temporary",
        "saved",
        "saved by later ones",
        "a view saved",
        "loop",
        "nonlocal",
        "let go",
        "by the recorder of gradients",
    ],
)
def test_the_name_alone(held, body):
    """What autograd saves, what a view is of and what was let go are no holders."""
    found = held(body)
    assert (found.names, found.others) == ({"h"}, ())


def test_one_run_of_several_decides(held):
    """One run in which somebody holds it is enough."""
    found = held(
        "for n in range(3):\n    h = net(x).exp()\n    if n == 1:\n        hist.append(h)\n    h += 1  # here"
    )
    assert "hist" in _names_of_callers(found)


@pytest.mark.parametrize(
    "keep",
    [
        "hist.extend([h])",
        "thing.last = h",
        "kept['h'] = h",
        "thing.probe = lambda h=h: h.sum()",
        "thing.part = functools.partial(torch.add, h)",
        "thing.view = h[0]",
        "thing.plain = h.detach()",
        "thing.array = h.detach().numpy()",
        "h.retain_grad()",
        "h.note = 'mine'",
        "net.register_buffer('stat', h, persistent=False)",
        "thing.generator = (one for one in [h])\n    next(thing.generator)",
    ],
)
def test_others(held, keep):
    """Whoever keeps it, or a part of it, or what was asked of the tensor itself."""
    body = "if True:\n    h = net(x).exp()\n    " + keep + "\n    h *= 2  # here"
    found = held(body)
    assert found.others or found.callers


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("h = net(x).exp()\ny = h\nh *= 2  # here", ("h", "y")),
        ("h = net(x).exp()\nleft = torch.narrow(h, 1, 0, 2)\nh *= 2  # here", ("h", "left")),
        ("h = net(x).exp()\na, b = h[:, :2], h[:, 2:]\na *= 2  # here", ("a", "h")),
        ("pre = net(x).exp()\nh = nn.Identity()(pre)\nh *= 2  # here", ("h", "pre")),
        ("h = net(x).exp()\ny = h.clamp_(0)  # here", ("h",)),
        ("y = nn.functional.relu(net(x).exp(), inplace=True)  # here", ()),
        ("if (g := net(x).exp()).mul_(2).sum() > 0:  # here\n    pass", ("g",)),
        ("thing.h = net(x).exp()\nthing.h *= 2  # here", ("thing.h",)),
        ("h = net(x).exp()\nthing.mean = h.mul_(2).mean()  # here", ("h",)),
        ("h = net(x).exp()\nkept['mean'] = h.mul_(2).mean()  # here", ("h",)),
        ("outs = [net(x).exp()]\nouts[0] *= 2  # here", ("outs[0]",)),
        ("outs = [net(x).exp()]\nfor h in outs:\n    h *= 2  # here", ("h", "outs")),
        (
            "fast = {'w': net(x).exp()}\nfor (k, v), g in zip(fast.items(), [1]):\n    v -= g  # here",
            ("fast", "v"),
        ),
    ],
)
def test_names_of_the_frame(held, body, names):
    """Other names of the same tensor and of overlapping views are told by name: they may be read later or
    not, which the text says. A view of other elements is none."""
    found = held(body)
    assert (found.names, found.others) == (set(names), ())


@pytest.mark.parametrize("place", ["thing.h", "kept['h']"])
def test_the_place_itself_is_no_other_holder(held, place):
    """Of an attribute or an entry, only who else holds its tensor is said."""
    body = f"{place} = nn.Parameter(x)\nhist.append({place})\n{place}.data.mul_(2)\n"
    assert held(f"{body}{place}.detach_().mul_(2)  # here").others[0] == "a list"


def _names_of_callers(found):
    return {name for _, _, name in found.callers}


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("probs = net(x).exp()\nscale_(probs)", {"probs"}),
        ("scale_(net(x).exp())", set()),
        ("both = [net(x).exp(), x]\nscale_(both[0])", {"both"}),
        (
            "class Scale(nn.Module):\n    forward = lambda self, t: scale_(t)\nScale()(net(x).exp())",
            {"args", "t"},
        ),
        (BY_DYNAMO.format("scale_(net(x).exp())"), set()),
        (BY_DYNAMO.format("scale_(h := net(x).exp())"), {"h"}),
    ],
    ids=["name", "nothing", "container", "module", "nothing, frames by Dynamo", "name, frames by Dynamo"],
)  # fmt: skip
def test_names_of_callers(held, call, names):
    """A variable of a calling function is told with its call, whose text says whether it is read again.

    Where Dynamo evaluates frames each call keeps its arguments: torch leaves it on in a thread in which a
    compilation has failed.
    """
    found = held(f"def scale_(t):\n    return t.mul_(2)  # here\n{call}")
    assert (_names_of_callers(found), found.others) == (names, ())


def test_what_a_checkpoint_computes_again(held):
    """It keeps the second forward's tensors for the saves of the first, and those are to see no write."""
    call = "torch.utils.checkpoint.checkpoint(f, net(x), use_reentrant=False).sum().backward()"
    body = "h = h.tanh()\nh *= 2  # here\nreturn h.exp()"
    found = held(body, call, "h")
    assert (found.names, found.others) == ({"h"}, ())


def test_a_container_that_more_than_a_variable_holds(held):
    """Its other holder may read the element although no function reads the variable again."""
    assert held("outs = thing.outs = [net(x).exp()]\nfor h in outs:\n    h *= 2  # here").others


def test_a_mask_is_not_what_is_written(held):
    """A method writes its receiver: other holders of its argument are no holders of that."""
    found = held("mask = kept['mask'] = x > 0\nh = net(x).exp()\nh.masked_fill_(mask[:, :1], 0)  # here")
    assert (found.names, found.others, found.callers) == ({"h"}, (), set())


@pytest.mark.parametrize(
    "body", ["n = 1\nn += 1  # here", "y = thing.h.mul_(2) if hasattr(thing, 'h') else x  # here"]
)
def test_what_is_no_tensor_or_is_not_written(held, body):
    """Nothing is said of it, and what the statement does not read is not read for it."""
    with pytest.raises(KeyError):
        held(body)


@pytest.mark.parametrize(
    "write",
    [
        "ys = [h.mul_(2) for h in outs]",
        "ys = {n: h.mul_(n) for n, h in enumerate(outs)}",
        "y = (lambda h: h.mul_(2))(outs[0])",
    ],
)
def test_a_name_that_only_an_expression_binds(held, write):
    """It is inspected where it has a value; before the statement there is none."""
    found = held(f"outs = [net(x).exp()]\n{write}  # here")
    assert (found.names | _names_of_callers(found), found.others) == ({"h", "outs"}, ())


def test_the_code_keeps_its_places():
    """A statement that is looked at is still at its line and columns."""
    text = "def f(h):\n    h *= 2\n    return h\n"
    plain, looked = compile(text, "p", "exec"), instrumented(text, "p", [WriteStatement("p", 2, 5)])

    def places(code):
        (function,) = (const for const in code.co_consts if hasattr(const, "co_code"))
        return set(function.co_positions())

    assert places(plain) <= places(looked)


def test_a_file_that_can_not_be_decoded():
    """It fails as it does without probes; an empty program would be taken for one that ran clean."""
    with pytest.raises(SyntaxError, match="encoding"):
        instrumented(b"# coding: nonsense\nx = 1\n", "p", [])
