// one_rank_only, OneRankFirst and their like.

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "covers.h"
#include "unisono/detail/switches.h"
#include "world.h"

namespace {

using namespace unisono;
using conformance::thrown_by;

int last() { return world_size() - 1; }

WORLD_TEST(RankControl, MainIsRankZeroOfItsGroup) {
  COVERS("V-08", "M-26");
  EXPECT_EQ(is_master_process(), rank() == 0);
  EXPECT_EQ(is_main_process(), rank() == 0);
  const auto alone = new_group({rank()});
  EXPECT_TRUE(is_main_process(*alone));
}

WORLD_TEST(OneRankOnly, TheFunctionRunsOnTheChosenRankAndNowhereElse) {
  COVERS("I-44", "M-27", "C-15");
  for (const int chosen : {0, last()}) {
    int calls = 0;
    auto twice = one_rank_only(
        [&calls](int x) {
          ++calls;
          return 2 * x + rank();
        },
        {.rank = chosen});
    const std::optional<int> result = twice(20);
    EXPECT_EQ(result.has_value(), rank() == chosen);
    EXPECT_EQ(result.value_or(-1), rank() == chosen ? 40 + chosen : -1);
    EXPECT_EQ(calls, rank() == chosen ? 1 : 0);
    twice(1);
    EXPECT_EQ(calls, rank() == chosen ? 2 : 0);
  }
  bool ran = false;
  auto set = one_rank_only([&ran] { ran = true; });
  static_assert(std::is_void_v<decltype(set())>);
  set();
  EXPECT_EQ(ran, rank() == 0);
}

// Without a barrier nobody waits for anybody: only the chosen rank calls at all.
WORLD_TEST(OneRankOnly, OneRankOnlyWithoutBarrierCommunicatesNothing) {
  auto refuse = one_rank_only([]() -> int { throw std::out_of_range("no"); }, {.rank = last()});
  if (rank() == last()) {
    EXPECT_THROW(refuse(), std::out_of_range);
  } else {
    EXPECT_EQ(refuse(), std::nullopt);
  }
  conformance::expect_usable();
}

// With a barrier nobody is through before the chosen rank is done.
WORLD_TEST_IN((conformance::Worlds{.at_least = 2, .threads_only = true}), OneRankOnly, TheFunctionIsDoneWhenACallWithBarrierReturns) {
  COVERS("I-44");
  static std::atomic<int> done{0};
  static std::atomic<int> through{0};
  if (rank() == 0) done = through = 0;
  barrier();
  for (int round = 1; round <= 20; ++round) {
    const int chosen = round % world_size();
    auto work = one_rank_only(
        [] {
          EXPECT_EQ(through.load() % world_size(), 0);
          return ++done;
        },
        {.rank = chosen, .with_barrier = true});
    const auto result = work();
    EXPECT_GE(done.load(), round);
    ++through;
    EXPECT_EQ(result.value_or(-1), rank() == chosen ? round : -1);
    barrier();
  }
}

// An exception reaches all, and the group goes on.
WORLD_TEST(OneRankOnly, AnExceptionReachesTheOthersIfThereIsABarrier) {
  COVERS("K-30", "Q-25", "Q-23");
  for (int chosen = 0; chosen < world_size(); ++chosen) {
    const std::string reason = "no space left for rank " + std::to_string(chosen);
    auto fails = one_rank_only([&]() -> int { throw std::length_error(reason); }, {.rank = chosen, .with_barrier = true});
    if (rank() == chosen) {
      EXPECT_EQ(thrown_by<std::length_error>([&] { fails(); }).what(), reason);
    } else {
      const auto error = thrown_by<PeerFailed>([&] { fails(); });
      EXPECT_EQ(error.culprit(), chosen);
      EXPECT_EQ(error.cause(), PeerFailed::aborted);
      EXPECT_EQ(error.operation(), "one_rank_only");
      EXPECT_EQ(error.rank(), rank());
      EXPECT_NE(error.message().find(reason), std::string::npos) << error.what();
    }
    conformance::expect_usable();
  }
  struct Odd {};
  auto odd = one_rank_only([] { throw Odd(); }, {.with_barrier = true});
  if (rank() == 0) EXPECT_THROW(odd(), Odd);
  else EXPECT_THROW(odd(), PeerFailed);
  auto silent = one_rank_only([] { throw std::runtime_error(""); }, {.with_barrier = true});
  if (rank() == 0) EXPECT_THROW(silent(), std::runtime_error);
  else EXPECT_THROW(silent(), PeerFailed);
  auto short_of_words = one_rank_only([] { throw std::runtime_error("!"); }, {.with_barrier = true});
  if (rank() == 0) EXPECT_THROW(short_of_words(), std::runtime_error);
  else EXPECT_EQ(thrown_by<PeerFailed>([&] { short_of_words(); }).message(), "rank 0 failed: !");
  auto verbose = one_rank_only([] { throw std::runtime_error(std::string(1'000'000, 'x')); }, {.with_barrier = true});
  if (rank() == 0) EXPECT_THROW(verbose(), std::runtime_error);
  else EXPECT_GT(thrown_by<PeerFailed>([&] { verbose(); }).message().size(), 60'000u);
  conformance::expect_usable();
}

// The error of the chosen rank comes before the state of the group there.
MANY_TEST(OneRankOnly, AnExceptionOfARankThatGaveTheGroupUpIsThrown) {
  auto group = new_group();
  auto fails = one_rank_only(
      [&] {
        group.abort("no more of this");
        throw std::length_error("no space left");
      },
      {.with_barrier = true, .group = group});
  if (rank() == 0) EXPECT_STREQ(thrown_by<std::length_error>([&] { fails(); }).what(), "no space left");
  else EXPECT_EQ(thrown_by<PeerFailed>([&] { fails(); }).culprit(), 0);
  conformance::expect_usable();
}

// At once, on every rank, not at the first call.
WORLD_TEST(OneRankOnly, ARankThatIsNotThereIsRefused) {
  COVERS("K-31");
  for (const int wrong : {-1, world_size(), 100}) {
    const auto error = thrown_by<InvalidArgument>([&] { one_rank_only([] {}, {.rank = wrong}); });
    EXPECT_NE(error.message().find("from 0 to " + std::to_string(last())), std::string::npos) << error.what();
  }
  const auto alone = new_group({rank()});
  const int other = (rank() + 1) % world_size() + (world_size() == 1 ? 1 : 0);
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { one_rank_only([] {}, {.rank = GlobalRank{other}, .group = alone}); }).message(),
            "global rank " + std::to_string(other) + " is not in the group");
  conformance::expect_usable();
}

MANY_TEST(OneRankOnly, OneRankOnlyBelongsToItsGroup) {
  std::vector<int> backwards;
  for (int r = last(); r > 0; --r) backwards.push_back(r);
  const auto group = new_group(backwards);
  if (group) {
    auto whose = one_rank_only([] { return rank(); }, {.rank = 0, .with_barrier = true, .group = group});
    EXPECT_EQ(whose().has_value(), rank() == last());
    auto global = one_rank_only([] { return rank(); }, {.rank = GlobalRank{1}, .with_barrier = true, .group = group});
    EXPECT_EQ(global().has_value(), rank() == 1);
  }
  barrier();
}

// A file is made by the first and found by the others.
WORLD_TEST(OneRankFirst, TheOthersFindWhatTheFirstHasDone) {
  COVERS("I-45", "W-10");
  for (int first = 0; first < world_size(); ++first) {
    std::vector<std::int64_t> stamp(1);
    if (rank() == 0) stamp[0] = std::chrono::steady_clock::now().time_since_epoch().count();
    broadcast(stamp, 0);
    const auto path = std::filesystem::temp_directory_path() / ("unisono-first-" + std::to_string(stamp[0]));
    {
      const OneRankFirst scope({.rank = first});
      EXPECT_EQ(std::filesystem::exists(path), rank() != first);
      if (!std::filesystem::exists(path)) std::ofstream(path) << rank();
    }
    int author = -1;
    std::ifstream(path) >> author;
    EXPECT_EQ(author, first);
    barrier();
    if (rank() == 0) std::filesystem::remove(path);
  }
  const OneRankFirst by_default;
  static_cast<void>(by_default);
}

// With all ranks on one host the local ranks are the ranks.
WORLD_TEST(OneRankFirst, OneOfEachHostIsLocallyFirst) {
  COVERS("I-45");
  for (int first = 0; first < nproc_per_node(); ++first) {
    int order = 0;
    {
      const OneRankFirst scope({.rank = first, .local = true});
      order = local_rank() == first ? 1 : 2;
    }
    EXPECT_EQ(all_reduce(order), 2 * world_size() - nnodes());
  }
}

// A host with fewer ranks has a first, too, and so has one whose ranks are in the group in part.
TEST(OneRankFirst, EveryHostHasItsFirst) {
  COVERS("I-45");
  struct Presented {
    Presented() { detail::set_presented_hosts({"a", "a", "a", "b", "b"}); }
    ~Presented() { detail::set_presented_hosts({}); }
  } const presented;
  run_threads(5, [] {
    const auto firsts = [](int wanted, const ProcessGroup& group, bool local = true) {
      int is_first = 0;
      {
        const OneRankFirst scope({.rank = wanted, .local = local, .group = group});
        is_first = scope.is_first() ? 1 : 0;
      }
      return all_gather(is_first, group);
    };
    EXPECT_EQ(firsts(0, world()), (std::vector<int>{1, 0, 0, 1, 0}));
    EXPECT_EQ(firsts(1, world()), (std::vector<int>{0, 1, 0, 0, 1}));
    EXPECT_EQ(firsts(2, world()), (std::vector<int>{0, 0, 1, 0, 1}));
    EXPECT_EQ(firsts(0, world(), false), (std::vector<int>{1, 0, 0, 0, 0}));
    if (const auto some = new_group({4, 2, 1})) {
      EXPECT_EQ(firsts(0, *some), (std::vector<int>{1, 0, 1}));
      EXPECT_EQ(firsts(2, *some), (std::vector<int>{1, 1, 0}));
    }
  });
}

WORLD_TEST_IN((conformance::Worlds{.at_least = 2, .threads_only = true}), OneRankFirst, NobodyIsInsideBeforeTheFirstHasLeft) {
  static std::atomic<int> inside{0};
  static std::atomic<bool> first_has_left{false};
  for (int round = 0; round < 20; ++round) {
    const int first = round % world_size();
    if (rank() == 0) {
      inside = 0;
      first_has_left = false;
    }
    barrier();
    {
      const OneRankFirst scope({.rank = first});
      if (rank() == first) {
        EXPECT_EQ(inside.load(), 0);
        first_has_left = true;
      } else {
        EXPECT_TRUE(first_has_left.load());
        ++inside;
      }
    }
    barrier();
    EXPECT_EQ(inside.load(), world_size() - 1);
    barrier();
  }
}

// An exception on the first rank ends the others' wait, and the group goes on.
WORLD_TEST(OneRankFirst, AnExceptionInsideReachesTheOthers) {
  COVERS("I-45", "K-30", "Q-25");
  for (int first = 0; first < world_size(); ++first) {
    const auto enter = [&] {
      const OneRankFirst scope({.rank = first});
      if (rank() == first) throw std::domain_error("cannot prepare");
      ADD_FAILURE() << "inside, though the first has failed";
    };
    if (rank() == first) {
      EXPECT_STREQ(thrown_by<std::domain_error>(enter).what(), "cannot prepare");
    } else {
      const auto error = thrown_by<PeerFailed>(enter);
      EXPECT_EQ(error.culprit(), first);
      EXPECT_EQ(error.operation(), "OneRankFirst");
      EXPECT_EQ(error.message(), "rank " + std::to_string(first) + " failed: an exception left its scope");
    }
    conformance::expect_usable();
  }
  // An exception in the others is their own.
  const auto late = [&] {
    const OneRankFirst scope({.rank = 0});
    if (rank() != 0) throw std::domain_error("late");
  };
  if (rank() == 0) EXPECT_NO_THROW(late());
  else EXPECT_THROW(late(), std::domain_error);
  conformance::expect_usable();
}

// A scope that is entered while another exception is on its way is a scope like any other.
WORLD_TEST(OneRankFirst, OneRankFirstWorksWhileAnExceptionIsOnItsWay) {
  struct AtEnd {
    ~AtEnd() {
      const OneRankFirst scope({.rank = 0});
      ran = true;
    }
    bool& ran;
  };
  bool ran = false;
  EXPECT_THROW(
      {
        const AtEnd at_end{ran};
        throw std::domain_error("on its way");
      },
      std::domain_error);
  EXPECT_TRUE(ran);
  conformance::expect_usable();
}

// "rank should be between 0 and size - 1"
WORLD_TEST(OneRankFirst, ARankThatIsNotThereIsRefused) {
  COVERS("I-45");
  for (const int wrong : {-1, world_size(), 100}) {
    EXPECT_NE(thrown_by<InvalidArgument>([&] { OneRankFirst scope({.rank = wrong}); }).message().find(std::to_string(wrong)), std::string::npos);
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { OneRankFirst scope({.rank = wrong, .local = true}); }).message(),
              "the local rank must be from 0 to " + std::to_string(last()) + ", not " + std::to_string(wrong));
  }
  EXPECT_THROW(OneRankFirst({.rank = GlobalRank{0}, .local = true}), InvalidArgument);
  conformance::expect_usable();
}

// Rule 6: whoever does something else meanwhile, all learn of it.
MANY_TEST(OneRankFirst, AnotherCallMeanwhileIsAMismatch) {
  if (rank() == last()) {
    EXPECT_THROW(barrier(), Mismatch);
  } else {
    EXPECT_THROW({ OneRankFirst scope({.rank = 0}); }, Mismatch);
  }
  conformance::expect_usable();
}

// Two functions, and none invents a GPU.
WORLD_TEST(GpuMemory, TheMemoryOfAGpuIsZeroWhereNothingRunsOnIt) {
  ASSERT_EQ(device().type, Device::Type::cpu);
  EXPECT_EQ(gpu_mem_usage(), 0u);
  EXPECT_EQ(gpu_mem_peak(), 0u);
}

}  // namespace
