#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "covers.h"
#include "group/group.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

WORLD_TEST(Context, EachRankKnowsItsRankAndTheSize) {
  COVERS("T-19", "T-20", "T-07", "K-07", "K-65", "I-07", "I-08", "I-09", "I-10", "I-11", "I-12", "I-13", "V-07", "M-21", "M-22", "M-25", "M-26");
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
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(hostname(), name);
  EXPECT_EQ(device(), Device{});
  EXPECT_EQ(is_main_process(), rank() == 0);
  EXPECT_EQ(is_master_process(), rank() == 0);
}

WORLD_TEST(Context, TheWorldIsAGroup) {
  COVERS("T-16", "M-16", "TS-04", "TS-05");
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

WORLD_TEST(Context, TheBackendIsNamed) {
  COVERS("T-01");
  if (is_initialized() && world().backend() != "serial") {
    EXPECT_EQ(backend(), world().backend());
    EXPECT_EQ(model_name(), world().backend() + "-dist");
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
  // Backends that are listed are available in any case, and no others are.
  for (const std::string& name : names) EXPECT_TRUE(is_backend_available(name)) << name;
  EXPECT_TRUE(is_backend_available("Native"));
  EXPECT_EQ(is_backend_available("nccl"), std::find(names.begin(), names.end(), "nccl") != names.end());
}

// Ten lines, on rank 0 only.
WORLD_TEST(Context, ShowConfigPrintsTheConfiguration) {
  std::ostringstream out;
  show_config(out);
  std::ostringstream expected;
  expected << "distributed configuration: " << model_name() << "\nbackend: " << backend().value_or("None")
           << "\ndevice: cpu\nhostname: " << hostname() << "\nworld size: " << world_size()
           << "\nrank: 0\nlocal rank: 0\nnum processes per_node: " << world_size() << "\nnum nodes: 1\nnode rank: 0\n";
  EXPECT_EQ(out.str(), rank() == 0 ? expected.str() : "");
}

// A barrier and what follows it, on the world and on any group.
WORLD_TEST(Context, AValueFollowsABarrier) {
  COVERS("I-35", "M-28", "V-06", "K-78");
  int x = rank();
  barrier();
  x += 10;
  synchronize();
  EXPECT_EQ(all_reduce(x), 10 * world_size() + world_size() * (world_size() - 1) / 2);
  const auto half = split_group(world(), rank() % 2);
  barrier(*half);
  synchronize(*half);
  EXPECT_EQ(all_reduce(1, ReduceOp::sum, *half), half->size());
}

InitOptions alone_in_a_store() {
  InitOptions options;
  options.store = std::make_shared<MemoryStore>();
  options.rank = 0;
  options.world_size = 1;
  return options;
}

struct BackendCase {
  std::string text, expected;
};
class BackendName : public testing::TestWithParam<BackendCase> {};

// In any case of letters; one engine for each kind of device, or one name.
TEST_P(BackendName, TheNameOfABackendIsUnderstood) {
  COVERS("T-04", "K-04", "I-39", "TS-11");
  if (launched()) GTEST_SKIP() << "initializes on its own";
  InitOptions options = alone_in_a_store();
  options.backend = GetParam().text;
  const Context context(options);
  EXPECT_EQ(world().backend(), GetParam().expected);
  EXPECT_EQ(all_reduce(3), 3);
}
INSTANTIATE_TEST_SUITE_P(Context, BackendName,
                         testing::Values(BackendCase{"auto", "serial"}, BackendCase{"native", "native"}, BackendCase{"NATIVE", "native"},
                                         BackendCase{"Serial", "serial"}, BackendCase{"cpu:native", "native"}, BackendCase{"CPU:Native", "native"}));

class BadBackendName : public testing::TestWithParam<std::string> {};

TEST_P(BadBackendName, ABadNameOfABackendIsRefusedAndNothingRemains) {
  COVERS("T-04", "K-01");
  if (launched()) GTEST_SKIP() << "initializes on its own";
  InitOptions options = alone_in_a_store();
  options.backend = GetParam();
  EXPECT_THROW(initialize(options), InvalidArgument);
  EXPECT_FALSE(is_initialized());
  options.backend = "native";
  initialize(options);
  EXPECT_TRUE(is_initialized());
  finalize();
}
INSTANTIATE_TEST_SUITE_P(Context, BadBackendName,
                         testing::Values("carrier-pigeon", "", "cpu", "tpu:native", "cpu:", ":native", "cpu:native,", "cpu:native,cpu:serial",
                                         "cpu:native;cuda:nccl", "cpu:carrier-pigeon", "native,serial"));

// A backend that this build does not have is refused by its name.
TEST(Context, AnAbsentBackendIsNamed) {
  COVERS("T-04", "Q-27");
  if (launched()) GTEST_SKIP() << "initializes on its own";
  if (is_backend_available("nccl")) GTEST_SKIP() << "skipped: this build has nccl";
  for (const std::string text : {"nccl", "NCCL", "cpu:native,cuda:nccl"}) {
    InitOptions options = alone_in_a_store();
    options.backend = text;
    const auto error = thrown_by<BackendUnavailable>([&] { initialize(options); });
    EXPECT_NE(std::string(error.what()).find("nccl"), std::string::npos) << error.what();
    EXPECT_FALSE(is_initialized());
  }
}

// All ways to initialize take one path, which checks their options.
TEST(Context, ImpossibleOptionsAreRefused) {
  COVERS("I-40", "K-79", "TS-11");
  if (launched()) GTEST_SKIP() << "initializes on its own";
  const auto refused = [](auto&& change) {
    InitOptions options = alone_in_a_store();
    change(options);
    const auto error = thrown_by<InvalidArgument>([&] { initialize(options); });
    EXPECT_FALSE(is_initialized());
    return std::string(error.what());
  };
  EXPECT_NE(refused([](InitOptions& o) { o.rank.reset(); }).find("rank is not given"), std::string::npos);
  EXPECT_NE(refused([](InitOptions& o) { o.world_size.reset(); }).find("world_size is not given"), std::string::npos);
  EXPECT_NE(refused([](InitOptions& o) { o.rank = 1; }).find("rank 1 is not within"), std::string::npos);
  EXPECT_NE(refused([](InitOptions& o) { o.rank = -1; }).find("rank -1"), std::string::npos);
  EXPECT_NE(refused([](InitOptions& o) { o.timeout = std::chrono::milliseconds(0); }).find("timeout"), std::string::npos);
  EXPECT_NE(refused([](InitOptions& o) { o.init_method = "tcp://127.0.0.1:9"; }).find("init_method"), std::string::npos);
  const std::string without_a_place = refused([](InitOptions& o) {
    o.store.reset();
    o.world_size = 2;
    o.rank = 1;
  });
  EXPECT_NE(without_a_place.find("MASTER_PORT is not set"), std::string::npos) << without_a_place;
}

// The default timeouts of a call and of joining.
TEST(Context, DefaultsAreThoseThatProgramsRelyOn) {
  COVERS("B-23");
  EXPECT_EQ(InitOptions{}.timeout, std::chrono::minutes(30));
  EXPECT_EQ(InitOptions{}.backend, "auto");
  EXPECT_EQ(InitOptions{}.init_method, "env://");
  EXPECT_EQ(MembershipOptions{}.timeout, std::chrono::minutes(30));
  EXPECT_EQ(SpawnOptions{}.timeout, std::chrono::minutes(30));
}

// A scope that an exception leaves gives the job up, and no other scope does.
TEST(Context, OnlyAnExceptionAbortsTheJob) {
  if (launched()) GTEST_SKIP() << "initializes on its own";
  const auto after = [](bool throws) {
    std::optional<ProcessGroup> all, group;
    try {
      const Context context(alone_in_a_store());
      all = world();
      group = new_group();
      if (throws) throw std::runtime_error("the user's own error");
    } catch (const std::runtime_error&) {
    }
    EXPECT_FALSE(is_initialized());
    EXPECT_THROW(barrier(*group), NotInitialized);
    const auto failure = all->implementation()->coordination().failure();
    return failure ? failure->message : "";
  };
  EXPECT_EQ(after(false), "");
  EXPECT_NE(after(true).find("an exception left the scope of its Context"), std::string::npos);
}

// Alone until launched; a process that was launched is nobody before it says initialize.
TEST(Context, ProcessesKnowTheirLauncherBeforeInitialize) {
  EXPECT_EQ(is_initialized(), launched());
  if (!launched()) {
    EXPECT_EQ(rank_before_initialize(), "0");
    EXPECT_EQ(infer_launcher(), Launcher::none);
    return;
  }
  EXPECT_EQ(rank_before_initialize(), world_size() > 1 ? "NotInitialized" : "0");
  EXPECT_EQ(infer_launcher(), Launcher::unisono);
  EXPECT_THROW(initialize(), AlreadyInitialized);
  COVERS("C-10", "T-10", "M-17");
}

// Finalize may be repeated, and initialize may follow it.
TEST(Context, FinalizeMayBeFollowedByInitialize) {
  COVERS("T-11", "I-42", "K-08", "B-11", "TS-16");
  const bool alone = world_size() == 1;
  finalize();
  finalize();
  EXPECT_FALSE(is_initialized());
  {
    const Context context;
    EXPECT_TRUE(is_initialized());
    expect_usable();
    const ProcessGroup group = world();
    const auto kept = new_group(group.global_ranks());
    auto gone = new_group(group.global_ranks());
    barrier(*gone);
    gone.reset();  // ends that one, and no other
    expect_usable(*kept);
    expect_usable();
    finalize();
    for (const ProcessGroup& ended : {group, *kept}) EXPECT_THROW(barrier(ended), NotInitialized);
  }
  if (!launched()) return;
  if (!alone) {  // a single process needs no launcher
    EXPECT_THROW(static_cast<void>(rank()), NotInitialized);
  }
  initialize();
}

}  // namespace
