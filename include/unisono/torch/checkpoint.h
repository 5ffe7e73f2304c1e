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

// Checkpoints of a training: the model's parameters and buffers, the optimizer's state and options,
// the generators of random numbers, and the place where the training stood.
//
// A checkpoint is written whole or not at all: under another name first, then renamed, so that
// there is the old one or the new one, whatever happens. It is either a file that rank 0 writes,
// which loads with any number of ranks; or (`sharded`) a folder in which each rank writes a part of
// the model and of a sharded optimizer's state, which loads with as many ranks.
//
// ```cpp
// save_checkpoint("last.ckpt", model, *optimizer, {.epoch = epoch});
// const TrainingState state = load_checkpoint("last.ckpt", model, *optimizer);
// ```
//
// All calls are collective. An error of one rank is thrown by all, and nothing has been changed
// then, unless it is an optimizer's own load that throws.
//
// Schedulers of LibTorch keep a count that nobody can read: make them anew, step them as often as
// they had been, and call load_checkpoint after that, which sets the learning rates.

namespace unisono {

/// A file is not a whole checkpoint of this library (cut short, damaged, of another format), or cannot
/// be read or written. The message names it.
class UNISONO_API CheckpointError : public Error {
 public:
  CheckpointError(const std::filesystem::path& path, std::string_view message, ErrorInfo info = {});
  ~CheckpointError() override;
  CheckpointError(const CheckpointError&) = default;
  CheckpointError& operator=(const CheckpointError&) = default;
  /// Returns the path of the file.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The place where a training stood. That of rank 0 is written, and all ranks get it.
struct TrainingState {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  /// The epoch of the data: `loader->set_epoch(sampler_epoch, batches_done)` resumes it.
  std::uint64_t sampler_epoch = 0;
  /// The batches of that epoch that are done.
  std::uint64_t batches_done = 0;
  /// Values of the program's own.
  std::map<std::string, AnyValue> values = {};
  UNISONO_FIELDS(epoch, step, sampler_epoch, batches_done, values)
};

/// The options of a checkpoint.
struct CheckpointOptions {
  /// For save_checkpoint: whether it writes a folder, which all hosts reach, and no file.
  bool sharded = false;
  /// Whether torch's generators of every rank are saved. They are set if as many ranks load as have
  /// saved.
  bool generators = true;
  /// The group whose ranks train together; the world unless it is set.
  std::optional<ProcessGroup> group = {};
};

namespace detail {
/// Saves a module, and an optimizer unless it is null.
UNISONO_API void save_training(const std::filesystem::path& path, const torch::nn::Module& model, torch::optim::Optimizer* optimizer,
                               const TrainingState& state, const CheckpointOptions& options);

/// Loads a module, and an optimizer unless it is null.
UNISONO_API TrainingState load_training(const std::filesystem::path& path, const torch::nn::Module& model, torch::optim::Optimizer* optimizer,
                                        const CheckpointOptions& options);

/// Returns the module itself, or the module to which a holder (TORCH_MODULE, std::shared_ptr) or a
/// DataParallel leads.
template <class M>
const torch::nn::Module& module_of(const M& model) {
  if constexpr (std::derived_from<M, torch::nn::Module>) return model;  // NOLINT(bugprone-return-const-ref-from-parameter): a module is never copied
  else return module_of(*model);
}
}  // namespace detail

/// Saves model, optimizer and state.
///
/// @throws InvalidArgument for a sharded optimizer whose type does not write itself, for a path
///   that is a folder, and, sharded, for one that is a file
/// @throws CheckpointError if the file cannot be written
template <class Model>
void save_checkpoint(const std::filesystem::path& path, const Model& model, torch::optim::Optimizer& optimizer, const TrainingState& state = {},
                     const CheckpointOptions& options = {}) {
  detail::save_training(path, detail::module_of(model), &optimizer, state, options);
}

/// Saves the model and the state without an optimizer.
template <class Model>
void save_checkpoint(const std::filesystem::path& path, const Model& model, const TrainingState& state = {}, const CheckpointOptions& options = {}) {
  detail::save_training(path, detail::module_of(model), nullptr, state, options);
}

/// Gives model and optimizer the values that were saved, and returns the state.
///
/// The optimizer may be sharded or not, whatever it was when it was saved; from a folder it is what
/// it was.
///
/// @throws InvalidArgument, naming the parameter, for a model whose names, shapes or dtypes are not
///   those saved; for another optimizer; and for a folder that another number of ranks has written
/// @throws CheckpointError if there is no whole checkpoint
template <class Model>
TrainingState load_checkpoint(const std::filesystem::path& path, const Model& model, torch::optim::Optimizer& optimizer,
                              const CheckpointOptions& options = {}) {
  return detail::load_training(path, detail::module_of(model), &optimizer, options);
}

/// Gives the model the values that were saved, and returns the state.
template <class Model>
TrainingState load_checkpoint(const std::filesystem::path& path, const Model& model, const CheckpointOptions& options = {}) {
  return detail::load_training(path, detail::module_of(model), nullptr, options);
}

/// Tells whether there is anything at this path, as rank 0 sees it. Collective.
[[nodiscard]] UNISONO_API bool checkpoint_exists(const std::filesystem::path& path, const CheckpointOptions& options = {});

}  // namespace unisono
