// Sessions whose hooks are innermost without being pushed on torch's stack of hooks.
#pragma once
#include "common.h"

#include <cstddef>

namespace unclobber::engine {

// hook(on): install or remove the wrapping engine, which torch calls for the hooks of each save. Returns whether it
// is installed.
PyObject* hook(PyObject* module, PyObject* on);

// enter(queue, sees): this thread saves for `queue` from now on. leave(queue): no more.
PyObject* enter(PyObject* module, PyObject* arguments);
PyObject* leave(PyObject* module, PyObject* queue);

// is_innermost(queue): whether what this thread saves now goes to `queue`.
PyObject* is_innermost(PyObject* module, PyObject* queue);

// pushes(): the program is about to push hooks of its own in this thread, which become the innermost ones.
PyObject* pushes(PyObject* module, PyObject* nothing);

}  // namespace unclobber::engine
