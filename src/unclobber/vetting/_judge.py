"""The verdict on one way: a plain run's gradients compared with guard's, and the story if they differ."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import nn

from ..model import Finding
from ..session import Session
from ._case import Case, Gradients, NotApplicableError, differing, in_short, seeded
from ._results import WayResult
from ._ways import WAYS, Train


@dataclass
class _Trained:
    """A run of a way: its gradients, or the error that ended it, and the findings of its session."""

    gradients: Gradients
    error: Exception | None = None
    refusal: Finding | None = None
    """The finding for the error; None if the error is no refusal of torch's that unclobber explains."""
    findings: tuple[Finding, ...] = ()
    suppressed: int = 0  # number of findings that comments or settings suppress


def judge(name: str, case: Case) -> WayResult:
    """Return the verdict on one way of training a module; the case itself stays as it is."""
    started = time.perf_counter()
    try:
        result = _judged(name, WAYS[name], case)
    except NotApplicableError as error:
        result = WayResult(name, "not applicable", str(error))
    return replace(result, seconds=time.perf_counter() - started)


def _judged(name: str, train: Train, case: Case) -> WayResult:
    """Return the verdict on a way; raise NotApplicableError if it can't be taken."""
    plain = _run(train, case, None)
    guarded = _run(train, case, "guard")
    different = differing(plain.gradients, guarded.gradients)
    if plain.error is None and guarded.error is None and not different:
        return WayResult(name, "fine")
    watched = _run(train, case, "watch")
    if plain.error is not None:
        if watched.refusal is None:
            raise NotApplicableError(in_short(plain.error))
        return WayResult(name, "refused", findings=watched.findings or (watched.refusal,))
    # Not before, because most ways are fine, and each run costs time.
    if differing(plain.gradients, _run(train, case, None).gradients):
        raise NotApplicableError("two plain runs with the same seeds give different gradients")
    if watched.suppressed and not watched.findings:
        return WayResult(name, "fine", "its findings are suppressed by comments or settings")
    findings = watched.findings or guarded.findings
    if (
        not findings
        and guarded.error is None
        and not differing(plain.gradients, guarded.gradients, exact=False)
    ):
        # Sums in another order, and no write: LED under one autocast (3e-8 of 0.3 in its shared embedding).
        return WayResult(name, "fine", "gradients differ from guard's by rounding", differing=different)
    if guarded.error is not None and not watched.findings:
        raise NotApplicableError(f"guard, which judges it, fails: {in_short(guarded.error)}")
    return WayResult(name, "silent", findings=findings, differing=different)


def _run(train: Train, case: Case, policy: str | None) -> _Trained:
    """Train a copy of the case plain, under ``watch`` or under ``guard``."""
    case = case.copy()
    if policy is None:
        session = None
    else:
        session = Session.by_settings(
            None, guard=policy == "guard", strict=False, warn=False, program=_code_of(case.module)
        )
    run = _Trained({})
    with seeded(), warnings.catch_warnings(), session or contextlib.nullcontext():
        warnings.simplefilter("ignore")
        try:
            run.gradients = train(case).gradients()
        except NotApplicableError:
            raise
        except Exception as error:
            run.error = error
            # Before the session's exit, which forgets the writes to views that an explanation may need.
            refusal = None if session is None else session.finding_for(error)
            run.refusal = None if refusal is None else _in_the_module(refusal)
    if session is not None:
        findings, suppressed = session.split_suppressed()
        run.findings = tuple(map(_in_the_module, findings))
        run.suppressed = len(suppressed)
    return run


def _in_the_module(finding: Finding) -> Finding:
    """Return the finding without the lines at which the way itself saves or calls backward."""
    saved, needed, notes = finding.saved, finding.needed, finding.notes
    if saved is not None and saved.site is not None and saved.site.library:
        saved, notes = None, (*notes, "the way saves it itself, and no line of the module")
    if needed is not None and needed.site is not None and needed.site.library:
        needed = None
    return replace(finding, saved=saved, needed=needed, notes=notes)


def _code_of(module: nn.Module) -> Iterator[str]:
    """Yield the folders and files that hold the code of a module and its parts, except torch's."""
    for kind in {kind for part in module.modules() for kind in type(part).__mro__}:
        top = sys.modules.get(kind.__module__.partition(".")[0])
        # A package's folder ends in a separator: `timm` must not stand for `timm_more`, too.
        home = getattr(top, "__file__", None)
        if home and top is not None and issubclass(kind, nn.Module) and top.__name__ != "torch":
            yield os.path.join(os.path.dirname(home), "") if hasattr(top, "__path__") else home
