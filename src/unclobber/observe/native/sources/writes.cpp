// The write kernels of `unclobber.observe.hooks._kernel_shapes` for torch's own operations, as far as Python need not inspect
// a tensor: a kernel in Python takes some microseconds for each operation.
#include "writes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <structmember.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "functions.h"
#include "journal.h"
#include "queue.h"
#include "saves.h"
#include "views.h"

namespace torch::jit {
// torch/csrc/jit/python/pybind_utils.h, which takes longer to compile than all of this
__attribute__((visibility("default"))) pybind11::object toPyObject(c10::IValue ivalue);
}  // namespace torch::jit

namespace unclobber::writes {

namespace {

using Stack = std::vector<c10::IValue>;
using Arguments = c10::ArrayRef<const at::Tensor*>;  // of an operation; NULL for one that is no tensor

constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

// A write to such a tensor is observed below, where torch writes the tensor's memory.
bool is_lazy(c10::DispatchKeySet keys) {
  return keys.has(c10::DispatchKey::Conjugate) || keys.has(c10::DispatchKey::Negative);
}

c10::DispatchKeySet below(c10::DispatchKeySet keys, c10::DispatchKey key) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
}

// A listener, by the containers of `unclobber.observe.hooks.kernels.Listener`.
struct Listener {
  PyObject* listener;
  PyObject* pending;
  PyObject* watched;
  PyObject* logs;
  std::shared_ptr<saves::Queue> queue;  // empty where `pending` is Python's own
  bool follows_views;
  bool follows_values;
};

struct Listeners {
  std::vector<Listener> all;
  PyObject* told = nullptr;
  PyObject* settle = nullptr;

  Listeners() = default;
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;
  ~Listeners() {
    for (const Listener& one : all) {
      for (PyObject* object : {one.listener, one.pending, one.watched, one.logs}) drop_later(object);
    }
    drop_later(told);
    drop_later(settle);
  }
};

std::shared_ptr<const Listeners>& listeners() {
  static auto* now = new std::shared_ptr<const Listeners>;
  return *now;
}
std::atomic<bool> anybody{false};

std::shared_ptr<const Listeners> listening() {
  if (!anybody.load(std::memory_order_acquire)) return nullptr;
  Locked locked;
  return listeners();
}

// Whether a container holds anything, read as a kernel in Python reads it: at any moment.
bool any_in(PyObject* container) {
  return PyDict_Check(container) ? PyDict_GET_SIZE(container) != 0 : Py_SIZE(container) != 0;
}

bool any_waiting(const Listener& one) { return one.queue != nullptr ? one.queue->size() != 0 : any_in(one.pending); }

bool any_followed(const Listener& one) { return any_in(one.watched) || any_in(one.logs); }

bool is_known(PyObject* container, PyObject* key) {
  const int in = PyDict_Contains(container, key);
  must(in);
  return in == 1;
}

// Whether one of the `values` of an object is a tensor of this storage.
bool any_value_in(PyObject* log, c10::StorageImpl* storage) {
  static PyObject* name = PyUnicode_InternFromString("values");
  Owned values = must(PyObject_GetAttr(log, name));
  Owned all = must(PySequence_Fast(values.get(), "a sequence is expected"));
  for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(all.get()); j++) {
    PyObject* value = PySequence_Fast_GET_ITEM(all.get(), j);
    if (!is_tensor(value)) continue;
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (!saves::is_usual(tensor) || saves::storage_of(tensor) == storage) return true;
  }
  return false;
}

// Whether one of a list's logs must be told of a write to this storage in Python; if not, those of custom Functions
// note it here. `shifts`: as `FollowedWrite.shifts`.
bool is_followed(PyObject* logs, c10::StorageImpl* storage, PyObject* packet, bool shifts) {
  for (const bool notes : {false, true}) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(logs); i++) {
      Owned log = Owned::borrowed(PyList_GET_ITEM(logs, i));
      bool computed = false;
      if (!functions::is_forward(log.get())) {
        if (!notes && any_value_in(log.get(), storage)) return true;
      } else if (functions::follows(log.get(), storage, &computed)) {
        if (computed) return true;
        if (notes) functions::note(log.get(), storage, packet, shifts);
      }
    }
  }
  return false;
}

// Whether a view may miss a write to `target`: as `concerns` in unclobber/observe/record/_view_writes.py.
bool may_be_missed(const at::Tensor& target) {
  if (target.requires_grad()) return true;
  return target.is_view() && (c10::GradMode::is_enabled() || target._base().requires_grad());
}

// Whether both have the same elements of their storage, in the same order.
bool at_one_place(const at::Tensor& one, const at::Tensor& other) {
  return one.storage_offset() == other.storage_offset() && one.sizes() == other.sizes() &&
         one.strides() == other.strides() && one.scalar_type() == other.scalar_type();
}

// Whether the derivative of a write by the old value is 1: as `_shifts` in unclobber/observe/hooks/write_log.py.
bool shifts(PyObject* packet, const at::Tensor& target, Arguments arguments) {
  if (arguments.size() < 2) return false;
  const at::Tensor* other = arguments[1] != nullptr && arguments[1]->defined() ? arguments[1] : nullptr;
  if (PyUnicode_CompareWithASCIIString(packet, "copy_") != 0) {
    const bool adds = PyUnicode_CompareWithASCIIString(packet, "add_") == 0 ||
                      PyUnicode_CompareWithASCIIString(packet, "sub_") == 0;
    return adds && !(other != nullptr && other->requires_grad());
  }
  return other != nullptr && saves::is_usual(*other) && saves::storage_of(*other) == saves::storage_of(target) &&
         at_one_place(*other, target);
}

// Note a write for a ledger; false if only Python can.
bool note(const Listener& one, c10::StorageImpl* storage, const at::Tensor& target, PyObject* packet,
          saves::Meets meets) {
  if (meets == saves::Meets::kNoted) {
    bool is_step = false;
    PyObject* actor = saves::actor(&is_step);
    if (is_step) return false;
    std::vector<saves::Fresh> fresh;
    stacks::Stack* stack = stacks::of_programs();
    // for a thread of the engine's, below no Python, Python knows the call for which it works
    const bool ours = stack->count != 0 || torch::autograd::get_current_node() == nullptr;
    bool noted = false;
    if (ours) {
      Locked locked;
      noted = one.queue->note_write(storage, target, packet, stack, actor, fresh);
    }
    if (!noted) {
      stacks::leave(stack);
      drop_later(actor);
      return false;
    }
  }
  if (may_be_missed(target)) views::note(target, packet, stacks::of_programs());
  return true;
}

// What an operation does.
struct Kind {
  bool plain;           // whether it is `x.op_(...)`
  bool of_elements;     // whether it changes elements of what it writes, and nothing else: no size, stride or memory
  bool of_all = false;  // whether these are all elements, as of some frequent operations
};

// Whether an operation that writes `target` may read elements of `other`, of the same storage, that it has overwritten.
bool may_read_written(const at::Tensor& other, const at::Tensor& target, Kind kind) {
  if (saves::is_usual(other) && at_one_place(other, target)) return false;  // `x[i] += y` copies `x[i]` to itself
  return !kind.of_elements || saves::may_share_bytes(other, target);
}

// Whether the listener must be notified of a write to `target`: `Ledger.before_write` ignores all others.
bool concerns(const Listener& one, const at::Tensor& target, PyObject* packet, Kind kind, Arguments arguments) {
  if (!any_waiting(one) && !any_followed(one) && !(kind.plain && one.follows_views && target.requires_grad())) return false;
  if (!saves::is_usual(target)) return true;
  c10::StorageImpl* storage = saves::storage_of(target);
  if (one.follows_values && PyList_Check(one.watched)) {
    return with_gil([&] { return is_followed(one.watched, storage, packet, shifts(packet, target, arguments)); });
  }
  if (one.queue == nullptr || one.queue->reports_all_writes() || one.queue->reports(target)) return true;
  if (storage == nullptr || !storage->resizable()) return true;
  if (one.queue->lends(storage)) return true;
  if (saves::holders_of(storage) == 1) return false;  // a save holds it by an alias
  saves::Meets meets;
  {
    Locked locked;
    meets = one.queue->meets(storage, target, kind.of_elements);
  }
  if (meets == saves::Meets::kPython || (meets == saves::Meets::kNoted && !kind.of_all)) return true;
  for (const at::Tensor* other : arguments) {
    if (other == nullptr || !other->defined() || other->is_same(target)) continue;
    if (!other->has_storage()) return true;
    if (saves::storage_of(*other) == storage && may_read_written(*other, target, kind)) return true;
  }
  if (any_followed(one) && with_gil([&] {
        Owned key = must(PyLong_FromVoidPtr(storage));
        return is_known(one.watched, key.get()) || is_known(one.logs, key.get());
      })) {
    return true;
  }
  return (meets == saves::Meets::kNoted || may_be_missed(target)) && !note(one, storage, target, packet, meets);
}

bool is_default(const c10::Argument& argument, const c10::IValue& value) {
  const auto& given = argument.default_value();
  if (!given) return false;
  if (given->isNone() || value.isNone()) return given->isNone() && value.isNone();
  if (given->isTensor() || value.isTensor()) return false;
  return *given == value;
}

// The arguments as a kernel in Python gets them: defaults at the end are left out.
struct Call {
  Owned args;
  Owned kwargs;

  Call(const c10::FunctionSchema& schema, const Stack& stack) {
    const auto& arguments = schema.arguments();
    const size_t first = stack.size() - arguments.size();
    size_t positional = 0;
    while (positional < arguments.size() && !arguments[positional].kwarg_only()) positional++;
    size_t used = positional;
    while (used > 0 && is_default(arguments[used - 1], stack[first + used - 1])) used--;
    args = must(PyTuple_New(static_cast<Py_ssize_t>(used)));
    for (size_t i = 0; i < used; i++) {
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), converted(stack[first + i]).release());
    }
    kwargs = must(PyDict_New());
    for (size_t i = positional; i < arguments.size(); i++) {
      if (is_default(arguments[i], stack[first + i])) continue;
      must(PyDict_SetItemString(kwargs.get(), arguments[i].name().c_str(), converted(stack[first + i]).get()));
    }
  }

  static Owned converted(const c10::IValue& value) {
    try {
      return Owned(torch::jit::toPyObject(value).release().ptr());
    } catch (pybind11::error_already_set& error) {
      error.restore();
      throw python_error();
    }
  }
};

// Calls no `__torch_function__` of the program's modes and tensor classes while it lives, as `compat.unseen`.
class Unseen {
 public:
  Unseen() { now::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED); }
  ~Unseen() { now::set_disabled_state(before_); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  using now = at::impl::PythonTorchFunctionTLS;
  at::impl::TorchFunctionDisabledState before_ = now::get_disabled_state();
};

// An operation: the arguments that it writes, and the notification of listeners.
class Told {
 public:
  Told(PyObject* packet, std::vector<size_t> written, Kind kind, bool bumps)
      : bumps(bumps), packet_(Py_NewRef(packet)), written_(std::move(written)), kind_(kind) {
    for (const char* name : {"add_", "addcdiv_", "addcmul_", "copy_", "div_", "fill_", "lerp_", "mul_", "sub_", "zero_"}) {
      kind_.of_all = kind_.of_all || (kind.plain && PyUnicode_CompareWithASCIIString(packet, name) == 0);
    }
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  // Notify listeners of the call on `stack`. If its number of bumps is unknown, `marks` becomes an owned list
  // of the logs to be settled when it has run.
  void tell(const Listeners& now, const c10::OperatorHandle& op, const Stack& stack, PyObject** marks) const {
    const size_t first = stack.size() - op.schema().arguments().size();
    c10::SmallVector<const at::Tensor*, 8> arguments;
    for (size_t i = first; i < stack.size(); i++) {
      arguments.push_back(stack[i].isTensor() ? &stack[i].toTensor() : nullptr);
    }
    Python python{now, op, marks};
    try {
      for (const Listener& one : now.all) {
        each_written(stack, first, [&](const at::Tensor& target) {
          if (concerns(one, target, packet_, kind_, arguments)) python.tell(*this, one, target, stack);
        });
      }
    } catch (...) {
      drop_later(std::exchange(*marks, nullptr));
      throw;
    }
  }

  // Notify listeners of a call with these arguments, which bumps once.
  template <typename... Args>
  void tell_typed(const Listeners& now, const c10::OperatorHandle& op, const Args&... args) const {
    const at::Tensor* arguments[] = {tensor_in(args)...};
    const at::Tensor& target = *arguments[written_.front()];
    if (!target.defined()) return;
    PyObject* marks = nullptr;
    Python python{now, op, &marks};
    Stack stack;
    for (const Listener& one : now.all) {
      if (!concerns(one, target, packet_, kind_, arguments)) continue;
      if (stack.empty()) stack = {args...};
      python.tell(*this, one, target, stack);
    }
  }

  bool writes_at(size_t position) const {
    return std::find(written_.begin(), written_.end(), position) != written_.end();
  }

  const bool bumps;

 private:
  // What Python is told of a call.
  struct Python {
    const Listeners& now;
    const c10::OperatorHandle& op;
    PyObject** marks;
    std::unique_ptr<Call> call;

    ~Python() {
      if (call != nullptr) {  // with the interpreter's lock, which the call's end may not hold
        Gil gil;
        call.reset();
      }
    }
    void tell(const Told& told, const Listener& one, const at::Tensor& target, const Stack& stack) {
      with_gil([&] {
        const Unseen unseen;
        Owned tensor = must(THPVariable_Wrap(target));
        if (call == nullptr) call = std::make_unique<Call>(op.schema(), stack);
        Owned mark = must(PyObject_CallFunctionObjArgs(now.told, one.listener, tensor.get(), told.packet_,
                                                       told.bumps ? Py_True : Py_False, call->args.get(),
                                                       call->kwargs.get(), nullptr));
        if (told.bumps || mark.get() == Py_None) return;
        if (*marks == nullptr) *marks = must(PyList_New(0)).release();
        must(PyList_Append(*marks, mark.get()));
      });
    }
  };

  static const at::Tensor* tensor_in(const at::Tensor& argument) { return &argument; }
  template <typename Other>
  static const at::Tensor* tensor_in(const Other&) {
    return nullptr;
  }

  template <typename F>
  void each_written(const Stack& stack, size_t first, F&& look) const {
    for (size_t position : written_) {
      const c10::IValue& value = stack[first + position];
      if (value.isTensor()) {
        if (value.toTensor().defined()) look(value.toTensor());
      } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) look(tensor);
      } else if (value.isList()) {
        for (const c10::IValue& item : value.toListRef()) {
          if (item.isTensor() && item.toTensor().defined()) look(item.toTensor());
        }
      }
    }
  }

  PyObject* packet_;  // an interned name; never dropped, because notes refer to it
  std::vector<size_t> written_;
  Kind kind_;
};

// If `on`, the thread observes no writes while this lives, and does again if any listener is left.
class Unobserved {
 public:
  explicit Unobserved(bool on = true) : on_(on) {
    if (on) see(false);
  }
  ~Unobserved() {
    if (on_ && anybody.load(std::memory_order_relaxed)) see(true);
  }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  bool on_;
};

// The kernel at unclobber's key.
class Writes final : public c10::OperatorKernel {
 public:
  explicit Writes(std::unique_ptr<const Told> told) : told_(std::move(told)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const auto now = listening();
    PyObject* marks = nullptr;  // owned
    if (now != nullptr) told_->tell(*now, op, *stack, &marks);
    try {
      const Unobserved here;
      op.redispatchBoxed(below(keys, kKey), stack);
    } catch (...) {
      settle(now.get(), marks);
      throw;
    }
    settle(now.get(), marks);
  }

 private:
  // Count the bumps after the operation has run or failed.
  void settle(const Listeners* now, PyObject* marks) const {
    if (marks == nullptr) return;
    with_gil([&] {
      Owned owned(marks);
      must(PyObject_CallOneArg(now->settle, marks));
    });
  }

  std::unique_ptr<const Told> told_;
};

// The kernel of a building block, `x.op_(...)`, in the place of torch's own kernel, whose work it does: it runs
// the operation below, and moves the counter (torch/csrc/autograd/VariableTypeManual.cpp, `ADInplaceOrView::copy_`).
class Over final : public c10::OperatorKernel {
 public:
  Over(std::unique_ptr<const Told> told, PyObject* ran_dormant)
      : told_(std::move(told)), ran_dormant_(Py_NewRef(ran_dormant)) {}
  ~Over() override { drop_later(ran_dormant_); }

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    PyObject* marks = nullptr;  // stays so, because the number of bumps is known
    if (const auto now = listening()) {
      told_->tell(*now, op, *stack, &marks);
    } else {
      with_gil([&] { must(PyObject_CallNoArgs(ran_dormant_)); });
    }
    const at::Tensor target = (*stack)[stack->size() - op.schema().arguments().size()].toTensor();
    {
      const Unobserved here(is_lazy(keys) && are_seen());
      at::AutoDispatchBelowADInplaceOrView below_this;
      op.redispatchBoxed(below(keys, c10::DispatchKey::ADInplaceOrView), stack);
    }
    target.unsafeGetTensorImpl()->bump_version();
  }

 private:
  std::unique_ptr<const Told> told_;
  PyObject* ran_dormant_;
};

// The same for frequent signatures: torch makes no list of their arguments. What writes counts one bump.
template <typename Signature>
class Typed;
template <typename Result, typename... Args>
class Typed<Result(Args...)> final : public c10::OperatorKernel {
  static constexpr bool kWrites = std::is_same_v<Result, at::Tensor&>;  // what it returns, as every such operation

 public:
  Typed(std::unique_ptr<const Told> told, const c10::OperatorHandle& op, PyObject* ran_dormant)
      : told_(std::move(told)), op_(op.typed<Result(Args...)>()), ran_dormant_(Py_XNewRef(ran_dormant)) {}
  ~Typed() override { drop_later(ran_dormant_); }

  Result operator()(c10::DispatchKeySet keys, Args... args) {
    if constexpr (kWrites) {
      if (const auto now = listening()) {
        told_->tell_typed(*now, op_, args...);
      } else if (ran_dormant_ != nullptr) {
        with_gil([&] { must(PyObject_CallNoArgs(ran_dormant_)); });
      }
      if (ran_dormant_ != nullptr) {
        const Unobserved here(is_lazy(keys) && are_seen());
        at::AutoDispatchBelowADInplaceOrView below_this;
        at::Tensor& target = op_.redispatch(below(keys, c10::DispatchKey::ADInplaceOrView), std::forward<Args>(args)...);
        target.unsafeGetTensorImpl()->bump_version();
        return target;
      }
    }
    const Unobserved here;
    return op_.redispatch(below(keys, kKey), std::forward<Args>(args)...);
  }

  // The kernel and its signature. Takes over `told` unless it raises.
  static std::pair<c10::KernelFunction, std::optional<c10::impl::CppSignature>> make(
      std::unique_ptr<const Told>& told, const c10::OperatorHandle& op, PyObject* ran_dormant) {
    op.typed<Result(Args...)>();
    auto functor = std::make_unique<Typed>(std::move(told), op, ran_dormant);
    return {c10::KernelFunction::makeFromUnboxedFunctor<false, Typed>(std::move(functor)),
            c10::impl::CppSignature::make<Result(c10::DispatchKeySet, Args...)>()};
  }

 private:
  std::unique_ptr<const Told> told_;
  c10::TypedOperatorHandle<Result(Args...)> op_;
  PyObject* ran_dormant_;  // NULL for a kernel at unclobber's key
};

using Made = std::pair<c10::KernelFunction, std::optional<c10::impl::CppSignature>>;
using Make = Made (*)(std::unique_ptr<const Told>&, const c10::OperatorHandle&, PyObject*);
using Out = at::Tensor&;
using In = const at::Tensor&;
using Number = const at::Scalar&;
using Dtype = std::optional<at::ScalarType>;

// By their arguments: tensor, Scalar, bool, int, float, others; W is the tensor that it writes.
const std::pair<std::string_view, Make> typed[] = {
    {"W", Typed<Out(Out)>::make},
    {"Wt", Typed<Out(Out, In)>::make},
    {"Ws", Typed<Out(Out, Number)>::make},
    {"Wts", Typed<Out(Out, In, Number)>::make},
    {"Wtb", Typed<Out(Out, In, bool)>::make},
    {"Wi", Typed<Out(Out, int64_t)>::make},
    {"Wii", Typed<Out(Out, int64_t, int64_t)>::make},
    {"Witt", Typed<Out(Out, int64_t, In, In)>::make},  // scatter_add_
    {"tW", Typed<Out(In, Out)>::make},  // abs is made of abs.out
    {"t?", Typed<at::Tensor(In, Dtype)>::make},  // mean
    {"t?b?", Typed<at::Tensor(In, at::OptionalIntArrayRef, bool, Dtype)>::make},
    {"tti", Typed<at::Tensor(In, In, int64_t)>::make},  // mse_loss
    {"ttif", Typed<at::Tensor(In, In, int64_t, double)>::make},
};

// The kernel of an operation; over torch's own kernel if `ran_dormant` is not NULL.
Made kernel_of(std::unique_ptr<const Told> told, const c10::OperatorHandle& op, PyObject* ran_dormant) {
  std::string types;
  for (const c10::Argument& argument : op.schema().arguments()) {
    const auto kind = argument.type()->kind();
    types += kind == c10::TypeKind::TensorType ? (told->writes_at(types.size()) ? 'W' : 't')
             : kind == c10::TypeKind::NumberType ? 's'
             : kind == c10::TypeKind::BoolType   ? 'b'
             : kind == c10::TypeKind::IntType    ? 'i'
             : kind == c10::TypeKind::FloatType  ? 'f'
                                                 : '?';
  }
  const auto* found = std::find_if(std::begin(typed), std::end(typed), [&](auto& one) { return one.first == types; });
  // a program may define operations among torch's
  if (found != std::end(typed) && told->bumps && op.schema().returns().size() == 1) {
    try {
      return found->second(told, op, ran_dormant);
    } catch (const c10::Error&) {  // this torch has the arguments as other types
    }
  }
  if (ran_dormant != nullptr) {
    return {c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Over>(std::move(told), ran_dormant)), std::nullopt};
  }
  return {c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Writes>(std::move(told))), std::nullopt};
}

// --- the Python object of a registered kernel ----------------------------------------------------------

struct Object {
  PyObject_HEAD
  c10::RegistrationHandleRAII* handle;
  c10::KernelFunction* kernel;  // it may be running when it is taken away, and ends with this object
};
PyTypeObject* type = nullptr;  // owned for the life of the process, as its module is

// torch warns of a kernel that replaces another one.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

void unregister(PyObject* self) {
  // the dispatcher takes a lock of its own, which a thread may hold that waits for the interpreter's
  std::unique_ptr<c10::RegistrationHandleRAII> handle(std::exchange(reinterpret_cast<Object*>(self)->handle, nullptr));
  Py_BEGIN_ALLOW_THREADS
  handle.reset();
  Py_END_ALLOW_THREADS
  drop_now();
}

PyObject* reset(PyObject* self, PyObject*) {
  unregister(self);
  return Py_NewRef(Py_None);
}

void dealloc(PyObject* self) {
  PyTypeObject* of = Py_TYPE(self);
  if (reinterpret_cast<Object*>(self)->handle != nullptr) unregister(self);
  delete reinterpret_cast<Object*>(self)->kernel;
  drop_now();
  of->tp_free(self);
  Py_DECREF(of);
}

PyMethodDef methods[] = {
    {"reset", entry<reset>, METH_NOARGS, "reset(): take the kernel away"},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A kernel that is registered until its reset().")},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};
PyType_Spec spec = {"_unclobber_native.Kernel", sizeof(Object), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void add_to(PyObject* module) {
  Owned made = must(PyType_FromSpec(&spec));
  must(PyModule_AddObjectRef(module, "Kernel", made.get()));
  type = reinterpret_cast<PyTypeObject*>(made.release());
}

PyObject* listen(PyObject*, PyObject* arguments) {
  PyObject *all, *told, *settle;
  if (!PyArg_ParseTuple(arguments, "O!OO", &PyTuple_Type, &all, &told, &settle)) throw python_error();
  auto made = std::make_shared<Listeners>();
  made->told = Py_NewRef(told);
  made->settle = Py_NewRef(settle);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); i++) {
    PyObject* one = PyTuple_GET_ITEM(all, i);
    Owned pending = must(PyObject_GetAttrString(one, "pending"));
    Owned watched = must(PyObject_GetAttrString(one, "watched"));
    Owned logs = must(PyObject_GetAttrString(one, "logs"));
    Owned views = must(PyObject_GetAttrString(one, "follows_views"));
    Owned values = must(PyObject_GetAttrString(one, "follows_values"));
    const int follows_views = PyObject_IsTrue(views.get());
    const int follows_values = PyObject_IsTrue(values.get());
    must(follows_views);
    must(follows_values);
    auto queue = queue::is(pending.get()) ? queue::of(pending.get()) : nullptr;
    made->all.push_back({Py_NewRef(one), pending.release(), watched.release(), logs.release(), std::move(queue),
                         follows_views == 1, follows_values == 1});
  }
  std::shared_ptr<const Listeners> old(std::move(made));
  {
    Locked locked;
    anybody.store(PyTuple_GET_SIZE(all) != 0, std::memory_order_release);
    listeners().swap(old);
  }
  old.reset();
  drop_now();
  return Py_NewRef(Py_None);
}

void see(bool on) { c10::impl::tls_set_dispatch_key_included(kKey, on); }

bool are_seen() { return c10::impl::tls_local_dispatch_key_set().included_.has(kKey); }

bool may_matter() {
  const auto now = listening();
  return now == nullptr || std::any_of(now->all.begin(), now->all.end(), [](const Listener& one) {
           return any_waiting(one) || any_followed(one);
         });
}

std::shared_ptr<saves::Queue> only_queue() {
  const auto now = listening();
  std::shared_ptr<saves::Queue> only;
  if (now == nullptr) return nullptr;
  for (const Listener& one : now->all) {
    if (any_followed(one) || (one.queue == nullptr ? any_in(one.pending) : only != nullptr)) return nullptr;
    if (one.queue != nullptr) only = one.queue;
  }
  return only;
}

bool follows_without_saves() {
  const auto now = listening();
  if (now == nullptr) return false;
  return std::any_of(now->all.begin(), now->all.end(),
                     [](const Listener& one) { return !any_waiting(one) && any_followed(one); });
}

PyObject* register_kernel(PyObject*, PyObject* arguments) {
  const char *name, *overload;
  PyObject *packet, *written, *ran_dormant = nullptr;
  int plain, of_elements, bumps;
  if (!PyArg_ParseTuple(arguments, "ssUO!ppp|O", &name, &overload, &packet, &PyTuple_Type, &written, &plain, &of_elements,
                        &bumps, &ran_dormant)) {
    throw python_error();
  }
  const auto op = c10::Dispatcher::singleton().findSchema(c10::OperatorName(name, overload));
  if (!op) {
    PyErr_Format(PyExc_ValueError, "there is no operation %s.%s", name, overload);
    throw python_error();
  }
  std::vector<size_t> positions;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
    const size_t position = PyLong_AsSize_t(PyTuple_GET_ITEM(written, i));
    if (position == static_cast<size_t>(-1) && PyErr_Occurred() != nullptr) throw python_error();
    if (position >= op->schema().arguments().size()) {
      PyErr_SetString(PyExc_IndexError, "no such argument");
      throw python_error();
    }
    positions.push_back(position);
  }
  auto told = std::make_unique<const Told>(packet, std::move(positions), Kind{plain != 0, of_elements != 0}, bumps != 0);
  Owned self = must(type->tp_alloc(type, 0));
  auto* object = reinterpret_cast<Object*>(self.get());
  auto [kernel, signature] = kernel_of(std::move(told), *op, ran_dormant);
  object->kernel = new c10::KernelFunction(std::move(kernel));
  Silence silence;
  object->handle = new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
      op->operator_name(), ran_dormant == nullptr ? kKey : c10::DispatchKey::ADInplaceOrView, *object->kernel,
      std::move(signature), nullptr, "unclobber"));
  return self.release();
}

}  // namespace unclobber::writes
