#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/data/dataloader.h>
#include <torch/data/samplers.h>

#include "unisono/error.h"
#include "unisono/export.h"
#include "unisono/loader_plan.h"
#include "unisono/process_group.h"
#include "unisono/sampler.h"

// Data loaders of torch::data for one rank among several: each rank takes its own samples of every
// batch.
//
// ```cpp
// auto loader = auto_dataloader(dataset.map(Stack<>()), DataLoaderOptions().batch_size(256).workers(8));
// for (auto& batch : *loader) train(batch.data, batch.target);      // 256 samples of all ranks together
// ```
//
// torch::data has no pinned memory (pin_memory is Python's): batches for a CUDA device are copied
// by `batch.data.to(device)`.

namespace unisono {

/// The options of auto_dataloader, the same on all ranks.
struct AutoDataOptions {
  /// Whether samples are shuffled. Unset: they are unless a sampler is given, as make_data_loader
  /// does, on one rank as on many.
  std::optional<bool> shuffle = {};
  /// The seed of the order, which is drawn from seed + epoch.
  std::uint64_t seed = 0;
  /// The way in which DataLoaderOptions::batch_size, that of all ranks together, becomes each
  /// rank's.
  BatchSplit split = BatchSplit::floor;
  /// Whether each sample is of exactly one rank, for an evaluation: none is repeated, and the last
  /// ranks may have fewer samples and batches, or none. Calls of all ranks then come after the loop.
  bool exact = false;
  /// The group whose ranks share the data set; the world unless it is set.
  std::optional<ProcessGroup> group = {};
};

/// A sampler of torch::data that yields the samples of one rank. Copies share their state: the one
/// in a loader follows set_epoch of another.
class UNISONO_API RankSampler : public torch::data::samplers::Sampler<> {
 public:
  /// Yields what a DistributedSampler yields.
  explicit RankSampler(DistributedSampler sampler);
  /// Yields what a DistributedProxySampler yields.
  template <class S>
  explicit RankSampler(DistributedProxySampler<S> sampler)
      : RankSampler([shared = std::make_shared<DistributedProxySampler<S>>(std::move(sampler))](std::uint64_t epoch) {
          shared->set_epoch(epoch);
          return shared->indices();
        }) {}
  /// Yields what a function returns for each epoch: the samples of this rank.
  explicit RankSampler(std::function<std::vector<std::size_t>(std::uint64_t epoch)> order);

  /// Begins an epoch: the one that set_epoch has named, or the one after the last. A loader's begin()
  /// calls it. Unsupported for a new size.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  /// Returns the next samples, at most `batch_size`; std::nullopt at the end of the epoch.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  /// Writes the epoch and how far it is.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Reads them: the next reset goes on from there.
  void load(torch::serialize::InputArchive& archive) override;

  /// Names the epoch that the next reset begins, alike on all ranks, and how many samples of it
  /// this rank has had already.
  void set_epoch(std::uint64_t epoch, std::size_t samples_done = 0);
  /// Returns the epoch that goes on, or that is to come next if set_epoch or load was called since.
  std::uint64_t epoch() const;
  /// Returns how many samples of it this rank has had.
  std::size_t samples_done() const;
  /// Returns the rank that a DistributedSampler was made for.
  std::optional<int> rank() const;
  /// Returns the number of ranks that a DistributedSampler was made for.
  std::optional<int> replicas() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

namespace detail {

/// Shares out a foreign sampler: rank 0 of the group draws and tells the others. Collective at the
/// beginning of every epoch.
UNISONO_API RankSampler shared_out(std::function<std::vector<std::size_t>()> draw_epoch, const ProcessGroup& group, bool exact);

/// Returns what a LibTorch sampler yields in an epoch.
template <class S>
std::vector<std::size_t> drawn_from(S& sampler) {
  std::vector<std::size_t> all;
  sampler.reset(std::nullopt);
  while (const auto some = sampler.next(4096)) all.insert(all.end(), some->begin(), some->end());
  return all;
}

/// Reads rank and number of ranks of torch's own distributed sampler, which has no accessors for
/// them.
struct TorchDistributed : torch::data::samplers::DistributedSampler<> {
  static std::pair<int, int> place_of(const torch::data::samplers::DistributedSampler<>& sampler) {
    return {static_cast<int>(sampler.*(&TorchDistributed::rank_)), static_cast<int>(sampler.*(&TorchDistributed::num_replicas_))};
  }
};

/// Returns the plan for a loader with these options.
UNISONO_API LoaderPlan plan_torch_loader(LoaderRequest request, const torch::data::DataLoaderOptions& options, const AutoDataOptions& how);

/// Writes the plan's warnings through TORCH_WARN, and its notes through LOG(INFO) on rank 0.
UNISONO_API void tell(const LoaderPlan& plan, const torch::data::DataLoaderOptions& options, const AutoDataOptions& how);

/// Returns the options of this rank's loader.
UNISONO_API torch::data::DataLoaderOptions options_of(const LoaderPlan& plan, torch::data::DataLoaderOptions options);

/// Returns the sampler of this rank.
UNISONO_API RankSampler sampler_of(const LoaderPlan& plan, std::size_t dataset_size, const AutoDataOptions& how);

/// Returns the group whose ranks share the data set.
UNISONO_API ProcessGroup group_of(const AutoDataOptions& how);

/// Tells whether a data set is asked for samples by lists of indices.
template <class D>
inline constexpr bool takes_indices = std::is_constructible_v<typename D::BatchRequestType, const std::vector<std::size_t>&>;

}  // namespace detail

/// The loader that auto_dataloader makes for a data set that is asked for samples by their indices:
/// torch's, which knows epochs.
template <class Dataset>
class DataLoader : public torch::data::StatelessDataLoader<Dataset, RankSampler> {
 public:
  /// Makes a loader; auto_dataloader calls it.
  DataLoader(Dataset dataset, RankSampler sampler, const torch::data::DataLoaderOptions& options, LoaderPlan plan)
      : torch::data::StatelessDataLoader<Dataset, RankSampler>(std::move(dataset), sampler, options),
        sampler_(std::move(sampler)),
        plan_(std::move(plan)) {}

  /// Names the epoch that the next begin() starts, alike on all ranks, to resume a training;
  /// `batches_done` batches of it are passed over. Without it each `begin()` starts the epoch after
  /// the last, from 0 on.
  void set_epoch(std::uint64_t epoch, std::size_t batches_done = 0) { sampler_.set_epoch(epoch, batches_done * this->options().batch_size); }
  /// Returns the epoch.
  std::uint64_t epoch() const { return sampler_.epoch(); }
  /// Returns the sampler of this rank.
  const RankSampler& sampler() const { return sampler_; }
  /// Returns the plan by which the loader was made.
  const LoaderPlan& plan() const { return plan_; }

 private:
  RankSampler sampler_;
  LoaderPlan plan_;
};

/// Makes a loader of this rank's samples.
///
/// `batch_size` is that of all ranks together and `workers` those of all processes of the host.
/// Transforms (dataset.map(…)) and drop_last stay as they are. All ranks get equally many samples:
/// some are repeated if they cannot be shared out evenly, unless AutoDataOptions::exact is set.
///
/// @throws InvalidArgument for a data set that does not know its size
template <class Dataset>
requires(!Dataset::is_stateful && detail::takes_indices<Dataset>) std::unique_ptr<DataLoader<Dataset>> auto_dataloader(
    Dataset dataset, torch::data::DataLoaderOptions options = {}, const AutoDataOptions& how = {}) {
  const std::optional<std::size_t> size = dataset.size();
  if (!size) {
    throw InvalidArgument("the data set does not know its size", {.operation = "auto_dataloader", .hint = "give a sampler as the second argument"});
  }
  LoaderPlan plan = detail::plan_torch_loader({.shuffle = how.shuffle.value_or(true), .dataset_size = size}, options, how);
  options = detail::options_of(plan, options);
  detail::tell(plan, options, how);
  RankSampler sampler = detail::sampler_of(plan, *size, how);
  return std::make_unique<DataLoader<Dataset>>(std::move(dataset), std::move(sampler), options, std::move(plan));
}

/// Makes a loader of this rank's samples with a sampler.
///
/// A RankSampler, a DistributedSampler and torch's distributed samplers are used as they are. Rank
/// 0 draws from any other sampler of indices, and what it yields is shared out among the ranks.
///
/// @throws InvalidArgument for `shuffle`, since the sampler says the order, and for `exact` with a
///   sampler that is used as it is
template <class Dataset, class Sampler>
requires(!Dataset::is_stateful && detail::takes_indices<Dataset> &&
         (std::same_as<Sampler, DistributedSampler> || std::derived_from<Sampler, torch::data::samplers::Sampler<>>))
    std::unique_ptr<DataLoader<Dataset>> auto_dataloader(Dataset dataset, Sampler sampler, torch::data::DataLoaderOptions options = {},
                                                         const AutoDataOptions& how = {}) {
  LoaderRequest request{.shuffle = how.shuffle.value_or(false), .dataset_size = dataset.size(), .sampling = LoaderRequest::Sampling::distributed};
  std::optional<RankSampler> ours;
  if (how.exact && (std::same_as<Sampler, DistributedSampler> || std::same_as<Sampler, RankSampler> ||
                    std::derived_from<Sampler, torch::data::samplers::DistributedSampler<>>)) {
    throw InvalidArgument("exact was asked for, and a sampler given that is of one rank already",
                          {.operation = "auto_dataloader", .hint = "make a DistributedSampler with .exact = true"});
  }
  if constexpr (std::same_as<Sampler, DistributedSampler>) {
    request.given_rank = sampler.rank(), request.given_replicas = sampler.num_replicas();
    ours.emplace(std::move(sampler));
  } else if constexpr (std::same_as<Sampler, RankSampler>) {
    const ProcessGroup group = detail::group_of(how);
    request.given_rank = sampler.rank().value_or(group.rank()), request.given_replicas = sampler.replicas().value_or(group.size());
    ours.emplace(std::move(sampler));
  } else if constexpr (std::derived_from<Sampler, torch::data::samplers::DistributedSampler<>>) {
    std::tie(request.given_rank, request.given_replicas) = detail::TorchDistributed::place_of(sampler);
    ours.emplace([shared = std::make_shared<Sampler>(std::move(sampler))](std::uint64_t epoch) {
      shared->set_epoch(epoch);
      return detail::drawn_from(*shared);
    });
  } else {
    request.sampling = LoaderRequest::Sampling::other;
    ours.emplace(detail::shared_out([shared = std::make_shared<Sampler>(std::move(sampler))] { return detail::drawn_from(*shared); },
                                    detail::group_of(how), how.exact));
  }
  LoaderPlan plan = detail::plan_torch_loader(request, options, how);
  options = detail::options_of(plan, options);
  detail::tell(plan, options, how);
  return std::make_unique<DataLoader<Dataset>>(std::move(dataset), std::move(*ours), options, std::move(plan));
}

/// Makes a loader with a sampler whose requests are not lists of indices (StreamSampler, samplers of
/// batches). It is used as it is: the data set and it must themselves yield different samples on
/// different ranks.
template <class Dataset, class Sampler>
requires(!Dataset::is_stateful && !std::derived_from<Sampler, torch::data::samplers::Sampler<>> &&
         requires {
           typename Sampler::BatchRequestType;
         }) std::unique_ptr<torch::data::StatelessDataLoader<Dataset, Sampler>> auto_dataloader(Dataset dataset, Sampler sampler,
                                                                                                torch::data::DataLoaderOptions options = {},
                                                                                                const AutoDataOptions& how = {}) {
  LoaderRequest request{.shuffle = how.shuffle.value_or(false)};
  if constexpr (!std::same_as<typename Sampler::BatchRequestType, torch::data::samplers::BatchSize>) {
    request.sampling = LoaderRequest::Sampling::batch_sampler;
  } else if (request.shuffle) {
    throw InvalidArgument("shuffle was asked for, and a stream has no order but its own", {.operation = "auto_dataloader"});
  }
  const LoaderPlan plan = detail::plan_torch_loader(request, options, how);
  options = detail::options_of(plan, options);
  detail::tell(plan, options, how);
  return torch::data::make_data_loader(std::move(dataset), std::move(sampler), options);
}

/// Makes a loader of a stateful data set, which says itself what comes next: it must itself yield
/// different samples on different ranks.
template <class Dataset>
requires(Dataset::is_stateful) std::unique_ptr<torch::data::StatefulDataLoader<Dataset>> auto_dataloader(Dataset dataset,
                                                                                                         torch::data::DataLoaderOptions options = {},
                                                                                                         const AutoDataOptions& how = {}) {
  if (how.shuffle.value_or(false)) {
    throw InvalidArgument("shuffle was asked for, and a stateful data set has no order but its own", {.operation = "auto_dataloader"});
  }
  const LoaderPlan plan = detail::plan_torch_loader({}, options, how);
  options = detail::options_of(plan, options);
  detail::tell(plan, options, how);
  return torch::data::make_data_loader(std::move(dataset), options);
}

/// The options of manual_seed_all.
struct TorchSeedOptions {
  /// The seed; that of rank 0 counts. Unset there: a seed that rank 0 draws from the system.
  std::optional<std::uint64_t> seed = {};
  /// Whether each rank's generators get seed + rank.
  bool different_per_rank = false;
  /// The group whose ranks are seeded; the world unless it is set.
  std::optional<ProcessGroup> group = {};
};

/// Calls torch::manual_seed on all ranks, which seeds the generators of all devices of a process.
/// Collective. Returns the seed, before a rank is added.
UNISONO_API std::uint64_t manual_seed_all(const TorchSeedOptions& options = {});

/// Seeds all ranks with the same number.
inline std::uint64_t manual_seed_all(std::uint64_t seed) {
  TorchSeedOptions options;
  options.seed = seed;
  return manual_seed_all(options);
}

}  // namespace unisono
