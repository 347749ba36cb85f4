// Hooks of saved tensors that do nothing, in C++: what torch itself takes for any such hooks. See floor.py.
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/utils/pybind.h>

#include "../src/unclobber/observe/native/sources/forwarding.h"

namespace {

using torch::autograd::Engine;

struct Empty final : torch::autograd::SavedVariableHooks {
  at::Tensor saved;

  void call_pack_hook(const at::Tensor& tensor) override {
    // A node that owned its own result would never be freed: an alias of what Python has not been given yet.
    const bool known = tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() != nullptr;
    saved = known ? tensor : tensor.variable_data();
  }
  at::Tensor call_unpack_hook() override { return saved; }
};

bool on = false;

struct Hooking final : unclobber::Forwarding {
  using Forwarding::Forwarding;

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!on || !at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) {
      return own.get_default_saved_variable_hooks();
    }
    return std::make_unique<Empty>();
  }
};

Hooking* hooking = nullptr;
Engine& ours() { return *hooking; }

void use(bool wanted) {
  if (hooking == nullptr) {
    hooking = new Hooking(Engine::get_default_engine());
    torch::autograd::set_default_engine_stub(ours);
  }
  on = wanted;
}

}  // namespace

PYBIND11_MODULE(unclobber_floor, module) { module.def("use", use); }
