// A thread that the system does not give: an error of ours where it was asked for, nothing begun, and the peers are told.
#include <gtest/gtest.h>

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <vector>

#include "failing_calls.h"
#include "unisono/launch.h"
#include "unisono/unisono.h"

using namespace unisono;

namespace unisono::testing {
namespace {

/// The last rank's first thread fails; the others call the same without one, and hear of it.
void expect_refused(const std::function<void(std::vector<double>&)>& asynchronous, const std::function<void(std::vector<double>&)>& blocking) {
  run_threads(3, [&](int rank) {
    const std::vector<double> before{1.0 + rank, 2.0 + rank};
    std::vector<double> buffer = before;
    const int last = world_size() - 1;
    barrier();
    if (rank == last) {
      arm("pthread_create", 1, EAGAIN);
      for (int call = 0; call < 3; ++call) {  // the first one says why; later ones say that the group is over
        try {
          asynchronous(buffer);
          ADD_FAILURE() << "call " << call << " went through";
        } catch (const PeerFailed& error) {
          EXPECT_EQ(error.culprit(), last) << error.what();
          EXPECT_GT(call, 0) << error.what();
        } catch (const Error& error) {
          EXPECT_EQ(call, 0) << error.what();
          EXPECT_NE(error.message().find("cannot be started"), std::string::npos) << error.what();
          EXPECT_NE(error.operation(), "");
          EXPECT_EQ(error.rank(), last);
        }
      }
      EXPECT_TRUE(has_struck());
      arm("pthread_create", 0, 0);
      EXPECT_EQ(buffer, before);
    } else {
      try {
        blocking(buffer);
        ADD_FAILURE() << "went through on rank " << rank;
      } catch (const PeerFailed& error) {
        EXPECT_EQ(error.culprit(), last) << error.what();
        EXPECT_EQ(error.cause(), PeerFailed::aborted);
      }
    }
  });
}

TEST(FailingThreads, NothingOfAnAsynchronousCollectiveIsBegun) {
  expect_refused([](std::vector<double>& buffer) { all_reduce_async(buffer).wait(); }, [](std::vector<double>& buffer) { all_reduce(buffer); });
}

TEST(FailingThreads, NothingOfAnAsynchronousReceiveIsBegun) {
  expect_refused([](std::vector<double>& buffer) { irecv(buffer, 0).wait(); },
                 [](std::vector<double>& buffer) {
                   if (rank() == 0) send(buffer, world_size() - 1);  // leaves its sender's hands at once
                   recv(buffer, world_size() - 1);
                 });
}

TEST(FailingThreads, RanksThatCannotAllBeStartedDoNotBegin) {
  for (int nth = 1; nth <= 4; ++nth) {
    std::atomic<int> begun = 0;
    arm("pthread_create", nth, EAGAIN);
    try {
      run_threads(4, [&] {
        ++begun;
        barrier();
      });
      ADD_FAILURE() << nth;
    } catch (const Error& error) {
      EXPECT_EQ(error.operation(), "run_threads");
      EXPECT_NE(error.message().find("rank " + std::to_string(nth - 1) + " of 4 cannot be started"), std::string::npos) << error.what();
    }
    EXPECT_EQ(begun, 0);
  }
  arm("pthread_create", 0, 0);
  EXPECT_EQ(run_threads(4, [] { return all_reduce(1); }), std::vector<int>(4, 4));
}

// Programs wait for signals in them, and start processes that inherit the mask.
TEST(FailingThreads, RanksTakeTheSignalsOfWhoStartedThem) {
  sigset_t before;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  run_threads(2, [&] {
    sigset_t mine;
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &mine), 0);
    for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(::sigismember(&mine, signal), ::sigismember(&before, signal)) << signal;
  });
}

}  // namespace
}  // namespace unisono::testing
