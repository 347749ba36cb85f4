"""A buffer that a loop fills, as a list and ``torch.stack``."""

from __future__ import annotations

import pytest
from rewriting import plain, rewritten

from unclobber.repair.fixers.list_stack import rewrites

HEADS = ("import torch\ndef f(self, x, n):\n", "import torch\n")


def listed(body: str) -> list[str]:
    """The new bodies of a function of `x` and `n`; the write is marked."""
    found = rewritten(rewrites, HEADS[0] + "".join(f"    {line}\n" for line in plain(body).splitlines()))
    return ["".join(f"{line[4:]}\n" for line in text.splitlines()[2:]) for text in found]


def test_states_that_the_loop_reads():
    """The senior's cure of an encoder with attention over its earlier states."""
    assert listed("""
        states = x.new_zeros(b, t + 1, self.d)
        for i in range(t):
            past = states[:, : i + 1]
            now = states[:, i]
            states[:, i + 1] = self.cell(past.sum(1), now)  # <-
        return states[:, 1:]
    """) == [
        plain("""
        states = [x.new_zeros(b, self.d)]
        for i in range(t):
            past = torch.stack(states, 1)
            now = states[-1]
            states.append(self.cell(past.sum(1), now))
        return torch.stack(states[1:], 1)
    """)
    ]


def test_first_elements_that_are_written_above_the_loop():
    assert listed("""
        out = torch.empty(n, 3)
        # the start
        out[0] = x[0]
        out[1] = x[1]
        for t in range(2, n):
            out[t] = cell(x[t], out[t - 1], out[t - 2], out[0])  # <-
        return out[-1]
    """) == [
        plain("""
        # the start
        out = [x[0], x[1]]
        for t in range(2, n):
            out.append(cell(x[t], out[-1], out[t - 2], out[0]))
        return out[-1]
    """)
    ]


@pytest.mark.parametrize(
    ("read", "new"),
    [
        ("h = out[i]", "h = out[-1]"),
        ("h = out[1 : i + 1]", "h = torch.stack(out[1:])"),
        ("h = out[:i]", "h = torch.stack(out[:i])"),
        ("h = out[: i + 1 : 2]", "h = torch.stack(out[: i + 1 : 2])"),
        ("h = out[i - 0, :]", "h = out[-1]"),
    ],
)
def test_reads_behind_the_write(read, new):
    """By then the newest element is the one of this turn."""
    text = "out = torch.zeros(n, 3)\nfor i, y in enumerate(x):\n    out[i] = g(y)  # <-\n    {}\nuse(h)\n"
    (found,) = listed(text.format(read))
    assert found == text.format(new).replace("torch.zeros(n, 3)", "[]").replace(
        "out[i] = g(y)  # <-", "out.append(g(y))"
    )


SHIFTED = "out = torch.zeros(n, 3)\nfor i in range(n - 1):\n    out[i + 1] = g(out[i])  # <-\n"


@pytest.mark.parametrize(
    ("start", "read"),
    [
        (0, "out[t - 1] if t else x"),
        (0, "out[t - 1] if t > 0 else x"),
        (0, "x if t == 0 else out[t - 1]"),
        (0, "x if not t else out[t - 1]"),
        (1, "out[t - 2] if t != 1 else x"),
        (1, "x if t < 2 else out[t - 2]"),
    ],
)
def test_a_test_leaves_out_the_first_turn(start, read):
    """The read has no element before it there, as the index -1 would have in a buffer."""
    loop = f"for t in range({start}, n):\n    out[t - {start}] = g({read})  # <-\n"
    (found,) = listed(f"out = torch.zeros(n, 3)\n{loop}use(out)\n")
    assert f"out.append(g({read.replace(f'out[t - {start + 1}]', 'out[-1]')}))" in found


@pytest.mark.parametrize(
    "read",
    [
        "x if t else out[t - 1]",
        "out[t - 1] if t >= 0 else x",
        "out[t - 2] if t else x",
        "out[t - 1] if n else x",
    ],
)
def test_a_test_that_leaves_out_no_first_turn(read):
    text = f"out = torch.zeros(n, 3)\nfor t in range(n):\n    out[t] = g({read})  # <-\nuse(out)\n"
    assert listed(text) == []


def test_a_write_in_each_branch_of_a_test():
    """What the other branch has written in this turn is no earlier state."""
    assert listed("""
        out = torch.zeros(b, n, 3)
        for t in range(n):
            if t == 0:
                out[:, t] = start(x)
            else:
                out[:, t] = cell(out[:, t - 1], x)  # <-
            use(out[:, t])
        return out
    """) == [
        plain("""
        out = []
        for t in range(n):
            if t == 0:
                out.append(start(x))
            else:
                out.append(cell(out[-1], x))
            use(out[-1])
        return torch.stack(out, 1)
    """)
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out[t] = f(x)", "out[t + 1] = f(x)"),
        ("out[t] = f(x)", "pass"),
        ("out[t] = f(x)", "out[t] = f(x)\n        out[t] = f(x)"),
        ("out[t - 1], x)", "out[t], x)"),  # zeros, not what the first branch writes
        ("else:", "elif x is None:"),
        ("    else:\n        out[t] = g(out[t - 1], x)  # <-\n", "    out[t] = g(out[t - 1], x)  # <-\n"),
    ],
)
def test_not_every_turn_has_one_write(old, new):
    text = (
        "out = torch.zeros(n, 3)\nfor t in range(n):\n    if t == 0:\n        out[t] = f(x)\n"
        "    else:\n        out[t] = g(out[t - 1], x)  # <-\nreturn out\n"
    )
    assert listed(text) != []
    assert old in text
    assert listed(text.replace(old, new)) == []


def test_several_reads_below_the_loop_get_one_stack():
    (found,) = listed(f"{SHIFTED}use(out)\nreturn out.sum()\n")
    assert found.endswith("out.append(g(out[-1]))\nout = torch.stack(out)\nuse(out)\nreturn out.sum()\n")


def test_at_module_level_the_name_is_a_tensor_again():
    """Its value at the end is compared."""
    (found,) = rewritten(rewrites, f"import torch\n{SHIFTED}use(out)\n")
    assert found.endswith("out = torch.stack(out)\nuse(out)\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out[i])", "out[i + 1])"),  # not yet written
        ("out[i])", "out[i - 1])"),  # the last one of the buffer, in the first turn
        ("out[i])", "out[-1])"),
        ("out[i])", "out)"),
        ("out[i])", "out[:, 0])"),
        ("out[i])", "out[i:])"),
        ("out[i])", "out[i].size(out.dim() - 2))"),
        ("range(n - 1)", "range(0, n - 1, 2)"),
        ("range(n - 1)", "range(k, n - 1)"),
        ("range(n - 1)", "reversed(range(n - 1))"),
        ("zeros(n, 3)", "empty(n, 3)"),  # what is read first was never written
        ("zeros(n, 3)", "zeros(*shape)"),
        ("zeros(n, 3)", "zeros(n)"),
        ("zeros(n, 3)", "randn(n, 3)"),
        ("zeros(n, 3)", "zeros((n, 3))"),
        ("for i", "view = out[:]\nfor i"),  # it would see the writes
        ("for i", "out[2] = x\nfor i"),
        ("for i", "out += 1\nfor i"),
        ("    out[i + 1]", "    if x is None:\n        continue\n    out[i + 1]"),
        ("    out[i + 1]", "    if x is None:\n        break\n    out[i + 1]"),
        ("    out[i + 1]", "    out[i] += 1\n    out[i + 1]"),
        ("    out[i + 1]", "    keep(lambda: out[i])\n    out[i + 1]"),
        ("out[i + 1]", "out[perm[i]]"),
        ("out[i + 1]", "out[i + 1, 0]"),
        ("out[i + 1]", "self.out[i + 1]"),
    ],
)
def test_not_every_read_has_a_form(old, new):
    """So nothing is offered."""
    assert old in SHIFTED
    assert listed(SHIFTED.replace(old, new, 1)) == []


@pytest.mark.parametrize("write", ["out[0] = 1", "out += 1", "out[0].zero_()"])
def test_a_write_below_the_loop(write):
    """A view that the loop took of the buffer would see it."""
    assert listed(f"{SHIFTED}{write}\nreturn out\n") == []


def test_a_function_that_reads_it_later():
    assert listed(f"def g():\n    return out\n{SHIFTED}return out\n") == []
