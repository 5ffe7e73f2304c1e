#include <algorithm>
#include <set>
#include <sstream>

#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// T-19, T-20, T-07, K-07, K-65, C-10, C-16, I-03, I-13, V-07, M-21, M-22, M-25, K-26, C-25
WORLD_TEST(Context, WhoIAm) {
  const int n = world_size();
  EXPECT_GE(rank(), 0);
  EXPECT_LT(rank(), n);
  EXPECT_EQ(dist_info().rank, rank());
  EXPECT_EQ(dist_info().world_size, n);
  std::set<int> ranks, local_ranks;
  for (const int r : all_gather(rank())) ranks.insert(r);
  for (const int r : all_gather(local_rank())) local_ranks.insert(r);
  EXPECT_EQ(ranks.size(), static_cast<std::size_t>(n));
  EXPECT_EQ(local_ranks.size(), static_cast<std::size_t>(n));  // one host
  EXPECT_EQ(*local_ranks.begin(), 0);
  EXPECT_EQ(nproc_per_node(), n);
  EXPECT_EQ(nnodes(), 1);
  EXPECT_EQ(node_rank(), 0);
  EXPECT_FALSE(hostname().empty());
  EXPECT_EQ(device(), Device{});
  EXPECT_EQ(is_main_process(), rank() == 0);
  EXPECT_EQ(is_master_process(), rank() == 0);
}

// M-16
WORLD_TEST(Context, TheWorldAsAGroup) {
  const ProcessGroup group = world();
  const int n = world_size();
  EXPECT_EQ(group.name(), "world");
  EXPECT_EQ(group.rank(), rank());
  EXPECT_EQ(group.size(), n);
  std::vector<int> ranks;
  for (int r = 0; r < n; ++r) {
    ranks.push_back(r);
    EXPECT_EQ(group.global_rank(r), r);
    EXPECT_EQ(group.rank_of(GlobalRank{r}), r);
    EXPECT_TRUE(group.contains(GlobalRank{r}));
  }
  EXPECT_EQ(group.global_ranks(), ranks);
  EXPECT_FALSE(group.contains(GlobalRank{n}));
  EXPECT_FALSE(group.contains(GlobalRank{-1}));
  EXPECT_EQ(group.rank_of(GlobalRank{n}), std::nullopt);
  EXPECT_THROW(static_cast<void>(group.global_rank(n)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(group.global_rank(-1)), InvalidArgument);
  EXPECT_EQ(group, world());
}

// I-04, I-05, I-46, M-20, T-02
WORLD_TEST(Context, Backend) {
  if (is_initialized() && world().backend() == "native") {
    EXPECT_EQ(backend(), "native");
    EXPECT_EQ(model_name(), "native-dist");
  } else {
    EXPECT_EQ(world_size(), 1);
    EXPECT_EQ(world().backend(), "serial");
    EXPECT_EQ(backend(), std::nullopt);
    EXPECT_EQ(model_name(), "serial");
  }
  const auto names = available_backends();
  for (const char* name : {"native", "serial"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end());
    EXPECT_TRUE(is_backend_available(name));
  }
  EXPECT_FALSE(is_backend_available("no such thing"));
}

// Ten lines, on rank 0 only, in a fixed order.
WORLD_TEST(Context, ShowConfig) {
  std::ostringstream out;
  show_config(out);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), rank() == 0 ? 10 : 0);
  if (rank() != 0) return;
  std::size_t at = 0;
  for (const std::string& line : std::vector<std::string>{
           "distributed configuration: " + model_name(), std::string("backend: "), std::string("device: cpu"), "hostname: " + hostname(),
           "world size: " + std::to_string(world_size()), std::string("rank: 0"), std::string("local rank: 0"),
           "processes per node: " + std::to_string(world_size()), std::string("nodes: 1"), std::string("node rank: 0")}) {
    const auto found = text.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << " is missing in order in\n" << text;
    at = found + line.size();
  }
}

// C-10, T-10, M-17: alone until launched; a process that was launched is nobody before it says initialize.
TEST(Context, BeforeInitialize) {
  EXPECT_EQ(is_initialized(), launched());
  if (!launched()) {
    EXPECT_EQ(rank_before_initialize(), "0");
    EXPECT_EQ(infer_launcher(), Launcher::none);
    return;
  }
  EXPECT_EQ(rank_before_initialize(), world_size() > 1 ? "NotInitialized" : "0");
  EXPECT_EQ(infer_launcher(), Launcher::unisono);
  EXPECT_THROW(initialize(), AlreadyInitialized);
}

// T-11, T3, K-08: finalize may be repeated, and initialize may follow it.
TEST(Context, FinalizeAndInitializeAgain) {
  finalize();
  finalize();
  EXPECT_FALSE(is_initialized());
  {
    const Context context;
    EXPECT_TRUE(is_initialized());
    expect_usable();
    const ProcessGroup group = world();
    finalize();
    EXPECT_THROW(barrier(group), NotInitialized);
  }
  if (launched()) {
    EXPECT_THROW(static_cast<void>(rank()), NotInitialized);
    initialize();
  }
}

}  // namespace
