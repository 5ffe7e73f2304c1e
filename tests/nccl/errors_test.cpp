// Failures while communicators are made and ended: every answer of NCCL and of the CUDA runtime, typed, and naming the rank it is about. And the
// device that a rank is bound to. errors_calls_test.cpp has the failures of calls.

#include <functional>
#include <string>
#include <vector>

#include "covers.h"
#include "errors_testing.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

// ---- making a communicator ----------------------------------------------------------------------------------------------------------------

TEST(Making, ACommunicatorThatFailsOnOneRankFailsOnAll) {
  for (const char* function : {"ncclCommInitRankConfig", "ncclCommGetAsyncError"}) {
    for (const Result result : all_results) {
      fake::reset(3);
      fake::answer(function, result, {.rank = 1});
      const auto texts = on_making({.count = 3});
      EXPECT_TRUE(has(texts[1], "nccl cannot make a communicator of 3 ranks on cuda:1")) << texts[1];
      EXPECT_TRUE(has(texts[1], function)) << texts[1];
      EXPECT_TRUE(has(texts[1], "the last words of NCCL")) << texts[1];
      for (const int r : {0, 2}) {
        const std::string& text = texts[static_cast<std::size_t>(r)];
        const bool may_be_through = std::string(function) == "ncclCommGetAsyncError" && text.empty();
        EXPECT_TRUE(may_be_through || has(text, "rank 1 cannot make its NCCL communicator")) << text;
      }
    }
  }
}
TEST(Making, ACommunicatorThatFailsInTheBackgroundIsAnError) {
  for (const Result result : all_results) {
    fake::reset(2);
    fake::in_progress("ncclCommInitRankConfig", 3, result, {.rank = 0});
    const auto texts = on_making({.count = 2});
    EXPECT_TRUE(has(texts[0], "NCCL failed in the background")) << texts[0];
    EXPECT_TRUE(texts[1].empty() || has(texts[1], "rank 0 cannot make")) << texts[1];  // NCCL may be through with it there
  }
}
TEST(Making, ADeviceForEachRankIsAskedFor) {
  fake::reset(2);
  fake::answer("ncclCommInitRankConfig", Result::invalid_usage);
  fake::answer("ncclCommInitRankConfig", Result::invalid_usage);
  for (const auto& text : on_making({.count = 2})) EXPECT_TRUE(has(text, "NCCL_MULTI_RANK_GPU_ENABLE")) << text;
}
TEST(Making, ACommunicatorWithoutIdentityIsAnError) {
  fake::reset(2);
  fake::answer("ncclGetUniqueId", Result::system_error);
  const auto texts = on_making({.count = 2});
  EXPECT_TRUE(has(texts[0], "ncclGetUniqueId")) << texts[0];
  EXPECT_TRUE(has(texts[1], "rank 0 cannot make")) << texts[1];
}
TEST(Making, ACudaCallThatFailsIsNamed) {
  for (const char* function : {"cudaStreamCreateWithFlags", "cudaGetDevice", "cudaSetDevice"}) {
    fake::reset(2);
    // The stream is rank 1's, whose thread is on device 0 until it says otherwise.
    fake::answer(function, CudaError::memory_allocation, {.rank = std::string(function) == "cudaStreamCreateWithFlags" ? 1 : -1});
    const auto texts = on_making({.count = 2});
    EXPECT_TRUE(has(texts[0] + texts[1], function)) << texts[0] << texts[1];
    EXPECT_TRUE(has(texts[0] + texts[1], "as the test says")) << texts[0] << texts[1];
  }
}
TEST(Making, ACommunicatorThatTakesForEverIsATimeout) {
  fake::reset(2);
  fake::in_progress("ncclCommInitRankConfig", -1, Result::success, {.rank = 0});
  fake::in_progress("ncclCommInitRankConfig", -1, Result::success, {.rank = 1});
  for (const auto& text : on_making({.count = 2, .timeout = 3000ms})) {
    EXPECT_TRUE(has(text, "within 3000 ms")) << text;
    EXPECT_TRUE(has(text, "all ranks are there")) << text;
  }
}
TEST(Making, MoreRanksThanDevicesAreRefused) {
  fake::reset(2);
  const auto texts = on_making({.count = 3, .devices = 2, .timeout = 3000ms});
  EXPECT_TRUE(has(texts[2], "local rank 2 has no device of its own")) << texts[2];
  for (const int r : {0, 1}) EXPECT_TRUE(has(texts[static_cast<std::size_t>(r)], "rank 2 did not come")) << texts[static_cast<std::size_t>(r)];
}

// ---- messages ------------------------------------------------------------------------------------------------------------------------------

TEST(Messages, AMessageFailsWhereItsCommunicatorCannotBeMade) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 0) fake::answer("ncclCommInitRankConfig", Result::system_error, {.rank = 1});  // of the receiver
    barrier(group);
    const auto error = thrown_by<PeerFailed>([&] {
      if (group.rank() == 0) send(x.view(), 1, group);
      else recv(x.view(), 0, group);
    });
    EXPECT_TRUE(has(error.what(), "ncclCommInitRankConfig")) << error.what();
    EXPECT_EQ(error.culprit(), 1);
  });
}
TEST(Messages, MessagesFailWhenTheyAreEnqueued) {
  for (const char* function : {"ncclSend", "ncclRecv"}) {
    fake::reset(2);
    fake::answer(function, Result::remote_error);
    on_ranks({.count = 2}, [&](const ProcessGroup& group) {
      const DeviceArray<int> x(group.rank(), {1, 2});
      const auto error = thrown_by<PeerFailed>([&] {
        Work work = group.rank() == 0 ? isend(x.view(), 1, group) : irecv(x.view(), 0, group);
        work.wait_for(20s);
      });
      EXPECT_TRUE(has(error.what(), function)) << error.what();
    });
  }
}

// ---- the end --------------------------------------------------------------------------------------------------------------------------------

TEST(Leaving, LeavingIsOrderly) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    all_reduce(x.view(), ReduceOp::sum, group);
  });
  EXPECT_EQ(fake::calls("ncclCommDestroy"), 2);
  EXPECT_EQ(fake::calls("ncclCommAbort"), 0);
}
TEST(Leaving, LeavingAbortsWhatDoesNotEnd) {
  for (const auto& prepare :
       std::vector<std::function<void()>>{[] { fake::answer("ncclCommFinalize", Result::internal_error, {.rank = 1}); },
                                          [] { fake::in_progress("ncclCommFinalize", -1, Result::success, {.rank = 1}); },
                                          [] { fake::in_progress("ncclCommFinalize", 2, Result::remote_error, {.rank = 1}); }}) {
    fake::reset(2);
    prepare();
    on_ranks({.count = 2}, [](const ProcessGroup& group) { barrier(group); });
    EXPECT_EQ(fake::calls("ncclCommAbort"), 1);
  }
}

// An engine that nobody asked for by name is made when it is needed.
TEST(AtNeed, NcclAtNeedCostsNothingUntilItIsUsed) {
  COVERS("C-20", "Q-29");
  fake::reset(2);
  on_ranks({.count = 2, .at_need = true}, [](const ProcessGroup& group) {
    std::vector<int> host{1};
    all_reduce(host, ReduceOp::sum, group);
    EXPECT_EQ(fake::calls("ncclCommInitRankConfig"), 0);
    barrier(group);
    EXPECT_EQ(fake::current_device(), 0);  // nor is a device made current that the program may not want
    EXPECT_EQ(fake::calls("ncclCommInitRankConfig"), 0);
    barrier(group);
    const DeviceArray<int> x(group.rank(), {1, 2});
    all_reduce(x.view(), ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{2, 4}));
  });
}

// Bound before anybody is waited for, and to the only one that a process is shown.
TEST(Binding, ARankHasItsDeviceCurrent) {
  COVERS("Q-08", "Q-11", "K-37", "K-50");
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    EXPECT_EQ(fake::current_device(), group.rank());
    barrier(group);
    EXPECT_EQ(fake::current_device(), group.rank());
    const DeviceArray<int> x(group.rank(), {1});
    all_reduce(x.view(), ReduceOp::sum, group);
    EXPECT_EQ(fake::current_device(), group.rank());
  });
  fake::reset(1);
  on_ranks({.count = 2}, [](const ProcessGroup&) { EXPECT_EQ(fake::current_device(), 0); });
}
TEST(Binding, TheBoundDeviceComesBeforeTheOthers) {
  fake::reset(2);
  fake::answer("cudaSetDevice", fake::CudaError::invalid_device);
  fake::answer("cudaSetDevice", fake::CudaError::invalid_device);
  for (const auto& text : on_making({.count = 2})) EXPECT_TRUE(has(text, "cudaSetDevice") || has(text, "cannot make its NCCL communicator")) << text;
  EXPECT_EQ(fake::calls("ncclGetUniqueId"), 0);
}

}  // namespace
