"""The compiled hooks write down what those in Python do. Where no native core is built, these are skipped."""

import gc
import sys
import threading
import weakref
from collections import deque
from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import unclobber
from unclobber.model import PACKAGE
from unclobber.observe.hooks import gradients, saves
from unclobber.observe.hooks.backward import marker
from unclobber.observe.native import core, place, selftest
from unclobber.observe.record import SavedTensor, running
from unclobber.session import Session
from unclobber.source import frames, sites
from unclobber.torch_internals import compat

FILE = place.compiled()
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="no native core: unclobber build-native")


@pytest.fixture(scope="module")
def native():
    return core.load(FILE)


class Ledger:
    def __init__(self):
        self.pending, self.pending_limit, self.pruned = deque(), 1000, 0

    def prune(self):
        self.pruned += 1
        self.pending_limit *= 2


class Both:
    """One pair of hooks that packs each tensor twice, and keeps what both made."""

    def __init__(self, native):
        self.ledgers = Ledger(), Ledger()
        see = lambda: None  # noqa: E731
        self.ours = saves._make_pack(self.ledgers[0], see)
        self.theirs = native.Pack(self.ledgers[1], False)
        self.pairs = []

    def run(self, program):
        """What each core saves of a program, which is run twice."""
        for pack in (self.ours, self.theirs):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.alias):
                self.kept = program()
        return [[reference() for reference in ledger.pending] for ledger in self.ledgers]


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        y = x * s
        ctx.save_for_backward(x, s, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, s, _ = ctx.saved_tensors
        return g * s, (g * x).sum()


class Named(torch.Tensor):
    """A class of the program's own."""


X = torch.linspace(0.1, 1, 6).reshape(2, 3).requires_grad_()
C = torch.complex(torch.ones(2), torch.ones(2)).requires_grad_()


def several_operations():
    y = X.exp() * X.sigmoid()
    return [y.tanh() for _ in range(3)]


def views():
    return X.t() @ X[:, 1:], X.expand(4, 2, 3) * 2.5 * X, X.data * X


def written_to():
    y = X * 1
    y.add_(1)
    return y.exp() * y


def lazy():
    return C.conj() * C, C.resolve_conj().imag.exp()


def numbers():
    return (
        X.double() * 2.0,
        torch.nn.functional.embedding(torch.tensor([0, 1]), X),
        X.float()[torch.tensor([1])],
    )


def functions():
    return Scale.apply(X, X.sum()), Scale.apply(X * 2, X.sum())


def checkpointed():
    return torch.utils.checkpoint.checkpoint(lambda v: v.exp().sin(), X, use_reentrant=False)


def of_a_class():
    return (X.as_subclass(Named) * X).exp()


def sparse():
    return torch.sparse.mm(torch.eye(2).to_sparse(), X)


def in_a_class_of_torch():
    return torch.nn.LayerNorm(3)(X), torch.nn.functional.cross_entropy(X, torch.tensor([0, 2]))


def deeply(depth=60):
    return deeply(depth - 1) if depth else X.exp() * X


def scalars():
    return X.sum() * X, X.sum().exp()


PROGRAMS = [
    several_operations, views, written_to, lazy, numbers, functions, checkpointed, of_a_class, sparse,
    in_a_class_of_torch, deeply, scalars,
]  # fmt: skip


def facts(saved):
    """What a save says, but for what is an object of its own run."""
    alias, origin = saved.alias, saved.origin()
    base = None if saved.base is None else saved.base()
    return {
        "class": (type(saved), type(alias)),
        "alias": (alias.shape, alias.dtype, alias.layout, alias.requires_grad, alias.is_conj()),
        "strides": alias.stride() if alias.layout is torch.strided else None,
        "memory": compat.tensors.storage_key_or_none(alias)
        == compat.tensors.storage_key_or_none(saved_origin(saved)),
        "values": alias.detach().to_dense().resolve_conj().tolist(),
        "counted": (saved.version, alias._version, saved.requires_grad, saved.entry),
        "origin": (type(origin), origin is X, origin is C),
        "base": (type(base), base is X, saved.base is None),
        "frames": [code for code in saved.stack[::2] if code.co_name != "run"],
    }


def saved_origin(saved):
    origin = saved.origin()
    return saved.alias if origin is None else origin


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_facts(native, program):
    """Of each saved tensor, in the same order; and the same saves have a stack in common."""
    ours, theirs = Both(native).run(program)
    assert len(ours) == len(theirs) > 0
    # the programs' results are alive for the second alone, so what has died is not compared
    for one, other in zip(ours, theirs, strict=True):
        if one is not None and other is not None:
            left, right = facts(one), facts(other)
            if saved_origin(one) is one.alias:
                left["origin"] = right["origin"]
            assert left == right
    assert any(one is not None for one in theirs)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_stack_for_one_operation(native, program):
    """Both hooks are asked of one and the same save."""
    one, other = Ledger(), Ledger()
    theirs = native.Pack(other, False)
    ours = saves._make_pack(one, lambda: None)
    pairs = []

    def pack(tensor):
        first = ours(tensor)
        after = running.newest.save
        second = theirs(tensor)
        pairs.append((first, second, after, native.newest()))
        return first

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.alias):
        program()
    assert pairs
    for first, second, after, then in pairs:
        # the innermost frame is the hook above, at another instruction
        assert first.stack[2:] == second.stack[2:]
        assert first.stack[0] is second.stack[0]
        assert first.origin() is second.origin()
        assert (first.base and first.base()) is (second.base and second.base())
        assert (first.version, first.requires_grad) == (second.version, second.requires_grad)
        assert after[0] == then[0]


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_under_a_mode(native):
    """Both cores note the saves of operations that a dispatch mode passes on."""

    def program():
        with Passing():
            return X.exp() * X

    ours, theirs = Both(native).run(program)
    assert [facts(one)["values"] for one in theirs if one] == [facts(one)["values"] for one in theirs if one]
    assert len(ours) == len(theirs) == 3


def test_the_queue_is_pruned(native):
    ledger = Ledger()
    ledger.pending_limit = 3
    pack = native.Pack(ledger, False)
    kept = [pack(X) for _ in range(4)]
    assert (len(kept), ledger.pruned, len(ledger.pending)) == (4, 1, 4)


def test_what_a_hook_raises(native):
    """Errors of Python's pass through, and wrong arguments are refused."""

    class Refusing(Ledger):
        def prune(self):
            raise ZeroDivisionError

    ledger = Refusing()
    ledger.pending_limit = 0
    pack = native.Pack(ledger, False)
    with (
        pytest.raises(ZeroDivisionError),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved),
    ):
        X.exp()
    for wrong in (None, 3, [X]):
        with pytest.raises(TypeError):
            pack(wrong)
    with pytest.raises(TypeError):
        pack(X, X)
    with pytest.raises(TypeError):
        native.Pack()
    for wrong in (int, 3):
        with pytest.raises((TypeError, AttributeError)):
            native.setup(wrong, sites.is_library)
    for refused, given in ((native.enter, (wrong, False)), (native.leave, (wrong,)), (native.newest, (1,))):
        with pytest.raises(TypeError):
            refused(*given)

    def need(saved):
        raise KeyError(saved)

    unpack = native.Unpack(need, marker, compat.graph.current_node, lambda *note: None)
    with pytest.raises(TypeError):
        unpack(X)
    with pytest.raises(AttributeError):
        unpack(SavedTensor.__new__(SavedTensor))
    moved = native.Pack(Ledger(), False)(X * 1)
    moved.alias.add_(1)
    with pytest.raises(KeyError):
        unpack(moved)


def test_nothing_is_leaked(native):
    """Neither hooks nor records, also where they hold each other."""

    def round_about():
        ledger = Ledger()
        pack = native.Pack(ledger, False)
        unpack = native.Unpack(
            lambda saved: saved.alias, marker, compat.graph.current_node, lambda *note: None
        )
        ledger.pack, pack.itself, unpack.itself = pack, pack, unpack
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = (X.exp() * X).sum()
        y.backward()
        return [weakref.ref(one) for one in (ledger, pack, unpack)]

    known = [reference for _ in range(20) for reference in round_about()]
    gc.collect()
    assert [reference() for reference in known] == [None] * len(known)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        round_about()
    gc.collect()
    assert len(gc.get_objects()) - before < 20


def test_threads(native):
    """Sixteen threads pack by one hook at once, as the engine's threads may."""
    ledger = Ledger()
    pack = native.Pack(ledger, False)
    kept = []

    def run():
        for _ in range(200):
            saved = pack(X)
            kept.append(saved)
            assert saved.stack[0] is run.__code__

    threads = [threading.Thread(target=run) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == len(ledger.pending) == 3200


def test_the_self_test_can_fail(native):
    assert selftest.why_it_fails(native) is None

    class Wrong:
        Unpack, newest = native.Unpack, native.newest

        @staticmethod
        def Pack(ledger, *args):  # noqa: N802
            pack = native.Pack(ledger, *args)

            def late(tensor):
                saved = pack(tensor)
                saved.version += 1
                return saved

            return late

    assert selftest.why_it_fails(Wrong) is not None


def test_sessions_use_it(native, monkeypatch):
    """Both hooks of every thread; the verdicts are the same."""
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(native, ""))

    def overwrite():
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        y.add_(1)
        y.sum().backward()
        return w.grad.tolist()

    with unclobber.guard() as guarded:
        assert type(saves.innermost().pack) is native.Pack
        if compat.behaviour.shows_packed:  # else it is wrapped
            assert type(saves.innermost().unpack) is native.Unpack
        right = overwrite()
        thread = threading.Thread(target=overwrite)
        thread.start()
        thread.join()
    assert right == pytest.approx([2.718281828] * 3)
    assert [finding.code for finding in guarded.conflicts] == ["UC101"]
    with unclobber.watch(), pytest.raises(unclobber.InplaceError) as caught:
        overwrite()
    first = overwrite.__code__.co_firstlineno
    story = caught.value.finding
    assert [site.line - first for site in (story.saved.site, story.writes[0].site)] == [2, 3]


def called_from(file, depth, then):
    """What ``then`` returns, called through so many frames of a file's code."""
    for _ in range(depth):
        namespace = {"then": then}
        exec(compile("def through():\n    return then()", file, "exec"), namespace)
        then = namespace["through"]
    return then()


LIBRARY, OURS = torch.__file__, frames._OURS + "observe/hooks/kernels.py"


@pytest.mark.parametrize(
    "through",
    [
        [],
        [(OURS, 1)],
        [(OURS, 70)],
        [("program.py", 40)],
        [(LIBRARY, 40)],
        [(LIBRARY, 240)],
        [(LIBRARY, 40), (OURS, 3)],
        [("program.py", 3), (LIBRARY, 50), (OURS, 5)],
    ],
    ids=str,
)
def test_the_stack_of_the_program(native, monkeypatch, through):
    """Ours at the end are left out, and a library's are gone through down to the program."""
    monkeypatch.setattr(frames.Elsewhere, "of_program", None)
    found = []
    for walk in (frames.of_program, native.of_program):
        call = walk
        for file, depth in reversed(through):
            call = partial(called_from, file, depth, call)
        found.append([code.co_filename for code in call()[::2]])
    python, compiled = found
    assert python
    assert compiled == python


def counters():
    """The version counters after each building block, and what is in the memory then."""
    torch.manual_seed(0)
    x, z = torch.ones(2, 2), torch.ones(2, dtype=torch.complex64)
    found = []
    for write in (
        lambda: x.copy_(torch.zeros(2)), lambda: x.copy_(torch.zeros(2, 2).T, non_blocking=True),
        lambda: x.fill_(2), lambda: x.fill_(torch.tensor(3)), lambda: x.zero_(), lambda: x.uniform_(1, 2),
        lambda: x.normal_(), lambda: x.bernoulli_(0.5), lambda: x.bernoulli_(x), lambda: x[0].fill_(7),
        lambda: x.data.zero_(), lambda: torch._foreach_copy_([x], [x + 1]), lambda: z.conj().fill_(1j),
        lambda: z.imag.copy_(torch.ones(2)), lambda: x.t_().zero_(), lambda: x.resize_(3),
        lambda: x.resize_(3),
    ):  # fmt: skip
        write()
        found.append((x._version, z._version, x.tolist() if x.numel() == 4 else x.shape, z.tolist()))
    with pytest.raises(RuntimeError):
        x.copy_(torch.ones(7))
    with torch.inference_mode():
        inside = torch.ones(2)
        inside.fill_(2)
    with pytest.raises(RuntimeError, match="inference"):
        inside.fill_(1)
    return [*found, x._version]


def test_building_blocks_count_as_torch_does(native, monkeypatch):
    """Also of lazily conjugate memory, of what fails, and once nobody listens."""
    plain = counters()
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(native, ""))
    with unclobber.guard():
        held = torch.ones(2, requires_grad=True).exp()  # so that somebody wants to know
        assert counters() == plain
        assert held.requires_grad
    assert counters() == counters() == plain


HOOKED = """
layer = torch.nn.Linear(2, 2)
layer.register_full_backward_hook(lambda module, given, returned: None)
layer(torch.ones(1, 2, requires_grad=True) * 1).sum().backward()
"""
SUMMED = """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, gradient): return gradient * 2
Doubled.apply(torch.ones(2, requires_grad=True)).sum().backward()
"""


@pytest.mark.skipif(core.loaded().module is None, reason="the Python core runs")
@pytest.mark.parametrize("text", [HOOKED, SUMMED], ids=["a module's hooks", "a gradient that is given"])
def test_backward_of_a_function_enters_no_python(monkeypatch, text):
    """No consumer waits for these gradients, and the core sees that without asking Python."""
    asked = []
    with unclobber.watch():
        exec(text, {"torch": torch})  # the first such backward of a process learns how many own a gradient
        monkeypatch.setattr(gradients, "watched", lambda _, run, *given: asked.append(given) or run(*given))
        exec(text, {"torch": torch})
    assert not asked


def functions_run(act):
    """Names of the package's functions in Python that run while ``act`` does."""
    names = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            names.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return names


@pytest.mark.skipif(core.choose().saves != "engine", reason="Python decides where its queue holds the saves")
def test_a_training_step_runs_the_programs_python_alone():
    """Every training loop pays for each function of the package's, and finds it among its frames."""
    unclobber.uninstall()  # an autocast region of an earlier context has its backwards looked at by Python
    layer = torch.nn.Linear(3, 3)
    layer.register_full_backward_hook(lambda *_: None)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step():
        y = layer(torch.ones(2, 3, requires_grad=True)) * 2
        y.register_hook(lambda gradient: None)
        y.exp().sum().backward()
        optimizer.step()

    with unclobber.watch():
        names = [functions_run(step) for _ in range(2)][-1]  # the first run has stacks that are new
    of_step = ["_unfailing.<locals>.run"] * 2
    of_module = ["_noting.<locals>.apply_on_tensors", "_noting.<locals>.apply_on_tensors.<locals>.use_noted"]
    noted = [*of_module, "of_program", "_engine_is_called_at", "<lambda>"]  # the last makes a named tuple
    assert [name for name in names if name not in noted] == of_step


class Listing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.kept = [x, 3, y]
        ctx.pair = (x + 1, y + 1)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, _, y = ctx.kept
        return gradient * y, gradient * x


@pytest.mark.skipif(core.choose().saves != "engine", reason="Python's queue holds what is stashed")
def test_tensors_in_a_list_on_ctx_are_stashed_without_python():
    """Until one of them is overwritten, which is then told with its index."""
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    with Session(warn=False) as session:
        names = functions_run(lambda: Listing.apply(x * 1, y).backward(torch.ones(2)))
        assert not [name for name in names if name in ("stash", "tensors_of", "_stashed")]
        z = x * 1
        product = Listing.apply(y, z)
        with torch.no_grad():
            z.add_(1)
        product.sum().backward()
    (finding,) = session.report().findings
    assert "ctx.kept[2]" in finding.message
