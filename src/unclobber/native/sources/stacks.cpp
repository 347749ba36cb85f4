// Frames are walked by Python's public interface alone: it is the same in every version from 3.11 on.
#include "stacks.h"

namespace unclobber::stacks {

namespace {
constexpr Py_ssize_t kUsual = 32;  // as in unclobber/source/frames.py
}

Owned innermost() {
  return Owned(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
}

Owned code_of(PyObject* frame) {
  return Owned(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame))));
}

int lasti_of(PyObject* frame) { return PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame)); }

Owned from(PyObject* frame, PyObject* deeper) {
  PyObject* found[2 * kUsual];
  Py_ssize_t count = 0;
  Owned at = Owned::borrowed(frame);
  try {
    while (at && count < 2 * kUsual) {
      found[count++] = code_of(at.get()).release();
      PyObject* offset = PyLong_FromLong(lasti_of(at.get()));
      if (offset == nullptr) throw python_error();
      found[count++] = offset;
      at = Owned(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(at.get()))));
    }
  } catch (...) {
    while (count > 0) Py_DECREF(found[--count]);
    throw;
  }
  PyObject* stack = at ? PyList_New(count) : PyTuple_New(count);
  if (stack == nullptr) {
    while (count > 0) Py_DECREF(found[--count]);
    throw python_error();
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    if (at) {
      PyList_SET_ITEM(stack, i, found[i]);
    } else {
      PyTuple_SET_ITEM(stack, i, found[i]);
    }
  }
  Owned result(stack);
  if (!at) return result;
  must(PyObject_CallFunctionObjArgs(deeper, at.get(), result.get(), nullptr));
  return must(PyList_AsTuple(result.get()));
}

}  // namespace unclobber::stacks
