#include "reducer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <numeric>

#include "unisono/collectives.h"
#include "unisono/error.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {
namespace {

namespace autograd = torch::autograd;

/// Called by the node that accumulates a parameter's gradient, afterwards.
struct Arrival final : autograd::FunctionPostHook {
  explicit Arrival(std::function<void()> f) : call(std::move(f)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs, const autograd::variable_list&) override {
    call();
    return outputs;
  }
  std::function<void()> call;
};

}  // namespace

Reducer::Reducer(std::shared_ptr<torch::nn::Module> module, ProcessGroup group, const AutoModelOptions& options, BucketCaps caps)
    : module_(std::move(module)),
      group_(std::move(group)),
      find_unused_(options.find_unused_parameters),
      broadcast_buffers_(options.broadcast_buffers),
      buckets_(group_, caps, options.compression.make_hook()) {}

Reducer::~Reducer() {
  for (const Trained& trained : trained_) {
    if (trained.hook != 0) trained.accumulator->del_post_hook(trained.hook);
  }
}

void Reducer::attach() {
  for (const auto& item : module_->named_parameters()) {
    const at::Tensor& parameter = item.value();
    known_.push_back({item.key(), parameter, parameter.requires_grad(), parameter.scalar_type(), parameter.device(), parameter.sizes().vec(), {}});
    if (!parameter.requires_grad()) continue;
    known_.back().accumulator = autograd::impl::grad_accumulator(parameter);
    forward_.add(known_.back().accumulator.get());
    const auto is_this = [&](const Trained& other) { return other.parameter.is_same(parameter); };
    if (std::ranges::any_of(trained_, is_this)) continue;  // another name of a parameter that submodules share
    trained_.push_back({item.key(), parameter, known_.back().accumulator});
    parameters_.push_back(parameter);
  }
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const auto call = [weak = weak_from_this(), i] {
      if (const auto self = weak.lock()) self->arrived(i);
    };
    trained_[i].hook = trained_[i].accumulator->add_post_hook(std::make_unique<Arrival>(call));
  }
  // Gradients come roughly from the last layer to the first. The first backward pass shows their real order.
  std::vector<std::size_t> order(trained_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  lay_out(order);
}

void Reducer::lay_out(const std::vector<std::size_t>& order) {
  const auto places = buckets_.lay_out(parameters_, order);
  for (std::size_t i = 0; i < places.size(); ++i) trained_[i].place = places[i];
}

// All ranks take rank 0's order, so that it is the same everywhere.
void Reducer::reorder() {
  ordered_ = true;
  std::vector<std::int64_t> order;
  std::vector<bool> seen(trained_.size());
  const auto add = [&](std::size_t i) {
    if (!seen[i]) order.push_back(static_cast<std::int64_t>(i));
    seen[i] = true;
  };
  std::ranges::for_each(arrivals_, add);
  std::ranges::for_each(buckets_.order(), add);
  broadcast(order, 0, group_);
  lay_out({order.begin(), order.end()});
}

void Reducer::before_forward() {
  check_module();
  const std::lock_guard lock(mutex_);
  if (!module_->is_training()) return;
  if (broadcast_buffers_ && held_ == 0 && !forward_.graph_waits()) share_buffers();
  if (at::GradMode::is_enabled()) forward_.makes_graph();
}

void Reducer::after_forward(const std::vector<at::Tensor>& outputs) {
  if (!at::GradMode::is_enabled()) return;
  {
    const std::lock_guard lock(mutex_);
    forward_.made_graph();
  }
  // If a rank uses none of the parameters, only the outputs show that a backward pass has begun.
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    output.register_hook([weak = weak_from_this()](const at::Tensor&) {
      if (const auto self = weak.lock()) self->reached();
    });
  }
}

void Reducer::share_buffers() {
  std::vector<at::Tensor> buffers;
  // variable_data() has another version counter, so that autograd does not object to the change while a graph waits for its backward pass.
  for (const at::Tensor& buffer : module_->buffers()) buffers.push_back(buffer.variable_data());
  broadcast_tensors(buffers, group_);
}

void Reducer::check_module() const {
  const auto refuse = [&](const std::string& name, std::string_view what) {
    throw InvalidArgument(
        fmt::format("parameter \"{}\" {} after auto_model", name, what),
        {.operation = "forward", .group = group_.name(), .rank = group_.rank(), .hint = "call auto_model again after changing a module"});
  };
  const auto now = module_->named_parameters();
  for (std::size_t i = 0; i < now.size() && i < known_.size(); ++i) {
    const Known& known = known_[i];
    const std::string& name = now[i].key();
    const at::Tensor& parameter = now[i].value();
    if (name != known.name) {
      if (now.contains(known.name)) refuse(name, "was added");
      refuse(known.name, "was removed");
    }
    if (!parameter.is_same(known.parameter)) refuse(name, "was replaced by another tensor");
    if (parameter.requires_grad() != known.trained) refuse(name, known.trained ? "was frozen (requires_grad)" : "was unfrozen (requires_grad)");
    if (parameter.scalar_type() != known.dtype || parameter.device() != known.device || parameter.sizes() != at::IntArrayRef(known.sizes)) {
      refuse(name, fmt::format("has become {} and was {}", describe(parameter.scalar_type(), parameter.sizes(), parameter.device()),
                               describe(known.dtype, known.sizes, known.device)));
    }
    if (known.trained && autograd::impl::try_get_grad_accumulator(parameter) != known.accumulator) {
      refuse(name, "was given other data, of another dtype or device in between,");
    }
  }
  if (now.size() > known_.size()) refuse(now[known_.size()].key(), "was added");
  if (now.size() < known_.size()) refuse(known_[now.size()].name, "was removed");
}

BackwardTimes Reducer::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

}  // namespace unisono::libtorch
