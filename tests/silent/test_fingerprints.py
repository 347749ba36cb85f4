"""``fingerprint``: writes that no dispatch sees, and the stretch of lines that they lie in."""

import gc
import os
import re
import weakref

import pytest
import torch
from _programs import Program, assert_told, watched

import unclobber
from unclobber.report._text import to_text

UNDISPATCHED = {
    "NumPy": """\
        x = leaf()
        y = x.exp()  # saved
        y.detach().numpy()[0] = 5  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "a NumPy alias, later": """\
        x = leaf()
        y = x.exp()  # saved
        a = y.detach().numpy()
        z = torch.ones(3) * 2
        a[1:3] = 0  # write
        z = z + 1
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "a shuffle, which keeps all elements": """\
        x = leaf()
        y = x.exp()  # saved
        a = y.detach().numpy()
        a[:] = a[::-1].copy()  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "the array that from_numpy was given": """\
        import numpy as np
        x = leaf()
        a = np.ones(4, dtype=np.float32)
        b = torch.from_numpy(a)
        y = x * b  # saved
        a *= 2  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "DLPack": """\
        import numpy as np
        x = leaf()
        y = x.exp()  # saved
        a = np.asarray(torch.from_dlpack(y.detach()))
        a[2] = 0  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
    "a raw pointer": """\
        import ctypes
        x = leaf()
        y = x.exp()  # saved
        p = y.data_ptr()
        ctypes.memset(p, 0, 8)  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """,
}


@pytest.mark.parametrize("name", UNDISPATCHED)
def test_torch_is_silent_and_wrong(name):
    """So are we without the flag where the storage is asked for its address; else we don't know the write's
    line (test_handed_out.py)."""
    program = Program.of(UNDISPATCHED[name])
    assert not torch.equal(program.run(), program.without_writes().run())
    assert [finding.writes for finding in watched(program).findings] == [()]
    of_storage = UNDISPATCHED[name].replace("y.data_ptr()", "y.untyped_storage().data_ptr()")
    if of_storage != UNDISPATCHED[name]:
        assert watched(Program.of(of_storage)).findings == ()


@pytest.mark.parametrize("name", UNDISPATCHED)
def test_found_with_fingerprints(name):
    """The line of the write, where it alone ran between two looks; it is probable where another call did."""
    program = Program.of(UNDISPATCHED[name])
    told = watched(program, fingerprint=1.0)
    alone = name != "DLPack"
    assert_told(program, told, "UC102", writes=alone)
    assert told.warned == tuple(program.lines("write" if alone else "saved"))
    (write,) = program.lines("write")
    note = told.findings[0].notes[0]
    if alone:
        assert f"its content changed while line {write} of" in note
        return
    assert f"probably line {write}" in note
    first, last = map(int, re.findall(r"line (\d+) of", note))
    assert program.lines("saved")[0] <= first <= write < last <= program.lines("needed")[0]


def test_what_is_said_of_the_write():
    """The innermost expression, what it calls, and that no counter moved."""
    (finding,) = watched(Program.of(UNDISPATCHED["a raw pointer"]), fingerprint=1.0).findings
    (write,) = finding.writes
    assert (write.site.source, write.operation) == ("ctypes.memset(p, 0, 8)", "memset")
    assert (write.bumps_version, write.overlaps_needed) == (False, True)
    (finding,) = watched(Program.of(UNDISPATCHED["a NumPy alias, later"]), fingerprint=1.0).findings
    assert (finding.writes[0].site.source, finding.writes[0].operation) == ("a[1:3]", "no operation of torch")


UNCERTAIN = {
    "two statements": "a[0] = 1\n    a[1] = 1",
    "code of the program's own": "write(a)",
    "handed to a library": "list(map(write, [a]))",
    "its own kind of object": "box[0] = 4",
    "in a thread's company": "t = Thread(target=Event().wait, args=(2,)); t.start(); a[0] = 5; n = t.join()",
}


@pytest.mark.parametrize("write", UNCERTAIN.values(), ids=UNCERTAIN)
def test_no_line_where_it_may_have_been_another(write):
    """In a function whose frame is gone when backward runs."""
    program = Program.of("""\
        from threading import Event, Thread
        def write(array): array[1] = 7
        class Box:
            def __init__(self, array): self.array = array
            def __setitem__(self, key, value): self.array[key] = value
        def step(x):
            y = x.exp()
            a = y.detach().numpy()
            box = Box(a)
            z = torch.ones(2)
            {}
            return y.sum()
        x = leaf()
        step(x).backward()
        gradient = x.grad
    """.format(write.replace("\n    ", "\n            ")))  # fmt: skip
    (finding,) = watched(program, fingerprint=1.0).findings
    assert finding.writes == ()
    assert "its content changed" in finding.notes[0]


def test_a_statement_in_a_function_that_has_returned():
    """It is told when it is seen, so that the function may be gone when backward runs."""
    program = Program.of("""\
        def step(x):
            y = x.exp()  # saved
            a = y.detach().numpy()
            z = torch.ones(2)
            for i in range(2):
                z = z + 1
                a[i] = 0  # write
                z = z * 2
            return y.sum()
        x = leaf()
        step(x).backward()  # needed
        gradient = x.grad
    """)
    assert_told(program, watched(program, fingerprint=1.0), "UC102")


def test_strict_raises_and_guard_refuses():
    """What was there is not known, so guard has nothing to hand out."""
    program = Program.of(UNDISPATCHED["NumPy"])
    assert watched(program, fingerprint=1.0, strict=True).raised
    assert watched(program, fingerprint=1.0, policy="guard").raised


def test_an_operation_that_hides_its_write_is_named():
    """In a run whose inputs aren't compared (the third) the kernel's own line isn't known; its call is."""
    program = Program.of("""\
        library = torch.library.Library("unclobber_hidden", "DEF")
        library.define("double(Tensor x) -> Tensor")
        def double(x):
            a = x.numpy()
            a *= 2
            return x.clone()
        library.impl("double", double, "CPU")
        for _ in range(2):
            torch.ops.unclobber_hidden.double(torch.ones(2))
        x = leaf()
        y = x.exp()  # saved
        total = y.sum()
        torch.ops.unclobber_hidden.double(y.detach())
        total.backward()  # needed
        gradient = x.grad
        library._destroy()
    """)
    told = watched(program, fingerprint=1.0)
    assert_told(program, told, "UC102", writes=False)
    assert "while `torch.ops.unclobber_hidden.double(y.detach())` ran" in told.findings[0].notes[0]


def test_a_stretch_of_one_line():
    """Between two calls of torch on it: the line is named once."""
    program = Program.of("""\
        x = leaf()
        y = x.exp()  # saved
        a = y.detach().numpy()
        torch.ones(1), a.fill(5), torch.ones(1)
        y.sum().backward()  # needed
        gradient = x.grad
    """)
    (finding,) = watched(program, fingerprint=1.0).findings
    assert re.match(r"its content changed while line \d+ of .+ ran; no write was seen$", finding.notes[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch.ones(1), a.fill(5), torch.ones(1)", "while line 5 of"),
        ("for i in range(2): torch.ones(1), a.fill(i)", "between two calls of torch at line 5 of"),
        ("for i in range(2): a.fill(i), torch.ones(1)", "probably line 5"),
    ],
)
def test_a_line_of_a_module(text, words, tmp_path):
    """It runs once, unless it is in a loop: then what came between two passes may have done it."""
    path = tmp_path / "program.py"
    path.write_text(
        "import torch\nx = torch.ones(3, requires_grad=True)\ny = x.exp()\n"
        f"a = y.detach().numpy()\n{text}\ny.sum().backward()\n"
    )
    os.utime(path, (1, 1))  # older than this process: its text is what runs
    with pytest.warns(unclobber.SilentWriteWarning), unclobber.watch(fingerprint=1.0) as session:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "program"})
    assert words in session.findings[0].notes[0]


def test_a_loop_gives_a_stretch_without_a_guess():
    """Two statements may have done it: neither is called probable."""
    program = Program.of("""\
        x = leaf()
        y = x.exp()  # saved
        a = y.detach().numpy()
        b = a[:2]
        b[0] = 1
        b[1] = 1
        y.sum().backward()  # needed
        gradient = x.grad
    """)
    (finding,) = watched(program, fingerprint=1.0).findings
    assert "its content changed between" in finding.notes[0]
    # the line that handed the memory out is the only one that mentions it
    assert "`b[" not in finding.notes[0]


HARMLESS = {
    "written back": "a[0] = a[0]",
    "a copy": "a.copy()[0] = 5",
    "put right before it is needed": "old = a[0]; a[0] = 5; a[0] = old",
}


@pytest.mark.parametrize("write", HARMLESS.values(), ids=HARMLESS)
def test_what_is_the_same_at_need_is_no_finding(write):
    program = Program.of(f"""\
        x = leaf()
        y = x.exp()
        a = y.detach().numpy()
        {write}
        y.sum().backward()
        gradient = x.grad
    """)
    assert watched(program, fingerprint=1.0, strict=True).findings == ()


UNREAD = {
    "memory that an LSTM's kernel writes to itself": """\
        lstm = torch.nn.LSTM(4, 3)
        x = leaf(8)
        l = lstm(x.view(2, 4))[0].sum()
        l.backward(retain_graph=True)
        l.backward()
        gradient = x.grad
    """,
    "an input that is kept for its shape": """\
        x = leaf()
        y = x * 1
        z = y.masked_select(x > 0)
        y.detach().numpy()[...] = 0.25
        z.sum().backward()
        gradient = x.grad
    """,
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_change_that_backward_does_not_read_is_no_finding(name):
    assert watched(Program.of(UNREAD[name]), fingerprint=1.0, strict=True).findings == ()


def test_what_is_read_though_its_name_is_hidden():
    """Under a user's hooks the input of batch norm can't be told from its running statistics by name."""
    program = Program.of("""\
        norm = torch.nn.BatchNorm1d(2)
        x = leaf(6)
        y = x.view(3, 2) * 1
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            z = norm(y)  # saved
        y.detach().numpy()[0, 0] = 5  # write
        (z * z * z).sum().backward()  # needed
        gradient = x.grad
    """)
    (finding,) = watched(program, fingerprint=1.0).findings
    assert finding.code == "UC102"


def test_a_seen_write_is_no_change_of_its_own():
    """torch's own writes are told as UC101, once, with their line."""
    program = Program.of("""\
        x = leaf()
        y = x.exp()  # saved
        y += 1  # write
        y.sum().backward()  # needed
        gradient = x.grad
    """)
    assert_told(program, watched(program, fingerprint=1.0), "UC101")


PAST_TORCH_FIRST = {
    "what torch refuses": ("s = (y * y).sum()", "y[0] = y[0]"),
    "what was detached": ("s = (y * y).sum()", "y.detach_()"),
    "another that backward needs": ("z = y * 1; s = (y ** 2).sum() + (z ** 2).sum()", "z[0] = z[0]"),
}


@pytest.mark.parametrize(("saved", "written"), PAST_TORCH_FIRST.values(), ids=PAST_TORCH_FIRST)
def test_what_changed_past_torch_is_not_called_harmless(saved, written):
    """What torch counts changes nothing, but a pointer had: a hash shows it, else it stays open."""
    body = f"""\
        import ctypes
        x = leaf()
        y = x * 2
        {saved}
        ctypes.memset(y.untyped_storage().data_ptr() + 4, 0, 4)
        with torch.no_grad(): {written}
        s.backward()
        gradient = x.grad
    """
    (finding,) = watched(Program.of(body), fingerprint=1.0).findings
    assert (finding.code, finding.harmless) == ("UC101", False)
    (unknown,) = watched(Program.of(body)).findings
    assert unknown.harmless
    text = to_text(unknown)
    assert "no write that was seen changed an element" in text
    assert "right" not in text


def test_where_it_changed_past_torch_is_told_beside_the_write():
    """The line that torch counts is not the one that did it, and guard has no value to give."""
    body = """\
        x = leaf()
        y = x * 2
        s = (y * y).sum()
        y.detach().numpy()[1] = 5
        y[0] = y[0]
        s.backward()
    """
    (finding,) = watched(Program.of(body), fingerprint=1.0).findings
    assert "probably line 8, `y.detach().numpy()[1] = 5`" in finding.notes[0]
    assert not any("guard()" in fix.title for fix in finding.fixes)
    unwritten = Program.of(body.replace("y.detach().numpy()[1] = 5", "y.detach().numpy()"))
    assert watched(unwritten, fingerprint=1.0).findings[0].harmless


LOOP = """\
    for _ in range(3):
        x = leaf()
        y = x.exp()
        y.detach().numpy()[0] = 5
        y.sum().backward()
    gradient = x.grad
"""


def test_a_loop_is_one_finding():
    """A write that each turn of a loop makes again is told once."""
    assert len(watched(Program.of(LOOP), fingerprint=1.0).findings) == 1


def test_what_has_no_fingerprint_is_found_as_without():
    """A share of fingerprints takes nothing from what is seen without them, nor what ``ctx`` keeps."""
    assert len(watched(Program.of(LOOP), fingerprint=1e-9).findings) == 1
    body = """\
        class Keeps(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.parts = [x]
                return x * x
            @staticmethod
            def backward(ctx, grad):
                return 2 * grad * ctx.parts[0]
        x = leaf()
        y = Keeps.apply(x)
        x.detach().numpy()[0] = 5
        y.sum().backward()
        gradient = x.grad
    """
    assert [finding.code for finding in watched(Program.of(body), fingerprint=1.0).findings] == ["UC103"]


def test_sampling_is_deterministic_and_proportional():
    """A rate chooses the same saves in every run, about as many as it says."""
    body = """\
        x = leaf(1)
        total = 0
        for n in range(400):
            y = x.exp()
            total = total + y
            y.detach().numpy()[0] = n
        gradient, = torch.autograd.grad(total, x)
    """
    from unclobber.session import Session

    def found(rate: float) -> list[int]:
        chosen = []
        with Session(fingerprint=rate, warn=False) as session:
            session.content_changed = lambda saved: chosen.append(saved.fingerprint.good.stack[1])
            Program.of(body).run()
        return chosen

    first, second = found(0.25), found(0.25)
    assert len(first) == len(second)
    assert 60 < len(first) < 140
    assert len(found(1.0)) == 400


def test_nothing_is_kept_alive():
    """Fingerprints die with the graph."""
    from unclobber.session import Session

    with Session(fingerprint=1.0, warn=False) as session:
        x = torch.ones(4, requires_grad=True)
        for _ in range(50):
            x.exp().sum().backward()
        fingerprints = session.ledger.fingerprints
        torch.zeros(1) + 1
        assert not any(ref() for refs in fingerprints._by_key.values() for ref in refs)


def test_a_result_is_freed():
    """The pack hook is called by one that hashes, and tells a result from a tensor that Python code has."""
    with unclobber.watch(fingerprint=1.0):
        a = torch.ones(3, requires_grad=True) * 2
        view = a[:]
        a.add_(1)
        result = view.relu()
    alive = weakref.ref(result)
    del result
    gc.collect()
    assert alive() is None


def test_a_tensor_of_a_transform():
    """A copy of it is a wrapper, which has no memory to look at."""
    x = torch.rand(3)
    with unclobber.watch(fingerprint=1.0):
        assert torch.equal(torch.func.grad(lambda v: v.exp().sum())(x), x.exp())


@pytest.mark.parametrize("share", [2, -0.5, "deep", float("nan")])
def test_what_is_no_share_is_refused_at_once(share):
    with pytest.raises(ValueError, match="from 0 to 1"):
        unclobber.watch(fingerprint=share)
