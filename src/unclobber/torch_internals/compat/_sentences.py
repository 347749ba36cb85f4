"""torch's own sentences, which unclobber repeats where its hooks keep torch from saying them."""

from __future__ import annotations

import torch

from ..versions import parsed

_CANNOT = "cannot" if parsed(torch.__version__) >= (2, 13) else "can not"


class Sentence:
    """Refusals in torch's words, or what is always the same of each. Plain strings: findings are pickled."""

    # torch/csrc/autograd/saved_variable.cpp, `SavedVariable::unpack`; the space is missing there, too.
    DETACHED = (
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
        "This is not supported, please use out-of-place `.detach()` instead"
    )
    # torch/csrc/autograd/variable.cpp, `handle_view_on_rebase`, after the view's name; so are the next two.
    STALE_VIEW = (
        "is a view and its base or another view of its base has been modified inplace. This view is the "
        "output of a function that returns multiple views. Such functions do not allow the output views to "
        "be modified inplace. You should replace the inplace operation by an out-of-place one."
    )
    STALE_FUNCTION_VIEW = (
        "is a view and its base or another view of its base has been modified inplace. This view was created "
        "inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
        "view+inplace would override the custom backward associated with the custom Function, leading to "
        "incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the "
        "custom Function."
    )
    NO_GRAD_VIEW = (
        "created in no_grad mode and its base or another view of its base has been modified inplace with "
        "grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can "
        "clarify your code by moving both the view and the inplace either both inside the no_grad block (if "
        "you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
    )
    # torch/csrc/autograd/custom_function.cpp, `_process_backward_mode_ad`.
    NOT_RETURNED = (
        "Some elements marked as dirty during the forward method were not returned as output. The inputs "
        "that are modified inplace must all be outputs of the Function."
    )
    # torch/csrc/autograd/saved_variable.cpp, `set_hooks_and_pack_data`.
    PACK_WRITES = (
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
        f"{_CANNOT} be modified by in-place operations as this can lead to unexpected side-effects. Please "
        "open an issue if you need to perform in-place operations on the input to a pack hook."
    )
    # torch/csrc/autograd/python_saved_variable_hooks.cpp, `call_unpack_hook`, since 2.15.
    NOTHING_PACKED = "the pack hook raised before saving data for this tensor"
