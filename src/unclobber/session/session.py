"""``watch``, ``guard`` and ``audit``: the stages joined inside a running program.

One engine, three policies. All of them keep the same ledger; they differ in what happens when
backward unpacks a saved tensor that was overwritten. ``watch`` refuses as torch would, and explains;
``guard`` returns the value as it was saved; ``audit`` does that, too, and only notes the conflict.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from traceback import walk_stack
from types import ModuleType
from typing import Any, Literal, TypeVar

import torch

from ..explain import Occurrence, SeenConflicts, Verdict, bare_finding, is_unpacking, notices, prepare
from ..model import (
    Finding,
    InplaceError,
    Report,
    Save,
    Suppressed,
    Totals,
    UnclobberError,
    internal_error_in,
    or_default,
)
from ..observe.hooks import backward_calls
from ..observe.hooks import saves as _saves
from ..observe.hooks.installation import installation
from ..observe.record import SavedTensor, SaveState
from ..report import error_of
from ..settings import ProjectSettings, Suppression
from ..source import counted_as_program, is_library, is_own, starts_program
from ..torch_internals import compat, versions
from ..torch_internals.engine import engine
from ._unseen import Unseen
from ._warning import warn
from .program import settings_here

_UNSURE = "whether a tensor that backward needs was overwritten is not known"
"""Message of a refusal if an internal error leaves no more to be said."""

_CODES = {"ctx": "UC103", "recompute": "UC105", "cache": "UC105"}
"""Codes of conflicts that torch doesn't check, by the holder of the tensor."""

Policy = Literal["watch", "guard", "audit"]
T = TypeVar("T")

_FINDING_ATTRIBUTE = "_unclobber_finding"  # attribute of a torch exception that carries its finding
_MOST_FINDINGS = 1000  # distinct findings that one session keeps; more are counted only
_MOST_TENSORS = 20  # tensors that are described as spoilt by the writes of one finding; more are counted only
_MOST_AHEAD = 20  # findings that are reported besides the one for which backward is refused


class Session(SeenConflicts):
    """A watched part of a program, entered once, in one thread.

    Args:
        policy: The reaction to a conflict.
        strict: Raise on writes that torch doesn't see, too.
        fingerprint: Share of saved tensors (0 to 1) whose content is hashed to find writes that no
            dispatch sees.
        command: The command line that is being run, for the report.
        warn: Whether silent writes warn at the user's line; the command collects them instead.
        suppression: The author's comments, settings and baseline; None if nothing is suppressed.
        program: Installed files, and folders with a trailing separator, that count as the program's own.
    """

    def __init__(
        self,
        policy: Policy = "watch",
        *,
        strict: bool = False,
        fingerprint: float = 0.0,
        command: tuple[str, ...] = (),
        warn: bool = True,
        suppression: Suppression | None = None,
        program: Iterable[str] = (),
    ) -> None:
        """Prepare a session with a ledger of its own; nothing is installed before it is entered."""
        self.policy = policy
        self.strict = strict
        self.fingerprint = fingerprint
        self.command = command
        self.warn = warn
        self.ledger = installation.new_ledger(
            keeps_originals=policy != "guard", fingerprint=fingerprint, counts_bytes=policy == "audit"
        )
        self.findings: list[Finding] = []
        self.on_finding: Callable[[Finding], None] | None = None
        """Called with each new finding, unless suppression lets it pass."""
        self.conflicts = 0
        self._seen: dict[Any, int] = {}  # positions of findings by the key of their conflict
        self._times: Counter[int] = Counter()  # numbers of repeated occurrences, by the finding's position
        self._tensors: dict[int, dict[Any, Save | None]] = {}
        """The spoilt tensors of each finding, by the finding's position and then by the tensor's key."""
        self._internal_errors: dict[str, None] = {}
        """Sentences about internal errors for the report, each once and in order."""
        self._warned: set[int] = set()
        """Identities of the findings that have warned. All are kept, so no identity is reused."""
        self._suppression = suppression
        # A step loop enters a session in each step, and hardly any has a program of its own.
        self._program = counted_as_program(program) if program else contextlib.nullcontext()
        self._raised: dict[int, Finding] = {}
        """Findings that were raised although torch is silent, by identity; they are reported in any case."""
        self.active = False
        self._hooks: _saves.SavedTensorHooks | None = None
        self._unseen: Unseen | None = None
        """Refuses backwards through mechanisms that don't work on this torch; None if all work."""
        self._lock = threading.RLock()
        self.ledger.on_self_overlap = lambda operation, stack: self.harmful_operation(
            "UC102", operation, stack, "self-overlap"
        )
        self.ledger.unrecorded = self._unrecorded
        self._started_at = time.time_ns()
        self.backwards_before = 0  # number of backward calls in the process before this session
        self._counted_before = (0, 0)
        """Numbers of saves and writes that the parent process made before it forked this one."""

    @classmethod
    def by_settings(
        cls,
        settings: ProjectSettings | str | None,
        *,
        guard: bool | None = None,
        strict: bool | None = None,
        fingerprint: float | None = None,
        suppression: Suppression | None = None,
        **options: Any,
    ) -> Session:
        """Return a session that is not entered yet; the project's settings decide what is None.

        Args:
            settings: Those of the project, or a folder of it; None for the running program's.
            suppression: The suppression; by default that of the settings alone.
        """
        if not isinstance(settings, ProjectSettings):
            settings = settings_here() if settings is None else ProjectSettings.of(settings)
        chosen = settings.watching(guard=guard, strict=strict, fingerprint=fingerprint)
        return cls(
            "guard" if chosen.guard else "watch",
            strict=chosen.strict,
            fingerprint=chosen.fingerprint,
            suppression=suppression or Suppression(settings),
            **options,
        )

    # --- enter and leave ------------------------------------------------------------------------

    def __enter__(self) -> Session:
        """Install what is missing, and push the hooks of this thread; UnclobberError if guard can't work."""
        with compat.unseen.unseen_by_functions():
            self._enter()
        return self

    def _enter(self) -> None:
        """Install what the process lacks and push the hooks; release it if that is interrupted."""
        self._refuse_or_warn()
        installation.acquire(self.ledger)
        self.backwards_before = backward_calls.written
        self._started_at = time.time_ns()
        try:
            self._program.__enter__()
            self._hooks = _saves.SavedTensorHooks(self._need, self)
            self._hooks.enter()
        # Not `Exception` alone: Ctrl-C here would leave the kernels installed without a session.
        except BaseException:
            self._release()
            raise
        self.active = True
        if self.policy == "guard" and installation.off():
            self._unseen = Unseen(self._hooks)
            engine.subscribe(self._unseen)

    def _refuse_or_warn(self) -> None:
        """Warn of the mechanisms that don't work on this torch; UnclobberError if guard can't go without."""
        ends = next((mechanism for mechanism in installation.off() if mechanism.ends_guard), None)
        if self.policy == "guard" and ends is not None:
            raise UnclobberError(ends.sentence)
        for said in _slower_or_off() if self.warn else ():
            _warn_once(said)

    def __exit__(self, *error: object) -> None:
        """Pop the hooks, and leave the graphs' saves to their version counters."""
        self.active = False
        with compat.unseen.unseen_by_functions():
            try:
                if self._unseen is not None:
                    engine.unsubscribe(self._unseen)
                # Still in a thread that imported torch for the program, if this one had no turn since.
                if self._hooks is not None and self._hooks in _saves.active():
                    self._hooks.leave()
            finally:
                self.ledger.seal()
                self._release()

    def _release(self) -> None:
        installation.release(self.ledger)
        self._program.__exit__(None, None, None)

    def reset_in_child(self) -> None:
        """Forget findings and counts in a forked child, because they are the parent's. Keep the saves."""
        self._lock = threading.RLock()  # another thread of the parent may have held it at the fork
        self.findings = []
        self._seen.clear()
        self._times.clear()
        self._tensors.clear()
        self._warned.clear()
        self._raised.clear()
        self.conflicts = 0
        self._counted_before = (self.ledger.save_count, self.ledger.write_count)
        # Not 0, because the parent's saves, and the old values that are kept for them, live on here.
        self.ledger.account.peak = self.ledger.account.kept
        self.ledger.replay = None
        self._started_at = time.time_ns()

    def observe_main_thread(self) -> None:
        """Observe the main thread, too, before its next instruction; it leaves the session then."""
        import ctypes  # for `Py_AddPendingCall` of Python's C API

        def observe(_: object) -> int:
            if self.active and self._hooks is not None:
                self._hooks = self._hooks.for_another_thread()
                self._hooks.enter()
            return 0

        self._call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(observe)
        ctypes.pythonapi.Py_AddPendingCall(self._call, None)

    @staticmethod
    def depth() -> int:
        return len(_saves.active())

    @staticmethod
    def is_in_command() -> bool:  # which watches the program already
        return any(starts_program(frame.f_code) for frame, _ in walk_stack(sys._getframe(1)))

    @staticmethod
    def prepare() -> None:
        """Load what a finding reads, and register the kernels of all operators that have none yet, in a
        process that is going to fork."""
        prepare()
        if not torch.cuda.is_available():  # a CUDA context does not survive a fork
            with Session("guard", warn=False):
                pass

    @staticmethod
    def put_back() -> None:
        """Put torch back as it was, unless a session is still entered or a tensor frozen."""
        installation.put_back()

    @staticmethod
    def files_since(before: Mapping[str, ModuleType]) -> set[str]:
        """Return the program's files among the modules that were loaded since ``before``."""
        # By identity, because the program's `__main__` takes the name of the command's own.
        new = [module for name, module in list(sys.modules.items()) if before.get(name) is not module]
        names = (getattr(module, "__file__", None) for module in new)
        paths = {os.path.abspath(name) for name in names if isinstance(name, str)}
        return {path for path in paths if not is_library(path)}

    def leave_unwatched(self) -> None:
        """Stop watching in a forked child that doesn't train, unless other hooks were pushed after these."""
        # torch's hooks are a stack: popped under others, they would take the program's hooks off.
        if self._hooks is not None and self._hooks.alone():
            self.active = False
            self._hooks.leave()
            installation.release(self.ledger)

    # --- called at unpack -----------------------------------------------------------------------

    def _need(self, saved: SavedTensor) -> torch.Tensor:
        """Return what backward gets for ``saved``, to which something may have happened, or refuse."""
        if is_unpacking():  # unclobber itself unpacks, to learn a history: no backward reads the values
            return saved.alias
        fault = None if saved.entry is None else saved.entry.lost
        if fault is None:
            try:
                verdict = Verdict.on(saved, self.ledger, self.policy)
            except Exception as error:
                fault = internal_error_in("what became of a saved tensor could not be told", error)
            else:
                return self._followed(verdict)
        return self._by_versions(saved, fault)

    def _followed(self, verdict: Verdict) -> torch.Tensor:
        """Return the verdict's value and report its finding; InplaceError if it refuses or strict does."""
        if verdict.refused:
            raise self._refusal(verdict.state)
        if verdict.reported:
            finding = self.keep(Occurrence.of_unpack(verdict.state, self, repaired=self.policy == "guard"))
            if self.policy == "watch":
                self.warn_or_raise(finding)
        return verdict.value

    def _by_versions(self, saved: SavedTensor, fault: str) -> torch.Tensor:
        """Decide by the version counter alone, after an internal error. Return the alias.

        Raises:
            InplaceError: torch would refuse, or the policy is not ``watch`` and a write was seen whose effect
                is unknown.
        """
        # No finding is searched for here: what failed above would fail again.
        version, entry = saved.alias._version, saved.entry
        self.note_internal_error(fault)
        torch_message = Verdict.by_counter(saved, version, self.policy)
        written = version != saved.version or (entry is not None and entry.written)
        if torch_message is None and (self.policy == "watch" or not written):
            return saved.alias
        message = _UNSURE if torch_message is None else None
        finding = bare_finding("UC101", fault, message=message, torch_message=torch_message)
        raise error_of(self._kept(finding))

    def note_internal_error(self, fault: str) -> None:
        self._internal_errors[fault] = None

    def _unrecorded(self, error: Exception) -> str:
        fault = internal_error_in("a write could not be recorded", error)
        self.note_internal_error(fault)
        return fault

    def _refusal(self, state: SaveState) -> InplaceError:
        """Return the error that refuses a tensor, with the findings that backward would have raised next."""
        occurrence = Occurrence.of_unpack(state, self, repaired=False, again=True)
        finding = self.keep(occurrence)
        assert finding is not None, "a story with a refusal is a finding, or tells of its fault"
        # An internal error costs this list alone: test_a_fault_costs_the_list_alone.
        what = "what else backward would refuse could not be told"
        others = self._guarded_call(what, lambda: self._refused_too(state), tuple[Finding, ...]())
        position = or_default(lambda: self._seen.get(occurrence.key()), None)
        return error_of(finding if position is None else self._with_tensors(finding, position), others)

    def _refused_too(self, state: SaveState) -> tuple[Finding, ...]:
        """Return findings for the tensors that the running backward would have refused next."""
        if self.policy != "watch":
            return ()
        refused: dict[int, Finding] = {}
        for occurrence in Occurrence.of_refused_next(state, self):
            finding = self.keep(occurrence)
            if finding is not None and finding.ahead:
                refused[id(finding)] = finding
            if len(refused) >= _MOST_AHEAD:
                break
        return tuple(refused.values())

    # --- what torch doesn't check: the interface `Conflicts` of the hooks -------------------------

    @property
    def repairs(self) -> bool:
        return self.policy != "watch" and self.active  # guard and audit give code the values as they were

    def stale(self, saved: SavedTensor, held: Literal["ctx", "recompute", "cache"]) -> SaveState | None:
        """Return the save state of ``saved`` if its values are known to have changed, else None; in a cache
        also if its version counter has moved.

        Raises:
            InplaceError: an internal error hides whether they have, and the policy isn't ``watch``.
        """
        if not self.active:
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
                return state if state.changed or (held == "cache" and state.moved) else None
        self.note_internal_error(fault)
        written = saved.alias._version != saved.version or (entry is not None and entry.written)
        if written and self.policy != "watch":
            finding = bare_finding(_CODES[held], fault, message=_UNSURE)
            occurrence = Occurrence(
                lambda: (finding.code, fault), lambda: finding, lambda: finding, again=True
            )
            self.warn_or_raise(self.keep(occurrence), refuse=True)
        return None

    def on(self, occurrence: Occurrence) -> None:
        """Keep the finding for a conflict that the hooks saw, and report it."""
        # Decided before `keep`, which calls `on_finding`: code of the caller, which may end the session.
        repaired = self.repairs and occurrence.can_be_repaired
        finding = self.keep(occurrence)
        if not repaired:
            self.warn_or_raise(finding, refuse=occurrence.refused, cause=occurrence.cause)

    # --- findings -------------------------------------------------------------------------------

    def keep(self, occurrence: Occurrence) -> Finding | None:
        """Count a conflict; return its finding, made if its key is new, or None. Raise no internal error."""
        again, reached = occurrence.again, occurrence.reached
        with self._lock:
            self.conflicts += reached
            place = or_default(occurrence.key, None)
            known = None if place is None else self._seen.get(place)
            if known is not None and reached:
                self._times[known] += 1
            tensor = or_default(occurrence.tensor, None)
            if known is not None and not again:
                self._note_tensor(known, tensor, occurrence.finding)
                return self.findings[known] if known < len(self.findings) else None
            finding = occurrence.finding()
            if finding is None:
                return None
            finding = self._noted(finding)
            if place is None:
                return self._kept(finding)
            if known is None and len(self.findings) < _MOST_FINDINGS:
                known = self._seen[place] = len(self.findings)
                self._add(finding)
            elif known is not None and self.findings[known].ahead:
                # Backward has come to it by now, so the new finding is no longer `ahead`
                # (test_an_ahead_finding_that_backward_comes_to).
                self.findings[known] = finding
            if known is not None:
                self._note_tensor(known, tensor, lambda: finding)
            return finding

    def _note_tensor(self, known: int, tensor: Any, make: Callable[[], Finding | None]) -> None:
        """Note a tensor that a finding's writes spoil; ``make``, which is slow, describes a new one."""
        tensors = self._tensors.setdefault(known, {})
        if tensor is not None and tensor not in tensors and len(tensors) < _MOST_TENSORS:
            tensors[tensor] = None  # first, because an error in `make` may come back here
            finding = make()
            tensors[tensor] = None if finding is None else finding.saved

    def _with_tensors(self, finding: Finding, known: int) -> Finding:
        others = {_named(save): save for save in self._tensors.get(known, {}).values() if save is not None}
        if finding.saved is not None:
            others.pop(_named(finding.saved), None)
        return replace(finding, also=tuple(others.values()))

    def _kept(self, finding: Finding) -> Finding:
        """Keep a finding whose places are unknown. Return the kept one, which may be an equal earlier one."""
        with self._lock:
            # By equality: a finding without places has no key under which it could be looked up.
            for other in self.findings:
                if other == finding:
                    return other
            if len(self.findings) < _MOST_FINDINGS:
                self._add(finding)
            return finding

    def warn_or_raise(
        self, finding: Finding | None, *, refuse: bool = False, cause: BaseException | None = None
    ) -> None:
        """Warn of a finding that torch is silent about; raise it if the session is strict or ``refuse``."""
        if finding is None or (not refuse and self._lets_pass(finding)):
            return
        if refuse or (self.strict and self.policy == "watch"):
            # A program that catches them all may go on for ever.
            if finding.is_silent and len(self._raised) < _MOST_FINDINGS:
                self._raised[id(finding)] = finding
            raise error_of(finding) from cause
        # Once a finding, although the filters would show it once: a loop comes here thousands of times.
        if self.warn and self.policy == "watch" and id(finding) not in self._warned:
            self._warned.add(id(finding))
            warn(finding)

    @staticmethod
    def finding_of(error: BaseException) -> Finding | None:
        """Return the finding that an exception carries, also from another process; None if it has none."""
        return error.finding if isinstance(error, InplaceError) else getattr(error, _FINDING_ATTRIBUTE, None)

    def finding_for(self, error: BaseException) -> Finding | None:
        """Return the finding for an exception that left the watched code, or None if it is the user's own.

        torch's own refusals (UC2xx, UC301) get their findings here. A second call returns the same finding.
        """
        finding = self.finding_of(error)
        if isinstance(error, InplaceError):
            return finding
        if finding is None:
            finding = self.refusal_finding(error)
            if finding is None:
                return None
            finding = self._noted(finding)
            # On the error, because it may leave several contexts, and each must return the same finding.
            setattr(error, _FINDING_ATTRIBUTE, finding)
        if finding not in self.findings:
            self._add(finding)
        return finding

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        on_finding = self.on_finding
        if on_finding is not None and not self._lets_pass(finding):
            self._guarded_call("a finding could not be handed on", lambda: on_finding(finding), None)

    def _noted(self, finding: Finding) -> Finding:  # the author tried to suppress it in vain
        return self._suppressed(lambda suppression: suppression.noted(finding), finding)

    def _lets_pass(self, finding: Finding) -> bool:
        return self._suppressed(lambda suppression: suppression.lets_pass(finding), False)

    def _suppressed(self, look: Callable[[Suppression], T], otherwise: T) -> T:
        suppression = self._suppression
        if suppression is None:
            return otherwise
        # An error costs the suppression, never the finding
        # (test_a_comment_that_can_not_be_read_suppresses_nothing).
        return self._guarded_call("comments could not be read", lambda: look(suppression), otherwise)

    def _guarded_call(self, what: str, look: Callable[[], T], otherwise: T) -> T:
        try:
            return look()
        except Exception as error:
            self.note_internal_error(internal_error_in(what, error))
        return otherwise

    def split_suppressed(self) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
        """Return (reported, suppressed) findings so far, each with its number of occurrences."""
        reported: list[Finding] = []
        suppressed: list[Suppressed] = []
        with self._lock:
            for index, finding in enumerate(self.findings):
                look = functools.partial(Suppression.by, finding=finding)
                by = None if id(finding) in self._raised else self._suppressed(look, None)
                finding = self._with_tensors(finding, index)
                if index in self._times:
                    finding = replace(finding, times=1 + self._times[index])
                if by is None:
                    reported.append(finding)
                else:
                    suppressed.append(Suppressed(finding, by))
        return tuple(reported), tuple(suppressed)

    def report(self, *, exit_code: int = 0, script_failed: bool = False) -> Report:
        """Return the report: all findings so far, with the ledger's totals and the run's notices."""
        saves, writes = self._counted_before
        saved_bytes = self.ledger.saved_bytes
        by_line: Mapping[tuple[str, int], int] = {}
        if saved_bytes is not None:
            what = "what each line keeps could not be told"
            by_line = self._guarded_call(what, saved_bytes.at_peak, by_line)
        said = self._guarded_call(
            "what could not be seen could not be told",
            lambda: notices(self._started_at, self.ledger.replay),
            tuple[str, ...](),
        )
        totals = Totals(
            saves=self.ledger.save_count - saves,
            writes=self.ledger.write_count - writes,
            conflicts=self.conflicts,
            kept_bytes=self.ledger.account.peak,
        )
        # Before the report is made, because an internal error in it is a sentence of the report, too.
        findings, suppressed = self.split_suppressed()
        report = Report(
            "clean",
            findings,
            suppressed=suppressed,
            totals=totals,
            torch_version=str(torch.__version__),
            command=self.command,
            exit_code=exit_code,
            notices=(*filter(None, [versions.untried()]), *_slower_or_off(), *said, *self._internal_errors),
            bytes_by_line=by_line,
        )
        return report.judged(failed=script_failed)


def _named(save: Save) -> Any:
    site = save.site
    return save.name, save.expression, str(save.shape), site and (site.path, site.line, site.column)


def _slower_or_off() -> tuple[str, ...]:
    return (*installation.slower(), *(mechanism.sentence for mechanism in installation.off()))


@functools.cache
def _warn_once(sentence: str) -> None:
    """Warn of a mechanism that fails on this torch, at the line that entered the session."""
    # Counted, because `watch`, a decorated function and the trainers enter a session at different depths.
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and (
        is_own(frame.f_code) or frame.f_code.co_filename == contextlib.__file__
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, RuntimeWarning, stacklevel=level)
