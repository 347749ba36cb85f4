#include "functions.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <structmember.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "notes.h"
#include "queue.h"
#include "saves.h"
#include "stacks.h"

namespace unclobber::functions {

namespace {

// What Python hands over, by name; owned for the life of the process.
enum Part {
  kContext,       // the class above every ctx
  kInherited,     // its own `__init__`
  kBegin,         // Python's `__init__` and `__setattr__` of a ctx, and `__get__` of a method
  kSetAttribute,
  kBind,
  kMethod,        // the class of a method that stands in for the program's
  kPrepare,       // prepare(function): put such methods into its class; False for the compiler's
  kSet,           // set(forward, ctx, name, value)
  kNote,          // note(forward, result)
  kLog,           // log(arguments): a WriteLog
  kWrite,         // write(key, operation, stack, region, shifts): one of its writes
  kNoSetup,       // `setup_context` of a Function that has none
  kIgnored,       // names of attributes of a ctx
  kAtoms,         // types in which no tensor can lie
  kFollowed,      // the list of logs
  kReceiver,      // receiver(): the conflicts of the innermost session of this thread, or of the one for which it works
  kThisThread,    // this_thread(): Python's state of it
  kCurrent,       // current(): the backward that this thread works for, if it runs none itself, or None
  kStashes,       // the dict of what `forward` left on a ctx, by a weak reference to that
  kForget,        // its `pop`
  kStashed,       // stashed(conflicts, [(name, index, saved)], owner): the entry that Python reads
  kModuleHook,    // the Function through whose views a module's hooks are called; it only hands them on
  kStandIn,       // the class of what stands in for a function of torch's
  kHideFrames,    // hide_frames(error)
  kParts,
};
constexpr const char* kNames[kParts] = {
    "context", "inherited", "begin",  "set_attribute", "bind",    "method", "prepare", "set",   "note",      "log", "write",
    "no_setup", "ignored",  "atoms",  "followed",      "receiver", "this_thread", "current",  "stashes", "forget",
    "stashed", "module_hook", "stand_in",
    "hide_frames"};
PyObject* parts[kParts] = {};
long alone = -1;       // owners of a gradient without another consumer; -1: not known
long base_alone = -1;  // the same of the base of a view
constexpr Py_ssize_t kMostNested = 1000;  // as `_nested.MOST`
bool runs = false;  // under the interpreter's lock
thread_local PyObject* hooks = nullptr;  // the list of those of this thread's sessions, owned

PyObject *name_forward, *name_setup, *name_class, *name_own, *name_bind, *name_name,
    *name_dirty, *name_module, *name_paused, *name_run, *name_binds, *name_ledger, *name_pending, *name_engine, *name_gradients, *name_hooks, *name_conflicts;

Owned attribute(PyObject* object, PyObject* name) { return must(PyObject_GetAttr(object, name)); }

bool is_in(PyObject* set, PyObject* item) {
  const int in = PySet_Contains(set, item);
  must(in);
  return in == 1;
}

// A write to an argument of which nothing else is to be known.
struct Write {
  c10::StorageImpl* storage;
  PyObject* operation;
  stacks::Stack* stack;
  bool shifts;
};

// A tensor, list or tuple that was set as an attribute of the call's own ctx.
struct Set {
  Owned name;
  stacks::Stack* stack;
};

// A call of `apply`, from its ctx to the end of `forward` and `setup_context`; it is called in place of these.
struct Forward {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *conflicts, *function, *args, *method, *attributes, *dirty, *log;
  PyObject* const* given;  // the arguments while `forward` runs
  Py_ssize_t count;
  std::vector<Write>* writes;
  PyObject* ctx;  // borrowed: only to be compared, and alive while one of the methods runs
  std::vector<Set>* sets;
  bool in_two, recorded, in_setup;
};
PyTypeObject* type = nullptr;
thread_local PyObject* applying = nullptr;                 // owned; about to look a method up in its class
thread_local std::vector<Forward*> running;

Forward* of(PyObject* self) { return reinterpret_cast<Forward*>(self); }

void set_applying(PyObject* stolen) {
  PyObject* old = std::exchange(applying, stolen);
  Py_XDECREF(old);
}

PyObject* arguments_of(Forward* self) {
  if (self->args == nullptr) {
    const Py_ssize_t count = self->given == nullptr ? 0 : self->count;  // it has ended, and nothing was kept of it
    Owned made = must(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(made.get(), i, Py_NewRef(self->given[i]));
    self->args = made.release();
  }
  return self->args;
}

// Its WriteLog, which gets the writes so far, and takes its place in the list of logs.
PyObject* log_of(PyObject* self) {
  Forward* forward = of(self);
  if (forward->log != nullptr) return forward->log;
  Owned log = must(PyObject_CallOneArg(parts[kLog], arguments_of(forward)));
  Owned writes = must(PyObject_GetAttrString(log.get(), "writes"));
  for (size_t i = 0; forward->writes != nullptr && i < forward->writes->size(); i++) {
    const Write& write = (*forward->writes)[i];
    Owned fields = must(Py_BuildValue("(NONOO)", PyLong_FromVoidPtr(write.storage), write.operation,
                                      stacks::tuple_of(write.stack), Py_None, write.shifts ? Py_True : Py_False));
    must(PyList_Append(writes.get(), must(PyObject_CallObject(parts[kWrite], fields.get())).get()));
  }
  forward->log = log.release();
  PyObject* list = parts[kFollowed];
  for (Py_ssize_t i = PyList_GET_SIZE(list); i-- > 0;) {
    if (PyList_GET_ITEM(list, i) == self) {
      must(PyList_SetItem(list, i, Py_NewRef(forward->log)));
      break;
    }
  }
  return forward->log;
}

void drop(std::vector<Set>* sets) {
  for (const Set& set : *sets) stacks::leave(set.stack);
  sets->clear();
}

// {id(ctx): (ctx, {name: stack})}, with the tensors that were noted here until now. One of the methods runs.
PyObject* attributes_of(Forward* forward) {
  if (forward->attributes == nullptr) forward->attributes = must(PyDict_New()).release();
  if (forward->sets == nullptr || forward->sets->empty()) return forward->attributes;
  Owned key = must(PyLong_FromVoidPtr(forward->ctx));
  PyObject* known = PyDict_GetItemWithError(forward->attributes, key.get());
  if (known == nullptr) {
    Owned made = must(Py_BuildValue("(ON)", forward->ctx, PyDict_New()));
    must(PyDict_SetItem(forward->attributes, key.get(), made.get()));
    known = made.get();
  }
  for (const Set& set : *forward->sets) {
    must(PyDict_SetItem(PyTuple_GET_ITEM(known, 1), set.name.get(), must(stacks::tuple_of(set.stack)).get()));
  }
  drop(forward->sets);
  return forward->attributes;
}

// Note for a running call that such a value was set as an attribute of its ctx.
void note_set(Forward* forward, PyObject* name) {
  if (forward->sets == nullptr) forward->sets = new std::vector<Set>;
  for (Set& set : *forward->sets) {
    if (PyUnicode_Compare(set.name.get(), name) != 0) continue;
    stacks::leave(std::exchange(set.stack, stacks::of_programs()));
    return;
  }
  forward->sets->push_back({Owned::borrowed(name), stacks::of_programs()});
}

// What `forward` left on a ctx, as long as Python need not look at it.
struct Stash {
  struct Place {
    const Set* set;  // while `forward` is noted
    Owned tensor;    // likewise
    Py_ssize_t index;  // in a list or tuple that was set; -1 if the tensor was
    Owned name;        // of the attribute
    saves::Save* save;
  };
  Owned conflicts;
  std::vector<Place> saved;
  ~Stash() {
    for (const Place& one : saved) {
      if (one.save != nullptr) one.save->leave();
    }
  }

  // Take a place for each tensor of a value; false if only Python can look at it.
  bool add(const Set& set, PyObject* value, Py_ssize_t index = -1) {
    if (!is_tensor(value)) {
      if (index >= 0) return is_in(parts[kAtoms], reinterpret_cast<PyObject*>(Py_TYPE(value)));
      if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return false;
      const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
      bool known = count <= 100;  // each is compared with the others
      for (Py_ssize_t i = 0; known && i < count; i++) known = add(set, PySequence_Fast_GET_ITEM(value, i), i);
      return known;
    }
    const at::Tensor& tensor = THPVariable_Unpack(value);
    const bool twice = std::any_of(saved.begin(), saved.end(), [&](const Place& one) { return one.tensor.get() == value; });
    if (twice || !saves::is_usual(tensor) || !saves::storage_of(tensor)->resizable()) return false;
    saved.push_back({&set, Owned::borrowed(value), index, Owned::borrowed(set.name.get()), nullptr});
    return true;
  }
};
constexpr const char* kStash = "_unclobber_native.Stash";

void free_stash(PyObject* capsule) { delete static_cast<Stash*>(PyCapsule_GetPointer(capsule, kStash)); }

// Stash the tensors that were set on the call's ctx, as `_Forward.note`; false if only Python can, which has not been
// told of anything then.
bool stash(Forward* forward, PyObject* ctx) {
  if (forward->attributes != nullptr || forward->log != nullptr || PyTuple_GET_SIZE(forward->dirty) != 0 ||
      ctx != forward->ctx || forward->sets->size() > static_cast<size_t>(kMostNested)) {
    return false;
  }
  Owned pending = attribute(attribute(forward->conflicts, name_ledger).get(), name_pending);
  if (!queue::is(pending.get())) return false;
  auto made = std::make_unique<Stash>();
  for (const Set& set : *forward->sets) {
    Owned value(PyObject_GenericGetAttr(ctx, set.name.get()));
    if (!value) PyErr_Clear();
    if (!value || !made->add(set, value.get())) return false;
  }
  if (made->saved.empty()) return true;
  made->conflicts = Owned::borrowed(forward->conflicts);
  const auto queue = queue::of(pending.get());
  for (Stash::Place& one : made->saved) {
    one.save = saves::file(queue, THPVariable_Unpack(one.tensor.get()), stacks::use(one.set->stack));
    one.tensor = Owned();
  }
  Owned capsule = must(PyCapsule_New(made.get(), kStash, free_stash));
  made.release();
  Owned key = must(PyWeakref_NewRef(ctx, parts[kForget]));
  must(PyDict_SetItem(parts[kStashes], key.get(), capsule.get()));
  return true;
}

// Whether nothing has happened to what a `forward` left on this ctx; if something may have, Python gets to see it.
bool is_fresh(PyObject* ctx) {
  if (PyDict_GET_SIZE(parts[kStashes]) == 0) return true;
  Owned key = must(PyWeakref_NewRef(ctx, nullptr));
  Owned found = Owned::borrowed(PyDict_GetItemWithError(parts[kStashes], key.get()));
  if (!found) return PyErr_Occurred() == nullptr ? true : throw python_error();
  if (!PyCapsule_CheckExact(found.get())) return false;
  auto* stash = static_cast<Stash*>(PyCapsule_GetPointer(found.get(), kStash));
  if (stash == nullptr) throw python_error();
  if (runs && std::all_of(stash->saved.begin(), stash->saved.end(),
                          [](const auto& one) { return saves::is_fresh(one.save); })) {
    return true;
  }
  Owned list = must(PyList_New(0));
  for (const Stash::Place& one : stash->saved) {
    Owned place = must(Py_BuildValue("(OnO)", one.name.get(), one.index, saves::record_of(one.save)));
    must(PyList_Append(list.get(), place.get()));
  }
  Owned own = must(
      PyObject_CallFunctionObjArgs(parts[kStashed], stash->conflicts.get(), list.get(), found.get(), nullptr));
  must(PyDict_SetItem(parts[kStashes], key.get(), own.get()));
  return false;
}

void follow(PyObject* self) {
  PyObject* log = of(self)->log;
  must(PyList_Append(parts[kFollowed], log == nullptr ? self : log));
}

void follow_no_more(PyObject* self) {
  PyObject *list = parts[kFollowed], *log = of(self)->log;
  for (Py_ssize_t i = PyList_GET_SIZE(list); i-- > 0;) {
    PyObject* one = PyList_GET_ITEM(list, i);
    if (one == self || (log != nullptr && one == log)) {
      PyList_SetSlice(list, i, i + 1, nullptr);
      return;
    }
  }
}

PyObject* called(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Forward* forward = of(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (!forward->in_setup) {
    const Py_ssize_t own = forward->in_two || count == 0 ? 0 : 1;  // the ctx comes first
    forward->given = args + own;
    forward->count = count - own;
    if (forward->in_two) arguments_of(forward);
  }
  // the program's own look-ups in the method get its own methods
  set_applying(nullptr);
  follow(self);
  running.push_back(forward);
  PyObject* made = PyObject_Vectorcall(forward->method, args, flags, names);
  {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    follow_no_more(self);
    running.pop_back();
    if (made == nullptr) forward->given = nullptr;
    PyErr_Restore(kind, value, trace);
  }
  Owned result = must(made);
  if (forward->in_two && !forward->in_setup) {
    forward->in_setup = true;
    set_applying(Py_NewRef(self));
  } else if (const bool sets = forward->sets != nullptr && !forward->sets->empty();
             (sets && !(count > 0 && stash(forward, args[0]))) || forward->attributes != nullptr ||
             forward->log != nullptr || PyTuple_GET_SIZE(forward->dirty) != 0) {
    arguments_of(forward);
    PyObject* returned = forward->in_two && count > 2 ? args[2] : result.get();
    must(PyObject_CallFunctionObjArgs(parts[kNote], self, returned, nullptr));
  }
  forward->given = nullptr;
  return result.release();
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Owned alive = Owned::borrowed(self);
  return guarded([&] { return called(self, args, flags, names); }, static_cast<PyObject*>(nullptr));
}

UNCLOBBER_COLD void find_hooks() {
  struct AtEnd {
    ~AtEnd() { drop_later(std::exchange(hooks, nullptr)); }
  };
  static thread_local AtEnd at_end;
  static_cast<void>(&at_end);
  hooks = attribute(must(PyObject_CallNoArgs(parts[kThisThread])).get(), name_hooks).release();
}

// The ctx's `__init__`, which `apply` calls first: `forward` is next.
PyObject* begin(PyObject* ctx, PyObject*) {
  if (!runs) return must(PyObject_CallOneArg(parts[kBegin], ctx)).release();
  must(PyObject_CallOneArg(parts[kInherited], ctx));
  if (hooks == nullptr) find_hooks();
  const Py_ssize_t entered = PyList_GET_SIZE(hooks);
  if (entered == 0 && torch::autograd::get_current_node() == nullptr) return Py_NewRef(Py_None);
  Owned conflicts = entered == 0 ? must(PyObject_CallNoArgs(parts[kReceiver]))
                                 : attribute(PyList_GET_ITEM(hooks, entered - 1), name_conflicts);
  if (conflicts.get() == Py_None) return Py_NewRef(Py_None);
  Owned function = attribute(reinterpret_cast<PyObject*>(Py_TYPE(ctx)), name_class);
  if (!PyType_Check(function.get()) || function.get() == parts[kModuleHook]) return Py_NewRef(Py_None);
  PyObject* own = reinterpret_cast<PyTypeObject*>(function.get())->tp_dict;
  const bool in_two = attribute(function.get(), name_setup).get() != parts[kNoSetup];
  PyObject* method = PyDict_GetItemWithError(own, name_forward);
  PyObject* setup = in_two ? PyDict_GetItemWithError(own, name_setup) : method;
  if (method == nullptr || setup == nullptr || !is_of(method, parts[kMethod]) || !is_of(setup, parts[kMethod])) {
    Owned prepared = must(PyObject_CallOneArg(parts[kPrepare], function.get()));
    if (prepared.get() == Py_False) return Py_NewRef(Py_None);
  }
  Owned made = must(type->tp_alloc(type, 0));
  Forward* forward = of(made.get());
  forward->call = call;
  forward->conflicts = conflicts.release();
  forward->function = function.release();
  forward->dirty = PyTuple_New(0);
  forward->ctx = ctx;
  forward->in_two = in_two;
  forward->recorded = c10::GradMode::is_enabled();
  set_applying(made.release());
  return Py_NewRef(Py_None);
}

// Whether a value is a tuple of sizes and flags, as `_nested.may_hold` has it.
bool has_only_atoms(PyObject* value) {
  bool atoms = PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) <= kMostNested;
  for (Py_ssize_t i = 0; atoms && i < PyTuple_GET_SIZE(value); i++) {
    atoms = is_in(parts[kAtoms], reinterpret_cast<PyObject*>(Py_TYPE(PyTuple_GET_ITEM(value, i))));
  }
  return atoms;
}

// The ctx's `__setattr__`: sets the attribute as torch does, and notes it for the innermost running `forward`.
PyObject* set_attribute(PyObject* ctx, PyObject* const* args, Py_ssize_t count) {
  return guarded(
      [&] {
        if (count != 2) {
          PyErr_SetString(PyExc_TypeError, "__setattr__ takes a name and a value");
          throw python_error();
        }
        static PyObject* plainly = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
        static PyObject* name = PyUnicode_InternFromString("__setattr__");
        // looked up each time, because the program may replace it in a class above meanwhile
        PyObject* mro = Py_TYPE(ctx)->tp_mro;
        bool usual = runs, above = false;
        for (Py_ssize_t i = 0; usual && i < PyTuple_GET_SIZE(mro); i++) {
          PyObject* one = PyTuple_GET_ITEM(mro, i);
          if (one == plainly) break;
          if (above && PyDict_Contains(reinterpret_cast<PyTypeObject*>(one)->tp_dict, name) != 0) usual = false;
          above = above || one == parts[kContext];
        }
        if (!usual) {
          return must(PyObject_CallFunctionObjArgs(parts[kSetAttribute], ctx, args[0], args[1], nullptr)).release();
        }
        must(PyObject_GenericSetAttr(ctx, args[0], args[1]));
        auto* kind = reinterpret_cast<PyObject*>(Py_TYPE(args[1]));
        if (running.empty() || is_in(parts[kAtoms], kind) || is_in(parts[kIgnored], args[0])) return Py_NewRef(Py_None);
        auto* forward = reinterpret_cast<PyObject*>(running.back());
        const bool is_dirty = PyUnicode_Compare(args[0], name_dirty) == 0;
        if (!is_dirty && has_only_atoms(args[1])) return Py_NewRef(Py_None);
        const bool may_be_noted = is_tensor(args[1]) || PyList_CheckExact(args[1]) || PyTuple_CheckExact(args[1]);
        if (!is_dirty && may_be_noted && running.back()->ctx == ctx) {
          note_set(running.back(), args[0]);
          return Py_NewRef(Py_None);
        }
        return must(PyObject_CallFunctionObjArgs(parts[kSet], forward, ctx, args[0], args[1], nullptr)).release();
      },
      static_cast<PyObject*>(nullptr));
}

// __get__(method, instance, owner) of a method that stands in for the program's: torch's own call gets the `Forward`.
PyObject* bind(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded(
      [&] {
        if (!runs || count != 3) {
          return must(PyObject_Vectorcall(parts[kBind], args, static_cast<size_t>(count), nullptr)).release();
        }
        Owned method = attribute(args[0], name_bind);
        if (method.get() == Py_None) {
          method = attribute(args[0], name_own);
        } else {
          method = must(PyObject_CallFunctionObjArgs(method.get(), args[1], args[2], nullptr));
        }
        if (applying == nullptr || of(applying)->function != args[2]) return method.release();
        Owned name = attribute(args[0], name_name);
        const int other = PyUnicode_Compare(name.get(), of(applying)->in_setup ? name_setup : name_forward);
        if (other != 0) return method.release();
        PyObject* old = std::exchange(of(applying)->method, method.release());
        Py_XDECREF(old);
        return Py_NewRef(applying);
      },
      static_cast<PyObject*>(nullptr));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Forward* one = of(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* part : {one->conflicts, one->function, one->args, one->method, one->attributes, one->dirty, one->log}) {
    Py_VISIT(part);
  }
  return 0;
}

int clear(PyObject* self) {
  Forward* one = of(self);
  for (PyObject** part : {&one->conflicts, &one->function, &one->args, &one->method, &one->attributes, &one->dirty,
                          &one->log}) {
    Py_CLEAR(*part);
  }
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* own = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  if (of(self)->writes != nullptr) {
    for (const Write& write : *of(self)->writes) {
      Py_DECREF(write.operation);
      stacks::leave(write.stack);
    }
    delete of(self)->writes;
  }
  if (of(self)->sets != nullptr) {
    drop(of(self)->sets);
    delete of(self)->sets;
  }
  own->tp_free(self);
  Py_DECREF(own);
}

PyObject* get_log(PyObject* self, void*) {
  return guarded([&] { return Py_NewRef(log_of(self)); }, static_cast<PyObject*>(nullptr));
}
PyObject* get_attributes(PyObject* self, void*) {
  return guarded([&] { return Py_NewRef(attributes_of(of(self))); }, static_cast<PyObject*>(nullptr));
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Forward, call), READONLY, nullptr},
    {"conflicts", T_OBJECT, offsetof(Forward, conflicts), READONLY, nullptr},
    {"function", T_OBJECT, offsetof(Forward, function), READONLY, nullptr},
    {"args", T_OBJECT, offsetof(Forward, args), READONLY, nullptr},
    {"dirty", T_OBJECT, offsetof(Forward, dirty), 0, nullptr},
    {"recorded", T_BOOL, offsetof(Forward, recorded), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef computed[] = {
    {"log", get_log, nullptr, "Its WriteLog, from now on in its place.", nullptr},
    {"attributes", get_attributes, nullptr, "The ctx, and where attributes were set, by its identity.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A call of `apply`, called in place of the Function's methods.")},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_members, members},
    {Py_tp_getset, computed},
    {0, nullptr},
};
PyType_Spec spec = {"_unclobber_native.Forward", sizeof(Forward), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// --- backward --------------------------------------------------------------------------------------------

// Backward(original, slowly): called with the ctx and the gradients, in place of torch's own call of a `backward`.
struct Backward {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* original;
  PyObject* slowly;  // what Python would call instead: it reports what may be to be reported
};

// Whether so many of a gradient's owners are known: those without a waiting consumer, and a running call that was given
// it. As `gradients._has_others` finds, but for what needs more looking.
bool has_no_more(const at::TensorBase& gradient, long owners, PyObject* call) {
  const long more = static_cast<long>(gradient.use_count()) - owners;
  if (more <= 0 || call == Py_None) return more <= 0;
  Owned given = attribute(attribute(call, name_engine).get(), name_gradients);
  long times = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); i++) {
    PyObject* one = PyTuple_GET_ITEM(given.get(), i);
    times += is_tensor(one) && THPVariable_Unpack(one).is_same(gradient) ? 1 : 0;
  }
  return more <= times;
}

// Whether no other consumer waits for a gradient, nor for the memory that it is a view of: `gradients._shared`.
bool is_alone(PyObject* gradient, PyObject* call) {
  if (!is_tensor(gradient)) return true;
  const at::Tensor& tensor = THPVariable_Unpack(gradient);
  if (alone < 0 || base_alone < 0) return false;
  return has_no_more(tensor, alone, call) && (!tensor.is_view() || has_no_more(tensor._base(), base_alone, call));
}

// Whether torch's call needs no more observing than that the thread sees writes.
bool is_usual(PyObject* const* args, Py_ssize_t count) {
  if (count == 0 || !is_fresh(args[0]) || !runs) return false;
  Owned call = Owned::borrowed(notes::running_call());
  if (!call) call = must(PyObject_CallNoArgs(parts[kCurrent]));
  const bool paused = call.get() != Py_None && attribute(call.get(), name_paused).get() == Py_True;
  Owned function = attribute(reinterpret_cast<PyObject*>(Py_TYPE(args[0])), name_class);
  Owned module = attribute(function.get(), name_module);
  if (!PyUnicode_Check(module.get()) || std::strncmp(PyUnicode_AsUTF8(module.get()), "torch._functorch.", 17) == 0) return false;
  if (!c10::GradMode::is_enabled() && function.get() != parts[kModuleHook]) {
    for (Py_ssize_t i = 1; i < count; i++) {
      if (!is_alone(args[i], call.get())) return false;
    }
  }
  if (paused) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
  return true;
}

thread_local std::vector<std::pair<PyObject* const*, Py_ssize_t>> handed;

PyObject* run_backward(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  auto* one = reinterpret_cast<Backward*>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  return guarded(
      [&] {
        // First what makes Python see a stash that is no longer fresh.
        if (!is_usual(args, count) || names != nullptr) {
          return must(PyObject_Vectorcall(one->slowly, args, flags, names)).release();
        }
        struct Handed {
          Handed(PyObject* const* args, Py_ssize_t count) { handed.emplace_back(args + 1, count - 1); }
          ~Handed() { handed.pop_back(); }
        } now(args, count);
        return must(PyObject_Vectorcall(one->original, args, flags, names)).release();
      },
      static_cast<PyObject*>(nullptr));
}

// The `__get__` and `__call__` of `StandIn`: those in Python are two more frames of each call.
PyObject* bind_stand_in(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 2 || args[1] == Py_None) return Py_NewRef(args[0]);
  PyObject* binds = PyObject_GenericGetAttr(args[0], name_binds);
  if (binds == nullptr) return nullptr;
  Py_DECREF(binds);
  return binds == Py_True ? PyMethod_New(args[0], args[1]) : Py_NewRef(args[0]);
}

// Replace the running exception's traceback by what `hide_frames` leaves of it.
void hide_frames() {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyErr_NormalizeException(&kind, &error, &trace);
  if (trace != nullptr) PyException_SetTraceback(error, trace);
  Py_XDECREF(trace);
  Py_XDECREF(PyObject_CallOneArg(parts[kHideFrames], error));
  PyErr_Clear();
  PyErr_Restore(kind, error, PyException_GetTraceback(error));
}

PyObject* call_stand_in(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* run = PyObject_GenericGetAttr(self, name_run);  // no look-up in what it stands for
  if (run == nullptr) return nullptr;
  PyObject* result = PyObject_Vectorcall(run, args, static_cast<size_t>(count), names);
  Py_DECREF(run);
  if (result == nullptr) hide_frames();
  return result;
}

PyObject* make_backward(PyTypeObject* own, PyObject* arguments, PyObject*) {
  PyObject *original, *slowly;
  if (!PyArg_ParseTuple(arguments, "OO", &original, &slowly)) return nullptr;
  PyObject* self = own->tp_alloc(own, 0);
  if (self == nullptr) return nullptr;
  auto* one = reinterpret_cast<Backward*>(self);
  one->call = run_backward;
  one->original = Py_NewRef(original);
  one->slowly = Py_NewRef(slowly);
  return self;
}

int traverse_backward(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Backward*>(self)->original);
  Py_VISIT(reinterpret_cast<Backward*>(self)->slowly);
  return 0;
}

int clear_backward(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Backward*>(self)->original);
  Py_CLEAR(reinterpret_cast<Backward*>(self)->slowly);
  return 0;
}

void dealloc_backward(PyObject* self) {
  PyTypeObject* own = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear_backward(self);
  own->tp_free(self);
  Py_DECREF(own);
}

PyMemberDef members_of_backward[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Backward, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots_of_backward[] = {
    {Py_tp_doc, const_cast<char*>("Backward(original, slowly): torch's call of a Function's `backward`, observed.")},
    {Py_tp_new, reinterpret_cast<void*>(make_backward)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_backward)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_backward)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_backward)},
    {Py_tp_members, members_of_backward},
    {0, nullptr},
};
PyType_Spec spec_of_backward = {"_unclobber_native.Backward", sizeof(Backward), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                                slots_of_backward};

PyMethodDef begin_def = {"__init__", entry<begin>, METH_NOARGS, nullptr};
PyMethodDef set_attribute_def = {"__setattr__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(set_attribute)),
                                 METH_FASTCALL, nullptr};
PyMethodDef bind_stand_in_def = {"__get__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(bind_stand_in)),
                                 METH_FASTCALL, nullptr};
PyMethodDef call_stand_in_def = {"__call__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_stand_in)),
                                 METH_FASTCALL | METH_KEYWORDS, nullptr};
PyMethodDef bind_def = {"__get__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(bind)), METH_FASTCALL, nullptr};

}  // namespace

void add_to(PyObject* module) {
  struct {
    PyObject** place;
    const char* name;
  } names[] = {{&name_forward, "forward"}, {&name_setup, "setup_context"}, {&name_class, "_forward_cls"},
               {&name_own, "own"}, {&name_bind, "_bind"},
               {&name_name, "name"}, {&name_dirty, "dirty_tensors"}, {&name_module, "__module__"},
               {&name_paused, "paused"}, {&name_run, "_run"}, {&name_binds, "_binds"}, {&name_ledger, "ledger"}, {&name_pending, "pending"},
               {&name_engine, "of_engine"}, {&name_gradients, "gradients"},
               {&name_hooks, "hooks"}, {&name_conflicts, "conflicts"}};
  for (auto& [place, name] : names) *place = must(PyUnicode_InternFromString(name)).release();
  type = reinterpret_cast<PyTypeObject*>(must(PyType_FromSpec(&spec)).release());
  must(PyModule_AddObjectRef(module, "Backward", must(PyType_FromSpec(&spec_of_backward)).get()));
}

PyObject* observe(PyObject*, PyObject* given) {
  for (int part = 0; part < kParts; part++) {
    PyObject* object = PyDict_GetItemString(given, kNames[part]);
    if (object == nullptr) {
      PyErr_SetString(PyExc_KeyError, kNames[part]);
      throw python_error();
    }
    Owned old(std::exchange(parts[part], Py_NewRef(object)));
  }
  auto* context = reinterpret_cast<PyTypeObject*>(parts[kContext]);
  Owned first = must(PyDescr_NewMethod(context, &begin_def));
  Owned second = must(PyDescr_NewMethod(context, &set_attribute_def));
  Owned third = must(PyCFunction_NewEx(&bind_def, nullptr, nullptr));
  Owned binds = must(PyCFunction_NewEx(&bind_stand_in_def, nullptr, nullptr));
  Owned calls = must(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(parts[kStandIn]), &call_stand_in_def));
  must(PyObject_SetAttrString(parts[kStandIn], "__get__", binds.get()));
  must(PyObject_SetAttrString(parts[kStandIn], "__call__", calls.get()));
  return must(PyTuple_Pack(3, first.get(), second.get(), third.get())).release();
}

PyObject* run(PyObject*, PyObject* on) {
  runs = on == Py_True;
  return Py_NewRef(reinterpret_cast<PyObject*>(&PyBool_Type));  // called at the end, and does nothing
}

void learn(long owners, long of_base) { alone = owners, base_alone = of_base; }

PyObject* times_handed(PyObject*, PyObject* gradient) {
  long times = 0;
  for (const auto& [args, count] : handed) times += std::count(args, args + count, gradient);
  return PyLong_FromLong(times);
}

bool is_forward(PyObject* object) { return type != nullptr && Py_TYPE(object) == type; }

bool follows(PyObject* forward, c10::StorageImpl* storage, bool* computed) {
  bool found = false;
  const Forward* one = of(forward);
  PyObject* const* given = one->given;
  Py_ssize_t count = one->count;
  if (one->args != nullptr) {
    given = &PyTuple_GET_ITEM(one->args, 0);
    count = PyTuple_GET_SIZE(one->args);
  }
  for (Py_ssize_t i = 0; given != nullptr && i < count; i++) {
    if (!is_tensor(given[i])) continue;
    const at::Tensor& tensor = THPVariable_Unpack(given[i]);
    if (!saves::is_usual(tensor)) {
      *computed = found = true;  // only Python can tell
      continue;
    }
    if (saves::storage_of(tensor) != storage) continue;
    found = true;
    if (!tensor.requires_grad()) continue;
    *computed = *computed || !(tensor.is_view() ? tensor._base().is_leaf() : tensor.is_leaf());
  }
  return found;
}

void note(PyObject* forward, c10::StorageImpl* storage, PyObject* operation, bool shifts) {
  Forward* one = of(forward);
  if (one->writes == nullptr) one->writes = new std::vector<Write>;
  one->writes->push_back({storage, Py_NewRef(operation), stacks::of_programs(), shifts});
}

}  // namespace unclobber::functions
