#include "steps.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "stacks.h"
#include "writes.h"

namespace unclobber::steps {

namespace {

using Counters = std::vector<int64_t>;

// An optimizer's last step that went unobserved. All under the interpreter's lock.
struct Step {
  Owned optimizer;  // a weak reference
  stacks::Stack* stack;
  Counters before, after;
};

std::vector<Step>& steps() {
  static auto* all = new std::vector<Step>;
  return *all;
}

// This thread's running step. One that another calls is part of it, as SGD's in SAM's without a closure.
struct Running {
  const PyObject* optimizer = nullptr;  // not owned: the one that has paused
  stacks::Stack* stack = nullptr;
  Counters before;

  ~Running() { put(nullptr); }
  void put(stacks::Stack* other) {
    if (stack != nullptr) stacks::leave(stack);
    stack = other;
  }
};
thread_local Running running;

// The optimizers of this thread's running steps that got no closure; not owned. After a step that raised, the optimizer
// is here until its next step.
thread_local std::vector<const PyObject*> without_closure;

void count(PyObject* optimizer, Counters& counters) {
  static PyObject* const groups_name = PyUnicode_InternFromString("param_groups");
  static PyObject* const name = PyUnicode_InternFromString("params");
  counters.clear();
  Owned groups = must(PySequence_Fast(must(PyObject_GetAttr(optimizer, groups_name)).get(), "no groups"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(groups.get()); i++) {
    Owned group = must(PyObject_GetItem(PySequence_Fast_GET_ITEM(groups.get(), i), name));
    Owned parameters = must(PySequence_Fast(group.get(), "no parameters"));
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(parameters.get()); j++) {
      PyObject* parameter = PySequence_Fast_GET_ITEM(parameters.get(), j);
      const bool counts = is_tensor(parameter) && !THPVariable_Unpack(parameter).is_inference();
      counters.push_back(counts ? static_cast<int64_t>(THPVariable_Unpack(parameter)._version()) : -1);
    }
  }
}

// With a closure the step runs forward and backward itself, and saves while it does. Accelerate passes a closure to
// every step, which is None (tests/trainers/test_accelerate.py).
bool has_closure(PyObject* args, PyObject* kwargs) {
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(args); i++) {
    if (PyTuple_GET_ITEM(args, i) != Py_None) return true;
  }
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, nullptr, &value);) {
    if (value != Py_None) return true;
  }
  return false;
}

bool is_true(PyObject* function) {
  Owned answer = must(PyObject_CallNoArgs(function));
  const int is = PyObject_IsTrue(answer.get());
  must(is);
  return is == 1;
}

void forget_call(const PyObject* optimizer) {
  without_closure.erase(std::remove(without_closure.begin(), without_closure.end(), optimizer), without_closure.end());
}

// The hooks are called with the optimizer, and a tuple and a dict of the step's arguments.
PyObject* before(PyObject* parts, PyObject* arguments) {
  PyObject *optimizer, *args, *kwargs;
  if (!PyArg_ParseTuple(arguments, "OO!O!", &optimizer, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) {
    throw python_error();
  }
  const bool closed = has_closure(args, kwargs);
  forget_call(optimizer);
  if (!closed) without_closure.push_back(optimizer);
  if (!writes::are_seen()) return Py_NewRef(Py_None);
  running.optimizer = nullptr;
  if (!closed && PyList_GET_SIZE(PyTuple_GET_ITEM(parts, 0)) == 0 &&
      !(writes::may_matter() && is_true(PyTuple_GET_ITEM(parts, 1)))) {
    running.put(stacks::of_programs());
    count(optimizer, running.before);
    running.optimizer = optimizer;
    writes::see(false);
  }
  return Py_NewRef(Py_None);
}

PyObject* after(PyObject*, PyObject* arguments) {
  PyObject* optimizer = PyTuple_GetItem(arguments, 0);
  if (optimizer == nullptr) throw python_error();
  forget_call(optimizer);
  if (optimizer != running.optimizer) return Py_NewRef(Py_None);
  running.optimizer = nullptr;
  writes::see(true);
  Counters counters;
  count(optimizer, counters);
  Owned reference = must(PyWeakref_NewRef(optimizer, nullptr));  // the same one each time
  auto& all = steps();
  auto at = std::find_if(all.begin(), all.end(),
                         [&](const Step& step) { return step.optimizer.get() == reference.get(); });
  if (at == all.end()) {
    std::vector<Step> dead;  // to be freed at the end, because that may run Python
    at = std::partition(all.begin(), all.end(),
                        [](const Step& step) { return PyWeakref_GET_OBJECT(step.optimizer.get()) != Py_None; });
    std::move(at, all.end(), std::back_inserter(dead));
    all.erase(at, all.end());
    for (Step& step : dead) stacks::leave(step.stack);
    all.push_back({std::move(reference), nullptr, {}, {}});
    at = all.end() - 1;
  }
  std::swap(at->stack, running.stack);
  at->before.swap(running.before);
  at->after.swap(counters);
  return Py_NewRef(Py_None);
}

PyMethodDef before_method{"before_step", entry<before>, METH_VARARGS, "before_step(optimizer, args, kwargs)"};
PyMethodDef after_method{"after_step", entry<after>, METH_VARARGS, "after_step(optimizer, args, kwargs)"};

Owned list_of(const Counters& counters) {
  Owned list = must(PyList_New(0));
  for (int64_t one : counters) must(PyList_Append(list.get(), must(PyLong_FromLongLong(one)).get()));
  return list;
}

}  // namespace

PyObject* hooks(PyObject*, PyObject* parts) {
  PyObject *pending, *anything_alive;
  if (!PyArg_ParseTuple(parts, "O!O", &PyList_Type, &pending, &anything_alive)) throw python_error();
  Owned first = must(PyCFunction_New(&before_method, parts)), last = must(PyCFunction_New(&after_method, nullptr));
  return must(PyTuple_Pack(2, first.get(), last.get())).release();
}

bool runs_without_closure(const PyObject* optimizer) {
  return std::find(without_closure.begin(), without_closure.end(), optimizer) != without_closure.end();
}

PyObject* all(PyObject*, PyObject*) {
  struct Seen {
    Owned optimizer, before, after, stack;
  };
  std::vector<Seen> seen;
  seen.reserve(steps().size());
  // Python objects may be freed while others are made, and steps be added: by position, which only grows.
  for (size_t i = 0; i < steps().size(); i++) {
    PyObject* optimizer = PyWeakref_GET_OBJECT(steps()[i].optimizer.get());
    if (optimizer == Py_None) continue;
    Owned held = Owned::borrowed(optimizer);
    const Counters before = steps()[i].before, after = steps()[i].after;
    stacks::Stack* stack = stacks::use(steps()[i].stack);
    Owned frames(stacks::tuple_of(stack));
    stacks::leave(stack);
    seen.push_back({std::move(held), list_of(before), list_of(after), std::move(frames)});
  }
  Owned list = must(PyList_New(0));
  for (const Seen& one : seen) {
    Owned item = must(Py_BuildValue("(O(OOO))", one.optimizer.get(), one.stack.get(), one.before.get(), one.after.get()));
    must(PyList_Append(list.get(), item.get()));
  }
  return list.release();
}

void forget() {
  std::vector<Step> forgotten;
  forgotten.swap(steps());
  for (const Step& step : forgotten) stacks::leave(step.stack);
}

}  // namespace unclobber::steps
