"""UC205 function-view-written: an in-place operation on a view that a custom Function returned.

A Function that returns its input, or a view of it, ties its own ``backward`` to that memory. A
write to the view would replace that backward by the one of the view, and gradients would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Fix, Help
from .._evidence import ModuleHook, RefusalEvidence
from ._refused import by_module, finding, operation, out_of_place, subject


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a view that a custom Function or a module's hook returned."""
    # torch's message speaks of a custom Function, but the program has none whose `forward` could be changed
    # (test_a_modules_hook_is_no_function_of_the_programs in tests/unit/explain/test_refusal_rules.py).
    if evidence.module_hook is not None:
        return through_hook(evidence, evidence.module_hook)
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
            Help.COPY_OF_RETURNED.fix(function=function),
            Help.OWN_OUTPUT.fix(),
            out_of_place(evidence),
            Help.MARKED_OUTPUT.fix(),
        ),
    )


def through_hook(evidence: RefusalEvidence, hook: ModuleHook) -> Finding:
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
        fixes=(*_without_view(evidence, hook), Help.TENSOR_HOOK.fix()),
    )


def _without_view(evidence: RefusalEvidence, hook: ModuleHook) -> Iterator[Fix]:
    yield out_of_place(evidence)
    if not hook.given:
        yield Help.COPY_OF_MODULE_OUTPUT.fix()
    elif not by_module(evidence):
        yield Help.COPY_OF_MODULE_INPUT.fix()
