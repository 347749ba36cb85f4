// `unclobber.record`'s queue of saves, as a Python object: what `collections.deque` is for the core in Python.
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
