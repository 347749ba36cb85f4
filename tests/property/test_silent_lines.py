"""A line that is blamed for a change that no operation made is always the line that made it.

Programs with one silent write among other statements: in a function, in a helper, in loops, branches and
``try``, several statements on a line. Only where the looks leave one statement is a line named.
"""

import ctypes
import linecache
import random
import warnings

import numpy as np
import pytest
import torch

from unclobber.session import Session

WRITES = (
    "a[:] = a + 1", "a *= 2", "a.fill(k + 7)", "np.copyto(a, k + 3)", "m[0] = 7.5", "a[1:3] = (5,\n    6)",
    "ctypes.memset(p, 1, 8)", "helper(a)", "box[0] = 9", "box.a[0] = 9", "np.vectorize(poke)(1)",
    "list(map(poke, [1]))",
)  # fmt: skip
OTHERS = (
    "z = z + 1", "z = z * z", "k = 3", "n = len(a)", "b = a.copy()", "b = a[:2]", "z = torch.ones(4)", "pass",
    "z.numpy()", "k = n + 1", "b[0] + 1", "str(z)", "same(z)",
)  # fmt: skip
AROUND = (
    "{0}", "{0}", "{0}", "{0}", "for k in range(2):\n    {0}", "if k:\n    {0}",
    "try:\n    {0}\nfinally:\n    k = 1", "with torch.no_grad():\n    {0}", "k = 4; {0}",
    "while n < 3:\n    n += 1\n    {0}", "{0}; z = z + 2",
)  # fmt: skip
HEAD = """\
def helper(array):
    array[0] = 4  # helper
class Box:
    def __init__(self, array):
        self.a = array
    def __setitem__(self, key, value):
        self.a[key] = value  # box
def same(z):
    return z * 1
"""


def program(chance: random.Random) -> tuple[str, int]:
    """A text, and the line that changes the saved tensor."""
    write = chance.choice(WRITES)
    steps = [chance.choice(OTHERS) for _ in range(chance.randrange(7))]
    steps.insert(chance.randrange(len(steps) + 1), write)
    body = ["y = x.exp()", "a = y.detach().numpy()", "p = y.data_ptr()", "m = memoryview(a)", "box = Box(a)"]
    body += ["def poke(_):", "    a[3] = 2  # poke", "k = n = 1; b = a; z = torch.ones(4)"]
    for step in steps:
        around = chance.choice(AROUND)
        inside = step.replace("\n", "\n" + " " * (len(around.rpartition("\n")[2]) - len("{0}")))
        body += around.format(inside).splitlines()
    body += ["return y.sum()"]
    how = chance.choice(("step(x).backward()", "for _ in range(2): step(x).backward()"))
    text = HEAD + "def step(x):\n" + "".join(f"    {line}\n" for line in body) + how + "\n"
    mark = {"helper(a)": "# helper", "box[0] = 9": "# box"}.get(write, "# poke" if "poke" in write else None)
    wanted = mark or write.partition("\n")[0]
    (line,) = (n for n, found in enumerate(text.splitlines(), 1) if wanted in found)
    return text, line


def claimed(text: str, number: int) -> list[int]:
    """Lines that are blamed when it runs."""
    name = f"<silent lines {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"torch": torch, "np": np, "ctypes": ctypes, "__name__": "__main__"}
    scope["x"] = torch.linspace(0.1, 1.0, 4).requires_grad_()
    with warnings.catch_warnings(), Session(fingerprint=1.0, warn=False) as session:
        warnings.simplefilter("ignore")
        exec(compile(text, name, "exec"), scope)
    return [write.site.line for finding in session.findings for write in finding.writes]


def check(seed: int, programs: int) -> tuple[int, int]:
    """How many of them had a line blamed, and how many writes of one line could have had."""
    chance = random.Random(seed)
    named = 0
    for number in range(programs):
        text, line = program(chance)
        found = claimed(text, number)
        assert set(found) <= {line}, f"{found} instead of {line}:\n{text}"
        named += bool(found)
    return named, programs


def test_the_line_is_the_true_one():
    named, programs = check(0, 40)
    assert named > programs / 5


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1, 11))
def test_sweep(seed):
    """The same over thousands of programs."""
    check(seed, 300)
