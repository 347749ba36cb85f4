"""UC205 function-view-written: an in-place operation on a view that a custom Function returned.

A Function that returns its input, or a view of it, ties its own ``backward`` to that memory. A
write to the view would replace that backward by the one of the view, and gradients would be wrong.
"""

from __future__ import annotations

from ...model import Finding, Fix, Help
from .._evidence import ModuleHook, RefusalEvidence
from ._refused import WRITTEN, by_module, finding, out_of_place
from ._wording import Wording
from ._words import quoted

WORDING = Wording(
    "{view} shares memory with the input of {function}, and {operation} writes to it in place",
    {**WRITTEN, "saved": "{function} returns a view of its input here, or the input itself"},
    (
        "the write would replace the backward that the Function brings by that of a plain view, and "
        "gradients would be wrong",
    ),
)
_THROUGH_HOOK = Wording(
    "{view} is a view that {module} {passed} because of its full backward hook{hook}, and {operation} "
    "writes to it in place",
    {**WRITTEN, "saved": "{module} {passed} a view here"},
    (
        "for a full backward hook torch passes what the module takes and returns through a Function of "
        "its own, which makes views",
        "the write would replace that Function's backward by that of a plain view, and the hook would "
        "not be called",
    ),
)


def judge(evidence: RefusalEvidence) -> Finding:
    """Return the finding for a refused write to a view that a custom Function or a module's hook returned."""
    # torch's message speaks of a custom Function, but the program has none whose `forward` could be changed
    # (test_a_modules_hook_is_no_function_of_the_programs in tests/unit/explain/test_refusal_rules.py).
    if evidence.module_hook is not None:
        return through_hook(evidence, evidence.module_hook)
    function = quoted(evidence.how, "a custom Function")
    copy, own = Help.COPY_OF_RETURNED.fix(function=function), Help.OWN_OUTPUT.fix()
    fixes = (copy, own, out_of_place(evidence), Help.MARKED_OUTPUT.fix())
    return finding(evidence, WORDING, fixes, function=function)


def through_hook(evidence: RefusalEvidence, hook: ModuleHook) -> Finding:
    """Return the finding for torch's own Function, which a module's full backward hooks add."""
    passed = "was given" if hook.given else "returned"
    if hook.module is None:
        passed = "was given or returned"
    copies: tuple[Fix, ...] = ()
    if not hook.given:
        copies = (Help.COPY_OF_MODULE_OUTPUT.fix(),)
    elif not by_module(evidence):
        copies = (Help.COPY_OF_MODULE_INPUT.fix(),)
    return finding(
        evidence,
        _THROUGH_HOOK,
        (out_of_place(evidence), *copies, Help.TENSOR_HOOK.fix()),
        module=quoted(hook.module, "a module"),
        passed=passed,
        hook=f" `{hook.name}`" if hook.name else "",
    )
