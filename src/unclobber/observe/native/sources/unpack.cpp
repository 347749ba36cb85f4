// The unpack hook, with the results of `unclobber.observe.hooks.saves._make_unpack`.
#include "unpack.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include "callable.h"
#include "handed.h"
#include "records.h"

namespace unclobber::unpack {

namespace {

struct Unpack : callable::Object {
  static constexpr const char* name = "Unpack";
  static constexpr const char* full_name = "_unclobber_native.Unpack";
  static constexpr const char* doc = "Unpack(need, marker, current_node, put): the unpack hook of a session.";
  static constexpr const char* expected = "one saved tensor is expected";

  PyObject* need;          // need(saved): something may have happened to it
  PyObject* marker;        // backward.marker
  PyObject* current_node;  // current_node(): the node that runs in this thread
  PyObject* put;           // put(node, note)

  void begin(PyObject* args);
  PyObject* called(PyObject* record);
  std::array<PyObject**, 4> references() { return {&need, &marker, &current_node, &put}; }
};

PyObject* name_noted = nullptr;
PyObject* name_now = nullptr;

// Note on the node where its operation ran and which backward unpacks; it unpacks several tensors in a row.
void note(const Unpack& unpack, PyObject* record) {
  PyObject* stack = records::get(record, records::kStack);
  Owned noted = must(PyObject_GetAttr(unpack.marker, name_noted));
  if (noted.get() == stack) return;
  const int some = PyObject_IsTrue(stack);
  must(some);
  must(PyObject_SetAttr(unpack.marker, name_noted, some ? stack : Py_None));
  Owned node = must(PyObject_CallNoArgs(unpack.current_node));
  if (node.get() == Py_None) return;
  Owned now = must(PyObject_GetAttr(unpack.marker, name_now));
  Owned pair = must(PyTuple_Pack(2, stack, now.get()));
  must(PyObject_CallFunctionObjArgs(unpack.put, node.get(), pair.get(), nullptr));
}

// Whether the alias is at the version at which it was saved.
bool is_unmoved(PyObject* alias, PyObject* record) {
  if (!is_tensor(alias)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(alias);
  if (tensor.is_inference()) return false;
  const unsigned long version = PyLong_AsUnsignedLong(records::get(record, records::kVersion));
  if (PyErr_Occurred() != nullptr) throw python_error();
  return tensor._version() == static_cast<int64_t>(version);
}

PyObject* Unpack::called(PyObject* record) {
  if (!records::is_record(record)) {
    PyErr_SetString(PyExc_TypeError, "not a saved tensor of ours");
    throw python_error();
  }
  note(*this, record);
  if (handed::asked() && PyObject_HasAttrString(records::get(record, records::kEntry), "unpack")) {
    handed::note(at::Tensor());  // the program's own hooks keep it: record.RegisteredHooks
  } else if (handed::asked() && records::is_checked(record)) {
    PyObject* origin = PyWeakref_GetObject(records::get(record, records::kOrigin));
    handed::note(origin != nullptr && is_tensor(origin) ? THPVariable_Unpack(origin) : at::Tensor());
  }
  if (records::get(record, records::kEntry) == Py_None && records::get(record, records::kCopied) == Py_None) {
    PyObject* alias = records::get(record, records::kAlias);
    if (is_unmoved(alias, record)) {
      PyObject* held = records::get(record, records::kHeld);
      return Py_NewRef(held == Py_None ? alias : held);
    }
  }
  return must(PyObject_CallOneArg(need, record)).release();
}

void Unpack::begin(PyObject* args) {
  if (!PyArg_ParseTuple(args, "OOOO", &need, &marker, &current_node, &put)) throw python_error();
  for (PyObject** one : references()) Py_INCREF(*one);
}

}  // namespace

void add_to(PyObject* module) {
  name_noted = must(PyUnicode_InternFromString("noted")).release();
  name_now = must(PyUnicode_InternFromString("now")).release();
  callable::Class<Unpack>::add_to(module);
}

}  // namespace unclobber::unpack
