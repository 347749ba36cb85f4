#include "common.h"

#include <pthread.h>

#include <vector>

namespace unclobber {

namespace {

std::vector<PyObject*>& dropped() {
  static auto* objects = new std::vector<PyObject*>;
  return *objects;
}
std::atomic<bool> any_dropped{false};

bool is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

}  // namespace

void Locked::wait() {
  PyThreadState* state = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  sched_yield();
  if (state != nullptr) PyEval_RestoreThread(state);
}

void take_lock_around_forks() {
  pthread_atfork(Locked::take, Locked::give, Locked::give);
}

bool can_take_gil() { return Py_IsInitialized() && (!is_ending() || PyGILState_Check()); }

void drop_later_locked(PyObject* object) {
  if (object == nullptr) return;
  dropped().push_back(object);
  any_dropped.store(true, std::memory_order_relaxed);
}

void drop_later(PyObject* object) {
  if (object == nullptr) return;
  Locked locked;
  drop_later_locked(object);
}

void drop_now() {
  if (!any_dropped.load(std::memory_order_relaxed)) return;
  std::vector<PyObject*> objects;
  {
    Locked locked;
    objects.swap(dropped());
    any_dropped.store(false, std::memory_order_relaxed);
  }
  for (PyObject* object : objects) Py_DECREF(object);
}

void drop_now_if_held() {
  if (any_dropped.load(std::memory_order_relaxed) && Py_IsInitialized() && PyGILState_Check()) drop_now();
}

}  // namespace unclobber
