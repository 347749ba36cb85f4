"""Memory that NumPy was given: what it changes there is found and guarded, and the line that gave it named.

No operation of torch's sees such a write, so that its own line is not known without ``--fingerprint``.
"""

import gc

import pytest
import torch

from silent._programs import Program, watched
from unclobber.observe.record import open_memory

WRONG = {
    "numpy": (
        "UC102",
        """
        w = leaf()
        y = w.exp()  # saved
        a = y.detach().numpy()  # given
        a *= 0  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
    "asarray": (
        "UC102",
        """
        import numpy as np
        w = leaf()
        y = w.exp()  # saved
        a = np.asarray(y.detach()[1:])  # given
        a[0] = 5  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
    "twice": (
        "UC102",
        """
        w = leaf()
        y = w.exp()  # saved
        first = y.detach().numpy()
        first[0] = 7  # write
        second = y.detach().numpy()  # given
        second[1] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
    "on ctx": (
        "UC103",
        """
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, w):
                ctx.result = w.exp()  # saved
                return ctx.result.clone()
            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.result
        w = leaf()
        y = Exp.apply(w)
        a = y.grad_fn.result.numpy()  # given
        a[0] = 9  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    ),
}
POINTERS = {
    "a pointer": ("y.data_ptr()", "ctypes.memset(given, 0, 8)"),
    "a C array": ("(ctypes.c_float * 4).from_address(y.data_ptr())", "given[0] = given[3] = 9"),
    "an array at a pointer, as numba's carray": (
        "np.frombuffer((ctypes.c_float * 4).from_address(y[1:].data_ptr() - 4), np.float32)",
        "np.negative(given, out=given)",
    ),
    "DLPack": ("np.from_dlpack(y.detach())", "ctypes.memset(given.ctypes.data + 4, 0, 4)"),
    "a part by DLPack": ("np.from_dlpack(y.detach()[2:])", "ctypes.memset(given.ctypes.data, 1, 4)"),
    "a DLPack capsule": (
        "Lent(torch.utils.dlpack.to_dlpack(y.detach()))",
        "ctypes.memset(np.from_dlpack(given).ctypes.data, 1, 16)",
    ),
}
"""What gives the memory away, and what writes there."""
WRONG |= {
    name: (
        "UC102",
        f"""
        import ctypes
        import numpy as np
        class Lent:
            def __init__(self, capsule):
                self.capsule = capsule
            def __dlpack__(self, **_):
                return self.capsule
            def __dlpack_device__(self):
                return 1, 0
        w = leaf()
        y = w.exp()  # saved
        given = {gives}  # given
        {writes}  # write
        y.sum().backward()  # needed
        gradient = w.grad
        """,
    )
    for name, (gives, writes) in POINTERS.items()
}
RIGHT = {
    "pointers and capsules that are only read": """
        import ctypes, numpy as np
        w = leaf()
        y = w.exp()
        assert (ctypes.c_float * 4).from_address(y.data_ptr())[3] == y[3]
        assert np.from_dlpack(y.detach()).sum() > 0
        y.sum().backward()
        gradient = w.grad
        """,
    "only read": """
        w = leaf()
        y = w.exp()
        assert y.detach().numpy().sum() > 0
        y.sum().backward()
        gradient = w.grad
        """,
    "put back": """
        w = leaf()
        y = w.exp()
        a = y.detach().numpy()
        a += 1
        a -= 1
        a[:] = w.detach().exp().numpy()
        y.sum().backward()
        gradient = w.grad
        """,
    "a copy": """
        w = leaf()
        y = w.exp()
        a = y.detach().clone().numpy()
        a *= 0
        y.sum().backward()
        gradient = w.grad
        """,
}


@pytest.mark.parametrize("name", WRONG)
def test_the_line_that_gave_the_memory_is_named(name):
    code, text = WRONG[name]
    program = Program.of(text)
    assert not torch.equal(program.run(), program.without_writes().run())
    (finding,) = watched(program).findings
    assert (finding.code, finding.writes) == (code, ())
    assert [finding.saved.site.line] == program.lines("saved")
    assert [finding.needed.site.line] == program.lines("needed")
    (given,) = program.lines("given")
    assert f"its memory was given to code outside of torch by line {given} of " in finding.notes[0]


@pytest.mark.parametrize("name", WRONG)
def test_guard_gives_the_right_gradient(name):
    program = Program.of(WRONG[name][1])
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())
    assert [finding.repaired for finding in told.findings] == [True]


@pytest.mark.parametrize(
    "call",
    [
        "checkpoint(lambda t: (t * c).exp(), w, use_reentrant=False)",
        "checkpoint(lambda t: (t * c).exp(), w, use_reentrant=True)",
    ],
)
def test_a_recomputation_names_the_line_that_gave_the_memory(call):
    """A checkpoint reads an array's memory again: no write was seen, so the note is all that is known."""
    program = Program.of(f"""
        from torch.utils.checkpoint import checkpoint
        w, c = leaf(), torch.ones(4)
        y = {call}
        a = c.numpy()  # given
        a[:] = 7  # write
        y.sum().backward()
        gradient = w.grad
    """)
    assert not torch.equal(program.run(), program.without_writes().run())
    (finding,) = watched(program).findings
    (given,) = program.lines("given")
    assert (finding.code, finding.writes) == ("UC105", ())
    assert f"its memory was given to code outside of torch by line {given} of " in finding.notes[0]


def test_a_notebooks_cell_is_named(monkeypatch):
    """The line that gave the memory is one of the cell, not of the file that IPython compiles it as."""
    monkeypatch.setattr("unclobber.model._cells.cell_name", lambda path: "In[3]")
    program = Program.of(WRONG["numpy"][1])
    (finding,) = watched(program).findings
    assert f"by line {program.lines('given')[0]} of In[3], and" in finding.notes[0]


@pytest.mark.parametrize("name", RIGHT)
def test_unchanged_memory_is_no_finding(name):
    assert watched(Program.of(RIGHT[name])).findings == ()


def test_a_write_that_torch_sees_is_told_as_ever():
    """The event that gave the memory away is no write, neither in the finding nor in the count."""
    program = Program.of("""
        w = leaf()
        y = w.exp()  # saved
        y.detach().numpy()
        y.data.mul_(0)  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """)
    (finding,) = watched(program).findings
    assert [write.site.line for write in finding.writes] == program.lines("write")


BEFORE = {
    "numpy": """
        w, c = leaf(), torch.ones(4)
        a = c.numpy()  # given
        y = w * c  # saved
        a[:] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """,
    "asarray": """
        import numpy as np
        w, c = leaf(), torch.ones(4)
        a = np.asarray(c)[1:][::2]  # given
        y = w[:3] * c[:3]  # saved
        a[:] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """,
    "saved twice": """
        w, c = leaf(), torch.ones(4)
        a = c.numpy()  # given
        y = w * c  # saved
        a[:] = 7  # write
        z = w * c
        (y.sum() + z.sum()).backward()  # needed
        gradient = w.grad
    """,
    "from_numpy": """
        import numpy as np
        w, a = leaf(), np.ones(4, dtype="f4")
        y = w * torch.from_numpy(a)  # saved
        a[:] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """,
    "from_dlpack": """
        import numpy as np
        w, a = leaf(), np.ones(4, dtype="f4")
        y = w * torch.from_dlpack(a)  # saved
        a[1:] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """,
    "a buffer that a simulator fills again": """
        import numpy as np
        w, total, seen = leaf(), 0, np.zeros(4, dtype="f4")
        for step in range(3):
            seen += step  # write
            total = total + (w * torch.from_numpy(seen)).sum()  # saved
        total.backward()  # needed
        gradient = w.grad
    """,
    "as_tensor, transposed": """
        import numpy as np
        w, a = leaf(4), np.ones((4, 4), dtype="f4")
        y = torch.as_tensor(a).T @ w  # saved
        a[0] = 7  # write
        y.sum().backward()  # needed
        gradient = w.grad
    """,
}


@pytest.mark.parametrize("name", BEFORE)
def test_memory_that_was_given_before_the_save(name):
    """The save carries a copy of its bytes for as long as code outside of torch can write there."""
    program = Program.of(BEFORE[name])
    (finding,) = watched(program).findings
    assert (finding.code, finding.writes) == ("UC102", ())
    assert [finding.saved.site.line] == program.lines("saved")
    assert [finding.needed.site.line] == program.lines("needed")
    if given := program.lines("given"):
        assert f"its memory was given to code outside of torch by line {given[0]} of " in finding.notes[0]
    else:
        assert "its memory belongs to code outside of torch" in finding.notes[0]
    right = {"saved twice": 8.0, "a buffer that a simulator fills again": 4.0}.get(name)
    truth = program.without_writes().run() if right is None else torch.full((len(program.run()),), right)
    assert torch.equal(watched(program, policy="guard").gradient, truth)


GONE = {
    "the array is gone": """
        w, c = leaf(), torch.ones(4)
        a = c.numpy()
        del a
        y = w * c
        y.sum().backward()
        gradient = w.grad
    """,
    "the array is read": """
        w, c = leaf(), torch.ones(4)
        a = c.numpy()
        y = w * c
        assert a.sum() == 4
        y.sum().backward()
        gradient = w.grad
    """,
}


@pytest.mark.parametrize("name", GONE)
def test_memory_that_nobody_writes(name):
    assert watched(Program.of(GONE[name])).findings == ()
    gc.collect()
    assert not open_memory._shown


def test_the_copy_of_what_was_handed_out_is_the_second_help():
    """The program may project a weight in NumPy, which a copy would end without a word."""
    (finding,) = watched(Program.of(WRONG["numpy"][1])).findings
    later, copy = (fix.title for fix in finding.fixes)
    assert later == "write after the backward that needs the old values"
    assert copy.startswith("or, only if the tensor is not meant to see the write, ")
