#include "batch_norm.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include "writes.h"

namespace unclobber::batch_norm {

namespace {

constexpr const char* kStatistics[] = {"running_mean", "running_var", "num_batches_tracked"};

bool is_of(PyObject* object, PyObject* type) { return Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(type); }

// Borrowed; NULL where there is none.
PyObject* item(PyObject* dict, const char* name) {
  return dict != nullptr && PyDict_Check(dict) ? PyDict_GetItemString(dict, name) : nullptr;
}

// Whether it is memory that nothing else holds, as a save does by an alias.
bool is_alone(PyObject* buffer) {
  if (buffer == nullptr || !is_of(buffer, THPVariableClass)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(buffer);
  if (!tensor.has_storage()) return false;
  c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  size_t holders = c10::raw::intrusive_ptr::use_count(storage);
  if (object_of(storage) != nullptr) holders--;
  return holders == 1;
}

bool is_torchs(PyObject* self, PyObject* input, PyObject* classes, PyObject* replaceable) {
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
  PyObject *buffers = item(own.get(), "_buffers"), *parameters = item(own.get(), "_parameters");
  if (parameters == nullptr || !PyDict_Check(parameters)) return false;
  PyObject *name, *parameter;
  for (Py_ssize_t at = 0; PyDict_Next(parameters, &at, &name, &parameter) != 0;) {
    if (parameter != Py_None && !is_of(parameter, ParameterClass)) return false;
  }
  for (const char* statistic : kStatistics) {
    if (!is_alone(item(buffers, statistic))) return false;
  }
  return true;
}

}  // namespace

PyObject* rests(PyObject*, PyObject* arguments) {
  PyObject *self, *input, *classes, *replaceable;
  if (!PyArg_ParseTuple(arguments, "OOO!O!", &self, &input, &PyFrozenSet_Type, &classes, &PyFrozenSet_Type,
                        &replaceable)) {
    throw python_error();
  }
  return PyBool_FromLong(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake) &&
                         at::impl::PythonTorchFunctionTLS::stack_len() == 0 &&
                         c10::impl::TorchDispatchModeTLS::stack_len() == 0 && !writes::follows_without_saves() &&
                         is_torchs(self, input, classes, replaceable));
}

}  // namespace unclobber::batch_norm
