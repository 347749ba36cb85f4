"""What each code means, in one sentence, and what to do about it, in another.

For formats that describe their rules beside their results. ``unclobber explain`` says more.
"""

from __future__ import annotations

ABOUT: dict[str, tuple[str, str]] = {
    "UC101": (
        "A tensor that backward needs was overwritten in place after autograd had saved it.",
        "Write into a new tensor, write before the operation that saves, or run under unclobber.guard().",
    ),
    "UC102": (
        "A tensor that backward needs was overwritten in a way that PyTorch does not see, so the gradient "
        "is wrong and nothing is raised.",
        "Write after the backward that needs the old values, or clone the tensor before it is saved.",
    ),
    "UC103": (
        "A custom autograd Function reads in its backward a tensor from ctx that has changed since forward, "
        "or overwrites its input in forward without saying so.",
        "Keep tensors with ctx.save_for_backward, and declare inputs that are written with ctx.mark_dirty.",
    ),
    "UC104": (
        "A hook or a backward changed in place a gradient that another consumer still needs.",
        "Return a new tensor from the hook or the backward.",
    ),
    "UC105": (
        "The recomputation of a checkpoint saw other values than its forward did.",
        "Write to the checkpoint's inputs after backward, or pass a clone to the checkpoint.",
    ),
    "UC201": (
        "A leaf that requires grad was written in place.",
        "Write under torch.no_grad(), or call requires_grad_() after the write.",
    ),
    "UC202": (
        "A view of a leaf that requires grad was written in place.",
        "Write under torch.no_grad(), or to a clone of the leaf.",
    ),
    "UC203": (
        "One of the several views that unbind, split or chunk returns was written in place.",
        "Index the views one by one, or write into a new tensor.",
    ),
    "UC204": (
        "A view that was made where grad mode was off was written in place where it is on.",
        "Make the view and write to it in the same mode.",
    ),
    "UC205": (
        "A view that a custom autograd Function returned was written in place.",
        "Return a clone from the Function, or write into a new tensor.",
    ),
    "UC206": (
        "A tensor made in inference mode was saved for backward, or written outside of inference mode.",
        "Clone the tensor outside of inference mode, or use torch.no_grad() in its place.",
    ),
    "UC207": (
        "A tensor of which several elements share memory, such as an expanded one, was written in place.",
        "Clone the tensor before the write.",
    ),
    "UC208": (
        "A view was detached in place.",
        "Use the out-of-place detach(): it gives a tensor of its own that shares the memory.",
    ),
    "UC301": (
        "Backward went through a graph whose saved tensors an earlier backward had freed.",
        "Compute the shared part anew, add up the losses and call backward once, or detach what ties the "
        "graphs together.",
    ),
}
"""Code → what it means, what to do."""
