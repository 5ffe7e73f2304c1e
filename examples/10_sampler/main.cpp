// unisono/sampler.h, unisono/loader_plan.h: each rank gets its samples and the sizes of its batches.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <set>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Which samples are this rank's, and how large its batches are.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    constexpr std::size_t samples = 20;

    // A batch of 8 is shared by all ranks.
    const auto plan = unisono::plan_loader({.batch_size = 8, .split = unisono::BatchSplit::even_remainder, .shuffle = true, .dataset_size = samples});
    unisono::DistributedSampler sampler(samples, {.shuffle = true, .seed = 42, .batch_sizes = plan.batch_sizes});

    std::set<std::size_t> seen;
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      sampler.set_epoch(epoch);  // another order, the same on every rank
      for (const std::size_t index : sampler) seen.insert(index);
    }

    // Together the ranks have seen all samples.
    std::vector<int> counts(samples);
    for (const std::size_t index : seen) counts[index] = 1;
    unisono::all_reduce(counts, unisono::ReduceOp::max);
    std::size_t covered = 0;
    for (const int count : counts) covered += static_cast<std::size_t>(count);
    if (unisono::rank() == 0) {
      std::printf("batch of rank 0: %zu of %zu; samples of rank 0 in an epoch: %zu; seen by all: %zu\n", *plan.batch_size, plan.total_batch_size,
                  sampler.size(), covered);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
