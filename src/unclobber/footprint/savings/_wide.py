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
        if not operation.results or operation.outer is None:
            continue
        call, narrow = trace.site_call(operation), _narrow(operation)
        if call is not None and narrow is not None and operation.results[0].dtype == _WIDE:
            groups.setdefault(call[0], []).append((operation, narrow))
    spans = tuple(_spans(trace)) if groups else ()
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

    def called(self, site: Site | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if site is not None:
            tensors = compat.compilers.tensors_in((args, kwargs))
            narrow = [tensor for tensor in tensors if tensor.requires_grad]
            if narrow:
                return self._narrowed(func, args, kwargs, narrow[0], single=len(tensors) == 1)
        return func(*args, **kwargs)

    @staticmethod
    def _narrowed(
        func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operand: Tensor, *, single: bool
    ) -> Any:
        """Run a call with its operands converted to the dtype of `operand`; leave a conversion out."""
        if single:  # a call with a single tensor is the conversion itself, which is left out
            return operand

        def converted(tensor: Tensor) -> Tensor:
            wide = tensor.is_floating_point() and tensor.itemsize > operand.itemsize
            return tensor.to(operand.dtype) if wide else tensor

        args, kwargs = compat.compilers.map_tensors(converted, (args, kwargs))
        return func(*args, **kwargs)
