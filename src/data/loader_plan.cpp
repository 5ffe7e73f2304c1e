#include "unisono/loader_plan.h"

#include <numeric>

#include <fmt/format.h>

#include "unisono/context.h"
#include "unisono/error.h"

namespace unisono {
namespace {

[[noreturn]] void wrong(std::string_view text, std::string hint = {}) {
  throw InvalidArgument(text, {.operation = "plan_loader", .hint = std::move(hint)});
}

void check(const LoaderRequest& request, const LoaderPlace& place) {
  if (place.world_size < 1 || place.rank < 0 || place.rank >= place.world_size || place.nproc_per_node < 1 ||
      place.nproc_per_node > place.world_size) {
    wrong(fmt::format("there is no rank {} of {} with {} processes on its host", place.rank, place.world_size, place.nproc_per_node));
  }
  if (request.batch_size == std::size_t{0}) wrong("the batch size is 0");
  if (request.num_workers < 0) wrong(fmt::format("the number of workers is {}", request.num_workers));
  if (request.shuffle && request.sampling != LoaderRequest::Sampling::none) {
    wrong("both shuffle and a sampler were given, and the sampler decides the order", "leave out one of the two");
  }
}

std::vector<std::size_t> split(const LoaderRequest& request, const LoaderPlace& place) {
  if (!request.batch_size) return {};
  const auto ranks = static_cast<std::size_t>(place.world_size);
  const std::size_t batch = *request.batch_size;
  std::vector<std::size_t> sizes(ranks, batch);
  switch (request.split) {
    case BatchSplit::floor:
      if (batch >= ranks) sizes.assign(ranks, batch / ranks);
      break;
    case BatchSplit::even_remainder:
      if (batch < ranks)
        wrong(fmt::format("a batch of {} cannot be shared out among {} ranks", batch, ranks), "take a larger batch, or BatchSplit::per_rank");
      for (std::size_t r = 0; r < ranks; ++r) sizes[r] = batch / ranks + (r < batch % ranks ? 1 : 0);
      break;
    case BatchSplit::per_rank: break;
  }
  return sizes;
}

void choose_sampler(LoaderPlan& plan, const LoaderRequest& request, const LoaderPlace& place) {
  using Sampling = LoaderRequest::Sampling;
  switch (request.sampling) {
    case Sampling::none:
      if (!request.dataset_size) {
        if (place.world_size > 1)
          plan.notes.emplace_back("the data set can only be iterated: it must itself yield different samples on different ranks");
        plan.loader_shuffles = request.shuffle;
      } else if (place.world_size == 1) {
        plan.loader_shuffles = request.shuffle;
      } else {
        plan.sampler = LoaderPlan::Sampler::distributed;
        plan.sampler_shuffles = request.shuffle;
      }
      break;
    case Sampling::distributed:
      plan.sampler = LoaderPlan::Sampler::given;
      if (request.given_rank != place.rank) {
        plan.warnings.push_back(fmt::format("the distributed sampler given is of rank {}, this process is rank {}", request.given_rank, place.rank));
      }
      if (request.given_replicas != place.world_size) {
        plan.warnings.push_back(
            fmt::format("the distributed sampler given is for {} replicas, the world has {}", request.given_replicas, place.world_size));
      }
      break;
    case Sampling::other: plan.sampler = place.world_size == 1 ? LoaderPlan::Sampler::given : LoaderPlan::Sampler::proxy; break;
    case Sampling::batch_sampler:
      plan.sampler = LoaderPlan::Sampler::given;
      if (place.world_size > 1)
        plan.warnings.emplace_back("a batch sampler was given: it is used as it is, and must itself yield different batches on different ranks");
      break;
  }
}

}  // namespace

LoaderPlan plan_loader(const LoaderRequest& request, const LoaderPlace& place) {
  check(request, place);
  LoaderPlan plan;
  plan.drop_last = request.drop_last;
  plan.batch_sizes = split(request, place);
  if (!plan.batch_sizes.empty()) plan.batch_size = plan.batch_sizes[static_cast<std::size_t>(place.rank)];
  plan.total_batch_size = std::accumulate(plan.batch_sizes.begin(), plan.batch_sizes.end(), std::size_t{0});
  if (request.batch_size && request.split == BatchSplit::floor && plan.total_batch_size != *request.batch_size) {
    plan.notes.push_back(fmt::format("a batch of {} among {} ranks: {} each, {} in all", *request.batch_size, place.world_size, *plan.batch_size,
                                     plan.total_batch_size));
  }
  const int n = place.nproc_per_node;
  plan.num_workers = request.num_workers >= n ? (request.num_workers - 1) / n + 1 : request.num_workers;
  plan.total_workers = static_cast<std::int64_t>(plan.num_workers) * n;
  choose_sampler(plan, request, place);
  return plan;
}

LoaderPlan plan_loader(const LoaderRequest& request) {
  return plan_loader(request, {.rank = rank(), .world_size = world_size(), .nproc_per_node = nproc_per_node()});
}

}  // namespace unisono
