// The write kernels of torch's own mutating operations. They call Python only if a write may matter to a listener.
#pragma once
#include "common.h"

#include <memory>

namespace unclobber::saves {
class Queue;
}

namespace unclobber::writes {

// Add the class `Kernel` to the module.
void add_to(PyObject* module);

// listen(listeners, told, settle): set the listeners that are notified of writes from now on.
PyObject* listen(PyObject* module, PyObject* arguments);

// Whether this thread's writes reach the kernels, and let them do so or not.
bool are_seen();
void see(bool on);

// Whether a listener may have a save, or follows any memory. Under the interpreter's lock.
bool may_matter();

// The queue of the only listener that has saves, if none follows any memory; else NULL. Under the interpreter's lock.
std::shared_ptr<saves::Queue> only_queue();

// Whether a listener follows memory that it need not hold: it has no saves waiting, and looks all the same.
bool follows_without_saves();

// register_kernel(name, overload, packet, written, plain, of_elements, bumps[, ran_dormant]): register a kernel until the
// result's reset(). `written`: positions of the written arguments; listeners are notified if there are any. `plain`:
// whether it is `x.op_(...)`. `of_elements`: whether it changes elements of these, and no size, stride or memory.
// `bumps`: whether torch moves a counter. With `ran_dormant`, which is called if the operation runs without a listener,
// the kernel replaces torch's own.
PyObject* register_kernel(PyObject* module, PyObject* arguments);

}  // namespace unclobber::writes
