// The public names, in the spellings that are promised: each of them once, with its argument order, defaults and options in braces. Here are launch,
// contexts, groups, rank control, samplers, stores and errors; surface_calls_test.cpp has the calls that move data. Tests of their own say what each
// name does in all its cases.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "surface_values.h"
#include "unisono/unisono.h"
#include "world.h"

using namespace unisono;
using namespace std::chrono_literals;
using namespace surface;
using conformance::thrown_by;

namespace {

// In front of all others, for the processes are forked before there are threads.
TEST(Surface, FunctionsAreLaunched) {
  const auto ranks_of = [](int local_rank, int given) { return 100 * local_rank + 10 * world_size() + given; };
  EXPECT_EQ(run_threads(3, ranks_of, 7), (std::vector<int>{37, 137, 237}));
  run_threads(2, [] { EXPECT_EQ(all_reduce(rank() + 1), 3); });
  if (conformance::launched() || conformance::sanitized) GTEST_SKIP() << "no processes can be started here";
  SpawnOptions options;
  EXPECT_EQ(options.backend, "auto");
  EXPECT_EQ(options.nproc_per_node, 1);
  EXPECT_EQ(options.timeout, 30min);
  EXPECT_EQ(spawn({.backend = "native", .nproc_per_node = 2}, ranks_of, 4), (std::vector<int>{24, 124}));
  EXPECT_EQ(launch([](int given) { return std::string(static_cast<std::size_t>(given), 'x'); }, 1, 1, 0, "", 3), (std::vector<std::string>{"xxx"}));
  EXPECT_EQ(launch([](int given) { return 100 * local_rank() + 10 * world_size() + given; }, 1, 2, 0, "", 5), (std::vector<int>{25, 125}));
  Parallel parallel(ParallelOptions{.backend = "native", .nproc_per_node = 2});
  EXPECT_EQ(parallel.run(ranks_of, 6), (std::vector<int>{26, 126}));
  EXPECT_THROW(spawn({.nproc_per_node = 0}, ranks_of, 1), InvalidArgument);
}

WORLD_TEST(Surface, TheContextHasItsCalls) {
  static_assert(std::is_same_v<decltype(InitOptions{.rank = 1, .world_size = 2, .timeout = 5s}.store), std::shared_ptr<Store>>);
  EXPECT_EQ(InitOptions{}.timeout, 30min);
  EXPECT_EQ(InitOptions{}.init_method, "env://");
  const bool alone = !is_initialized();
  if (!alone) {
    EXPECT_THROW(initialize({.backend = "native"}), AlreadyInitialized);
    EXPECT_THROW(initialize("native"), AlreadyInitialized);
  }
  EXPECT_EQ(dist_info().rank, rank());
  EXPECT_EQ(dist_info().world_size, world_size());
  EXPECT_EQ(all_gather(rank()), of_each_rank([](int r) { return r; }));
  if (!conformance::presents_hosts()) {
    EXPECT_EQ(all_gather(local_rank()), of_each_rank([](int r) { return r; }));
    EXPECT_EQ(nproc_per_node(), n());
    EXPECT_EQ(nnodes(), 1);
    EXPECT_EQ(node_rank(), 0);
  }
  EXPECT_FALSE(hostname().empty());
  EXPECT_EQ(device(), (Device{Device::Type::cpu, 0}));
  EXPECT_EQ(backend(), alone ? std::nullopt : std::optional<std::string>(world().backend()));
  EXPECT_EQ(model_name(), alone ? "serial" : world().backend() + "-dist");
  EXPECT_TRUE(is_backend_available("native"));
  const std::vector<std::string> backends = available_backends();
  EXPECT_NE(std::ranges::find(backends, "serial"), backends.end());
  unisono::sync();  // POSIX has one, too
  unisono::sync(true);
  EXPECT_THROW(set_local_rank(-1), InvalidArgument);
  std::ostringstream out;
  show_config(out);
  EXPECT_EQ(out.str().empty(), rank() != 0);
  EXPECT_EQ(infer_launcher(), conformance::launched() ? Launcher::unisono : Launcher::none);
  EXPECT_EQ(launcher_local_rank().has_value(), conformance::launched());
  EXPECT_FALSE(is_torchelastic_launched());
  EXPECT_THROW(register_rendezvous_handler("env", [](const InitOptions&) { return Rendezvous{}; }), InvalidArgument);
}

WORLD_TEST(Surface, GroupsAreMadeAndSplit) {
  const ProcessGroup group = world();
  EXPECT_EQ(group.rank(), rank());
  EXPECT_EQ(group.size(), n());
  EXPECT_EQ(group.name(), "world");
  EXPECT_TRUE(group.contains(GlobalRank{last()}));
  EXPECT_EQ(group.rank_of(GlobalRank{n()}), std::nullopt);
  std::vector<int> backwards = group.global_ranks();
  std::reverse(backwards.begin(), backwards.end());
  const auto reversed = new_group(std::span<const int>(backwards));
  ASSERT_TRUE(reversed);
  EXPECT_EQ(reversed->rank(), last() - rank());
  EXPECT_EQ(reversed->global_rank(0), last());
  EXPECT_EQ(broadcast(rank() + 1, 0, *reversed), n());
  EXPECT_EQ(broadcast(rank() + 1, GlobalRank{0}, *reversed), 1);
  const auto first = new_group({0});
  EXPECT_EQ(first.has_value(), rank() == 0);
  const auto halves = split_group(group, rank() % 2, -rank());
  ASSERT_TRUE(halves);
  EXPECT_EQ(halves->size(), (n() + 1 - rank() % 2) / 2);
  EXPECT_FALSE(split_group(group, -1));
  EXPECT_EQ(local_group().size(), conformance::presents_hosts() ? nproc_per_node() : n());
  auto doomed = split_group(group, 0);
  if (rank() == last()) doomed->abort("enough");
  const auto failure = thrown_by<PeerFailed>([&] {
    for (;;) barrier(*doomed);
  });
  EXPECT_EQ(failure.culprit(), last());
  EXPECT_EQ(failure.cause(), PeerFailed::aborted);
  EXPECT_THROW(barrier(*doomed), PeerFailed);
  const auto survivors = shrink_group(*doomed);
  ASSERT_TRUE(survivors);
  EXPECT_EQ(all_reduce(1, ReduceOp::sum, *survivors), n());
}

WORLD_TEST(Surface, OneRankRunsFirstOrAlone) {
  EXPECT_EQ(is_main_process(), rank() == 0);
  EXPECT_EQ(is_main_process(world()), is_master_process());
  auto square = one_rank_only([](int x) { return x * x; }, {.rank = 0, .with_barrier = true});
  EXPECT_EQ(square(3), rank() == 0 ? std::optional(9) : std::nullopt);
  auto of_group = one_rank_only([] { return 1; }, OneRankOnlyOptions{.rank = GlobalRank{last()}, .group = world()});
  EXPECT_EQ(of_group().has_value(), rank() == last());
  { const OneRankFirst first; }
  { const OneRankFirst first(OneRankFirstOptions{.rank = conformance::presents_hosts() ? 0 : last(), .local = true, .group = world()}); }
  { const OneRankFirst first({.rank = 0, .local = false}); }
  EXPECT_EQ(gpu_mem_usage(), 0U);
  EXPECT_EQ(gpu_mem_peak(), 0U);
}

WORLD_TEST(Surface, SamplersShareOutItems) {
  const std::size_t size = 2 * ranks() + 1;
  DistributedSampler sampler(size);
  sampler.set_epoch(1);
  EXPECT_EQ(sampler.size(), 3U);
  DistributedProxySampler<std::vector<int>> proxy(of_each_rank([](int r) { return 10 * r; }));
  EXPECT_EQ(proxy.indices(), std::vector<std::size_t>{static_cast<std::size_t>(10 * rank())});
}

WORLD_TEST(Surface, StoresHaveTheirCalls) {
  const auto inner = std::make_shared<MemoryStore>();
  PrefixStore store("p", inner);
  store.set("k", "v");
  EXPECT_EQ(store.get("k", 1s), "v");
  EXPECT_EQ(store.add("count", 3), 3);
  store.wait(std::vector<std::string>{"k", "count"}, 1s);
  EXPECT_EQ(store.compare_set("k", "v", "w"), "w");
  EXPECT_TRUE(store.erase("k"));
  EXPECT_THROW(store.get("k", 1ms), Timeout);
}

MANY_TEST(Surface, ErrorsHaveTheirTypes) {
  const auto mismatch = thrown_by<Mismatch>([] { static_cast<void>(all_reduce(1, rank() == 0 ? ReduceOp::sum : ReduceOp::max)); });
  EXPECT_EQ(mismatch.operation(), "all_reduce");
  EXPECT_EQ(mismatch.group(), "world");
  EXPECT_GT(mismatch.sequence(), 0U);
  EXPECT_EQ(mismatch.rank(), rank());
  // Rank 0 is the only one that differs; of two ranks neither is to blame.
  EXPECT_EQ(mismatch.culprit(), world_size() > 2 ? std::optional(0) : std::nullopt);
  EXPECT_EQ(mismatch.host().empty(), world_size() == 2);
  EXPECT_FALSE(mismatch.hint().empty());
  const Error& base = mismatch;
  EXPECT_NE(std::string(base.what()).find(base.hint()), std::string::npos);
  static_assert(std::is_same_v<decltype(std::declval<const Timeout&>().missing()), const std::vector<int>&>);
  static_assert(PeerFailed::exited != PeerFailed::killed && PeerFailed::silent != PeerFailed::aborted &&
                PeerFailed::disconnected == PeerFailed::Cause::disconnected);
  conformance::expect_usable();
}

}  // namespace
