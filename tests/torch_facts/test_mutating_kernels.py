"""How a mutating operation can be seen before it runs."""

import warnings

import torch

from torch_features import needs

KEY = "ADInplaceOrView"


def has_kernel(name: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, KEY)


def test_most_mutating_operations_have_a_kernel_at_the_key():
    """And some have none: foreach and fused operations need one of their own."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    assert sum(map(has_kernel, names)) > 900
    assert has_kernel("aten::add_.Tensor")
    assert has_kernel("aten::index_put_")
    assert not has_kernel("aten::_foreach_add_.List")
    assert not has_kernel("aten::_fused_sgd_")


@needs("get_kernel")
def test_a_kernel_laid_over_the_key_sees_writes_that_torch_does_not_count():
    """``.data`` and ``no_grad`` are nothing special at this level."""
    seen = []
    name = "aten::add_.Tensor"
    original = torch.library.get_kernel(name, KEY)

    def kernel(keyset, *args, **kwargs):
        seen.append(args[0]._version)
        return original.call_boxed(keyset, *args, **kwargs)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once about any override
        library.impl("add_.Tensor", kernel, KEY, with_keyset=True, allow_override=True)
    try:
        x, one = torch.zeros(3), torch.ones(3)
        x.add_(one)
        x.data.add_(one)
        with torch.no_grad():
            x.add_(one)
    finally:
        library._destroy()
    assert seen == [0, 0, 1]
    assert torch.equal(x, torch.full((3,), 3.0))
    x.add_(one)
    assert len(seen) == 3, "the kernel outlived its library"


def test_setitem_is_a_write_through_a_view():
    """``x[1] = 0`` is a fill of a view that shares the counter."""
    x = torch.zeros(3)
    x[1] = 5
    assert x._version == 1


def test_storages_have_an_address_that_is_reused():
    """So an address names a storage only as long as it lives."""
    seen = set()
    for _ in range(50):
        seen.add(torch.zeros(8).untyped_storage()._cdata)
    assert len(seen) < 50


def test_augmented_matmul_binds_a_new_tensor():
    """``check`` therefore takes ``x @= w`` for no write, and every other augmented assignment for one."""
    x = before = torch.ones(2, 2)
    x @= torch.ones(2, 2)
    assert x is not before
    assert not hasattr(torch.Tensor, "__imatmul__")
