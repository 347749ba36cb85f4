"""Self-tests of the mechanisms that verdicts depend on, run once per process on the installed torch.

Each program overwrites a tensor that one mechanism observes, and that must be reported. A release of torch
that changes a mechanism would otherwise make ``guard`` return wrong values silently.

No program enters torch's engine: with a GPU that starts threads, and torch refuses a backward in later forks.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import torch

from ...torch_internals import compat
from ...torch_internals.patches import Patches
from ..record import Ledger, SavedTensor
from .backward import backward_calls
from .conflicts import Conflicts
from .saves import SavedTensorHooks, new_queue

Name = Literal["hooks", "backward", "data", "optimizer", "functions", "checkpoint"]


class StandInSession(Conflicts):
    """Session stand-in for the self-tests: it records which holder saw a change, and reports nothing."""

    repairs = False

    def __init__(self) -> None:
        self.ledger = Ledger(keeps_originals=False, queue=new_queue())
        self.changed_holders: list[str] = []  # holders of tensors that changed: `saved`, `ctx`, `recompute`

    def need(self, saved: SavedTensor) -> torch.Tensor:
        state = self.ledger.state_of(saved)
        if state.changed:
            self.changed_holders.append("saved")
        return state.before

    def stale(self, saved: SavedTensor, held: str) -> None:
        if self.ledger.state_of(saved).changed:
            self.changed_holders.append(held)


class Off(NamedTuple):
    """A mechanism that does not work on this torch."""

    name: Name
    sentence: str  # sentence that says what goes unseen and what follows, without its full stop

    @property
    def ends_guard(self) -> bool:
        return self.name not in ("functions", "checkpoint")  # no value that `guard` would return is reliable


class _Mechanism(NamedTuple):
    unseen: str  # part of a sentence: what goes unseen if the mechanism is off
    refused: str  # part of a sentence: what guard does then
    programs: tuple[Callable[[StandInSession], str | None], ...]
    """Self-tests; each returns what is wrong, or None."""


def off(acquire: Callable[[Ledger], None], release: Callable[[Ledger], None]) -> tuple[Off, ...]:
    """Return the mechanisms that fail, in the order of the table below.

    Args:
        acquire: Installs everything that a session installs, for a ledger.
        release: Takes it away again.
    """
    probe = StandInSession()  # type: ignore[abstract]  # what reports a conflict does nothing in it
    with _plain(), contextlib.ExitStack() as ends:
        acquire(probe.ledger)
        ends.callback(release, probe.ledger)
        ends.callback(probe.ledger.seal)
        hooks = SavedTensorHooks(probe.need, probe)
        hooks.enter(over_programs=True)
        ends.callback(hooks.leave)
        return tuple(_fails(probe))


def _fails(probe: StandInSession) -> Iterator[Off]:
    """Yield each mechanism of which a program fails, with the first problem."""
    for name, mechanism in _MECHANISMS.items():
        for program in mechanism.programs:
            problem = _tried(program, probe)
            if problem is not None:
                on = f"on torch {torch.__version__}"
                yield Off(name, f"{mechanism.unseen} {on} ({problem}), so guard {mechanism.refused}")
                break


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    """Run in plain surroundings: without the program's modes, transforms and warning filters.

    Hooks are allowed, and torch's own warnings about its features concern no program here.
    """
    on_cuda = torch.is_autocast_enabled("cuda")
    with (
        compat.unseen.unseen_by_modes(),
        warnings.catch_warnings(action="ignore"),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.autocast("cuda", enabled=False) if on_cuda else contextlib.nullcontext(),
        compat.compilers.outside_transforms(),
        compat.hook_stack.allowed(),
    ):
        yield


def _tried(program: Callable[[StandInSession], str | None], probe: StandInSession) -> str | None:
    """Return what is wrong; None, too, where the program has replaced what a self-test would call."""
    probe.changed_holders.clear()
    try:
        return program(probe)
    except compat.entries.ReplacedError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# --- the programs ---------------------------------------------------------------------------------


def _leaf() -> torch.Tensor:
    return torch.ones(2, device="cpu", dtype=torch.float32, requires_grad=True)


def _constant(value: float) -> torch.Tensor:
    return torch.full((2,), value, device="cpu", dtype=torch.float32)


def _ends(probe: StandInSession, held: str, output: torch.Tensor, slope: float) -> str | None:
    """Run the node of ``output``. Return any fault: a missed change of what is held, another gradient."""
    gradient = compat.graph.derivative(output, torch.ones_like(output)).tolist()
    if held not in probe.changed_holders:
        return "a write was missed"
    return None if gradient == [slope] * 2 else f"a gradient is {gradient} and not {[slope] * 2}"


def _overwrites(
    write: Callable[[torch.Tensor], object], *, trained: bool = False
) -> Callable[[StandInSession], str | None]:
    """Return a program that overwrites a saved factor by ``write``; under ``no_grad`` if it is trained."""

    def program(probe: StandInSession) -> str | None:
        x, factor = _leaf(), _constant(2).requires_grad_(trained)
        y = x * factor
        with torch.set_grad_enabled(not trained):
            write(factor)
        return _ends(probe, "saved", y, 2)

    return program


_SAVED = _overwrites(lambda factor: factor.add_(1))
_EXCHANGED = _overwrites(lambda factor: setattr(factor, "data", _constant(3)))


def _saved_inside_other_hooks(probe: StandInSession) -> str | None:
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        return _SAVED(probe)


def _calls(probe: StandInSession) -> str | None:
    """Check that calls are counted by two that torch refuses before its engine starts."""
    constant, own = _constant(1).sum(), compat.entries.own
    before = backward_calls.count
    for call in (own(torch.autograd.backward), functools.partial(own(torch.autograd.grad), inputs=constant)):
        with contextlib.suppress(RuntimeError):
            call(constant)
    seen = backward_calls.count - before
    return None if seen == 2 else f"{seen} of 2 calls were seen"


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * ctx.factor, None


class _ScaleInTwo(_Scale):
    @staticmethod
    def forward(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return x * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.factor = inputs[1]


def _on_ctx(function: Any) -> Callable[[StandInSession], str | None]:
    """Return a program that overwrites a tensor on ``ctx``, for ``apply`` bound now or looked up later."""
    bound = function.apply

    def program(probe: StandInSession) -> str | None:
        """Run both, and return the first problem."""
        for apply in (function.apply, bound):
            x, factor = _leaf(), _constant(2)
            y = apply(x, factor)
            factor.add_(1)
            problem = _ends(probe, "ctx", y, 3)
            if problem is not None:
                return problem
            probe.changed_holders.clear()
        return None

    return program


def _checkpointed(reentrant: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the input and output of a checkpoint that reads a tensor which is then overwritten."""
    x, factor = _leaf(), _constant(2)
    checkpoint = compat.entries.own(torch.utils.checkpoint.checkpoint)
    with Patches() as patches:
        patches.replace(*compat.entries.CHECKPOINT_DEVICE, "cpu")  # else it starts a driver to find a device
        y = checkpoint(lambda v: v * factor, x, use_reentrant=reentrant, preserve_rng_state=False)
    factor.add_(1)
    return x, y


def _recomputed(probe: StandInSession) -> str | None:
    """Check that a checkpoint's recomputation is observed.

    Running it imports Dynamo, which takes a second. Unless that is loaded, only its entry point is checked.
    """
    if compat.compilers.has_dynamo():
        return _ends(probe, "recompute", _checkpointed(False)[1], 3)
    # test_neither_dynamo_nor_sympy_is_imported_for_it
    home, name = compat.entries.CHECKPOINT
    return None if compat.entries.checkpoint_calls(name) else f"{home.__name__}.{name} is not what is called"


def _recomputed_reentrantly(probe: StandInSession) -> str | None:
    """Check that a reentrant checkpoint's recomputation is observed, without the backward that it runs."""
    x, y = _checkpointed(True)
    compat.graph.grad_fn(y).run_function(x)
    return None if "recompute" in probe.changed_holders else "a write was missed"


_NO_GUARD = "refuses to begin"
_MECHANISMS: dict[Name, _Mechanism] = {
    "hooks": _Mechanism("what backward saves is not seen", _NO_GUARD, (_SAVED, _saved_inside_other_hooks)),
    "backward": _Mechanism("calls of backward are not seen", _NO_GUARD, (_calls,)),
    "data": _Mechanism("`tensor.data = other` is not seen", _NO_GUARD, (_EXCHANGED,)),
    "optimizer": _Mechanism(
        "what optimizers write is not seen",
        _NO_GUARD,
        (
            _overwrites(lambda weight: weight.add_(_constant(1)), trained=True),
            _overwrites(
                lambda weight: compat.dispatcher.foreach_add_([weight], [_constant(1)]), trained=True
            ),
            _overwrites(lambda weight: compat.dispatcher.fused_step(weight, _constant(1)), trained=True),
        ),
    ),
    "functions": _Mechanism(
        "what custom Functions keep on `ctx` is not seen",
        "refuses a backward through one",
        (_on_ctx(_Scale), _on_ctx(_ScaleInTwo)),
    ),
    "checkpoint": _Mechanism(
        "what a checkpoint computes again is not seen",
        "refuses a backward through one",
        (_recomputed, _recomputed_reentrantly),
    ),
}
