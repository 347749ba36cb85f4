// The kernels over torch's own mutating operations: Python is asked only where a write may matter to somebody.
#pragma once
#include "common.h"

namespace unclobber::writes {

// Add the class `Kernel` to the module.
void add_to(PyObject* module);

// listen(listeners, told, settle): who is told of writes from now on.
PyObject* listen(PyObject* module, PyObject* arguments);

// Whether a listener follows memory that it need not hold: it has no saves waiting, and looks all the same.
bool follows_without_saves();

// lay(name, overload, packet, written, plain, bumps[, asleep]): a registered kernel, until its reset(). `written` are
// the positions of what it writes; nobody is told of none. Whether it is `x.op_(...)`; whether torch moves a counter.
// With `asleep`, which is called where the operation runs and nobody listens, it lies over torch's own kernel.
PyObject* lay(PyObject* module, PyObject* arguments);

}  // namespace unclobber::writes
