// The last unpack of each node: where its operation ran, and which backward unpacked. The Python core keeps this
// in unclobber/observe/hooks/_node_notes.py, which takes the interpreter's lock.
#pragma once
#include "common.h"
#include "stacks.h"

namespace torch::autograd {
struct Node;
}

namespace unclobber::notes {

// No use of its stack is counted, for that would be a line of memory more for each note: `stacks::sweep` asks for all.
struct Note {
  const torch::autograd::Node* node = nullptr;
  uint64_t number = 0;
  uint64_t thread = 0;
  stacks::Stack* stack = nullptr;
};

// That the node which runs in this thread unpacks what its operation has saved; without a node if there is none, or
// if this thread's last note says so already.
Note of_running(stacks::Stack* stack);
// Add a note. Under `Locked`.
void add(const Note& note);

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

// Call look(stack) for that of each note. Under `Locked`.
void each_stack(void (*look)(stacks::Stack*));

// Forget all.
void forget();

size_t known();

}  // namespace unclobber::notes
