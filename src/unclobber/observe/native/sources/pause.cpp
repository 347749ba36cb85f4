#include "pause.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "journal.h"
#include "saves.h"

namespace unclobber::pause {

namespace {

using Impl = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// One known holder of a memory: a tensor, or a save without a tensor of its own.
struct Holder {
  c10::StorageImpl* storage;
  c10::TensorImpl* tensor = nullptr;
  size_t owners = 0;                // of the tensor, as it is; later ones are counted with what `Look` holds
  size_t more = 0;                  // how many are known, besides one
  c10::TensorImpl* view = nullptr;  // one of it, which owns it, too

  bool operator<(const Holder& other) const {
    return std::tie(storage, tensor, view) < std::tie(other.storage, other.tensor, other.view);
  }
};

// Owners without this function's own; Python's names count as one, even while there is none yet.
size_t owners_of(const Impl& tensor) {
  return tensor.use_count() - 1 + (is_held_by_python(tensor.get()) ? 0 : 1);
}

struct Look {
  std::vector<Holder> holders;  // as many as there are saves of a buffer
  std::vector<Impl> held;       // so that none dies under `Locked`

  // False if only Python can decide.
  bool at(saves::Save* save) {
    if (save->entry != nullptr || !save->saved().defined() || !saves::has_memory(save->saved())) return false;
    c10::StorageImpl* storage = saves::storage_of(save->saved());
    if (c10::raw::intrusive_ptr::use_count(storage) == 1) return true;
    const auto type = save->saved().scalar_type();
    if (!at::isFloatingType(type) && !at::isComplexType(type)) return true;
    // The usual case, without a table: only the saved tensor and this save hold the memory, so no other save does.
    if (!save->alias.defined() && !save->is_view && saves::holders_of(storage) == 2 &&
        save->held.use_count() + (is_held_by_python(save->held.unsafeGetTensorImpl()) ? 0 : 1) <= 2) {
      return true;
    }
    Holder own{storage};
    if (save->alias.defined()) {
      own.tensor = save->alias.unsafeGetTensorImpl();
      own.owners = save->alias.use_count();
    }
    holders.push_back(own);
    Impl origin = save->origin.lock();
    Impl base = save->is_view ? save->base.lock() : Impl();
    const auto* kept = save->noted == nullptr ? nullptr : save->noted->original.unsafeGetTensorImpl();
    if (base.defined()) {
      const size_t more = kept == base.get() && kept != origin.get() ? 1 : 0;
      holders.push_back({storage, base.get(), owners_of(base), more, origin.get()});
    }
    if (origin.defined()) {
      const size_t more = save->held.defined() || kept == origin.get() ? 1 : 0;
      holders.push_back({storage, origin.get(), owners_of(origin), more});
    }
    if (base.defined()) held.push_back(std::move(base));
    if (origin.defined()) held.push_back(std::move(origin));
    return true;
  }

  // Whether a memory has other holders, or one of its tensors other owners.
  bool any_others() {
    std::sort(holders.begin(), holders.end());
    for (auto at = holders.begin(); at != holders.end();) {
      c10::StorageImpl* storage = at->storage;
      size_t known = 0;
      while (at != holders.end() && at->storage == storage) {
        const auto first = at;
        size_t owners = first->owners, allowed = 1;
        for (; at != holders.end() && at->storage == storage && at->tensor == first->tensor; ++at) {
          known += at->tensor == nullptr || at == first ? 1 : 0;
          owners = std::min(owners, at->owners);
          allowed += at->more + (at->view != nullptr && (at == first || (at - 1)->view != at->view) ? 1 : 0);
        }
        if (owners > allowed) return true;
      }
      if (saves::holders_of(storage) > known) return true;
    }
    return false;
  }
};

}  // namespace

PyObject* can_pause_observation(saves::Queue& queue) {
  // The room of the last look: a graph's is more than the C library has at hand. Under the interpreter's lock.
  static std::vector<Holder> room;
  Look look;
  look.holders.swap(room);
  bool known = true, others = false, hooked = false;
  {
    Locked locked;
    hooked = queue.any_hooked();
    queue.each_other([&](saves::Save* save) { known = known && look.at(save); });
    others = known && look.any_others();
  }
  look.holders.clear();
  look.holders.swap(room);
  if (hooked) return must(PyUnicode_FromString("hook")).release();
  if (!known) return Py_NewRef(Py_None);
  return PyBool_FromLong(!others);
}

}  // namespace unclobber::pause
