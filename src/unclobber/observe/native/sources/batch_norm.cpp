#include "batch_norm.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include "saves.h"
#include "writes.h"

namespace unclobber::batch_norm {

namespace {

// Whether it is a tensor whose memory has no other holder; a save would hold it by an alias.
bool is_alone(PyObject* buffer) {
  if (buffer == nullptr || !is_of(buffer, THPVariableClass)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(buffer);
  return tensor.has_storage() && saves::holders_of(saves::storage_of(tensor)) == 1;
}

// A dict among a module's attributes; NULL if the module has none. Borrowed.
PyObject* dict_in(PyObject* own, const char* name) {
  PyObject* dict = PyDict_GetItemString(own, name);
  return dict != nullptr && PyDict_Check(dict) ? dict : nullptr;
}

bool is_torchs(PyObject* self, PyObject* input, PyObject* classes, PyObject* statistics, PyObject* replaceable) {
  const int known = PySet_Contains(classes, reinterpret_cast<PyObject*>(Py_TYPE(self)));
  must(known);
  if (known == 0 || !is_of(input, THPVariableClass)) return false;
  Owned own = must(PyObject_GenericGetDict(self, nullptr));
  Owned names = must(PyObject_GetIter(replaceable));
  while (Owned name{PyIter_Next(names.get())}) {
    const int replaced = PyDict_Contains(own.get(), name.get());
    must(replaced);
    if (replaced == 1) return false;
  }
  if (PyErr_Occurred() != nullptr) throw python_error();
  PyObject *buffers = dict_in(own.get(), "_buffers"), *parameters = dict_in(own.get(), "_parameters");
  if (buffers == nullptr || parameters == nullptr) return false;
  PyObject *name, *parameter;
  for (Py_ssize_t at = 0; PyDict_Next(parameters, &at, &name, &parameter) != 0;) {
    if (parameter != Py_None && !is_of(parameter, ParameterClass)) return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(statistics); i++) {
    PyObject* buffer = PyDict_GetItemWithError(buffers, PyTuple_GET_ITEM(statistics, i));
    if (buffer == nullptr && PyErr_Occurred() != nullptr) throw python_error();
    if (!is_alone(buffer)) return false;
  }
  return true;
}

}  // namespace

PyObject* can_pause(PyObject*, PyObject* arguments) {
  PyObject *self, *input, *classes, *statistics, *replaceable;
  if (!PyArg_ParseTuple(arguments, "OOO!O!O!", &self, &input, &PyFrozenSet_Type, &classes, &PyTuple_Type, &statistics,
                        &PyFrozenSet_Type, &replaceable)) {
    throw python_error();
  }
  return PyBool_FromLong(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake) &&
                         at::impl::PythonTorchFunctionTLS::stack_len() == 0 &&
                         c10::impl::TorchDispatchModeTLS::stack_len() == 0 && !writes::follows_without_saves() &&
                         is_torchs(self, input, classes, statistics, replaceable));
}

}  // namespace unclobber::batch_norm
