// The tensors that autograd saves while a session is innermost: noted without Python, and shown to it on demand.
#pragma once
#include "common.h"
#include "pool.h"
#include "stacks.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace torch::autograd {
struct AutogradMeta;
}

namespace unclobber::saves {

class Queue;
struct Fresh;
struct Journal;
struct Noted;

// Saves of one storage, or the ones that no write has looked up yet; oldest first.
struct Link {
  Link* before = this;
  Link* after = this;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  bool alone() const { return after == this; }
  void leave_list() {
    before->after = after;
    after->before = before;
    before = after = this;
  }
  void join(Link* list) {
    before = list->before;
    after = list;
    before->after = this;
    list->before = this;
  }
};

// Memory that torch has not allocated, by its addresses (half-open), with the number of saves that lie there.
using Range = std::pair<uintptr_t, uintptr_t>;
using Lent = std::pair<const Range, size_t>;

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// A saved tensor, and torch's hooks for it, which delete it in their way. Its users are torch's SavedVariable and the
// functions that inspect it; its queue is no user. What an unpack reads comes first, for each line of memory is slow.
struct alignas(64) Save final : torch::autograd::SavedVariableHooks, Link, Pooled<Save> {
  stacks::Operation* operation = nullptr;
  // The tensor itself, if torch would keep it; under `Locked`. Dropped before its memory is written.
  at::Tensor held;
  // Shares memory and version counter, and has no history; under `Locked`, for it goes over to the record. Not made
  // while `held` has the saved memory: a graph's aliases are more than the C library's caches hold.
  at::Tensor alias;
  // What noted writes did to it; under `Locked`. NULL if there was none.
  std::unique_ptr<Noted> noted;
  int64_t version = 0;
  // Its bytes, if code outside of torch can write to the memory at any time (`record.open_memory`); under `Locked`.
  std::shared_ptr<const std::string> copied;
  // Its SavedTensor, once Python needed one.
  std::atomic<PyObject*> record{nullptr};
  std::shared_ptr<Queue> queue;
  std::atomic<int> users{1};
  bool requires_grad = false;
  bool itself = true;      // whether torch would keep the tensor itself
  bool is_hooked = false;  // whether it, or what it is a view of, is a leaf whose gradient a hook of the program's gets
  bool is_view = false;
  bool queued = false;
  bool sees = false;  // whether its thread observes writes from this save on
  Lent* lent = nullptr;  // where it lies if torch has not allocated its memory, as another storage may: `Queue::lend`
  c10::StorageImpl* storage = nullptr;  // NULL if it is lent, or only Python can find it
  c10::Storage memory;  // in place of the alias, one more holder of the storage
  WeakTensor origin;
  WeakTensor base;
  struct Other : Link {
    Save* save;
  } other;  // its place among those that `Queue::each_other` shows
  // Instead of all that: a weak reference that Python has put on the queue. The queue alone owns such an entry.
  PyObject* entry = nullptr;

  explicit Save(std::shared_ptr<Queue> queue = nullptr, bool sees = false);
  ~Save() override;  // only `leave` calls it
  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;
  // Virtual since torch 2.10, before which these hooks are not used.
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data() const;
  static void operator delete(Save* save, std::destroying_delete_t) { save->leave(); }

  // The alias, or the tensor that stands for it; undefined if the record has them. Under `Locked`.
  const at::Tensor& saved() const { return alias.defined() ? alias : held; }
  // What no write has met: the tensor itself before its alias. Under `Locked`.
  at::Tensor unwritten() const { return held.defined() ? held : noted == nullptr ? alias : at::Tensor(); }
  // Make the alias if it is not made. Under `Locked`.
  void make_alias();
  // Become one more user, if there is any left: it may be dying.
  bool use();
  void leave();

 private:
  // What `call_unpack_hook` gives if anything may have happened to it.
  at::Tensor need();
  // Note it for who unpacks several, and wants the tensors that were saved.
  void note_handed();
};

// Bytes of overwritten values that are kept now, and the most there ever were.
struct Account {
  std::atomic<int64_t> kept{0};
  std::atomic<int64_t> peak{0};
  void add(int64_t nbytes);
  void remove(int64_t nbytes) { kept.fetch_sub(nbytes); }
};

// The saves of one storage, and the writes to it that Python has not been shown, if there are any.
struct Shelf : Link {
  std::unique_ptr<Journal> journal;
  Shelf();
  ~Shelf();
};

// What a write does to the saves of its storage: nothing, something to be noted here, or something for Python.
enum class Meets { kNone, kNoted, kPython };

// A session's saves, in place of the Python core's `Ledger.pending`. All but its counts is under `Locked`.
class Queue {
 public:
  Queue() = default;
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  size_t size() const { return live_.load(std::memory_order_relaxed); }
  size_t entries() const { return entries_.load(std::memory_order_relaxed); }
  long died() const { return died_.load(std::memory_order_relaxed); }

  void append(Save* save);
  void drop(Save* save);
  // What is queued goes under its storage.
  void index();
  // What a write to `target`, which belongs to this storage, does to the saves among them. If `of_elements`, it changes
  // elements of `target` and nothing else: then no save counts of which it changes neither a byte nor the counter.
  Meets meets(c10::StorageImpl* storage, const at::Tensor& target, bool of_elements);
  // Note such a write just before it runs. Takes over a use of `stack`, and the reference `actor`. False if only Python
  // can. `fresh` must be let go of before the write, without `Locked`.
  bool note_write(c10::StorageImpl* storage, const at::Tensor& target, PyObject* operation, stacks::Stack* stack,
                  PyObject* actor, std::vector<Fresh>& fresh);
  // Let Python file what is noted; if it `waits`, also what another thread is filing now. The interpreter's lock is held.
  void catch_up(bool waits = false);
  // [(key, saves, writes)] of each storage with noted writes; these saves leave the queue. A save is (record, number of
  // writes before it, whether its counter had moved, original); a dead one has its stack in place of the record.
  Owned drain();
  size_t noted() const { return noted_.load(std::memory_order_relaxed); }
  size_t written() const { return written_.load(std::memory_order_relaxed); }
  // Take the saves of a storage, oldest first, and all whose storage only Python can find: Python's own entries and
  // tensors without plain memory; those of lent memory if the storage is lent, too, or lies there.
  // Take all saves if `storage` is NULL.
  void take(c10::StorageImpl* storage, std::vector<Save*>& taken);
  // Take the oldest or newest save that no write has looked up; NULL if there is none.
  Save* take_one(bool newest);
  // Call look(save) for each; one may be dying.
  template <typename F>
  void each(F&& look) {
    auto those_of = [&](Link& list) {
      for (Link* at = list.after; at != &list; at = at->after) look(static_cast<Save*>(at));
    };
    for (auto& [storage, list] : by_storage_) those_of(list);
    those_of(lent_);
    those_of(queue_);
  }
  // Whether a leaf had hooks when it was saved. Under `Locked`.
  bool any_hooked() const { return any_hooked_; }
  // Call look(save) for those that need no gradient, or that only Python knows; one may be dying.
  template <typename F>
  void each_other(F&& look) {
    for (Link* at = others_.after; at != &others_; at = at->after) look(static_cast<Save::Other*>(at)->save);
  }
  // The newest ones.
  Link& unsorted() { return queue_; }
  // Whether only Python knows a save of lent memory.
  bool reports_all_writes() const { return reports_all_writes_.load(std::memory_order_relaxed); }
  void report_all_writes() { reports_all_writes_.store(true, std::memory_order_relaxed); }
  // Whether a write to `target` moves a counter that `report_counter` was given.
  bool reports(const at::Tensor& target) const;
  // Whether a live save lies in the memory of this storage, but in one that was lent.
  bool lends(c10::StorageImpl* storage) const;
  // A save of lent memory is made, or dies.
  void lend(Save* save, const c10::StorageImpl* storage);
  void unlend(const Save* save);
  // Report each write that moves the version counter of this tensor from now on.
  void report_counter(const at::Tensor& tensor);
  void noted_death() { died_.store(died() + 1, std::memory_order_relaxed); }
  // The one that was appended last is no operation's.
  void uncount() { died_.store(died() - 1, std::memory_order_relaxed); }

  const std::shared_ptr<Account> account = std::make_shared<Account>();
  // need(saved), the unpack hook in Python, and catch_up(); these change under the interpreter's lock.
  PyObject* need = nullptr;
  PyObject* unpack = nullptr;
  PyObject* file_noted = nullptr;
  PyObject* backward = nullptr;  // the code below which every backward runs, if originals are kept

 private:
  bool lends_to(c10::StorageImpl* storage) const;
  // A noted save has died: its storage's writes are forgotten with the last one.
  UNCLOBBER_COLD void forget_noted(Save* save);
  void hand_out(Save* save, std::vector<Save*>& taken);

  Link queue_;
  Link lent_;
  Link others_;
  bool any_hooked_ = false;
  std::unordered_map<c10::StorageImpl*, Shelf> by_storage_;
  std::atomic<size_t> live_{0};
  std::atomic<size_t> entries_{0};
  std::atomic<long> died_{0};
  std::atomic<size_t> noted_{0};    // journals
  std::atomic<size_t> written_{0};  // writes that were ever noted
  std::atomic<bool> reports_all_writes_{false};
  std::map<Range, size_t> lent_memory_;  // that of the last steps, too: a model's weights are saved in each
  size_t lent_limit_ = 64;
  uintptr_t longest_lent_ = 0;
  std::atomic<size_t> lent_saves_{0};
  std::unordered_map<const void*, c10::VariableVersion> counters_;  // held, so that no other gets their address
  size_t counters_limit_ = 64;
  std::atomic<bool> any_counters_{false};
};

// A tensor's version counter, by which it is told from others: two that count as far need not be one. NULL for an
// inference tensor.
inline const void* counter_of(const at::Tensor& tensor) {
  const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
  static_assert(sizeof(version) == sizeof(void*), "a counter is one pointer");
  const void* counter = nullptr;
  std::memcpy(&counter, &version, sizeof(counter));
  return counter;
}

// The tensor has memory.
inline c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// The number of a storage's holders without its Python object, which is no tensor.
inline size_t holders_of(c10::StorageImpl* storage) {
  return c10::raw::intrusive_ptr::use_count(storage) - (is_held_by_python(storage) ? 1 : 0);
}

// Whether it is strided memory of its own, past no transform and no `__torch_dispatch__` of the program's.
bool has_memory(const at::Tensor& tensor);

// The same, with no class of the program's.
bool is_usual(const at::Tensor& tensor);

// Whether torch would keep the tensor itself, because it is no output of the node that saves it. `meta`: its own, or NULL.
bool is_kept_itself(const at::Tensor& tensor, torch::autograd::AutogradMeta* meta);

// An alias of the tensor, made so that the program's modes see only what torch itself would do.
at::Tensor alias_of(const at::Tensor& tensor, bool kept_itself);

// The SavedTensor of a save that the caller uses, with the writes to it. Under the interpreter's lock. Borrowed.
PyObject* record_of(Save* save);
// The same while these are being filed.
PyObject* unfiled_record_of(Save* save);

// Observe a usual tensor as if an operation had saved it now, which `Ledger.file` does: until the caller, its user,
// leaves. Takes over a use of `stack`.
Save* file(const std::shared_ptr<Queue>& queue, const at::Tensor& tensor, stacks::Stack* stack);

// Whether no write has met it. Under the interpreter's lock.
bool is_fresh(Save* save);

// Find out how torch frees a part of a storage, by which `bytes_of` knows one.
void learn_parts();

// Whether two tensors of one storage may have a byte in common.
bool may_share_bytes(const at::Tensor& one, const at::Tensor& other);

// A copy of the tensor's bytes if code outside of torch can write to its memory at any time, else NULL.
std::shared_ptr<const std::string> bytes_of(const at::Tensor& tensor);

// As a record has it: None for NULL.
Owned as_bytes(const std::shared_ptr<const std::string>& bytes);

// Whether the tensor's bytes are still these.
bool has_bytes(const at::Tensor& tensor, const std::string& bytes);

// show(key, on): whether an array shows the memory of this storage.
PyObject* show(PyObject*, PyObject* arguments);

}  // namespace unclobber::saves
