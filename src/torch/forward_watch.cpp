#include "forward_watch.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

namespace unisono::libtorch {

namespace {
namespace autograd = torch::autograd;
}  // namespace

void ForwardWatch::made_graph() {
  forwarded_ = true;
  forward_end_ = std::max(forward_end_, at::sequence_number::peek());
}

bool ForwardWatch::begin_backward() {
  const bool around = went_around();
  graph_waits_ = forwarded_ = false;
  return around;
}

/// Tells whether the parameters in this pass were used outside the wrapper: after its latest forward pass, and none of them in one. Autograd numbers
/// its nodes, and a second pass through a retained graph has older ones.
bool ForwardWatch::went_around() const {
  if (forwarded_) return false;
  const auto* nodes = autograd::get_current_graph_task_nodes_in_graph();
  if (nodes == nullptr) return false;
  bool used = false;
  for (autograd::Node* node : *nodes) {
    const auto leads_to_parameter = [&](const autograd::Edge& edge) { return accumulators_.contains(edge.function.get()); };
    if (std::ranges::none_of(node->next_edges(), leads_to_parameter)) continue;
    if (node->sequence_nr() < forward_end_) return false;
    used = true;
  }
  return used;
}

}  // namespace unisono::libtorch
