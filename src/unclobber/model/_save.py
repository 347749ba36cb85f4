"""What autograd kept."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._site import Extent, Site

_MATMULS = frozenset(("mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm"))


@dataclass(frozen=True, slots=True)
class Save:
    """One saved tensor: where it was saved, which role it has in which derivative, and why."""

    site: Site | None
    """Where the operation ran that saved it; None where nothing of the stack is known."""
    shape: tuple[int, ...]
    dtype: str
    """Without ``torch.``: ``float32``; ``unknown`` where it can't be told which tensor it was."""
    bytes: int
    """Bytes of the elements (``numel * itemsize``)."""
    version: int
    """Version counter when it was saved."""
    operation: str | None = None
    """The forward operation, as torch's derivative table calls it: ``mm``, ``exp``."""
    node: str | None = None
    """The backward node: ``MmBackward0``."""
    role: str | None = None
    """The node's name for it: ``self``, ``other``, ``result``, ``weight``, ``saved_tensors[0]``."""
    expression: str | None = None
    """The user's expression for this very tensor, where certain: ``d``."""
    name: str | None = None
    """Module path of a parameter or buffer: ``generator.fc.weight``."""
    gradient_of: str | None = None
    """The user's name of the operand whose gradient needs it, where certain: ``w2``."""
    why: str | None = None
    """The derivative in torch's own table that reads it: ``grad of mat2 = self.T @ grad``."""
    why_words: str | None = None
    """The same in words: ``grad of `w2` is dᵀ @ grad``."""
    nth: int = 1
    """Which of the saves that this line made this is, 1-based."""
    of: int = 1
    """How many versions of this memory the line had saved, as far as it was followed: at least so many."""
    extent: Extent | None = None
    """Where ``expression`` stands inside the site's expression; None where it doesn't, or not for certain."""

    @property
    def called(self) -> str | None:
        """The operation as the user's line calls it, where the two are known to be the same.

        torch's table says ``mm`` for ``d @ w2`` and ``_softmax`` for ``scores.softmax(-1)``.
        """
        name = self.operation
        if name is None:
            return None
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
