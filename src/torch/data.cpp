#include "unisono/torch/data.h"

#include <mutex>

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/objects.h"
#include "unisono/parameters.h"
#include "unisono/rank_control.h"

namespace unisono {

struct RankSampler::State {
  std::function<std::vector<std::size_t>(std::uint64_t)> order = {};
  std::optional<int> rank = {}, replicas = {};
  std::uint64_t epoch = 0;
  bool is_named = true;  // the epoch is that of the next reset, not of the current one
  std::vector<std::size_t> indices = {};
  std::size_t next = 0;
};

RankSampler::RankSampler(std::function<std::vector<std::size_t>(std::uint64_t)> order) : state_(std::make_shared<State>()) {
  state_->order = std::move(order);
}
RankSampler::RankSampler(DistributedSampler sampler) : state_(std::make_shared<State>()) {
  state_->rank = sampler.rank();
  state_->replicas = sampler.num_replicas();
  state_->order = [shared = std::make_shared<DistributedSampler>(std::move(sampler))](std::uint64_t epoch) {
    shared->set_epoch(epoch);
    return shared->indices();
  };
}

void RankSampler::reset(std::optional<std::size_t> new_size) {
  if (new_size) {
    throw Unsupported("a sampler that is shared out among ranks keeps its size",
                      {.operation = "RankSampler::reset", .hint = "make another one, on all ranks"});
  }
  State& state = *state_;
  const std::uint64_t epoch = state.is_named ? state.epoch : state.epoch + 1;
  const std::size_t next = state.is_named ? state.next : 0;
  state.indices = state.order(epoch);
  state.epoch = epoch;
  state.next = next;
  state.is_named = false;
}

std::optional<std::vector<std::size_t>> RankSampler::next(std::size_t batch_size) {
  State& state = *state_;
  if (state.is_named || state.next >= state.indices.size()) return std::nullopt;
  const auto begin = state.indices.begin() + static_cast<std::ptrdiff_t>(state.next);
  const std::size_t n = std::min(batch_size, state.indices.size() - state.next);
  state.next += n;
  return std::vector<std::size_t>(begin, begin + static_cast<std::ptrdiff_t>(n));
}

void RankSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(static_cast<std::int64_t>(state_->epoch)), /*is_buffer=*/true);
  archive.write("samples_done", torch::tensor(static_cast<std::int64_t>(state_->next)), /*is_buffer=*/true);
}
void RankSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch, done;
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("samples_done", done, /*is_buffer=*/true);
  set_epoch(static_cast<std::uint64_t>(epoch.item<std::int64_t>()), static_cast<std::size_t>(done.item<std::int64_t>()));
}

void RankSampler::set_epoch(std::uint64_t epoch, std::size_t samples_done) {
  state_->epoch = epoch;
  state_->next = samples_done;
  state_->is_named = true;
}
std::uint64_t RankSampler::epoch() const { return state_->epoch; }
std::size_t RankSampler::samples_done() const { return state_->next; }
std::optional<int> RankSampler::rank() const { return state_->rank; }
std::optional<int> RankSampler::replicas() const { return state_->replicas; }

namespace detail {
namespace {

/// The draws of a sampler for a DistributedProxySampler, as many as the ranks need. `length` is that of the sampler.
struct Draws {
  std::vector<std::size_t> indices;
  std::size_t length;
  std::size_t size() const { return length; }
  auto begin() const { return indices.begin(); }
  auto end() const { return indices.end(); }
};

std::size_t shared_evenly(std::size_t samples, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return (samples + n - 1) / n * n;
}

}  // namespace

RankSampler shared_out(std::function<std::vector<std::size_t>()> draw_epoch, const ProcessGroup& group, bool exact) {
  return RankSampler([draw = std::move(draw_epoch), group, exact](std::uint64_t) {
    // Only rank 0 draws, because the generators of other ranks may differ from its own.
    std::pair<std::vector<std::size_t>, std::size_t> drawn;
    const auto draw_all = [&] {
      auto& [indices, length] = drawn;
      indices = draw();
      length = indices.size();
      if (length == 0) throw_empty_sampler();
      if (exact) return;
      while (indices.size() < shared_evenly(length, group.size())) {
        const std::vector<std::size_t> more = draw();
        if (more.empty()) throw_empty_sampler();
        indices.insert(indices.end(), more.begin(), more.end());
      }
      indices.resize(shared_evenly(length, group.size()));
    };
    one_rank_only(draw_all, {.with_barrier = true, .group = group})();
    broadcast_object(drawn, 0, group);
    return DistributedProxySampler(Draws{std::move(drawn.first), drawn.second}, {.num_replicas = group.size(), .rank = group.rank(), .exact = exact})
        .indices();
  });
}

ProcessGroup group_of(const AutoDataOptions& how) { return how.group ? *how.group : world(); }

LoaderPlan plan_torch_loader(LoaderRequest request, const torch::data::DataLoaderOptions& options, const AutoDataOptions& how) {
  if (how.exact && options.drop_last()) throw InvalidArgument("a loader cannot be exact and drop the last batch", {.operation = "auto_dataloader"});
  request.batch_size = options.batch_size();
  request.split = how.split;
  request.num_workers = static_cast<int>(options.workers());
  request.drop_last = options.drop_last();
  const ProcessGroup group = group_of(how);
  return plan_loader(request, {.rank = group.rank(), .world_size = group.size(), .nproc_per_node = std::min(nproc_per_node(), group.size())});
}

torch::data::DataLoaderOptions options_of(const LoaderPlan& plan, torch::data::DataLoaderOptions options) {
  return options.batch_size(plan.batch_size.value()).workers(static_cast<std::size_t>(plan.num_workers));
}

void tell(const LoaderPlan& plan, const torch::data::DataLoaderOptions& options, const AutoDataOptions& how) {
  for (const std::string& warning : plan.warnings) TORCH_WARN("unisono: ", warning);
  if (group_of(how).rank() != 0) return;
  for (const std::string& note : plan.notes) LOG(INFO) << "unisono: " << note;
  LOG(INFO) << fmt::format("unisono: data loader with batch_size={} (of {}), workers={} (of {} on this host), drop_last={}, {}", options.batch_size(),
                           plan.total_batch_size, plan.num_workers, plan.total_workers, plan.drop_last,
                           plan.sampler_shuffles || plan.loader_shuffles ? "shuffled" : "not shuffled");
}

RankSampler sampler_of(const LoaderPlan& plan, std::size_t dataset_size, const AutoDataOptions& how) {
  const ProcessGroup group = group_of(how);
  const bool differ = std::ranges::adjacent_find(plan.batch_sizes, std::not_equal_to<>()) != plan.batch_sizes.end();
  return RankSampler(DistributedSampler(dataset_size, {.num_replicas = group.size(),
                                                       .rank = group.rank(),
                                                       .shuffle = plan.sampler_shuffles || plan.loader_shuffles,
                                                       .seed = how.seed,
                                                       .exact = how.exact,
                                                       .batch_sizes = differ ? plan.batch_sizes : std::vector<std::size_t>{}}));
}

}  // namespace detail

std::uint64_t manual_seed_all(const TorchSeedOptions& options) {
  const ProcessGroup group = options.group ? *options.group : world();
  std::uint64_t seed = options.seed.value_or(0);
  const bool is_given = broadcast(static_cast<std::uint8_t>(options.seed.has_value()), 0, group) != 0;
  seed = is_given ? broadcast(seed, 0, group) : sync_random_seed(group);
  torch::manual_seed(seed + (options.different_per_rank ? static_cast<std::uint64_t>(group.rank()) : 0));
  return seed;
}

}  // namespace unisono
