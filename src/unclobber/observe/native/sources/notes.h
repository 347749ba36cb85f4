// The last unpack of each node: where its operation ran, and which backward unpacked. The Python core keeps this
// in unclobber/observe/hooks/_node_notes.py, which takes the interpreter's lock.
#pragma once
#include "common.h"
#include "stacks.h"

namespace unclobber::notes {

// Note that the node that runs in this thread unpacks what its operation has saved.
void note(stacks::Stack* stack);

// Note that `mark` is the backward that begins at a root, a tensor or an edge. Return the number of its node plus one, or
// 0 if there is none.
uint64_t started(PyObject* root, PyObject* mark);
// backward_started_at(node): the marks of the last two that began there, oldest first.
PyObject* started_at(PyObject* module, PyObject* node);

// mark(mark, call): set the backward that unpacks from now on, None if it is not known, and the one that this thread
// runs, or None.
PyObject* mark(PyObject* module, PyObject* arguments);

void set(PyObject* mark, PyObject* call);

// The call that this thread runs; NULL if none is known. Borrowed.
PyObject* running_call();

// note_of(node): (stack, mark), or None.
PyObject* note_of(PyObject* module, PyObject* node);

// Forget all.
void forget();

size_t known();

}  // namespace unclobber::notes
