"""A session's answers where torch checks nothing: ``ctx`` attributes, gradients, recomputations.

What ``hooks`` saw beyond autograd's own saves arrives here (see ``hooks/_conflicts``), is
described, judged and handed to the session's policy: ``watch`` warns or, if strict, raises;
``guard`` has given the right values where that can be done and refuses where it can't.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..evidence import describe, reads, stretch
from ..hooks.unmarked import Unmarked
from ..hooks.write_log import Written
from ..judge import judge, judge_dirty, judge_gradient, judge_self_overlap, judge_unmarked
from ..model import Finding, Need, Save, Write, asked
from ..record import Fingerprint, Ledger, SavedTensor, Standing
from ..source import Stack, frames, sites, spelling
from .telling import Certain

if TYPE_CHECKING:
    from .session import Session


class SilentConflicts:
    """The ``Conflicts`` of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.ledger: Ledger = session.ledger

    @property
    def repairs(self) -> bool:
        """Whether code is to be given the values as they were: ``guard`` and ``audit``."""
        return self._session.policy != "watch" and self._session.active

    def stale(self, saved: SavedTensor) -> Standing | None:
        """How ``saved`` stands if its values are known to have changed, else None."""
        if not self._session.active:
            return None
        if saved.filing is None and saved.alias._version == saved.version:
            return None
        standing = self.ledger.standing(saved)
        return standing if standing.changed else None

    def stale_on_ctx(self, standing: Standing, attribute: str, node: str) -> None:
        """UC103: ``backward`` reads ``ctx.x`` that has changed."""
        session = self._session
        repaired = self.repairs

        def make() -> Finding | None:
            return judge(
                describe.evidence(
                    standing,
                    self.ledger,
                    repaired=repaired and session.policy == "guard",
                    backwards_before=session.backwards_before,
                    held=describe.Held("ctx", attribute, node.removesuffix("Backward"), node),
                )
            )

        finding = session.keep(
            lambda: _key("UC103", standing, self.ledger),
            make,
            lambda: _certain("UC103", standing.saved, repaired and session.policy == "guard"),
        )
        if not repaired:
            session.tell(finding)

    def stale_in_recompute(self, standing: Standing, read: Stack) -> None:
        """UC105: a checkpoint's second run reads a tensor that has changed since its first."""
        session = self._session

        def make() -> Finding | None:
            return judge(
                describe.evidence(
                    standing,
                    self.ledger,
                    repaired=False,
                    backwards_before=session.backwards_before,
                    held=describe.Held("recompute", None, "checkpoint", None),
                    read=sites.resolve(read),
                )
            )

        finding = session.keep(
            lambda: _key("UC105", standing, self.ledger), make, lambda: _certain("UC105", standing.saved)
        )
        # Values that the code reads on its own can't be handed to it: guard has to refuse.
        session.tell(finding, refuse=session.policy == "guard")

    def gradient_written(self, gradient: torch.Tensor, writes: list[Written], node: Any) -> None:
        """UC104: a gradient was changed while another consumer is still to get it."""
        session = self._session
        repaired = session.policy == "guard"

        def make() -> Finding | None:
            return judge_gradient(
                tuple(_write(write.operation, write.stack) for write in writes),
                describe.need(node, session.backwards_before),
                shape=tuple(gradient.shape),
                repaired=repaired,
            )

        finding = session.keep(
            lambda: ("UC104", frames.spot(writes[0].stack)),
            make,
            lambda: Certain("UC104", repaired=repaired),
        )
        if not self.repairs:
            session.tell(finding)

    def dirty_not_returned(
        self,
        error: RuntimeError,
        function: str,
        tensor: torch.Tensor | None,
        writes: list[Written],
        stack: Stack,
    ) -> None:
        """UC103: torch refused a Function that marked a tensor dirty and returned another.

        Raises:
            InplaceError: always, from torch's own error.
        """
        session = self._session

        def make() -> Finding | None:
            return judge_dirty(
                tuple(_write(write.operation, write.stack) for write in writes),
                Need(sites.resolve(stack)),
                function=function,
                torch_message=str(error),
            )

        def certain() -> Certain:
            message = f"{function}.forward marks a tensor dirty but returns another"
            return Certain("UC103", torch_message=str(error), message=message)

        finding = session.keep(lambda: ("UC103", frames.spot(stack)), make, certain, again=True)
        session.tell(finding, refuse=True, cause=error)

    def unmarked_input(self, unmarked: Unmarked) -> None:
        """UC103: what reads an input after a Function that overwrote it unmarked hands on its gradient."""
        session = self._session
        if not session.active:
            return

        def make() -> Finding:
            site = sites.resolve(unmarked.stack)
            save = Save(
                site=None if site is None else replace(site, below=()),  # torch's own `apply`
                shape=unmarked.shape,
                dtype=unmarked.dtype,
                bytes=unmarked.bytes,
                version=unmarked.version,
                operation=unmarked.function,
                node=f"{unmarked.function}Backward",
                expression=spelling.spell_argument(unmarked.stack, unmarked.position),
            )
            return judge_unmarked(
                save,
                tuple(_write(write.operation, write.stack) for write in unmarked.writes),
                describe.need(None, session.backwards_before),
                returned=unmarked.returned,
            )

        def key() -> Any:
            return "UC103", "unmarked", frames.spot(unmarked.stack), frames.spot(unmarked.writes[0].stack)

        def certain() -> Certain:
            return Certain(
                "UC103", message=f"{unmarked.function}.forward overwrites an input without mark_dirty"
            )

        # The derivative of what was written is nowhere to be had, so guard has nothing to give.
        session.tell(session.keep(key, make, certain), refuse=session.policy == "guard")

    def self_overlap(self, operation: str, stack: Stack) -> None:
        """UC102: an operation is about to read what it has overwritten itself."""
        session = self._session
        if not session.active:
            return

        def make() -> Finding | None:
            return judge_self_overlap(_write(operation, stack), sites.resolve(stack, sites.right_side))

        message = "a tensor is overwritten by an operation that still reads the old values"
        finding = session.keep(
            lambda: ("UC102", "misread", describe.user_place(stack)),
            make,
            lambda: Certain("UC102", message=message),
        )
        session.tell(finding)

    def content_changed(self, saved: SavedTensor, fingerprint: Fingerprint) -> None:
        """UC102: the content of a saved tensor changed although no write to it was seen."""
        session = self._session
        if not session.active or reads.asking() or asked(lambda: self._unminded(saved), False):
            return

        def make() -> Finding | None:
            good, bad, stack = fingerprint.good, fingerprint.bad, fingerprint.write
            write = None if stack is None else stretch.write_at(stack)
            return judge(
                describe.evidence(
                    self.ledger.standing(saved),
                    self.ledger,
                    repaired=False,
                    backwards_before=session.backwards_before,
                    stretch=stretch.between(good, bad, write),
                    written=write,
                )
            )

        finding = session.keep(
            lambda: ("UC102", describe.user_place(saved.stack), fingerprint.good, fingerprint.bad),
            make,
            lambda: _certain("UC102", saved),
        )
        # What it was is not known, so guard has nothing to give.
        session.tell(finding, refuse=session.policy == "guard")

    def _unminded(self, saved: SavedTensor) -> bool:
        """Whether the running node's gradient is the same whatever ``saved`` holds now."""
        return reads.is_scratch(saved) or reads.never_read(saved, self.ledger)


def _key(code: str, standing: Standing, ledger: Ledger) -> Any:
    last = ledger.last_write(standing.saved)
    return code, frames.spot(standing.saved.stack), None if last is None else frames.spot(last.stack)


def _certain(code: str, saved: SavedTensor, repaired: bool = False) -> Certain:
    return Certain(code, saved=asked(lambda: describe.unplaced(saved), None), repaired=repaired)


def _write(operation: str, stack: Stack) -> Write:
    site = sites.resolve(stack)
    return Write(
        site=site,
        operation=operation,
        bumps_version=True,
        overlaps_needed=True,
        expression=spelling.spell_write(site, operation, stack),
    )
