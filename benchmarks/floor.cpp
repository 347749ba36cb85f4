// Hooks of saved tensors that do nothing, in C++: what torch itself takes for any such hooks. See floor.py.
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/utils/pybind.h>

namespace {

using torch::autograd::Engine;
using NodePointer = decltype(torch::autograd::get_current_node());

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

struct Hooking final : Engine {
  explicit Hooking(Engine& own) : own(own) {}
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return own.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task, NodePointer root,
      torch::autograd::InputBuffer&& inputs) override {
    return own.execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return own.make_anomaly_metadata();
  }
  void thread_on_exception(const std::shared_ptr<torch::autograd::GraphTask>& task, const NodePointer& node,
                           std::exception& error) override {
    own.thread_on_exception(task, node, error);
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!on || !at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) {
      return own.get_default_saved_variable_hooks();
    }
    return std::make_unique<Empty>();
  }
  Engine& own;
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
