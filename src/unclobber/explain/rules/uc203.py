"""UC203 multi-view-written: an in-place operation on one of several views that one call returned.

``chunk``, ``split``, ``unbind`` and iteration over a tensor give all their views one backward node. A write
to one view would have to change that node for the other views, so torch refuses.
"""

from __future__ import annotations

import re

from ...model import Finding, Fix, Help
from .._evidence import RefusalEvidence
from .._view_nodes import SINGLE_VIEW
from . import uc205
from ._refused import finding, operation, out_of_place
from ._wording import Wording
from ._words import place

WORDING = Wording(
    "{view} is {which} of several views that {by} returned, and {operation} writes to it in place",
    {
        "write": "{which} of them is written in place here ({operation})",
        "saved": "{by} made several views of one tensor here",
    },
    (
        "all of these views share one backward node, which can't record a write to one of them",
        "this memory is saved for backward, too ({saved_at}): once written, it is refused there (UC101)",
    ),
)


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to one of several views."""
    # torch's own Function for a module's full backward hooks returns several views if the module returns
    # several tensors: tests/programs/UC203/hooked_module_returns_two.py.
    if evidence.module_hook is not None:
        return uc205.through_hook(evidence, evidence.module_hook)
    # If the line that made the view isn't known, torch's message still names its node
    # (test_the_maker_by_torchs_own_message in tests/unit/explain/test_refusal_rules.py).
    made = evidence.how or _MAKERS.get(_node(evidence) or "")
    by_index = Help.INDEX_VIEWS if made in ("unbind", "unbinding", "iteration") else Help.NARROW_VIEWS
    copied = Help.COPY_OF_VIEWS if evidence.read_through else Help.COPY_OF_VIEW
    fixes: tuple[Fix, ...] = ((by_index if made else copied).fix(),)
    # A new tensor would leave `x` as it was in `for row in x: row /= 2`, which reads `x` afterwards
    # (written_a_loop_s_variable.py and written_in_a_chain.py in tests/programs/UC203).
    if not evidence.read_through:
        fixes = tuple(dict.fromkeys((out_of_place(evidence, Help.COPY_OF_VIEW), *fixes)))
    # A forget gate's bias is set so, in tests/programs/UC203/lstm_forget_bias.py.
    starts = operation(evidence) in ("fill_", "zero_", "copy_", "normal_", "uniform_")
    if starts and not evidence.carries_gradient:
        fixes = (Help.START_VALUES.fix(), *fixes)
    # torch names the node of what is written: `Slice` of `q[..., ::2]`, where `q` is one of them.
    which = "a view of one" if SINGLE_VIEW.fullmatch(_node(evidence) or "") else "one"
    saved_at = None if evidence.saved_at is None else place(evidence.saved_at, (evidence.made,))
    return finding(evidence, WORDING, fixes, by=_BY.get(made, f"`{made}`"), which=which, saved_at=saved_at)


_MAKERS = {"Unbind": "unbinding", "Split": "splitting", "SplitWithSizes": "splitting"}
"""The maker in words, by its node's name alone: ``chunk`` is a split, a loop unbinds."""
_BY = {
    None: "one call",
    "iteration": "iterating over a tensor",
    "unbinding": "`unbind`, or a loop over a tensor,",
    "splitting": "`split` or `chunk`",
}


def _node(evidence: RefusalEvidence) -> str | None:
    match = re.match(r"Output \d+ of (\w+?)(?:Backward\d*)? is a view", evidence.torch_message)
    return match[1] if match else None  # `Unbind`
