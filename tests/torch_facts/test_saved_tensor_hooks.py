"""What the pack and unpack hooks are given, and when what pack returned dies."""

import gc
import sys
import weakref

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from torch_features import needs
from unclobber.torch_internals import compat


def itself(t):
    return t


def test_pack_is_given_the_very_input():
    x = torch.rand(3, requires_grad=True)
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t) or t.detach(), itself):
        x.sin()
    assert seen[0] is x


def test_pack_runs_without_grad_mode():
    modes = []
    with saved_tensors_hooks(lambda t: modes.append(torch.is_grad_enabled()) or t.detach(), itself):
        torch.rand(3, requires_grad=True).exp()
    assert modes == [False]


def test_pack_is_given_a_result_with_the_references_of_a_new_object():
    """Also an operation's own view of a weight; what Python code has, has one more."""
    x, layer = torch.rand(2, 3, requires_grad=True), torch.nn.Linear(3, 2)
    new = compat.unseen.references_of_new()
    more = []

    def pack(tensor):
        more.append(sys.getrefcount(tensor) - new)
        return tensor.detach()

    with saved_tensors_hooks(pack, itself):
        layer(x.exp())
        (x * 2).sin()
        y = x[0]
        y.sin()
    (of_result, of_input, of_weight, of_temporary, of_local) = more
    assert of_result == of_weight == 0
    assert min(of_input, of_temporary, of_local) > 0


def test_in_place_results_arrive_after_the_count():
    x = torch.rand(3, requires_grad=True) * 1
    versions = []
    with saved_tensors_hooks(lambda t: versions.append(t._version) or t.detach(), itself):
        x.exp_()
    assert versions == [1]


def test_detach_shares_storage_and_counter():
    x = torch.rand(3)
    kept = x.detach()
    x.add_(1)
    assert kept._version == x._version == 1
    assert kept.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_returning_the_detached_tensor_frees_it():
    with saved_tensors_hooks(lambda t: t.detach(), itself):
        y = torch.rand(3, requires_grad=True).exp()
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


def test_returning_the_tensor_itself_leaks():
    """A cycle through C++ that no collector sees: the reason to detach always."""
    with saved_tensors_hooks(itself, itself):
        y = torch.rand(3, requires_grad=True).exp()
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is not None


def test_backward_releases_what_pack_returned():
    class Packed:
        def __init__(self, tensor):
            self.tensor = tensor

    kept = []

    def pack(tensor):
        packed = Packed(tensor.detach())
        kept.append(weakref.ref(packed))
        return packed

    with saved_tensors_hooks(pack, lambda packed: packed.tensor):
        y = torch.rand(3, requires_grad=True).exp().sum()
    assert kept[0]() is not None
    y.backward()
    assert kept[0]() is None


@needs("saved data")
def test_the_current_node_names_the_role_in_unpack():
    """``_raw_saved_*`` of the node holds the very object that pack returned."""
    roles = []

    def unpack(packed):
        node = torch._C._current_autograd_node()
        roles.extend(
            name.removeprefix("_raw_saved_")
            for name in dir(node)
            if name.startswith("_raw_saved_") and getattr(node, name).data is packed
        )
        return packed

    a, b = torch.rand(2, 2, requires_grad=True), torch.rand(2, 2)
    with saved_tensors_hooks(lambda t: t.detach(), unpack):
        y = a @ b
    y.sum().backward()
    assert roles == ["mat2"]


def test_hooks_are_of_one_thread():
    from threading import Thread

    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t) or t.detach(), itself):
        thread = Thread(target=lambda: torch.rand(3, requires_grad=True).exp())
        thread.start()
        thread.join()
    assert seen == []


def test_inner_hooks_replace_outer_ones():
    outer, inner = [], []
    with saved_tensors_hooks(lambda t: outer.append(1) or t.detach(), itself):
        with saved_tensors_hooks(lambda t: inner.append(1) or t.detach(), itself):
            torch.rand(3, requires_grad=True).exp()
    assert (len(outer), len(inner)) == (0, 1)


def test_function_transforms_refuse_hooks():
    with saved_tensors_hooks(lambda t: t.detach(), itself), pytest.raises(RuntimeError, match="hooks"):
        torch.func.grad(lambda x: x.sin().sum())(torch.rand(3))


def test_a_transform_forbids_hooks_by_its_name():
    """``HookStack`` knows it by that, and puts back what it has found."""
    graph = torch._C._autograd
    seen = []
    torch.func.grad(
        lambda x: seen.append(graph._saved_tensors_hooks_get_disabled_error_message()) or x.sum()
    )(torch.rand(3))
    assert seen[0].startswith("torch.func.")
    assert graph._saved_tensors_hooks_get_disabled_error_message() is None


def test_a_transform_saves_wrappers_whose_counters_move_apart():
    """What ``.data`` writes moves the counter of the memory below, and not the wrapper's."""
    functorch, moved = torch._C._functorch, []

    def loss(x):
        y = x.exp()
        inner = functorch.get_unwrapped(y)
        before = y._version, inner._version
        y.data.zero_()
        moved.append((y._version - before[0], functorch.is_functorch_wrapped_tensor(y), bool(inner.any())))
        return y.sum()

    torch.func.grad(loss)(torch.ones(2))
    assert moved == [(0, True, False)]


def test_rrelu_fills_its_noise_after_it_was_saved():
    """The value at pack isn't the value that backward is meant to see."""
    values = []
    with saved_tensors_hooks(lambda t: values.append((t, t.clone())) or t.detach(), itself):
        x = torch.linspace(-2, 2, 9).requires_grad_()
        torch.nn.functional.rrelu(x, training=True)
    assert any(not torch.equal(tensor, early) and tensor._version == 0 for tensor, early in values)


@pytest.mark.parametrize(
    "pack", [lambda tensor: tensor.mul_(2), lambda tensor: [].pop()], ids=["writes", "raises"]
)
def test_hooks_for_one_saved_tensor_stay_though_the_pack_hook_fails(pack):
    """The sentence for one that writes is ``Sentence.PACK_WRITES``; a second pair is refused after either."""
    y = (torch.ones(2, requires_grad=True) * 1).exp()  # its node has what `raw` refers to
    raw = y.grad_fn._raw_saved_result
    with pytest.raises((RuntimeError, IndexError)) as error:
        raw.register_hooks(pack, lambda kept: kept)
    if error.type is RuntimeError:
        assert str(error.value) == compat.Sentence.PACK_WRITES
    with pytest.raises(RuntimeError, match="have already been set"):
        raw.register_hooks(lambda tensor: tensor, lambda kept: kept)


def test_a_functions_stale_view_is_refused_in_these_words():
    """A module's full backward hooks make such views of what it is given."""
    linear = torch.nn.Linear(2, 2)
    linear.register_full_backward_hook(lambda *_: None)
    x = torch.ones(2, 2, requires_grad=True) * 1
    y = linear(x)
    x.add_(1)
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    assert compat.Sentence.STALE_FUNCTION_VIEW in str(error.value)
