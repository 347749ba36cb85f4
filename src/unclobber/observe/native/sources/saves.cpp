#include "saves.h"

#include <ATen/MapAllocator.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_set>

#include "extent.h"
#include "handed.h"
#include "journal.h"
#include "notes.h"
#include "records.h"
#include "writes.h"

namespace unclobber::saves {

namespace {

using StrongTensor = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

WeakTensor nothing() { return WeakTensor(StrongTensor()); }

// A weak reference, without the strong one that torch would make for it.
WeakTensor weak(const at::TensorBase& tensor) {
  auto strong = StrongTensor::reclaim(tensor.unsafeGetTensorImpl());
  WeakTensor made(strong);
  strong.release();
  return made;
}

[[noreturn]] void throw_type(PyObject* object) {
  // as torch/csrc/autograd/python_saved_variable_hooks.cpp says it, for the program's own hook may be asked
  PyErr_Format(PyExc_TypeError, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
               Py_TYPE(object)->tp_name);
  throw python_error();
}

void see_writes() {
  if (!writes::are_seen()) writes::see(true);
}

Owned weak_reference(const WeakTensor& weak) {
  auto impl = weak.lock();
  if (impl.defined()) {
    Owned object = must(THPVariable_Wrap(at::Tensor(std::move(impl))));
    return must(PyWeakref_NewRef(object.get(), nullptr));
  }
  Owned dead = must(PySet_New(nullptr));  // a reference to what is no more
  return must(PyWeakref_NewRef(dead.get(), nullptr));
}

// As `at::Tensor` answers, without a call of torch's for each question.
int64_t version_of(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->is_inference() ? tensor._version() : impl->version_counter().current_version();
}

// Whether Python of the program's runs when backward reaches this leaf. Hooks that are registered later are seen then:
// `backward::hook_registered`.
[[gnu::noinline]] bool has_hooks(const at::TensorBase& leaf) {
  auto* meta = torch::autograd::impl::get_autograd_meta(leaf);
  if (meta == nullptr) return false;
  if (meta->post_acc_grad_hooks_ != nullptr) return true;
  PyObject* object = object_of(leaf.unsafeGetTensorImpl());
  if (object == nullptr) return !meta->hooks_.empty();
  PyObject* hooks = reinterpret_cast<THPVariable*>(object)->backward_hooks;
  return hooks != nullptr && hooks != Py_None && with_gil([&] { return PyObject_IsTrue(hooks) != 0; });
}

}  // namespace

Save::Save(std::shared_ptr<Queue> queue, bool sees)
    : queue(std::move(queue)), sees(sees), origin(nothing()), base(nothing()) {
  static_assert(sizeof(Save) == 192);
}
Save::~Save() = default;

UNCLOBBER_HOT void Save::call_pack_hook(const at::Tensor& tensor) {
  const bool usual = is_usual(tensor);
  auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  const bool kept_itself = is_kept_itself(tensor, meta);
  const bool allocated = !tensor.unsafeGetTensorImpl()->has_storage() || storage_of(tensor)->resizable();
  if (usual && allocated) storage = storage_of(tensor);
  if (kept_itself) held = tensor;
  if (kept_itself && usual) {
    memory = tensor.storage();
  } else {
    alias = alias_of(tensor, kept_itself);
  }
  if (usual) copied = bytes_of(tensor);
  version = version_of(tensor);
  origin = weak(tensor);
  if (meta != nullptr) {  // else it has no history, and is no view
    requires_grad = meta->requires_grad_ || meta->grad_fn_ != nullptr;
    auto* view = meta->is_view_ ? static_cast<torch::autograd::DifferentiableViewMeta*>(meta) : nullptr;
    const at::TensorBase* whole = &tensor;
    if (view != nullptr && view->has_bw_view()) {
      whole = &tensor._base();
      is_view = true;
      base = weak(*whole);
    }
    const bool is_leafs = requires_grad && (is_view ? whole->is_leaf() : meta->grad_fn_ == nullptr);
    is_hooked = is_leafs && has_hooks(*whole);
  }
  itself = kept_itself || !requires_grad;  // as torch/csrc/autograd/saved_variable.cpp: no output, or a leaf
  bool fresh = false;
  operation = stacks::current(&fresh);
  if (fresh && sees) see_writes();
  Locked locked;
  if (!allocated && usual) {
    queue->lend(this, storage_of(tensor));
  } else if (!allocated) {
    queue->report_all_writes();
  }
  queue->append(this);
}

UNCLOBBER_HOT at::Tensor Save::call_unpack_hook() {
  const notes::Note note = notes::of_running(operation->stack);
  at::Tensor value;
  {
    Locked locked;
    if (note.node != nullptr) notes::add(note);
    if (copied == nullptr) value = unwritten();
    // Likely the one that was saved before it is unpacked next: it has left the caches since.
    const char* next = reinterpret_cast<const char*>(before);
    for (size_t at = 0; at < sizeof(Save); at += 64) __builtin_prefetch(next + at, 1);
  }
  if (handed::asked()) note_handed();
  return value.defined() && version_of(value) == version ? value : need();
}

UNCLOBBER_COLD void Save::note_handed() {
  PyObject* made = record.load(std::memory_order_acquire);
  const bool checked = made == nullptr || records::is_checked(made);  // by no hooks of the program's own
  handed::note(checked ? at::Tensor(origin.lock()) : at::Tensor());
}

UNCLOBBER_COLD at::Tensor Save::need() {
  at::Tensor known;
  std::shared_ptr<const std::string> bytes;
  {
    Locked locked;
    known = unwritten();
    bytes = copied;
  }
  if (known.defined() && bytes != nullptr && has_bytes(known, *bytes) && version_of(known) == version) return known;
  return with_gil([&] {
    PyObject* made = record_of(this);
    PyObject* kept = records::get(made, records::kAlias);
    if (!is_tensor(kept)) throw_type(kept);
    const at::Tensor& own = THPVariable_Unpack(kept);
    if (queue->need == nullptr) return own;
    if (records::get(made, records::kEntry) == Py_None && records::get(made, records::kCopied) == Py_None &&
        own._version() == version) {
      PyObject* itself = records::get(made, records::kHeld);
      return is_tensor(itself) ? THPVariable_Unpack(itself) : own;
    }
    Owned value = must(PyObject_CallOneArg(queue->need, made));
    if (!is_tensor(value.get())) throw_type(value.get());
    return THPVariable_Unpack(value.get());
  });
}

std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> Save::retrieve_unpack_hook_data() const {
  return with_gil([&] {
    auto* interpreter = getPyInterpreter();
    PyObject* unpack = queue->unpack == nullptr ? Py_None : queue->unpack;
    return std::make_pair(c10::SafePyObject(Py_NewRef(unpack), interpreter),
                          c10::SafePyObject(Py_NewRef(record_of(const_cast<Save*>(this))), interpreter));
  });
}

bool is_kept_itself(const at::Tensor& tensor, torch::autograd::AutogradMeta* meta) {
  if (object_of(tensor.unsafeGetTensorImpl()) == nullptr) return false;  // a result that no Python code has yet
  if (meta == nullptr) return true;
  if (meta->is_view_ && tensor.requires_grad()) {
    auto* view = static_cast<torch::autograd::DifferentiableViewMeta*>(meta);  // torch makes a stale view a new node
    if (view->has_bw_view() && view->get_attr_version() != tensor._version()) return false;
  }
  auto* node = meta->grad_fn_.get();
  if (node == nullptr) return true;
  // The node that saves was made last, but for those that torch makes again for its views that were written.
  const bool is_last = node->sequence_nr() + 1 == at::sequence_number::peek();
  if (is_last && !(meta->is_view_ && version_of(tensor) != 0)) return false;
  // A written view that was just given its new node is a result if the operation has made its base's, too.
  for (const auto& edge : node->next_edges()) {
    if (!edge.function || edge.function->sequence_nr() == std::numeric_limits<uint64_t>::max()) continue;  // a leaf's
    if (edge.function->sequence_nr() + (is_last ? 1 : 0) >= node->sequence_nr()) return false;
  }
  PyObject* ctx = handed::function_of(node);  // a custom Function saves later, and has `to_save` until then
  return ctx == nullptr || reinterpret_cast<THPFunction*>(ctx)->to_save == nullptr;
}

[[gnu::noinline]] at::Tensor alias_of(const at::Tensor& tensor, bool kept_itself) {
  const auto keys = tensor.unsafeGetTensorImpl()->key_set();
  if (keys.has_any(c10::functorch_transforms_ks | c10::python_ks) || tensor.is_inference()) {
    // torch calls no class and no transform of the program when it keeps the tensor itself
    return kept_itself ? tensor : tensor.detach();
  }
  if (!kept_itself) return tensor.tensor_data();
  c10::impl::ExcludeDispatchKeyGuard unseen(c10::DispatchKey::Python);
  return tensor.tensor_data();
}

bool has_memory(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->has_storage() && impl->layout() == c10::kStrided && !impl->is_inference() &&
         !impl->key_set().has_any(c10::functorch_transforms_ks | c10::python_ks);
}

bool is_usual(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return false;
  PyObject* object = object_of(tensor.unsafeGetTensorImpl());
  return object == nullptr || is_of(object, THPVariableClass) || is_of(object, ParameterClass);
}

void Save::make_alias() {
  if (alias.defined() || !held.defined()) return;
  alias = alias_of(held, true);
  memory = c10::Storage();
}

bool Save::use() {
  int now = users.load(std::memory_order_relaxed);
  while (now > 0) {
    if (users.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

namespace {
UNCLOBBER_COLD void drop_objects(PyObject* one, PyObject* other) {
  if (!can_take_gil()) return;
  Gil gil;
  Py_XDECREF(one);
  Py_XDECREF(other);
}
}  // namespace

UNCLOBBER_HOT void Save::leave() {
  if (users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (queue != nullptr) {
    Locked locked;
    if (queued) queue->noted_death();
    if (lent != nullptr) queue->unlend(this);
    queue->drop(this);
  }
  PyObject* made = record.load(std::memory_order_acquire);
  if (made != nullptr || entry != nullptr) drop_objects(made, entry);
  if (operation != nullptr) operation->leave();
  this->~Save();
  Pooled<Save>::operator delete(this, sizeof(Save));
  drop_now_if_held();
}

Queue::~Queue() {
  // Saves keep it alive, but for what Python has queued, which is its own.
  std::vector<Save*> own;
  {
    Locked locked;
    for (Link* at = queue_.after; at != &queue_;) {
      auto* save = static_cast<Save*>(at);
      at = at->after;
      drop(save);
      own.push_back(save);
    }
    drop_later_locked(need);
    drop_later_locked(unpack);
    drop_later_locked(file_noted);
    drop_later_locked(backward);
    for (Save* save : own) drop_later_locked(std::exchange(save->entry, nullptr));
  }
  for (Save* save : own) save->leave();
}

void Queue::append(Save* save) {
  save->join(&queue_);
  save->queued = true;
  if (save->is_hooked) any_hooked_ = true;
  if (!save->requires_grad || (save->storage == nullptr && save->lent == nullptr)) {
    save->other.save = save;
    save->other.join(&others_);
  }
  live_.store(size() + 1, std::memory_order_relaxed);
  if (save->entry != nullptr) entries_.fetch_add(1, std::memory_order_relaxed);
}

void Queue::drop(Save* save) {
  if (!save->queued) return;
  save->leave_list();
  save->other.leave_list();
  save->queued = false;
  if (save->noted != nullptr) forget_noted(save);
  live_.store(size() - 1, std::memory_order_relaxed);
  if (save->entry != nullptr) entries_.fetch_sub(1, std::memory_order_relaxed);
}

void Queue::index() {
  for (Link* at = queue_.after; at != &queue_;) {
    auto* save = static_cast<Save*>(at);
    at = at->after;
    if (save->storage == nullptr && save->lent == nullptr) continue;
    save->leave_list();
    save->join(save->lent != nullptr ? &lent_ : &by_storage_[save->storage]);
  }
  if (by_storage_.size() > 4096 + 2 * size()) {
    for (auto at = by_storage_.begin(); at != by_storage_.end();) {
      at = at->second.alone() ? by_storage_.erase(at) : std::next(at);
    }
  }
}

void Queue::hand_out(Save* save, std::vector<Save*>& taken) {
  const bool alive = save->entry != nullptr || save->use();
  drop(save);
  if (alive) taken.push_back(save);
}

void Queue::take(c10::StorageImpl* storage, std::vector<Save*>& taken) {
  index();
  auto found = by_storage_.find(storage);
  if (found != by_storage_.end()) {
    while (!found->second.alone()) hand_out(static_cast<Save*>(found->second.after), taken);
    by_storage_.erase(found);
  }
  while (storage == nullptr && !by_storage_.empty()) {
    auto first = by_storage_.begin();
    while (!first->second.alone()) hand_out(static_cast<Save*>(first->second.after), taken);
    by_storage_.erase(first);
  }
  while (!queue_.alone()) hand_out(static_cast<Save*>(queue_.after), taken);
  if (storage != nullptr && storage->resizable() && !lends_to(storage)) return;
  while (!lent_.alone()) hand_out(static_cast<Save*>(lent_.after), taken);
}

Save* Queue::take_one(bool newest) {
  std::vector<Save*> taken;
  while (taken.empty()) {
    Link* list = queue_.alone() ? &lent_ : &queue_;
    if (list->alone()) {
      while (!by_storage_.empty() && by_storage_.begin()->second.alone()) by_storage_.erase(by_storage_.begin());
      if (by_storage_.empty()) return nullptr;
      list = &by_storage_.begin()->second;
    }
    hand_out(static_cast<Save*>(newest ? list->before : list->after), taken);
  }
  return taken.front();
}

bool Queue::reports(const at::Tensor& target) const {
  if (!any_counters_.load(std::memory_order_relaxed)) return false;
  Locked locked;
  return counters_.count(counter_of(target)) != 0;
}

bool Queue::lends(c10::StorageImpl* storage) const {
  if (lent_saves_.load(std::memory_order_relaxed) == 0) return false;
  Locked locked;
  return lends_to(storage);
}

bool Queue::lends_to(c10::StorageImpl* storage) const {
  const auto start = reinterpret_cast<uintptr_t>(storage->data());
  if (start == 0) return false;  // a traced tensor has no memory, and no number of bytes that could be read
  const uintptr_t end = start + storage->nbytes();
  auto at = lent_memory_.lower_bound({start > longest_lent_ ? start - longest_lent_ : 0, 0});
  for (; at != lent_memory_.end() && at->first.first < end; ++at) {
    if (at->second != 0 && at->first.second > start) return true;
  }
  return false;
}

void Queue::lend(Save* save, const c10::StorageImpl* storage) {
  const auto start = reinterpret_cast<uintptr_t>(storage->data());
  if (start == 0) return;
  if (lent_memory_.size() >= lent_limit_) {
    for (auto at = lent_memory_.begin(); at != lent_memory_.end();) at = at->second == 0 ? lent_memory_.erase(at) : ++at;
    lent_limit_ = 2 * lent_memory_.size() + 64;
  }
  const Range range(start, start + storage->nbytes());
  save->lent = &*lent_memory_.try_emplace(range, 0).first;
  save->lent->second++;
  longest_lent_ = std::max(longest_lent_, range.second - range.first);
  lent_saves_.fetch_add(1, std::memory_order_relaxed);
}

void Queue::unlend(const Save* save) {
  save->lent->second--;
  lent_saves_.fetch_sub(1, std::memory_order_relaxed);
}

void Queue::report_counter(const at::Tensor& tensor) {
  const void* counter = counter_of(tensor);
  if (counter == nullptr) return;
  if (counters_.size() >= counters_limit_) {
    for (auto at = counters_.begin(); at != counters_.end();) at = at->second.unique() ? counters_.erase(at) : ++at;
    counters_limit_ = 2 * counters_.size() + 64;
  }
  counters_.emplace(counter, tensor.unsafeGetTensorImpl()->version_counter());
  any_counters_.store(true, std::memory_order_relaxed);
}

PyObject* record_of(Save* save) {
  bool noted = false;
  {
    Locked locked;
    noted = save->noted != nullptr;
  }
  if (noted) save->queue->catch_up(true);
  return unfiled_record_of(save);
}

PyObject* unfiled_record_of(Save* save) {
  PyObject* known = save->record.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  drop_now();
  at::Tensor alias, held;
  std::shared_ptr<const std::string> copied;
  {
    Locked locked;
    save->make_alias();
    alias = save->alias;
    held = save->held;
    copied = save->copied;
  }
  Owned made = records::make();
  records::set(made.get(), records::kCopied, as_bytes(copied));
  records::set(made.get(), records::kAlias, must(THPVariable_Wrap(alias)));
  records::set(made.get(), records::kHeld,
               held.defined() ? must(THPVariable_Wrap(held)) : Owned::borrowed(Py_None));
  records::set(made.get(), records::kItself, Owned(PyBool_FromLong(save->itself)));
  records::set(made.get(), records::kVersion, must(PyLong_FromLongLong(save->version)));
  records::set(made.get(), records::kRequiresGrad, Owned(PyBool_FromLong(save->requires_grad)));
  records::set(made.get(), records::kOrigin, weak_reference(save->origin));
  records::set(made.get(), records::kBase,
               save->is_view ? weak_reference(save->base) : Owned::borrowed(Py_None));
  records::set(made.get(), records::kStack, Owned::borrowed(save->operation->tuple()));
  records::set(made.get(), records::kEntry, Owned::borrowed(Py_None));
  // Another thread may have set a record meanwhile, because making these objects can release the lock.
  if (!save->record.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return known;
  // The record alone owns the alias from now on, because a second owner would look like the program's.
  Locked locked;
  save->copied.reset();
  save->held.reset();
  save->alias.reset();  // the local `alias` still holds it, so nothing is freed under `Locked`
  return made.release();
}

Save* file(const std::shared_ptr<Queue>& queue, const at::Tensor& tensor, stacks::Stack* stack) {
  auto save = std::make_unique<Save>(queue);
  save->operation = new stacks::Operation(stack, 0);
  save->storage = storage_of(tensor);
  save->alias = alias_of(tensor, true);
  save->version = tensor._version();
  save->requires_grad = tensor.requires_grad();
  save->is_hooked = save->requires_grad && tensor.is_leaf() && has_hooks(tensor);
  save->origin = weak(tensor);
  Locked locked;
  queue->append(save.get());
  queue->uncount();
  return save.release();
}

bool is_fresh(Save* save) {
  PyObject* made = save->record.load(std::memory_order_acquire);
  if (made == nullptr) {
    Locked locked;
    return save->noted == nullptr && save->copied == nullptr && save->alias._version() == save->version;
  }
  PyObject* alias = records::get(made, records::kAlias);
  return records::get(made, records::kEntry) == Py_None && records::get(made, records::kCopied) == Py_None &&
         is_tensor(alias) &&
         THPVariable_Unpack(alias)._version() == save->version;
}

namespace {
constexpr size_t kLargest = size_t{1} << 26;  // as `record.open_memory.LARGEST`
std::unordered_set<const void*> shown;        // storages that arrays show; under `Locked`
std::atomic<size_t> shown_count{0};

UNCLOBBER_COLD bool is_one_shown(const c10::StorageImpl* storage) {
  Locked locked;
  return shown.count(storage) != 0;
}

bool is_shown(const c10::StorageImpl* storage) {
  return shown_count.load(std::memory_order_relaxed) != 0 && is_one_shown(storage);
}

c10::DeleterFnPtr frees_part = nullptr;  // how torch frees a part of a storage, whose context is that storage

// Whether memory that can't be resized is none of a file's and none that processes share, as a data loader's batches,
// nor a part of such: torch has not allocated it then.
UNCLOBBER_COLD bool is_borrowed(const c10::StorageImpl* storage) {
  // safetensors, by which transformers loads models, maps a file and takes parts: `storage[start:end]`
  while (frees_part != nullptr && storage->data_ptr().get_deleter() == frees_part) {
    storage = static_cast<const c10::StorageImpl*>(storage->data_ptr().get_context());
    if (storage->resizable()) return false;
  }
  return at::MapAllocator::fromDataPtr(storage->data_ptr()) == nullptr &&
         at::RefcountedMapAllocator::fromDataPtr(storage->data_ptr()) == nullptr;
}

// With the gaps that strides leave; empty if there are none that can be read.
std::string_view bytes_in(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  const auto* start = static_cast<const char*>(storage->data());
  if (start == nullptr) return {};  // as of a traced tensor, whose sizes may be symbols
  const Extent extent(tensor);
  if (extent.end > static_cast<int64_t>(storage->nbytes())) return {};
  return {start + extent.first, static_cast<size_t>(extent.end - extent.first)};
}

UNCLOBBER_COLD std::shared_ptr<const std::string> copy_of(const at::Tensor& tensor) {
  const auto bytes = tensor.is_cpu() ? bytes_in(tensor) : std::string_view();
  if (bytes.empty() || bytes.size() > kLargest) return nullptr;
  return std::make_shared<const std::string>(bytes);
}
}  // namespace

std::shared_ptr<const std::string> bytes_of(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  const bool others = (!storage->resizable() && is_borrowed(storage)) || is_shown(storage);
  return others ? copy_of(tensor) : nullptr;
}

void learn_parts() {
  Owned torch = must(PyImport_ImportModule("torch"));
  Owned whole = must(PyObject_CallMethod(torch.get(), "UntypedStorage", "i", 2));
  Owned part = must(PySequence_GetSlice(whole.get(), 0, 1));
  if (!THPStorage_Check(whole.get()) || !THPStorage_Check(part.get())) return;
  const c10::DataPtr& memory = THPStorage_Unpack(part.get()).data_ptr();
  if (memory.get_context() == THPStorage_Unpack(whole.get()).unsafeGetStorageImpl()) frees_part = memory.get_deleter();
}

bool has_bytes(const at::Tensor& tensor, const std::string& bytes) { return bytes_in(tensor) == bytes; }

Owned as_bytes(const std::shared_ptr<const std::string>& bytes) {
  if (bytes == nullptr) return Owned::borrowed(Py_None);
  return must(PyBytes_FromStringAndSize(bytes->data(), static_cast<Py_ssize_t>(bytes->size())));
}

PyObject* show(PyObject*, PyObject* arguments) {
  unsigned long long key;
  int on;
  if (!PyArg_ParseTuple(arguments, "Kp", &key, &on)) throw python_error();
  Locked locked;
  const auto* storage = reinterpret_cast<const void*>(static_cast<uintptr_t>(key));
  if (on) {
    shown.insert(storage);
  } else {
    shown.erase(storage);
  }
  shown_count.store(shown.size(), std::memory_order_relaxed);
  Py_RETURN_NONE;
}

}  // namespace unclobber::saves
