#include "pause.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "journal.h"
#include "saves.h"

namespace unclobber::pause {

namespace {

using Impl = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

bool has_hooks(const at::Tensor& leaf) {
  if (torch::autograd::impl::get_autograd_meta(leaf) == nullptr) return false;
  if (torch::autograd::impl::post_acc_grad_hooks(leaf) != nullptr) return true;
  PyObject* object = object_of(leaf.unsafeGetTensorImpl());
  if (object == nullptr) return !torch::autograd::impl::hooks(leaf).empty();
  PyObject* hooks = reinterpret_cast<THPVariable*>(object)->backward_hooks;
  return hooks != nullptr && hooks != Py_None && PyObject_IsTrue(hooks) != 0;
}

// The known holders of a memory: tensors, and how many owners each may have.
struct Memory {
  struct Holder {
    size_t owners;       // as it is
    size_t allowed = 1;  // as it may be
  };
  c10::StorageImpl* storage = nullptr;
  std::unordered_map<c10::TensorImpl*, Holder> holders;  // as many as there are saves of a parameter
  size_t references = 0;  // of saves that hold it without a tensor of their own

  bool has(c10::TensorImpl* tensor) const { return holders.count(tensor) != 0; }
  Holder& add(c10::TensorImpl* tensor, size_t owners) {
    return holders.try_emplace(tensor, Holder{owners}).first->second;
  }
  bool has_others() const {
    if (saves::holders_of(storage) > holders.size() + references) return true;
    return std::any_of(holders.begin(), holders.end(),
                       [](const auto& one) { return one.second.owners > one.second.allowed; });
  }
};

// Owners without this function's own; Python's names count as one, even while there is none yet.
size_t owners_of(const Impl& tensor) {
  return tensor.use_count() - 1 + (is_held_by_python(tensor.get()) ? 0 : 1);
}

struct Look {
  std::unordered_map<c10::StorageImpl*, Memory> memory;
  std::vector<Impl> leaves;   // that need a gradient: they may have hooks
  std::vector<Impl> held;     // so that none dies under `Locked`

  // False if only Python can decide.
  bool at(saves::Save* save) {
    if (save->entry != nullptr || !save->saved().defined() || save->storage == nullptr) return false;
    if (save->requires_grad) {
      if (!save->is_leafs) return true;
      Impl tensor = (save->is_view ? save->base : save->origin).lock();
      if (tensor.defined()) leaves.push_back(std::move(tensor));
      return true;
    }
    if (c10::raw::intrusive_ptr::use_count(save->storage) == 1) return true;
    const auto type = save->saved().scalar_type();
    if (!at::isFloatingType(type) && !at::isComplexType(type)) return true;
    // The usual case, without a table: only the saved tensor and this save hold the memory, so no other save does.
    if (!save->alias.defined() && !save->is_view && saves::holders_of(save->storage) == 2 &&
        save->held.use_count() + (is_held_by_python(save->held.unsafeGetTensorImpl()) ? 0 : 1) <= 2) {
      return true;
    }
    Memory& known = memory[save->storage];
    known.storage = save->storage;
    if (save->alias.defined()) {
      known.add(save->alias.unsafeGetTensorImpl(), save->alias.use_count());
    } else {
      known.references++;
    }
    Impl origin = save->origin.lock();
    Impl base = save->is_view ? save->base.lock() : Impl();
    const auto* kept = save->noted == nullptr ? nullptr : save->noted->original.unsafeGetTensorImpl();
    if (base.defined()) {
      const bool new_view = origin.defined() && !known.has(origin.get());
      Memory::Holder& holder = known.add(base.get(), owners_of(base));
      if (new_view && origin.get() != base.get()) holder.allowed++;
      if (kept == base.get() && kept != origin.get()) holder.allowed++;
    }
    if (origin.defined()) {
      Memory::Holder& holder = known.add(origin.get(), owners_of(origin));
      if (save->held.defined() || kept == origin.get()) holder.allowed++;
    }
    if (base.defined()) held.push_back(std::move(base));
    if (origin.defined()) held.push_back(std::move(origin));
    return true;
  }
};

}  // namespace

PyObject* can_pause_observation(saves::Queue& queue) {
  Look look;
  bool known = true, others = false;
  {
    Locked locked;
    queue.each([&](saves::Save* save) { known = known && look.at(save); });
    for (const auto& [storage, memory] : look.memory) others = others || memory.has_others();
  }
  if (!known) return Py_NewRef(Py_None);
  for (Impl& one : look.leaves) {
    const at::Tensor tensor(std::move(one));
    if (tensor.is_leaf() && has_hooks(tensor)) return must(PyUnicode_FromString("hook")).release();
  }
  return PyBool_FromLong(!others);
}

}  // namespace unclobber::pause
