// Ranks that are threads: more of them than an engine keeps at hand, and what one of them may not do.

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <latch>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "context/state.h"
#include "rendezvous/growth.h"
#include "thrown_by.h"
#include "unisono/detail/switches.h"
#include "unisono/launch.h"
#include "unisono/shared_memory.h"
#include "unisono/unisono.h"

using namespace unisono;

namespace {

TEST(ThreadRanks, SeventeenAndMoreCombine) {
  for (const int n : {16, 17, 33}) {
    run_threads(n, [&](int rank) {
      for (const std::size_t count : {std::size_t{3}, std::size_t{5000}}) {
        std::vector<double> x(count), largest(count);
        for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<double>(i) + 100.0 * rank;
        all_reduce(x, largest, ReduceOp::max);
        all_reduce(x);
        for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
          EXPECT_EQ(x[i], n * static_cast<double>(i) + 100.0 * n * (n - 1) / 2);
          EXPECT_EQ(largest[i], static_cast<double>(i) + 100.0 * (n - 1));
        }
      }
      std::vector<int> mine(static_cast<std::size_t>(n), rank), part(1);
      reduce_scatter(mine, part);
      EXPECT_EQ(part[0], n * (n - 1) / 2);
      const int before = exscan(rank);
      EXPECT_EQ(rank > 0 ? before : 0, rank * (rank - 1) / 2);
    });
  }
}

// It wakes when the others have gone on, and have erased by what it could learn that.
TEST(ThreadRanks, OneThatWasLeftOutDoesNotShrinkToItself) {
  const auto job = std::make_shared<MemoryStore>();
  run_threads(3, [&](int rank) {
    context::current().job.facts.growth.store = job;
    barrier();
    if (rank != 1) return;
    EXPECT_THROW(for (;;) barrier(), PeerFailed);
    rendezvous::GrowthKeys(*job).note_lost("1");
    EXPECT_FALSE(shrink_group(world()));
  });
}

// The world is over by then, and the group of those that are left waits for the rank that gives up.
TEST(ThreadRanks, TheOthersHearOfAnExceptionAfterALoss) {
  const auto shrink_and_throw = [](int rank) {
    barrier();
    if (rank == 3) return;
    EXPECT_THROW(barrier(), PeerFailed);
    const auto three = shrink_group(world());
    ASSERT_TRUE(three);
    if (rank == 1) throw std::range_error("the batch is empty");
    const auto error = thrown_by<PeerFailed>([&] { barrier(*three); });
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
    EXPECT_EQ(error.culprit(), 1);
  };
  EXPECT_THROW(run_threads(4, shrink_and_throw), std::range_error);
}

// The text shows as many counts as can be read.
TEST(ThreadRanks, ManyCountsThatDifferAreShownInPart) {
  for (const int n : {32, 33}) {
    run_threads(n, [&](int rank) {
      std::vector<std::size_t> lengths(static_cast<std::size_t>(n), 1);
      if (rank == 5) lengths[7] = 2, lengths[8] = 0;  // of the same sum
      std::vector<int> own(1, rank), all(static_cast<std::size_t>(n));
      try {
        all_gather_v(own, all, lengths);
        ADD_FAILURE() << "went through";
      } catch (const Mismatch& error) {
        EXPECT_EQ(error.culprit(), 5) << error.what();
        EXPECT_EQ(std::string(error.what()).find("1, …]") != std::string::npos, n > 32) << error.what();
        EXPECT_EQ(std::string(error.what()).find("1, 1]") != std::string::npos, n == 32) << error.what();
      }
    });
  }
}

struct WithoutComparison {
  WithoutComparison() { detail::set_call_comparison(false); }
  ~WithoutComparison() { detail::set_call_comparison(true); }
};

// The switch by which the price of comparing is measured.
TEST(ThreadRanks, RanksThatAreThreadsDoNotCompareWhereThatIsSwitchedOff) {
  EXPECT_TRUE(detail::call_comparison());
  const auto with_different_tags = [](int rank) {
    std::vector<int> x{1};
    all_reduce(x, ReduceOp::sum, world(), {.tag = rank});
    EXPECT_EQ(x[0], 2);
  };
  EXPECT_THROW(run_threads(2, with_different_tags), Mismatch);
  {
    const WithoutComparison off;
    EXPECT_FALSE(detail::call_comparison());
    run_threads(2, with_different_tags);
    // Nothing is written beyond the output where a rank sends more than the other expects.
    run_threads(2, [](int rank) {
      const Counts sends{2, rank == 0 ? 5 : 2}, expects{2, 2};
      std::vector<int> in(rank == 0 ? 7 : 4, 10 + rank), out(rank == 0 ? 4 : 6, -1);
      all_to_all_v(in, sends, std::span(out).first(4), expects);
      EXPECT_EQ(out[0], 10);
      EXPECT_EQ(out[3], 11);
      EXPECT_EQ(out.back(), rank == 0 ? 11 : -1);
    });
  }
  EXPECT_THROW(run_threads(2, with_different_tags), Mismatch);
}

TEST(ThreadRanks, TheFirstErrorThatIsNoConsequenceIsThrown) {
  const auto text_of = [](const std::function<void(int)>& body) {
    try {
      run_threads(3, body);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(text_of([](int rank) { throw std::runtime_error("rank " + std::to_string(rank)); }), "rank 0");
  EXPECT_EQ(text_of([](int rank) {
              if (rank == 2) throw std::runtime_error("rank 2");
              barrier();
            }),
            "rank 2");
  EXPECT_EQ(text_of([](int rank) { throw PeerFailed("lost by rank " + std::to_string(rank)); }), "lost by rank 0");
  EXPECT_EQ(text_of([](int) {}), "nothing");
}

// The process has joined a job of its own; its ranks that are threads end with their function, and leave that alone.
TEST(ThreadRanks, RanksThatAreThreadsCannotEndTheProcessesJob) {
  InitOptions options;
  options.store = std::make_shared<MemoryStore>();
  options.rank = 0;
  options.world_size = 1;
  const Context context(options);
  run_threads(2, [] {
    finalize();
    EXPECT_EQ(all_reduce(1), 2);
    EXPECT_THROW(initialize(), AlreadyInitialized);
  });
  EXPECT_TRUE(is_initialized());
  EXPECT_EQ(all_reduce(5), 5);
}

TEST(ThreadRanks, AForkedChildHasNoRank) {
  std::atomic<int> status = -1;
  run_threads(2, [&](int rank) {
    if (rank != 0) return;
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        run_threads(1, [] {});
      } catch (const NotInitialized&) {
        ::_exit(7);
      } catch (...) {
      }
      ::_exit(1);
    }
    int ended = 0;
    EXPECT_EQ(::waitpid(child, &ended, 0), child);
    status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -2;
  });
  EXPECT_EQ(status, 7);
}

TEST(ThreadRanks, RanksThatAreThreadsShowTheConfigurationWhereLogsGo) {
  std::ostringstream said;
  std::streambuf* const before = std::clog.rdbuf(said.rdbuf());
  show_config();
  std::clog.rdbuf(before);
  std::ostringstream expected;
  show_config(expected);
  EXPECT_EQ(said.str(), expected.str());
  EXPECT_NE(said.str(), "");
}

struct CountsDown {
  std::latch& latch;
  ~CountsDown() { latch.count_down(); }
};

// Those who have come within the time go on without it, and it learns so when it comes after all.
TEST(ThreadRanks, RanksThatAreThreadsShrinkWithoutOneThatComesTooLate) {
  std::latch agreed(2);
  run_threads(3, [&](int rank) {
    auto group = new_group({2, 1, 0}, {.timeout = std::chrono::seconds(3)});
    barrier(*group);
    if (rank == 1) {
      group->abort("no more of this");
      agreed.wait();
      EXPECT_EQ(shrink_group(*group), std::nullopt);
      return;
    }
    const CountsDown at_the_end{agreed};
    EXPECT_THROW(barrier(*group), PeerFailed);
    const auto shrunk = shrink_group(*group);
    ASSERT_TRUE(shrunk.has_value());
    EXPECT_EQ(shrunk->global_ranks(), (std::vector<int>{2, 0}));
    EXPECT_EQ(all_gather(rank, *shrunk), (std::vector<int>{2, 0}));
  });
}

// Rank 0 says that it is there, and nothing more.
TEST(ThreadRanks, RanksThatAreThreadsShrinkWhereTheFirstDoesNotDecide) {
  run_threads(2, [](int rank) {
    auto group = *new_group({0, 1}, {.timeout = std::chrono::milliseconds(1500)});
    barrier(group);
    if (rank == 0) {
      PrefixStore("shrink/0.1/" + group.name() + "#0/", context::current().groups.store()).set("here/0", "1");
      group.abort("no more of this");
      barrier();
      return;
    }
    EXPECT_THROW(for (;;) barrier(group), PeerFailed);
    try {
      static_cast<void>(shrink_group(group));
      ADD_FAILURE() << "it was decided";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.message(), "the survivors did not agree on who they are");
      EXPECT_EQ(error.operation(), "shrink_group");
      EXPECT_EQ(error.group(), group.name());
      EXPECT_EQ(error.rank(), 1);
    }
    barrier();
  });
}

// It lives on beyond its rank, and is over with it all the same.
TEST(ThreadRanks, AGroupThatIsKeptEndsWithARankThatFails) {
  std::vector<std::optional<ProcessGroup>> kept(2);
  std::string heard;
  const auto body = [&](int rank) {
    auto& own = kept[static_cast<std::size_t>(rank)];
    own = new_group({0, 1}, {.timeout = std::chrono::seconds(20)});
    barrier(*own);
    if (rank == 0) throw std::runtime_error("no more");
    try {
      barrier(*own);
    } catch (const Error& error) {
      heard = error.message();
    }
  };
  EXPECT_THROW(run_threads(2, body), std::runtime_error);
  EXPECT_EQ(heard, "rank 0 gave up: no more");
}

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// The memory of a group goes with it, not with the threads.
TEST(ThreadRanks, GroupsThatAreOverTakeNoMemory) {
  run_threads(2, [](int rank) {
    const auto form = [](int times) {
      for (int i = 0; i < times; ++i) barrier(*new_group({0, 1}));
      barrier();
    };
    form(5);
    const std::size_t before = address_space();
    form(60);
    if (rank == 0) {
      EXPECT_LT(address_space(), before + (std::size_t{30} << 20)) << "sixty groups of a mebibyte and more each";
    }
    barrier();
  });
}

TEST(ThreadRanks, GroupsAreOfTheEngineThatIsAskedFor) {
  run_threads(2, [](int rank) {
    for (const char* backend : {"", "auto", "native"}) {
      const auto group = new_group({0, 1}, {.backend = backend});
      EXPECT_EQ(group->backend(), "native") << backend;
      EXPECT_EQ(all_reduce(rank, ReduceOp::sum, *group), 1);
    }
    EXPECT_THROW(new_group({0, 1}, {.backend = "tcp"}), Error);
  });
}

// Two ranks differ three times before the third has come once: nothing that it has yet to read is written over.
TEST(ThreadRanks, MismatchesInARowWaitForALateRank) {
  const auto usual = detail::ballot_time();
  detail::set_ballot_time(std::chrono::milliseconds(1));
  std::atomic<int> thrown{0};
  run_threads(3, [&](int rank) {
    const auto group = *new_group({0, 1, 2}, {.timeout = std::chrono::seconds(20)});
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (rank == 2 && thrown.load() < 6 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    for (int call = 0; call < 3; ++call) {
      std::vector<float> x(rank == 0 ? 3 : 4);
      EXPECT_THROW(all_reduce(x, ReduceOp::sum, group), Mismatch) << call;
      thrown.fetch_add(1);
    }
    EXPECT_EQ(all_reduce(1, ReduceOp::sum, group), 3);
  });
  detail::set_ballot_time(usual);
}

// Reached by all: the input; not the output, of one rank.
TEST(ThreadRanks, AnOutputThatOthersCannotReach) {
  run_threads(3, [](int rank) {
    constexpr std::size_t n = 6000;
    for (int call = 0; call < 4; ++call) {
      shared_vector<float> in(n, static_cast<float>(rank + 1)), shared(n);
      std::vector<float> own(n);
      if (rank == 1 && call > 1) all_reduce(in, own);
      else all_reduce(in, shared);
      EXPECT_EQ(rank == 1 && call > 1 ? own[n - 1] : shared[n - 1], 6.0F);
    }
  });
}

}  // namespace
