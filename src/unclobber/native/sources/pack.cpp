// The pack hook: what `unclobber.hooks.saves._make_pack` does, step by step, with the same results.
#include "pack.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include "records.h"
#include "stacks.h"

namespace unclobber::pack {

namespace {

struct Pack {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* ledger;
  PyObject* queue;   // ledger.pending
  PyObject* append;  // of the queue
  char sees;         // whether an operation that saves opens its thread's eyes to writes
};

PyObject* name_detach = nullptr;
PyObject* name_limit = nullptr;
PyObject* name_prune = nullptr;

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

Owned stack_now(Pack* self) {
  bool fresh = false;
  stacks::Operation* operation = stacks::current(&fresh);
  if (fresh && self->sees) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
  try {
    Owned stack = Owned::borrowed(operation->tuple());
    operation->leave();
    return stack;
  } catch (...) {
    operation->leave();
    throw;
  }
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

PyObject* packed(Pack* self, PyObject* object) {
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
  return guarded([&] { return packed(of(self), args[0]); }, static_cast<PyObject*>(nullptr));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Pack* p = of(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* one : {p->dict, p->ledger, p->queue, p->append}) {
    Py_VISIT(one);
  }
  return 0;
}

int clear(PyObject* self) {
  Pack* p = of(self);
  for (PyObject** one : {&p->dict, &p->ledger, &p->queue, &p->append}) {
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

// Pack(ledger, sees)
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* ledger;
  int sees;
  if (!PyArg_ParseTuple(args, "Op", &ledger, &sees)) return nullptr;
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
  name_detach = must(PyUnicode_InternFromString("detach")).release();
  name_limit = must(PyUnicode_InternFromString("pending_limit")).release();
  name_prune = must(PyUnicode_InternFromString("prune")).release();
  Owned type = must(PyType_FromSpec(&spec));
  must(PyModule_AddObjectRef(module, "Pack", type.get()));
}

}  // namespace unclobber::pack
