// The extension module: compiled by `unclobber build-native` for one build of torch and of Python.
#include "needs.h"
#include "records.h"
#include "saves.h"

namespace {

PyObject* setup(PyObject*, PyObject* saved_tensor) {
  return unclobber::guarded(
      [&] {
        unclobber::records::learn(saved_tensor);
        return Py_NewRef(Py_None);
      },
      static_cast<PyObject*>(nullptr));
}

PyMethodDef methods[] = {
    {"setup", setup, METH_O, "setup(SavedTensor): the class of what Pack makes."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_unclobber_native", nullptr, -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__unclobber_native() {
  return unclobber::guarded(
      [] {
        unclobber::Owned module = unclobber::must(PyModule_Create(&definition));
        unclobber::saves::add_to(module.get());
        unclobber::needs::add_to(module.get());
        return module.release();
      },
      static_cast<PyObject*>(nullptr));
}
