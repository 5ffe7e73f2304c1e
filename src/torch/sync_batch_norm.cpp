#include "unisono/torch/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/instance_norm_native.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/nn/init.h>

#include <numeric>
#include <ostream>

#include "unisono/collectives.h"
#include "unisono/error.h"
#include "unisono/torch/tensor.h"

namespace unisono {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  throw InvalidArgument(what, {.operation = "sync_batch_norm", .hint = hint});
}

/// Returns all dimensions but that of the channels.
std::vector<std::int64_t> sample_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(input.dim() - 1));
  std::iota(dims.begin(), dims.end(), 1);
  dims[0] = 0;
  return dims;
}

/// Reshapes values of shape [C] so that they broadcast over the input.
at::Tensor along_channels(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.view(shape);
}

/// Returns the dtype in which sums are taken.
at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

struct Statistics {
  at::Tensor mean, squares;  // over all samples: the mean and the sum of squared deviations from it; [C], double
  double count;
};

/// Each rank sends its own mean, squared deviations and count. They are combined as in Chan, Golub, LeVeque: Updating Formulae and a Pairwise
/// Algorithm for Computing Sample Variances (1979), which loses no digits where means are large.
Statistics statistics_of(const at::Tensor& input, const ProcessGroup& group) {
  const std::int64_t channels = input.size(1);
  const auto count = static_cast<double>(channels > 0 ? input.numel() / channels : 0);
  const at::Tensor own = at::zeros({2 * channels + 1}, input.options().dtype(at::kDouble));
  own[2 * channels].fill_(count);
  if (count > 0) {
    auto [variance, mean] = at::var_mean(input.to(wide(input.scalar_type())), sample_dims(input), /*unbiased=*/false);
    own.narrow(0, 0, channels).copy_(mean);
    own.narrow(0, channels, channels).copy_(variance).mul_(count);
  }
  const at::Tensor all = at::empty({group.size(), 2 * channels + 1}, own.options());
  all_gather(own, all, group);
  const at::Tensor counts = all.narrow(1, 2 * channels, 1), means = all.narrow(1, 0, channels), squares = all.narrow(1, channels, channels);
  const auto total = counts.sum().item<double>();
  if (total < 2) {
    refuse(fmt::format("the ranks have {} values per channel between them", total), "in training there must be more than one");
  }
  const at::Tensor mean = (means * counts).sum(0) / total;
  return {mean, (squares + counts * (means - mean).square()).sum(0), total};
}

struct GroupHandle final : torch::CustomClassHolder {
  explicit GroupHandle(ProcessGroup g) : group(std::move(g)) {}
  ProcessGroup group;
};

struct Running {
  at::Tensor mean, var;
};

at::Tensor or_undefined(const std::optional<at::Tensor>& tensor) { return tensor ? *tensor : at::Tensor(); }

struct Normalize : torch::autograd::Function<Normalize> {
  /// Weight and bias are optional, because autograd takes no undefined tensors. The running statistics are passed without autograd's knowledge.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const std::optional<at::Tensor>& given_weight,
                            const std::optional<at::Tensor>& given_bias, const Running* running, double momentum, double eps,
                            const ProcessGroup* group) {
    const at::Tensor weight = or_undefined(given_weight), bias = or_undefined(given_bias);
    const at::Tensor &running_mean = running->mean, &running_var = running->var;
    const Statistics all = statistics_of(input, *group);
    const at::ScalarType dtype = wide(input.scalar_type());
    const at::Tensor scale = (all.squares / all.count + eps).rsqrt();  // 1 / standard deviation
    if (running_mean.defined()) running_mean.mul_(1 - momentum).add_(all.mean.to(running_mean.scalar_type()), momentum);
    if (running_var.defined()) {
      running_var.mul_(1 - momentum).add_((all.squares / (all.count - 1)).to(running_var.scalar_type()), momentum);
    }
    const at::Tensor slope = weight.defined() ? scale * weight : scale;
    const at::Tensor offset = bias.defined() ? bias - all.mean * slope : -all.mean * slope;
    const at::Tensor output = at::addcmul(along_channels(offset.to(dtype), input), input.to(dtype), along_channels(slope.to(dtype), input));
    context->save_for_backward({input, weight, bias, all.mean.to(dtype), scale.to(dtype)});
    context->saved_data["count"] = all.count;
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<GroupHandle>(*group));
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw Unsupported("batch normalisation over several ranks has no second derivative", {.operation = "backward"});
    }
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &bias = saved[2], &mean = saved[3], &scale = saved[4];
    const std::int64_t channels = mean.numel();
    const at::Tensor gradient = gradients[0].to(mean.scalar_type());
    const at::Tensor normal = (input.to(mean.scalar_type()) - along_channels(mean, input)).mul_(along_channels(scale, input));
    const auto dims = sample_dims(input);
    const at::Tensor sum = gradient.sum(dims), sum_normal = (gradient * normal).sum(dims);

    variable_list result(7);
    if (context->needs_input_grad(0)) {
      const at::Tensor sums = at::cat({sum, sum_normal}).to(at::kDouble);
      const auto handle = context->saved_data["group"].toCapsule();
      all_reduce(sums, ReduceOp::sum, static_cast<const GroupHandle&>(*handle).group);
      sums.div_(context->saved_data["count"].toDouble());
      const at::Tensor shares = sums.to(mean.scalar_type());
      const at::Tensor slope = weight.defined() ? scale * weight.to(mean.scalar_type()) : scale;
      at::Tensor own =
          gradient - along_channels(shares.narrow(0, 0, channels), input) - normal * along_channels(shares.narrow(0, channels, channels), input);
      result[0] = own.mul_(along_channels(slope, input)).to(input.scalar_type());
    }
    if (weight.defined()) result[1] = sum_normal.to(weight.scalar_type());
    if (bias.defined()) result[2] = sum.to(bias.scalar_type());
    return result;
  }
};

thread_local const ProcessGroup* scope_group = nullptr;

at::Tensor batch_norm_in_scope(const at::Tensor& input, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                               const std::optional<at::Tensor>& running_mean, const std::optional<at::Tensor>& running_var, bool training,
                               double momentum, double eps, bool cudnn) {
  if (scope_group == nullptr || !training) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn);
  }
  return sync_batch_norm(input, or_undefined(weight), or_undefined(bias), or_undefined(running_mean), or_undefined(running_var), momentum, eps,
                         *scope_group);
}

/// PyTorch computes instance normalisation as batch normalisation of another shape. It concerns single samples, so it stays local.
at::Tensor instance_norm_in_scope(const at::Tensor& input, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                                  const std::optional<at::Tensor>& running_mean, const std::optional<at::Tensor>& running_var, bool use_input_stats,
                                  double momentum, double eps, bool cudnn) {
  const libtorch::SyncBatchNormScope none(nullptr);
  return at::native::instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn);
}

/// Registers both functions when the first scope is entered. Outside of a scope they behave as before.
void register_in_dispatcher() {
  static const bool done = [] {
    for (const auto key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
      auto* library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);  // never destroyed: it lasts as long as the process
      library->impl("batch_norm", TORCH_FN(batch_norm_in_scope));
      library->impl("instance_norm", TORCH_FN(instance_norm_in_scope));
    }
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

namespace libtorch {

SyncBatchNormScope::SyncBatchNormScope(const ProcessGroup* group) : before_(scope_group) {
  if (group != nullptr) register_in_dispatcher();
  scope_group = group;
}
SyncBatchNormScope::~SyncBatchNormScope() { scope_group = before_; }

}  // namespace libtorch

at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& running_mean,
                           const at::Tensor& running_var, double momentum, double eps, const ProcessGroup& group) {
  if (!input.defined() || input.dim() < 2) refuse("batch normalisation takes an input [N, C, ...]");
  if (!at::isFloatingType(input.scalar_type())) refuse(fmt::format("batch normalisation of {}", c10::toString(input.scalar_type())));
  const auto check = [&](const char* name, const at::Tensor& tensor) {
    if (tensor.defined() && tensor.numel() != input.size(1)) {
      refuse(fmt::format("the input has {} channels, and {} has {} elements", input.size(1), name, tensor.numel()));
    }
  };
  check("weight", weight);
  check("bias", bias);
  check("running_mean", running_mean);
  check("running_var", running_var);
  const auto given = [](const at::Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; };
  const Running running{running_mean, running_var};
  return Normalize::apply(input, given(weight), given(bias), &running, momentum, eps, &group);
}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& given, std::optional<ProcessGroup> group)
    : options(given), group_(std::move(group)) {
  SyncBatchNormImpl::reset();
}

void SyncBatchNormImpl::reset() {
  const auto values = [&](at::Tensor tensor) { return options.affine() ? std::move(tensor) : at::Tensor(); };
  const auto statistics = [&](at::Tensor tensor) { return options.track_running_stats() ? std::move(tensor) : at::Tensor(); };
  const auto channels = options.num_features();
  weight = register_parameter("weight", values(torch::empty({channels})), options.affine());
  bias = register_parameter("bias", values(torch::empty({channels})), options.affine());
  running_mean = register_buffer("running_mean", statistics(torch::zeros({channels})));
  running_var = register_buffer("running_var", statistics(torch::ones({channels})));
  num_batches_tracked = register_buffer("num_batches_tracked", statistics(torch::tensor(0, torch::kLong)));
  reset_parameters();
}

void SyncBatchNormImpl::reset_running_stats() {
  if (!options.track_running_stats()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

void SyncBatchNormImpl::reset_parameters() {
  reset_running_stats();
  if (!options.affine()) return;
  torch::nn::init::ones_(weight);
  torch::nn::init::zeros_(bias);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("unisono::SyncBatchNorm({}, eps={}, momentum={}, affine={}, track_running_stats={})", options.num_features(), options.eps(),
                        options.momentum() ? fmt::format("{}", *options.momentum()) : "None", options.affine(), options.track_running_stats());
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  if (!input.defined() || input.dim() < 2 || input.size(1) != options.num_features()) {
    refuse(fmt::format("SyncBatchNorm of {} channels takes an input [N, {}, ...]", options.num_features(), options.num_features()));
  }
  double momentum = options.momentum().value_or(0);
  const bool tracks = running_mean.defined() && running_var.defined();
  if (is_training() && tracks && num_batches_tracked.defined()) {
    num_batches_tracked.add_(1);
    if (!options.momentum()) momentum = 1 / num_batches_tracked.item<double>();  // the average over all batches
  }
  const ProcessGroup group = group_ ? *group_ : world();
  if (is_training() && group.size() > 1) return sync_batch_norm(input, weight, bias, running_mean, running_var, momentum, options.eps(), group);
  const libtorch::SyncBatchNormScope none(nullptr);
  return at::batch_norm(input, weight, bias, running_mean, running_var, is_training() || !tracks, momentum, options.eps(),
                        at::globalContext().userEnabledCuDNN());
}

}  // namespace unisono
