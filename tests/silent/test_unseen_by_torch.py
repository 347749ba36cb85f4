"""The table of writes that torch's version counter misses: torch is silent and wrong, we are neither."""

import pytest
import torch
from _programs import Program, assert_told, corpus, places, watched

WRONG, HARMLESS = corpus("past the version counter")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_torch_is_silent_and_wrong(body):
    """The row belongs in the table: no error, another gradient."""
    program = Program.whole(body)
    wrong, right = program.run(), program.without_writes().run()
    assert not torch.equal(wrong, right)


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_found_without_any_flag(body):
    program = Program.whole(body)
    told = watched(program)
    assert_told(program, told, "UC102")
    assert len(told.warned) == 1
    assert told.warned[0] in program.lines("write")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_fingerprints_say_nothing_more(body):
    """A write that was seen is told once, with its line."""
    program = Program.whole(body)
    assert_told(program, watched(program, fingerprint=1.0), "UC102")


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_strict_raises(body):
    """A write that torch does not see raises under `strict`, and does not warn as well."""
    told = watched(Program.whole(body), strict=True)
    assert told.raised
    assert not told.warned


REPLACED = ("UC102/data_other", "UC102/data_other_then_a_write_to_what_it_was")
"""Guard refuses these: the memory that was saved is nobody's any more."""


@pytest.mark.parametrize("name", sorted({*WRONG} - {*REPLACED}))
def test_guard_gives_the_right_gradient(name):
    program = Program.whole(WRONG[name])
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())


@pytest.mark.parametrize("fingerprint", [0.0, 1.0])
@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_harmless_writes_are_no_findings(body, fingerprint):
    program = Program.whole(body)
    told = watched(program, strict=True, fingerprint=fingerprint)
    assert told.findings == ()
    assert not told.raised
    assert torch.equal(told.gradient, program.run())


COLLECTIVES = {
    "scatter": "dist.scatter(b, [torch.full((4,), 3.0)], src=0)",
    "all_gather": "dist.all_gather([b], torch.full((4,), 3.0))",
}


@pytest.mark.parametrize(("name", "code"), [("scatter", "UC102"), ("all_gather", "UC101")])
def test_a_collective_that_overwrites_is_named(name, code):
    """Scatter moves no counter; all_gather does, and its copy runs in a thread without any Python."""
    program = Program.of(f"""\
        import torch.distributed as dist
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        try:
            x = leaf()
            b = torch.ones(4)
            y = x * b  # saved
            {COLLECTIVES[name]}  # write
            y.sum().backward()  # needed
            gradient = x.grad
        finally:
            dist.destroy_process_group()
    """)
    assert_told(program, watched(program), code)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_write_in_compiled_code_is_found(backend):
    program = Program.of(f"""\
        @torch.compile(backend="{backend}")
        def triple(t):
            t.mul_(3)
        x = leaf()
        b = torch.ones(4)
        y = x * b  # saved
        triple(b.data)
        y.sum().backward()  # needed
        gradient = x.grad
    """)
    told = watched(program)
    assert [finding.code for finding in told.findings] == ["UC102"]
    saved, _, needed = places(told.findings[0])
    assert [saved] == program.lines("saved")
    assert [needed] == program.lines("needed")
