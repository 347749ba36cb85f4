// The pack hook: what `unclobber.hooks.saves._make_pack` does, step by step, with the same results.
#include "saves.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include "records.h"
#include "stacks.h"

namespace unclobber::saves {

namespace {

struct Pack {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* ledger;
  PyObject* queue;     // ledger.pending
  PyObject* append;    // of the queue
  PyObject* newest;    // frames.newest
  PyObject* deeper;    // frames.go_deeper
  PyObject* helpers;   // files whose frames several operations have in common
  // Of the last save: where it was made, the number of the node after its own, its stack.
  PyObject* code;  // NULL where no Python ran
  PyObject* stack;
  int at;
  void* frame;
  uint64_t node;
  char in_common;
  char any;  // whether there was one
  char sees;
};

PyObject* name_save = nullptr;
PyObject* name_detach = nullptr;
PyObject* name_limit = nullptr;
PyObject* name_prune = nullptr;
PyObject* name_file = nullptr;

Pack* of(PyObject* self) { return reinterpret_cast<Pack*>(self); }

// Strided memory of its own, no class and no transform of the program's: what torch's own detach() would be
// asked for nothing else.
bool is_usual(PyObject* object, const at::Tensor& tensor) {
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(THPVariableClass) &&
      Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(ParameterClass)) {
    return false;
  }
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto keys = impl->key_set();
  return impl->has_storage() && impl->layout() == c10::kStrided && !impl->is_inference() &&
         !keys.has_any(c10::functorch_transforms_ks | c10::python_ks);
}

Owned alias_of(PyObject* object, const at::Tensor& tensor, bool usual) {
  if (usual) return must(THPVariable_Wrap(tensor.tensor_data()));
  return must(PyObject_CallMethodNoArgs(object, name_detach));
}

bool same_stack(PyObject* one, PyObject* other) {
  const int same = PyObject_RichCompareBool(one, other, Py_EQ);
  must(same);
  return same == 1;
}

// A new place of saving in `frame`, NULL where no Python runs.
void note_place(Pack* self, PyObject* frame, Owned code, int at, uint64_t node, Owned stack, bool in_common) {
  Owned number = must(PyLong_FromUnsignedLongLong(node));
  Owned pair = must(PyTuple_Pack(2, number.get(), stack.get()));
  PyObject* old_code = std::exchange(self->code, code.release());
  PyObject* old_stack = std::exchange(self->stack, stack.release());
  self->at = at;
  self->frame = frame;
  self->node = node;
  self->in_common = in_common;
  self->any = 1;
  Py_XDECREF(old_code);
  Py_XDECREF(old_stack);
  must(PyObject_SetAttr(self->newest, name_save, pair.get()));
}

Owned walked(PyObject* frame, PyObject* deeper) {
  return frame == nullptr ? must(PyTuple_New(0)) : stacks::from(frame, deeper);
}

// The stack of this save: that of the last one while nothing shows that another operation runs.
Owned stack_now(Pack* self) {
  Owned frame = stacks::innermost();
  Owned code = frame ? stacks::code_of(frame.get()) : Owned();
  const int at = frame ? stacks::lasti_of(frame.get()) : -1;
  const uint64_t node = at::sequence_number::peek();
  const bool same = self->any && at == self->at && code.get() == self->code && frame.get() == self->frame &&
                    node == self->node;
  if (!same) {
    bool in_common = true;
    if (code) {
      Owned file = must(PyObject_GetAttr(code.get(), name_file));
      const int known = PySet_Contains(self->helpers, file.get());
      must(known);
      in_common = known == 1;
    }
    note_place(self, frame.get(), std::move(code), at, node, walked(frame.get(), self->deeper), in_common);
    if (self->sees) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
  } else if (self->in_common) {
    Owned stack = walked(frame.get(), self->deeper);
    if (!same_stack(stack.get(), self->stack)) {
      note_place(self, frame.get(), std::move(code), at, node, std::move(stack), true);
    }
  }
  return Owned::borrowed(self->stack);
}

void queue_up(Pack* self, PyObject* record) {
  Owned reference = must(PyWeakref_NewRef(record, nullptr));
  must(PyObject_CallOneArg(self->append, reference.get()));
  const Py_ssize_t queued = PyObject_Size(self->queue);
  must(queued < 0 ? -1 : 0);
  Owned limit = must(PyObject_GetAttr(self->ledger, name_limit));
  const Py_ssize_t most = PyLong_AsSsize_t(limit.get());
  if (most == -1 && PyErr_Occurred()) throw python_error();
  if (queued > most) must(PyObject_CallMethodNoArgs(self->ledger, name_prune));
}

PyObject* pack(Pack* self, PyObject* object) {
  if (!THPVariable_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "not a tensor");
    throw python_error();
  }
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool usual = is_usual(object, tensor);
  Owned record = records::make();
  records::set(record.get(), records::kAlias, alias_of(object, tensor, usual));
  if (usual) {
    records::set(record.get(), records::kVersion, must(PyLong_FromUnsignedLong(tensor._version())));
    records::set(record.get(), records::kRequiresGrad, Owned(PyBool_FromLong(tensor.requires_grad())));
  } else {
    records::set(record.get(), records::kVersion, must(PyObject_GetAttrString(object, "_version")));
    records::set(record.get(), records::kRequiresGrad, must(PyObject_GetAttrString(object, "requires_grad")));
  }
  records::set(record.get(), records::kOrigin, must(PyWeakref_NewRef(object, nullptr)));
  Owned base = usual && !tensor.is_view() ? Owned::borrowed(Py_None)
                                          : must(PyObject_GetAttrString(object, "_base"));
  if (base.get() != Py_None) base = must(PyWeakref_NewRef(base.get(), nullptr));
  records::set(record.get(), records::kBase, std::move(base));
  records::set(record.get(), records::kStack, stack_now(self));
  records::set(record.get(), records::kEntry, Owned::borrowed(Py_None));
  queue_up(self, record.get());
  return record.release();
}

PyObject* called(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  if (PyVectorcall_NARGS(flags) != 1 || (names != nullptr && PyTuple_GET_SIZE(names) != 0)) {
    PyErr_SetString(PyExc_TypeError, "one tensor is expected");
    return nullptr;
  }
  return guarded([&] { return pack(of(self), args[0]); }, static_cast<PyObject*>(nullptr));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Pack* p = of(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* one : {p->dict, p->ledger, p->queue, p->append, p->newest, p->deeper, p->helpers, p->code, p->stack}) {
    Py_VISIT(one);
  }
  return 0;
}

int clear(PyObject* self) {
  Pack* p = of(self);
  for (PyObject** one : {&p->dict, &p->ledger, &p->queue, &p->append, &p->newest, &p->deeper, &p->helpers, &p->code, &p->stack}) {
    Py_CLEAR(*one);
  }
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (of(self)->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Pack(ledger, newest, deeper, helpers, sees)
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *ledger, *newest, *deeper, *helpers;
  int sees;
  if (!PyArg_ParseTuple(args, "OOOO!p", &ledger, &newest, &deeper, &PyFrozenSet_Type, &helpers, &sees)) return nullptr;
  return guarded(
      [&] {
        Owned queue = must(PyObject_GetAttrString(ledger, "pending"));
        Owned append = must(PyObject_GetAttrString(queue.get(), "append"));
        Owned self = must(type->tp_alloc(type, 0));
        Pack* p = of(self.get());
        p->call = called;
        p->ledger = Py_NewRef(ledger);
        p->queue = queue.release();
        p->append = append.release();
        p->newest = Py_NewRef(newest);
        p->deeper = Py_NewRef(deeper);
        p->helpers = Py_NewRef(helpers);
        p->sees = static_cast<char>(sees);
        return self.release();
      },
      static_cast<PyObject*>(nullptr));
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Pack, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Pack, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Pack, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The pack hook of one thread of a session.")},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"_unclobber_native.Pack", sizeof(Pack), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void add_to(PyObject* module) {
  name_save = must(PyUnicode_InternFromString("save")).release();
  name_detach = must(PyUnicode_InternFromString("detach")).release();
  name_limit = must(PyUnicode_InternFromString("pending_limit")).release();
  name_prune = must(PyUnicode_InternFromString("prune")).release();
  name_file = must(PyUnicode_InternFromString("co_filename")).release();
  Owned type = must(PyType_FromSpec(&spec));
  must(PyModule_AddObjectRef(module, "Pack", type.get()));
}

}  // namespace unclobber::saves
