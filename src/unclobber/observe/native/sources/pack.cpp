// The pack hook: what `unclobber.observe.hooks.saves._make_pack` does, step by step, with the same results.
#include "pack.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include "callable.h"
#include "records.h"
#include "saves.h"
#include "stacks.h"

namespace unclobber::pack {

namespace {

struct Pack : callable::Object {
  static constexpr const char* name = "Pack";
  static constexpr const char* full_name = "_unclobber_native.Pack";
  static constexpr const char* doc = "Pack(ledger, sees): the pack hook of one thread of a session.";
  static constexpr const char* expected = "one tensor is expected";

  PyObject* ledger;
  PyObject* queue;   // ledger.pending
  PyObject* append;  // of the queue
  bool sees;         // whether an operation that saves opens its thread's eyes to writes

  void begin(PyObject* args);
  PyObject* called(PyObject* object);
  std::array<PyObject**, 3> references() { return {&ledger, &queue, &append}; }
};

PyObject* name_limit = nullptr;
PyObject* name_prune = nullptr;

Owned stack_now(bool sees) {
  bool fresh = false;
  stacks::Operation* operation = stacks::current(&fresh);
  if (fresh && sees) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
  try {
    Owned stack = Owned::borrowed(operation->tuple());
    operation->leave();
    return stack;
  } catch (...) {
    operation->leave();
    throw;
  }
}

void queue_up(const Pack& pack, PyObject* record) {
  Owned reference = must(PyWeakref_NewRef(record, nullptr));
  must(PyObject_CallOneArg(pack.append, reference.get()));
  const Py_ssize_t queued = PyObject_Size(pack.queue);
  must(queued < 0 ? -1 : 0);
  Owned limit = must(PyObject_GetAttr(pack.ledger, name_limit));
  const Py_ssize_t most = PyLong_AsSsize_t(limit.get());
  if (most == -1 && PyErr_Occurred()) throw python_error();
  if (queued > most) must(PyObject_CallMethodNoArgs(pack.ledger, name_prune));
}

PyObject* Pack::called(PyObject* object) {
  if (!is_tensor(object)) {
    PyErr_SetString(PyExc_TypeError, "not a tensor");
    throw python_error();
  }
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool kept_itself = saves::is_kept_itself(tensor, torch::autograd::impl::get_autograd_meta(tensor));
  Owned record = records::make();
  records::set(record.get(), records::kAlias, must(THPVariable_Wrap(saves::alias_of(tensor, kept_itself))));
  records::set(record.get(), records::kHeld, Owned::borrowed(kept_itself ? object : Py_None));
  records::set(record.get(), records::kItself, Owned(PyBool_FromLong(kept_itself)));
  records::set(record.get(), records::kVersion, must(PyLong_FromUnsignedLong(tensor._version())));
  records::set(record.get(), records::kRequiresGrad, Owned(PyBool_FromLong(tensor.requires_grad())));
  records::set(record.get(), records::kOrigin, must(PyWeakref_NewRef(object, nullptr)));
  Owned base = Owned::borrowed(Py_None);
  if (tensor.is_view()) base = must(PyWeakref_NewRef(must(THPVariable_Wrap(tensor._base())).get(), nullptr));
  records::set(record.get(), records::kBase, std::move(base));
  records::set(record.get(), records::kStack, stack_now(sees));
  records::set(record.get(), records::kEntry, Owned::borrowed(Py_None));
  records::set(record.get(), records::kCopied,
               saves::as_bytes(saves::is_usual(tensor) ? saves::bytes_of(tensor) : nullptr));
  queue_up(*this, record.get());
  return record.release();
}

void Pack::begin(PyObject* args) {
  PyObject* given;
  int opens;
  if (!PyArg_ParseTuple(args, "Op", &given, &opens)) throw python_error();
  Owned pending = must(PyObject_GetAttrString(given, "pending"));
  append = must(PyObject_GetAttrString(pending.get(), "append")).release();
  queue = pending.release();
  ledger = Py_NewRef(given);
  sees = opens != 0;
}

}  // namespace

void add_to(PyObject* module) {
  name_limit = must(PyUnicode_InternFromString("pending_limit")).release();
  name_prune = must(PyUnicode_InternFromString("prune")).release();
  callable::Class<Pack>::add_to(module);
}

}  // namespace unclobber::pack
