"""What torch's schemas say of views is what was once written down here, and what torch does."""

import pytest
import torch

from unclobber.torch_internals import views

METHODS = {
    "adjoint", "as_strided", "broadcast_to", "conj", "detach", "diagonal", "expand", "expand_as", "moveaxis",
    "movedim", "narrow", "numpy", "permute", "select", "squeeze", "swapaxes", "swapdims", "t", "transpose",
    "unflatten", "unfold", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real",
}  # fmt: skip
NAMED = {"align_to", "refine_names", "rename"}
"""Of tensors whose dimensions have names, which torch had up to 2.12."""
ATTRIBUTES = {"H", "T", "data", "imag", "mH", "mT", "real"}
SEVERAL = {"chunk", "dsplit", "hsplit", "split", "split_with_sizes", "tensor_split", "unbind", "vsplit"}
TIED = {"chunk", "split", "split_with_sizes", "unbind"}

CALLS = {
    "adjoint": (), "as_strided": ((2,), (1,)), "broadcast_to": ((3, 2, 2),), "conj": (), "detach": (),
    "diagonal": (), "expand": (3, 2, 2), "expand_as": (torch.zeros(2, 2),), "moveaxis": (0, 1),
    "movedim": (0, 1), "narrow": (0, 0, 1), "permute": (1, 0), "select": (0, 0), "squeeze": (),
    "swapaxes": (0, 1), "swapdims": (0, 1), "t": (), "transpose": (0, 1), "unflatten": (0, (2, 1)),
    "unfold": (0, 2, 1), "unsqueeze": (0,), "view": (4,), "view_as": (torch.zeros(4),),
    "view_as_complex": (), "view_as_real": (), "flatten": (), "ravel": (), "reshape": (4,),
    "reshape_as": (torch.zeros(4),), "chunk": (2,), "dsplit": (2,), "hsplit": (2,), "split": (1,),
    "split_with_sizes": ([1, 1],), "tensor_split": (2,), "unbind": (), "vsplit": (2,),
}  # fmt: skip


def of(name):
    """A tensor that the operation takes."""
    if name == "dsplit":
        return torch.zeros(2, 2, 2)
    return torch.zeros(2, 2, dtype=torch.cfloat if name == "view_as_real" else torch.float)


def called(name, tensor):
    on = torch if name.startswith(("view_as_c", "view_as_r")) else torch.Tensor
    return getattr(on, name)(tensor, *CALLS[name])


def test_the_tables():
    """A torch that adds, drops or renames a view is seen here."""
    assert views.methods() in (METHODS, METHODS | NAMED)
    assert views.attributes() == ATTRIBUTES
    assert views.several() == SEVERAL
    assert views.tied() == TIED


@pytest.mark.parametrize("name", sorted((METHODS | SEVERAL | views.SOMETIMES) - {"numpy"}))
def test_each_shares_the_memory(name):
    tensor = of(name)
    parts = called(name, tensor)
    for part in parts if name in SEVERAL else [parts]:
        assert part.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", sorted(views.SOMETIMES))
def test_some_copy_where_the_strides_are_others(name):
    tensor = torch.zeros(2, 2).t()
    assert called(name, tensor).untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_only_tied_views_are_not_to_be_written(name):
    part = called(name, of(name).requires_grad_() * 2)[0]
    if name in TIED:
        with pytest.raises(RuntimeError, match="multiple views"):
            part.add_(1)
    else:
        part.add_(1)


@pytest.mark.parametrize("name", sorted(views.EXPANDING))
def test_elements_of_an_expanded_view_share_memory(name):
    tensor = torch.zeros(3)
    arguments = {"as_strided": ((2, 3), (0, 1)), "expand_as": (torch.zeros(2, 3),), "unfold": (0, 2, 1)}
    assert getattr(tensor, name)(*arguments.get(name, ((2, 3),))).numel() > tensor.numel()
