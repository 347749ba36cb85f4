#include "queue.h"

#include <ATen/SequenceNumber.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <vector>

#include "pause.h"
#include "records.h"
#include "saves.h"

namespace unclobber::queue {

namespace {

using saves::Save;

struct Object {
  PyObject_HEAD
  std::shared_ptr<saves::Queue> queue;
};
PyTypeObject* type = nullptr;  // these are owned for the life of the process, as their module is
PyObject* deque = nullptr;

Object* held_by(PyObject* self) { return reinterpret_cast<Object*>(self); }
saves::Queue& queue_of(PyObject* self) { return *held_by(self)->queue; }

constexpr const char* kAside = "unclobber save";

// A use of a save, for as long as this lives.
class Use {
 public:
  explicit Use(Save* save) : save_(save) {}
  Use(Use&& other) noexcept : save_(std::exchange(other.save_, nullptr)) {}
  Use& operator=(Use&&) = delete;
  ~Use() {
    if (save_ != nullptr) save_->leave();
  }
  Save* get() const { return save_; }
  Save* release() { return std::exchange(save_, nullptr); }

 private:
  Save* save_;
};

std::vector<Use> in_use(const std::vector<Save*>& saves) {
  std::vector<Use> uses;
  uses.reserve(saves.size());
  for (Save* save : saves) uses.emplace_back(save);
  return uses;
}

// The entry that the Python queue has for a save: a weak reference to its SavedTensor.
Owned reference_to(Save* save) {
  if (save->entry != nullptr) return Owned::borrowed(save->entry);
  return must(PyWeakref_NewRef(saves::record_of(save), nullptr));
}

Owned references_to(const std::vector<Use>& uses) {
  Owned list = must(PyList_New(0));
  for (const Use& use : uses) must(PyList_Append(list.get(), reference_to(use.get()).get()));
  return list;
}

void free_aside(PyObject* capsule) {
  auto* save = static_cast<Save*>(PyCapsule_GetPointer(capsule, kAside));
  if (save != nullptr) save->leave();
}

// Put back the saves that `take_own` removed.
void put_back(saves::Queue& queue, PyObject* capsule) {
  auto* save = static_cast<Save*>(PyCapsule_GetPointer(capsule, kAside));
  if (save == nullptr) throw python_error();
  Locked locked;
  if (!save->queued && save->queue.get() == &queue) queue.append(save);
}

// Whether torch has not allocated the memory of a SavedTensor.
bool is_lent(PyObject* made) {
  if (!records::is_record(made)) return false;
  PyObject* alias = records::get(made, records::kAlias);
  if (alias == nullptr || !is_tensor(alias)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(alias);
  return tensor.unsafeGetTensorImpl()->has_storage() && !saves::storage_of(tensor)->resizable();
}

PyObject* append(PyObject* self, PyObject* entry) {
  if (PyCapsule_CheckExact(entry)) {
    put_back(queue_of(self), entry);
    return Py_NewRef(Py_None);
  }
  if (!PyWeakref_CheckRefExact(entry)) {
    PyErr_SetString(PyExc_TypeError, "a weak reference is expected");
    throw python_error();
  }
  const bool lent = is_lent(PyWeakref_GET_OBJECT(entry));
  auto* save = new Save;
  save->entry = Py_NewRef(entry);
  Locked locked;
  if (lent) queue_of(self).report_all_writes();
  queue_of(self).append(save);
  return Py_NewRef(Py_None);
}

PyObject* extend(PyObject* self, PyObject* entries) {
  Owned iterator = must(PyObject_GetIter(entries));
  while (Owned entry{PyIter_Next(iterator.get())}) Py_DECREF(append(self, entry.get()));
  if (PyErr_Occurred() != nullptr) throw python_error();
  return Py_NewRef(Py_None);
}

PyObject* take_end(PyObject* self, bool newest) {
  queue_of(self).catch_up();
  Save* save = nullptr;
  {
    Locked locked;
    save = queue_of(self).take_one(newest);
  }
  if (save == nullptr) {
    PyErr_SetString(PyExc_IndexError, "pop from an empty queue");
    throw python_error();
  }
  Use use(save);
  return reference_to(save).release();
}
PyObject* pop(PyObject* self, PyObject*) { return take_end(self, true); }
PyObject* popleft(PyObject* self, PyObject*) { return take_end(self, false); }

PyObject* take(PyObject* self, PyObject* key) {
  void* storage = key == Py_None ? nullptr : PyLong_AsVoidPtr(key);
  if (storage == nullptr && PyErr_Occurred() != nullptr) throw python_error();
  queue_of(self).catch_up();
  std::vector<Save*> taken;
  {
    Locked locked;
    queue_of(self).take(static_cast<c10::StorageImpl*>(storage), taken);
  }
  if (taken.empty()) return PyTuple_New(0);  // as for most writes, and there is one such tuple
  return must(PyObject_CallOneArg(deque, references_to(in_use(taken)).get())).release();
}

PyObject* copy(PyObject* self, PyObject*) {
  queue_of(self).catch_up();
  std::vector<Save*> all;
  {
    Locked locked;
    queue_of(self).each([&](Save* save) {
      if (save->use()) all.push_back(save);
    });
  }
  return references_to(in_use(all)).release();
}

// Remove Python's dead entries, and return how many there were. The core's own entries remove themselves.
PyObject* prune(PyObject* self, PyObject*) {
  saves::Queue& queue = queue_of(self);
  std::vector<Save*> dead;
  if (queue.entries() != 0) {
    Locked locked;
    saves::Link& list = queue.unsorted();
    for (saves::Link* at = list.after; at != &list;) {
      auto* save = static_cast<Save*>(at);
      at = at->after;
      if (save->entry != nullptr && PyWeakref_GET_OBJECT(save->entry) == Py_None) {
        queue.drop(save);
        dead.push_back(save);
      }
    }
  }
  const auto uses = in_use(dead);
  return PyLong_FromSize_t(uses.size());
}

// take_own(tensors): remove the saves that the running operation just made of these, at most one of each. `extend`
// takes the result, and puts them back.
PyObject* take_own(PyObject* self, PyObject* tensors) {
  constexpr int kNewest = 8;  // as in unclobber/observe/record/ledger.py
  Owned list = must(PyList_New(0));
  stacks::Operation* operation = stacks::newest();
  if (operation == nullptr || operation->node != at::sequence_number::peek()) return list.release();
  Owned sequence = must(PySequence_Fast(tensors, "tensors are expected"));
  std::vector<const c10::TensorImpl*> left;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); i++) {
    PyObject* tensor = PySequence_Fast_GET_ITEM(sequence.get(), i);
    if (is_tensor(tensor)) left.push_back(THPVariable_Unpack(tensor).unsafeGetTensorImpl());
  }
  std::vector<Save*> own;
  std::vector<at::Tensor> held;  // it is about to be written to
  {
    saves::Queue& queue = queue_of(self);
    Locked locked;
    saves::Link& newest = queue.unsorted();
    int looked_at = 0;
    for (saves::Link* at = newest.before; at != &newest && looked_at < kNewest && !left.empty(); looked_at++) {
      auto* save = static_cast<Save*>(at);
      at = at->before;
      if (save->operation != operation) continue;
      auto found = std::find(left.begin(), left.end(), save->origin._unsafe_get_target());
      if (found == left.end() || !save->use()) continue;
      left.erase(found);
      save->make_alias();
      held.push_back(std::move(save->held));
      queue.drop(save);
      own.push_back(save);
    }
  }
  for (Use& use : in_use(own)) {
    Owned capsule = must(PyCapsule_New(use.get(), kAside, free_aside));
    use.release();
    must(PyList_Append(list.get(), capsule.get()));
  }
  return list.release();
}

// serve(need, unpack): set the function that answers an unpack of a save that may have changed, and the Python hook.
PyObject* serve(PyObject* self, PyObject* arguments) {
  PyObject *need, *unpack;
  if (!PyArg_ParseTuple(arguments, "OO", &need, &unpack)) throw python_error();
  saves::Queue& queue = queue_of(self);
  Owned old_need(std::exchange(queue.need, Py_NewRef(need)));
  Owned old_unpack(std::exchange(queue.unpack, Py_NewRef(unpack)));
  return Py_NewRef(Py_None);
}

// note_writes(file, backward): note writes to live saves here, and call file() before Python sees such a save.
PyObject* note_writes(PyObject* self, PyObject* arguments) {
  PyObject *file, *backward;
  if (!PyArg_ParseTuple(arguments, "OO", &file, &backward)) throw python_error();
  saves::Queue& queue = queue_of(self);
  Owned old(std::exchange(queue.file_noted, Py_NewRef(file)));
  Owned old_backward(std::exchange(queue.backward, backward == Py_None ? nullptr : Py_NewRef(backward)));
  return Py_NewRef(Py_None);
}

PyObject* catch_up(PyObject* self, PyObject*) {
  queue_of(self).catch_up();
  return Py_NewRef(Py_None);
}

PyObject* drain(PyObject* self, PyObject*) { return queue_of(self).drain().release(); }

// The queue is the account of its session's overwritten values.
PyObject* account(PyObject* self, PyObject*) { return Py_NewRef(self); }

long long nbytes_of(PyObject* number) {
  const long long nbytes = PyLong_AsLongLong(number);
  if (nbytes == -1 && PyErr_Occurred() != nullptr) throw python_error();
  return nbytes;
}

PyObject* add(PyObject* self, PyObject* number) {
  queue_of(self).account->add(nbytes_of(number));
  return Py_NewRef(Py_None);
}

PyObject* remove(PyObject* self, PyObject* number) {
  queue_of(self).account->remove(nbytes_of(number));
  return Py_NewRef(Py_None);
}

PyObject* report_counter(PyObject* self, PyObject* tensor) {
  if (is_tensor(tensor)) {
    Locked locked;
    queue_of(self).report_counter(THPVariable_Unpack(tensor));
  }
  return Py_NewRef(Py_None);
}

PyObject* can_pause_observation(PyObject* self, PyObject*) { return pause::can_pause_observation(queue_of(self)); }

PyObject* iterate(PyObject* self) {
  return guarded([&] { return must(PyObject_GetIter(Owned(copy(self, nullptr)).get())).release(); },
                 static_cast<PyObject*>(nullptr));
}

Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(queue_of(self).size()); }
PyObject* written(PyObject* self, void*) { return PyLong_FromSize_t(queue_of(self).written()); }
PyObject* kept(PyObject* self, void*) { return PyLong_FromLongLong(queue_of(self).account->kept.load()); }
PyObject* peak(PyObject* self, void*) { return PyLong_FromLongLong(queue_of(self).account->peak.load()); }
int set_peak(PyObject* self, PyObject* number, void*) {
  const long long nbytes = number == nullptr ? 0 : PyLong_AsLongLong(number);
  if (nbytes == -1 && PyErr_Occurred() != nullptr) return -1;
  queue_of(self).account->peak.store(nbytes);
  return 0;
}
PyObject* died(PyObject* self, void*) { return PyLong_FromLong(queue_of(self).died()); }

PyObject* make(PyTypeObject* of, PyObject*, PyObject*) {
  PyObject* self = of->tp_alloc(of, 0);
  if (self == nullptr) return nullptr;
  new (&held_by(self)->queue) std::shared_ptr<saves::Queue>();
  return guarded(
      [&] {
        Owned made(self);
        held_by(self)->queue = std::make_shared<saves::Queue>();
        return made.release();
      },
      static_cast<PyObject*>(nullptr));
}

// Live saves hold the queue, too. Its functions are shown to the collector only if this object is its last holder.
bool is_alone(PyObject* self) { return held_by(self)->queue.use_count() == 1; }

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (held_by(self)->queue != nullptr && is_alone(self)) {
    Py_VISIT(queue_of(self).need);
    Py_VISIT(queue_of(self).unpack);
    Py_VISIT(queue_of(self).file_noted);
  }
  return 0;
}

int clear(PyObject* self) {
  if (held_by(self)->queue != nullptr && is_alone(self)) {
    Py_CLEAR(queue_of(self).need);
    Py_CLEAR(queue_of(self).unpack);
    Py_CLEAR(queue_of(self).file_noted);
  }
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* of = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  held_by(self)->queue.~shared_ptr();
  of->tp_free(self);
  Py_DECREF(of);
  drop_now();
}

PyMethodDef methods[] = {
    {"append", entry<append>, METH_O, "append(ref)"},
    {"extend", entry<extend>, METH_O, "extend(refs)"},
    {"pop", entry<pop>, METH_NOARGS, "pop(): a reference to the newest"},
    {"popleft", entry<popleft>, METH_NOARGS, "popleft(): a reference to the oldest"},
    {"take", entry<take>, METH_O,
     "take(key): references to those of one storage and those that only Python can sort; None: to all; () for none"},
    {"take_own", entry<take_own>, METH_O, "take_own(tensors): what the running operation has just saved of them"},
    {"put_back", entry<extend>, METH_O, "put_back(refs): what is left of a take()"},
    {"copy", entry<copy>, METH_NOARGS, "copy(): references to all"},
    {"prune", entry<prune>, METH_NOARGS, "prune(): forget dead entries of Python's"},
    {"serve", entry<serve>, METH_VARARGS, "serve(need, unpack)"},
    {"note_writes", entry<note_writes>, METH_VARARGS, "note_writes(file, backward)"},
    {"catch_up", entry<catch_up>, METH_NOARGS, "catch_up(): call file() if writes are noted"},
    {"drain", entry<drain>, METH_NOARGS, "drain(): [(key, saves, writes)] of noted writes; the saves leave the queue"},
    {"account", entry<account>, METH_NOARGS, "account(): itself, the account of overwritten values"},
    {"add", entry<add>, METH_O, "add(nbytes): so many more bytes of these are kept"},
    {"remove", entry<remove>, METH_O, "remove(nbytes): so many are no more"},
    {"report_counter", entry<report_counter>, METH_O,
     "report_counter(tensor): every write that moves its version counter concerns the ledger from now on"},
    {"can_pause_observation", entry<can_pause_observation>, METH_NOARGS,
     "can_pause_observation(): whether backward may run unobserved"},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef attributes[] = {
    {"written", written, nullptr, "How many writes were noted.", nullptr},
    {"kept", kept, nullptr, "Bytes of overwritten values that are kept.", nullptr},
    {"peak", peak, set_peak, "The most there were.", nullptr},
    {"died", died, nullptr, "How many have died in the queue.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The saves of a session that nobody has asked for.")},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_iter, reinterpret_cast<void*>(iterate)},
    {Py_sq_length, reinterpret_cast<void*>(length)},
    {0, nullptr},
};
PyType_Spec spec = {"_unclobber_native.Queue", sizeof(Object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

void add_to(PyObject* module) {
  Owned collections = must(PyImport_ImportModule("collections"));
  deque = must(PyObject_GetAttrString(collections.get(), "deque")).release();
  Owned made = must(PyType_FromSpec(&spec));
  must(PyModule_AddObjectRef(module, "Queue", made.get()));
  type = reinterpret_cast<PyTypeObject*>(made.release());
}

bool is(PyObject* object) { return type != nullptr && Py_TYPE(object) == type; }

std::shared_ptr<saves::Queue> of(PyObject* object) {
  if (!is(object)) {
    PyErr_SetString(PyExc_TypeError, "a Queue is expected");
    throw python_error();
  }
  return held_by(object)->queue;
}

}  // namespace unclobber::queue
