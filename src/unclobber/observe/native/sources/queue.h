// `unclobber.observe.record`'s save queue as a Python object, in place of the Python core's `collections.deque`.
#pragma once
#include "common.h"

#include <memory>

namespace unclobber::saves {
class Queue;
}

namespace unclobber::queue {

// Add the class `Queue` to the module.
void add_to(PyObject* module);

bool is(PyObject* object);

// The queue of such an object; raises TypeError for another.
std::shared_ptr<saves::Queue> of(PyObject* object);

}  // namespace unclobber::queue
