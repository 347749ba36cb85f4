"""A tensor that autograd saved."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._site import Extent, Site

_MATMULS = frozenset(("mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm"))


@dataclass(frozen=True, slots=True)
class Save:
    """A saved tensor: the line that saved it, its role in a derivative, and the reason."""

    site: Site | None
    """The line of the operation that saved it; None if its stack is not known."""
    shape: tuple[int, ...]
    dtype: str
    """Without ``torch.``: ``float32``; ``unknown`` if the tensor isn't known."""
    bytes: int
    """Bytes of the elements (``numel * itemsize``)."""
    version: int
    """Version counter when it was saved."""
    operation: str | None = None
    """The forward operation, as torch's derivative table names it: ``mm``, ``exp``."""
    node: str | None = None
    """The backward node: ``MmBackward0``."""
    role: str | None = None
    """The node's name for it: ``self``, ``other``, ``result``, ``weight``, ``saved_tensors[0]``."""
    expression: str | None = None
    """The user's expression for this very tensor, if certain: ``d``."""
    name: str | None = None
    """Module path of a parameter or buffer: ``generator.fc.weight``."""
    gradient_of: str | None = None
    """The user's name of the operand whose gradient needs it, if certain: ``w2``."""
    why: str | None = None
    """The derivative in torch's own table that reads it: ``grad of mat2 = self.T @ grad``."""
    why_words: str | None = None
    """The derivative in the user's words: ``grad of `w2` is dᵀ @ grad``."""
    nth: int = 1
    """Number of this version among those of its memory that the operation saved, 1-based; 1 if not known."""
    of: int = 1
    """Number of versions of this memory that the operation saved, as far as known: there may be more."""
    extent: Extent | None = None
    """The place of ``expression`` inside the site's expression; None if it isn't there, or not for
    certain."""

    @property
    def called(self) -> str | None:
        """The operation in the words of the user's line, if it is certainly the same one.

        torch's table says ``mm`` for ``d @ w2`` and ``_softmax`` for ``scores.softmax(-1)``.
        """
        name = self.operation
        if name is None:
            return None
        # `@`, matmul and linear run another one for each number of dimensions, and with or without a bias.
        if name in _MATMULS and self.site is not None:
            words = re.findall(r"(\w+)\s*\(", self.site.source)
            inner = self.site.below[-1].function if self.site.below else ""
            if name not in words and ("matmul" in words or "@" in self.site.source):
                return "matmul"
            if inner in ("linear", "Linear.forward") or "linear" in words:
                return "linear"
        if name.startswith("_scaled_dot_product"):
            return "scaled_dot_product_attention"
        return name.lstrip("_").removeprefix("native_")
