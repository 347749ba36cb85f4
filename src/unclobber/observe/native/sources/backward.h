// The engine's calls, numbered and noted without Python: `unclobber.observe.hooks.backward.BackwardCalls`.
#pragma once
#include "common.h"

namespace unclobber::backward {

// observe_backward(calls, marker, of_thread, call, mark, may_pause): what begin and end work on. `calls` is the
// BackwardCalls, of_thread() returns two lists of this thread: its running calls, and its last marks. `call` and `mark`
// are the classes of these, may_pause() is Python's answer.
PyObject* observe(PyObject* module, PyObject* parts);

// backward_begin(call): number a call of the program. None for an internal one of torch.
PyObject* begin(PyObject* module, PyObject* call);
// backward_end(running, call)
PyObject* end(PyObject* module, PyObject* arguments);

// hook_known(known): whether Python may run in backward, because a hook is registered.
PyObject* hook_known(PyObject* module, PyObject* known);
// hook_registered(...): one is registered now.
PyObject* hook_registered(PyObject* module, PyObject* const* arguments, Py_ssize_t count, PyObject* names);

}  // namespace unclobber::backward
