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

Each test is watched in a session of its own, together with its fixtures of function scope. Those of a
wider scope are not: they serve several tests, and what they saved would belong to none of them.

This module imports nothing but pytest until a test is to be watched, because it is loaded in every project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..model import Finding
    from ..session import Session

MODES = ("watch", "guard", "strict", "off")

_session = pytest.StashKey["Session"]()
_passed = pytest.StashKey[bool]()  # whether the call of a watched test has passed


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


def _wanted(item: pytest.Item) -> tuple[str, float | None] | None:
    """Return the mode (`on`: as the settings say) and rate (None: as they say) of a test; None: unwatched."""
    given = item.config.getoption("unclobber", None)
    mode = given or item.config.getini("unclobber") or "off"
    share = item.config.getini("unclobber_fingerprint")
    if given != "off" and (marker := item.get_closest_marker("unclobber")) is not None:
        mode, share = _of_marker(item, marker, "on" if mode == "off" else mode, share)
    if mode == "off":
        return None
    from ._answers import rate

    said = f"fingerprint at {item.nodeid}"
    return mode, None if share == "" else rate(share, said, pytest.UsageError)


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


def pytest_fixture_setup(fixturedef: Any, request: Any) -> None:
    """Enter the test's session before its first fixture of its own, after those of wider scope."""
    if fixturedef.scope == "function":
        _enter(request.node)


def _enter(item: pytest.Item) -> Session | None:
    """Return the session of a test that is to be watched, entered until its own fixtures are torn down."""
    if (known := item.stash.get(_session, None)) is not None and known.active:
        return known
    try:
        wanted = _wanted(item)
    except pytest.UsageError as error:
        # without a traceback, because pytest would print this file's source
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if wanted is None:
        return None
    from ..model import UnclobberError, require_installed_torch

    try:
        require_installed_torch()
        from ..session import Session

        mode, rate = wanted
        guard, strict = (None if mode == "on" else mode == name for name in ("guard", "strict"))
        # A silent write fails the test, which a warning would only repeat.
        session = Session.by_settings(
            str(item.path.parent), guard=guard, strict=strict, fingerprint=rate, warn=False
        ).__enter__()
    except UnclobberError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    item.stash[_session], item.stash[_passed] = session, False
    # The item's first finalizer is its last to run, after those of its own fixtures.
    item.addfinalizer(lambda: _leave(item, session))
    return session


def _leave(item: pytest.Item, session: Session) -> None:
    """Leave the session. Fail the teardown of a passed test if a gradient was silently wrong in it."""
    session.__exit__(None, None, None)
    # a test that failed has shown what was silent in it
    if item.stash[_passed]:
        _fail_for_silent(session)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test in its session. It is the innermost wrapper, so that no other plugin's code is watched."""
    session = _enter(item)
    result = yield
    if session is not None:
        _fail_for_silent(session)
        item.stash[_passed] = True
    return result


def _fail_for_silent(session: Session) -> None:
    """Fail a passed test in which a gradient was silently wrong, with an error that names the first."""
    if silent := _silent(session):
        from ..report import error_of

        raise error_of(silent[0])


def _silent(session: Session) -> tuple[Finding, ...]:
    """Return the findings that torch was silent about; none of a strict session, which raised them all."""
    reported = () if session.strict else session.split_suppressed()[0]
    wrong = [f for f in reported if f.is_silent and f.severity == "error"]
    return tuple(f for f in wrong if not (f.harmless or f.ahead))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace the traceback of a failure from a finding by its explanation; else add what was silent."""
    report = yield
    if (session := item.stash.get(_session, None)) is None:
        return report
    # Not the error that left the test: that of a `unittest.TestCase` is known only here.
    ending = None if call.excinfo is None else session.finding_for(call.excinfo.value)
    # An expected failure stays as it is (test_pytest_plugin.py).
    if report.outcome == "failed":
        from ._pytest_story import add_story

        silent = _silent(session)
        silent = silent if call.when == "call" or ending in silent else ()
        add_story(report, ending, [finding for finding in silent if finding != ending], item)
    if call.when == "teardown":
        del item.stash[_session]  # items live as long as the run, and its records of tensors need not
        reported, suppressed = session.split_suppressed()
        report.unclobber = {  # type: ignore[attr-defined]  # xdist sends every attribute along
            "codes": sorted(finding.code for finding in reported),
            "repaired": sum(finding.repaired for finding in reported),
            "suppressed": len(suppressed),
        }
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    stats = terminalreporter.stats.values()
    if watched := [test.unclobber for tests in stats for test in tests if hasattr(test, "unclobber")]:
        terminalreporter.write_line(_summary(watched))


def _summary(watched: list[dict[str, Any]]) -> str:
    """Return a line such as ``unclobber: 12 tests, 2 findings in 1 of them (UC101: 2)``."""
    from ..model.text import plural

    tests = plural(len(watched), "test")
    codes = Counter(code for test in watched for code in test["codes"])
    suppressed = sum(test["suppressed"] for test in watched)
    suffix = f", {suppressed} suppressed" if suppressed else ""
    if not codes:
        return f"unclobber: {tests} watched, no findings{suffix}"
    hit = len([test for test in watched if test["codes"]])
    each = ", ".join(f"{code}: {number}" for code, number in sorted(codes.items()))
    text = f"unclobber: {tests} watched, {plural(codes.total(), 'finding')} in {hit} ({each})"
    repaired = sum(test["repaired"] for test in watched)
    return (f"{text}, {repaired} repaired by guard" if repaired else text) + suffix
