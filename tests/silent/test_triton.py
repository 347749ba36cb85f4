"""Triton kernels, which write through an address: each launch is a write, with the kernel's own line.

They run under Triton's interpreter, in a process of their own, because it is chosen when Triton is imported;
with a GPU (`make gpu`) they are compiled and run there, too.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton.tools.tensor_descriptor")  # since 3.4

HERE = Path(__file__).parent
TEXT = (HERE / "_triton_programs.py").read_text()
NAMES = re.findall(r"^@program\ndef (\w+)", TEXT, re.MULTILINE)


def line(mark, name):
    """Return the line with the mark ``# launch: name`` or ``# store: name``; None if there is none."""
    for number, text in enumerate(TEXT.splitlines(), 1):
        if name in re.findall(r"\w+", text.partition(f"# {mark}:")[2]):
            return number
    return None


@pytest.fixture(
    scope="module",
    params=[
        ("native", "cpu"),
        ("python", "cpu"),
        pytest.param(("native", "cuda"), marks=pytest.mark.gpu),
        pytest.param(("python", "cuda"), marks=pytest.mark.gpu),
    ],
    ids="-".join,
)
def ran(request):
    core, device = request.param
    native, interpret = ("0" if core == "python" else "1"), ("1" if device == "cpu" else "0")
    environment = {**os.environ, "TRITON_INTERPRET": interpret, "UNCLOBBER_NATIVE": native}
    done = subprocess.run(
        [sys.executable, str(HERE / "_run_triton.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_is_a_mark_for_each_wrong_program():
    assert len(NAMES) == 16
    assert [name for name in NAMES if line("launch", name) is None] == ["elsewhere", "only_read", "not_taken"]


@pytest.mark.parametrize("name", NAMES)
def test_a_launch_is_a_write_by_the_kernels_line(ran, name):
    if name == "block" and name not in ran["seen"]:
        pytest.skip("this Triton has no block pointers any more")
    seen = ran["seen"][name]
    launch, store = line("launch", name), line("store", name)
    assert seen["plain"] is (launch is None)
    if launch is None:
        assert seen["findings"] == []
    elif name == "operator":  # torch sees it, by the schema
        assert [(code, [(at, n) for at, n, _ in writes]) for code, writes in seen["findings"]] == [
            ("UC101", [(launch, 1)])
        ]
    else:
        assert seen["findings"] == [["UC102", [[launch, 2 if name == "twice" else 1, store]]]]
    assert seen["guarded"]


def test_nothing_is_left_on_triton(ran):
    assert ran["restored"]
