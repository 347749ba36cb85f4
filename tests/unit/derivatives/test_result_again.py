"""Which operations save their own result again where their backward is differentiated: each is run."""

import pytest
import torch

from unclobber.syntax import torch_table

NEVER = {
    "AmaxBackward0": lambda x: x.amax(0),
    "AminBackward0": lambda x: x.amin(0),
    "Expm1Backward0": torch.expm1,
    "LogsumexpBackward0": lambda x: x.logsumexp(0),
    "MaxBackward1": torch.max,
    "MedianBackward0": torch.median,
    "MinBackward1": torch.min,
    "NanmedianBackward0": torch.nanmedian,
    "SqrtBackward0": torch.sqrt,
}
AGAIN = {"ExpBackward0": torch.exp, "TanhBackward0": torch.tanh, "ReciprocalBackward0": torch.reciprocal}


def saves_result_again(operation, dtype) -> tuple[str, bool]:
    """The node's name, and whether the result's memory is saved in its differentiated backward."""
    x = torch.tensor([[0.5, 1.5], [2.5, 0.7]], dtype=dtype, requires_grad=True)
    result = operation(x)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: saved.append(tensor.untyped_storage()._cdata) or tensor, lambda kept: kept
    ):
        gradient = torch.ones_like(result, requires_grad=True)
        torch.autograd.grad(result, x, gradient, create_graph=True)
    return result.grad_fn.name(), result.untyped_storage()._cdata in saved


def test_each_entry_is_run():
    """Nobody is listed unseen."""
    assert NEVER.keys() == torch_table().saves_no_result_again


@pytest.mark.parametrize("node", [*NEVER, *AGAIN])
def test_as_the_table_says(node):
    """Real and, where the operation is defined for them, complex numbers."""
    operation = (NEVER | AGAIN)[node]
    dtypes = (
        [torch.float64, torch.complex128] if node in ("Expm1Backward0", "SqrtBackward0") else [torch.float64]
    )
    for dtype in dtypes:
        assert saves_result_again(operation, dtype) == (node, node in AGAIN)
    assert (node not in torch_table().saves_no_result_again) == (node in AGAIN)
