// The backward pass of a Reducer: gradients arrive, full buckets are reduced, the end waits for all of them.

#include "reducer.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "unisono/collectives.h"
#include "unisono/error.h"
#include "unisono/objects.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {
namespace {

namespace autograd = torch::autograd;

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

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

void Reducer::arrived(std::size_t i) {
  const std::lock_guard lock(mutex_);
  if (pass_.expired()) begin();
  trained_[i].used = true;
  if (!reducing_) return;
  if (!ordered_) arrivals_.push_back(i);
  make_ready(i, true);
}

void Reducer::reached() {
  const std::lock_guard lock(mutex_);
  if (!pass_.expired()) return;
  // torch::autograd::grad accumulates no gradients, so it is not a pass of the reducer.
  const auto* planned = autograd::get_current_graph_task_exec_info();
  if (planned != nullptr && !planned->empty() && std::ranges::none_of(trained_, [&](const Trained& trained) { return will_arrive(trained); })) return;
  begin();
}

bool Reducer::will_arrive(const Trained& trained) const {
  const auto* planned = autograd::get_current_graph_task_exec_info();
  if (planned != nullptr && !planned->empty()) {
    const auto found = planned->find(trained.accumulator.get());
    return found != planned->end() && found->second.needed_;
  }
  const auto* nodes = autograd::get_current_graph_task_nodes_in_graph();
  return nodes != nullptr && nodes->contains(trained.accumulator.get());
}

void Reducer::begin() {
  went_around_ = forward_.begin_backward();
  reducing_ = held_ == 0;
  if (went_around_ && !reducing_) throw_gone_around(group_.rank());  // no other rank is asked in such a pass
  // The pass keeps this object alive until it is over, also when an exception ends it.
  const auto token = std::make_shared<std::shared_ptr<Reducer>>(shared_from_this());
  autograd::Engine::get_default_engine().queue_callback([token] { (*token)->finish(); });
  pass_ = token;
  if (!reducing_) return;
  arrivals_.clear();
  buckets_.begin();
  for (Trained& trained : trained_) {
    trained.ready = false;
    trained.before = at::Tensor();
  }
  times_.first_gradient = Clock::now();
  if (!find_unused_) return;
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    if (!will_arrive(trained_[i])) make_ready(i, false);
  }
}

void Reducer::make_ready(std::size_t i, bool used) {
  Trained& trained = trained_[i];
  if (trained.ready) return;  // accumulated once more by a pass within the pass
  trained.ready = true;
  fill(trained, used);
  buckets_.filled(trained.place);
}

void Reducer::fill(Trained& trained, bool used) {
  const at::NoGradGuard no_grad;
  const at::Tensor& place = buckets_.gradient(trained.place);
  at::Tensor& gradient = trained.parameter.mutable_grad();
  if (!gradient.defined()) {
    place.zero_();
    return;
  }
  if (gradient.layout() != at::kStrided) {
    throw Unsupported(
        fmt::format("the gradient of parameter \"{}\" is sparse", trained.name),
        {.operation = "backward", .group = group_.name(), .rank = group_.rank(), .hint = "make the layer's gradients dense: sparse(false)"});
  }
  if (!same_memory(gradient, place)) place.copy_(gradient);
  else if (!used) trained.before = gradient.clone();
  if (used) gradient = place;
}

void Reducer::finish() {
  const std::lock_guard lock(mutex_);
  if (!reducing_) return;
  reducing_ = false;
  times_.last_gradient = Clock::now();
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    if (trained_[i].ready) continue;
    if (!find_unused_) missing.push_back(trained_[i].name);
    make_ready(i, false);
  }
  // The first flag tells whether a rank misses gradients; the others tell which parameters this rank has used.
  const at::Tensor status = empty_shared({find_unused_ ? static_cast<std::int64_t>(1 + trained_.size()) : 1}, at::kByte);
  auto* flags = status.mutable_data_ptr<std::uint8_t>();
  flags[0] = went_around_ ? 2 : missing.empty() ? 0 : 1;
  for (std::size_t i = 0; find_unused_ && i < trained_.size(); ++i) flags[1 + i] = trained_[i].used ? 1 : 0;
  Work work = all_reduce_async(status, ReduceOp::max, group_);
  work.on_completion([status] {});
  buckets_.wait(work);
  if (flags[0] == 2) {
    const std::vector<int> edges = all_gather(went_around_ ? 1 : 0, group_);
    throw_gone_around(static_cast<int>(std::ranges::find(edges, 1) - edges.begin()));
  }
  if (flags[0] != 0) throw_missing(missing);
  settle(status);
  times_.end = Clock::now();
  if (!ordered_) reorder();
}

// A gradient used on any rank becomes the average in its bucket; a gradient that no rank has used is left as it was.
void Reducer::settle(const at::Tensor& used_anywhere) {
  const at::NoGradGuard no_grad;
  const auto* flags = used_anywhere.const_data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    Trained& trained = trained_[i];
    at::Tensor& gradient = trained.parameter.mutable_grad();
    if (!find_unused_ || flags[1 + i] != 0) gradient = buckets_.gradient(trained.place);
    else if (trained.before.defined()) gradient.copy_(trained.before);
    trained.before = at::Tensor();
    trained.used = false;
  }
  times_.buckets = buckets_.times([&](std::size_t i) { return trained_[i].name; });
}

void Reducer::throw_missing(const std::vector<std::string>& own) const {
  const auto all = all_gather_object(own, group_);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const bool one = all[r].size() == 1;
    throw InvalidArgument(
        fmt::format("{} \"{}\" of rank {} got no gradient in this backward pass", one ? "parameter" : "parameters", fmt::join(all[r], "\", \""), r),
        {.operation = "backward",
         .group = group_.name(),
         .rank = group_.rank(),
         .culprit = static_cast<int>(r),
         .hint = "does the loss depend on all of the forward pass? If parameters may be left out, set find_unused_parameters; if never used, freeze "
                 "them"});
  }
  throw InvalidArgument("a rank misses gradients and names none", {.operation = "backward", .group = group_.name(), .rank = group_.rank()});
}

void Reducer::throw_gone_around(int culprit) const {
  throw InvalidArgument(
      fmt::format("the forward pass of this backward pass on rank {} has gone around auto_model: buffers and batch norm statistics were not "
                  "synchronised, nor was the model looked at",
                  culprit),
      {.operation = "backward",
       .group = group_.name(),
       .rank = group_.rank(),
       .culprit = culprit,
       .hint = "write model(x) or model.forward(x): model->forward(x) is the module's own, and model.call is for its other functions"});
}

}  // namespace unisono::libtorch
