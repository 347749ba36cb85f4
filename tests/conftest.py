"""pytest puts the folder of a ``conftest.py`` on the path, so that every test can import ``grammar`` and
``oracles``. What programs print must not depend on where the tests run."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections import Counter, defaultdict

import pytest
from hypothesis import settings

for _name in (
    "BUILD_NUMBER", "CI", "GITHUB_ACTIONS", "GITHUB_WORKSPACE",  # a CI job's: pytest then cuts no line
    "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PY_COLORS",  # a terminal's
    "PYTEST_ADDOPTS",
    "PYTHONDONTWRITEBYTECODE",  # each process that a test starts would compile all of the package
):  # fmt: skip
    os.environ.pop(_name, None)

# A worker has a core of its own: threads of OpenMP that wait for each other there cost an eighth of its time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell's background job ignores Ctrl-C, as does all that it starts; tests send it (repair/test_how_far.py).
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A worker process leaves a thread behind, and beside another thread no line is told of an unseen write.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault of what is tested
settings.load_profile("unhurried")


@pytest.fixture(scope="session", autouse=True)
def _inner_runs_in_order():
    """Keep pytest-randomly, if it is installed, from shuffling the runs of pytest that a test starts.

    A fixture, because workers of pytest-xdist, which may shuffle, would read a variable that is set above.
    """
    os.environ["PYTEST_ADDOPTS"] = "-p no:randomly"


@pytest.fixture(scope="module", autouse=True)
def _old_objects_out_of_the_way():
    """What is there before a file of tests is no business of theirs: a report that looks through all
    objects for modules spends a tenth of a second on pytest's and torch's own."""
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # an event loop that Jupyter has left open in an earlier file is no fault of this one
    gc.freeze()


def pytest_configure(config):
    """Warnings are errors, but for those that an older torch gives of itself."""
    from torch_words import quiet_filters

    for line in quiet_filters():
        config.addinivalue_line("filterwarnings", line)


def pytest_collection_modifyitems(items):
    """Skip what is marked ``gpu`` without one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked:
        import torch

        for item in () if torch.cuda.is_available() else marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device; `make gpu` runs it"))


def pytest_terminal_summary(terminalreporter, config):
    """Print tables of what ran in several processes: seconds by folder, if durations are asked for, and the
    programs of a sweep."""
    if config.getoption("durations") is not None:
        _seconds_by_folder(terminalreporter)
    counts: dict[str, Counter] = defaultdict(Counter)
    scripts: Counter = Counter()
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for name, value in report.user_properties:
            if name == "verdicts" and report.passed:
                for mode, count in value.items():
                    counts[mode].update(count)
            elif name == "scripts":
                scripts.update(value)
    if counts:
        from oracles import table  # imports torch

        terminalreporter.section("gradients of random programs")
        terminalreporter.write_line(table(counts))
    if scripts:
        from oracles.scripts import tally_table

        terminalreporter.section("random scripts")
        terminalreporter.write_line(tally_table(scripts))


def _seconds_by_folder(terminalreporter):
    """Print the tests of each folder and their seconds, set-up included, as the rows of ``README.md``."""
    seconds: Counter = Counter()
    tests: Counter = Counter()
    reports = [report for group in terminalreporter.stats.values() for report in group]
    for report in reports:
        if isinstance(report, pytest.TestReport):  # a file that can't be collected gives another kind
            folder = report.nodeid.removeprefix("tests/").partition("/")[0]
            seconds[folder] += report.duration
            tests[folder] += report.when == "call"
    terminalreporter.section("seconds by folder")
    for folder, spent in seconds.most_common():
        terminalreporter.write_line(f"| `{folder}` | {tests[folder]} | {spent:.0f} |")
    terminalreporter.write_line(f"| all | {tests.total()} | {seconds.total():.0f} |")
