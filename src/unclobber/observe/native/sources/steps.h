// The steps of optimizers. While no save is alive, their writes go unobserved, and the last step is remembered instead.
#pragma once
#include "common.h"

namespace unclobber::steps {

// step_hooks(pending, anything_alive): the hooks (before, after) of `unclobber.observe.hooks.pause`. `pending` is a list
// that is empty if no autocast region is open, `anything_alive` returns whether a save is.
PyObject* hooks(PyObject* module, PyObject* arguments);

// steps(): [(optimizer, (stack, before, after))] of each optimizer's last step of that kind, with the version counters
// of its parameters before and after it.
PyObject* all(PyObject* module, PyObject* nothing);

// Whether this thread runs a step of an optimizer that got no closure, in which no code of the program's is expected.
bool runs_without_closure(const PyObject* optimizer);

// Forget the last steps. Under the interpreter's lock.
void forget();

}  // namespace unclobber::steps
