"""UC103: tensors inside of what a custom Function keeps on ctx, however deep."""

import pytest
import torch
from _programs import Program, assert_told, watched

KEPT = {
    "in a list in a list": ("[[s]]", "ctx.kept[0][0]"),
    "in a dict in a tuple": ('(1, {"s": [s]})', 'ctx.kept[1]["s"][0]'),
    "in a set": ("{s}", "ctx.kept"),
    "in a frozenset in a list": ("[frozenset([s])]", "ctx.kept[0]"),
    "in a deque": ("deque([0, s])", "ctx.kept[1]"),
    "in a named tuple": ("Pair(0, s)", "ctx.kept.second"),
    "in what torch.max returns": ("torch.return_types.max([s, s])", "ctx.kept[0]"),
    "in a defaultdict of lists": ("defaultdict(list, {3: [s]})", "ctx.kept[3][0]"),
    "behind a mapping proxy": ('MappingProxyType({"s": (s,)})', 'ctx.kept["s"][0]'),
    "in a UserDict": ("UserDict(s=s)", 'ctx.kept.data["s"]'),
    "in a dataclass": ("Record([s])", "ctx.kept.values[0]"),
    "in a frozen dataclass": ("Frozen(s)", "ctx.kept.value"),
    "in an object with slots": ("Slotted(s)", "ctx.kept.value"),
    "in an object that is in a cycle": ("Ring(s)", "ctx.kept.me[1]"),
    "twice": ("[(s,), (s, s)]", "ctx.kept[0][0]"),
}

CLASSES = """\
    from collections import UserDict, defaultdict, deque, namedtuple
    from dataclasses import dataclass
    from types import MappingProxyType

    Pair = namedtuple("Pair", "first second")
    def never(*args):
        raise AssertionError("code of the program's was run")
    @dataclass
    class Record:
        values: list
    @dataclass(frozen=True)
    class Frozen:
        value: object
    class Slotted:
        __slots__ = ("unset", "value")
        def __init__(self, value):
            self.value = value
        __getattr__ = __iter__ = __len__ = __hash__ = __eq__ = never
    class Ring:
        def __init__(self, value):
            self.me = [self, value]
        shown = property(never)
        __getattr__ = __iter__ = __len__ = __bool__ = never
    def same(one, other):
        return one is other
    def tensors(value):
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, Record):
            return tensors(value.values)
        if isinstance(value, (Frozen, Slotted)):
            return [value.value]
        if isinstance(value, Ring):
            return value.me[1:]
        if isinstance(value, (dict, UserDict, MappingProxyType)):
            return tensors(list(value.values()))
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            return [t for item in value for t in tensors(item)]
        return []
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.kept = KEPT  # saved
            contexts.append(ctx.kept)
            return x * s
        @staticmethod
        def backward(ctx, g):
            contexts.append(ctx.kept)
            return g * sum(tensors(ctx.kept)) / len(tensors(ctx.kept)), None
    contexts = []
"""

PROGRAM = """\
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.fill_(3)  # write
    y.sum().backward()  # needed
    assert all(t is s for t in tensors(contexts[0]))
    gradient = x.grad
"""


def program_with(kept):
    return Program.of(CLASSES.replace("KEPT", kept) + PROGRAM)


@pytest.mark.parametrize(("kept", "role"), KEPT.values(), ids=KEPT)
def test_a_changed_tensor_is_found_wherever_it_lies(kept, role):
    program = program_with(kept)
    told = watched(program)
    assert_told(program, told, "UC103")
    assert told.findings[0].saved.role == role
    assert told.warned == tuple(program.lines("write"))
    assert watched(program, strict=True).raised


@pytest.mark.parametrize("kept", [kept for kept, _ in KEPT.values()], ids=KEPT)
def test_guard_lends_it_as_it_was_and_takes_it_back(kept):
    program = program_with(kept)
    told = watched(program, policy="guard")
    assert torch.equal(told.gradient, program.without_writes().run())
    assert [finding.repaired for finding in told.findings] == [True]


def test_what_can_be_changed_keeps_its_identity_under_guard():
    """The list, dict or object on ctx is the very one that forward put there, also while backward runs."""
    told = watched(
        Program.of(
            CLASSES.replace("KEPT", 'Record([{"s": s}, (s,)])')
            + """\
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.fill_(3)
    y.sum().backward()
    forwards, backwards = contexts
    assert forwards is backwards
    assert forwards.values[0]["s"] is s and forwards.values[1][0] is s
    gradient = x.grad
"""
        ),
        policy="guard",
    )
    assert torch.equal(told.gradient, torch.ones(4))


def test_what_backward_puts_on_ctx_stays_there_under_guard():
    told = watched(
        Program.of("""\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.kept = kept
            kept.append(s)
            return x * s
        @staticmethod
        def backward(ctx, g):
            s, ctx.kept[0] = ctx.kept[0], None
            ctx.kept.append(g)
            return g * s, None
    kept = []
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.fill_(3)
    y.sum().backward()
    assert len(kept) == 2 and kept[0] is None
    gradient = x.grad
"""),
        policy="guard",
    )
    assert [finding.saved.role for finding in told.findings] == ["ctx.kept[0]"]
    assert torch.equal(told.gradient, torch.ones(4))


COUNTED = """\
    class State:
        pass
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, state):
            ctx.state, ctx.columns = state, [state.table[:, 1]]
            state.calls += 1
            state.table += 1
            return x * 2
        @staticmethod
        def backward(ctx, g):
            ctx.state.calls += 1
            ctx.columns[0][2:].mul_(3)
            torch.add(g, 1, out=ctx.state.scratch)
            ctx.state.noise.uniform_()
            return g * 2, None
    state = State()
    state.calls, state.table = torch.zeros(()), torch.ones(3, 2)
    state.scratch, state.noise = torch.zeros(4), torch.zeros(4)
    x = leaf()
    y = Scale.apply(x, state) + Scale.apply(x, state)
    state.scratch += 1
    state.noise += 1
    y.sum().backward()
    gradient = torch.cat([x.grad, state.calls[None], state.table.flatten(), state.scratch, state.noise])
"""


@pytest.mark.parametrize("policy", ["watch", "guard"])
def test_what_backward_counts_and_fills_is_counted_and_filled(policy):
    """Under guard, too, where it writes to a tensor that is lent: no write of the program's is lost."""
    program = Program.of(COUNTED)
    told = watched(program, policy=policy, strict=policy == "watch")
    assert told.findings == ()
    assert torch.equal(told.gradient, program.run())


FILLED_LATER = """\
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.kept = {}  # saved
            ctx.kept["s"] = s
            return x * s
        @staticmethod
        def backward(ctx, g):
            return g * ctx.kept["s"], None
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.fill_(3)  # write
    y.sum().backward()  # needed
    gradient = x.grad
"""


def test_a_dict_that_is_filled_after_it_was_put_on_ctx():
    program = Program.of(FILLED_LATER)
    assert_told(program, watched(program), "UC103")


def test_what_the_program_has_dropped_is_not_kept_alive():
    """A tensor that an object on ctx no longer holds lives no longer than it would."""
    told = watched(
        Program.of("""\
    import weakref
    class Owner:
        pass
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.owner = owner
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return g * 2
    owner = Owner()
    x = leaf()
    owner.last = x * 1
    last = weakref.ref(owner.last)
    y = Scale.apply(x)
    owner.last = None
    assert last() is None
    y.sum().backward()
    gradient = x.grad
""")
    )
    assert told.findings == ()


NOT_FOLLOWED = {
    "a module's parameter": "torch.nn.Linear(4, 1)",
    "too far away": "[0] * 2000 + [s]",
    "what a closure holds": "lambda: s",
}


@pytest.mark.parametrize("kept", NOT_FOLLOWED.values(), ids=NOT_FOLLOWED)
def test_what_is_not_followed_is_no_finding(kept):
    program = Program.of(
        CLASSES.replace("KEPT", kept).replace("sum(tensors(ctx.kept)) / len(tensors(ctx.kept))", "1")
        + """\
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.fill_(3)
    if isinstance(contexts[0], torch.nn.Linear):
        torch.nn.init.zeros_(contexts[0].weight)
    y.sum().backward()
    gradient = x.grad
"""
    )
    for policy in ("watch", "guard"):
        told = watched(program, policy=policy)
        assert told.findings == ()
        assert torch.equal(told.gradient, program.run())
