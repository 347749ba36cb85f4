"""``watch``, ``guard`` and ``audit``: the stages joined inside a running program.

One engine, three policies. All of them keep the same ledger; they differ in what happens when
backward asks for a saved tensor that was overwritten: ``watch`` refuses as torch would, with the
story; ``guard`` hands back the value as it was saved; ``audit`` does that too and only notes it.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import torch

from ..evidence import ahead, describe, reads, sentence
from ..evidence import refused as _refused
from ..evidence.notices import notices
from ..evidence.refusals import kind_of
from ..hooks import (
    backward,
    batch_norm,
    checkpoint,
    conflicts,
    fallback,
    functions,
    gradients,
    kernels,
    mechanisms,
    module_hooks,
    pause,
    registered,
    registrations,
    undispatched,
    unmarked,
    write_log,
)
from ..hooks import saves as _saves
from ..judge import judge, judge_untold, outcome
from ..judge.refusals import judge_refusal
from ..model import (
    Finding,
    InplaceError,
    Report,
    Suppressed,
    Totals,
    UnclobberError,
    asked,
)
from ..native import core
from ..record import FingerprintedLedger, Fingerprints, Ledger, SavedBytes, SavedTensor, Standing, ViewWrites
from ..settings import Suppression
from ..source import compiled, sites
from ..torch_internals import compat, versions
from ..torch_internals.engine import engine
from ..torch_internals.patches import Patches
from ._silent import UNSURE, SilentConflicts, unplaced
from ._suppressing import Suppressing
from ._unseen import Unseen
from ._warning import warn
from .telling import Certain, error_of, fault_in, told

Policy = Literal["watch", "guard", "audit"]
T = TypeVar("T")

_TOLD = "_unclobber_finding"
"""Attribute of an exception of torch's that carries its finding."""

_MOST_FINDINGS = 1000
"""Distinct findings that one session keeps; more are counted only."""


_MOST_AHEAD = 20
"""Findings that are told beside the one for which backward is refused."""


class _Verdict(NamedTuple):
    """What backward gets for a saved tensor, before anything is told of it."""

    standing: Standing
    value: torch.Tensor
    """What backward goes on with."""
    refused: bool = False
    told: bool = False
    """Whether there is something to tell: what is there now is wrong, or torch would refuse it."""


class Session:
    """One watched part of a program, entered once, in one thread.

    Args:
        policy: What a conflict leads to.
        strict: Raise on writes that torch doesn't see, too.
        fingerprint: Share of saved tensors (0 to 1) whose content is hashed to find writes that no
            dispatch sees.
        command: The command line that is being run, for the report.
        warn: Whether silent writes warn at the user's line; the command collects them instead.
        suppression: What comments, settings and a baseline say of findings; None where nobody is asked.
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
    ) -> None:
        self.policy = policy
        self.strict = strict
        self.fingerprint = fingerprint
        self.command = command
        self.warn = warn
        originals = policy != "guard"
        plain = not fingerprint and policy != "audit"
        self.ledger = Ledger(keeps_originals=originals, queue=_saves.new_queue() if plain else None)
        if fingerprint:
            prints = Fingerprints(fingerprint, write_log.storage_of)
            self.ledger = FingerprintedLedger(prints, keeps_originals=originals)
        self.ledger.view_writes = _installation.view_writes
        if policy == "audit":
            self.ledger.saved_bytes = SavedBytes()
        self.findings: list[Finding] = []
        self.heard: Callable[[Finding], None] | None = None
        """Told of each new finding as it is made."""
        self.conflicts = 0
        self._seen: dict[Any, int] = {}
        self._times: Counter[int] = Counter()
        """How often the findings were met that were met again, by their positions."""
        self._faults: dict[str, None] = {}
        """Faults of ours that the report is to name."""
        self._warned: set[int] = set()
        """Identities of the findings, all kept, that were warned of."""
        self._suppressing = Suppressing(suppression, self._asked)
        self.active = False
        self._hooks: _saves.SavedTensorHooks | None = None
        self._unseen: Unseen | None = None
        """Refuses what can't be seen on this torch."""
        self._lock = threading.RLock()
        self._silent = SilentConflicts(self)
        self.ledger.on_self_overlap = lambda operation, stack: self._silent.on(
            conflicts.SelfOverlap(operation, stack)
        )
        self.ledger.unrecorded = self._unrecorded
        self._begun = compiled.now()
        self.backwards_before = 0
        """Backward calls of the process before this session."""
        self._counted_before = (0, 0)
        """Saves and writes that are not this process's, but those of the one that it was forked from."""

    # --- enter and leave ------------------------------------------------------------------------

    def __enter__(self) -> Session:
        with compat.unseen_by_functions():
            self._enter()
        return self

    def _enter(self) -> None:
        self._begin_where(_installation.off())
        _installation.acquire(self.ledger)
        self.backwards_before = backward.count()
        self._begun = compiled.now()
        try:
            self._hooks = _saves.SavedTensorHooks(self.ledger, self._need, self._silent, self.ledger.prints)
            self._hooks.enter()
        except BaseException:
            _installation.release(self.ledger)
            raise
        self.active = True
        if self._unseen is not None:
            self._unseen.enter(self._hooks)

    def _begin_where(self, off: tuple[mechanisms.Off, ...]) -> None:
        """Take account of the mechanisms that do not work on this torch."""
        for said in (fallback.why(), core.missed()):
            if said is not None and self.warn:
                _warn_once(said)
        for one in off:
            if self.policy == "guard" and one.ends_guard:
                raise UnclobberError(one.sentence)
            if self.warn:
                _warn_once(one.sentence)
        if off and self.policy == "guard":
            self._unseen = Unseen(off)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.active = False
        with compat.unseen_by_functions():
            try:
                if self._unseen is not None:
                    self._unseen.leave()
                if self._hooks is not None:
                    self._hooks.leave()
            finally:
                self.ledger.seal()
                _installation.release(self.ledger)

    def begin_anew(self) -> None:
        """In a forked child: what was found and counted so far is the parent's; graphs and saves stay."""
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self.findings = []
        self._seen.clear()
        self._times.clear()
        self._warned.clear()
        self._suppressing.forget()
        self.conflicts = 0
        self._counted_before = (self.ledger.save_count, self.ledger.write_count)
        self.ledger.account.peak = self.ledger.account.kept
        self.ledger.transform = self.ledger.replay = None
        self._begun = compiled.now()

    def leave_unwatched(self) -> None:
        """In a forked child that does no training: watch nothing, where no other hooks lie over ours."""
        if self._hooks is not None and self._hooks.alone():
            self.active = False
            self._hooks.leave()
            _installation.release(self.ledger)

    # --- what backward asks ---------------------------------------------------------------------

    def _need(self, saved: SavedTensor) -> torch.Tensor:
        """Backward asks for ``saved`` and something may have happened to it."""
        if reads.asking():
            return saved.alias
        fault = None if saved.entry is None else saved.entry.lost
        if fault is None:
            try:
                verdict = self._verdict(saved)
            except Exception as error:
                fault = fault_in("what became of a saved tensor could not be told", error)
            else:
                return self._followed(verdict)
        return self._by_versions(saved, fault)

    def _verdict(self, saved: SavedTensor) -> _Verdict:
        """What backward gets. Nothing in here looks at a source."""
        entry = saved.entry
        if entry is not None and entry.swap is not None and reads.is_own_result(saved):
            entry.swap = None  # torch keeps a result apart from the tensor that the program got
        standing = self.ledger.standing(saved)
        now = standing.now
        if self.policy == "watch" and _is_detached(saved):
            return _Verdict(standing, now, refused=True)
        sealed = entry.sealed if entry is not None else None
        written_after_exit = sealed is not None and standing.version != sealed
        dirty = standing.moved or standing.changed
        if not dirty and not written_after_exit:
            return _Verdict(standing, now)
        # A look that fails counts as a read: better one story too many than a wrong gradient.
        if not standing.refused and asked(lambda: reads.never_read(saved, self.ledger), False):
            return _Verdict(standing, now)
        if self.policy == "watch":
            # Where torch would go on with what is there now, so do we, and say so.
            return _Verdict(standing, now, refused=standing.refused, told=standing.changed)
        if written_after_exit or standing.unseen:
            return _Verdict(standing, now, refused=True)
        as_saved = saved.alias if standing.value is None or not standing.changed else standing.value
        # What torch refuses although no element changed is nothing to guard, but something to know.
        notable = standing.changed or (self.policy == "audit" and standing.refused)
        return _Verdict(standing, as_saved, told=notable)

    def _followed(self, verdict: _Verdict) -> torch.Tensor:
        if verdict.refused:
            raise self._refusal(verdict.standing)
        if verdict.told:
            finding = self._note(verdict.standing, repaired=self.policy == "guard")
            if self.policy == "watch":
                self.tell(finding)
        return verdict.value

    def _by_versions(self, saved: SavedTensor, fault: str) -> torch.Tensor:
        """What torch's own check makes of a tensor, after a fault of ours.

        Raises:
            InplaceError: torch would refuse, or ``guard`` has seen a write and can't tell what it did.
        """
        version, entry = saved.alias._version, saved.entry
        self.name_fault(fault)
        torch_message = sentence.shortest(saved, version)
        if torch_message is None and self.policy == "watch" and _is_detached(saved):
            torch_message = compat.DETACHED_SENTENCE
        written = version != saved.version or (entry is not None and entry.written)
        if torch_message is None and (self.policy == "watch" or not written):
            return saved.alias
        message = UNSURE if torch_message is None else None
        raise error_of(self._kept(judge_untold("UC101", fault, message=message, torch_message=torch_message)))

    def name_fault(self, fault: str) -> None:
        """Have the report name a fault of ours, once."""
        self._faults[fault] = None

    def _unrecorded(self, error: Exception) -> str:
        """The sentence for a fault of ours while a write was recorded."""
        fault = fault_in("a write could not be recorded", error)
        self.name_fault(fault)
        return fault

    def _refusal(self, standing: Standing) -> InplaceError:
        finding = self._note(standing, repaired=False, again=True)
        if finding is None:
            raise AssertionError("a story with a refusal is a finding, or tells of its fault")
        nothing: tuple[Finding, ...] = ()
        what = "what else backward would refuse could not be told"
        others = self._asked(what, lambda: self._refused_too(standing), nothing)
        return error_of(finding, others)

    def _refused_too(self, standing: Standing) -> tuple[Finding, ...]:
        """Findings for all that the running backward would have refused next."""
        if self.policy != "watch":
            return ()
        found: dict[int, Finding] = {}
        for saved, node in ahead.refused_too(standing.saved, self.ledger):
            finding = self._note(self.ledger.standing(saved), repaired=False, node=node)
            if finding is not None and finding.ahead:
                found[id(finding)] = finding
            if len(found) >= _MOST_AHEAD:
                break
        return tuple(found.values())

    def _note(
        self, standing: Standing, *, repaired: bool, again: bool = False, node: Any = None
    ) -> Finding | None:
        """Judge, and keep the finding unless the same is known of the same places already.

        One line may save two tensors, of which torch sees only one overwritten: these are two findings.

        Args:
            again: Make it anew all the same, for an error that is about to be raised.
            node: Who will ask for the saved tensor, where backward was refused before it came there.
        """
        refused = standing.refused or (standing.moved and not standing.changed)  # known before any story

        def key() -> Any:
            last = self.ledger.last_write(standing.saved)
            written = None if last is None else sites.user_place(last.stack)
            return refused, sites.user_place(standing.saved.stack), written

        def make() -> Finding | None:
            finding = judge(
                describe.evidence(
                    standing,
                    self.ledger,
                    repaired=repaired,
                    backwards_before=self.backwards_before,
                    goes_on=not again,
                    node=node,
                )
            )
            if finding is None and again:
                raise AssertionError("what is refused is always a finding")
            return finding if finding is None or node is None else replace(finding, ahead=True)

        return self.keep(
            key,
            make,
            lambda: _certain(standing, refused=refused, repaired=repaired, goes_on=not again),
            again=again,
            met=node is None,
        )

    def keep(
        self,
        key: Callable[[], Any],
        make: Callable[[], Finding | None],
        certain: Callable[[], Certain],
        *,
        again: bool = False,
        met: bool = True,
    ) -> Finding | None:
        """Count a conflict, and keep its finding unless its key is known already. Raises nothing of ours.

        Args:
            key: What makes two conflicts the same one: the places in question.
            make: Describes and judges; slow, so not asked for what is known.
            certain: What is known where ``make`` fails.
            again: Make it anew all the same, for an error that is about to be raised.
            met: Whether backward has come to it.
        """
        with self._lock:
            self.conflicts += met
            place = asked(key, None)
            known = None if place is None else self._seen.get(place)
            if known is not None and met:
                self._times[known] += 1
            if known is not None and not again:
                return self.findings[known] if known < len(self.findings) else None
            finding = told(make, certain)
            if finding is None:
                return None
            finding = self._suppressing.noted(finding)
            if place is None:
                return self._kept(finding)
            if known is None and len(self.findings) < _MOST_FINDINGS:
                self._seen[place] = len(self.findings)
                self._add(finding)
            elif known is not None and self.findings[known].ahead:
                self.findings[known] = finding  # now backward has come to it
            return finding

    def _kept(self, finding: Finding) -> Finding:
        """Keep a finding whose places are not known; where there is one like it, that is given."""
        with self._lock:
            for other in self.findings:
                if other == finding:
                    return other
            if len(self.findings) < _MOST_FINDINGS:
                self._add(finding)
            return finding

    def tell(
        self, finding: Finding | None, *, refuse: bool = False, cause: BaseException | None = None
    ) -> None:
        """Warn of a finding that torch is silent about.

        Raises:
            InplaceError: instead, where the session is strict or ``refuse`` is given.
        """
        if finding is None or (not refuse and self._suppressing.lets_pass(finding)):
            return
        if refuse or (self.strict and self.policy == "watch"):
            self._suppressing.raised(finding)
            raise error_of(finding) from cause
        if self.warn and self.policy == "watch" and id(finding) not in self._warned:
            self._warned.add(id(finding))
            warn(finding)

    @property
    def kept_bytes(self) -> int:
        """Bytes of overwritten values that are kept now."""
        return self.ledger.account.kept

    @property
    def peak_bytes(self) -> int:
        """The most bytes of overwritten values that were ever kept at a time."""
        return self.ledger.account.peak

    def finding_for(self, error: BaseException) -> Finding | None:
        """The story for an exception that left the watched code, None where it is the user's own.

        torch's own refusals (UC2xx, UC301) are told here; whoever asks again gets the same finding.
        """
        finding = told_of(error)
        if isinstance(error, InplaceError):
            return finding
        if finding is None:
            kind = asked(lambda: kind_of(error), None)
            if kind is None:
                return None

            def make() -> Finding | None:
                refusal = _refused.evidence(error, self.backwards_before, self.ledger.view_writes)
                return None if refusal is None else judge_refusal(refusal)

            finding = told(make, lambda: Certain(kind.code, torch_message=str(error)))
            if finding is None:
                return None
            finding = self._suppressing.noted(finding)
            setattr(error, _TOLD, finding)
        if finding not in self.findings:
            self._add(finding)
        return finding

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        heard = self.heard
        if heard is not None and not self._suppressing.lets_pass(finding):
            self._asked("a finding could not be handed on", lambda: heard(finding), None)

    def _asked(self, what: str, look: Callable[[], T], otherwise: T) -> T:
        """What a look gives; where it fails, the report says so."""
        try:
            return look()
        except Exception as error:
            self.name_fault(fault_in(what, error))
        return otherwise

    def told_apart(self) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
        """All findings so far, each with how often it was met; those that are suppressed by themselves."""
        told: list[Finding] = []
        suppressed: list[Suppressed] = []
        with self._lock:
            for at, finding in enumerate(self.findings):
                by = self._suppressing.by(finding)
                if at in self._times:
                    finding = replace(finding, times=1 + self._times[at])
                if by is None:
                    told.append(finding)
                else:
                    suppressed.append(Suppressed(finding, by))
        return tuple(told), tuple(suppressed)

    def report(self, *, exit_code: int = 0, script_failed: bool = False) -> Report:
        """All findings so far with the ledger's totals."""
        saves, writes = self._counted_before
        saved_bytes = self.ledger.saved_bytes
        by_line: Mapping[tuple[str, int], int] = {}
        if saved_bytes is not None:
            by_line = self._asked("what each line keeps could not be told", saved_bytes.at_peak, by_line)
        nothing: tuple[str, ...] = ()
        said = self._asked(
            "what could not be seen could not be told",
            lambda: notices(self._begun, self.ledger.transform, self.ledger.replay),
            nothing,
        )
        totals = Totals(
            saves=self.ledger.save_count - saves,
            writes=self.ledger.write_count - writes,
            conflicts=self.conflicts,
            kept_bytes=self.peak_bytes,
        )
        findings, suppressed = self.told_apart()
        return Report(
            outcome=outcome(findings, failed=script_failed),
            findings=findings,
            suppressed=suppressed,
            totals=totals,
            torch_version=str(torch.__version__),
            command=self.command,
            exit_code=exit_code,
            notices=(*_of_this_torch(), *said, *self._faults),
            bytes_by_line=by_line,
        )


_BEYOND_SAVES = (write_log, functions, gradients, module_hooks, checkpoint)
"""What sees conflicts that no saved tensor shows, in the order in which they are installed."""


class Watcher(kernels.Listener, Protocol):
    """Who takes part in an installation: the ledger of a session, or the keeper of frozen tensors."""

    def before_swap(self, tensor: torch.Tensor, new: torch.Tensor) -> None: ...
    def after_detach(self, tensor: torch.Tensor, node: Any) -> None: ...
    def before_shrink(self, storage: torch.UntypedStorage, size: int) -> None: ...
    def before_replay(self) -> None: ...
    def before_export(self) -> None: ...
    def anything_alive(self) -> bool: ...
    def saves(self, *, queued: bool = True) -> Iterable[SavedTensor]: ...


_SLEEPS_FOR = 10.0
"""Seconds after which what nobody has woken is put back."""


class _Installation:
    """What all sessions share: kernels, wrapped entry points.

    The first one in installs them; the last one out puts them to sleep, so that the next one need only wake
    them. ``put_back`` takes them away, as does the end of the process: a thread of torch's own that runs on
    must not come to a kernel in Python. So does a backward that nobody watches, some seconds after the last
    context was left: a program that watches every hundredth step finds them asleep.
    """

    def __init__(self) -> None:
        self._ledgers: tuple[Watcher, ...] = ()
        self._patches = Patches()
        self._installed = False
        self.view_writes = ViewWrites()
        self._off: tuple[mechanisms.Off, ...] | None = None
        self._asleep_since = 0.0
        self._lock = threading.RLock()

    def off(self) -> tuple[mechanisms.Off, ...]:
        """The mechanisms that do not work on this torch; asked once per process."""
        with self._lock:
            if self._off is None:
                self._off = mechanisms.off(self.acquire, self.release)
            return self._off

    def acquire(self, ledger: Watcher) -> None:
        with self._lock:
            if self._installed and not self._ledgers and not self._patches.intact():
                self._take_away()  # the program has put something of its own in our place: lie over that
            if not self._installed:
                gradients.unshared_counts()  # while nothing of ours is there
                self._install()
            fallback.listen(ledger)
            if not self._ledgers:
                self._patches.wake()
            self._ledgers = (*self._ledgers, ledger)

    def release(self, ledger: Watcher) -> None:
        with self._lock:
            self._ledgers = tuple(other for other in self._ledgers if other is not ledger)
            if not self._ledgers:
                self._patches.sleep()
                self._asleep_since = time.monotonic()
            fallback.unlisten(ledger)

    def put_back(self) -> None:
        """Leave torch and Python as they were, unless somebody looks."""
        with self._lock:
            if not self._ledgers:
                self._take_away()

    def _on_unwatched(self) -> None:
        """A backward begins that nobody watches."""
        if time.monotonic() - self._asleep_since > _SLEEPS_FOR and self._lock.acquire(blocking=False):
            try:
                self.put_back()
            finally:
                self._lock.release()

    def _install(self) -> None:
        patches = self._patches = Patches()
        self._installed = True
        atexit.register(self._take_away)
        try:
            # before any kernel is registered, so that no operation that comes later goes unnoticed
            registrations.install(patches)
            engine.install(patches)
            engine.on_unwatched = self._on_unwatched
            # what is told of backward calls first hears of them last: see `Engine`
            _saves.install(patches)
            unmarked.install(patches)
            registered.install(patches)
            pause.install(patches, self._anything_alive, self._saves, self._may_rest, self.view_writes)
            backward.install(patches)
            undispatched.install(
                patches,
                self._before_swap,
                self._after_detach,
                self._before_shrink,
                self._before_replay,
                self._before_write,
                self._before_export,
            )
            batch_norm.install(patches)
            for stage in _BEYOND_SAVES:
                stage.install(patches)
            patches.when_awake(lambda: self.view_writes.forget)
        except BaseException:
            self._take_away()
            raise

    def _take_away(self) -> None:
        atexit.unregister(self._take_away)
        self._installed = False
        self._patches.undo()
        kernels.take_away()

    def _may_rest(self) -> Any:
        """What the native core knows of the saves in its queue; None where each must be looked at."""
        only = self._ledgers[0] if len(self._ledgers) == 1 else None
        return only.may_rest() if isinstance(only, Ledger) else None

    def _saves(self, *, queued: bool = True) -> list[SavedTensor]:
        if len(self._ledgers) == 1:  # in each backward, so that few calls count
            return list(self._ledgers[0].saves(queued=queued))
        return list(itertools.chain.from_iterable(ledger.saves(queued=queued) for ledger in self._ledgers))

    def _before_shrink(self, storage: torch.UntypedStorage, size: int) -> None:
        for ledger in self._ledgers:
            ledger.before_shrink(storage, size)

    def _before_replay(self) -> None:
        for ledger in self._ledgers:
            ledger.before_replay()

    def _before_export(self) -> None:
        for ledger in self._ledgers:
            ledger.before_export()

    def _before_write(self, tensor: torch.Tensor, method: str) -> None:
        for ledger in self._ledgers:
            ledger.before_write(tensor, method, False, (), {})

    def _after_detach(self, tensor: torch.Tensor, node: Any) -> None:
        for ledger in self._ledgers:
            ledger.after_detach(tensor, node)

    def _before_swap(self, tensor: torch.Tensor, new: torch.Tensor) -> None:
        for ledger in self._ledgers:
            ledger.before_swap(tensor, new)

    def _anything_alive(self) -> bool:
        for ledger in self._ledgers:  # noqa: SIM110  (asked in each step: a generator is two calls more)
            if ledger.anything_alive():
                return True
        return False


_installation = _Installation()
put_back = _installation.put_back


def _of_this_torch() -> tuple[str, ...]:
    """One sentence for each thing that does not work on this torch, or that nobody has tried."""
    said = [sentence for sentence in (versions.untried(), fallback.why()) if sentence is not None]
    return (*said, *(one.sentence for one in _installation.off()))


def told_of(error: BaseException) -> Finding | None:
    """The finding that an exception brings along, also from another process; None if it has none."""
    finding: Finding | None = (
        error.finding if isinstance(error, InplaceError) else getattr(error, _TOLD, None)
    )
    return finding


def _is_detached(saved: SavedTensor) -> bool:
    """Whether torch refuses a tensor for the history that it has lost."""
    if saved.entry is None or saved.entry.detached is None or saved.unchecked:
        return False
    return asked(lambda: reads.detached(saved) is not None, True)


def _certain(standing: Standing, *, refused: bool, repaired: bool, goes_on: bool) -> Certain:
    """What the ledger alone knows of a conflict."""
    saved = standing.saved
    seen = refused or (not repaired and _is_detached(saved))
    return Certain(
        "UC101" if seen else "UC102",
        torch_message=sentence.in_any_case(standing, goes_on=goes_on),
        saved=unplaced(saved),
        repaired=repaired,
    )


@functools.cache
def _warn_once(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=5)
