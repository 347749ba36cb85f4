#include "views.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace unclobber::views {

namespace {

constexpr size_t kMost = 256;  // as in unclobber/observe/record/_view_writes.py, or more

struct Noted {
  c10::weak_intrusive_ptr<c10::StorageImpl> memory;
  int64_t after;        // version counter after the write
  PyObject* operation;  // an interned name that lives as long as the process
  stacks::Stack* stack;
  uint64_t serial;
};

// By the base, under `Locked`.
using Table = std::unordered_map<const c10::TensorImpl*, Noted>;
Table& table() {
  static auto* all = new Table;
  return *all;
}
uint64_t serial = 0;

const c10::TensorImpl* base_of(const at::Tensor& tensor) {
  return tensor.is_view() ? tensor._base().unsafeGetTensorImpl() : tensor.unsafeGetTensorImpl();
}

// Keep the newest.
void prune() {
  std::vector<uint64_t> serials;
  for (const auto& [base, one] : table()) serials.push_back(one.serial);
  std::nth_element(serials.begin(), serials.end() - kMost, serials.end());
  const uint64_t oldest = *(serials.end() - kMost);
  for (auto at = table().begin(); at != table().end();) {
    if (at->second.serial >= oldest) {
      ++at;
      continue;
    }
    stacks::leave(at->second.stack);
    at = table().erase(at);
  }
}

}  // namespace

void note(const at::Tensor& target, PyObject* operation, stacks::Stack* stack) {
  const c10::TensorImpl* base = base_of(target);
  Noted one{target.storage().getWeakStorageImpl(), target._version() + 1, operation, stack, 0};
  Locked locked;
  one.serial = ++serial;
  auto [at, is_new] = table().try_emplace(base, std::move(one));
  if (!is_new) {
    stacks::leave(at->second.stack);
    at->second = std::move(one);  // `try_emplace` has not moved it
  } else if (table().size() >= 2 * kMost) {
    prune();
  }
}

PyObject* last(PyObject*, PyObject* view) {
  if (!is_tensor(view)) return Py_NewRef(Py_None);
  const at::Tensor& tensor = THPVariable_Unpack(view);
  if (!tensor.is_view() || !tensor.has_storage() || tensor.is_inference()) return Py_NewRef(Py_None);
  c10::intrusive_ptr<c10::StorageImpl> memory;  // here, because it may be the last to hold that
  PyObject* operation = nullptr;
  stacks::Stack* stack = nullptr;
  {
    Locked locked;
    const auto at = table().find(base_of(tensor));
    if (at == table().end() || at->second.after != tensor._version()) return Py_NewRef(Py_None);
    memory = at->second.memory.lock();
    if (memory.get() != tensor.storage().unsafeGetStorageImpl()) return Py_NewRef(Py_None);
    operation = at->second.operation;
    stack = stacks::use(at->second.stack);
  }
  // without `Locked`, because Python may collect garbage now, and free saves
  Owned frames(stacks::tuple_of(stack));
  stacks::leave(stack);
  return must(PyTuple_Pack(2, operation, frames.get())).release();
}

void forget() {
  Locked locked;
  for (const auto& [base, one] : table()) stacks::leave(one.stack);
  table().clear();
}

}  // namespace unclobber::views
