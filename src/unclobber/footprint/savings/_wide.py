"""Places where numbers become wider than the parameters are, and runs without these conversions.

All results after such a place are kept wide.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ...torch_internals import compat
from .._timeline import Span
from .._trace import Operand, Operation, Site, Trace
from ._option import Option, change_of
from ._sites import SitesMode

_WIDE = "torch.float64"
_CONVERSIONS = frozenset({"to", "double", "type", "type_as"})


def widened(trace: Trace) -> Iterable[Option]:
    """Yield a change for each place at which float64 begins; each is tried alone, with all that follows."""
    groups: dict[Site, list[tuple[Operation, Operand]]] = {}
    for operation in trace.forward:
        if operation.outer is None or not operation.results or operation.results[0].dtype != _WIDE:
            continue
        narrow = _narrow(operation)
        if narrow is not None:
            groups.setdefault(operation.outer.site, []).append((operation, narrow))
    spans = tuple(_spans(trace))
    for site, members in groups.items():
        dtype = members[0][1].dtype.removeprefix("torch.")
        instead = f"convert the float64 operand: .to(torch.{dtype})"
        if site[1] in _CONVERSIONS:
            instead = f"leave out .{site[1]}()"
        title = f"{dtype} becomes float64 here, and what follows is kept as float64"
        change = change_of([operation for operation, _ in members], "dtype", title, instead)
        yield Option(change, spans, narrow=(site,))


def _narrow(operation: Operation) -> Operand | None:
    tensors = [operand for operand in operation.operands if operand.requires_grad]
    narrow = [operand for operand in tensors if operand.dtype == "torch.float32"]
    wide = [operand for operand in tensors if operand.dtype == _WIDE]
    return narrow[0] if narrow and not wide else None


def _spans(trace: Trace) -> Iterable[Span]:
    """Yield half the bytes of each activation of float64."""
    wide = {
        result.storage
        for operation in trace.operations
        if not operation.backward
        for result in operation.results
        if result.dtype == _WIDE
    }
    for number in sorted(wide):
        storage = trace.storages[number]
        if storage.kind == "activation" and number in trace.kept_spans:
            yield number, storage.born, trace.end(storage), storage.bytes // 2


# --- a run with it -----------------------------------------------------------------------------------
class NarrowMode(SitesMode):
    """A mode in which some calls get floating-point numbers no wider than their differentiable operand."""

    def called(self, site: Site, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call with its operands converted to the dtype of the one that needs a gradient."""
        tensors = compat.compilers.tensors_in((args, kwargs))
        operand = next((tensor for tensor in tensors if tensor.requires_grad), None)
        if operand is None:
            return func(*args, **kwargs)
        if len(tensors) == 1:  # the call is the conversion itself, which is left out
            return operand

        def converted(tensor: Tensor) -> Tensor:
            wide = tensor.is_floating_point() and tensor.itemsize > operand.itemsize
            return tensor.to(operand.dtype) if wide else tensor

        args, kwargs = compat.compilers.map_tensors(converted, (args, kwargs))
        return func(*args, **kwargs)
