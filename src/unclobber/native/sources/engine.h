// Sessions that lie over torch's own hooks without being pushed on their stack.
#pragma once
#include "common.h"

#include <cstddef>

namespace unclobber::engine {

// hook(on): whether torch's engine asks ours for the hooks of each save. False where it can't be.
PyObject* hook(PyObject* module, PyObject* on);

// enter(queue, sees): this thread saves for `queue` from now on. leave(queue): no more.
PyObject* enter(PyObject* module, PyObject* arguments);
PyObject* leave(PyObject* module, PyObject* queue);

// is_innermost(queue): whether what this thread saves now goes to `queue`.
PyObject* is_innermost(PyObject* module, PyObject* queue);

// pushes(): the program is about to push hooks of its own in this thread, which will lie over ours.
PyObject* pushes(PyObject* module, PyObject* nothing);

}  // namespace unclobber::engine
