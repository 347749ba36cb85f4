"""pytest plugin: runs tests watched or guarded, and explains a gradient that went wrong.

Turn it on with ``pytest --unclobber`` (or ``--unclobber=watch|guard|strict``), with the ini option
``unclobber = watch``, or for single tests with ``@pytest.mark.unclobber("guard")``. A marker beats
the command line, the command line beats the ini file, and ``--unclobber=off`` beats all of them.
If they leave the mode open (``--unclobber`` alone, a marker without a mode), ``[tool.unclobber]`` in
pyproject.toml decides; it and ``# unclobber: ignore`` also suppress findings.

- ``watch``: what torch refuses fails with the explanation in place of torch's traceback; a write that
  torch doesn't see fails the test at its end, because its gradients are wrong.
- ``strict``: such a write raises at once, from the backward that needs the value.
- ``guard``: the test goes on with right gradients; what was restored is counted.

Only the call of a test is watched, each in a session of its own, not its fixtures: those of a wider
scope serve several tests, and what they saved would belong to none of them.

This module imports nothing but pytest until a test is to be watched, because it is loaded in every project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from ..model import Finding
    from ..session import Session

MODES = ("watch", "guard", "strict", "off")

_findings = pytest.StashKey[tuple["Finding", ...]]()  # the findings that failed the test
_watched = pytest.StashKey[dict[str, Any]]()  # mode and codes of a watched test, for the summary


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--unclobber`` and its modes, each as a flag of its own name.

    One option with an optional value would take the path after a bare ``--unclobber`` for its value.
    """
    group = parser.getgroup("unclobber", "in-place operations under PyTorch autograd")
    texts = {
        "on": "watch, strict or guard, as [tool.unclobber] says; else watch",
        "watch": "explain overwritten saved tensors; silently wrong gradients fail the test",
        "guard": "give backward the values that were saved",
        "strict": "like watch, and raise at once where torch would be silent",
        "off": "watch nothing, whatever the ini file and markers say",
    }
    for mode, text in texts.items():
        name = "--unclobber" if mode == "on" else f"--unclobber={mode}"
        group.addoption(name, action="store_const", const=mode, dest="unclobber", help=text)
    parser.addini(
        "unclobber", "how tests are run that no marker says it of: watch, guard, strict or off", default=""
    )
    parser.addini(
        "unclobber_fingerprint",
        "share of saved tensors (0 to 1) whose values are compared at backward, to find writes that "
        "nothing else sees; as [tool.unclobber] says if not set",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and check the ini options, so that a wrong value stops the run at its start."""
    config.addinivalue_line(
        "markers",
        "unclobber(mode=None, fingerprint=None): run the test watched (the default), 'guard'ed, 'strict'ly "
        "watched, or with mode 'off' alone.",
    )
    if config.getini("unclobber"):
        _checked(config.getini("unclobber"), "the ini option unclobber")
    if share := config.getini("unclobber_fingerprint"):
        from ._answers import rate

        rate(share, "the ini option unclobber_fingerprint", pytest.UsageError)


def _checked(mode: Any, where: str) -> str:
    if mode not in MODES:
        close = get_close_matches(str(mode).lower(), MODES, 1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise pytest.UsageError(f"{where} is {mode!r}: the modes are {', '.join(MODES)}{meant}")
    return str(mode)


class _Wanted(NamedTuple):
    """Mode and rate of a watched test."""

    mode: str  # `on`: as the settings say
    fingerprint: float | None  # None: as the settings say


def _wanted(item: pytest.Item) -> _Wanted | None:
    """Return the mode and rate of a test, or None if it is not to be watched."""
    given = item.config.getoption("unclobber", None)
    default = given or item.config.getini("unclobber") or "off"
    marker = item.get_closest_marker("unclobber")
    if given == "off" or (marker is None and default == "off"):
        return None
    share = item.config.getini("unclobber_fingerprint")
    mode = "on" if default == "off" else default
    if marker is not None:
        mode, share = _of_marker(item, marker, mode, share)
    if mode == "off":
        return None
    from ._answers import rate

    said = f"fingerprint at {item.nodeid}"
    return _Wanted(mode, None if share == "" else rate(share, said, pytest.UsageError))


def _of_marker(item: pytest.Item, marker: pytest.Mark, mode: str, share: Any) -> tuple[str, Any]:
    """Return the mode and the rate of a marker, with `mode` and `share` for what it leaves open."""

    # A function with the marker's signature, because Python itself then rejects what a marker doesn't take.
    def read(mode: str | None = None, *, fingerprint: float | None = None) -> tuple[str | None, float | None]:
        return mode, fingerprint

    try:
        own_mode, own_share = read(*marker.args, **marker.kwargs)
    except TypeError as error:
        problem = str(error).replace("_of_marker.<locals>.read()", "the marker unclobber")
        raise pytest.UsageError(f"{problem} (at {item.nodeid}): it takes mode and fingerprint") from None
    mode = mode if own_mode is None else _checked(own_mode, f"the mode at {item.nodeid}")
    return mode, share if own_share is None else own_share


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test in a session. This is the innermost wrapper, so that no other plugin's code is watched."""
    try:
        wanted = _wanted(item)
    except pytest.UsageError as error:
        # without a traceback, because pytest would print this file's source
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if wanted is None:
        return (yield)
    from ..model import UnclobberError, require_installed_torch

    try:
        require_installed_torch()
        from ..session import Session

        guard, strict = (None if wanted.mode == "on" else wanted.mode == mode for mode in ("guard", "strict"))
        # A silent write fails the test, which a warning would only repeat.
        session = Session.by_settings(
            str(item.path.parent), guard=guard, strict=strict, fingerprint=wanted.fingerprint, warn=False
        )
    except UnclobberError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    try:
        with session:
            try:
                result = yield
            except BaseException as error:
                ending = session.finding_for(error)
                item.stash[_findings] = (ending,) if ending is not None else ()
                raise
        _fail_for_silent(item, session)
    finally:
        reported, suppressed = session.split_suppressed()
        item.stash[_watched] = {
            "mode": session.mode,
            "codes": sorted(finding.code for finding in reported),
            "repaired": sum(finding.repaired for finding in reported),
            "suppressed": len(suppressed),
        }
    return result


def _fail_for_silent(item: pytest.Item, session: Session) -> None:
    """Fail a passed test in which a gradient was silently wrong.

    Refusals of torch were raised, as were all findings of a strict session: a test that passed expects them.
    """
    if session.strict:
        return
    wrong = [f for f in session.split_suppressed()[0] if f.is_silent and f.severity == "error"]
    silent = [f for f in wrong if not (f.harmless or f.ahead)]
    if not silent:
        return
    # `pytest_runtest_makereport` shows all of them, though the raised error names one.
    item.stash[_findings] = tuple(silent)
    from ..report import error_of

    raise error_of(silent[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace the traceback of a failure from a finding by its explanation."""
    report = yield
    if call.when != "call" or (watched := item.stash.get(_watched, None)) is None:
        return report
    report.unclobber = watched  # type: ignore[attr-defined]  # xdist sends every attribute along
    findings = item.stash.get(_findings, ())
    # `--tb=native` shows whole tracebacks, and an expected failure stays as it is (test_pytest_plugin.py).
    if findings and report.outcome == "failed" and item.config.getoption("tbstyle", "auto") != "native":
        from ._pytest_story import story

        report.longrepr = story(findings, item)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    watched = [report.unclobber for report in reports if hasattr(report, "unclobber")]
    if watched:
        terminalreporter.write_line(_summary(watched))


def _summary(watched: list[dict[str, Any]]) -> str:
    """Return a line such as ``unclobber: 12 tests, 2 findings in 1 of them (UC101: 2)``."""
    tests = f"{len(watched)} test{'s' * (len(watched) != 1)}"
    codes = Counter(code for test in watched for code in test["codes"])
    suppressed = sum(test["suppressed"] for test in watched)
    suffix = f", {suppressed} suppressed" if suppressed else ""
    if not codes:
        return f"unclobber: {tests} watched, no findings{suffix}"
    count = sum(codes.values())
    hit = sum(bool(test["codes"]) for test in watched)
    each = ", ".join(f"{code}: {number}" for code, number in sorted(codes.items()))
    text = f"unclobber: {tests} watched, {count} finding{'s' * (count != 1)} in {hit} ({each})"
    repaired = sum(test["repaired"] for test in watched)
    return (f"{text}, {repaired} repaired by guard" if repaired else text) + suffix
