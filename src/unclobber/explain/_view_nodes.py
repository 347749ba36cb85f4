"""Names of the autograd nodes of operations that return one view."""

from __future__ import annotations

import re

SINGLE_VIEW = re.compile(
    "(Alias|AsStrided|Conj|Diagonal|Expand|NegView|Permute|ReshapeAlias|Select|Slice|Squeeze|T|Transpose|"
    r"Unfold|Unsqueeze|View|ViewAsComplex|ViewAsReal)\d*"
)
"""The name that torch's messages give such a node: ``Select`` for ``SelectBackward0``."""
