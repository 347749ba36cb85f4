"""Every sentence of help that a report can print without an edit of its own.

``tests/programs/test_helps.py`` does what each one says, in a program of its own, and compares the gradients
with those of the program as written. A help that changes gradients says so.
"""

from __future__ import annotations

from enum import Enum

from ._finding import Fix


class Help(Enum):
    """The sentences, with names of the program in braces; ``or`` joins one to the help before it."""

    # A saved tensor was overwritten: UC101, UC102.
    GUARD = "or keep the program as it is and run it under unclobber.guard()"
    COPY_RESULT = "let the write go to a copy of the saved result: {how}, or write into a new tensor"
    RETURN_ARGUMENT = (
        "write into a new tensor, and return it from the hook `{hook}`, so that the module gets it: "
        "`{returned}`"
    )
    COPY_OPERAND = "save a copy: use `{name}.clone()` where it is read, or write into a new tensor"
    COPY = "write into a new tensor instead of this memory, or clone it before it is saved"
    COPY_GRADIENT = "save a copy: use `{name}.clone()` where it is read"
    STEP_LATER = (
        "call `{step}` after the backward that still needs these weights (if their gradients are not zeroed "
        "before it, and no other optimizer has them), with `inputs=` of that backward if it is not to add to "
        "their gradients, or run the forward again after the step (its gradients are then those of the new "
        "weights)"
    )
    CUT_WEIGHTS = (
        "or, if this backward is to give no gradient to these weights nor to what comes before them (as a "
        "discriminator's to its generator), `.detach()` what their network returned where this loss reads it"
    )
    STEP_IN_HOOK = "call `{step}` once this backward has ended, not in a hook that the backward calls itself"
    IN_CLOSURE = "compute in the closure what its loss needs: `{step}` changes the weights between its calls"
    WEIGHT_LATER = (
        "write to `{name}` after the backward that still needs its old values, if nothing reads the new ones "
        "before, or run the forward again after the write (its gradients are then those of the new values)"
    )
    # No order of step and backward helps here, only a detached state
    # (test_a_state_that_is_carried_over in tests/unit/explain/test_carried_state.py).
    CARRIED = (
        "compute anew in each step, or detach, what is carried over from the step before, and leave out "
        "`retain_graph=True`: it makes each backward go through earlier steps, too, whose weights `{step}` "
        "has changed since (gradients then stop at the step)"
    )
    MAX_NORM = "look up without max_norm, and bound the norms after the backward"
    CONSTRUCT_WITHOUT_INPLACE = "construct {module} without inplace=True"
    CALL_WITHOUT_INPLACE = "call it without `inplace=True`, and use what it returns"
    BUFFERS_LATER = "call the model again only after the backward that still needs its buffers"
    NO_BUFFER_SYNC = (
        "or construct DistributedDataParallel with forward_sync_buffers=False "
        "(broadcast_buffers=False in older torch)"
    )
    VIEW_AGAIN = "take the view again after the earlier write, or join new parts with `torch.cat`"
    DETACHED = "make a detached tensor and leave this one as it is"
    UNFREEZE = "write into a new tensor, or end the freeze first: `handle.remove()`"
    UNWATCHED = (
        "enter `unclobber.guard()` before the forward pass to have the gradient of the program as it is, or "
        "`unclobber.watch()` to see which lines saved and wrote it"
    )
    LATER = (
        "clone the tensor before it is saved, or, if nothing reads the new values before, write after the "
        "backward that needs the old ones"
    )
    ONE_MODE = (
        "give the forward in eval mode clones of the buffers (`torch.func.functional_call`), or run backward "
        "for its part of the loss before the mode changes, or do both forwards in one mode, whose gradients "
        "are then computed"
    )
    PAST_TORCH_COPY = "copy each time values come from or go to foreign code: `torch.tensor(a)`, `x.clone()`"
    PAST_TORCH_LATER = "or write after the backward that needs the old values"
    HANDED_OUT_COPY = "or, only if the tensor is not meant to see the write, hand out a copy: `x.clone()`"
    READ_A_COPY = "read from a copy: clone the operand that shares the memory, or write out of place"

    # Custom Functions, hooks, checkpoints and autocast: UC103 to UC106.
    COPY_ON_CTX = "keep a clone on ctx, or write after the backward"
    RETURN_MARKED = "return the tensor that was marked dirty itself, not a copy or a view of it"
    MARK_DIRTY = "say in forward that it writes to its input"
    READ_RETURNED = "read what {function} returns, not {held}, after it was applied"
    COPY_IN_FORWARD = "write to a copy of the input in forward, or return the input, too, and mark it dirty"
    OPERATOR_RETURNS = (
        "return the new values from an operator without `mutates_args`, and give it a derivative by "
        "`register_autograd`"
    )
    END_REGION = "end the autocast region before {write}, and enter a new one for what reads the weight"
    EMPTY_CACHE = "call torch.clear_autocast_cache() after {write}, or use autocast with cache_enabled=False"
    NEW_GRADIENT = (
        "return a new tensor instead of writing to the one that came in, or write to its `.clone()` and "
        "return that"
    )
    STEP_AFTER_CHECKPOINT = "call {step} after the backward through the checkpoint"
    LATER_OR_NEW = "write after the backward, or into a new tensor by another name: this one is read again"
    COPY_IN_CHECKPOINT = "write to a copy of the input in the checkpointed function, or into a new tensor"
    CLONE_FOR_CHECKPOINT = "or give a clone of the tensor to checkpoint as an argument"

    CLONE_CACHED = "write into a new tensor, or to a copy: clone what {operation} returns before the write"
    RECOMPUTE_IT = "or let the checkpoint's policy recompute {operation} instead of saving what it returns"
    PASS_TO_CHECKPOINT = (
        "read {names} before the checkpoint, give it the value as an argument, and change it outside of the "
        "function"
    )
    KEEP_RANDOM = "leave out `preserve_rng_state=False`: the recomputation then draws the same numbers"
    TORCHS_RANDOM = "draw with torch, whose random numbers a checkpoint repeats, or before the checkpoint"

    # A write that torch refuses: UC2xx.
    BEFORE_VIEW = "write before the view is made, if it is to hold the new values"
    COPY_FOR_VIEW = "or write to a copy (`clone()`), or out of place, if it is to keep the old ones"
    NO_GRAD = "where no gradient is to flow through the write (a start value, an update by hand){before}"
    NO_GRAD_BLOCK = (
        "where no gradient is to flow through the write (a start value, an update by hand), put the write "
        "alone under `with torch.no_grad():`"
    )
    START_VALUES = (
        "to set start values, through which no gradient flows, put the whole block under "
        "`with torch.no_grad():`"
    )
    NEW_TENSOR = "make a new tensor"
    NEW_FOR_VIEW = "make a new tensor, if what it is a view of may keep its values"
    NEW_TENSOR_USED = "make a new tensor, and use it in place of the old one"
    RESULT = "where gradients are to flow, use the result of the out-of-place operation"
    RESULT_ALONE = "where gradients are to flow, use the out-of-place operation"
    MODULE_WITHOUT_INPLACE = (
        "make a new tensor: without `inplace=True` where the module that writes is constructed"
    )
    NEW_BY_INDEX = "or make a new tensor: `torch.where`, `torch.cat`, or `index_put` without the underscore"
    OUT_OF_PLACE = "or use the out-of-place operation (without the underscore)"
    PLAIN_FIRST = (
        "or write the values into a plain tensor first, and call `.requires_grad_()` on it last: no "
        "gradient flows through the write then"
    )
    COPY_OF_LEAF = "where gradients are to flow, write into a copy and use that"
    COPY_BEFORE = "write to a copy of it, through which gradients flow to the leaf"
    GIVE_A_COPY = "give the call a copy of the leaf, through which gradients flow: `.clone()`"
    COPY_IN_HOOK = (
        "let the hook return a copy, through which gradients flow: `return output.requires_grad_().clone()`"
    )
    COPY_AFTER_HOOK = (
        "or register one more forward hook on that module, which returns a copy, through which gradients "
        "flow: `lambda module, args, output: output.clone()`"
    )
    INDEX_VIEWS = (
        "or take one part at a time by an index, `tensor[i]`, instead of unbind or a loop: the write is then "
        "one to the tensor itself, of which nothing may have saved another part"
    )
    NARROW_VIEWS = (
        "or take one part at a time, `tensor.narrow(dim, start, length)` or `tensor[..., a:b]`: the write is "
        "then one to the tensor itself, of which nothing may have saved another part"
    )
    COPY_OF_VIEW = "or write into a copy, if what it is a view of may keep its values: clone the view first"
    COPY_OF_VIEWS = "or clone the views where they are made, if what they are views of may keep its values"
    VIEW_OUTSIDE = "make the view outside of the {off} block, if gradients are to flow through the write"
    WRITE_INSIDE = "or write inside a `with torch.no_grad():` block, if they are not"
    COPY_OF_RETURNED = "write into a copy: clone what {function} returns before writing to it"
    OWN_OUTPUT = "or let its forward return a tensor of its own: `return x.clone()` instead of `x.view_as(x)`"
    MARKED_OUTPUT = "if its forward is meant to work in place: `ctx.mark_dirty(x)` and return `x` itself"
    TENSOR_HOOK = (
        "or see the gradient by a hook on the tensor: `output.register_hook(…)` in a function that "
        "`register_forward_hook` is given"
    )
    COPY_OF_MODULE_OUTPUT = "or write into a copy: clone what the module returned before writing to it"
    COPY_OF_MODULE_INPUT = (
        "or write into a copy: clone the input in the module's forward before writing to it"
    )
    NO_INFERENCE = "make it under `torch.no_grad()` instead of `torch.inference_mode()`"
    NORMAL_COPY = "or take a normal copy first, outside of inference mode{how}"
    COPY_OF_INPUT = "read from a copy: call `.clone()` on the input that overlaps"
    NEW_MEMORY = "or write into a new tensor (this one keeps its values)"
    OWN_MEMORY = "give it memory of its own before writing: `.clone()` after the expand"
    DETACH = "use `detach()` without the underscore: it shares the memory, too"
    DETACH_BASE = (
        "or detach the tensor that it is a view of, before the view is made (no gradient flows into any "
        "part of it then)"
    )
    OWN_WRAP = "give `{module}` a wrap of its own: `FSDP({module}, ...)` before the one around it"
    IGNORED = (
        "leave `{module}` out of the wrap: `FSDP(..., ignored_modules=[{module}])`, which neither shards its "
        "parameters nor averages their gradients"
    )
    NEW_WITH_BATCH = (
        "make it from an input, which gives it a batch (and the input's dtype and device): `x.new_zeros(…)`, "
        "`torch.zeros_like(x)`"
    )
    BATCH_OF_ITS_OWN = (
        "or give it to vmap as an argument, with a batch of its own: `.expand(batch, …).clone()` before the "
        "call"
    )

    # A graph was freed: UC301.
    FORWARD_AGAIN = "run the forward again before each backward{inside}"
    ONE_BACKWARD = "or add up what is to be differentiated, and call backward once, on the sum"
    SUM_OF_LOSSES = (
        "or call backward once, on the sum of the losses, if gradients are to flow through all of it"
    )
    RETAIN = (
        "only if both are meant to go through it: `retain_graph=True` in the earlier backward keeps all that "
        "was saved, and none of it may be overwritten in between (no optimizer step)"
    )
    ANEW_IN_FORWARD = "compute `{attribute}` anew in each forward: it was computed once and is used by both"
    KEEP_DETACHED = "or keep it detached{cut}, if no gradient is to flow into it"
    DETACH_STATE = "detach the hidden state `{attribute}` between steps{cut} (gradients then stop there)"
    UPDATE = (
        "where no gradient is to flow through the update (a running statistic, a queue of keys), put it "
        "under `with torch.no_grad():`"
    )
    CUT = "cut the graph{cut} (gradients then stop there)"
    ANEW = "compute it anew for each backward{inside}"
    DETACH_WHERE_USED = "or `.detach()` it where it is used{used}, if no gradient is to flow into it"
    NOT_REENTRANT = "call checkpoint with `use_reentrant=False`: it then runs no backward of its own"
    CHECKPOINT_ARGUMENT = (
        "or give each checkpoint the shared tensor as an argument by itself, not in a tuple and not from "
        "around the function"
    )

    KEEP_FIRST = (
        "keep the graph in the first backward through this function, too (`retain_graph=True`): what it is "
        "compiled for is decided there"
    )
    NOT_DONATED = (
        "or set `torch._functorch.config.donated_buffer = False` before the function is first called"
    )

    def fix(self, code: str | None = None, **names: str) -> Fix:
        """Return the help for one finding."""
        return Fix(self.value.format(**names), code=code, general=self in _GENERAL, guard=self is Help.GUARD)


_GENERAL = (
    Help.COPY_RESULT, Help.COPY_OPERAND, Help.COPY, Help.CALL_WITHOUT_INPLACE,
)  # fmt: skip
"""Helps that a concrete edit makes superfluous."""
