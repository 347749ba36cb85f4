// The engine's calls, numbered and noted without Python: `unclobber.observe.hooks.backward.BackwardCalls`.
#pragma once
#include "common.h"

namespace unclobber::backward {

// observe_backward(calls, marker, call, mark, this_thread, may_pause, of_engines_thread): what begin and end work on.
// `calls` is the BackwardCalls, `call` and `mark` are the classes of these, the others are Python's answers.
PyObject* observe(PyObject* module, PyObject* parts);

// backward_begin(call): number a call of the program. None for an internal one of torch.
PyObject* begin(PyObject* module, PyObject* call);
// backward_end(running, call)
PyObject* end(PyObject* module, PyObject* arguments);

// engine_run(call, observer, engine, original, slowly): what is called in place of `original`, torch's call of the
// engine. `call` is the class EngineCall, `engine` has the subscribers, of which `observer` begins and ends calls here.
PyObject* engine_run(PyObject* module, PyObject* parts);

// hook_known(known): whether Python may run in backward, because a hook is registered.
PyObject* hook_known(PyObject* module, PyObject* known);
// One is registered now.
void hook_registered();

// Whether this is a thread of the engine's own, which runs a node for another one; takes the interpreter's lock.
bool works_for_another_thread();

}  // namespace unclobber::backward
