// The newest writes that views may have missed: unclobber/observe/record/_view_writes.py, for writes that Python does not
// see.
#pragma once
#include "stacks.h"

#include <ATen/core/Tensor.h>

namespace unclobber::views {

// Note that `target` is about to be written. Takes over a use of `stack`.
void note(const at::Tensor& target, PyObject* operation, stacks::Stack* stack);

// view_write(view): (operation, stack) of the newest write to its memory, unless another may have come since; or None.
PyObject* last(PyObject* module, PyObject* view);

void forget();

}  // namespace unclobber::views
