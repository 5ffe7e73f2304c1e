#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <optional>

#include "unisono/export.h"
#include "unisono/process_group.h"

// Batch normalisation over the samples of all ranks.

namespace unisono {

/// What SyncBatchNorm computes, as a function: batch normalisation of input [N, C, ...] with mean and variance over the samples of all ranks, whose
/// numbers may differ; a rank may have none. weight, bias, running_mean and running_var: [C], or undefined. The running statistics become (1 -
/// momentum) times what they were plus momentum times those of the batch (the variance unbiased). A collective call, and so is the backward pass: all
/// ranks make it, with the same number of channels. On any device that the group's backend serves. Gradients of gradients are Unsupported.
[[nodiscard]] UNISONO_API at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                                     const at::Tensor& running_mean, const at::Tensor& running_var, double momentum, double eps,
                                                     const ProcessGroup& group = current_world());

/// torch::nn::BatchNorm1d, 2d and 3d in one, with the same options, parameters, buffers and names of them, so that either loads what the other saved.
/// In training the statistics are those of all ranks' samples; in evaluation the running ones (where there are none, those of the rank's own batch),
/// without communication. In a group of one it is batch normalisation.
class UNISONO_API SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(std::int64_t num_features) : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}
  /// Without a group: the world as it is when forward is called.
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, std::optional<ProcessGroup> group = std::nullopt);

  void reset() override;
  void reset_running_stats();
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  /// input: [N, C, ...]; InvalidArgument for less than two dimensions, and for another number of channels.
  at::Tensor forward(const at::Tensor& input);

  torch::nn::BatchNormOptions options;
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;

 private:
  std::optional<ProcessGroup> group_;
};
TORCH_MODULE(SyncBatchNorm);

namespace libtorch {

/// While it lives, batch normalisation in this thread takes its statistics from all ranks of the group, wherever training asks for those of the
/// batch: torch::nn::BatchNorm1d, 2d, 3d and the function alike. Modules keep their types: in C++ a member of type BatchNorm2d cannot become another
/// one.
class UNISONO_API SyncBatchNormScope {
 public:
  explicit SyncBatchNormScope(const ProcessGroup* group);  ///< null: it does nothing
  ~SyncBatchNormScope();
  SyncBatchNormScope(const SyncBatchNormScope&) = delete;
  SyncBatchNormScope& operator=(const SyncBatchNormScope&) = delete;

 private:
  const ProcessGroup* before_;
};

}  // namespace libtorch
}  // namespace unisono
