"""The rules: what goes wrong, how sure a suspicion must be to be reported, and the texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..model import Variant
from ._values import SourceSpan

HIGH = 3
MEDIUM = 2
ON_REQUEST = HIGH + 1  # a confidence that no suspicion has: such rules are reported only on request


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """The facts and texts of one rule.

    In the texts ``{name}`` is the written tensor, ``{operation}`` the operation that saved, ``{kept}`` the
    saved tensor, ``{how}`` the operation that writes, and ``{done}`` what it does.
    """

    code: str
    message: str
    advice: str
    saved: str = ""  # label of the place that explains it
    write: str = "written in place here ({how})"  # label of the line to blame
    reported_from: int = MEDIUM  # the lowest confidence that is reported without a request
    is_measured_high: bool = True  # whether 98 of 100 of its surest flags were right; else these are medium
    is_high_with_backward: bool = False  # whether only with it: a forward alone may sample (ddsp_pytorch)
    variant: Variant | None = None
    variants: dict[str, Variant] = field(default_factory=dict)  # variants by a further word of the suspicion
    if_carried: str = ""  # the advice if a graph goes on: into a loop's next turn, or into what is written
    stage: str = ""  # if it is not its code's: ``value`` if torch raises nothing, so that the value is wrong
    needs_training: bool = True  # whether it is less likely a fault in functions mostly without a gradient
    needs_graph: bool = False  # whether it is less likely a fault in folders of such functions, too


_OUT_OF_PLACE = "write into a new tensor, if no other name is to see the write, or clone what is saved before"


class CheckRule(Enum):
    """The rules. A new one is a row here and a `Suspicion` where the interpreter sees it."""

    # fmt: off
    SAVED = RuleFacts(
        "UC101", "{name} is {done} after {operation} saved {kept} for backward", _OUT_OF_PLACE,
        saved="{operation} saves {kept} here", write="{done} here ({how})",
        reported_from=HIGH, is_high_with_backward=True, needs_graph=True,
    )
    DATA = RuleFacts(
        "UC102", "{name} is changed through .data between its use and the backward that needs it",
        "write after the backward that needs the old values", saved="{name} is used here",
        write="changed here, unseen by torch", reported_from=ON_REQUEST, stage="value",
    )
    MODULE = RuleFacts(
        "UC101", "{how} overwrites what the module before it, {operation}, saves",
        "leave inplace=True out of this module", saved="{operation} saves {kept}",
        write="this module writes in place", needs_graph=True,
    )
    STEP = RuleFacts(
        "UC101",
        "the optimizer's step changes the parameters of {name} between their use and the backward that "
        "needs them",
        "call step() after the backward of every loss that was computed with these parameters, with "
        "`inputs=` of those that are not to add to their gradients, or compute a later loss after the step",
        saved="{name} is used here", write="changed here by the optimizer",
        if_carried="detach what one turn of the loop hands to the next, or compute it anew in each turn",
        reported_from=HIGH, is_measured_high=False, needs_training=False,
    )
    LOADED = RuleFacts(
        "UC101", "parameters of {name} are overwritten between their use and the backward that needs them",
        "write or load after the backward of each loss that was computed before", saved="{name} is used here",
        write="overwritten here", reported_from=HIGH, is_measured_high=False, needs_training=False,
    )
    RETAINED = RuleFacts(
        "UC101",
        "the optimizer changes parameters after a backward that keeps its graph, which needs them as they "
        "were, for another one",
        "leave retain_graph=True out if no other backward goes through the graph, or step after the last one",
        saved="the graph is kept here", write="changed here by the optimizer",
        reported_from=ON_REQUEST, needs_training=False,
    )
    UNSEEN = RuleFacts(
        "UC101",
        "{name} is {done}, and what made or read it before isn't read here: it fails if that saved it",
        _OUT_OF_PLACE, saved="made or read here", reported_from=ON_REQUEST, needs_graph=True,
    )
    TWICE = RuleFacts(
        "UC301", "a second backward goes through a graph that the first one freed",
        "compute the shared part anew, add up the losses, or detach what is carried over",
        saved="both backwards go through this", reported_from=HIGH, is_measured_high=False,
    )
    LEAF = RuleFacts(
        "UC201", "{how} writes to {name}, a leaf that requires grad",
        "write under torch.no_grad(), or before requires_grad is set", saved="the leaf is made here",
        if_carried="write out of place, or leave requires_grad=True out: what is written brings a graph",
        reported_from=HIGH, needs_training=False,
    )
    EMBEDDED = RuleFacts(
        "UC201",
        "{how} writes to {name}, an embedding's result, which is a leaf after enable_input_require_grads()",
        "write into a clone: inputs_embeds = inputs_embeds.clone()", saved="the embedding is read here",
    )
    LEAF_VIEW = RuleFacts(
        "UC202", "{how} writes to {name}, a view of a leaf that requires grad",
        "write under torch.no_grad(), or to a clone of the leaf", saved="the leaf is made here",
        if_carried="write to a clone of it: no_grad would drop a gradient, or be refused as well",
        reported_from=HIGH, needs_training=False,
    )
    SEVERAL = RuleFacts(
        "UC203", "{how} writes to {name}, one of several views of one tensor",
        "write out of place, or, if nothing has saved another part before, take the part with narrow",
        saved="the views are made here",
        reported_from=HIGH, needs_graph=True,
    )
    NO_GRAD_VIEW = RuleFacts(
        "UC204", "{how} writes to {name}, a view that was made where no gradient is recorded",
        "take the view where gradients are recorded, or write out of place", saved="the view is made here",
        reported_from=HIGH, variants={"no_grad": "no_grad", "inference mode": "inference_mode"},
    )
    FUNCTION_VIEW = RuleFacts(
        "UC205", "{how} writes to {name}, a view that a custom Function returned",
        "return a clone from the Function, or write out of place", saved="the Function is applied here",
        reported_from=HIGH,
    )
    INFERENCE = RuleFacts(
        "UC206", "{how} writes to {name}, which was made in inference mode, outside of it",
        "clone it outside of inference mode, or use torch.no_grad() in its place",
        saved="it is made here, in inference mode", reported_from=HIGH,
    )
    EXPANDED = RuleFacts(
        "UC207", "{how} writes to {name}, which is expanded: torch refuses that here or in backward",
        "clone the tensor before the write", saved="expanded here",
    )
    OVERLAP = RuleFacts(
        "UC207", "{how} writes to {name} and reads other elements of the same memory", "clone what is read",
        needs_training=False, variant="input", stage="refusal",  # without gradients, too
    )
    UNMARKED = RuleFacts(
        "UC103", "forward writes to its input {name} without ctx.mark_dirty",
        "call ctx.mark_dirty and return the input, or write to a clone",
        reported_from=HIGH, is_measured_high=False, variant="unmarked", stage="value",
    )
    DIRTY = RuleFacts(
        "UC103", "{name} is marked dirty and not returned", "return it, or don't mark it if it isn't written",
        write="changed here", variant="dirty", stage="write",  # when the Function is applied
    )
    CTX = RuleFacts(
        "UC103",
        "{how} keeps the input {name} outside of ctx.save_for_backward, so that nobody notices a write to it",
        "keep it with ctx.save_for_backward", write="kept here", reported_from=ON_REQUEST, variant="kept",
    )
    BACKWARD_SAVED = RuleFacts(
        "UC101", "backward overwrites the saved tensor {name}, which others or a second backward would read",
        "write into a new tensor", write="overwritten here ({how})", reported_from=ON_REQUEST,
    )
    GRADIENT = RuleFacts(
        "UC104", "backward overwrites the gradient {name} that it was given, which others may still need",
        "return a new tensor", write="changed here ({how})", reported_from=ON_REQUEST,
    )
    SELF_OVERLAP = RuleFacts(
        "UC102", "{how} overwrites {name} while it still reads a part of it", "clone the part that is read",
        write="overwritten and read here", variant="self-overlap", needs_graph=True, stage="value",
    )
    OPERAND = RuleFacts(
        "UC102", "{name} is rewritten by the right side of this operation before the operation reads it",
        "write out of place on the right side (no inplace=True)", "read here, after that", "rewritten here",
        variant="aliased", needs_graph=True, stage="value",
    )
    # fmt: on


_OF_CALLERS = (CheckRule.STEP, CheckRule.SEVERAL, CheckRule.SAVED)
"""Rules whose networks, or the history of what is written, the caller of another file's function brings."""


class Suspicion(NamedTuple):
    """An event that goes wrong if the line runs with gradients on."""

    rule: CheckRule
    confidence: int  # `HIGH`, `MEDIUM`, or 1, which is mostly not reported
    write: SourceSpan | None = None
    saved: SourceSpan | None = None
    needed: SourceSpan | None = None
    freed: SourceSpan | None = None
    operand: SourceSpan | None = None  # the saved operand, inside of the expression that saved it
    operation: str = ""
    role: str = ""
    how: str = ""  # the operation that writes: `add_`, `+=`
    name: str = ""  # the written tensor in the user's words
    more: str = ""  # a further word of the rule
    is_weak: bool = False  # whether, without a backward in the checked code, such flags were mostly wrong
    others: tuple[Suspicion, ...] = ()  # further ones with the same cause

    @property
    def span(self) -> SourceSpan:
        to_blame = self.write or self.needed
        assert to_blame is not None
        return to_blame

    @property
    def is_elsewhere(self) -> bool:
        """Return whether it is a matter of other files alone, as a chain is, and of no caller's values."""
        spans = (self.write, self.saved, self.needed, self.freed)
        is_chain = self.write == self.saved and bool(self.write and self.write.inner)
        return is_chain or (self.rule not in _OF_CALLERS and all(s is None or s.inner for s in spans))

    def is_reported(self, *, all_rules: bool) -> bool:
        is_usual = self.needed is not None or not self.is_weak
        return all_rules or (is_usual and self.confidence >= self.rule.value.reported_from)
