"""UC106: copies of weights that autocast keeps while a region is open."""

import gc
import threading
import weakref

import pytest
import torch

import unclobber
from unclobber.observe.hooks.autocast import CopiedWeights, copies
from unclobber.torch_internals.engine import engine

pytestmark = pytest.mark.filterwarnings("ignore::unclobber.SilentWriteWarning")


def bf16(**kwargs):
    return torch.autocast("cpu", dtype=torch.bfloat16, **kwargs)


class Net:
    """A linear layer with an input; a ``step`` halves its weight."""

    def __init__(self):
        torch.manual_seed(0)
        self.layer, self.x = torch.nn.Linear(4, 1), torch.ones(2, 4)

    def loss(self):
        return self.layer(self.x).float().square().sum()

    def halve(self):
        with torch.no_grad():
            self.layer.weight.mul_(0.5)


def old_copy(net):
    """Read the weight before and after a write in one region."""
    with bf16():
        net.loss().backward()
        net.layer.zero_grad()
        net.halve()
        net.loss().backward()
    return net.layer.weight.grad


def codes(context):
    return [finding.code for finding in context.findings]


def test_a_strict_session_stops_before_the_backward():
    """The gradient of the old weights is not computed."""
    net = Net()
    with pytest.raises(unclobber.InplaceError) as raised, unclobber.watch(strict=True):
        old_copy(net)
    assert raised.value.finding.code == "UC106"
    assert net.layer.weight.grad is None


def test_guard_empties_the_cache_at_the_write():
    """Plain torch is silently wrong, and emptying the cache makes it right."""
    with unclobber.guard() as guard:
        guarded = old_copy(Net())
    with bf16(cache_enabled=False):
        net = Net()
        net.halve()
        net.loss().backward()
    assert torch.equal(guarded, net.layer.weight.grad)
    assert not torch.equal(guarded, old_copy(Net()))
    assert [(finding.code, finding.repaired) for finding in guard.findings] == [("UC106", True)]


def test_guard_keeps_the_cache_at_writes_to_memory_of_no_leaf():
    """The layer is cast once, whatever is written beside it: the gradient is plain torch's, bit for bit."""

    def gradient():
        torch.manual_seed(0)
        layer, x = torch.nn.Linear(16, 16), torch.randn(64, 16)
        with bf16():
            first = layer(x)
            scratch = first.float().detach().abs()  # writes its new result
            scratch.add_(1)
            scratch[0] = 0
            layer(first).float().square().mean().backward()
        return layer.weight.grad

    plain = gradient()
    with unclobber.guard() as guard:
        guarded = gradient()
    assert not guard.findings
    assert torch.equal(guarded, plain)


@pytest.mark.parametrize("newest_first", [False, True])
def test_guard_reports_what_one_backward_goes_through(newest_first):
    """The old copy and the new one lie in one graph, in any order."""
    net = Net()
    with unclobber.guard() as guard:
        with bf16():
            first = net.loss()
            net.halve()
            second = net.loss()
        (second + first if newest_first else first + second).backward()
    assert [(finding.code, finding.repaired) for finding in guard.findings] == [("UC106", True)]


def test_each_backward_counts_once_for_a_line():
    """Its writes of the turns before have made the same copy old."""
    net = Net()
    with unclobber.watch() as watched, bf16():
        for _ in range(5):
            net.loss().backward()
            net.halve()
    (finding,) = watched.findings
    assert (finding.code, finding.times) == ("UC106", 4)


def test_guard_says_nothing_of_a_weight_that_had_no_copy():
    """It empties the cache all the same, and nothing was wrong."""
    net = Net()
    with unclobber.guard() as guard, bf16():
        net.halve()
        net.loss().backward()
    assert codes(guard) == []


def test_guard_says_nothing_of_weights_that_are_made_in_the_region():
    """They are written before their first copy, however many backwards there are after it."""
    with unclobber.guard() as guard, bf16():
        net = Net()
        for _ in range(3):
            net.loss().backward()
    assert codes(guard) == []


def test_a_region_inside_of_another_that_is_off():
    """The copies belong to the outermost region, but in this one nothing is cast."""
    net = Net()
    with unclobber.watch() as watch, bf16():
        net.loss().backward()
        with bf16(enabled=False):
            net.halve()
            net.loss().backward()
    assert codes(watch) == []


def test_a_program_s_own_cast_outside_of_regions():
    """A copy that the program asked for is not autocast's."""
    net = Net()
    with unclobber.watch() as watch:
        half = net.layer.weight.bfloat16()
        net.halve()
        half.float().sum().backward()
    assert codes(watch) == []


def test_a_region_of_another_thread():
    """Each thread has its own regions, copies and numbers of nodes."""
    net = Net()
    with unclobber.watch() as watch:
        with bf16():
            net.loss().backward()
        thread = threading.Thread(target=old_copy, args=(Net(),))
        thread.start()
        thread.join()
        net.loss().backward()
    assert codes(watch) == ["UC106"]


def test_a_region_that_was_open_before():
    """Its start is known if something was watched before; its end is, in any case."""
    with bf16(), unclobber.watch():
        pass
    assert copies.pending == []
    with unclobber.watch() as watch:
        old_copy(Net())
    assert codes(watch) == ["UC106"]


def test_long_training_keeps_no_notes_of_old_regions():
    net = Net()
    with unclobber.watch():
        for _ in range(50):
            with bf16():
                other = Net()
                other.loss().backward()
                other.halve()
        for _ in range(20):
            with bf16():
                net.loss().backward()
    assert copies._thread.writes == {}


def test_an_exception_ends_a_region():
    """No region stays open."""
    with unclobber.watch(), pytest.raises(ZeroDivisionError), bf16():
        raise ZeroDivisionError
    assert copies.pending == []


def test_no_note_holds_a_weight():
    """It dies with its module, inside of the context."""
    net = Net()
    weight = weakref.ref(net.layer.weight)
    with unclobber.watch():
        old_copy(net)
        del net
        gc.collect()
        assert weight() is None


@pytest.mark.parametrize("enabled", [False, True])
def test_backwards_are_looked_at_once_a_region_casts(enabled, monkeypatch):
    """A checkpoint's recomputation enters a region that casts nothing."""
    followed = []
    monkeypatch.setattr(engine, "subscribe", lambda subscriber, **_: followed.append(subscriber))
    weights = CopiedWeights()
    weights.enter(bf16(enabled=enabled))
    assert followed == [weights] * enabled
