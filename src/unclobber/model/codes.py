"""The codes, with all their texts, one entry a code.

A new code is one entry here, one rule (``explain/rules/uc….py``), one page (``model/pages/UC….md``) and
one program that is refused or wrong in that way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Stage = Literal["backward", "write", "graph"]
"""The stage that goes wrong: ``backward`` needs a value that has been overwritten; torch refuses the
``write`` (or another action of the line) at once; the ``graph`` that backward runs is freed."""

Subject = Literal[
    "leaf", "view of a leaf", "view", "one of several views", "view of a Function", "inference", "expanded",
    "unbatched",
]  # fmt: skip
"""The kind of tensor in one of torch's sentences."""

Variant = Literal[
    "compiled", "detached", "frozen", "unread", "unwatched",  # UC101
    "differentiated",  # UC101, UC102
    "self-overlap", "aliased",  # UC102
    "dirty", "unmarked", "kept",  # UC103
    "recomputed", "cached", "differs",  # UC105
    "outdated", "expanded",  # UC201, UC202
    "no_grad", "inference_mode",  # UC204
    "saved", "trained",  # UC206
    "input",  # UC207
    "donated",  # UC301
]  # fmt: skip
"""The variant of a code, if its usual words don't fit all its events:

- ``compiled``: compiled code saves and overwrites it, so torch refuses to compile; ``detached``:
  ``detach_()`` dropped the saved tensor's history; ``frozen``: the program has frozen it
  itself; ``unread``: no gradient that is computed reads it; ``unwatched``: it was saved unobserved.
- ``differentiated``: a derivative of another ``torch.func`` transform flows through the saved tensor.
- ``self-overlap``: an operation overwrites memory that it still reads; ``aliased``: the program itself still
  holds, or is about to read, the overwritten tensor.
- ``dirty``: a tensor that is marked dirty is not returned; ``unmarked``: an input is overwritten unmarked;
  ``kept``: an input is kept outside of ``save_for_backward``.
- ``recomputed``: a recomputation reads a tensor that no operation saved; ``cached``: one that selective
  checkpointing cached; ``differs``: it saves other tensors than its forward.
- ``outdated``: a view from before its memory got a history, which torch takes for a leaf.
- ``no_grad``, ``inference_mode``: the mode in which the view was made.
- ``saved``, ``trained``: the inference tensor was about to be saved or to require grad, not to be written.
- ``input``: an input shares memory with the written tensor.
- ``donated``: the graph is to be kept, and its compiled backward uses up what it saved.
"""


class Interpretation(StrEnum):
    """The interpretation of a program that torch refuses, or that is wrong."""

    AS_WRITTEN = "as written"
    NOT_RECORDED = "with the write not recorded"
    RECORDED = "with the write recorded"
    ONE_BY_ONE = "with each view taken on its own"
    VIEW_RECORDED = "with the view taken in normal mode"
    COPIED_OUTPUT = "with the custom Function's output copied"
    NO_GRAD = "with no_grad for inference_mode"
    VIEW_DETACHED = "with the view detached alone"
    KEPT_ON_CTX = "with the tensors on ctx as they were in forward"
    WRITTEN_BACK = "with the custom Function run on a copy and its result written back"
    CUT = "with the gradient stopped at the graph that was freed"
    KEPT = "with every graph kept"
    OWN_MEMORY = "with memory of its own for what is expanded"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A sentence in which torch refuses."""

    sentence: str
    """A part of it that no other error contains; if a message contains two, the longer one counts."""
    subject: Subject | None = None
    variant: Variant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The texts of one code."""

    name: str
    stage: Stage
    gist: str  # so short that a list of all codes fits 80 columns
    meaning: str  # in one sentence
    advice: str  # advice in one sentence
    bare_fact: str  # the certain fact if no explanation can be made; no full stop
    summary: str
    """The lines and their roles, with places in braces; a part in brackets is left out if its place is not
    known."""
    summaries: Mapping[Variant | Literal["harmless"], str] = field(default_factory=dict)
    """Summaries for variants that the usual one doesn't fit, and for writes that changed no needed value."""
    refusals: tuple[Refusal, ...] = ()  # torch's own sentences, if it refuses
    label: str | None = None  # the refused tensor, in a few words
    used: str | None = None
    """The kind of view that torch refuses only at a later use, once its memory was written."""
    interpretation: Interpretation | None = None
    """The interpretation of a program with this code. ``fix`` runs it from the program as it is, under
    ``guard``, without a candidate's edits; without an interpretation nothing can be proved."""
    harms_others: bool = False  # whether no other holder of the written tensor is meant to see the write
    guard: Literal["offered", "offered where kept"] | None = None
    """Whether a run under ``guard`` is a fix: always, or only if guard keeps the value."""


CODES: dict[str, Code] = {
    "UC101": Code(
        name="saved-overwritten",
        stage="backward",
        gist="a saved tensor was overwritten, torch noticed",
        meaning="A tensor that backward needs was overwritten in place after autograd had saved it.",
        advice="Write into a new tensor, write before the operation that saves, or run under "
        "unclobber.guard().",
        bare_fact="a saved tensor was overwritten before backward needed it",
        summary="{write} overwrites what {saved} saved",
        summaries={
            "harmless": "{write} moves the version counter of what {saved} saved",
            "detached": "{write} detaches what {saved} saved",
        },
        refusals=(
            Refusal(
                "one of the variables needed for gradient computation has been modified by an inplace "
                "operation"
            ),
        ),
        interpretation=Interpretation.AS_WRITTEN,
        guard="offered",
    ),
    "UC102": Code(
        name="saved-overwritten-silently",
        stage="backward",
        gist="the same in a way that torch can't see",
        meaning="A tensor that backward needs was overwritten in a way that PyTorch does not see, so the "
        "gradient is wrong and nothing is raised.",
        advice="Write after the backward that needs the old values, or clone the tensor before it is saved.",
        bare_fact="a saved tensor was overwritten unseen by torch",
        summary="{write} overwrites what {saved} saved",
        summaries={
            "harmless": "{write} writes to the storage of what {saved} saved",
            "self-overlap": "{write} overwrites what it still reads",
            "aliased": "{write} overwrites what {saved} still reads",
        },
        interpretation=Interpretation.AS_WRITTEN,
        guard="offered where kept",
    ),
    "UC103": Code(
        name="saved-on-ctx",
        stage="backward",
        gist="a tensor on ctx changed, or no mark_dirty",
        meaning="A custom autograd Function reads in its backward a tensor from ctx that has changed since "
        "forward, or overwrites its input in forward without saying so.",
        advice="Keep tensors with ctx.save_for_backward, and declare inputs that are written with "
        "ctx.mark_dirty.",
        bare_fact="a tensor that a custom Function left on ctx for backward was overwritten",
        summary="{write} overwrites what {saved} kept on ctx",
        summaries={
            "dirty": "{write} changes a tensor in place that is marked dirty and not returned",
            "unmarked": "{write} overwrites what {saved} handed to it, without mark_dirty",
            "kept": "{write} keeps a tensor on ctx, where no write to it is noticed",
        },
        interpretation=Interpretation.KEPT_ON_CTX,
    ),
    "UC104": Code(
        name="gradient-overwritten",
        stage="backward",
        gist="a hook changed a gradient that is shared",
        meaning="A hook or a backward changed in place a gradient that another consumer still needs.",
        advice="Return a new tensor from the hook or the backward.",
        bare_fact="a gradient was changed in place while another consumer still needs it",
        summary="{write} changes a gradient[ that {needed} still needs]",
        interpretation=Interpretation.AS_WRITTEN,
        harms_others=True,
        guard="offered",
    ),
    "UC105": Code(
        name="recompute-differs",
        stage="backward",
        gist="a checkpoint recomputed other values",
        meaning="The recomputation of a checkpoint saw other values than its forward did.",
        advice="Write to the checkpoint's inputs after backward, or pass a clone to the checkpoint.",
        bare_fact="a tensor was overwritten between a checkpoint's forward and its recomputation, which "
        "reads it",
        summary="{needed} recomputes other values[ than {saved} saved]",
        guard="offered where kept",
    ),
    "UC106": Code(
        name="autocast-copy-stale",
        stage="backward",
        gist="autocast's copy of a weight is older than it",
        meaning="A weight was written inside of an autocast region, and later operations of the region read "
        "autocast's copy of the old one.",
        advice="End the autocast region before the write, or call torch.clear_autocast_cache() after it.",
        bare_fact="a weight was written inside of an autocast region, which keeps a copy of the old one",
        summary="{write} leaves autocast with an old copy[, which {saved} reads]",
        interpretation=Interpretation.AS_WRITTEN,
        guard="offered",
    ),
    "UC201": Code(
        name="leaf-written",
        stage="write",
        gist="in-place on a leaf that requires grad",
        meaning="A leaf that requires grad was written in place.",
        advice="Write under torch.no_grad(), or call requires_grad_() after the write.",
        bare_fact="a leaf that requires grad was to be written in place",
        summary="{write} writes to a leaf that requires grad[, made at {saved}]",
        summaries={"outdated": "{write} writes to a view older than the history of its memory"},
        refusals=(
            Refusal("a leaf Variable that requires grad is being used in an in-place operation", "leaf"),
            Refusal("a leaf Variable that requires grad has been used in an in-place operation", "leaf"),
        ),
        label="a leaf that requires grad",
        interpretation=Interpretation.RECORDED,
    ),
    "UC202": Code(
        name="leaf-view-written",
        stage="write",
        gist="in-place on a view of such a leaf",
        meaning="A view of a leaf that requires grad was written in place.",
        advice="Write under torch.no_grad(), or to a clone of the leaf.",
        bare_fact="a view of a leaf that requires grad was to be written in place",
        summary="{write} writes to a view of a leaf that requires grad[, made at {saved}]",
        refusals=(
            Refusal(
                "a view of a leaf Variable that requires grad is being used in an in-place operation",
                "view of a leaf",
            ),
        ),
        interpretation=Interpretation.RECORDED,
    ),
    "UC203": Code(
        name="multi-view-written",
        stage="write",
        gist="in-place on one of the views of a split",
        meaning="One of the several views that unbind, split or chunk returns was written in place.",
        advice="Index the views one by one, or write into a new tensor.",
        bare_fact="one of several views that one call returned was to be written in place, or was used after "
        "that",
        summary="{write} writes to one of several views[ made at {saved}]",
        refusals=(
            Refusal(
                "This view is the output of a function that returns multiple views", "one of several views"
            ),
        ),
        used="one of several views that one call returned",
        interpretation=Interpretation.ONE_BY_ONE,
    ),
    "UC204": Code(
        name="no-grad-view-written",
        stage="write",
        gist="in-place on a view made under no_grad",
        meaning="A view that was made where grad mode was off was written in place where it is on.",
        advice="Make the view and write to it in the same mode.",
        bare_fact="a view made with grad mode off was to be written in place, or was used after that",
        summary="{write} writes to a view made with grad mode off[ at {saved}]",
        refusals=(
            Refusal("created in no_grad mode and", "view", "no_grad"),
            Refusal("created in inference mode and", "view", "inference_mode"),
        ),
        label="a view made where grad mode was off",
        used="a view that was made with grad mode off",
        interpretation=Interpretation.VIEW_RECORDED,
    ),
    "UC205": Code(
        name="function-view-written",
        stage="write",
        gist="in-place on a view from a custom Function",
        meaning="A view that a custom autograd Function returned was written in place.",
        advice="Return a clone from the Function, or write into a new tensor.",
        bare_fact="a view that a custom Function returned was to be written in place, or was used after that",
        summary="{write} writes to a view from a custom Function[, made at {saved}]",
        refusals=(Refusal("This view was created inside a custom Function", "view of a Function"),),
        label="a view made inside a custom Function",
        used="a view that a custom Function returned",
        interpretation=Interpretation.COPIED_OUTPUT,
    ),
    "UC206": Code(
        name="inference-tensor",
        stage="write",
        gist="an inference tensor was saved or written",
        meaning="A tensor made in inference mode was saved for backward, or written outside of inference "
        "mode.",
        advice="Clone the tensor outside of inference mode, or use torch.no_grad() in its place.",
        bare_fact="a tensor made in inference mode was used where autograd must know of it",
        summary="{offending} uses an inference tensor[ made at {made}]",
        refusals=(
            Refusal("Inplace update to inference tensor outside InferenceMode", "inference"),
            Refusal("Inference tensors cannot be saved for backward", "inference", "saved"),
            Refusal(
                "Setting requires_grad=True on inference tensor outside InferenceMode", "inference", "trained"
            ),
        ),
        label="an inference tensor",
        interpretation=Interpretation.NO_GRAD,
    ),
    "UC207": Code(
        name="overlapping-memory",
        stage="write",
        gist="in-place on an expanded tensor",
        meaning="A tensor of which several elements share memory, such as an expanded one, was written in "
        "place.",
        advice="Clone the tensor before the write.",
        bare_fact="a tensor of which several elements share memory was to be written in place",
        summary="{write} writes to an expanded tensor[, made at {saved}]",
        summaries={"input": "{write} writes to memory that it still reads"},
        refusals=(
            Refusal(
                "more than one element of the written-to tensor refers to a single memory location",
                "expanded",
            ),
            Refusal(
                "some elements of the input tensor and the written-to tensor refer to a single",
                variant="input",
            ),
        ),
        label="several of its elements share memory",
        interpretation=Interpretation.OWN_MEMORY,
    ),
    "UC208": Code(
        name="view-detached",
        stage="write",
        gist="detach_() on a view",
        meaning="A view was detached in place.",
        advice="Use the out-of-place detach(): it gives a tensor of its own that shares the memory.",
        bare_fact="a view was to be detached in place",
        summary="{write} detaches a view in place[, made at {saved}]",
        refusals=(Refusal("Can't detach views in-place", "view"),),
        label="a view",
        interpretation=Interpretation.VIEW_DETACHED,
    ),
    "UC209": Code(
        name="unbatched-written",
        stage="write",
        gist="in-place on a tensor that vmap gave no batch",
        meaning="Under vmap a batch was written in place to a tensor that has none.",
        advice="Make the tensor from an input (x.new_zeros(3)), or write out of place.",
        bare_fact="under vmap a batch was to be written in place to a tensor that has none",
        summary="{write} writes a batch to a tensor without one[, made at {saved}]",
        refusals=(
            Refusal("being vmapped over but `self` not being vmapped over", "unbatched"),
            Refusal("doesn't match the broadcast shape", "unbatched"),
        ),
        label="a tensor without a batch",
    ),
    "UC301": Code(
        name="graph-freed",
        stage="graph",
        gist="backward through a graph that was freed",
        meaning="Backward went through a graph whose saved tensors an earlier backward had freed.",
        advice="Compute the shared part anew, add up the losses and call backward once, or detach what ties "
        "the graphs together.",
        bare_fact="this backward goes on into a graph that is freed already",
        summary="{needed} needs the graph that {freed} freed",
        summaries={"donated": "{needed} keeps a graph whose compiled code uses up what it saved"},
        refusals=(
            Refusal("Trying to backward through the graph a second time"),
            Refusal("compiled with non-empty donated buffers", variant="donated"),
        ),
        interpretation=Interpretation.CUT,
    ),
}
"""Every code; names and meanings are stable."""
