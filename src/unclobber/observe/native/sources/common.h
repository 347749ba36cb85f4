// Shared by all sources: owned references, the locks, and the wall between C++ exceptions and the interpreter.
//
// Two locks: a thread that holds the core's lock (`Locked`) runs no Python and drops no reference to a Python object.
// torch may take the interpreter's lock then, to count a tensor's owners for Python (since 2.10), so whoever waits for
// the core's lock gives the interpreter's up meanwhile. It is one lock for everything, held for a few instructions, and
// taken around a fork, so that no child starts with it locked.
#pragma once
#include <Python.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

#include <sched.h>

#include <atomic>
#include <utility>

#ifdef Py_GIL_DISABLED
#error "unclobber's native core relies on the interpreter's lock, which this Python is built without"
#endif

// For what runs at each save: with all that it calls in one place, for its code has left the caches since the last one.
#define UNCLOBBER_HOT [[gnu::hot, gnu::flatten]]
// For what is called there and seldom runs: inside, it would spread that code over many more lines of memory.
#define UNCLOBBER_COLD [[gnu::cold, gnu::noinline]]

namespace unclobber {

// A strong reference that is given back at the end of its life; the interpreter's lock must be held then.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* stolen) : object_(stolen) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
      Py_XDECREF(old);
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object_); }

  static Owned borrowed(PyObject* object) {
    Py_XINCREF(object);
    return Owned(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// A result that must be there: NULL means that Python has raised.
inline Owned must(PyObject* stolen) {
  if (stolen == nullptr) throw python_error();
  return Owned(stolen);
}

inline void must(int status) {
  if (status < 0) throw python_error();
}

// Run `body`; a C++ exception becomes a Python one, and the result `failed`.
template <typename Body, typename Result>
Result guarded(Body&& body, Result failed) noexcept {
  try {
    return body();
  } catch (python_error& error) {
    error.restore();
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
  return failed;
}

// A function or method of the module in C++, wrapped by `guarded`.
template <PyObject* (*body)(PyObject*, PyObject*)>
PyObject* entry(PyObject* self, PyObject* argument) {
  return guarded([&] { return body(self, argument); }, static_cast<PyObject*>(nullptr));
}

// The interpreter's lock, for as long as this lives.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Run Python code for a C++ caller: a Python exception goes on as a C++ exception, which keeps it even if this
// thread's state ends with the lock.
template <typename Body>
auto with_gil(Body&& body) {
  Gil gil;
  try {
    return body();
  } catch (python_error& error) {
    error.persist();
    throw;
  }
}

// The Python object of a tensor or storage; NULL if it has none. Borrowed. Before torch 2.10 the slot takes an
// interpreter as its argument.
template <typename Impl>
PyObject* object_of(Impl* impl) {
  auto* slot = impl->pyobj_slot();
  if constexpr (requires { slot->load_pyobj(); }) {
    return slot->load_pyobj();
  } else {
    return slot->check_pyobj(getPyInterpreter()).value_or(nullptr);
  }
}

// Whether that object is one of its owners. Before torch 2.10 an object without a name is kept, and owns nothing.
template <typename Impl>
bool is_held_by_python(Impl* impl) {
  auto* slot = impl->pyobj_slot();
  if constexpr (requires { slot->owns_pyobj(); }) {
    if (slot->owns_pyobj()) return false;
  }
  return object_of(impl) != nullptr;
}

inline bool is_of(PyObject* object, PyObject* type) {
  return Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(type);
}

// Whether an object is a tensor: as THPVariable_Check, which takes ten times as long for all others.
inline bool is_tensor(PyObject* object) {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass)) != 0;
}

// Whether the interpreter's lock can be taken: not by another thread once the process ends.
bool can_take_gil();

// The core's own lock, for as long as this lives: a flag, because a mutex of the C library is two calls each time.
class Locked {
 public:
  Locked() { take(); }
  ~Locked() { give(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  static void take() {
    while (held_.exchange(true, std::memory_order_acquire)) wait();
  }
  static void give() { held_.store(false, std::memory_order_release); }

 private:
  UNCLOBBER_COLD static void wait();

  static inline std::atomic<bool> held_{false};
};

// Once, when the module is made.
void take_lock_around_forks();

// Drop a reference later, in a thread that holds the interpreter's lock.
UNCLOBBER_COLD void drop_later(PyObject* object);
// Drop a reference later, for callers that hold `Locked`.
UNCLOBBER_COLD void drop_later_locked(PyObject* object);
// Drop the references that wait; the second function does so only if this thread holds the interpreter's lock.
UNCLOBBER_COLD void drop_now();
void drop_now_if_held();

}  // namespace unclobber
