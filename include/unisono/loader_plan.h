#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/export.h"

// A plan that turns a data loader for one process into that of one rank among several: its batch,
// its workers, its sampler. It is a pure function, for loaders of any kind.
//
// ```cpp
// const LoaderPlan plan = plan_loader({.batch_size = 256, .num_workers = 8, .dataset_size = n});
// make_loader(*plan.batch_size, plan.num_workers);
// ```

namespace unisono {

/// The way in which a batch size for all ranks together becomes each rank's.
enum class BatchSplit {
  floor,           ///< divided by the ranks, the remainder dropped; a batch smaller than the ranks are many is taken as one rank's
  even_remainder,  ///< the first ranks take one more: the total is exactly what was asked for
  per_rank,        ///< not at all: it is each rank's already
};

/// The loader that was asked for, the same on every rank.
struct LoaderRequest {
  /// The sampler that was given.
  enum class Sampling {
    none,           ///< no sampler given
    distributed,    ///< a distributed sampler, of `given_rank` and `given_replicas`
    other,          ///< any other sampler
    batch_sampler,  ///< a sampler of whole batches
  };
  /// The batch size; unset for the loader's default, which is not touched.
  std::optional<std::size_t> batch_size = {};
  /// The way in which the batch is shared out.
  BatchSplit split = BatchSplit::floor;
  /// The workers of all processes of a host together.
  int num_workers = 0;
  /// Whether the samples are shuffled. It means the same for a single rank and for many.
  bool shuffle = false;
  /// Whether the last, smaller batch is left out. Samples never are.
  bool drop_last = false;
  /// The number of samples; unset for a data set that can only be iterated, and shares itself out.
  std::optional<std::size_t> dataset_size = {};
  /// The sampler that was given.
  Sampling sampling = Sampling::none;
  /// The rank and the number of ranks of a distributed sampler that was given.
  int given_rank = 0, given_replicas = 1;
};

/// The process for which the plan is made.
struct LoaderPlace {
  int rank = 0, world_size = 1, nproc_per_node = 1;
};

/// The loader that a rank shall make.
struct LoaderPlan {
  /// The sampler that it shall use.
  enum class Sampler {
    none,         ///< none: one rank, or a data set that shares itself out
    distributed,  ///< a DistributedSampler
    proxy,        ///< the given one within a DistributedProxySampler
    given,        ///< the given one as it is
  };
  /// The batch size of this rank; unset for the loader's default.
  std::optional<std::size_t> batch_size = {};
  /// The batch sizes of all ranks, in rank order; they go into SamplerOptions::batch_sizes if they
  /// differ.
  std::vector<std::size_t> batch_sizes = {};
  /// The samples of one step of all ranks; 0 for the loader's default times the ranks.
  std::size_t total_batch_size = 0;
  /// The workers of this process.
  int num_workers = 0;
  /// The workers of all processes of this host.
  std::int64_t total_workers = 0;
  /// The sampler.
  Sampler sampler = Sampler::none;
  /// Whether a Sampler::distributed shuffles.
  bool sampler_shuffles = false;
  /// Whether the loader itself shuffles, with Sampler::none.
  bool loader_shuffles = false;
  /// Whether the loader leaves out the last, smaller batch.
  bool drop_last = false;
  /// Sentences for the user: likely mistakes, and what the plan has changed.
  std::vector<std::string> warnings = {}, notes = {};
};

/// Returns the plan for a rank.
///
/// @throws InvalidArgument for a place that does not exist, a batch of 0, negative workers,
///   `shuffle` together with a sampler, and a BatchSplit::even_remainder of fewer samples than
///   ranks
UNISONO_API LoaderPlan plan_loader(const LoaderRequest& request, const LoaderPlace& place);

/// Returns the plan for this process within its world.
UNISONO_API LoaderPlan plan_loader(const LoaderRequest& request);

}  // namespace unisono
