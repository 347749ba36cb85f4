"""What torch leaves unchecked, and the places where it can be seen."""

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import unclobber
from torch_features import needs
from unclobber.observe.record.content import digest, of_words


def leaf(n: int = 4) -> torch.Tensor:
    return torch.linspace(0.1, 1.0, n).requires_grad_()


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None


def test_an_attribute_of_ctx_is_never_checked():
    x, s = leaf(), torch.ones(4)
    y = Scale.apply(x, s)
    s.fill_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 4


def test_the_ctx_of_forward_is_the_node():
    """So what is on ctx can be found from the node, and dies with it."""
    y = Scale.apply(leaf(), torch.ones(4))
    assert isinstance(y.grad_fn, torch.autograd.function.BackwardCFunction)
    assert list(y.grad_fn.__dict__) == ["s"]


def test_apply_makes_a_ctx_and_then_asks_the_class_for_forward_even_if_bound_before(monkeypatch):
    unclobber.uninstall()  # what another test's context has left asleep
    bound, asked = Scale.apply, []
    home = torch.autograd.function.BackwardCFunction
    assert "__init__" not in vars(home)
    monkeypatch.setattr(home, "__init__", lambda ctx: asked.append(type(ctx)._forward_cls), raising=False)

    class Forward:
        def __get__(self, instance, owner):
            asked.append("forward")
            return forward

    forward = Scale.forward
    monkeypatch.setattr(Scale, "forward", Forward())
    bound(leaf(), torch.ones(4))
    assert asked[-2:] == [Scale, "forward"]


def test_the_engine_calls_apply_of_the_node_class(monkeypatch):
    home = torch.autograd.function.BackwardCFunction
    original, called = home.apply, []
    y = Scale.apply(leaf(), torch.ones(4))
    monkeypatch.setattr(home, "apply", lambda ctx, *g: (called.append(ctx), original(ctx, *g))[1])
    y.sum().backward()
    assert called == [y.grad_fn]


def test_a_sum_hands_one_gradient_to_both_operands():
    """A hook that writes to it changes what the other gets."""
    a, b = leaf(), leaf()
    a.register_hook(lambda g: [g.mul_(2), None][1])
    y = a + b
    (y * y).sum().backward()
    assert torch.equal(b.grad, a.grad)


def test_the_reference_count_tells_that_somebody_waits_for_a_gradient():
    counts = {}

    def hook(name):
        return lambda g: counts.__setitem__(name, g._use_count())

    a, b = leaf(), leaf()
    q, p = b * 1, a * 1
    p.register_hook(hook("first"))
    q.register_hook(hook("second"))
    y = p + q
    (y * y).sum().backward()
    assert counts["first"] == counts["second"] + 1


def test_a_python_name_does_not_raise_the_reference_count():
    x = torch.zeros(2)
    count = x._use_count()
    names = [x, x, x]
    assert names[0]._use_count() == count


def test_a_checkpoint_recomputes_from_what_is_there_by_then():
    x, c = leaf(), torch.ones(4)
    y = checkpoint(lambda t: t * c, x, use_reentrant=False)
    c.fill_(3)
    y.sum().backward()
    assert y.tolist() == x.tolist()
    assert x.grad.tolist() == [3.0] * 4


@needs("hash_tensor")
def test_hash_tensor_misses_a_shuffle_and_even_counts():
    """Why our own hash: exclusive or forgets places, and what is there twice."""
    x = torch.arange(4.0)
    assert torch.hash_tensor(x) == torch.hash_tensor(x.flip(0))
    assert torch.hash_tensor(torch.ones(4)) == torch.hash_tensor(torch.zeros(4))


def test_our_hashes_see_a_shuffle_even_counts_and_a_single_bit():
    for mix in (digest, lambda t: of_words(t.contiguous())):
        x = torch.arange(5.0)
        assert mix(x) != mix(x.flip(0))
        assert mix(torch.ones(4)) != mix(torch.zeros(4))
        y = x.clone()
        y.view(torch.int32)[3] ^= 1
        assert mix(x) != mix(y)
        assert mix(x) == mix(x.clone())


def test_our_hashes_have_no_collisions_in_many_single_changes():
    x = torch.zeros(257)
    for mix in (digest, of_words):
        seen = {mix(x)}
        for place in range(257):
            y = x.clone()
            y[place] = 1.0
            seen.add(mix(y))
        assert len(seen) == 258


def test_our_hash_takes_every_layout():
    base = torch.arange(24.0).reshape(4, 6)
    for view in (base.t(), base[:, 1::2], base[2], base.expand(2, 4, 6), base[:0], base.to(torch.bfloat16)):
        assert digest(view) == digest(view.clone(memory_format=torch.contiguous_format))
    z = torch.view_as_complex(base.reshape(4, 3, 2))
    assert digest(z.conj()) is not None
    assert digest(torch.zeros(3, device="meta")) is None
    assert digest(torch.eye(3).to_sparse()) is None


def test_memory_of_numpy_is_not_resizable():
    """How a tensor from ``from_numpy`` is known when the call itself wasn't seen."""
    assert not torch.from_numpy(np.ones(3)).untyped_storage().resizable()
    assert torch.ones(3).untyped_storage().resizable()


def test_a_function_mode_sees_memory_being_handed_out():
    class Names(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    with Names() as names:
        x.numpy()
        x.data_ptr()
        x.untyped_storage()
        np.asarray(x)
        torch.from_dlpack(x)
    assert {"numpy", "data_ptr", "untyped_storage", "__array__", "__dlpack__"} <= set(names.seen)


def test_batch_norm_keeps_whether_it_trained():
    bn = torch.nn.BatchNorm1d(3)
    x = torch.ones(2, 3, requires_grad=True)
    assert bn(x).grad_fn._saved_training is True
    assert bn.eval()(x).grad_fn._saved_training is False


def test_autocast_reads_an_old_copy():
    """One node makes it, below the leaf, and whoever reads the copy later is numbered after the write."""
    net, x = torch.nn.Linear(2, 1, bias=False), torch.ones(1, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = net(x)
        with torch.no_grad():
            net.weight.sub_(1)
        written = torch.autograd._get_sequence_nr()
        second = net(x)
        torch.clear_autocast_cache()
        third = net(x)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)

    def copy_and_reader(result):
        reader = result.grad_fn
        while reader.next_functions[-1][0].name() != "ToCopyBackward0":
            reader = reader.next_functions[-1][0]
        return reader.next_functions[-1][0], reader

    (copy, _), (again, reader), (anew, _) = map(copy_and_reader, (first, second, third))
    assert copy is again
    assert copy.next_functions[0][0].variable is net.weight
    assert copy._sequence_nr() < written <= reader._sequence_nr()
    assert written < anew._sequence_nr()
