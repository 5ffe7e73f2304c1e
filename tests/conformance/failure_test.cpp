#include <array>
#include <atomic>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "covers.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

constexpr Worlds poisoned{.at_least = 2, .at_most = 5, .poisons = true};

// The timeout of a call that one rank does not make. The others come within it on a busy machine too, so nobody else is missed.
constexpr auto time_to_come = 2s;

// Everything throws the same from now on, at once.
template <class E>
void expect_over(const std::string& message) {
  std::vector<float> x(100000);
  std::array<float, 4> small{};
  const int peer = (rank() + 1) % world_size();
  const auto check = [&](const char* operation, auto&& call) {
    const auto error = thrown_by<E>(call);
    EXPECT_EQ(error.message(), message);
    EXPECT_EQ(error.operation(), operation);
    EXPECT_EQ(error.rank(), rank());
    EXPECT_EQ(error.group(), "world");
    EXPECT_FALSE(error.hint().empty());
  };
  check("all_reduce", [&] { all_reduce(x); });
  check("barrier", [&] { barrier(); });
  check("all_reduce", [&] { all_reduce_async(small).wait(); });
  check("send", [&] { send(small, peer); });
  check("recv", [&] { recv(small, peer); });
  check("recv", [&] { recv(small, any_source); });
  check("send", [&] { isend(small, peer).wait(); });
  EXPECT_THROW(all_reduce(x, small), InvalidArgument);  // what is wrong by itself still is
}

/// The others blame the rank that did not come. That rank is told whose deadline has passed, and not that it waits for itself.
void expect_culprit(const Timeout& error, int absent) {
  if (rank() != absent) {
    EXPECT_EQ(error.culprit(), absent);
    return;
  }
  ASSERT_TRUE(error.culprit());
  EXPECT_NE(error.culprit(), absent);
  EXPECT_NE(std::string(error.what()).find(fmt::format("a deadline of rank {} has passed", *error.culprit())), std::string::npos) << error.what();
}

// C8, S6, rule 7: who skips a call is named to all; the group is over, also for the one who skipped.
WORLD_TEST_IN(poisoned, Timeout, ATimeoutNamesTheRankThatDidNotCome) {
  COVERS("K-20", "C-21");
  const int absent = world_size() - 1;
  std::array<int, 1> never{};
  barrier();
  const auto error = thrown_by<Timeout>([&] {
    if (rank() == absent) recv(never, 0);
    else static_cast<void>(all_reduce(1.0, ReduceOp::sum, world(), {.timeout = time_to_come}));
  });
  EXPECT_EQ(error.missing(), std::vector<int>{absent});
  expect_culprit(error, absent);
  EXPECT_FALSE(error.host().empty());
  EXPECT_EQ(error.operation(), rank() == absent ? "recv" : "all_reduce");
  EXPECT_NE(std::string(error.what()).find("all_reduce"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("rank " + std::to_string(absent)), std::string::npos) << error.what();
  EXPECT_GT(error.sequence(), 0U);
  expect_over<Timeout>(error.message());
}

// Before all have come nothing of a large call has been moved either.
WORLD_TEST_IN(poisoned, Timeout, ATimeoutOfALargeCallNamesTheRankThatDidNotCome) {
  const int absent = world_size() - 1;
  std::array<int, 1> never{};
  const auto x = values<float>(300'000, rank());
  std::vector<float> sums(x.size(), -1.0F);
  barrier();  // all ranks make the call within the timeout
  const auto error = thrown_by<Timeout>([&] {
    if (rank() == absent) recv(never, 0);
    else all_reduce(x, sums, ReduceOp::sum, world(), {.timeout = time_to_come});
  });
  EXPECT_EQ(error.missing(), std::vector<int>{absent});
  expect_culprit(error, absent);
  EXPECT_EQ(error.operation(), rank() == absent ? "recv" : "all_reduce");
  EXPECT_EQ(difference(sums, std::vector<float>(sums.size(), -1.0F)), "");
  expect_over<Timeout>(error.message());
}

// F20: all of them.
WORLD_TEST_IN((Worlds{.at_least = 3, .at_most = 5, .poisons = true}), MonitoredBarrier, AMonitoredBarrierNamesEveryMissingRank) {
  COVERS("TS-38");
  std::array<int, 1> never{};
  barrier();
  const auto error = thrown_by<Timeout>([&] {
    if (rank() == 0) monitored_barrier(1s);
    else recv(never, 0);
  });
  std::vector<int> others;
  for (int r = 1; r < world_size(); ++r) others.push_back(r);
  EXPECT_EQ(error.missing(), others);
  expect_over<Timeout>(error.message());
}

// An asynchronous call's deadline counts from the call, whoever waits.
WORLD_TEST_IN(poisoned, Timeout, ATimeoutOfAnAsynchronousCallIsThrownByItsWait) {
  std::array<int, 1> never{};
  barrier();
  if (rank() == 0) {
    auto x = values<float>(10, 0);
    Work work = all_reduce_async(x, ReduceOp::sum, world(), {.timeout = 1s});
    EXPECT_THROW(work.wait(), Timeout);
    EXPECT_EQ(difference(x, values<float>(10, 0)), "");
  } else {
    EXPECT_THROW(recv(never, 0), Timeout);
  }
}

// Rule 7: if both apply, Mismatch wins.
WORLD_TEST_IN((Worlds{.at_least = 3, .at_most = 5, .poisons = true}), Timeout, ATimeoutGivesWayToAMismatch) {
  if (conformance::presents_hosts()) GTEST_SKIP() << "the ranks of each host wait for each other before they look at other hosts";
  const int absent = world_size() - 1;
  std::array<int, 1> never{};
  barrier();
  if (rank() == absent) {
    EXPECT_THROW(recv(never, 0), Timeout);
  } else {
    std::vector<float> x(rank() == 0 ? 3 : 4);
    EXPECT_THROW(all_reduce(x, ReduceOp::sum, world(), {.timeout = time_to_come}), Mismatch);
    const auto error = conformance::thrown_by<Timeout>([] { barrier(world(), {.timeout = time_to_come}); });
    EXPECT_EQ(error.missing(), std::vector<int>{absent});  // which still owes the first call
  }
}

// F2: every rank's pending and later calls.
WORLD_TEST_IN(poisoned, Abort, AnAbortReachesPendingAndLaterCalls) {
  COVERS("TS-22");
  const int quitter = world_size() - 1;
  std::array<int, 1> token{};
  auto x = values<float>(10, rank());
  std::array<int, 1> never{};
  std::string message;
  const auto check = [&](const PeerFailed& error) {
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
    EXPECT_EQ(error.culprit(), quitter);
    EXPECT_NE(std::string(error.what()).find("the loss is NaN"), std::string::npos) << error.what();
    if (message.empty()) message = error.message();
    EXPECT_EQ(error.message(), message);
  };
  if (rank() == quitter) {
    for (int r = 0; r < quitter; ++r) recv(token, r);  // they all have something under way
    world().abort("the loss is NaN");
    world().abort("another reason");  // the first one stands
    check(thrown_by<PeerFailed>([&] { barrier(); }));
  } else {
    Work received = irecv(never, quitter, world(), {.tag = 9});
    Work sum = all_reduce_async(x);
    send(token, quitter);
    check(thrown_by<PeerFailed>([&] { barrier(); }));  // behind the one above
    check(thrown_by<PeerFailed>([&] { sum.wait(); }));
    check(thrown_by<PeerFailed>([&] { received.wait(); }));
    EXPECT_EQ(difference(x, values<float>(10, rank())), "");
  }
  expect_over<PeerFailed>(message);
}

WORLD_TEST_IN(poisoned, Abort, AnAbortReachesABlockedCall) {
  std::array<int, 1> token{};
  if (rank() == 0) {
    for (int r = 1; r < world_size(); ++r) recv(token, r);
    world().abort("enough");
  } else {
    send(token, 0);
    const auto error = thrown_by<PeerFailed>([&] { barrier(); });
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
    EXPECT_EQ(error.culprit(), 0);
  }
}

// A callable that throws ends the group: the others cannot go on without this rank's part.
WORLD_TEST_IN(poisoned, Callable, ACallableThatThrowsPoisonsTheGroup) {
  struct Unlucky {};
  const int unlucky = world_size() - 1;
  std::vector<int> x(20000, rank());
  const bool throws = rank() == unlucky;
  const auto op = [throws](int a, int b) {
    if (throws) throw Unlucky{};
    return a + b;
  };
  if (throws) {
    EXPECT_THROW(all_reduce(x, op), Unlucky);
    EXPECT_THROW(barrier(), PeerFailed);
  } else {
    try {
      all_reduce(x, op);  // its part may be done already
      barrier();
      ADD_FAILURE() << "the group goes on";
    } catch (const PeerFailed& error) {
      EXPECT_EQ(error.cause(), PeerFailed::aborted);
      EXPECT_EQ(error.culprit(), unlucky);
    }
  }
}

// A rank that has left (finalize, or the end of its function) is not waited for.
TEST(RunThreads, ARankThatLeavesIsNotWaitedFor) {
  std::atomic<int> told{0};
  EXPECT_THROW(run_threads(3,
                           [&] {
                             if (rank() == 1) return;
                             try {
                               barrier();
                             } catch (const PeerFailed& error) {
                               if (error.cause() == PeerFailed::disconnected && error.culprit() == 1) ++told;
                               throw;
                             }
                           }),
               PeerFailed);
  EXPECT_EQ(told, 2);
}

// An exception of one rank reaches the others as PeerFailed with its reason, and the caller as it was thrown.
TEST(RunThreads, WhatARankThrowsReachesTheOthersAndTheCaller) {
  struct Custom : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  for (const int n : {1, 2, 5}) {
    std::atomic<int> told{0};
    EXPECT_THROW(run_threads(n,
                             [&] {
                               if (rank() == n - 1) throw Custom("out of data");
                               try {
                                 barrier();
                               } catch (const PeerFailed& error) {
                                 if (error.cause() == PeerFailed::aborted && std::string(error.what()).find("out of data") != std::string::npos)
                                   ++told;
                                 throw;
                               }
                             }),
                 Custom);
    EXPECT_EQ(told, n - 1);
  }
}

TEST(RunThreads, RunThreadsReturnsWhatEachRankReturned) {
  const int base = 10;
  EXPECT_EQ(run_threads(
                4, [](int local_rank, int b) { return b + local_rank; }, base),
            (std::vector<int>{10, 11, 12, 13}));
  EXPECT_EQ(run_threads(
                3, [](int b) { return b * world_size() + rank(); }, base),
            (std::vector<int>{30, 31, 32}));
  EXPECT_THROW(run_threads(0, [] {}), InvalidArgument);
}

std::atomic<bool> concurrent_use_seen{false};

// Rule 9, T2: two threads on one group at once.
WORLD_TEST_IN((Worlds{.at_least = 2, .threads_only = true}), Threads, OneGroupIsForOneThreadAtATime) {
  const ProcessGroup group = world();
  const int me = rank();
  if (me == 0) concurrent_use_seen = false;
  barrier();
  if (me == 0) {
    std::array<int, 1> x{};
    std::thread other([&] {
      for (bool received = false; !received;) {  // this one may be the second of the two
        try {
          received = recv(x, 1, group) == 1;
        } catch (const InvalidArgument&) {
          std::this_thread::yield();
        }
      }
    });
    // A call that is wrong in any case, until it is wrong because of the other thread.
    for (std::string text; text.find("concurrent") == std::string::npos; std::this_thread::yield()) {
      const auto error = thrown_by<InvalidArgument>([&] { send(x, 0, group); });
      text = error.what();
      EXPECT_EQ(error.operation(), "send");
    }
    concurrent_use_seen = true;
    other.join();
    EXPECT_EQ(x[0], 42);
  } else if (me == 1) {
    while (!concurrent_use_seen) std::this_thread::yield();
    send(std::array{42}, 0);
  }
  expect_usable();  // nothing of it was sent
}

// Rule 9: any thread may call, one after the other; a Work may be waited for by another.
WORLD_TEST(Threads, AnyThreadMayCall) {
  const ProcessGroup group = world();
  auto x = values<float>(100, rank());
  Work work;
  std::thread([&] { work = all_reduce_async(x, ReduceOp::sum, group); }).join();
  std::thread([&] { work.wait(); }).join();
  EXPECT_EQ(difference(x, sums<float>(100, world_size())), "");
}

// The work around a call's operation may fail on one rank alone, for want of memory, say: the others do not wait for it.
WORLD_TEST_IN(poisoned, Failure, AFailureAroundAnOperationOfOneRankReachesAll) {
  class Failing final : public detail::PrologueEpilogue {
   public:
    void prologue() override {
      if (rank() == 1) throw std::bad_alloc();
    }
    void epilogue() override {}
    std::string_view terms() const override { return "nothing"; }
  };
  const bool blocking = world_size() % 2 == 1;
  std::array<float, 3> x{};
  detail::Request request{Operation::all_reduce, detail::view_of(x), detail::view_of(x)};
  request.label = "around";
  request.edges = std::make_shared<Failing>();
  const auto call = [&] {
    if (blocking) detail::run(request, world(), {});
    else detail::start(request, world(), {}).wait();
  };
  if (rank() == 1) {
    EXPECT_THROW(call(), std::bad_alloc);
  } else {
    const auto failure = thrown_by<PeerFailed>(call);
    EXPECT_EQ(failure.culprit(), 1);
    EXPECT_EQ(failure.operation(), "around");
  }
  EXPECT_THROW(barrier(), PeerFailed);
}

}  // namespace
