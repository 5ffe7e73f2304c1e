#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <optional>

#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/torch/detail/sync_batch_norm_scope.h"

// Batch normalisation over the samples of all ranks.

namespace unisono {

/// Computes batch normalisation of `input` with mean and variance over the samples of all ranks.
///
/// A collective call, and so is its backward pass: all ranks make it with the same number of
/// channels C. Their numbers of samples may differ, and a rank may have none. It works on any
/// device that the group's backend serves.
///
/// @param input [N, C, ...]
/// @param weight [C] or undefined, and so are `bias`, `running_mean` and `running_var`
/// @param momentum the running statistics become (1 - momentum) times what they were plus momentum
///   times those of the batch (the variance unbiased)
/// @throws Unsupported for gradients of gradients
[[nodiscard]] UNISONO_API at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                                     const at::Tensor& running_mean, const at::Tensor& running_var, double momentum, double eps,
                                                     const ProcessGroup& group = current_world());

/// torch::nn::BatchNorm1d, 2d and 3d in one, over the samples of all ranks.
///
/// Options, parameters, buffers and their names are those of torch, so that either loads what the
/// other saved. In training the statistics are those of all ranks' samples. In evaluation they are
/// the running ones, or those of the rank's own batch if there are none, without communication. In
/// a group of one it is plain batch normalisation.
class UNISONO_API SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  /// Makes a module for this number of channels.
  explicit SyncBatchNormImpl(std::int64_t num_features) : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}
  /// Makes a module. Without a group it is the world at the time of `forward`.
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, std::optional<ProcessGroup> group = std::nullopt);

  /// Makes parameters and buffers anew.
  void reset() override;
  /// Sets the running statistics to those of no batch.
  void reset_running_stats();
  /// Sets the running statistics, weight and bias to what a new module has.
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  /// Normalises an input [N, C, ...]. InvalidArgument for less than two dimensions, and for another
  /// number of channels.
  at::Tensor forward(const at::Tensor& input);

  torch::nn::BatchNormOptions options;
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;

 private:
  std::optional<ProcessGroup> group_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace unisono
