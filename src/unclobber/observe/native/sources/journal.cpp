#include "journal.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "extent.h"
#include "frames.h"
#include "steps.h"

namespace unclobber::saves {

namespace {

constexpr size_t kMostWrites = 256;         // as `_storage._LONGEST_LOG`, beyond which Python folds them
constexpr int64_t kLargestCopy = 1 << 20;  // bytes that are copied under `Locked`
constexpr int kDeepest = 200;               // as in unclobber/source/frames.py

// Whether an `Extent` can be made of a tensor: a nested one has no strides, a traced one has none that are numbers,
// and those of a subclass may be the program's own code.
bool has_extent(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->layout() == c10::kStrided && !impl->is_nested() && !impl->has_symbolic_sizes_strides() &&
         !impl->key_set().has_any(c10::functorch_transforms_ks | c10::python_ks);
}

// Whether writes to it, and to what shares its memory, can be noted here.
bool is_noted(const at::Tensor& tensor) {
  return has_extent(tensor) && tensor.device().is_cpu() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor.is_quantized() && tensor.numel() != 0;
}

// Whether no two indices of a tensor are one element.
bool is_once(const Geometry& geometry) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 4> dimensions;
  for (size_t i = 0; i < geometry.sizes.size(); i++) {
    if (geometry.sizes[i] > 1) dimensions.emplace_back(geometry.strides[i], geometry.sizes[i]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t span = 0;
  for (const auto& [stride, size] : dimensions) {
    if (stride <= span) return false;
    span += (size - 1) * stride;
  }
  return true;
}

// Whether both are all elements of one piece of memory, as a matrix and its transpose.
bool is_one_piece(const at::Tensor& one, const at::Tensor& other) {
  return one.is_non_overlapping_and_dense() && other.is_non_overlapping_and_dense() &&
         one.storage_offset() == other.storage_offset() && one.scalar_type() == other.scalar_type() &&
         one.numel() == other.numel();
}

// Whether a node surely has a class in Python, which names what it saves: `compat.graph.has_unnamed_saves`.
bool has_names(const torch::autograd::Node& node) {
  const char* kind = typeid(node).name();
  const auto is_in = [=](const char* part) { return std::strstr(kind, part) != nullptr; };
  return (is_in("autograd9generated") && !is_in("Foreach")) || is_in("CopySlices") || is_in("PyNode");
}

// Set what a report wants to know of a save before its first write, which gives the tensor another node; as
// `note_original` in unclobber/observe/record/saved.py. False if only that can.
bool note_original(Fresh& fresh, PyObject* backward) {
  const Save* save = fresh.save;
  Noted& noted = *fresh.noted;
  at::Tensor& origin = fresh.origin = at::Tensor(save->origin.lock());
  if (!save->requires_grad) {
    noted.original = !origin.defined() && save->is_view ? at::Tensor(save->base.lock()) : origin;
    return true;
  }
  const stacks::Stack* stack = save->operation->stack;
  const bool is_below = std::any_of(stack->frames, stack->frames + stack->count,
                                    [=](const unclobber_frame& frame) { return frame.code == backward; });
  if (is_below) return false;  // what that backward unpacked is perhaps the tensor that is written
  auto* meta = origin.defined() && !noted.moved ? torch::autograd::impl::get_autograd_meta(origin) : nullptr;
  if (meta == nullptr || meta->grad_fn_ == nullptr) return true;
  if (origin.is_view()) {
    auto* view = static_cast<torch::autograd::DifferentiableViewMeta*>(meta);
    if (view->get_attr_version() != origin._version()) return true;  // that node is an old one
  }
  const auto& node = meta->grad_fn_;
  if (!has_names(*node)) return false;
  if (!save->held.defined()) {  // known of a node's own result, which would keep the node
    return !save->is_view && node->sequence_nr() + 1 == save->operation->node;
  }
  noted.maker = node;
  noted.output = static_cast<int>(meta->output_nr_);
  if (!save->is_view) noted.original = origin;
  return true;
}

struct Callers {
  std::vector<PyObject*> codes;  // owned for the life of the process
  std::vector<int> places;       // of `self`
  std::vector<bool> steps;
} callers;

}  // namespace

Geometry::Geometry(const at::Tensor& tensor)
    : offset(tensor.storage_offset()),
      sizes(tensor.sizes().begin(), tensor.sizes().end()),
      strides(tensor.strides().begin(), tensor.strides().end()),
      type(tensor.scalar_type()),
      nbytes(static_cast<int64_t>(tensor.itemsize())) {
  for (size_t i = 0; i < sizes.size(); i++) {
    if (strides[i] != 0) nbytes *= sizes[i];
  }
}

void Account::add(int64_t nbytes) {
  const int64_t now = kept.fetch_add(nbytes) + nbytes;
  int64_t most = peak.load();
  while (most < now && !peak.compare_exchange_weak(most, now)) {
  }
}

Copied::Copied(std::shared_ptr<Account> account, const at::Tensor& tensor, int64_t nbytes)
    : bytes(new char[static_cast<size_t>(tensor.numel()) * tensor.itemsize()]),
      strides(tensor.strides().begin(), tensor.strides().end()),
      account(std::move(account)),
      nbytes(nbytes) {
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const char* from = static_cast<const char*>(tensor.const_data_ptr());
  if (tensor.is_non_overlapping_and_dense()) {
    std::memcpy(bytes.get(), from, static_cast<size_t>(tensor.numel() * item));
  } else {  // element by element, in the order of indices
    const auto sizes = tensor.sizes();
    c10::SmallVector<int64_t, 4> at(sizes.size(), 0);
    char* to = bytes.get();
    for (int64_t left = tensor.numel(); left > 0; left--, to += item) {
      std::memcpy(to, from, static_cast<size_t>(item));
      for (size_t i = sizes.size(); i-- > 0;) {
        from += strides[i] * item;
        if (++at[i] < sizes[i]) break;
        from -= strides[i] * item * sizes[i];
        at[i] = 0;
      }
    }
    int64_t next = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = next;
      next *= sizes[i];
    }
  }
  this->account->add(nbytes);
}

Copied::~Copied() { account->remove(nbytes); }

at::Tensor Copied::tensor_of(std::shared_ptr<Copied> copied, const Geometry& geometry) {
  copied->account->remove(std::exchange(copied->nbytes, 0));
  void* data = copied->bytes.get();
  const auto options = at::TensorOptions().dtype(geometry.type).device(at::kCPU);
  return at::from_blob(data, geometry.sizes, copied->strides, [copied](void*) {}, options);
}

Journal::~Journal() {
  for (const Write& write : writes) {
    stacks::leave(write.stack);
    drop_later_locked(write.actor);
  }
  for (const auto& [since, stack] : dead) stacks::leave(stack);
}

Shelf::Shelf() = default;
Shelf::~Shelf() = default;

bool may_share_bytes(const at::Tensor& one, const at::Tensor& other) {
  return !has_extent(one) || !has_extent(other) || Extent(one).may_meet(Extent(other));
}

Meets Queue::meets(c10::StorageImpl* storage, const at::Tensor& target, bool of_elements) {
  index();
  if (!queue_.alone()) return Meets::kPython;
  auto found = by_storage_.find(storage);
  if (found == by_storage_.end() || found->second.alone()) return Meets::kNone;
  Shelf& shelf = found->second;
  if (!of_elements || !has_extent(target)) return Meets::kPython;
  const Extent written(target);
  bool met = false;
  for (Link* at = shelf.after; at != &shelf && !met; at = at->after) {
    const at::Tensor& saved = static_cast<Save*>(at)->saved();
    if (!saved.defined() || !has_extent(saved)) return Meets::kPython;
    met = counter_of(saved) == counter_of(target) || Extent(saved).may_meet(written);
  }
  if (!met) return Meets::kNone;
  const bool is_full = shelf.journal != nullptr && shelf.journal->writes.size() >= kMostWrites;
  return file_noted == nullptr || is_full || !is_noted(target) ? Meets::kPython : Meets::kNoted;
}

bool Queue::note_write(c10::StorageImpl* storage, const at::Tensor& target, PyObject* operation, stacks::Stack* stack,
                       PyObject* actor, std::vector<Fresh>& fresh) {
  index();
  auto place = by_storage_.find(storage);
  if (!queue_.alone() || place == by_storage_.end() || place->second.alone()) return false;
  Shelf& shelf = place->second;
  const Geometry geometry(target);
  if (geometry.nbytes > kLargestCopy || !is_once(geometry)) return false;
  const std::vector<Write> none;
  const std::vector<Write>& writes = shelf.journal == nullptr ? none : shelf.journal->writes;
  const auto now = static_cast<int>(writes.size());
  const Extent written(target);
  std::vector<std::pair<Save*, bool>> needed_by;  // with whether its geometry is the write's
  std::vector<Geometry> hit;                      // geometries of saves that are not yet copied whole
  for (Link* at = shelf.after; at != &shelf; at = at->after) {
    auto* save = static_cast<Save*>(at);
    const at::Tensor& saved = save->saved();
    if (save->entry != nullptr || save->record.load() != nullptr || !saved.defined() || !is_noted(saved)) return false;
    Noted* noted = save->noted.get();
    if (noted == nullptr) {
      fresh.push_back({save, std::make_unique<Noted>(Noted{now, saved._version() != save->version})});
      if (backward != nullptr && !note_original(fresh.back(), backward)) return false;
    }
    if ((noted != nullptr && noted->whole) || !Extent(saved).may_meet(written)) continue;
    const Geometry own(saved);
    if (std::find(hit.begin(), hit.end(), own) == hit.end()) hit.push_back(own);
    const bool equal = own == geometry;
    if (!equal && !is_one_piece(saved, target) && (own.nbytes <= geometry.nbytes || !is_once(own))) return false;
    // the first write took the value that the save needs
    const auto first = writes.begin() + (noted == nullptr ? now : noted->since);
    if (std::any_of(first, writes.end(), [&](const Write& one) { return one.geometry == geometry; })) continue;
    if ((noted == nullptr ? 0 : noted->recorded) + geometry.nbytes > own.nbytes) return false;
    needed_by.emplace_back(save, equal);
  }
  std::shared_ptr<Copied> copied;  // before anything changes, because there may be no memory for it
  if (!needed_by.empty()) copied = std::make_shared<Copied>(account, target, geometry.nbytes);
  for (Fresh& one : fresh) {
    one.save->make_alias();
    one.held = std::exchange(one.save->held, at::Tensor());
    one.save->noted = std::move(one.noted);
  }
  const int64_t counter = static_cast<Save*>(shelf.before)->saved()._version();
  for (const auto& [save, equal] : needed_by) {
    save->noted->copied.push_back(copied);
    save->noted->recorded += geometry.nbytes;
    // as `StorageLog.preserve` has it when it files this write
    save->noted->whole = equal || (hit.size() == 1 && hit[0].nbytes == geometry.nbytes);
  }
  if (shelf.journal == nullptr) {
    shelf.journal = std::make_unique<Journal>();
    noted_.store(noted() + 1, std::memory_order_relaxed);
  }
  shelf.journal->writes.push_back({operation, stack, actor, target._version(), counter, geometry, copied});
  written_.store(this->written() + 1, std::memory_order_relaxed);
  return true;
}

void Queue::forget_noted(Save* save) {
  auto place = by_storage_.find(save->storage);
  if (place == by_storage_.end() || place->second.journal == nullptr) return;
  Journal& journal = *place->second.journal;
  if (place->second.alone()) {
    place->second.journal.reset();
    noted_.store(noted() - 1, std::memory_order_relaxed);
    return;
  }
  const std::pair<int, stacks::Stack*> one{save->noted->since, save->operation->stack};
  if (std::find(journal.dead.begin(), journal.dead.end(), one) != journal.dead.end()) return;
  stacks::use(one.second);
  journal.dead.push_back(one);
}

void Queue::catch_up(bool waits) {
  if ((waits || noted() != 0) && file_noted != nullptr) must(PyObject_CallNoArgs(file_noted));
}

Owned Queue::drain() {
  struct Drained {
    c10::StorageImpl* storage;
    std::vector<Save*> saves;
    std::vector<std::unique_ptr<Noted>> noted, of_dying;
    std::unique_ptr<Journal> journal;
  };
  std::vector<Drained> all;
  {
    Locked locked;
    index();
    for (auto& [storage, shelf] : by_storage_) {
      if (shelf.journal == nullptr) continue;
      Drained one{storage, {}, {}, {}, std::move(shelf.journal)};
      noted_.store(noted() - 1, std::memory_order_relaxed);
      for (Link* at = shelf.after; at != &shelf;) {
        auto* save = static_cast<Save*>(at);
        at = at->after;
        if (save->noted == nullptr) continue;  // it was made after the last write
        // `save->noted` stays: whoever unpacks the save from now on must wait until it is filed
        auto noted = std::make_unique<Noted>(std::move(*save->noted));
        const size_t before = one.saves.size();
        hand_out(save, one.saves);
        // kept in any case, because a tensor may go with it, and not under `Locked`
        (one.saves.size() > before ? one.noted : one.of_dying).push_back(std::move(noted));
      }
      all.push_back(std::move(one));
    }
  }
  struct Uses {
    std::vector<Drained>& all;
    ~Uses() {
      for (Drained& one : all) {
        for (Save* save : one.saves) save->leave();
        Locked locked;
        one.journal.reset();
      }
    }
  } uses{all};
  Owned list = must(PyList_New(0));
  for (Drained& one : all) {
    Owned saves = must(PyList_New(0)), writes = must(PyList_New(0));
    for (size_t i = 0; i < one.saves.size(); i++) {
      const Noted& noted = *one.noted[i];
      PyObject* record = unfiled_record_of(one.saves[i]);
      Owned original = noted.original.defined() ? must(THPVariable_Wrap(noted.original)) : Owned::borrowed(Py_None);
      Owned maker = noted.maker == nullptr ? Owned::borrowed(Py_None)
                                           : must(torch::autograd::functionToPyObject(noted.maker));
      Owned fields = must(Py_BuildValue("(OiOOOi)", record, noted.since, noted.moved ? Py_True : Py_False,
                                        original.get(), maker.get(), noted.output));
      must(PyList_Append(saves.get(), fields.get()));
    }
    for (const auto& [since, stack] : one.journal->dead) {
      Owned fields = must(Py_BuildValue("(Ni)", stacks::tuple_of(stack), since));
      must(PyList_Append(saves.get(), fields.get()));
    }
    for (const Write& write : one.journal->writes) {
      auto copied = write.copied.lock();
      Owned old = copied == nullptr ? Owned::borrowed(Py_None)
                                    : must(THPVariable_Wrap(Copied::tensor_of(copied, write.geometry)));
      const auto list_of = [](const auto& numbers) {
        Owned made = must(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
        for (size_t i = 0; i < numbers.size(); i++) {
          PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), must(PyLong_FromLongLong(numbers[i])).release());
        }
        return made;
      };
      Owned stack = must(stacks::tuple_of(write.stack));
      Owned sizes = list_of(write.geometry.sizes), strides = list_of(write.geometry.strides);
      Owned fields = must(Py_BuildValue(
          "(OOOLL(LLOO)O)", write.operation, stack.get(), write.actor == nullptr ? Py_None : write.actor,
          static_cast<long long>(write.version), static_cast<long long>(write.counter),
          static_cast<long long>(c10::elementSize(write.geometry.type)),
          static_cast<long long>(write.geometry.offset), sizes.get(), strides.get(), old.get()));
      must(PyList_Append(writes.get(), fields.get()));
    }
    Owned fields = must(Py_BuildValue("(NOO)", PyLong_FromVoidPtr(one.storage), saves.get(), writes.get()));
    must(PyList_Append(list.get(), fields.get()));
  }
  return list;
}

void learn_callers(PyObject* codes) {
  Callers learnt;
  Owned all = must(PySequence_Fast(codes, "a sequence is expected"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.get()); i++) {
    PyObject* code;
    int is_step;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(all.get(), i), "O!p", &PyCode_Type, &code, &is_step)) {
      throw python_error();
    }
    learnt.codes.push_back(Py_NewRef(code));
    learnt.places.push_back(unclobber_place_of(code, "self"));
    learnt.steps.push_back(is_step != 0);
  }
  callers = std::move(learnt);
}

PyObject* actor(bool* is_step) {
  PyObject* owner = nullptr;
  PyThreadState* thread = PyGILState_GetThisThreadState();
  const auto count = static_cast<int>(callers.codes.size());
  const int found = unclobber_find(thread, callers.codes.data(), callers.places.data(), count, kDeepest, &owner);
  *is_step = found >= 0 && callers.steps[static_cast<size_t>(found)] && !steps::runs_without_closure(owner);
  if (owner == nullptr || *is_step) return nullptr;
  return with_gil([&] {
    PyObject* reference = PyWeakref_NewRef(owner, nullptr);
    if (reference == nullptr) PyErr_Clear();
    return reference;
  });
}

}  // namespace unclobber::saves
