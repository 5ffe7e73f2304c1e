#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/export.h"

// How a data loader for one process becomes that of one rank among several: batch, workers, sampler. A pure function, for loaders of any kind.

namespace unisono {

/// How a batch size that is meant for all ranks together becomes each rank's.
enum class BatchSplit {
  floor,           ///< divided by the ranks, the remainder dropped; a batch smaller than the ranks are many is taken as one rank's
  even_remainder,  ///< the first ranks take one more: the total is exactly what was asked for
  per_rank,        ///< not at all: it is each rank's already
};

/// What was asked for, the same on every rank.
struct LoaderRequest {
  enum class Sampling {
    none,           ///< no sampler given
    distributed,    ///< a distributed sampler, of `given_rank` and `given_replicas`
    other,          ///< any other sampler
    batch_sampler,  ///< a sampler of whole batches
  };
  std::optional<std::size_t> batch_size = {};  ///< absent: the loader's default, which is not touched
  BatchSplit split = BatchSplit::floor;
  int num_workers = 0;                           ///< of all processes of a host together
  bool shuffle = false;                          ///< the same for one rank and for many
  bool drop_last = false;                        ///< of batches; never of samples
  std::optional<std::size_t> dataset_size = {};  ///< absent: the data set can only be iterated, and shares itself out
  Sampling sampling = Sampling::none;
  int given_rank = 0, given_replicas = 1;
};

/// Where it is to be done.
struct LoaderPlace {
  int rank = 0, world_size = 1, nproc_per_node = 1;
};

/// What one rank's loader shall get.
struct LoaderPlan {
  enum class Sampler {
    none,         ///< none: one rank, or a data set that shares itself out
    distributed,  ///< a DistributedSampler
    proxy,        ///< the given one within a DistributedProxySampler
    given,        ///< the given one as it is
  };
  std::optional<std::size_t> batch_size = {};  ///< of this rank
  std::vector<std::size_t> batch_sizes = {};   ///< of all ranks, in rank order; for SamplerOptions::batch_sizes where they differ
  std::size_t total_batch_size = 0;            ///< of one step of all ranks; 0: the loader's default, times the ranks
  int num_workers = 0;                         ///< of this process
  std::int64_t total_workers = 0;              ///< of the processes of this host
  Sampler sampler = Sampler::none;
  bool sampler_shuffles = false;  ///< of Sampler::distributed
  bool loader_shuffles = false;   ///< of Sampler::none
  bool drop_last = false;         ///< of the loader
  std::vector<std::string> warnings = {}, notes = {};
};

/// InvalidArgument for a place that is none, a batch of 0, negative workers, `shuffle` together with a sampler, and more ranks than an exact split
/// has samples for.
UNISONO_API LoaderPlan plan_loader(const LoaderRequest& request, const LoaderPlace& place);
/// For this process within its world.
UNISONO_API LoaderPlan plan_loader(const LoaderRequest& request);

}  // namespace unisono
