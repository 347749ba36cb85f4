// The program's hooks of gradients, called without Python of this package's in between while no other consumer waits
// for a gradient: `unclobber.observe.hooks.gradients`.
#pragma once
#include "common.h"

namespace unclobber::hooks {

// watch_hooks(tensors, modules, place): the classes of what stands in for a hook, which get their `__call__` here, and
// the descriptor by which they hold it.
PyObject* watch(PyObject* module, PyObject* arguments);

// How many own a gradient that no other consumer waits for, in a tensor's hook, a module's pre-hook and a module's hook;
// -1 if unknown.
void learn(long of_tensor, long of_output, long of_input);

// registering(original): what is called in place of a function of torch's that registers a hook.
PyObject* registering(PyObject* module, PyObject* original);
// register_hook(patches, wrap, original), module_hooks(patches, wrap, original): what is called in place of
// `Tensor.register_hook` and `BackwardHook.__init__`, as `wrap(original)` does it.
PyObject* register_hook(PyObject* module, PyObject* arguments);
PyObject* module_hooks(PyObject* module, PyObject* arguments);

}  // namespace unclobber::hooks
