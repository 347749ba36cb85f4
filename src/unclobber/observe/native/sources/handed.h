// `ctx.saved_tensors` with the program's own tensors in place of those that torch makes from unpacked values.
#pragma once
#include "common.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

namespace unclobber::handed {

// The ctx of a custom Function's node; NULL for other nodes. Borrowed.
PyObject* function_of(const torch::autograd::Node* node);

// Whether this thread is reading `ctx.saved_tensors`.
bool asked();

// Note that a save is unpacked; its tensor is undefined if it has died.
void note(at::Tensor origin);

PyObject* saved_tensors(PyObject*, PyObject* arguments);

}  // namespace unclobber::handed
