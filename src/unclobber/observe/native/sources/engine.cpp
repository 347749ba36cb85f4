// torch calls its engine for the hooks of every save (torch/csrc/autograd/saved_variable.cpp), and a program may set
// another engine. The core's engine passes every call but that one on to torch's own. Hooks that are pushed on
// torch's stack instead cost two Python calls for each saved tensor, with the interpreter's lock, and a
// copy of the stack for each thread-local state that the engine takes.
#include "engine.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <typeinfo>
#include <vector>

#include "backward.h"
#include "forwarding.h"
#include "queue.h"
#include "saves.h"
#include "views.h"

namespace unclobber::engine {

namespace {

using torch::autograd::Engine;

// A session in a thread. Hooks that were pushed on torch's stack since are inside the session's, and come first.
struct Entered {
  std::shared_ptr<saves::Queue> queue;
  size_t below;  // how many hooks were on torch's stack then, or fewer
  bool sees;
};
// This thread's, by a pointer, because each access of a thread-local that has a destructor costs two calls.
thread_local std::vector<Entered>* entered_or_null = nullptr;

std::vector<Entered>& here() {
  struct Mine : std::vector<Entered> {
    ~Mine() { entered_or_null = nullptr; }  // what ends after it in this thread may still save tensors
  };
  if (entered_or_null != nullptr) return *entered_or_null;
  static thread_local Mine mine;
  return *(entered_or_null = &mine);
}

// The entered sessions of all threads, under `Locked`, and their number.
std::vector<Entered>& everywhere() {
  static auto* all = new std::vector<Entered>;
  return *all;
}
std::atomic<size_t> sessions{0};

// For one of the engine's own threads, which works for another thread's backward: one that is nested too deep, or a
// device's. If there is just one session, the save belongs to it.
std::unique_ptr<torch::autograd::SavedVariableHooks> of_the_only_session() {
  std::shared_ptr<saves::Queue> queue;
  bool sees = false;
  {
    Locked locked;
    if (everywhere().size() != 1) return nullptr;
    queue = everywhere().front().queue;
    sees = everywhere().front().sees;
  }
  return std::make_unique<saves::Save>(std::move(queue), sees);
}

class Hooking final : public Forwarding {
 public:
  using Forwarding::Forwarding;

  UNCLOBBER_HOT std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    const std::vector<Entered>* mine = entered_or_null;
    if (mine == nullptr || mine->empty()) {
      if (sessions.load(std::memory_order_relaxed) == 1) {
        const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
        const bool usual = state.stack.empty() && !state.is_tracing && !state.disabled_error_message;
        if (usual && backward::works_for_another_thread()) {
          if (auto hooks = of_the_only_session()) return hooks;
        }
      }
      return own.get_default_saved_variable_hooks();
    }
    const Entered& last = mine->back();
    const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
    if (state.stack.size() > last.below) return own.get_default_saved_variable_hooks();
    if (state.is_tracing || state.disabled_error_message) return nullptr;
    return std::make_unique<saves::Save>(last.queue, last.sees);
  }
};

Hooking* hooking = nullptr;  // made once, for good: any thread may be in it
Engine& ours() { return *hooking; }
Engine& torchs() { return hooking->own; }

size_t on_torchs_stack() { return at::SavedTensorDefaultHooks::get_tls_state().stack.size(); }

}  // namespace

PyObject* hook(PyObject*, PyObject* on) {
  const int wanted = PyObject_IsTrue(on);
  must(wanted);
  if (hooking == nullptr) {
    if (!wanted) return Py_NewRef(Py_False);
    Engine& own = Engine::get_default_engine();
    // another library's engine can't be wrapped, because the library may take it away again
    if (std::strstr(typeid(own).name(), "12PythonEngine") == nullptr) return Py_NewRef(Py_False);
    hooking = new Hooking(own);
  }
  torch::autograd::set_default_engine_stub(wanted ? ours : torchs);
  return Py_NewRef(Py_True);
}

PyObject* enter(PyObject*, PyObject* arguments) {
  PyObject* queue = nullptr;
  int sees = 0;
  if (!PyArg_ParseTuple(arguments, "Op", &queue, &sees)) throw python_error();
  Entered entered{queue::of(queue), on_torchs_stack(), sees != 0};
  {
    Locked locked;
    everywhere().push_back(entered);
    sessions.store(everywhere().size(), std::memory_order_relaxed);
  }
  here().push_back(std::move(entered));
  drop_now();
  return Py_NewRef(Py_None);
}

PyObject* leave(PyObject*, PyObject* object) {
  const std::shared_ptr<saves::Queue> queue = queue::of(object);
  Entered left{nullptr, 0, false};
  std::vector<Entered>& mine = here();
  for (size_t i = mine.size(); i-- > 0;) {
    if (mine[i].queue == queue) {
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(i));
      Locked locked;
      auto& all = everywhere();
      for (size_t j = all.size(); j-- > 0;) {
        if (all[j].queue == queue) {
          left = std::move(all[j]);
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(j));
          break;
        }
      }
      sessions.store(all.size(), std::memory_order_relaxed);
      break;
    }
  }
  // Stacks stay known for a session that is entered soon, until all that is installed is taken away.
  if (sessions.load(std::memory_order_relaxed) == 0) views::forget();
  drop_now();
  return PyBool_FromLong(left.queue != nullptr);
}

PyObject* is_innermost(PyObject*, PyObject* object) {
  const std::shared_ptr<saves::Queue> queue = queue::of(object);
  const std::vector<Entered>& mine = here();
  return PyBool_FromLong(!mine.empty() && mine.back().queue == queue && on_torchs_stack() <= mine.back().below);
}

PyObject* pushes(PyObject*, PyObject*) {
  const size_t now = on_torchs_stack();
  for (Entered& entered : here()) entered.below = std::min(entered.below, now);
  return Py_NewRef(Py_None);
}

}  // namespace unclobber::engine
