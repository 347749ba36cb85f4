// Stacks as `unclobber.source.frames` keeps them: each distinct one is kept once, and walked to without Python.
#pragma once
#include "common.h"
#include "frames.h"
#include "pool.h"

#include <atomic>
#include <cstdint>

namespace unclobber::stacks {

// A distinct stack, innermost frame first; the code objects are owned.
struct Stack {
  std::atomic<long> uses{0};  // the table of all that are known is no use
  unclobber_hash hash = {};
  int count = 0;
  std::atomic<int> library{-1};  // whether all frames are a library's; -1: not computed yet
  unclobber_frame* frames = nullptr;
  PyObject* tuple = nullptr;  // what `of_program` returns; under the interpreter's lock
};

// One run of an operation: what it saves has one tuple in common, which no other operation has.
class Operation : public Pooled<Operation> {
 public:
  // Takes over one use of `stack`; has one user then.
  Operation(Stack* stack, uint64_t node) : stack(stack), node(node) {}

  void use() { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave();
  // (code, lasti, code, lasti, ...), made once. The interpreter's lock is held; borrowed.
  PyObject* tuple();

  Stack* const stack;
  const uint64_t node;  // the number of the node after its own

 private:
  ~Operation();
  std::atomic<long> users_{1};
  std::atomic<PyObject*> tuple_{nullptr};
};

// The operation that this thread runs, to which the caller gets a use. It is the one of the last save while
// this thread has made no node since and its frames are the same; else a new one, and `fresh` is set.
Operation* current(bool* fresh);

// That of the last save of this thread; NULL where there is none. Borrowed.
Operation* newest();

// is_library(code): as in `unclobber.source.sites`. Files of this package begin with `ours`.
void learn(PyObject* is_library, PyObject* ours);

// The stack from the innermost frame outside of this package on, with a use for the caller. The interpreter's lock is
// held, or will be taken for a stack that is new.
Stack* of_programs();

// Give a use back.
inline void leave(Stack* stack) { stack->uses.fetch_sub(1, std::memory_order_release); }
// Become one more user. Under `Locked`, or a user already.
inline Stack* use(Stack* stack) {
  stack->uses.fetch_add(1, std::memory_order_relaxed);
  return stack;
}

// (code, lasti, code, lasti, ...); a new reference.
PyObject* tuple_of(const Stack* stack);

// of_program(): what `unclobber.source.frames.of_program` does.
PyObject* of_program(PyObject* module, PyObject* nothing);

// Forget unused stacks if many were added; with `all`, every unused one and this thread's memory of them. Under the
// interpreter's lock.
void sweep(bool all);

// How many distinct stacks are known.
size_t known();

}  // namespace unclobber::stacks
