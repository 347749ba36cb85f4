"""Conflicts that a session learns of: at an unpack, by a hook, at a frozen tensor or by torch's error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from operator import attrgetter
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointError

from ..model import Finding, Save, Variant, Write, or_default
from ..observe.hooks import compiled
from ..observe.record import SavedTensor, SaveState
from ..source import ProgramNames, Stack, of_program, resolve
from ..torch_internals import compat
from . import describe, need, reads, refused, runs, save, sentence, spelling, write
from ._live import frame_key, user_frames, user_place
from .ahead import refused_too
from .boundary import bare_finding, finding_or_fallback
from .describe import SessionView
from .refusals import kind_of
from .rules import judge, judge_refusal, rule_of, uc101, uc102, uc103, uc105
from .rules.uc104 import judge_gradient
from .rules.uc106 import judge_copy


@dataclass(frozen=True)
class Occurrence:
    """A conflict that a session counts, and reports if it is new; each part is made when it is needed."""

    key: Callable[[], Any]
    """Returns the key under which two conflicts count as one: their places. Reads no source file, because a
    known conflict must stay cheap in a loop."""
    tensor: Callable[[], Any] = field(default=lambda: None, kw_only=True)
    """Returns a key of the tensor, as cheap as ``key``: one write may spoil several places of a conflict."""
    make: Callable[[], Finding | None]
    """Describes and judges the conflict; slow, so not called for a known key."""
    known_facts: Callable[[], Finding]  # returns the bare finding if ``make`` fails
    again: bool = False
    """Whether a finding is made even for a known key, for an error that is about to be raised."""
    reached: bool = True  # whether backward has come to the conflict
    can_be_repaired: bool = False  # whether ``guard`` and ``audit`` have given the right values already
    refused: bool = False
    """Whether the session raises although it isn't strict: ``guard`` has no right value. Even if the finding
    is suppressed: test_what_guard_can_not_give_back_is_refused_all_the_same."""
    cause: BaseException | None = None

    def finding(self) -> Finding | None:
        return finding_or_fallback(self.make, self.known_facts)

    @staticmethod
    def of_unpack(
        state: SaveState, session: SessionView, *, repaired: bool, again: bool = False, node: Any = None
    ) -> Occurrence:
        """Return the occurrence of a tensor that autograd saved and the program overwrote.

        One line may save two tensors, of which torch sees only one overwritten: these are two findings.

        Args:
            repaired: Whether backward gets the value as it was saved.
            again: Make a new finding even for known places, for an error that is about to be raised.
            node: The node that would have unpacked the tensor, if backward was refused before it came there.
        """
        # Part of the key, so it must be known without an explanation.
        refused = state.refused or (state.moved and not state.changed)

        def key() -> Any:
            """Return the kind of check, the line that saved (None for a step) and the one that wrote last."""
            # `refused` keeps two saves of one line apart: test_both_are_told, random scripts 14013 and 14178.
            last = session.ledger.last_write(state.saved)
            # One step is one cause, however many lines have read its parameters
            # (test_one_step_is_one_finding in tests/unit/session/test_one_cause.py).
            actor = None if last is None or last.actor is None else last.actor()
            saved = None if isinstance(actor, torch.optim.Optimizer) else user_place(state.saved.stack)
            # Each operand that a line of the program's own overwrote has an edit of its own
            # (test_both_operands_are_told).
            operand = reads.operand_of(node, state.saved) if actor is None else None
            return refused, saved, operand, user_place(() if last is None else last.stack)

        def tensor() -> Any:  # the line that saved it, its shape and, for a leaf, its memory
            saved = state.saved
            whole = (saved.base or saved.origin)()
            lasts = whole is not None and not compat.graph.has_history(whole)
            memory = compat.tensors.storage_key_or_none(saved.alias) if lasts else None
            return user_place(saved.stack), str(saved.alias.shape), memory  # a symbol can't be hashed

        def make() -> Finding | None:
            finding = judge(
                describe.evidence(state, session, repaired=repaired, goes_on=not again, node=node)
            )
            if finding is None and again:
                raise AssertionError("what is refused is always a finding")
            return finding if finding is None or node is None else replace(finding, ahead=True)

        def known_facts() -> Finding:
            """Return the facts that the ledger alone knows."""
            seen = refused or (not repaired and reads.is_detached(state.saved))
            return bare_finding(
                "UC101" if seen else "UC102",
                torch_message=sentence.in_any_case(state, goes_on=not again),
                saved=_unplaced(state.saved),
                repaired=repaired,
            )

        return Occurrence(key, make, known_facts, tensor=tensor, again=again, reached=node is None)

    @staticmethod
    def of_refused_next(state: SaveState, session: SessionView) -> Iterator[Occurrence]:
        """Yield occurrences of the tensors that the running backward would have refused after this one."""
        for saved, node in refused_too(state.saved, session.ledger):
            yield Occurrence.of_unpack(session.ledger.state_of(saved), session, repaired=False, node=node)


class SeenConflicts(SessionView, ABC):
    """The methods by which the hooks hand over what no saved tensor shows (``observe.hooks.conflicts``).

    A session inherits them, and keeps in ``on`` what they describe.
    """

    @abstractmethod
    def on(self, occurrence: Occurrence) -> None:
        """Keep the finding for a conflict, and report it."""

    def _on_while_active(self, occurrence: Occurrence) -> None:
        if self.active:
            self.on(occurrence)

    def stale_on_ctx(self, state: SaveState, attribute: str, node: str) -> None:
        """UC103: ``backward`` reads ``ctx.x`` that has changed since the Function's forward left it there."""
        held = {"kind": "ctx", "operation": node.removesuffix("Backward"), "role": attribute, "node": node}
        self.on(self._held("UC103", state, held, can_be_repaired=True))

    def stale_in_recompute(self, state: SaveState, read: Stack) -> None:
        """UC105: a checkpoint's second run reads a tensor that has changed since its first.

        Guard can't hand it the old values, because the code reads by itself.
        """
        held = {"kind": "recompute", "operation": "checkpoint", "read": read}
        self.on(self._held("UC105", state, held, can_be_repaired=False))

    def stale_in_cache(self, state: SaveState, operation: str, error: RuntimeError | None) -> None:
        """UC105: a checkpoint's second run gets a changed tensor that selective checkpointing has cached."""
        message = None if error is None else str(error)
        held = {"kind": "cache", "operation": operation, "cached": True, "torch_message": message}
        known = state.value is not None or not state.changed
        occurrence = self._held("UC105", state, held, can_be_repaired=known)
        refused = occurrence.refused or (error is not None and self.policy == "watch")
        self.on(replace(occurrence, again=True, refused=refused, cause=error))

    def _held(
        self, code: str, state: SaveState, held: dict[str, Any], *, can_be_repaired: bool
    ) -> Occurrence:
        """Return the occurrence of a changed tensor that autograd did not save.

        Args:
            held: The holder, as ``describe.held_elsewhere`` takes it.
            can_be_repaired: Whether guard can hand the old values to the holder.
        """
        repaired = self.policy == "guard" and can_be_repaired and self.active

        def key() -> Any:
            last = self.ledger.last_write(state.saved)
            return code, frame_key(state.saved.stack), frame_key(() if last is None else last.stack)

        return Occurrence(
            key,
            lambda: judge(describe.held_elsewhere(state, self, repaired=repaired, **held)),
            lambda: bare_finding(code, saved=_unplaced(state.saved), repaired=repaired),
            tensor=lambda: state.saved.alias.data_ptr() if held["kind"] == "recompute" else None,
            can_be_repaired=can_be_repaired,
            refused=self.policy == "guard" and not can_be_repaired,
        )

    def gradient_written(
        self, gradient: torch.Tensor, writes: Sequence[tuple[str, Stack]], node: Any
    ) -> None:
        """UC104: a gradient was changed before another consumer received it."""
        repaired = self.policy == "guard"
        occurrence = Occurrence(
            lambda: ("UC104", frame_key(writes[0][1])),
            lambda: judge_gradient(
                _writes(writes),
                need.running(node, self.backwards_before),
                shape=tuple(gradient.shape),
                repaired=repaired,
            ),
            lambda: bare_finding("UC104", repaired=repaired),
            can_be_repaired=True,
        )
        self.on(occurrence)

    def dirty_not_returned(
        self, error: RuntimeError, function: str, writes: Sequence[tuple[str, Stack]], stack: Stack
    ) -> None:
        """UC103: torch refused a Function that marked a tensor dirty and returned another.

        The finding replaces torch's error, which has no line.
        """
        said, message = str(error), uc103.DIRTY.message.format(function=function, what="a tensor")
        occurrence = Occurrence(
            lambda: ("UC103", frame_key(stack)),
            lambda: uc103.judge_dirty(_writes(writes), need.at(stack), function=function, torch_message=said),
            lambda: bare_finding("UC103", message=message, torch_message=said, variant="dirty"),
            again=True,
            refused=True,
            cause=error,
        )
        self.on(occurrence)

    def input_overwritten(
        self,
        function: str,
        *,
        is_operator: bool,
        position: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        version: int,
        writes: Sequence[tuple[str, Stack]],
        stack: Stack,
        returned: bool,
    ) -> None:
        """UC103: an input is read after a Function overwrote it unmarked, so its gradient ignores the write.

        Guard can't repair it, because the derivative of the written values is not recorded.
        """

        def make() -> Finding:
            """Describe the input as the Function's argument at its `apply`, and judge the writes to it."""
            site = resolve(stack)
            given = spelling.spell_argument(stack, position)
            saved = replace(
                save.of_kind(shape, dtype, math.prod(shape), version),
                site=None if site is None else replace(site, below=()),  # torch's own `apply`
                operation=function,
                node=f"{function}Backward",
                expression=given,
                extent=spelling.mention(stack, given),
            )
            needed = need.running(None, self.backwards_before)
            return uc103.judge_unmarked(
                saved, _writes(writes), needed, returned=returned, is_operator=is_operator
            )

        texts = uc103.BY_OPERATOR if is_operator else uc103.UNMARKED
        message = texts.message.format(function=function, held="an input")
        occurrence = Occurrence(
            lambda: ("UC103", "unmarked", frame_key(stack), frame_key(writes[0][1])),
            make,
            lambda: bare_finding("UC103", message=message, variant="unmarked"),
            # An operator can't mark its input, and the gradient past it is right if it adds a constant
            # (test_an_operator_that_overwrites_its_input_is_named_and_runs_as_plain).
            refused=self.policy == "guard" and not is_operator,
        )
        self._on_while_active(occurrence)

    def stale_copy(
        self, leaf: torch.Tensor, operation: str, stack: Stack, read: Stack, *, repaired: bool
    ) -> None:
        """UC106: an operation was given a copy by autocast that is older than a write to the weight."""

        def make() -> Finding:
            """Describe the weight where its copy is read, and judge the write to it."""
            names = ProgramNames(user_frames())
            saved = replace(
                save.unplaced(leaf),
                site=resolve(read),
                operation="autocast",
                expression=names.variable(leaf),
                name=names.parameter(leaf),
            )
            needed = need.running(None, self.backwards_before)
            return judge_copy(saved, (write.by(operation, stack),), needed, repaired=repaired)

        occurrence = Occurrence(
            lambda: ("UC106", user_place(stack), user_place(read)),
            make,
            lambda: bare_finding("UC106", repaired=repaired),
            tensor=lambda: leaf.data_ptr(),
            can_be_repaired=repaired,
        )
        self._on_while_active(occurrence)

    def harmful_operation(
        self, code: str, operation: str, stack: Stack, variant: Variant | None = None
    ) -> None:
        """An operation does harm by itself, such as one that reads what it has overwritten (UC102).

        Guard doesn't refuse it: the result is what plain torch computes, and guard's promise is about
        gradients.
        """

        def message() -> str:
            return str(rule_of(code).OPERATION.message.format(what="a tensor"))

        occurrence = Occurrence(
            lambda: (code, variant, user_place(stack)),
            lambda: rule_of(code).judge_operation(
                write.by(operation, stack), resolve(stack, attrgetter("right_side"))
            ),
            lambda: bare_finding(code, message=or_default(message, None), variant=variant),
        )
        self._on_while_active(occurrence)

    def content_changed(self, saved: SavedTensor) -> None:
        """UC102: the content of a saved tensor changed although no write to it was seen.

        Guard can't repair it, because no copy of the old content exists.
        """
        ledger, fingerprint = self.ledger, saved.fingerprint
        # A query that fails counts as a read. A change that no derivative reads does no harm
        # (test_a_change_that_backward_does_not_read_is_no_finding).
        if (
            not self.active
            or fingerprint is None
            or reads.is_unpacking()
            or or_default(lambda: reads.is_scratch(saved) or reads.never_read(saved, ledger), False)
        ):
            return
        occurrence = Occurrence(
            lambda: ("UC102", user_place(saved.stack), fingerprint.places()),
            lambda: judge(describe.changed_unseen(ledger.state_of(saved), self)),
            lambda: bare_finding("UC102", saved=_unplaced(saved)),
            refused=self.policy == "guard",
        )
        self.on(occurrence)

    def overwritten_in_backward(self, graph: compiled.OverwrittenInGraph) -> None:
        """UC102: a compiled backward reads what it has overwritten itself.

        Guard can't repair it, because one call of the code does both.
        """
        before = self.backwards_before
        occurrence = Occurrence(
            lambda: ("UC102", user_place(graph.saved), user_place(graph.writes[-1].traced)),
            lambda: uc102.judge_compiled(refused.in_compiled(graph, need.running(None, before))),
            lambda: bare_finding("UC102", saved=save.unplaced(graph.tensor)),
            refused=self.policy == "guard",
        )
        self._on_while_active(occurrence)

    def refusal_finding(self, error: BaseException) -> Finding | None:
        """Return the finding for an error that torch raised; None if the error isn't torch's refusal."""
        # If the query fails, the error stays as it is
        # (test_an_error_of_which_it_is_not_known_whose_it_is_stays_as_it_is).
        if (graph := compiled.OverwrittenInGraph.of(error)) is not None:
            return finding_or_fallback(
                lambda: uc101.judge_stale(refused.in_compiled(graph, need.at(graph.caller), str(error))),
                lambda: bare_finding("UC101", torch_message=str(error)),
            )
        kind = or_default(lambda: kind_of(error), None)
        if isinstance(error, CheckpointError):
            return finding_or_fallback(
                lambda: uc105.judge_differs(runs.evidence(error, self.backwards_before)),
                lambda: bare_finding("UC105", torch_message=str(error), variant="differs"),
            )
        if kind is None:
            return None
        return finding_or_fallback(
            lambda: judge_refusal(refused.evidence(error, kind, self)),
            lambda: bare_finding(kind.code, torch_message=str(error)),
        )


def of_frozen(tensor: torch.Tensor, frozen_at: Stack, operation: str) -> Finding:
    """Return the finding for an operation of the program's current line that writes to a frozen tensor."""
    stack = of_program()
    # Outside of `make`, because the finding without an explanation shows these facts, too.
    facts = replace(save.unplaced(tensor), operation="freeze")

    def make() -> Finding:
        written = write.by(operation, stack)
        extent = spelling.mention(frozen_at, written.expression)
        saved = replace(facts, site=resolve(frozen_at), expression=written.expression, extent=extent)
        return uc101.judge_frozen(saved, written)

    message = uc101.FROZEN.message.format(what="a tensor")
    known = bare_finding("UC101", message=message, saved=facts, variant="frozen")
    return finding_or_fallback(make, lambda: known)


def _unplaced(saved: SavedTensor) -> Save | None:
    return or_default(lambda: save.unplaced(saved.alias, saved.version), None)


def _writes(log: Sequence[tuple[str, Stack]]) -> tuple[Write, ...]:
    return tuple(starmap(write.by, log))
