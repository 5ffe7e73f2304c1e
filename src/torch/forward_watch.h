#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <unordered_set>

namespace unisono::libtorch {

/// Tells whether the forward pass of a backward pass has gone through the wrapper of a module.
class ForwardWatch {
 public:
  /// Adds what accumulates the gradient of a parameter of the module.
  void add(const torch::autograd::Node* accumulator) { accumulators_.insert(accumulator); }

  /// A forward pass through the wrapper makes a graph.
  void makes_graph() { graph_waits_ = true; }
  /// It has made the graph.
  void made_graph();
  /// Returns true where a forward pass has made a graph, and no backward pass has come since.
  bool graph_waits() const { return graph_waits_; }
  /// A backward pass begins. Returns true where its forward pass has gone around the wrapper.
  bool begin_backward();

 private:
  bool went_around() const;

  std::unordered_set<const torch::autograd::Node*> accumulators_;
  bool graph_waits_ = false;
  bool forwarded_ = false;         // a forward pass has gone through the wrapper, and no backward pass has come since
  std::uint64_t forward_end_ = 0;  // the number that autograd's next node had after the latest forward pass
};

}  // namespace unisono::libtorch
