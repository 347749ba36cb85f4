"""The table's columns of views are what was once written down here, and what torch does."""

import pytest
import torch

from unclobber.syntax import torch_table

TABLE = torch_table()
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


INPLACE = {
    "ReLU": 0, "ReLU6": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "SELU": 0,
    "CELU": 1, "ELU": 1, "LeakyReLU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1,
    "AlphaDropout": 1, "FeatureAlphaDropout": 1, "Hardtanh": 2, "Threshold": 2, "RReLU": 2,
    "relu": 1, "relu6": 1, "selu": 1, "silu": 1, "mish": 1, "hardswish": 1, "hardsigmoid": 1,
    "celu": 2, "elu": 2, "leaky_relu": 2, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3,
    "alpha_dropout": 3, "feature_alpha_dropout": 3, "hardtanh": 3, "threshold": 3, "rrelu": 4,
}  # fmt: skip
"""The arguments of a module's constructor, and of a function with its input first."""


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
    assert TABLE.returns_views == METHODS | NAMED
    assert TABLE.view_attributes == ATTRIBUTES
    assert TABLE.returns_several_views == SEVERAL
    assert TABLE.returns_tied_views == TIED
    assert TABLE.inplace == INPLACE


@pytest.mark.parametrize("name", sorted((METHODS | SEVERAL | TABLE.may_return_view) - {"numpy"}))
def test_each_shares_the_memory(name):
    tensor = of(name)
    parts = called(name, tensor)
    for part in parts if name in SEVERAL else [parts]:
        assert part.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", sorted(TABLE.may_return_view))
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


@pytest.mark.parametrize("name", sorted(TABLE.expands))
def test_elements_of_an_expanded_view_share_memory(name):
    tensor = torch.zeros(3)
    arguments = {"as_strided": ((2, 3), (0, 1)), "expand_as": (torch.zeros(2, 3),), "unfold": (0, 2, 1)}
    assert getattr(tensor, name)(*arguments.get(name, ((2, 3),))).numel() > tensor.numel()
