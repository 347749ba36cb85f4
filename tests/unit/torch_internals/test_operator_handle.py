"""What the dispatcher knows of an operation is what ``torch.ops`` would show, and that is left alone."""

import pytest
import torch

from unclobber.torch_internals import compat


def _remembered():
    """What torch keeps of each operation that was asked for by name."""
    return set(vars(torch.ops.aten)), set(torch.jit._builtins._get_builtin_table())


def test_torch_ops_remembers_nothing_of_what_is_looked_up():
    before = _remembered()
    names = [name for name in compat.dispatcher.operations().names if name.startswith("aten::")]
    assert len([compat.dispatcher.OperatorHandle.named(name) for name in names]) > 3000
    assert _remembered() == before
    packets = [name.removeprefix("aten::").partition(".")[0] for name in names]
    getattr(torch.ops.aten, next(packet for packet in packets if packet not in before[0]))
    assert _remembered() != before


@pytest.mark.parametrize("name", ["add_.Tensor", "relu.out", "batch_norm_update_stats", "_fused_sgd_"])
def test_it_is_torchs(name):
    """A handle has the schema and the name of torch's own operator."""
    packet, _, overload = name.partition(".")
    theirs = getattr(getattr(torch.ops.aten, packet), overload or "default")
    ours = compat.dispatcher.OperatorHandle.named(f"aten::{name}")
    assert str(ours.schema) == str(theirs._schema)
    assert (ours.name, theirs.name()) == (f"aten::{name}", f"aten::{name}")


def test_it_runs_with_the_keys_that_are_given():
    x = torch.ones(2)
    keys = torch._C._dispatch_keys(x) & compat.dispatcher.DispatchKey.WRITE.after
    compat.dispatcher.OperatorHandle.named("aten::add_.Tensor").redispatch(keys, x, torch.ones(2))
    assert x.tolist() == [2.0, 2.0]
    assert x._version == 0  # the kernel that counts comes before


def test_a_number_goes_where_a_tensor_is_meant():
    x = torch.ones(2)
    compat.dispatcher.OperatorHandle.named("aten::add_.Tensor").below()(x, 1)
    assert x.tolist() == [2.0, 2.0]


def test_what_is_none_is_refused():
    with pytest.raises(RuntimeError):
        compat.dispatcher.OperatorHandle.named("aten::no_such_operation")


@pytest.mark.parametrize(
    "key", [compat.dispatcher.DispatchKey.VERSION, compat.dispatcher.DispatchKey.COMPOSITE]
)
def test_one_answer_for_all_is_the_answer_for_each(key):
    assert key.with_kernel() == {
        name for name in compat.dispatcher.operations().names if key.has_kernel(name)
    }
