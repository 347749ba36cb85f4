"""UC205 function-view-written: an in-place operation on a view that a custom Function returned.

A Function that returns its input, or a view of it, ties its own ``backward`` to that memory. A
write to the view would replace that backward by the one of the view, and gradients would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Fix
from .._evidence import ModuleHook, RefusalEvidence
from ._refused import by_module, finding, operation, out_of_place, subject


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a view that a custom Function or a module's hook returned."""
    # torch's message speaks of a custom Function, but the program has none whose `forward` could be changed
    # (test_a_modules_hook_is_no_function_of_the_programs in tests/unit/explain/test_refusal_rules.py).
    if evidence.module_hook is not None:
        return _through_hook(evidence, evidence.module_hook)
    function = f"`{evidence.how}`" if evidence.how else "a custom Function"
    view = subject(evidence)
    made = None
    if evidence.made is not None:
        made = f"{function} returns a view of its input here, or the input itself"
    return finding(
        evidence,
        f"{view} shares memory with the input of {function}, and {operation(evidence)} writes to it in place",
        made=made,
        why=(
            "the write would replace the backward that the Function brings by that of a plain view, and "
            "gradients would be wrong",
        ),
        fixes=(
            Fix(f"write into a copy: clone what {function} returns before writing to it"),
            Fix(
                "or let its forward return a tensor of its own: `return x.clone()` instead of `x.view_as(x)`"
            ),
            out_of_place(evidence),
            Fix("if its forward is meant to work in place: `ctx.mark_dirty(x)` and return `x` itself"),
        ),
    )


def _through_hook(evidence: RefusalEvidence, hook: ModuleHook) -> Finding:
    """Return the finding for torch's own Function, which a module's full backward hooks add."""
    module = f"`{hook.module}`" if hook.module else "a module"
    passed = "was given" if hook.given else "returned"
    if hook.module is None:
        passed = "was given or returned"
    its = f"its full backward hook{f' `{hook.name}`' if hook.name else ''}"
    return finding(
        evidence,
        f"{subject(evidence)} is a view that {module} {passed} because of {its}, and {operation(evidence)} "
        "writes to it in place",
        made=None if evidence.made is None else f"{module} {passed} a view here",
        why=(
            "for a full backward hook torch passes what the module takes and returns through a Function of "
            "its own, which makes views",
            "the write would replace that Function's backward by that of a plain view, and the hook would "
            "not be called",
        ),
        fixes=(*_without_view(evidence, hook), _BY_TENSOR_HOOK),
    )


_BY_TENSOR_HOOK = Fix(
    "or see the gradient by a hook on the tensor: `output.register_hook(…)` in a function that "
    "`register_forward_hook` is given"
)


def _without_view(evidence: RefusalEvidence, hook: ModuleHook) -> Iterator[Fix]:
    yield out_of_place(evidence, "use the out-of-place operation (without the underscore)")
    if not hook.given:
        yield Fix("or write into a copy: clone what the module returned before writing to it")
    elif not by_module(evidence):
        yield Fix("or write into a copy: clone the input in the module's forward before writing to it")
