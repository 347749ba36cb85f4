#include "records.h"

#include <structmember.h>

namespace unclobber::records {

namespace {
constexpr const char* kNames[kSlots] = {"alias",  "base",          "copied", "entry", "held",
                                        "itself", "origin",        "requires_grad", "stack", "version"};
PyTypeObject* type = nullptr;  // owned for the life of the process, as its module is
Py_ssize_t offsets[kSlots];

PyObject** place(PyObject* record, Slot slot) {
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(record) + offsets[slot]);
}
}  // namespace

void learn(PyObject* saved_tensor) {
  if (!PyType_Check(saved_tensor)) {
    PyErr_SetString(PyExc_TypeError, "not a class");
    throw python_error();
  }
  Py_ssize_t found[kSlots];
  for (int slot = 0; slot < kSlots; slot++) {
    Owned descriptor = must(PyObject_GetAttrString(saved_tensor, kNames[slot]));
    auto* member = reinterpret_cast<PyMemberDescrObject*>(descriptor.get());
    if (Py_TYPE(descriptor.get()) != &PyMemberDescr_Type || member->d_member->type != T_OBJECT_EX) {
      PyErr_Format(PyExc_TypeError, "%s is not one of the __slots__", kNames[slot]);
      throw python_error();
    }
    found[slot] = member->d_member->offset;
  }
  std::copy(found, found + kSlots, offsets);
  Py_INCREF(saved_tensor);
  Py_XDECREF(reinterpret_cast<PyObject*>(type));
  type = reinterpret_cast<PyTypeObject*>(saved_tensor);
}

Owned make() {
  if (type == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "setup() comes first");
    throw python_error();
  }
  return must(type->tp_alloc(type, 0));
}

bool is_record(PyObject* object) { return type != nullptr && PyObject_TypeCheck(object, type); }

bool is_checked(PyObject* object) { return type != nullptr && Py_TYPE(object) == type; }

void set(PyObject* record, Slot slot, Owned value) {
  PyObject* old = std::exchange(*place(record, slot), value.release());
  Py_XDECREF(old);
}

PyObject* get(PyObject* record, Slot slot) {
  PyObject* value = *place(record, slot);
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, kNames[slot]);
    throw python_error();
  }
  return value;
}

}  // namespace unclobber::records
