"""pytest plugin of ``suites.py``: run each test's call in a mode, and append a line of JSON to a file.

The environment variable ``UNCLOBBER_SUITE`` names a file of settings in JSON:

- ``mode``: ``plain``, ``watch``, ``guard`` or ``pytest`` (the package's own plugin, ``pytest --unclobber``).
- ``results``: the file. A test that has a line with an outcome there is not run again.
- ``ids``: the tests to run, None for all; ``sample``: so many of them at most, spread evenly, None for all.
- ``limit``: seconds for a test, after which the process ends; ``box``: seconds for the whole, or None.
- ``device``: the folder whose sources are mapped to the CPU (``port.py``), or None.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import re
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SETTINGS: dict[str, Any] = json.loads(Path(os.environ["UNCLOBBER_SUITE"]).read_text(encoding="utf-8"))
RESULTS = Path(SETTINGS["results"])
RANK = {"passed": 0, "skipped": 1, "xfailed": 2, "xpassed": 3, "failed": 4}

_traceback = os.open(RESULTS.with_suffix(".hung"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_findings = pytest.StashKey[list[list[str]]]()
_running: dict[str, Any] = {}
_first = 0.0
_collected = 0
_process, _parent = os.getpid(), os.getppid()

# torchvision from PyPI has no operators beside a CPU build of torch, and fails to register their shapes.
# Not in a hook: a conftest.py may import it before any runs.
sys.modules["torchvision._meta_registrations"] = ModuleType("torchvision._meta_registrations")


def _write(line: dict[str, Any]) -> None:
    if os.getpid() != _process:
        return  # a test forked, and its child came back into the session
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _rearm() -> None:
    # Not pytest-timeout: its signal never reaches a test that hangs inside of C++.
    faulthandler.dump_traceback_later(SETTINGS["limit"], exit=True, file=_traceback)


def pytest_configure() -> None:
    """Map the port's device before its files are imported."""
    _rearm()
    if SETTINGS["device"]:
        import port

        port.install(SETTINGS["device"])
        if "distributed" in str(RESULTS):
            port.one_rank()


def pytest_collectstart() -> None:
    """Seed for what a file makes while it is imported, such as the weights of modules in parameters."""
    _seed()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that can't be imported."""
    if report.failed:
        text = str(report.longrepr).strip().splitlines()
        _write({"id": report.nodeid, "outcome": "uncollected", "error": text[-1] if text else ""})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that are wanted and have no outcome yet."""
    global _collected
    wanted, sample, _collected = SETTINGS["ids"], SETTINGS["sample"], len(items)
    chosen = items if wanted is None else [item for item in items if item.nodeid in set(wanted)]
    if sample and len(chosen) > sample:
        chosen = [chosen[number * len(chosen) // sample] for number in range(sample)]
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    done = {line["id"] for line in lines if "outcome" in line}
    items[:] = [item for item in chosen if item.nodeid not in done]


def pytest_runtestloop() -> None:
    """Start the clock once all is imported."""
    global _first
    _first = time.monotonic()


def _seed() -> None:
    """Give every mode the same random numbers, in tests that seed nothing themselves."""
    random.seed(0)
    for name, seed in (("numpy.random", "seed"), ("torch", "manual_seed")):
        if name in sys.modules:
            getattr(sys.modules[name], seed)(0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write the test's name before it runs, for it is to blame if the process ends; then its outcome."""
    _rearm()
    _seed()
    _running.update(id=item.nodeid, outcome="passed", error="", seconds=0.0, findings=[])
    _write({"id": item.nodeid})
    result = yield
    _rearm()
    _write({**_running, "seconds": round(_running["seconds"], 3)})
    if os.getppid() != _parent:
        item.session.shouldstop = "the tool has ended"
    if SETTINGS["box"] is not None and time.monotonic() - _first > SETTINGS["box"]:
        item.session.shouldstop = "the time for this suite is over"
        _write({"complete": True, "collected": _collected})
    return result


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test's call in a context of the package."""
    if SETTINGS["mode"] not in ("watch", "guard"):
        return (yield)
    import unclobber

    context = getattr(unclobber, SETTINGS["mode"])()
    try:
        with context:
            return (yield)
    finally:
        item.stash[_findings] = [
            [finding.code, finding.message, "silent" if finding.torch_message is None else "refused"]
            for finding in context.findings
        ]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the exception's type and first line, and the findings."""
    report = yield
    if call.excinfo is not None:
        first = (str(call.excinfo.value).strip().splitlines() or [""])[0]
        first = re.sub(r"\b0x[0-9a-f]+", "0x...", first)  # addresses differ from run to run
        report.suite_error = f"{call.excinfo.type.__name__}: {first}"  # type: ignore[attr-defined]
    report.suite_findings = item.stash.get(_findings, [])  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst outcome of the test's phases and subtests."""
    outcome = report.outcome.replace("skipped", "xfailed") if hasattr(report, "wasxfail") else report.outcome
    if hasattr(report, "wasxfail") and report.outcome == "passed":
        outcome = "xpassed"
    if RANK[outcome] > RANK[_running["outcome"]]:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message.splitlines()[0] if crash is not None and crash.message else ""
        _running.update(outcome=outcome, error=getattr(report, "suite_error", said))
    _running["seconds"] += report.duration
    _running["findings"] = getattr(report, "suite_findings", []) or _running["findings"]


def pytest_sessionfinish(exitstatus: int) -> None:
    """Say that no test is left, and how many there are, chosen or not."""
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        _write({"complete": True, "collected": _collected})
