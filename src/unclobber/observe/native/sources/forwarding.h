// An engine that passes every call on to another one; which hooks a save gets is left to its subclasses.
#pragma once

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

namespace unclobber {

using NodePointer = decltype(torch::autograd::get_current_node());  // one kind or another, by torch's version

class Forwarding : public torch::autograd::Engine {
 public:
  explicit Forwarding(Engine& own) : own(own) {}

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

  Engine& own;
};

}  // namespace unclobber
