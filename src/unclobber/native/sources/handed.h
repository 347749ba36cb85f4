// The program's own tensors in place of those that torch makes of what its hooks hand out: `ctx.saved_tensors`.
#pragma once
#include "common.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

namespace unclobber::handed {

// The ctx of a custom Function, whose node it is; NULL for others. Borrowed.
PyObject* function_of(const torch::autograd::Node* node);

// Whether this thread asks for `ctx.saved_tensors` just now.
bool asked();

// A save is unpacked; its tensor is undefined where that is no more.
void note(at::Tensor origin);

PyObject* saved_tensors(PyObject*, PyObject* arguments);

}  // namespace unclobber::handed
