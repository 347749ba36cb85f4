// Base of Python classes whose objects are called with one argument, as saved-tensor hooks are.
#pragma once
#include "common.h"

#include <structmember.h>

#include <array>

namespace unclobber::callable {

struct Object {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* dict;
  PyObject* weakrefs;
};

inline PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Object, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// The class of a struct T that inherits from Object, adds references to other objects, and has
//   static constexpr const char *name, *full_name, *doc;
//   static constexpr const char* expected;  // the error for a call with anything but one argument
//   void begin(PyObject* args);             // fills a new object, all zeros, from what __new__ was given
//   PyObject* called(PyObject* argument);   // a new reference, or a C++ exception
//   std::array<PyObject**, N> references();  // all of them
template <typename T>
class Class {
 public:
  // Make the class, and add it to the module.
  static void add_to(PyObject* module) {
    Owned type = must(PyType_FromSpec(&spec));
    must(PyModule_AddObjectRef(module, T::name, type.get()));
  }

 private:
  static T* of(PyObject* self) { return reinterpret_cast<T*>(self); }

  static PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
    if (PyVectorcall_NARGS(flags) != 1 || (names != nullptr && PyTuple_GET_SIZE(names) != 0)) {
      PyErr_SetString(PyExc_TypeError, T::expected);
      return nullptr;
    }
    return guarded([&] { return of(self)->called(args[0]); }, static_cast<PyObject*>(nullptr));
  }

  static PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded(
        [&] {
          Owned self = must(type->tp_alloc(type, 0));
          of(self.get())->call = call;
          of(self.get())->begin(args);
          return self.release();
        },
        static_cast<PyObject*>(nullptr));
  }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self)->dict);
    for (PyObject** one : of(self)->references()) Py_VISIT(*one);
    return 0;
  }

  static int clear(PyObject* self) {
    Py_CLEAR(of(self)->dict);
    for (PyObject** one : of(self)->references()) Py_CLEAR(*one);
    return 0;
  }

  static void dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (of(self)->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
  }

  static inline PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>(T::doc)},
      {Py_tp_new, reinterpret_cast<void*>(make)},
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_members, members},
      {0, nullptr},
  };
  static inline PyType_Spec spec = {T::full_name, sizeof(T), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
};

}  // namespace unclobber::callable
