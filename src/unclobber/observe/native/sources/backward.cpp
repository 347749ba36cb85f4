#include "backward.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "notes.h"
#include "pause.h"
#include "stacks.h"
#include "writes.h"

namespace unclobber::backward {

namespace {

enum Part { kCalls, kMarker, kCall, kMark, kOfThread, kMayPause, kOfEngine, kParts };
PyObject* parts[kParts];  // borrowed from `of_parts`
PyObject* of_parts = nullptr;
PyObject* tracing = nullptr;  // torch's thread-local of its tracer
PyObject* running = nullptr;  // the list of all threads' calls
bool hooks_known = false;
// How many calls there were, and how many of them the program wrote. All here is under the interpreter's lock.
long count = 0, written = 0;

enum Field { kWritten = 1, kStack = 2, kOuter = 3, kPaused = 5, kSeen = 6 };  // those of a BackwardCall that are read here

struct Thread {
  PyObject* thread = nullptr;  // Python's state of it
  PyObject* calls = nullptr;   // its running calls, outermost first
  PyObject* recent = nullptr;  // the marks of its last two, oldest first
  uint64_t highest = 0;        // the largest number of a root node of a call, plus one
  long before = -1, made = 0;  // the calls seen before the present clients, and this thread's since
  stacks::Stack* stack = nullptr;
  PyObject* frames = nullptr;  // the tuple of the last call's stack: a loop's is the same each time

  ~Thread() {
    for (PyObject* object : {thread, calls, recent, frames}) drop_later(object);
    if (stack != nullptr) stacks::leave(stack);
  }
};

Thread& here() {
  static thread_local Thread mine;
  if (mine.calls == nullptr) {
    mine.thread = must(PyObject_CallNoArgs(parts[kOfThread])).release();
    mine.recent = must(PyObject_GetAttrString(mine.thread, "recent")).release();
    mine.calls = must(PyObject_GetAttrString(mine.thread, "calls")).release();
  }
  return mine;
}

Owned attribute(PyObject* object, PyObject* name) { return must(PyObject_GetAttr(object, name)); }

bool is_true(PyObject* object) {
  const int is = PyObject_IsTrue(object);
  must(is);
  return is == 1;
}

bool is_wrapped(PyObject* root) {
  if (!is_tensor(root)) return false;
  const c10::DispatchKeySet keys = THPVariable_Unpack(root).key_set();
  return keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper) ||
         keys.has(c10::DispatchKey::Functionalize);
}

// Python decides if there may be a reason for it: `compat.graph.is_internal_backward`.
bool is_internal(PyObject* call, PyObject* first) {
  static PyObject* const name_dict = PyUnicode_InternFromString("__dict__");
  static PyObject* const name_context = PyUnicode_InternFromString("tracing_context");
  static PyObject* const name_internal = PyUnicode_InternFromString("is_internal");
  Owned dict = attribute(tracing, name_dict);
  PyObject* context = PyDict_GetItemWithError(dict.get(), name_context);
  if (context == nullptr && PyErr_Occurred() != nullptr) throw python_error();
  const bool usual = (context == nullptr || context == Py_None) && first != nullptr && !is_wrapped(first) &&
                     !c10::impl::TorchDispatchModeTLS::get_mode(c10::impl::TorchDispatchModeKey::PROXY);
  return !usual && is_true(attribute(call, name_internal).get());
}

bool may_pause() {
  if (hooks_known) return false;
  const auto queue = writes::only_queue();
  Owned answer(queue == nullptr ? Py_NewRef(Py_None) : pause::can_pause_observation(*queue));
  if (answer.get() == Py_None) answer = must(PyObject_CallNoArgs(parts[kMayPause]));
  hooks_known = PyUnicode_Check(answer.get());
  return answer.get() == Py_True;
}

Owned stack_of(Thread& mine) {
  stacks::Stack* stack = stacks::of_programs();
  if (stack != mine.stack) {
    Owned frames;
    try {
      frames = Owned(stacks::tuple_of(stack));
    } catch (...) {
      stacks::leave(stack);
      throw;
    }
    std::swap(stack, mine.stack);
    frames = Owned(std::exchange(mine.frames, frames.release()));  // dropped once both are changed
  }
  if (stack != nullptr) stacks::leave(stack);
  return Owned::borrowed(mine.frames);
}

// An object of a class of named tuples; takes over the fields.
Owned tuple(PyObject* type, std::initializer_list<PyObject*> fields) {
  Owned owned[8];
  size_t given = 0;
  for (PyObject* field : fields) owned[given++] = Owned(field);
  for (size_t i = 0; i < given; i++) {
    if (!owned[i]) throw python_error();
  }
  auto* of = reinterpret_cast<PyTypeObject*>(type);
  Owned made = must(of->tp_alloc(of, static_cast<Py_ssize_t>(given)));
  for (size_t i = 0; i < given; i++) PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), owned[i].release());
  return made;
}

void set_marker(PyObject* mark, PyObject* call) {
  static PyObject* const name_now = PyUnicode_InternFromString("now");
  static PyObject* const name_noted = PyUnicode_InternFromString("noted");
  must(PyObject_SetAttr(parts[kMarker], name_now, mark));
  must(PyObject_SetAttr(parts[kMarker], name_noted, Py_None));
  notes::set(mark, call);
}

PyObject* last_of(PyObject* list) { return PyList_GET_ITEM(list, PyList_GET_SIZE(list) - 1); }

// Whether the call is given `inputs`, and keeps its graph. Torch's own callers pass all by position.
std::pair<bool, bool> asked_by(PyObject* call) {
  static PyObject* const name_args = PyUnicode_InternFromString("args");
  static PyObject* const name_inputs = PyUnicode_InternFromString("inputs");
  static PyObject* const name_keeps = PyUnicode_InternFromString("keeps_graph");
  Owned args = attribute(call, name_args);
  if (PyTuple_Check(args.get()) && PyTuple_GET_SIZE(args.get()) == 4 && PyTuple_Check(PyTuple_GET_ITEM(args.get(), 3))) {
    return {PyTuple_GET_SIZE(PyTuple_GET_ITEM(args.get(), 3)) != 0, is_true(PyTuple_GET_ITEM(args.get(), 1))};
  }
  return {is_true(attribute(call, name_inputs).get()), is_true(attribute(call, name_keeps).get())};
}

// The call for which this thread of the engine's own runs a node; NULL in every other thread.
Owned of_engines_thread() {
  if (torch::autograd::get_current_node() == nullptr) return Owned();
  Owned call = must(PyObject_CallNoArgs(parts[kOfEngine]));
  return call.get() == Py_None ? Owned() : std::move(call);
}

}  // namespace

PyObject* observe(PyObject*, PyObject* arguments) {
  static PyObject* const name_running = PyUnicode_InternFromString("running");
  PyObject* given[kParts];
  if (!PyArg_ParseTuple(arguments, "OOOOOOO", &given[0], &given[1], &given[2], &given[3], &given[4], &given[5],
                        &given[6])) {
    throw python_error();
  }
  if (tracing == nullptr) {
    tracing = must(PyObject_GetAttrString(must(PyImport_ImportModule("torch._guards")).get(), "_TLS")).release();
  }
  Owned list = attribute(given[kCalls], name_running);
  // The Python core may have counted calls since.
  count = PyLong_AsLong(must(PyObject_GetAttrString(given[kCalls], "count")).get());
  written = PyLong_AsLong(must(PyObject_GetAttrString(given[kCalls], "written")).get());
  std::memcpy(parts, given, sizeof parts);
  Owned old(std::exchange(of_parts, Py_NewRef(arguments)));
  Owned old_list(std::exchange(running, list.release()));
  return Py_NewRef(Py_None);
}

PyObject* begin(PyObject*, PyObject* call) {
  static PyObject* const name_roots = PyUnicode_InternFromString("roots");
  static PyObject* const name_before = PyUnicode_InternFromString("before");
  static PyObject* const name_count = PyUnicode_InternFromString("count");
  static PyObject* const name_written = PyUnicode_InternFromString("written");
  static PyObject* const name_now = PyUnicode_InternFromString("now");
  static PyObject* const name_thread = PyUnicode_InternFromString("thread");
  Owned roots = must(PySequence_Fast(attribute(call, name_roots).get(), "no roots"));
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(roots.get());
  if (is_internal(call, size == 0 ? nullptr : PySequence_Fast_GET_ITEM(roots.get(), 0))) return Py_NewRef(Py_None);
  Thread& mine = here();
  const auto [chosen, keeps] = asked_by(call);
  const bool seen = writes::are_seen(), paused = seen && may_pause();
  Owned stack = stack_of(mine), outer = attribute(parts[kMarker], name_now);
  const long before = PyLong_AsLong(attribute(parts[kCalls], name_before).get());

  const long nth = ++count;
  const Owned of_engine = of_engines_thread();
  PyObject* around = PyList_GET_SIZE(mine.calls) != 0 ? PyList_GET_ITEM(mine.calls, 0) : of_engine.get();
  const bool outermost = around == nullptr;
  if (outermost) written++;
  if (of_engine) stack = must(PySequence_Concat(stack.get(), PyTuple_GET_ITEM(of_engine.get(), kStack)));
  Owned by_program = outermost ? must(PyLong_FromLong(written)) : Owned::borrowed(PyTuple_GET_ITEM(around, kWritten));
  Owned number = must(PyLong_FromLong(nth));
  must(PyObject_SetAttr(parts[kCalls], name_count, number.get()));
  if (outermost) must(PyObject_SetAttr(parts[kCalls], name_written, by_program.get()));
  if (mine.before != before) mine.before = before, mine.made = 0;
  Owned fresh = before + mine.made == nth - 1 ? must(PyLong_FromUnsignedLongLong(mine.highest)) : Owned::borrowed(Py_None);
  mine.made++;

  Owned mark = tuple(parts[kMark], {Py_NewRef(number.get()), Py_NewRef(stack.get()), PyBool_FromLong(keeps),
                                    PyBool_FromLong(chosen), PyLong_FromUnsignedLongLong(at::sequence_number::peek()),
                                    Py_NewRef(by_program.get())});
  Owned made = tuple(parts[kCall], {number.release(), by_program.release(), stack.release(), outer.release(),
                                    fresh.release(), PyBool_FromLong(paused), PyBool_FromLong(seen), Py_NewRef(call)});
  must(PyList_Append(mine.calls, made.get()));
  must(PyList_Append(running, made.get()));
  // An unpack in an engine thread can't be matched to one of several threads' calls, so then no mark is set.
  const bool alone = of_engine || PyList_GET_SIZE(running) == PyList_GET_SIZE(mine.calls);
  set_marker(alone ? mark.get() : Py_None, made.get());
  if (PyList_GET_SIZE(mine.recent) == 2) must(PyList_SetSlice(mine.recent, 0, 1, nullptr));
  must(PyList_Append(mine.recent, mark.get()));
  must(PyObject_SetAttr(call, name_thread, mine.thread));
  for (Py_ssize_t i = 0; i < size; i++) {
    mine.highest = std::max(mine.highest, notes::started(PySequence_Fast_GET_ITEM(roots.get(), i), mark.get()));
  }
  if (paused) writes::see(false);
  return made.release();
}

namespace {

void end_call(PyObject* call) {
  Owned ended = Owned::borrowed(call);
  // The engine runs nodes under the thread-local state that it found at the start.
  if (PyTuple_GET_ITEM(call, kSeen) == Py_True) writes::see(true);
  PyObject* calls = here().calls;
  const Py_ssize_t left = PyList_GET_SIZE(calls) - 1;
  must(PyList_SetSlice(calls, left, left + 1, nullptr));
  const bool within = left > 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(running); i++) {
    if (PyList_GET_ITEM(running, i) == call) {
      must(PyList_SetSlice(running, i, i + 1, nullptr));
      break;
    }
  }
  const bool has_outer = within || of_engines_thread();
  set_marker(has_outer ? PyTuple_GET_ITEM(call, kOuter) : Py_None, within ? last_of(calls) : Py_None);
}

}  // namespace

PyObject* end(PyObject*, PyObject* arguments) {
  PyObject *call, *of_engine;
  if (!PyArg_ParseTuple(arguments, "O!O", parts[kCall], &call, &of_engine)) throw python_error();
  end_call(call);
  return Py_NewRef(Py_None);
}

namespace {

enum EnginePart { kEngineCall, kObserver, kEngine, kOriginal, kSlowly };

// An EngineCall, as its `__init__` fills it.
Owned engine_call(PyObject* kind, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  Owned more = must(PyTuple_New(count - 1)), named = must(PyDict_New());
  for (Py_ssize_t i = 1; i < count; i++) PyTuple_SET_ITEM(more.get(), i - 1, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    must(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(names, i), args[count + i]));
  }
  static PyObject* const fields[] = {PyUnicode_InternFromString("roots"), PyUnicode_InternFromString("args"),
                                     PyUnicode_InternFromString("kwargs"), PyUnicode_InternFromString("done"),
                                     PyUnicode_InternFromString("answer"), PyUnicode_InternFromString("thread")};
  PyObject* values[] = {args[0], more.get(), named.get(), Py_False, Py_None, Py_None};
  auto* type = reinterpret_cast<PyTypeObject*>(kind);
  Owned made = must(type->tp_alloc(type, 0));
  for (int i = 0; i < 6; i++) must(PyObject_SetAttr(made.get(), fields[i], values[i]));
  return made;
}

// End a call whose function has raised, and raise that again in a frame of Python's that has the call for reports.
[[noreturn]] UNCLOBBER_COLD void raise_again(PyObject* engine, PyObject* call, PyObject* observer, PyObject* state) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyErr_NormalizeException(&kind, &error, &trace);
  Owned owned[] = {Owned(kind), Owned(error), Owned(trace)};
  if (trace != nullptr) PyException_SetTraceback(error, trace);
  Owned started = must(Py_BuildValue("[(OO)]", observer, state));
  must(PyObject_CallMethod(engine, "failed", "OOO", call, started.get(), error));
  throw python_error();
}

PyObject* run_engine(PyObject* parts, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static PyObject* const name = PyUnicode_InternFromString("_subscribers");
  return guarded(
      [&] {
        PyObject* observer = PyTuple_GET_ITEM(parts, kObserver);
        PyObject* engine = PyTuple_GET_ITEM(parts, kEngine);
        Owned subscribers = attribute(engine, name);
        if (count == 0 || PyTuple_GET_SIZE(subscribers.get()) != 1 ||
            PyTuple_GET_ITEM(subscribers.get(), 0) != observer) {
          PyObject* slowly = PyTuple_GET_ITEM(parts, kSlowly);
          return must(PyObject_Vectorcall(slowly, args, static_cast<size_t>(count), names)).release();
        }
        Owned call = engine_call(PyTuple_GET_ITEM(parts, kEngineCall), args, count, names);
        Owned state(begin(nullptr, call.get()));
        Owned result(PyObject_Vectorcall(PyTuple_GET_ITEM(parts, kOriginal), args, static_cast<size_t>(count), names));
        if (state.get() == Py_None) return must(result.release()).release();
        if (!result) raise_again(engine, call.get(), observer, state.get());
        end_call(state.get());
        return result.release();
      },
      static_cast<PyObject*>(nullptr));
}

PyMethodDef run_engine_def = {"_engine_run_backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(run_engine)),
                              METH_FASTCALL | METH_KEYWORDS, nullptr};

}  // namespace

PyObject* engine_run(PyObject*, PyObject* parts) { return must(PyCFunction_New(&run_engine_def, parts)).release(); }

PyObject* hook_known(PyObject*, PyObject* known) {
  hooks_known = is_true(known);
  return Py_NewRef(Py_None);
}

void hook_registered() {
  hooks_known = true;
  if (running == nullptr || PyList_GET_SIZE(running) == 0) return;
  // A device's thread of the engine makes no calls itself: a single running one must be the one that it works for.
  PyObject* calls = here().calls;
  if (PyList_GET_SIZE(calls) == 0) calls = PyList_GET_SIZE(running) == 1 ? running : nullptr;
  if (calls != nullptr && PyTuple_GET_ITEM(last_of(calls), kPaused) == Py_True) writes::see(true);
}

bool works_for_another_thread() {
  if (torch::autograd::get_current_node() == nullptr || !can_take_gil()) return false;
  return with_gil([] { return static_cast<bool>(of_engines_thread()); });
}

}  // namespace unclobber::backward
