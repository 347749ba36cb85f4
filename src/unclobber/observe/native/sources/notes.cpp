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

// The backward that unpacks from one note on.
struct Mark {
  PyObject* object;  // owned
  uint64_t first;    // the place of that note
};

// All under `Locked`, the oldest first. A node may have several notes: they are looked up for reports alone, and the
// newest counts. The note at place i is notes[i % notes.size()].
struct All {
  std::vector<Note> notes = std::vector<Note>(kAtLeast);
  uint64_t begin = 0, end = 0;
  std::deque<Mark> marks;

  Note& at(uint64_t place) { return notes[place & (notes.size() - 1)]; }
  size_t size() const { return end - begin; }
  void add(const Note& note) {
    if (size() == notes.size()) grow();
    at(end++) = note;
  }
  UNCLOBBER_COLD void grow() {
    std::vector<Note> more(2 * notes.size());
    for (uint64_t i = begin; i != end; i++) more[i & (more.size() - 1)] = at(i);
    notes.swap(more);
  }
  void drop_oldest() {
    begin++;
    drop_marks();
  }
  // All that are no note's any more, but for the last.
  void drop_marks() {
    while (marks.size() > 1 && marks[1].first <= begin) {
      drop_later_locked(marks.front().object);
      marks.pop_front();
    }
  }
  void set(PyObject* object) {
    if (!marks.empty() && marks.back().first == end) {
      drop_later_locked(std::exchange(marks.back().object, object));
    } else {
      marks.push_back({object, end});
    }
  }
  PyObject* mark_of(uint64_t place) const {
    auto at = std::find_if(marks.rbegin(), marks.rend(), [&](const Mark& mark) { return mark.first <= place; });
    return at == marks.rend() ? nullptr : at->object;
  }
};
All& all() {
  static auto* made = new All;
  return *made;
}
size_t since = 0;  // notes since the mark was set
// A backward that began at a node: the newest of all, oldest first.
struct Start {
  const Node* node;
  uint64_t number;
  uint64_t thread;
  PyObject* mark;  // owned
};
std::deque<Start>& starts() {
  static auto* made = new std::deque<Start>;
  return *made;
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

Note of_running(stacks::Stack* stack) {
  const auto current = torch::autograd::get_current_node();
  const Node* node = current.get();
  if (node == nullptr) return {};
  const uint64_t number = node->sequence_nr();
  const uint64_t of_mark = serial.load(std::memory_order_relaxed);
  if (last.node == node && last.number == number && last.stack == stack && last.serial == of_mark) return {};
  last = {node, number, stack, of_mark};
  return {node, number, node->thread_id(), stack};
}

void add(const Note& note) {
  All& those = all();
  those.add(note);
  since++;
  // no notes of the running backward, because they are looked up while it runs
  for (int count = 0; those.size() > std::max(limit, 2 * since) && count < 3; count++) those.drop_oldest();
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
  Py_INCREF(object);
  {
    Locked locked;
    all().set(object);
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
  Py_INCREF(object);
  {
    Locked locked;
    starts().push_back({node, number, node->thread_id(), object});
    if (starts().size() > kAtLeast) {
      drop_later_locked(starts().front().mark);
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
      found[count++] = Owned::borrowed(at->mark);
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
    All& those = all();
    for (uint64_t place = those.end; place-- != those.begin && stack == nullptr;) {
      const Note& note = those.at(place);
      if (note.node != node || note.number != node->sequence_nr() || note.thread != node->thread_id()) continue;
      stack = stacks::use(note.stack);
      if (PyObject* mark = those.mark_of(place)) of_mark = Owned::borrowed(mark);
    }
  }
  if (stack == nullptr) return Py_NewRef(Py_None);
  Owned frames(stacks::tuple_of(stack));
  stacks::leave(stack);
  return must(PyTuple_Pack(2, frames.get(), of_mark.get())).release();
}

void each_stack(void (*look)(stacks::Stack*)) {
  for (uint64_t place = all().begin; place != all().end; place++) look(all().at(place).stack);
}

void forget() {
  Locked locked;
  All& those = all();
  those.begin = those.end;
  those.notes = std::vector<Note>(kAtLeast);
  those.drop_marks();
  for (const Start& start : starts()) drop_later_locked(start.mark);
  starts().clear();
  limit = kAtLeast;
  since = 0;
}

size_t known() {
  Locked locked;
  return all().size();
}

}  // namespace unclobber::notes
