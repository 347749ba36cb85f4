// The unpack hook: what `unclobber.hooks.saves._make_unpack` does, with the same results.
#include "unpack.h"

#include <ATen/core/Tensor.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>

#include "records.h"

namespace unclobber::unpack {

namespace {

struct Unpack {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* need;          // need(saved): something may have happened to it
  PyObject* marker;        // backward.marker
  PyObject* current_node;  // current_node(): whose backward runs in this thread
  PyObject* key;           // of the note in the node's metadata
};

PyObject* name_told = nullptr;
PyObject* name_now = nullptr;
PyObject* name_metadata = nullptr;

Unpack* of(PyObject* self) { return reinterpret_cast<Unpack*>(self); }

// Tell the node where its operation ran and which backward asked; it asks for several tensors in a row.
void note(Unpack* self, PyObject* record) {
  PyObject* stack = records::get(record, records::kStack);
  Owned told = must(PyObject_GetAttr(self->marker, name_told));
  if (told.get() == stack) return;
  const int some = PyObject_IsTrue(stack);
  must(some);
  must(PyObject_SetAttr(self->marker, name_told, some ? stack : Py_None));
  Owned node = must(PyObject_CallNoArgs(self->current_node));
  if (node.get() == Py_None) return;
  Owned now = must(PyObject_GetAttr(self->marker, name_now));
  Owned pair = must(PyTuple_Pack(2, stack, now.get()));
  Owned metadata = must(PyObject_GetAttr(node.get(), name_metadata));
  must(PyObject_SetItem(metadata.get(), self->key, pair.get()));
}

// Whether the alias is at the version at which it was saved.
bool is_unmoved(PyObject* alias, PyObject* record) {
  if (!THPVariable_Check(alias)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(alias);
  if (tensor.is_inference()) return false;
  const unsigned long version = PyLong_AsUnsignedLong(records::get(record, records::kVersion));
  if (PyErr_Occurred() != nullptr) throw python_error();
  return tensor._version() == static_cast<int64_t>(version);
}

PyObject* unpacked(Unpack* self, PyObject* record) {
  if (!records::is_record(record)) {
    PyErr_SetString(PyExc_TypeError, "not a saved tensor of ours");
    throw python_error();
  }
  note(self, record);
  if (records::get(record, records::kEntry) == Py_None) {
    PyObject* alias = records::get(record, records::kAlias);
    if (is_unmoved(alias, record)) return Py_NewRef(alias);
  }
  return must(PyObject_CallOneArg(self->need, record)).release();
}

PyObject* called(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  if (PyVectorcall_NARGS(flags) != 1 || (names != nullptr && PyTuple_GET_SIZE(names) != 0)) {
    PyErr_SetString(PyExc_TypeError, "one saved tensor is expected");
    return nullptr;
  }
  return guarded([&] { return unpacked(of(self), args[0]); }, static_cast<PyObject*>(nullptr));
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Unpack* u = of(self);
  Py_VISIT(Py_TYPE(self));
  for (PyObject* one : {u->dict, u->need, u->marker, u->current_node, u->key}) {
    Py_VISIT(one);
  }
  return 0;
}

int clear(PyObject* self) {
  Unpack* u = of(self);
  for (PyObject** one : {&u->dict, &u->need, &u->marker, &u->current_node, &u->key}) {
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

// Unpack(need, marker, current_node, key)
PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *need, *marker, *current_node, *key;
  if (!PyArg_ParseTuple(args, "OOOO", &need, &marker, &current_node, &key)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Unpack* u = of(self);
  u->call = called;
  u->need = Py_NewRef(need);
  u->marker = Py_NewRef(marker);
  u->current_node = Py_NewRef(current_node);
  u->key = Py_NewRef(key);
  return self;
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Unpack, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Unpack, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Unpack, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The unpack hook of a session.")},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"_unclobber_native.Unpack", sizeof(Unpack), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

void add_to(PyObject* module) {
  name_told = must(PyUnicode_InternFromString("told")).release();
  name_now = must(PyUnicode_InternFromString("now")).release();
  name_metadata = must(PyUnicode_InternFromString("metadata")).release();
  Owned type = must(PyType_FromSpec(&spec));
  must(PyModule_AddObjectRef(module, "Unpack", type.get()));
}

}  // namespace unclobber::unpack
