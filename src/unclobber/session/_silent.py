"""A session's findings on memory that torch doesn't check: ``ctx`` attributes, gradients, recomputations.

The hooks report what they saw beyond autograd's own saves as a fact (``Conflict``). It is described, judged
and handed to the session's policy: ``watch`` warns or, if strict, raises; ``guard`` has given the right
values if they are known, and refuses otherwise. Each kind of fact has one class here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Literal, Protocol, TypeVar

from ..evidence import describe, need, reads, save, write
from ..judge import (
    judge,
    judge_dirty,
    judge_gradient,
    judge_self_overlap,
    judge_unmarked,
    judge_without_story,
)
from ..model import Finding, Save, Write, or_default
from ..observe.hooks import conflicts
from ..observe.hooks.conflicts import Conflict
from ..observe.hooks.write_log import FollowedWrite
from ..observe.record import Ledger, SavedTensor, SaveState
from ..source import frames, sites, spelling
from .story_boundary import KnownFacts, internal_error_in

C = TypeVar("C", bound=Conflict)


class SessionView(Protocol):
    """The part of a session that is needed here: its policy, and methods that keep and report findings."""

    active: bool
    ledger: Ledger
    backwards_before: int

    @property
    def policy(self) -> str:
        """The reaction to a conflict."""

    def keep(
        self,
        key: Callable[[], Any],
        make: Callable[[], Finding | None],
        known_facts: Callable[[], KnownFacts],
        *,
        again: bool = False,
        reached: bool = True,
    ) -> Finding | None:
        """Do as ``Session.keep``."""

    def warn_or_raise(
        self, finding: Finding | None, *, refuse: bool = False, cause: BaseException | None = None
    ) -> None:
        """Do as ``Session.warn_or_raise``."""

    def note_internal_error(self, fault: str) -> None:
        """Do as ``Session.note_internal_error``."""


UNSURE = "whether a tensor that backward needs was overwritten is not known"
"""Message of a refusal if an internal error leaves no more to be said."""

_CODES = {"ctx": "UC103", "recompute": "UC105"}
"""Codes by the holder of the tensor."""


class SilentConflicts:
    """The receiver of one session's ``Conflicts``."""

    def __init__(self, session: SessionView) -> None:
        self._session = session
        self.ledger: Ledger = session.ledger

    @property
    def repairs(self) -> bool:
        """Return whether code gets the values as they were: under ``guard`` and ``audit``."""
        return self._session.policy != "watch" and self._session.active

    def stale(self, saved: SavedTensor, held: Literal["ctx", "recompute"]) -> SaveState | None:
        """Return the save state of ``saved`` if its values are known to have changed, else None.

        Raises:
            InplaceError: an internal error hides whether they have, and the policy isn't ``watch``.
        """
        session = self._session
        if not session.active:
            return None
        entry = saved.entry
        # Without an entry no write was seen; a bump without one still needs the ledger's look.
        if entry is None and saved.alias._version == saved.version:
            return None
        fault = None if entry is None else entry.lost
        if fault is None:
            try:
                state = self.ledger.state_of(saved)
            except Exception as error:
                fault = internal_error_in("what became of a tensor could not be told", error)
            else:
                return state if state.changed else None
        session.note_internal_error(fault)
        written = saved.alias._version != saved.version or (entry is not None and entry.written)
        if written and session.policy != "watch":
            known_facts = KnownFacts(_CODES[held], message=UNSURE)
            finding = judge_without_story(known_facts.code, fault, message=UNSURE)
            kept = session.keep(
                lambda: (known_facts.code, fault), lambda: finding, lambda: known_facts, again=True
            )
            session.warn_or_raise(kept, refuse=True)
        return None

    def on(self, conflict: Conflict) -> None:
        """Keep the finding for a conflict that the hooks saw, and report it."""
        session = self._session
        maker = _MAKERS[type(conflict)](conflict, session)
        if maker.is_nothing():
            return
        repaired = self.repairs
        finding = session.keep(maker.key, maker.make, maker.known_facts, again=maker.again)
        if not (maker.can_be_repaired and repaired):
            session.warn_or_raise(finding, refuse=maker.refuses(), cause=maker.cause)


class _FindingMaker(ABC, Generic[C]):
    """The parts of one conflict's finding, each built when it is needed."""

    can_be_repaired = False
    """Whether ``guard`` and ``audit`` have given the right values already."""
    again = False
    """Whether the finding is made for every conflict, because torch's error needs one."""
    cause: BaseException | None = None

    def __init__(self, conflict: C, session: SessionView) -> None:
        self.conflict = conflict
        self.session = session
        self.is_guard = session.policy == "guard"

    def is_nothing(self) -> bool:
        """Return whether there is nothing to report after all."""
        return False

    def refuses(self) -> bool:
        """Return whether the session raises although it isn't strict: ``guard`` has no right value."""
        # Even for suppressed findings: test_what_guard_can_not_give_back_is_refused_all_the_same.
        return self.is_guard and not self.can_be_repaired

    @abstractmethod
    def key(self) -> Any:
        """Return the key under which two conflicts count as one."""

    @abstractmethod
    def make(self) -> Finding | None:
        """Describe and judge the conflict."""

    @abstractmethod
    def known_facts(self) -> KnownFacts:
        """Return the facts that are known without reading any source file."""


class _OnCtxMaker(_FindingMaker[conflicts.StaleOnCtx]):
    """UC103: ``backward`` reads ``ctx.x`` that has changed."""

    can_be_repaired = True

    def __init__(self, conflict: conflicts.StaleOnCtx, session: SessionView) -> None:
        super().__init__(conflict, session)
        self.repaired = self.is_guard and session.active

    def key(self) -> Any:
        return _key("UC103", self.conflict.state, self.session.ledger)

    def make(self) -> Finding | None:
        """Describe the attribute as what the Function's forward saved, and judge it."""
        state, attribute, node = self.conflict
        return judge(
            describe.held_elsewhere(
                state,
                self.session.ledger,
                save.HeldTensor("ctx", attribute, node.removesuffix("Backward"), node),
                repaired=self.repaired,
                backwards_before=self.session.backwards_before,
            )
        )

    def known_facts(self) -> KnownFacts:
        return _known_facts("UC103", self.conflict.state.saved, self.repaired)


class _InRecomputeMaker(_FindingMaker[conflicts.StaleInRecompute]):
    """UC105: a checkpoint's second run reads a tensor that has changed since its first.

    Guard can't hand the old values to it, because the code reads the tensor by itself.
    """

    def key(self) -> Any:
        return _key("UC105", self.conflict.state, self.session.ledger)

    def make(self) -> Finding | None:
        """Describe the tensor as what the checkpoint read in its first run, and judge it."""
        return judge(
            describe.held_elsewhere(
                self.conflict.state,
                self.session.ledger,
                save.HeldTensor("recompute", None, "checkpoint", None),
                repaired=False,
                backwards_before=self.session.backwards_before,
                read=self.conflict.read,
            )
        )

    def known_facts(self) -> KnownFacts:
        return _known_facts("UC105", self.conflict.state.saved)


class _GradientMaker(_FindingMaker[conflicts.GradientWritten]):
    """UC104: a gradient was changed before another consumer received it."""

    can_be_repaired = True

    def key(self) -> Any:
        return "UC104", frames.frame_key(self.conflict.writes[0].stack)

    def make(self) -> Finding | None:
        """Judge the writes to a gradient that the running node has handed on."""
        gradient, writes, node = self.conflict
        return judge_gradient(
            _writes(writes),
            need.running(node, self.session.backwards_before),
            shape=tuple(gradient.shape),
            repaired=self.is_guard,
        )

    def known_facts(self) -> KnownFacts:
        return KnownFacts("UC104", repaired=self.is_guard)


class _NotReturnedMaker(_FindingMaker[conflicts.DirtyNotReturned]):
    """UC103: torch refused a Function that marked a tensor dirty and returned another."""

    again = True

    def __init__(self, conflict: conflicts.DirtyNotReturned, session: SessionView) -> None:
        super().__init__(conflict, session)
        self.cause = conflict.error

    def refuses(self) -> bool:
        return True  # torch has refused already; the finding replaces its error, which has no line

    def key(self) -> Any:
        return "UC103", frames.frame_key(self.conflict.stack)

    def make(self) -> Finding | None:
        error, function, writes, stack = self.conflict
        return judge_dirty(_writes(writes), need.at(stack), function=function, torch_message=str(error))

    def known_facts(self) -> KnownFacts:
        message = f"{self.conflict.function}.forward marks a tensor dirty but returns another"
        return KnownFacts("UC103", torch_message=str(self.conflict.error), message=message, variant="dirty")


class _InputMaker(_FindingMaker[conflicts.InputOverwritten]):
    """UC103: an input is read after a Function overwrote it unmarked, so its gradient ignores the write.

    Guard can't repair it, because the derivative of the written values is not recorded.
    """

    def is_nothing(self) -> bool:
        return not self.session.active

    def refuses(self) -> bool:
        # An operator can't mark its input, and the gradient past it is right if it adds a constant
        # (test_an_operator_that_overwrites_its_input_is_named_and_runs_as_plain).
        return super().refuses() and not self.conflict.is_operator

    def key(self) -> Any:
        conflict = self.conflict
        return (
            "UC103",
            "unmarked",
            frames.frame_key(conflict.stack),
            frames.frame_key(conflict.writes[0].stack),
        )

    def make(self) -> Finding:
        """Describe the input as the Function's argument at its `apply`, and judge the writes to it."""
        conflict = self.conflict
        site = sites.resolve(conflict.stack)
        given = spelling.spell_argument(conflict.stack, conflict.position)
        facts = save.of_kind(conflict.shape, conflict.dtype, math.prod(conflict.shape), conflict.version)
        saved = replace(
            facts,
            site=None if site is None else replace(site, below=()),  # torch's own `apply`
            operation=conflict.function,
            node=f"{conflict.function}Backward",
            expression=given,
            extent=None if given is None else spelling.mention(conflict.stack, given),
        )
        needed = need.running(None, self.session.backwards_before)
        return judge_unmarked(
            saved,
            _writes(conflict.writes),
            needed,
            returned=conflict.returned,
            is_operator=conflict.is_operator,
        )

    def known_facts(self) -> KnownFacts:
        """Return the code and the sentence about the operator or the Function's forward."""
        function = self.conflict.function
        message = (
            f"{function} overwrites an input, which autograd does not record"
            if self.conflict.is_operator
            else f"{function}.forward overwrites an input without mark_dirty"
        )
        return KnownFacts("UC103", message=message, variant="unmarked")


class _SelfOverlapMaker(_FindingMaker[conflicts.SelfOverlap]):
    """UC102: an operation is about to read what it has overwritten itself, as it would without unclobber."""

    def is_nothing(self) -> bool:
        return not self.session.active

    def refuses(self) -> bool:
        return False  # the result is what plain torch computes, and guard's promise is about gradients

    def key(self) -> Any:
        return "UC102", "self-overlap", sites.user_place(self.conflict.stack)

    def make(self) -> Finding:
        operation, stack = self.conflict
        return judge_self_overlap(write.by(operation, stack), sites.resolve(stack, sites.right_side))

    def known_facts(self) -> KnownFacts:
        message = "a tensor is overwritten by an operation that still reads the old values"
        return KnownFacts("UC102", message=message, variant="self-overlap")


class _ContentMaker(_FindingMaker[conflicts.ContentChanged]):
    """UC102: the content of a saved tensor changed although no write to it was seen.

    Guard can't repair it, because no copy of the old content exists.
    """

    def is_nothing(self) -> bool:
        # A query that fails counts as a read. A change that no derivative reads does no harm
        # (test_a_change_that_backward_does_not_read_is_no_finding).
        return not self.session.active or reads.is_unpacking() or or_default(self._is_unminded, False)

    def _is_unminded(self) -> bool:
        """Return whether the running node's gradient doesn't depend on the present content of the tensor."""
        saved = self.conflict.saved
        return reads.is_scratch(saved) or reads.never_read(saved, self.session.ledger)

    def key(self) -> Any:
        saved, fingerprint = self.conflict
        return "UC102", sites.user_place(saved.stack), fingerprint.good, fingerprint.bad

    def make(self) -> Finding | None:
        """Describe the change by the moments of the last matching and the first differing hash; judge it."""
        saved, fingerprint = self.conflict
        ledger = self.session.ledger
        return judge(
            describe.changed_unseen(
                ledger.state_of(saved),
                ledger,
                fingerprint,
                backwards_before=self.session.backwards_before,
            )
        )

    def known_facts(self) -> KnownFacts:
        return _known_facts("UC102", self.conflict.saved)


_MAKERS: dict[type[Conflict], type[_FindingMaker[Any]]] = {
    conflicts.StaleOnCtx: _OnCtxMaker,
    conflicts.StaleInRecompute: _InRecomputeMaker,
    conflicts.GradientWritten: _GradientMaker,
    conflicts.DirtyNotReturned: _NotReturnedMaker,
    conflicts.InputOverwritten: _InputMaker,
    conflicts.ContentChanged: _ContentMaker,
    conflicts.SelfOverlap: _SelfOverlapMaker,
}


def _key(code: str, state: SaveState, ledger: Ledger) -> Any:
    # No source file is read for a key, because a known conflict must stay cheap in a loop.
    last = ledger.last_write(state.saved)
    return code, frames.frame_key(state.saved.stack), None if last is None else frames.frame_key(last.stack)


def _known_facts(code: str, saved: SavedTensor, repaired: bool = False) -> KnownFacts:
    return KnownFacts(code, saved=unplaced(saved), repaired=repaired)


def unplaced(saved: SavedTensor) -> Save | None:
    """Return the facts of a saved tensor that need no source file; None if there are none."""
    return or_default(lambda: save.unplaced(saved.alias, saved.version), None)


def _writes(log: list[FollowedWrite]) -> tuple[Write, ...]:
    return tuple(write.by(event.operation, event.stack) for event in log)
