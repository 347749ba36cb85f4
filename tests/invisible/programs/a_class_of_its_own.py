"""A: what we read of a tensor is no attribute and no method that the program's class defines anew."""

import torch
from observed import observed

PROPERTIES = "_version", "_base", "is_leaf", "requires_grad", "grad_fn", "layout", "dtype", "device", "shape"
METHODS = (
    "detach", "untyped_storage", "data_ptr", "size", "stride", "clone", "storage_offset", "numel",
    "element_size", "register_hook", "__eq__", "__len__", "__bool__", "__repr__",
)  # fmt: skip


def refuse(self, *args, **kwargs):
    raise ValueError("mine")


def steps():
    for name in (*PROPERTIES, *METHODS):

        class Own(torch.Tensor):
            pass

        setattr(Own, name, property(refuse) if name in PROPERTIES else refuse)
        w = torch.ones(3, requires_grad=True)
        x = torch.Tensor.as_subclass(w * 1, Own)
        y = torch.exp(x)
        z = torch.mul(y, y)
        torch.Tensor.add_(z, 1)
        torch.Tensor.mul_(torch.Tensor.view(z, 3, 1), 2)
        torch.sum(torch.mul(z, z)).as_subclass(torch.Tensor).backward()
        print(name, w.grad)


observed(steps)
