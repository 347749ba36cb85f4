#include "stacks.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "notes.h"

namespace unclobber::stacks {

namespace {

constexpr int kUsual = 32;  // as in unclobber/source/frames.py
constexpr int kDeepest = 200;
constexpr size_t kFirstSweep = 4096;

using Table = std::unordered_multimap<uint64_t, Stack*>;

Table& table() {
  static auto* all = new Table;
  return *all;
}
size_t limit = kFirstSweep;
PyObject* is_library = nullptr;
PyObject* ours = nullptr;

bool same(const unclobber_hash& one, const unclobber_hash& other) {
  return one.one == other.one && one.other == other.other;
}

// The stacks that this thread used last, each with a use, so that they are found without a lock.
struct Recent {
  static constexpr size_t kSlots = 512;
  struct Slot {
    unclobber_hash hash = {};  // the stack's, which need not be read to find it
    Stack* stack = nullptr;
    Stack* deeper = nullptr;  // what `walked` has found for `stack`, all of whose frames are a library's
  } slots[kSlots];
  Operation* newest = nullptr;

  ~Recent() { forget(); }
  void forget() {
    for (Slot& slot : slots) put(slot, nullptr);
    if (newest != nullptr) newest->leave();
    newest = nullptr;
  }
  Slot& slot_of(const unclobber_hash& hash) { return slots[(hash.one ^ hash.one >> 32) % kSlots]; }
  // The stack of this number, borrowed, if it is among them.
  Stack* known(const unclobber_hash& hash) {
    const Slot& slot = slot_of(hash);
    return slot.stack != nullptr && same(slot.hash, hash) ? slot.stack : nullptr;
  }
  static void put(Slot& slot, Stack* stack) {
    if (slot.stack != nullptr) leave(slot.stack);
    if (slot.deeper != nullptr) leave(slot.deeper);
    slot = {stack == nullptr ? unclobber_hash{} : stack->hash, stack, nullptr};
  }
};

// By a pointer, because each access of a thread-local that has a destructor costs two calls.
thread_local Recent* recent_or_null = nullptr;

UNCLOBBER_COLD Recent& begin_recent() {
  static thread_local Recent mine;
  return *(recent_or_null = &mine);
}

Recent& recent() { return recent_or_null != nullptr ? *recent_or_null : begin_recent(); }

UNCLOBBER_COLD Stack* add(const unclobber_hash& hash, const unclobber_frame* frames, int count) {
  Gil gil;  // for the code objects
  sweep(false);
  auto* made = new Stack;
  made->frames = new unclobber_frame[static_cast<size_t>(count)];
  std::copy(frames, frames + count, made->frames);
  made->hash = hash;
  made->count = count;
  for (int i = 0; i < count; i++) Py_INCREF(frames[i].code);
  made->uses = 1;
  Locked locked;
  table().emplace(hash.one, made);
  return made;
}

// The stack of these frames, with a use for the caller.
UNCLOBBER_COLD Stack* the(Recent& mine, const unclobber_frame* frames, int count) {
  const unclobber_hash hash = unclobber_hash_of(frames, count);
  if (Stack* known = mine.known(hash)) return use(known);
  Stack* found = nullptr;
  {
    Locked locked;
    auto [at, end] = table().equal_range(hash.one);
    while (at != end && !same(at->second->hash, hash)) ++at;
    if (at != end) found = use(at->second);
  }
  if (found == nullptr) found = add(hash, frames, count);
  Recent::put(mine.slot_of(hash), use(found));
  return found;
}

bool is_librarys(PyObject* code) {
  Owned answer = must(PyObject_CallOneArg(is_library, code));
  const int is = PyObject_IsTrue(answer.get());
  must(is);
  return is == 1;
}

UNCLOBBER_COLD bool look_for_librarys(Stack* stack) {
  if (is_library == nullptr) return false;
  try {
    const bool all = with_gil([&] {
      return std::all_of(stack->frames, stack->frames + stack->count,
                         [](const unclobber_frame& one) { return is_librarys(one.code); });
    });
    stack->library.store(all ? 1 : 0, std::memory_order_relaxed);
    return all;
  } catch (...) {
    leave(stack);
    throw;
  }
}

// Whether all frames of a stack are a library's. Takes over a use of it if that raises.
bool all_librarys(Stack* stack) {
  const int known = stack->library.load(std::memory_order_relaxed);
  return known < 0 ? look_for_librarys(stack) : known == 1;
}

// The stack of these frames: the innermost 32, and those down to the program's first one if all of them are a
// library's. Takes over a use of `stack`, which has the innermost 32.
UNCLOBBER_COLD Stack* down_to_program(Recent& mine, Stack* stack, const unclobber_frame* frames, int total) {
  Stack* known = mine.slot_of(stack->hash).deeper;
  if (known != nullptr && known->count <= total &&
      same(known->hash, unclobber_hash_of(frames, known->count))) {
    leave(stack);
    return use(known);
  }
  int count = kUsual;
  bool ends = false;
  try {
    with_gil([&] {
      while (!ends && count < total) ends = !is_librarys(frames[count++].code);
    });
  } catch (...) {
    leave(stack);
    throw;
  }
  Stack* deeper = the(mine, frames, count);
  Recent::Slot& slot = mine.slot_of(stack->hash);
  if (ends && slot.stack == stack) {
    if (slot.deeper != nullptr) leave(slot.deeper);
    slot.deeper = use(deeper);
  }
  leave(stack);
  return deeper;
}

// The innermost frames, as above. NULL where they are those of the newest operation, and `node` is its number, too: an
// operation saves several tensors.
Stack* walked(Recent& mine, uint64_t node) {
  unclobber_frame frames[kUsual + kDeepest];
  int more = 0;
  PyThreadState* thread = PyGILState_GetThisThreadState();
  const unclobber_hash hash = unclobber_peek(thread, kUsual, &more);
  const Operation* last = mine.newest;
  if (!more && last != nullptr && last->node == node && same(last->stack->hash, hash)) return nullptr;
  Stack* stack = mine.known(hash);
  if (stack != nullptr) {
    use(stack);
  } else {
    const int count = unclobber_walk(thread, frames, kUsual, &more);
    stack = the(mine, frames, count);
  }
  if (!more || !all_librarys(stack)) return stack;
  Stack* deeper = mine.slot_of(stack->hash).deeper;
  if (deeper != nullptr && same(deeper->hash, unclobber_peek(thread, deeper->count, &more))) {
    leave(stack);
    return use(deeper);
  }
  return down_to_program(mine, stack, frames, unclobber_walk(thread, frames, kUsual + kDeepest, &more));
}

// (code, lasti, code, lasti, ...)
Owned tuple_of(const unclobber_frame* frames, int count) {
  Owned made = must(PyTuple_New(2 * static_cast<Py_ssize_t>(count)));
  for (int i = 0; i < count; i++) {
    PyTuple_SET_ITEM(made.get(), 2 * i, Py_NewRef(frames[i].code));
    PyTuple_SET_ITEM(made.get(), 2 * i + 1, must(PyLong_FromLong(unclobber_at(&frames[i]))).release());
  }
  return made;
}

// Whether a frame runs code of this package's own.
bool is_ours(const unclobber_frame& frame) {
  PyObject* file = reinterpret_cast<PyCodeObject*>(frame.code)->co_filename;
  return ours != nullptr && PyUnicode_Tailmatch(file, ours, 0, PY_SSIZE_T_MAX, -1) == 1;
}

constexpr int kAboveProgram = 64;  // frames of this package's own, over the program's

}  // namespace

void Operation::leave() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Operation::~Operation() {
  stacks::leave(stack);
  if (PyObject* made = tuple_.load(std::memory_order_relaxed)) drop_later(made);
}

PyObject* Operation::tuple() {
  PyObject* known = tuple_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  Owned made = tuple_of(stack->frames, stack->count);
  // another thread may have made it meanwhile, because making these objects can release the lock
  if (tuple_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return made.release();
  return known;
}

UNCLOBBER_HOT Operation* current(bool* fresh) {
  const uint64_t node = at::sequence_number::peek();
  Recent& mine = recent();
  Stack* stack = walked(mine, node);
  Operation* last = mine.newest;
  *fresh = stack != nullptr && (last == nullptr || last->stack != stack || last->node != node);
  if (*fresh) {
    Operation* made = nullptr;
    try {
      made = new Operation(stack, node);
    } catch (...) {
      stacks::leave(stack);
      throw;
    }
    if (last != nullptr) last->leave();
    mine.newest = last = made;
  } else if (stack != nullptr) {
    stacks::leave(stack);
  }
  last->use();
  return last;
}

Operation* newest() { return recent().newest; }

void learn(PyObject* library, PyObject* package) {
  Py_XDECREF(std::exchange(is_library, Py_NewRef(library)));
  Py_XDECREF(std::exchange(ours, Py_NewRef(package)));
}

Stack* of_programs() {
  unclobber_frame all[kAboveProgram + kUsual + kDeepest];
  PyThreadState* thread = PyGILState_GetThisThreadState();
  int more = 0, above = 0;
  int walked = unclobber_walk(thread, all, kUsual + 1, &more);
  if (walked > kUsual || (walked > 0 && is_ours(all[0]))) {
    walked = unclobber_walk(thread, all, kAboveProgram + kUsual + kDeepest, &more);
  }
  while (above < walked && is_ours(all[above])) above++;
  const int total = std::min(walked - above, kUsual + kDeepest);
  Recent& mine = recent();
  Stack* stack = the(mine, all + above, std::min(total, kUsual));
  return total <= kUsual || !all_librarys(stack) ? stack : down_to_program(mine, stack, all + above, total);
}

PyObject* tuple_of(const Stack* stack) { return tuple_of(stack->frames, stack->count).release(); }

PyObject* of_program(PyObject*, PyObject*) {
  Stack* stack = of_programs();
  if (stack->tuple == nullptr) {
    Owned made(tuple_of(stack));
    if (stack->tuple == nullptr) stack->tuple = made.release();  // as in `Operation::tuple`
  }
  PyObject* frames = Py_NewRef(stack->tuple);
  leave(stack);
  return frames;
}

void sweep(bool all) {
  if (all) recent().forget();
  std::vector<Stack*> unused;
  {
    Locked locked;
    if (!all && table().size() <= limit) return;
    notes::each_stack([](Stack* stack) { use(stack); });
    for (auto at = table().begin(); at != table().end();) {
      if (at->second->uses.load(std::memory_order_acquire) == 0) {
        unused.push_back(at->second);
        at = table().erase(at);
      } else {
        ++at;
      }
    }
    notes::each_stack([](Stack* stack) { leave(stack); });
    limit = 2 * table().size() + kFirstSweep;
  }
  for (Stack* stack : unused) {
    for (int i = 0; i < stack->count; i++) Py_DECREF(stack->frames[i].code);
    Py_XDECREF(stack->tuple);
    delete[] stack->frames;
    delete stack;
  }
}

size_t known() {
  Locked locked;
  return table().size();
}

}  // namespace unclobber::stacks
