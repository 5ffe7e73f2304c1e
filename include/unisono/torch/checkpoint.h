#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <type_traits>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "unisono/any_value.h"
#include "unisono/error.h"
#include "unisono/export.h"
#include "unisono/objects.h"
#include "unisono/process_group.h"

// Checkpoints of a training: the model's parameters and buffers, the optimizer's state and options, the generators of random numbers, and where the
// training stood. Written whole or not at all: under another name first, then renamed, so that whatever happens there is the old one or the new one.
//
// One file that rank 0 writes, which loads with any number of ranks; or (`sharded`) a folder in which each rank writes a part of the model and, of an
// optimizer with sharded state, its share, which loads with as many ranks. All calls are collective: what goes wrong on one rank is thrown by all,
// and nothing has been changed then, unless it is an optimizer's own load that throws.
//
// Schedulers of LibTorch keep a count that nobody can read: make them anew, step them as often as they had been, and load_checkpoint after that,
// which sets the learning rates.

namespace unisono {

/// A file that is no whole checkpoint of ours (cut short, damaged, of another format), or cannot be read or written; the message names it.
class UNISONO_API CheckpointError : public Error {
 public:
  CheckpointError(const std::filesystem::path& path, std::string_view message, ErrorInfo info = {});
  ~CheckpointError() override;
  CheckpointError(const CheckpointError&) = default;
  CheckpointError& operator=(const CheckpointError&) = default;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Where a training stood. Rank 0's is written, and all get it.
struct TrainingState {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t sampler_epoch = 0;              ///< loader->set_epoch(sampler_epoch, batches_done)
  std::uint64_t batches_done = 0;               ///< of that epoch
  std::map<std::string, AnyValue> values = {};  ///< the program's own
  UNISONO_FIELDS(epoch, step, sampler_epoch, batches_done, values)
};

struct CheckpointOptions {
  bool sharded = false;                    ///< of save_checkpoint: a folder, which all hosts reach, instead of a file
  bool generators = true;                  ///< torch's generators, too: of every rank; they are set where as many ranks load as have saved
  std::optional<ProcessGroup> group = {};  ///< unset: the world
};

namespace detail {
UNISONO_API void save_training(const std::filesystem::path& path, const torch::nn::Module& model, torch::optim::Optimizer* optimizer,
                               const TrainingState& state, const CheckpointOptions& options);
UNISONO_API TrainingState load_training(const std::filesystem::path& path, const torch::nn::Module& model, torch::optim::Optimizer* optimizer,
                                        const CheckpointOptions& options);

/// A module, or what leads to one by *: a holder (TORCH_MODULE, shared_ptr), DataParallel.
template <class M>
const torch::nn::Module& module_of(const M& model) {
  if constexpr (std::derived_from<M, torch::nn::Module>) return model;
  else return module_of(*model);
}
}  // namespace detail

/// InvalidArgument for a sharded optimizer whose type does not write itself, or a path that is a folder (a file, where it is to be a folder).
template <class Model>
void save_checkpoint(const std::filesystem::path& path, const Model& model, torch::optim::Optimizer& optimizer, const TrainingState& state = {},
                     const CheckpointOptions& options = {}) {
  detail::save_training(path, detail::module_of(model), &optimizer, state, options);
}
/// The model alone.
template <class Model>
void save_checkpoint(const std::filesystem::path& path, const Model& model, const TrainingState& state = {}, const CheckpointOptions& options = {}) {
  detail::save_training(path, detail::module_of(model), nullptr, state, options);
}

/// Model and optimizer become what was saved. InvalidArgument, naming the parameter, for a model that is not the one saved (names, shapes, dtypes),
/// for another optimizer, and for a folder that another number of ranks has written. The optimizer may be sharded or not, whatever it was, except
/// that a folder holds what it was.
template <class Model>
TrainingState load_checkpoint(const std::filesystem::path& path, const Model& model, torch::optim::Optimizer& optimizer,
                              const CheckpointOptions& options = {}) {
  return detail::load_training(path, detail::module_of(model), &optimizer, options);
}
template <class Model>
TrainingState load_checkpoint(const std::filesystem::path& path, const Model& model, const CheckpointOptions& options = {}) {
  return detail::load_training(path, detail::module_of(model), nullptr, options);
}

/// Whether there is anything at this path, as rank 0 sees it. Collective.
[[nodiscard]] UNISONO_API bool checkpoint_exists(const std::filesystem::path& path, const CheckpointOptions& options = {});

}  // namespace unisono
