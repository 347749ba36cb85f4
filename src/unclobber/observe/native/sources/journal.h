// Writes to memory that live saves share, noted without Python, and filed by unclobber/observe/record/ledger.py when it
// is asked for a save of that memory.
#pragma once
#include "saves.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>

namespace unclobber::saves {

// Where a tensor lies in its storage.
struct Geometry {
  int64_t offset;
  c10::SmallVector<int64_t, 4> sizes, strides;
  c10::ScalarType type;
  int64_t nbytes;  // expanded dimensions count once

  explicit Geometry(const at::Tensor& tensor);
  bool operator==(const Geometry& other) const {
    return offset == other.offset && type == other.type && sizes == other.sizes && strides == other.strides;
  }
};

// The bytes that a write destroyed, in the account of a session while they are kept here.
struct Copied {
  Copied(std::shared_ptr<Account> account, const at::Tensor& tensor, int64_t nbytes);
  ~Copied();
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;
  // A tensor of them, which owns them, and leaves the account.
  static at::Tensor tensor_of(std::shared_ptr<Copied> copied, const Geometry& geometry);

  std::unique_ptr<char[]> bytes;
  c10::SmallVector<int64_t, 4> strides;  // in elements
  std::shared_ptr<Account> account;
  int64_t nbytes;
};

// A write, just before it ran. Whatever of it is still needed is owned by saves.
struct Write {
  PyObject* operation;  // an interned name that lives as long as the process
  stacks::Stack* stack;
  PyObject* actor;  // owned
  int64_t version;
  int64_t counter;  // of the newest save
  Geometry geometry;
  std::weak_ptr<Copied> copied;
};

struct Journal {
  std::vector<Write> writes;
  std::vector<std::pair<int, stacks::Stack*>> dead;  // `Noted::since` and stack of saves that have died, each once
  ~Journal();
};

// What noted writes did to a save.
struct Noted {
  int since;     // the number of writes in the journal when it was made
  bool moved;    // whether its counter had moved before the first of them
  bool whole = false;    // whether all of it is copied
  int64_t recorded = 0;  // bytes that are
  at::Tensor original;   // what a report shows
  decltype(torch::autograd::get_current_node()) maker;  // the node that made it, before the first of them
  int output = 0;  // its number among that node's
  std::vector<std::shared_ptr<Copied>> copied;
};

// A save that a write is about to meet first, and what must not die under `Locked`.
struct Fresh {
  Save* save;
  std::unique_ptr<Noted> noted;
  at::Tensor origin, held;
};

// Take over pairs of a code that calls a module or makes an optimizer's step, and whether it is a step.
void learn_callers(PyObject* codes);

// A weak reference to the innermost module whose code runs, owned, as `frames.actor` finds it; NULL if there is none.
// `is_step` is set if an optimizer makes a step with a closure, which only Python can tell from its own code.
PyObject* actor(bool* is_step);

}  // namespace unclobber::saves
