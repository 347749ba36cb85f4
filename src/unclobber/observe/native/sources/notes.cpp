// A note refers to its node by address, number and thread, and keeps nothing of it alive: a weak reference would keep
// the node's memory, and with it the saved tensors. So a note may outlive its node, and the oldest
// are forgotten once there are many more than one backward leaves.
#include "notes.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace unclobber::notes {

namespace {

using torch::autograd::Node;
constexpr size_t kAtLeast = 256;

// A backward's mark, which many notes have in common.
struct Mark {
  std::atomic<long> users{1};
  PyObject* object;
  explicit Mark(PyObject* object) : object(object) {}
};

struct Note {
  const Node* node;
  uint64_t number;
  uint64_t thread;
  stacks::Stack* stack;
  Mark* mark;
};

// All under `Locked`, the oldest first. A node may have several: they are looked up for reports alone, and the newest
// counts.
std::deque<Note>& notes() {
  static auto* all = new std::deque<Note>;
  return *all;
}
Mark* now = nullptr;
size_t since = 0;  // notes since the mark was set
// A backward that began at a node: the newest of all, oldest first.
struct Start {
  const Node* node;
  uint64_t number;
  uint64_t thread;
  Mark* mark;
};
std::deque<Start>& starts() {
  static auto* all = new std::deque<Start>;
  return *all;
}
size_t limit = kAtLeast;  // about as many as the last backward left, and those of the running one
std::atomic<uint64_t> serial{0};  // of the mark

// This thread's last note, because a node unpacks several tensors in a row.
struct Last {
  const Node* node = nullptr;
  uint64_t number = 0;
  const stacks::Stack* stack = nullptr;
  uint64_t serial = 0;
};
thread_local Last last;
thread_local PyObject* running = nullptr;  // the backward that this thread runs, owned

void leave(Mark* mark) {
  if (mark != nullptr && mark->users.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    drop_later_locked(mark->object);
    delete mark;
  }
}

template <typename Pointer>
const Node* pointee(const Pointer& pointer) {
  if constexpr (requires { pointer.lock(); }) {
    return pointer.lock().get();
  } else {
    return pointer.get();
  }
}

const Node* node_of(PyObject* object) {
  if (torch::autograd::THPCppFunction_Check(object)) {
    return pointee(reinterpret_cast<torch::autograd::THPCppFunction*>(object)->cdata);
  }
  if (THPFunction_Check(object)) return pointee(reinterpret_cast<THPFunction*>(object)->cdata);
  return nullptr;
}

}  // namespace

void note(stacks::Stack* stack) {
  const auto current = torch::autograd::get_current_node();
  const Node* node = current.get();
  if (node == nullptr) return;
  const uint64_t number = node->sequence_nr();
  const uint64_t of_mark = serial.load(std::memory_order_relaxed);
  if (last.node == node && last.number == number && last.stack == stack && last.serial == of_mark) return;
  last = {node, number, stack, of_mark};
  Locked locked;
  Mark* mark = now;
  if (mark != nullptr) mark->users.fetch_add(1, std::memory_order_relaxed);
  notes().push_back({node, number, node->thread_id(), stacks::use(stack), mark});
  since++;
  // no notes of the running backward, because they are looked up while it runs
  for (int count = 0; notes().size() > std::max(limit, 2 * since) && count < 3; count++) {
    stacks::leave(notes().front().stack);
    leave(notes().front().mark);
    notes().pop_front();
  }
}

PyObject* running_call() { return running; }

PyObject* mark(PyObject*, PyObject* arguments) {
  PyObject *object, *call;
  if (!PyArg_ParseTuple(arguments, "OO", &object, &call)) throw python_error();
  set(object, call);
  return Py_NewRef(Py_None);
}

void set(PyObject* object, PyObject* call) {
  Owned before(std::exchange(running, call == Py_None ? nullptr : Py_NewRef(call)));
  auto* made = new Mark(Py_NewRef(object));
  {
    Locked locked;
    leave(std::exchange(now, made));
    limit = std::max({kAtLeast, limit / 2, 2 * since});
    since = 0;
  }
  serial.fetch_add(1, std::memory_order_relaxed);
  drop_now();
  stacks::sweep(false);
}

uint64_t started(PyObject* root, PyObject* object) {
  const Node* node = nullptr;
  if (is_tensor(root)) {
    const at::Tensor& tensor = THPVariable_Unpack(root);
    try {
      // as torch itself is about to read it: a new node for a view whose memory was written
      node = tensor.grad_fn().get();
    } catch (const c10::Error&) {  // torch is about to refuse that view
    }
  } else {
    static PyObject* const name_node = PyUnicode_InternFromString("node");
    node = node_of(must(PyObject_GetAttr(root, name_node)).get());
  }
  if (node == nullptr) return 0;
  const uint64_t number = node->sequence_nr();
  auto* made = new Mark(Py_NewRef(object));
  {
    Locked locked;
    starts().push_back({node, number, node->thread_id(), made});
    if (starts().size() > kAtLeast) {
      leave(starts().front().mark);
      starts().pop_front();
    }
  }
  return number == UINT64_MAX ? number : number + 1;
}

PyObject* started_at(PyObject*, PyObject* object) {
  const Node* node = node_of(object);
  Owned found[2];  // newest first
  int count = 0;
  {
    Locked locked;
    for (auto at = starts().rbegin(); node != nullptr && at != starts().rend() && count < 2; ++at) {
      if (at->node != node || at->number != node->sequence_nr() || at->thread != node->thread_id()) continue;
      found[count++] = Owned::borrowed(at->mark->object);
    }
  }
  Owned marks = must(PyTuple_New(count));
  for (int i = 0; i < count; i++) PyTuple_SET_ITEM(marks.get(), count - 1 - i, found[i].release());
  return marks.release();
}

PyObject* note_of(PyObject*, PyObject* object) {
  const Node* node = node_of(object);
  if (node == nullptr) return Py_NewRef(Py_None);
  stacks::Stack* stack = nullptr;
  Owned of_mark = Owned::borrowed(Py_None);
  {
    Locked locked;
    const auto known = std::find_if(notes().rbegin(), notes().rend(), [&](const Note& note) {
      return note.node == node && note.number == node->sequence_nr() && note.thread == node->thread_id();
    });
    if (known != notes().rend()) {
      stack = stacks::use(known->stack);
      if (known->mark != nullptr) of_mark = Owned::borrowed(known->mark->object);
    }
  }
  if (stack == nullptr) return Py_NewRef(Py_None);
  Owned frames(stacks::tuple_of(stack));
  stacks::leave(stack);
  return must(PyTuple_Pack(2, frames.get(), of_mark.get())).release();
}

void forget() {
  Locked locked;
  for (Note& note : notes()) {
    stacks::leave(note.stack);
    leave(note.mark);
  }
  notes().clear();
  for (Start& start : starts()) leave(start.mark);
  starts().clear();
  limit = kAtLeast;
  since = 0;
}

size_t known() {
  Locked locked;
  return notes().size();
}

}  // namespace unclobber::notes
