"""One word for how a run compares with the truth, and a table of such words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from ._compare import close
from ._source import Gradients, Outcome

Verdict = Literal["right", "wrong", "refused"]


def verdict(outcome: Outcome, truth: Gradients) -> Verdict:
    """``wrong`` is the one that nobody wants: all passes made, and other gradients than the truth."""
    if outcome.kind != "gradients":
        return "refused"
    return "right" if close(outcome.gradients, truth) else "wrong"


def table(counts: Mapping[str, Counter[Verdict]]) -> str:
    """Rows by mode, columns by verdict.

    Example:
        >>> print(table({"plain": Counter(right=2, refused=1)}))
        mode                right    wrong  refused
        plain                   2        0        1
    """
    columns: tuple[Verdict, ...] = ("right", "wrong", "refused")
    lines = [f"{'mode':16}" + "".join(f"{column:>9}" for column in columns)]
    lines += [
        f"{mode:16}" + "".join(f"{count[column]:9,}" for column in columns) for mode, count in counts.items()
    ]
    return "\n".join(lines)
