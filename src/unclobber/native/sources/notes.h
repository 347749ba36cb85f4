// Who asked for what a node saved: where its operation ran, and which backward. The core in Python has this in
// unclobber/hooks/_node_notes.py, which takes the interpreter's lock.
#pragma once
#include "common.h"
#include "stacks.h"

namespace unclobber::notes {

// The node that runs in this thread asks for what its operation has saved.
void note(stacks::Operation* operation);

// mark(mark): the backward that asks from now on, or None where that is not known.
PyObject* mark(PyObject* module, PyObject* mark);

// note_of(node): (stack, mark), or None.
PyObject* note_of(PyObject* module, PyObject* node);

// Forget all.
void forget();

size_t known();

}  // namespace unclobber::notes
