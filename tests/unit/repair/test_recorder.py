"""What a proof compares: it must accept the same gradients and nothing else."""

from __future__ import annotations

import pytest
import torch

from unclobber.repair._recorder import BackwardRecord, Enough, Recorder, compare, compare_moved
from unclobber.torch_internals.engine import engine


@pytest.fixture
def recording():
    """``recording(program)``: the records of one program; torch's own functions are put back."""

    def run(program, **options):
        recorder = Recorder(**options)
        engine.subscribe(recorder)
        try:
            program()
        except Enough:
            pass
        finally:
            engine.unsubscribe(recorder)
        return recorder

    return run


def _program(factor=1.0, *, seed=0, calls=1):
    def run():
        torch.manual_seed(seed)
        w, b = torch.randn(3, requires_grad=True), torch.zeros(3, requires_grad=True)
        for _ in range(calls):
            (w.exp() * factor + b).sum().backward()

    return run


def test_the_same_program_agrees(recording):
    """Two runs of one program have equal records, leaf by leaf."""
    one, other = recording(_program()), recording(_program())
    found = compare(one.records, other.records, 1)
    assert (found.why, found.compared, found.leaves, found.gradients) == (None, 1, 2, 2)
    assert found.largest_difference == 0.0


def test_another_gradient_is_seen(recording):
    """The loss and the gradients; the gradient alone, too."""
    one, other = recording(_program()), recording(_program(1.001))
    assert "another loss" in compare(one.records, other.records, 1).why
    other.records[0].roots = one.records[0].roots
    assert "another gradient" in compare(one.records, other.records, 1).why


def test_another_order_of_summation_agrees(recording):
    """A few roundings are allowed, and reported."""
    one, other = recording(_program()), recording(_program())
    key, gradient = other.records[0].leaves[0]
    other.records[0].leaves[0] = key, gradient * (1 + 2**-22)
    found = compare(one.records, other.records, 1)
    assert found.why is None
    assert 0 < found.largest_difference < 1e-6


def test_a_call_that_was_not_reached(recording):
    """No record, no proof."""
    one, other = recording(_program(calls=2)), recording(_program(calls=1))
    assert "was not reached" in compare(one.records, other.records, 2).why
    assert compare(one.records, other.records, 1).compared == 1


def test_later_calls_are_compared_as_well(recording):
    """Where both runs have got further than needed, what is there must agree."""
    one, other = recording(_program(calls=2)), recording(_program(calls=2))
    key, gradient = other.records[1].leaves[0]
    other.records[1].leaves[0] = key, gradient + 1
    assert "backward call 2" in compare(one.records, other.records, 1).why


def test_leaves_that_begin_equal_are_not_mixed_up():
    """Any pairing that agrees will do, but there must be one."""
    one, two = torch.ones(2), torch.full((2,), 2.0)
    key = ((2,), "torch.float32", 0j, 0.0)
    a = BackwardRecord([], [(key, one), (key, two)], [])
    assert compare([a], [BackwardRecord([], [(key, two), (key, one)], [])], 1).why is None
    assert compare([a], [BackwardRecord([], [(key, one), (key, one)], [])], 1).why is not None


def test_a_leaf_that_nothing_reaches(recording):
    """A leaf that only one run's graph holds is fine if no gradient has arrived, else not."""

    def more(factor):
        def run():
            torch.manual_seed(0)
            w, b = torch.randn(3, requires_grad=True), torch.zeros(3, requires_grad=True)
            c = torch.ones(5, requires_grad=True)
            (w.exp() + b + factor * c.sum() - factor * 5).sum().backward()

        return run

    one = recording(_program())
    assert compare(one.records, recording(more(0.0)).records, 1).why is None
    assert "set of leaves" in compare(one.records, recording(more(1.0)).records, 1).why


@pytest.mark.parametrize(
    ("a", "b"), [(float("nan"), 1.0), (float("inf"), float("-inf")), (float("nan"), float("inf"))]
)
def test_what_is_not_finite(a, b):
    """Equal only to itself."""
    key = ((1,), "x")
    records = {v: [BackwardRecord([], [(key, torch.tensor([v, 1.0]))], [])] for v in (a, b)}
    assert compare(records[a], records[b], 1).why is not None
    assert compare(records[a], records[a], 1).why is None


@pytest.mark.parametrize("values", [(float("nan"), 1.0), (float("inf"), float("-inf"), 1.0)])
def test_a_leaf_that_is_not_finite(recording, values):
    """Its values in another run are equal to it, so that its gradients are compared."""

    def program(factor):
        leaf = torch.tensor(values, requires_grad=True)
        return lambda: (leaf * factor)[leaf.isfinite()].sum().backward()

    one, again, other = (recording(program(factor)).records for factor in (2.0, 2.0, 3.0))
    assert compare(one, again, 1).why is None
    other[0].roots = one[0].roots
    assert "another gradient" in compare(one, other, 1).why


def test_a_leaf_without_values(recording):
    """A backward on `meta` computes nothing that could be compared, and ends as without a recorder."""

    def program(factor):
        def run():
            leaf = torch.ones(2, device="meta", requires_grad=True)
            (leaf * leaf).sum().backward()
            torch.autograd.grad((leaf * leaf).sum(), leaf)
            _program(factor)()

        return run

    one, again, other = (recording(program(factor)).records for factor in (1.0, 1.0, 2.0))
    for compared in (compare, compare_moved):
        found = compared(one, again, 3)
        assert (found.why, found.gradients) == (None, 2)
        assert compared(one, other, 3).why is not None


def test_results_of_autograd_grad(recording):
    """They are gradients, too."""

    def program(factor):
        def run():
            x = torch.ones(2, requires_grad=True)
            torch.autograd.grad((x * factor).sum() - 2 * factor, x)

        return run

    one, other = recording(program(2.0)), recording(program(3.0))
    assert compare(one.records, one.records, 1).gradients == 1
    assert "autograd.grad" in compare(one.records, other.records, 1).why


def test_it_ends_the_run(recording):
    """After as many backward calls as are needed."""
    recorder = recording(_program(calls=5), stop_after=2)
    assert (recorder.started, len(recorder.records)) == (2, 2)


def test_the_failing_call_is_known(recording):
    """The first one that raised, though the program went on."""

    def program():
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError):
            y.sum().backward()
        x.sum().backward()

    assert recording(program).failed_at == 2


def test_a_spent_graph_passes_nothing_on(recording):
    """The interpretation of a second backward: each call's gradient stops where an earlier one has been."""

    def carried():
        torch.manual_seed(0)
        w = torch.randn(3, requires_grad=True)
        state = torch.ones(3)
        for _ in range(3):
            state = state * w.exp()
            state.sum().backward()

    def detached():
        torch.manual_seed(0)
        w = torch.randn(3, requires_grad=True)
        state = torch.ones(3)
        for _ in range(3):
            state = state.detach() * w.exp()
            state.sum().backward()

    one, other = recording(carried, cut=True), recording(detached)
    assert compare(one.records, other.records, 3).why is None


def test_it_goes_on_unrecorded(recording):
    """To the end, where that is asked for: gradients are copied only as far as they are compared."""
    recorder = recording(_program(calls=5), stop_after=2, to_end=True)
    assert (recorder.started, len(recorder.records)) == (5, 2)


def test_it_ends_when_it_is_told(recording):
    """A candidate that has gone wrong need not run on."""
    recorder = recording(_program(calls=5), after_each=lambda nth: nth == 3)
    assert recorder.started == 3


# --- calls in another order -------------------------------------------------------------------------


def _two_losses(*order, scale=1.0):
    """A shared and an own weight; the gradients of an update are cleared before it, as two optimizers do."""

    def run():
        torch.manual_seed(0)
        shared, own = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        losses = {"d": (shared.exp(), [shared]), "g": (shared.sin() * own * scale, [own])}
        for name in order:
            loss, cleared = losses[name]
            for leaf in cleared:
                leaf.grad = None
            loss.sum().backward(retain_graph=True)

    return run


def test_calls_in_another_order(recording):
    """Each is found by its loss; what a gradient held before it does not count."""
    one, other = recording(_two_losses("d", "g")), recording(_two_losses("g", "d"))
    assert compare(one.records, other.records, 2).why is not None
    found = compare_moved(one.records, other.records, 2)
    assert (found.why, found.compared) == (None, 2)


@pytest.mark.parametrize("what", ["loss", "gradient", "missing"])
def test_what_is_no_other_order(recording, what):
    """Another loss, another gradient of an equal loss, and a call that is gone."""
    one = recording(_two_losses("d", "g"))
    other = recording(_two_losses("g", "d", scale=1.001 if what == "loss" else 1.0))
    if what == "gradient":
        record = other.records[0]
        record.added = [(key, before, after * 1.001) for key, before, after in record.added]
    if what == "missing":
        del other.records[0]
    assert compare_moved(one.records, other.records, 2).why is not None


@pytest.mark.parametrize(
    ("order", "compared"),
    [("2143", 4), ("2135", 3), ("2156", None)],
    ids=["all", "one may have come later", "both of the next turn differ"],
)
def test_calls_after_those_that_are_needed(order, compared):
    """A step that now uses both gradients changes both losses of the next turn."""
    row = ((1,), "float32", 1.0), None, torch.ones(1)
    calls = {loss: BackwardRecord([torch.full((1,), float(loss))], [], [], [row], False) for loss in "123456"}
    found = compare_moved([calls[loss] for loss in "1234"], [calls[loss] for loss in order], 2)
    assert (None if found.why else found.compared) == compared


def _call(*added, has_inputs=False):
    """A record of one loss, with what it adds to leaves of one shape, each recognised by its first value."""
    rows = [(((1,), "float32", value), None, gradient) for value, gradient in added]
    return BackwardRecord([torch.ones(1)], [], [], rows, has_inputs)


@pytest.mark.parametrize(
    ("moved", "same"),
    [
        ([(1, "g"), (2, "h")], True),
        ([(2, "h"), (1, "g")], True),
        ([(1, "h"), (2, "g")], False),  # the gradients of two weights, in each other's place
        ([(5, "g"), (2, "h")], True),  # it saw the first weight before an update
        ([(5, "h"), (2, "g")], False),
        ([(5, "g"), (6, "h")], True),
        ([(5, "h"), (6, "g")], False),  # the order of the graph tells them apart
        ([(1, "g")], False),
        ([(1, "g"), (2, None)], False),
    ],
)
def test_a_moved_call_adds_to_the_same_leaves(moved, same):
    """Shape and type alone don't make a gradient the one of a leaf."""
    values = {"g": torch.tensor([3.0]), "h": torch.tensor([4.0]), None: None}
    mine = _call((1, values["g"]), (2, values["h"]))
    other = _call(*((value, values[name]) for value, name in moved))
    assert (compare_moved([mine], [other], 1).why is None) is same


def test_leaves_that_begin_equal_have_the_graphs_order():
    """Two biases of nought, whose gradients a moved call swaps."""
    g, h = torch.tensor([3.0]), torch.tensor([4.0])
    assert compare_moved([_call((0, g), (0, h))], [_call((0, g), (0, h))], 1).why is None
    assert compare_moved([_call((0, g), (0, h))], [_call((0, h), (0, g))], 1).why is not None


def test_a_network_and_its_copy_have_the_graphs_order():
    """The moved call sees the copy before its update, with the same values as the network's own."""
    g, h = torch.tensor([3.0]), torch.tensor([4.0])
    assert compare_moved([_call((5, h), (1, g))], [_call((1, h), (1, g))], 1).why is None
    assert compare_moved([_call((5, h), (1, g))], [_call((1, g), (1, h))], 1).why is not None


@pytest.mark.parametrize(
    ("moved", "same"), [([(1, "g")], True), ([(1, "h")], False), ([(1, "g"), (2, "g")], False)]
)
def test_a_call_with_inputs_may_leave_out_leaves(moved, same):
    """What it does add is the same."""
    values = {"g": torch.tensor([3.0]), "h": torch.tensor([4.0])}
    other = _call(*((value, values[name]) for value, name in moved), has_inputs=True)
    assert (compare_moved([_call((1, values["g"]), (2, values["h"]))], [other], 1).why is None) is same


def test_the_records_of_a_call_with_inputs(recording):
    """Only the leaves that it names have a row, and each of those counts."""

    def run():
        a, b = (torch.full((1,), value, requires_grad=True) for value in (2.0, 3.0))
        (a * b).sum().backward(inputs=[b])

    (record,) = recording(run).records
    assert record.has_inputs
    assert [float(after) for _, _, after in record.added] == [2.0]


@pytest.mark.parametrize("before", [False, True])
def test_a_named_leaf_that_loses_its_gradient(before):
    """Neither an edit that adds ``inputs`` nor one that keeps them may lose what they name."""
    g, h = torch.tensor([3.0]), torch.tensor([4.0])
    mine = _call((1, g), (2, h), has_inputs=before)
    assert compare_moved([mine], [_call((1, g), (2, None), has_inputs=True)], 1).why is not None
    left_out = compare_moved([mine], [_call((1, g), has_inputs=True)], 1)
    assert (left_out.why is None) is (not before)
