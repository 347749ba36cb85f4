"""The stack of a save: walked once for an operation, and never another operation's."""

from __future__ import annotations

import _thread
import contextlib
import itertools
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from torch_features import needs
from unclobber.explain import _live
from unclobber.observe.native import core
from unclobber.session import Session
from unclobber.source import frames, sites


@pytest.fixture
def stacks():
    """Run a function under a session and give the stacks of all that it saved and kept alive."""

    def stacks(function):
        with Session() as session:
            kept = function()
            ledger = session.ledger
            refs = [*ledger.pending, *itertools.chain(*ledger.watched.values())]
            found = [saved.stack for ref in refs if (saved := ref()) is not None]
        assert kept is not None
        return found

    return stacks


def lines(found):
    return [site.statement for stack in found if (site := sites.resolve(stack)) is not None]


def test_an_operation_walks_once(stacks, monkeypatch):
    """Layer norm saves five tensors at one place; the core in Python is counted."""
    monkeypatch.delenv(core.SWITCH, raising=False)
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(None, "walks are counted"))
    stacks(lambda: torch.ones(1, requires_grad=True).exp())  # what the first session tries out walks, too
    walks = []
    capture = frames.capture
    monkeypatch.setattr(frames, "capture", lambda depth=1: walks.append(1) or capture(depth + 1))
    x, w, b = (torch.ones(4, requires_grad=True) for _ in range(3))
    found = stacks(lambda: torch.layer_norm(x, (4,), w, b))
    assert len(found) == 5
    assert len(walks) == 1
    assert len(set(map(id, found))) == 1


def test_operations_of_one_line_have_their_own(stacks):
    x = torch.ones(3, requires_grad=True)
    found = stacks(lambda: (x.exp(), x.sin()))
    assert len({_live.frame_key(stack) for stack in found}) == 2


def test_one_line_that_runs_twice(stacks):
    """The frame may lie where the one before lay."""
    x = torch.ones(3, requires_grad=True)

    def exp():
        return x.exp()

    found = stacks(lambda: (exp(),
                            exp()))  # fmt: skip
    assert len(set(found)) == 2


def test_a_function_whose_forward_makes_nodes(stacks):
    """Its own node was made before those, and it saves after them."""
    kept = []

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, deeper):
            if deeper:
                with torch.enable_grad():
                    kept.append(Inner.apply(x.detach().requires_grad_(), deeper - 1))  # inside
            y = x.clone()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    x = torch.ones(3, requires_grad=True)

    def forward():
        return Inner.apply(x, 2)  # outside

    found = stacks(forward)
    assert sorted(lines(found)) == [
        *["kept.append(Inner.apply(x.detach().requires_grad_(), deeper - 1))"] * 4,
        *["return Inner.apply(x, 2)"] * 2,
    ]
    assert len(set(found)) == 3


def test_a_kernel_that_makes_nodes(stacks):
    """It runs between what an operation saves of its inputs and what it saves of its results."""
    leaf = torch.ones(3, requires_grad=True)
    kept = []

    class Nodes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function.overloadpacket is torch.ops.aten.pow:
                with torch._C._ForceDispatchKeyGuard(included, excluded):
                    kept.append(leaf.exp())  # inside
            return function(*args, **(kwargs or {}))

    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()

    def forward():
        with Nodes():
            return leaf.pow(leaf)  # outside

    found = stacks(forward)
    assert lines(found) == [
        "return leaf.pow(leaf)",
        "return leaf.pow(leaf)",
        "kept.append(leaf.exp())",
        "return leaf.pow(leaf)",
    ]


def test_threads_have_their_own(stacks):
    """Their first nodes have equal numbers."""
    x = torch.ones(3, requires_grad=True)
    kept = []

    def first():
        kept.append(x.exp())

    def second():
        kept.append(x.sin())

    def both():
        for target in (first, second):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        return kept

    assert sorted(lines(stacks(both))) == ["kept.append(x.exp())", "kept.append(x.sin())"]


@needs("saves without a node")
def test_a_save_without_a_node(stacks):
    """As a checkpoint keeps its inputs: in the same frame as the operation before."""
    x = torch.ones(3, requires_grad=True)

    def forward():
        y = x.exp()
        return y, torch._C._autograd._make_saved_tensor(y, is_output=False)  # no node

    found = stacks(forward)
    assert len({_live.frame_key(stack) for stack in found}) == 2


def test_checkpoints_of_code_that_makes_no_node(stacks):
    """Their inputs are saved at no node's making, from frames that lie where the last ones lay."""

    def same(function, x):
        return checkpoint(function, x, use_reentrant=False)

    def run():
        h = torch.ones(3, requires_grad=True) * 2
        h = same(lambda t: t, h)
        h = same(lambda t: t, h)
        return same(torch.sigmoid, h)

    instructions = [dict(zip(stack[::2], stack[1::2], strict=True))[run.__code__] for stack in stacks(run)]
    found = {list(run.__code__.co_positions())[at // 2][0] for at in instructions}
    assert found == {run.__code__.co_firstlineno + 4}  # those of the first two died with their frames


@pytest.mark.parametrize("hooks", ["fingerprint", "audit", "program's"])
def test_hooks_of_ours_between(hooks):
    """A custom Function saves after what its forward did, and all saves come from one frame of ours."""

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.inner = x.detach().requires_grad_().exp()
            ctx.save_for_backward(x)
            return x * 2

    x = torch.ones(3, requires_grad=True)
    session = Session("audit" if hooks == "audit" else "watch", fingerprint=float(hooks == "fingerprint"))
    inner = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with session, inner if hooks == "program's" else contextlib.nullcontext():
        kept = Outer.apply(x)
        refs = [*session.ledger.pending, *itertools.chain(*session.ledger.watched.values())]
        stacks = [saved.stack for ref in refs if (saved := ref()) is not None]
    assert kept is not None
    found = set(lines(stacks))
    assert found == {"ctx.inner = x.detach().requires_grad_().exp()", "kept = Outer.apply(x)"}


def test_a_thread_without_python_below():
    """The engine's threads for other devices call the hook so, where backward makes a graph itself."""
    kept = []
    with Session() as session:
        saves = map(session._hooks.pack, (torch.ones(3), torch.ones(3)))
        _thread.start_new_thread(kept.extend, (saves,))  # all C but the hook
        waited = threading.Event()
        for _ in range(1000):
            if kept:
                break
            waited.wait(0.01)
    assert [saved.stack for saved in kept] == [(), ()]
