"""How the native core sees saves and writes: nothing lies on torch's stack, and Python is asked late.

Where none is built, these are skipped. What they compare with is the core in Python, or plain torch.
"""

import contextlib
import faulthandler
import gc
import os
import random
import threading
import weakref

import numpy
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import unclobber
from unclobber.observe.hooks import backward_calls, kernels, saves, write_log
from unclobber.observe.native import core, place
from unclobber.observe.record import region_of
from unclobber.session import Session
from unclobber.torch_internals import compat

FILE = place.compiled()
pytestmark = [
    pytest.mark.skipif(not FILE.exists(), reason="no native core: unclobber build-native"),
    pytest.mark.skipif(not compat.behaviour.shows_packed, reason="hooks are pushed on this torch"),
]
PYTHON = core.Loaded(None, "it is compared with")


@pytest.fixture(scope="module")
def native():
    """One module for the process, whichever core it runs."""
    return core.loaded().module or core.load(FILE)


@pytest.fixture(autouse=True)
def runs_natively(native, monkeypatch):
    monkeypatch.delenv(core.SWITCH, raising=False)
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(native, ""))


def overwritten(value=1.0):
    w = torch.full((3,), value, requires_grad=True)
    y = w.exp()
    y.add_(1)
    return w, y


def run(program, context):
    """The gradients of a program, and the codes of what was found."""
    with context() as watched:
        w, y = program()
        y.sum().backward()
    return w.grad.tolist(), [finding.code for finding in watched.findings]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def of_a_function():
    w = torch.full((3,), 2.0, requires_grad=True)
    y = w * 1
    z = Cube.apply(y)
    y.mul_(5)
    return w, z


def of_views():
    w = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = w * 2
    z = (y[0] * y[1]).sum()
    y[0].zero_()
    return w, z


def under_program_hooks():
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        return overwritten()


def past_program_hooks():
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        pass
    return overwritten()


def checkpointed():
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    z = checkpoint(lambda v: v.exp().sin(), y, use_reentrant=False)
    y.add_(1)
    return w, z


def twice():
    w = torch.full((3,), 2.0, requires_grad=True)
    y = w * 1
    z = y**3
    (first,) = torch.autograd.grad(z.sum(), w, create_graph=True)
    y.add_(1)
    return w, first


def in_foreach():
    w = torch.ones(3, requires_grad=True)
    y = w * 1
    z = y.exp() * y
    with torch.no_grad():
        torch._foreach_mul_([y], 3.0)
    return w, z


def of_batch_norm():
    w = torch.arange(6.0).reshape(3, 2).requires_grad_()
    norm = torch.nn.BatchNorm1d(2)
    first, second = norm(w * 1), norm(w * 2)
    return w, first * second


def of_numpy():
    memory = torch.ones(3).numpy()
    one, other = torch.from_numpy(memory), torch.from_numpy(memory)
    w = torch.full((3,), 2.0, requires_grad=True)
    z = w * one
    other.add_(1)
    return w, z


def swapped():
    w = torch.full((3,), 2.0, requires_grad=True)
    x = torch.ones(3)
    z = w * x
    x.data = torch.full((3,), 7.0)
    return w, z


PROGRAMS = [
    overwritten, of_a_function, of_views, under_program_hooks, past_program_hooks, checkpointed, twice,
    in_foreach, of_batch_norm, of_numpy, swapped,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_as_in_python(program, monkeypatch):
    """Gradients and findings under guard."""
    ours = run(program, unclobber.guard)
    monkeypatch.setattr(core, "loaded", lambda: PYTHON)
    assert run(program, unclobber.guard) == ours


@pytest.mark.skipif(compat.entries.engine_may_need_threads(), reason="for the threads of a GPU's engine")
def test_nothing_is_pushed():
    """A session pushes no hooks on torch's stack, where the program's still go."""
    with Session():
        assert compat.hook_stack.top() is None
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            assert compat.hook_stack.top() is not None


def test_saves_are_made_objects_on_demand(native):
    """None is made for a step whose writes come after backward."""
    with Session() as session:
        w = torch.ones(3, requires_grad=True)
        loss = (w.exp() * w).sum()
        assert len(session.ledger.pending) == 3
        before = len([one for one in gc.get_objects() if type(one).__name__ == "SavedTensor"])
        loss.backward()
        with torch.no_grad():
            w.add_(1)
        after = len([one for one in gc.get_objects() if type(one).__name__ == "SavedTensor"])
        assert (len(session.ledger.pending), session.ledger.save_count, after) == (0, 3, before)


def test_what_a_node_keeps(native):
    """``_raw_saved_*`` gives the one SavedTensor of the save, whoever asks first."""
    with Session() as session:
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        ((role, kept),) = compat.kept.raw_saved(y.grad_fn)
        assert role == "result"
        assert kept in [ref() for ref in session.ledger.pending]
        assert kept.origin() is y
        assert compat.tensors.use_count(kept.alias) == 1
        y.sum().backward()
        assert backward_calls.note_of(y.grad_fn)[0] == kept.stack


def test_sessions_in_sessions():
    """The innermost sees what is saved; hooks that are left in another order lie over none."""
    hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
    with Session() as outer, Session("audit") as audit, Session() as inner:
        y = torch.ones(1, requires_grad=True).exp()
        assert [len(one.ledger.pending) for one in (outer, audit, inner)] == [0, 0, 1]
    del y
    hooks.__enter__()
    with Session() as session:
        hooks.__exit__()
        kept = [torch.ones(1, requires_grad=True).exp()]
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            kept.append(torch.ones(1, requires_grad=True).exp())
        assert len(session.ledger.pending) == 1 + 1  # what inner hooks keep is one of Python's
    assert compat.hook_stack.top() is None


def test_a_session_ends_before_its_graph():
    """What is written then is refused, and other graphs are plain again."""
    with unclobber.guard():
        w, y = torch.ones(3, requires_grad=True), None
        y = w.exp()
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(unclobber.InplaceError):
        y.sum().backward()
    z = w.exp()
    assert not isinstance(next(iter(compat.kept.raw_saved(z.grad_fn)))[1], saves.SavedTensor)


def test_threads_at_once():
    """Sixteen threads save, write and run backward in one session."""
    found = []

    def work(value):
        for _ in range(20):
            w, y = overwritten(value)
            y.sum().backward()
            found.append(torch.equal(w.grad, w.detach().exp()))

    with unclobber.guard() as guarded:
        threads = [threading.Thread(target=work, args=(float(n % 3),)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [True] * 320
    assert {finding.code for finding in guarded.conflicts} == {"UC101"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_goes_on():
    """Forked while another thread saves without end: the child has a copy of graph and session."""
    stop = threading.Event()

    def save():
        w = torch.ones(2, requires_grad=True)
        while not stop.is_set():
            w.exp()

    with unclobber.guard():
        w, y = overwritten()
        thread = threading.Thread(target=save)
        thread.start()
        try:
            for _ in range(3):
                child = os.fork()
                if child == 0:
                    y.sum().backward()
                    os._exit(0 if torch.equal(w.grad, w.detach().exp()) else 1)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
            thread.join()


def test_nothing_is_kept(native):
    """Sessions, tensors, stacks and code of the program's go when the program lets go of them."""
    kept = []

    def once():
        space = {}
        exec("def program(x):\n    return (x.exp() * x).sum()", space)
        with unclobber.guard():
            session = saves.innermost().conflicts.ledger
            x = torch.ones(3, requires_grad=True)
            loss = space["program"](x)
            loss.backward()
            x.data.add_(1)
        kept.extend(map(weakref.ref, (session, x, space["program"].__code__)))

    for _ in range(5):
        once()
    native.forget()
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
    assert native.known()[1] == 0


def test_notes_are_bounded(native):
    """A backward of its own for each of many nodes that live on."""
    ends = []
    with Session():
        x = torch.ones(1, requires_grad=True)
        for _ in range(5000):
            y = x.exp()
            y.backward(retain_graph=True)
            ends.append(y)
        assert native.known()[1] <= 256
        assert backward_calls.note_of(ends[-1].grad_fn)[1].nth > 0
    assert native.known()[0] < 5000


def test_writes_that_concern_nobody(native):
    """A write is noted only where somebody else holds its memory, and without Python."""
    with Session() as session:
        told = []
        before_write = session.ledger.before_write
        session.ledger.before_write = lambda *args: told.append(args[1]) or before_write(*args)
        w = torch.ones(3, requires_grad=True)
        y = w.exp()
        apart = torch.ones(3)
        apart.mul_(2)
        apart.add_(apart)
        torch.add(apart, 1, out=apart)
        assert (told, session.ledger.write_count) == ([], 0)
        part = apart[:2]
        assert native.view_write(part) is None
        part.mul_(2)
        assert native.view_write(part)[0] == "mul_"
        assert (told, session.ledger.write_count) == ([], 0)
        with torch.no_grad():
            y.mul_(2)
        assert (told, session.ledger.write_count) == ([], 1)
    assert kernels.listeners.now == ()


def test_what_a_listener_raises():
    """The operation does not run, and is seen the next time."""
    x = torch.ones(3)
    for _ in range(2):
        with unclobber.freeze(x), pytest.raises(unclobber.InplaceError):
            x.mul_(2)
    assert x.tolist() == [1, 1, 1]
    with Session(), pytest.raises(RuntimeError, match="size"):
        x.mul_(torch.ones(2))
    x.mul_(2)
    assert x.tolist() == [2, 2, 2]


@pytest.fixture
def notified(monkeypatch):
    """List of the operations of which Python was notified."""
    told, notify = [], kernels.notify_natively

    def listed(listener, tensor, operation, *arguments):
        told.append(operation)
        return notify(listener, tensor, operation, *arguments)

    monkeypatch.setattr(kernels, "notify_natively", listed)
    return told


def test_a_write_to_a_save_enters_no_python(notified):
    """What it changes of a save, or of its version counter, is noted in C++."""
    buffer = torch.zeros(3, 4)
    with Session() as session, torch.no_grad():
        with torch.enable_grad():
            kept = torch.ones(3, 2, requires_grad=True) * buffer[:, :2]
        buffer.data[:, 2].fill_(1)
        assert session.ledger.write_count == 0
        buffer.data[:, 1].fill_(1)
        assert session.ledger.write_count == 1
        buffer[:, 3].fill_(1)
        assert session.ledger.write_count == 2
        assert notified == []
    del kept


def test_a_write_beside_a_save_enters_no_python(notified):
    """Whatever changes elements of parts with counters of their own, of which it may read others."""
    with Session() as session:
        first, second, third = (torch.ones(2, 6, requires_grad=True) * 2).unsafe_chunk(3, 1)
        first.sigmoid_()
        second.mul_(first).tanh_()
        third.index_fill_(1, torch.tensor([1]), 0).masked_fill_(third > 0, 1).clamp_(0, 1).add_(second)
        assert (notified, session.ledger.write_count) == ([], 0)
        third.squeeze_()  # no write to elements
        assert notified == ["squeeze_"]


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM, torch.nn.GRUCell, torch.nn.LSTMCell])
def test_a_recurrent_module_enters_no_python(notified, kind):
    """Its kernels write to each gate next to others, which they have saved."""
    with Session("guard") as session:
        module = kind(3, 4)
        module(module(torch.ones(2, 3))[0].sum() * torch.ones(2, 3))[0].sum().backward()
        assert (notified, session.ledger.write_count) == ([], 0)


def test_a_programs_operation_among_torchs_may_have_no_result(native):
    """torch's own of that shape return what they write: their kernel takes and gives no list."""
    after = torch._C._after_ADInplaceOrView_keyset
    with torch.library._scoped_library("aten", "FRAGMENT") as library:
        library.define("unclobber_probe_(Tensor(a!) self) -> ()")
        operation = torch.ops.aten.unclobber_probe_
        library.impl("unclobber_probe_", lambda x: x.detach().numpy().fill(7), "CPU")
        library.impl(
            "unclobber_probe_",
            lambda keys, x: operation.default.redispatch(keys & after, x),
            "ADInplaceOrView",
            with_keyset=True,
        )
        memory, w = torch.ones(3), torch.ones(3, requires_grad=True)
        with Session("guard"):
            loss = (w * memory).sum()
            assert operation(memory) is None
            loss.backward()
    assert memory.tolist() == [7, 7, 7]
    assert w.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("natively", [True, False])
def test_a_save_whose_whole_value_was_recorded_needs_no_more(monkeypatch, notified, natively):
    """A write to just its bytes, next to another save, records it; the next write has other bytes to copy."""
    if not natively:
        monkeypatch.setattr(core, "loaded", lambda: core.Loaded(None, ""))
    memory, w = torch.arange(12.0), torch.ones((), requires_grad=True)
    with Session("guard") as session, torch.no_grad():
        with torch.enable_grad():
            loss = (w * memory).sum()
        memory[:4].mul_(2)
        with torch.enable_grad():
            loss = loss + 100 * (w * memory[:4]).sum()
        memory[:4].mul_(2)
        memory[:6].mul_(2)
        assert (session.ledger.pending.written == 3) == natively
        loss.backward()
        assert session.ledger.account.peak == (4 + 4 + 6) * 4
    assert w.grad.item() == 66 + 100 * 12


def part_of(memory, chance):
    """Return a view of some elements, with the dimensions in any order."""
    slices = []
    for size in memory.shape:
        start = chance.randrange(size)
        slices.append(slice(start, chance.randint(start + 1, size), chance.choice((1, 1, 2, 3))))
    return memory[tuple(slices)].permute(chance.sample(range(memory.dim()), memory.dim()))


@pytest.mark.parametrize("operation", ["zero_", "neg_"])
def test_a_write_to_a_byte_of_a_save_is_never_left_out(operation):
    """Of random strided views, writes to all that overlap a save are noted, and to few others."""
    chance, left_out, apart = random.Random(0), 0, 0
    with Session() as session, torch.no_grad():
        for _ in range(300):
            memory = torch.zeros(6, 5, 4)
            saved, written = part_of(memory, chance), part_of(memory, chance)
            with torch.enable_grad():
                kept = torch.ones(saved.shape, requires_grad=True) * saved
            before = session.ledger.write_count
            getattr(written.data, operation)()
            meets = region_of(saved).overlaps(region_of(written))
            noted = session.ledger.write_count > before
            assert noted or not meets
            apart += not meets
            left_out += not noted
            del kept
    assert apart > 60
    assert left_out > apart / 2


def known_of(ledger):
    """Return all that a ledger knows of its live saves, and its totals.

    Those of few programs are not the same: ``test_bytes_that_one_core_keeps_needlessly``.
    """
    known = [(ledger.write_count, ledger.account.kept, ledger.account.peak)]
    for saved in ledger.saves():
        state, history, entry = ledger.state_of(saved), ledger.history(saved), saved.entry
        known.append((
            state.version, state.unseen, state.changed, None if state.value is None else state.value.tolist(),
            saved.version, saved.alias.tolist(), saved.held is None,
            entry is None or (entry.nth, entry.since),
            entry and (entry.original is saved.origin(), entry.original is None),
            entry and entry.history and (entry.history.output, entry.history.life() is not None),
            ledger.counters(saved, [event for event, _ in history]),
            [(event.operation, event.region, event.version, event.counter, event.actor and event.actor(),
              event.stack[:4:2], event.last, hit) for event, hit in history],
        ))  # fmt: skip
    return sorted(known, key=repr)


@pytest.mark.parametrize("natively", [True, False])
def test_bytes_that_one_core_keeps_needlessly(monkeypatch, native, natively):
    """The native core tells some strided memory apart only when a write is filed; the one in Python frees a
    write's record with the oldest save of its geometry, though only a newer one needed it."""
    monkeypatch.setattr(core, "loaded", lambda: core.Loaded(native if natively else None, ""))
    memory, w = torch.arange(120.0), torch.ones((), requires_grad=True)
    with Session("guard") as session:
        saved = w * memory.as_strided((2, 2), (4, 60), 35)
        memory[63].mul_(2)
        assert session.ledger.account.kept == (4 if natively else 0)
        assert list(session.ledger.saves())
        assert session.ledger.account.kept == 0
        del saved
        older = w * memory
        memory[:20].mul_(2)
        newer = w * memory
        memory[:20].mul_(2)
        del newer
        assert session.ledger.account.kept == (80 if natively else 160)
        older.sum().backward()
    assert w.grad.item() == 119 * 60 + 63


class Writing(torch.nn.Module):
    def forward(self, target, value):
        target.add_(value)


WRITES = [
    lambda target, value: target.add_(value),
    # past the counter, but not beside every save: the native core notes no such write
    lambda target, value: (target.data if target._base is None else target).mul_(value),
    lambda target, value: target.fill_(value),
    lambda target, value: target.clamp_(max=value),
    lambda target, value: target.copy_(torch.full((), float(value))),
    Writing(),
]


LENT = {
    "numpy": lambda own: [torch.from_numpy(own.numpy().copy())],
    "numpy, twice": lambda own: [torch.from_numpy(array := own.numpy().copy()), torch.from_numpy(array[1:])],
    "what torch allocated": lambda own: [own, torch.from_numpy(own.numpy())],
    "torch's, through DLPack": lambda own: [own, torch.from_dlpack(numpy.from_dlpack(own))],
    "shared by processes": lambda own: [own.share_memory_()],
}
"""Tensors over memory that torch may not have allocated."""


def save_and_write(chance, parts, kept, w, exchanges=0.0):
    """Save and write random ones of these tensors, and let some of the graphs die.

    ``exchanges``: how often one gets other memory, and leaves its counter to both.
    """
    for _ in range(chance.randint(2, 24)):
        kind = chance.random()
        if kind < 0.4:
            kept.append(w * chance.choice(parts))
        elif kind < exchanges + 0.4:
            part = chance.choice(parts)
            part.data = part.detach().clone()
        elif kind < 0.9:
            chance.choice(WRITES)(chance.choice(parts), chance.randint(2, 9))
        elif kept:
            del kept[chance.randrange(len(kept))]


def random_writes(seed, of_graph, exchanges):
    """Save and write random parts of one memory.

    If ``of_graph``, the memory is an operation's result, perhaps one that the operation saved.
    """
    chance = random.Random(seed)
    w, kept = torch.ones((), requires_grad=True), []
    whole = torch.arange(120.0).reshape(6, 5, 4)
    whole = chance.choice((torch.mul, torch.maximum))(whole, w).sqrt() if of_graph else whole.clone()
    if of_graph and chance.random() < 0.5:
        whole = whole * 2
    parts = [part_of(whole, chance) for _ in range(4)] + [whole, whole[1:3], whole[2]]
    save_and_write(chance, parts, kept, w, exchanges)
    return kept


@pytest.mark.parametrize(("of_graph", "exchanges"), [(False, 0.0), (True, 0.0), (True, 0.08)])
@pytest.mark.parametrize("policy", ["watch", "guard"])
def test_both_cores_know_the_same_of_writes(monkeypatch, native, policy, of_graph, exchanges):
    """What is noted without Python is filed as Python files it at once."""
    noted, found = 0, []
    for module in (native, None):  # one after the other: a change of the core installs all kernels anew
        monkeypatch.setattr(core, "loaded", lambda module=module: core.Loaded(module, ""))
        for seed in range(60):
            with Session(policy) as session:
                kept = random_writes(seed, of_graph, exchanges)
                noted += session.ledger.pending.written
                found.append(known_of(session.ledger))
                del kept
    for seed, (by_core, by_python) in enumerate(zip(found[:60], found[60:], strict=True)):
        assert by_core == by_python, seed
    assert noted > 40


@pytest.mark.parametrize("closure", [None, lambda: None])
def test_writes_of_a_step_to_what_is_saved_are_noted(native, closure):
    """``linear`` saves the transpose of its weight. Only Python can tell a closure's code from the step's."""
    net, x = torch.nn.Linear(3, 3), torch.arange(6.0, requires_grad=True)
    optimizer = torch.optim.AdamW(net.parameters())
    with Session("guard") as session:
        graph = net(net(x.view(2, 3))).sum()
        graph.backward(retain_graph=True)
        before = [parameter.grad.clone() for parameter in net.parameters()]
        optimizer.step(closure)
        # The hooks of steps may be the Python core's, of a session before.
        natively = closure is None and session.ledger.view_writes.unobserved_steps == native.steps
        assert session.ledger.pending.written == (2 if natively else 0)
        optimizer.zero_grad()
        histories = [session.ledger.history(saved) for saved in session.ledger.saves()]
        actors = [event.actor and event.actor() for history in histories for event, _ in history]
        assert actors == [optimizer] * 4
        graph.backward()
        assert session.ledger.account.peak == 9 * 4
    after = [parameter.grad for parameter in net.parameters()]
    assert all(map(torch.equal, after, before))


@pytest.mark.parametrize("lent", LENT)
def test_both_cores_know_the_same_of_lent_memory(monkeypatch, native, lent):
    """Torch's own memory is written past Python, unless a save lies in it through another storage."""
    noted, found = 0, []
    for module in (native, None):
        monkeypatch.setattr(core, "loaded", lambda module=module: core.Loaded(module, ""))
        for seed in range(40):
            chance = random.Random(seed)
            wholes = [torch.arange(120.0).reshape(6, 5, 4) for _ in range(2)]
            wholes = [*LENT[lent](wholes[0]), wholes[1]]
            parts = [part_of(whole, chance) for whole in wholes for _ in range(3)] + wholes
            w, kept = torch.ones((), requires_grad=True), []
            with Session("guard") as session:
                save_and_write(chance, parts, kept, w)
                noted += session.ledger.pending.written
                found.append(known_of(session.ledger))
                kept.clear()
    for seed, (by_core, by_python) in enumerate(zip(found[:40], found[40:], strict=True)):
        assert by_core == by_python, seed
    assert noted > 4


def test_a_save_whose_memory_was_written_is_found_through_lent_memory(native):
    """Also if it was written through its own storage before, which the native core notes by itself."""
    own, w = torch.arange(4.0), torch.ones((), requires_grad=True)
    lent = torch.from_dlpack(numpy.from_dlpack(own))
    with Session("guard") as session:
        others = w * torch.ones(4)
        lent[:1].mul_(2)
        loss = (w * own).sum()
        own[1:2].mul_(3)
        lent[2:].mul_(4)
        del others
        loss.backward()
    assert session.ledger.account.peak > 0
    assert w.grad.item() == 0 + 1 + 2 + 3


def test_saves_of_lent_memory_need_no_python(native):
    """A tensor of an array in a graph, or a shared batch: neither writes beside it nor backward make Python
    look at the saves of the graph. ``table[1] += 1`` copies a row to itself."""
    w, other, table = torch.ones(4, requires_grad=True), torch.arange(4.0), torch.ones(2, 4)
    with Session("watch") as session:
        loss = (w * torch.arange(4.0).share_memory_() * torch.from_numpy(torch.ones(4).numpy())).sum()
        aside = w * other
        other.mul_(2)
        other.mul_(2)
        table[1] += 1
        assert session.ledger.pending.written == 2
        del aside
        assert session.ledger.pending.can_pause_observation() is True
        loss.backward()
        assert session.ledger.saves_by_address is None
        assert not session.ledger.watched


def test_a_part_of_a_mapped_file_is_not_copied(native, tmp_path):
    """safetensors makes parameters so. What an array shows may change unseen, whatever part it is."""
    (file := tmp_path / "weights").write_bytes(bytes(64))
    mapped = torch.UntypedStorage.from_file(str(file), shared=False, nbytes=64)
    array = torch.ones(4).numpy()
    shown = torch.from_numpy(array).untyped_storage()[0:16]
    w = torch.ones(4, requires_grad=True)
    for part in (mapped[16:32], mapped[16:48][0:16], torch.arange(8.0).untyped_storage()[16:32], shown):
        values = torch.asarray(part, dtype=torch.uint8).view(torch.float32)
        with Session("watch", warn=False) as session:
            loss = (w * values).sum()
            (saved,) = session.ledger.saves()
            assert (saved.copied is None) == (part is not shown)
            array += 1
            loss.backward()
        assert [finding.code for finding in session.findings] == (["UC102"] if part is shown else [])


class Labelled(torch.Tensor):
    """A class of a program's, which changes nothing."""


@pytest.mark.parametrize(
    "other", [lambda t: t, lambda t: t.as_subclass(Labelled), lambda t: torch.from_numpy(t.numpy())]
)
def test_a_backward_that_adds_to_what_is_saved_is_observed(native, other):
    """Of any memory and class: a gradient that a graph has saved is told from a tensor that is none."""
    w, given = torch.ones(4, requires_grad=True), other(torch.ones(4))
    with Session("watch") as session:
        loss = (w * given).sum()
        assert session.ledger.pending.can_pause_observation() is True
        w.grad = given
        assert session.ledger.pending.can_pause_observation() is False
        del loss


def test_writes_beside_an_exchange_of_memory_are_noted(native):
    """``.data =`` leaves one counter to two memories; only writes that move it need Python from then on."""
    memory, other, w = torch.arange(4.0), torch.arange(4.0), torch.ones((), requires_grad=True)
    with Session("watch") as session:
        view = memory.view(2, 2)
        view.data = torch.ones(2, 2)
        graphs = [w * memory, w * other]
        other.mul_(2)
        assert session.ledger.pending.written == 1
        view.mul_(3)
        memory.mul_(4)
        assert session.ledger.pending.written == 1
        elsewhere = map(session.ledger.shared_counters.writes_elsewhere, session.ledger.saves())
        assert sorted(len(events) for events in elsewhere) == [0, 1]
        del graphs


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_write_to_a_nested_tensor():
    """It has no strides by which the written bytes could be told from the saved ones: Python is asked."""
    rows = [torch.rand(2), torch.rand(2)]
    nested = torch.nested.nested_tensor(rows, requires_grad=True)
    with unclobber.watch():
        x = nested.clone()
        total = x.sum(-1, keepdim=True)
        x.add_(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward(torch.nested.nested_tensor([torch.rand(1), torch.rand(1)]))


def test_garbage_that_holds_saves_is_collected_while_a_view_is_looked_up(native):
    """Python collects when it makes a tuple, up to 3.11: the core must not wait for its own lock then."""
    faulthandler.dump_traceback_later(30, exit=True)
    with unclobber.watch():
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        view, _ = y[:], y.exp()
        y.add_(1)
        look_up, before = native.view_write, gc.get_threshold()
        gc.collect()
        gc.disable()
        gc.set_threshold(1)
        cycle = [x.exp()]
        cycle.append(cycle)
        saved = weakref.ref(cycle[0])
        del cycle
        gc.enable()
        assert look_up(view)[0] == "add_"
        gc.set_threshold(*before)
        gc.collect()
    assert saved() is None
    faulthandler.cancel_dump_traceback_later()


class Followed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, calls, fails):
        calls.append(write_log.followed[-1])
        if fails:
            raise ValueError
        return x * 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_of_a_function_that_has_ended_keeps_no_arguments(fails):
    """A debugger reads the attributes of any object."""
    calls = []
    with unclobber.watch(), contextlib.suppress(ValueError):
        Followed.apply(torch.ones(3, requires_grad=True), calls, fails)
    (call,) = calls
    if isinstance(call, write_log.WriteLog):
        pytest.skip("Functions were wrapped for the Python core before, which keeps no call")
    assert call.log.values == ()
    assert call.log.writes == []
