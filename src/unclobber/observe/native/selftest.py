"""Self-test of the native core, which runs after a build and once per process."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import torch

from ...torch_internals import compat


class _StandInLedger:
    """The part of a ledger that the pack hook uses."""

    def __init__(self) -> None:
        self.pending: deque[Any] = deque()
        self.pending_limit = 2  # so that the third save must prune
        self.pruned = 0

    def prune(self) -> None:
        self.pruned += 1
        self.pending_limit += 100


def why_it_fails(module: Any) -> str | None:
    """Return the failure of the self-test, as a clause; None if saves and unpacks are recorded correctly."""
    nobodys = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach(), lambda kept: kept)
    # No hook, no mode and no transform of the program's is called, and none may forbid these hooks.
    with (
        compat.unseen.unseen_by_modes(),
        compat.compilers.outside_transforms(),
        compat.hook_stack.allowed(),
        torch.inference_mode(False),
        torch.enable_grad(),
        nobodys,
    ):
        return _exercise(module) or _unpushed(module)


class _SavingProgram:
    """Program that saves a leaf, a view with an offset and a tensor without grad, whose records differ."""

    def __init__(self) -> None:
        self.x = torch.full((2,), 5.0, requires_grad=True)
        self.weight = torch.full((4,), 3.0, requires_grad=True)
        self.constant = torch.full((2,), 2.0)
        self.needed: list[Any] = []  # the save records that may have changed

    def need(self, saved: Any) -> Any:
        self.needed.append(saved)
        return saved.alias

    def save(self) -> None:
        y = self.x * self.weight[1:3]
        self.node: Any = compat.graph.grad_fn(y)
        self.loss = (y * self.constant).sum()

    def unpack(self, *, in_engine: bool) -> str | None:
        """Write to the weight; run backward, or the node alone (``hooks.mechanisms``). Return any fault."""
        with torch.no_grad():
            self.weight.add_(1)
        if in_engine:
            compat.entries.run_backward(self.loss, torch.ones(()))  # no function of the program's
        gradient = self.x.grad if in_engine else self.node(self.constant)[0]
        if [(saved.version, saved.alias.tolist()) for saved in self.needed] != [(0, [4.0, 4.0])]:
            return "a write was not noticed"
        if gradient is None or gradient.tolist() != [8.0, 8.0]:
            return "a gradient is wrong"
        return None


def _exercise(module: Any) -> str | None:
    """Run the self-test with the core's hooks pushed on torch's stack. Return the failure, or None."""
    program, ledger, marker = _SavingProgram(), _StandInLedger(), SimpleNamespace(now="now", noted=None)
    pack = module.Pack(ledger, False)
    unpack = module.Unpack(program.need, marker, compat.graph.current_node, lambda *note: None)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        program.save()
    saves = [reference() for reference in ledger.pending]
    if [type(saved).__name__ for saved in saves] != ["SavedTensor"] * 3 or ledger.pruned != 1:
        return "not every save was queued"
    return _of_saves(saves, program, module) or program.unpack(in_engine=False)


def _unpushed(module: Any) -> str | None:
    """Run it without hooks on torch's stack, as torch's engine calls the core. Return a failure, or None."""
    if not compat.behaviour.shows_packed:
        return None  # the core pushes its hooks, and this way is never used (``core.choose``)
    in_engine = not compat.entries.engine_may_need_threads()  # else a backward would start them
    program, queue = _SavingProgram(), module.Queue()
    queue.serve(program.need, program.need)
    if not module.hook(True):
        return "torch's engine is another's"
    try:
        module.enter(queue, False)
        try:
            program.save()
        finally:
            module.leave(queue)
        (program.x * program.x).sum()  # after `leave`: the queue must not get these saves
        if len(queue) != 3:
            return "not every save was noted"
        module.mark("now", None)
        problem = program.unpack(in_engine=in_engine)
        module.mark(None, None)
        if problem is None and in_engine and module.note_of(program.node) != (program.needed[0].stack, "now"):
            return "a node has no note of its backward"
        if in_engine and (len(queue) != 0 or queue.died != 3):
            return "saves outlive their graph"
        return problem
    # Even after a failure: the engine is the whole process's, and the Python core needs torch's own.
    finally:
        module.hook(False)


def _of_saves(saves: list[Any], program: _SavingProgram, module: Any) -> str | None:
    """Return what is wrong with the saves of ``program``."""
    x, weight, constant = program.x, program.weight, program.constant
    of_x, of_part = sorted(saves[:2], key=lambda saved: saved.base is not None)
    of_constant = saves[2]
    if [saved.requires_grad for saved in (of_x, of_part, of_constant)] != [True, True, False]:
        return "what requires grad was not noted"
    if of_x.origin() is not x or of_x.base is not None or of_constant.origin() is not constant:
        return "a tensor was not noted"
    if of_part.base is None or of_part.base() is not weight:
        return "what a tensor is a view of was not noted"
    if any(saved.version != 0 or saved.entry is not None for saved in saves):
        return "a version is wrong"
    if of_part.alias.data_ptr() != weight.data_ptr() + 4 or of_part.alias.requires_grad:
        return "an alias has other memory"
    if of_x.stack is not of_part.stack or of_x.stack == of_constant.stack:
        return "saves of one operation have not one stack"
    codes = [code.co_name for code in of_x.stack[::2]]
    if codes[:2] != ["save", "_exercise"] or module.newest()[1] is not of_constant.stack:
        return "a stack is wrong"
    return None
