#include "stacks.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

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

uint64_t hash_of(const unclobber_frame* frames, int count) {
  uint64_t hash = 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(count);
  for (int i = 0; i < count; i++) {
    // only one multiplication waits for that of the frame before
    const uint64_t frame =
        reinterpret_cast<uint64_t>(frames[i].code) + static_cast<uint32_t>(frames[i].at) * 0xc4ceb9fe1a85ec53ull;
    hash = (hash ^ frame) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 29;
  }
  return hash;
}

bool is(const Stack* stack, const unclobber_frame* frames, int count) {
  return stack->count == count &&
         std::equal(frames, frames + count, stack->frames, [](const unclobber_frame& a, const unclobber_frame& b) {
           return a.code == b.code && a.at == b.at;
         });
}

// The stacks that this thread used last, each with a use, so that they are found without a lock.
struct Recent {
  static constexpr size_t kSlots = 64;
  Stack* slots[kSlots] = {};
  Operation* newest = nullptr;

  ~Recent() { forget(); }
  void forget() {
    for (Stack*& slot : slots) {
      if (slot != nullptr) slot->uses.fetch_sub(1, std::memory_order_release);
      slot = nullptr;
    }
    if (newest != nullptr) newest->leave();
    newest = nullptr;
  }
  Stack*& slot_of(uint64_t hash) { return slots[hash % kSlots]; }
};
thread_local Recent recent;

Stack* add(uint64_t hash, const unclobber_frame* frames, int count) {
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
  table().emplace(hash, made);
  return made;
}

// The stack of these frames, with a use for the caller.
Stack* the(Recent& mine, const unclobber_frame* frames, int count) {
  const uint64_t hash = hash_of(frames, count);
  Stack*& slot = mine.slot_of(hash);
  if (slot != nullptr && slot->hash == hash && is(slot, frames, count)) {
    return use(slot);
  }
  Stack* found = nullptr;
  {
    Locked locked;
    auto [at, end] = table().equal_range(hash);
    for (; at != end; ++at) {
      if (is(at->second, frames, count)) {
        found = use(at->second);
        break;
      }
    }
  }
  if (found == nullptr) found = add(hash, frames, count);
  if (slot != nullptr) slot->uses.fetch_sub(1, std::memory_order_release);
  slot = use(found);
  return found;
}

bool is_librarys(PyObject* code) {
  Owned answer = must(PyObject_CallOneArg(is_library, code));
  const int is = PyObject_IsTrue(answer.get());
  must(is);
  return is == 1;
}

bool all_librarys(Stack* stack) {
  int known = stack->library.load(std::memory_order_relaxed);
  if (known < 0) {
    known = with_gil([&] {
      for (int i = 0; i < stack->count; i++) {
        if (!is_librarys(stack->frames[i].code)) return 0;
      }
      return 1;
    });
    stack->library.store(known, std::memory_order_relaxed);
  }
  return known == 1;
}

// How many of `total` frames, all of which but the innermost 32 are a library's, belong to a stack: down to the
// program's first one. The interpreter's lock is held.
int down_to_program(const unclobber_frame* frames, int total) {
  int count = kUsual;
  while (count < total && is_librarys(frames[count].code)) count++;
  return std::min(count + 1, total);
}

// The innermost 32 frames; down to the program's first one where all of those are a library's. NULL where they
// are those of the newest operation, and `node` is its number, too: an operation saves several tensors.
Stack* walked(Recent& mine, uint64_t node) {
  unclobber_frame frames[kUsual + kDeepest];
  int more = 0;
  PyThreadState* thread = PyGILState_GetThisThreadState();
  int count = unclobber_walk(thread, frames, kUsual, &more);
  const Operation* last = mine.newest;
  if (!more && last != nullptr && last->node == node && is(last->stack, frames, count)) return nullptr;
  Stack* stack = the(mine, frames, count);
  if (!more || is_library == nullptr) return stack;
  try {
    if (!all_librarys(stack)) return stack;
    const int total = unclobber_walk(thread, frames, kUsual + kDeepest, &more);
    count = with_gil([&] { return down_to_program(frames, total); });
  } catch (...) {
    stack->uses.fetch_sub(1, std::memory_order_release);
    throw;
  }
  stack->uses.fetch_sub(1, std::memory_order_release);
  return the(mine, frames, count);
}

// (code, lasti, code, lasti, ...)
Owned tuple_of(const unclobber_frame* frames, int count) {
  Owned made = must(PyTuple_New(2 * static_cast<Py_ssize_t>(count)));
  for (int i = 0; i < count; i++) {
    PyTuple_SET_ITEM(made.get(), 2 * i, Py_NewRef(frames[i].code));
    PyTuple_SET_ITEM(made.get(), 2 * i + 1, must(PyLong_FromLong(frames[i].at)).release());
  }
  return made;
}

bool all_librarys(const unclobber_frame* frames, int count) {
  return std::all_of(frames, frames + count, [](const unclobber_frame& one) { return is_librarys(one.code); });
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
  stack->uses.fetch_sub(1, std::memory_order_release);
  drop_later(tuple_.load(std::memory_order_relaxed));
}

PyObject* Operation::tuple() {
  PyObject* known = tuple_.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  Owned made = tuple_of(stack->frames, stack->count);
  // another thread may have made it meanwhile, because making these objects can release the lock
  if (tuple_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return made.release();
  return known;
}

Operation* current(bool* fresh) {
  const uint64_t node = at::sequence_number::peek();
  Recent& mine = recent;  // once, because each access of a thread-local costs a call
  Stack* stack = walked(mine, node);
  Operation* last = mine.newest;
  *fresh = stack != nullptr && (last == nullptr || last->stack != stack || last->node != node);
  if (*fresh) {
    Operation* made = nullptr;
    try {
      made = new Operation(stack, node);
    } catch (...) {
      stack->uses.fetch_sub(1, std::memory_order_release);
      throw;
    }
    if (last != nullptr) last->leave();
    mine.newest = last = made;
  } else if (stack != nullptr) {
    stack->uses.fetch_sub(1, std::memory_order_release);
  }
  last->use();
  return last;
}

Operation* newest() { return recent.newest; }

void learn(PyObject* library, PyObject* package) {
  Py_XDECREF(std::exchange(is_library, Py_NewRef(library)));
  Py_XDECREF(std::exchange(ours, Py_NewRef(package)));
}

namespace {

// Frames from the innermost one outside of this package on: as many as the program's stack has.
struct Programs {
  unclobber_frame all[kAboveProgram + kUsual + kDeepest];
  const unclobber_frame* frames = all;
  int count = 0;

  Programs() {
    PyThreadState* thread = PyGILState_GetThisThreadState();
    int more = 0, above = 0;
    int walked = unclobber_walk(thread, all, kUsual + 1, &more);
    if (walked > kUsual || (walked > 0 && is_ours(all[0]))) {
      walked = unclobber_walk(thread, all, kAboveProgram + kUsual + kDeepest, &more);
    }
    while (above < walked && is_ours(all[above])) above++;
    frames = all + above;
    const int total = std::min(walked - above, kUsual + kDeepest);
    count = std::min(total, kUsual);
    if (total > kUsual) {
      count = with_gil([&] { return all_librarys(frames, kUsual) ? down_to_program(frames, total) : kUsual; });
    }
  }
};

}  // namespace

Stack* of_programs() {
  const Programs programs;
  return the(recent, programs.frames, programs.count);
}

void leave(Stack* stack) { stack->uses.fetch_sub(1, std::memory_order_release); }

PyObject* tuple_of(const Stack* stack) { return tuple_of(stack->frames, stack->count).release(); }

PyObject* of_program(PyObject*, PyObject*) {
  const Programs programs;
  return tuple_of(programs.frames, programs.count).release();
}

void sweep(bool all) {
  if (all) recent.forget();
  std::vector<Stack*> unused;
  {
    Locked locked;
    if (!all && table().size() <= limit) return;
    for (auto at = table().begin(); at != table().end();) {
      if (at->second->uses.load(std::memory_order_acquire) == 0) {
        unused.push_back(at->second);
        at = table().erase(at);
      } else {
        ++at;
      }
    }
    limit = 2 * table().size() + kFirstSweep;
  }
  for (Stack* stack : unused) {
    for (int i = 0; i < stack->count; i++) Py_DECREF(stack->frames[i].code);
    delete[] stack->frames;
    delete stack;
  }
}

size_t known() {
  Locked locked;
  return table().size();
}

}  // namespace unclobber::stacks
