"""``unclobber.vet``, which tries the ways in this process, and ``unclobber.ways``, their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from ..model import UnclobberError
from ._case import Case
from ._inputs import case_with_inputs
from ._judge import judge
from ._results import Vetting
from ._ways import WAYS

ways: tuple[str, ...] = (*WAYS,)
"""The names of the ways in which ``vet`` trains a module, in the order of its reports."""


def vet(module: nn.Module, inputs: Any = None, ways: Iterable[str] | str | None = None) -> Vetting:
    """Train copies of a module in the ways in which people train, and compare each with ``guard``.

    A way is a fault if torch refuses it for an in-place operation, or if its gradients differ from those that
    ``guard`` gives the same way. All runs are in this process; ``unclobber vet`` starts one for each way. The
    module, its gradients and the random generators stay as they are.

    Args:
        module: The module, with parameters that require grad.
        inputs: Arguments of its forward: a mapping of keywords, a tuple, or one value. None: guessed from its
            configuration, layers and signature.
        ways: Names of ways; all of ``unclobber.ways`` if None. A test takes one by
            ``@pytest.mark.parametrize("way", unclobber.ways)``.
    Returns:
        The results; ``faults`` is empty if the module can be trained in all ways that apply to it.
    Raises:
        UnclobberError: There is no such way, the module can't be copied, or no inputs are known.
    Example:
        >>> class Gate(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layer = torch.nn.Linear(4, 4)
        ...
        ...     def forward(self, x):
        ...         x *= 2
        ...         return self.layer(x)
        >>> result = unclobber.vet(Gate(), torch.randn(2, 4), ["plain", "leaf", "input-reused"])
        >>> [(way.way, way.verdict, [f.code for f in way.findings]) for way in result.results]
        [('plain', 'fine', []), ('leaf', 'refused', ['UC201']), ('input-reused', 'refused', ['UC101'])]
    """
    chosen = checked_ways([ways] if isinstance(ways, str) else WAYS if ways is None else ways)
    name = type(module).__name__
    case = case_with_inputs(module, name) if inputs is None else Case.of(module, inputs)
    return Vetting(name, tuple(judge(way, case) for way in chosen))


def checked_ways(names: Iterable[str]) -> dict[str, str]:
    """Return what each of these ways does, as a sentence without its full stop, by its name.

    Raises:
        UnclobberError: There is no such way.
    """
    names = tuple(names)
    if unknown := [name for name in names if name not in WAYS]:
        raise UnclobberError(f"there is no way {unknown[0]!r}; the ways are {', '.join(WAYS)}")
    return {name: " ".join((WAYS[name].__doc__ or "").split()).rstrip(".") for name in names}
