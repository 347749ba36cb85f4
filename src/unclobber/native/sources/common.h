// What all sources share: owned references, and the wall between C++ exceptions and the interpreter.
#pragma once
#include <Python.h>
#include <torch/csrc/Exceptions.h>

#include <utility>

#ifdef Py_GIL_DISABLED
#error "unclobber's native core relies on the interpreter's lock, which this Python is built without"
#endif

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

}  // namespace unclobber
