"""Faults planted in every function that takes part in telling, and what a program comes to with each."""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any
from unittest import mock

from conflict_programs import PROGRAMS, Run

import unclobber
from unclobber.explain.boundary import finding_or_fallback
from unclobber.model import Report, or_default
from unclobber.observe.record import Ledger
from unclobber.report import line_of, text_of
from unclobber.session import Session, session

BOUNDARY = frozenset(
    one.__code__ for one in (finding_or_fallback, or_default, text_of, line_of, Session._guarded_call)
)
"""What a fault must not get out of."""

MODES: dict[str, Callable[[], Any]] = {
    "watch": unclobber.watch,
    "strict": lambda: unclobber.watch(strict=True),
    "guard": unclobber.guard,
    "fingerprint": lambda: unclobber.watch(fingerprint=1.0),
    "audit": lambda: None,
}


@contextmanager
def warm(*works: Callable[[], object]) -> Iterator[None]:
    """Kernels are laid once, and what ``works`` load is no garbage to look through at each run.

    The kernels by a ledger alone: a session around the programs would be told of them, too, and warn of some.
    """
    ledger = Ledger()
    session.installation.acquire(ledger)
    try:
        for work in works:
            work()
            gc.collect()
            gc.freeze()
        yield
    finally:
        session.installation.release(ledger)
        gc.unfreeze()


def inside(frame: FrameType | None) -> bool:
    """Whether a frame was called behind the boundary."""
    while frame is not None:
        if frame.f_code in BOUNDARY:
            return True
        frame = frame.f_back
    return False


def functions() -> dict[CodeType, FunctionType]:
    """All functions and methods of the package by their code, but those that close over something."""
    found: dict[CodeType, FunctionType] = {}
    home = Path(unclobber.__file__).parent
    for file in home.rglob("*.py"):
        name = ".".join(("unclobber", *file.relative_to(home).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        # The other trainers' and IPython's modules need those; a lock that is not let go stops everybody.
        if name.rpartition(".")[2] in ("__main__", "lightning", "transformers", "notebook", "_locks"):
            continue
        module = importlib.import_module(name)
        for value in list(vars(module).values()):
            members = vars(value).values() if isinstance(value, type) else (value,)
            for member in members:
                function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                function = getattr(function, "__wrapped__", function)
                if not isinstance(function, FunctionType) or function.__module__ != module.__name__:
                    continue
                if not function.__code__.co_freevars:
                    found[function.__code__] = function
    return found


def called_in(work: Callable[[], object], wanted: Callable[[FrameType], bool] = inside) -> set[CodeType]:
    """The codes that run behind the boundary while ``work`` does."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code not in found and wanted(frame.f_back):  # type: ignore[arg-type]
            found.add(frame.f_code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def _stand_in(*args: Any, **kwargs: Any) -> Any:
    planted: Any = 987654321
    return planted(*args, **kwargs)


@contextmanager
def planted(
    function: FunctionType, error: BaseException, where: Callable[[FrameType], bool] = inside
) -> Iterator[list[str]]:
    """While this is entered the function raises, wherever it is called from ``where``; gives a list that is
    as long as it has raised."""
    code, raised = function.__code__, []
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    original.__kwdefaults__ = function.__kwdefaults__

    def fault(*args: Any, **kwargs: Any) -> Any:
        if where(sys._getframe(2)):
            raised.append(function.__qualname__)
            raise type(error)(*error.args)  # anew: a traceback holds the program's tensors
        return original(*args, **kwargs)

    consts = tuple(fault if const == 987654321 else const for const in _stand_in.__code__.co_consts)
    stand_in = _stand_in.__code__.replace(
        co_consts=consts, co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname
    )
    _give(function, stand_in)
    try:
        yield raised
    finally:
        _give(function, code)


def _give(function: FunctionType, code: CodeType) -> None:
    with warnings.catch_warnings():  # from 3.13 on, where one of the two is a generator's
        warnings.simplefilter("ignore", DeprecationWarning)
        function.__code__ = code


@dataclass(frozen=True)
class Outcome:
    """What a program comes to, apart from the story."""

    raised: str | None
    """The exception's type."""
    sentence: str | None
    """torch's own, where it refuses."""
    warned: bool
    gradient: tuple[float, ...] | None
    findings: frozenset[tuple[str, str, bool]]
    """Code, severity, and whether guard has repaired it."""
    outcome: str


@dataclass
class Ended:
    """A program that has run."""

    outcome: Outcome
    report: Report
    text: str
    """The exception's, or the warnings'."""
    left: list[str]
    """What is still alive."""


def run(mode: str, name: str, text: str | None = None) -> Ended:
    """Run a program in a mode, by the ways that a user has."""
    program = Run(PROGRAMS[name][1] if text is None else text, f"<telling {name}>")
    alive: list[weakref.ref[Any]] = program.kept
    error: RuntimeError | None = None
    context = None

    class Seen(Session):
        def __enter__(self) -> Session:
            alive.append(weakref.ref(self))
            return super().__enter__()

    with mock.patch.object(session, "Session", Seen), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            context = MODES[mode]()
            if context is None:
                report = unclobber.audit(program)
            else:
                with context:
                    program()
        except RuntimeError as caught:
            error = caught
        if context is not None:
            report = context._last.report()
    finding = getattr(error, "finding", None)
    ended = Ended(
        Outcome(
            raised=None if error is None else type(error).__name__,
            sentence=None if finding is None or finding.torch_message is None else str(error).split("\n")[0],
            warned=any(one.category is unclobber.SilentWriteWarning for one in warned),
            gradient=None if program.w.grad is None else tuple(program.w.grad.tolist()),
            findings=frozenset((one.code, one.severity, one.repaired) for one in report.findings),
            outcome=report.outcome,
        ),
        report,
        "\n".join([str(error), *(str(one.message) for one in warned)]),
        [],
    )
    del program, context, error, finding, warned
    if any(ref() is not None for ref in alive):
        gc.collect()  # the program's own functions and its names hold each other
    ended.left = [type(one).__name__ for ref in alive if (one := ref()) is not None]
    return ended


FAULTS = (RuntimeError("planted"), SystemError("planted"), RecursionError("planted"))
