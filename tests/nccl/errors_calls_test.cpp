// Failures of calls: every answer of NCCL and of the CUDA runtime reaches the program typed, and names the rank it is about.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "errors_testing.h"
#include "unisono/cuda.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

/// A call that fails on rank 1 throws this on each rank, and so does the next one.
void expect_failure(const std::string& part, const std::function<void(const ProcessGroup&, const DeviceArray<int>&)>& call, int culprit = 1) {
  on_ranks({.count = 3}, [&](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2, 3});
    const auto error = thrown_by<PeerFailed>([&] {
      call(group, x);
      for (;;) all_reduce(x.view(), ReduceOp::sum, group);  // the others may be through with theirs, and learn it from a later one
    });
    EXPECT_TRUE(has(error.what(), part)) << error.what();
    EXPECT_EQ(error.culprit(), culprit) << error.what();
    EXPECT_EQ(error.cause(), PeerFailed::aborted);
    thrown_by<PeerFailed>([&] { all_reduce(x.view(), ReduceOp::sum, group); });
    std::vector<int> host{1};
    thrown_by<PeerFailed>([&] { all_reduce(host, ReduceOp::sum, group); });  // a failure of either is one of both
  });
}

TEST(Calls, CallsFailWhenTheyAreEnqueued) {
  for (const Result result : all_results) {
    fake::reset(3);
    fake::answer("ncclAllReduce", result, {.rank = 1});
    expect_failure("rank 1: ncclAllReduce", [](const ProcessGroup& group, const DeviceArray<int>& x) { all_reduce(x.view(), ReduceOp::sum, group); });
  }
}
// A graph would repeat the call without the agreement of the ranks.
TEST(Calls, CallsOnAStreamThatIsCapturedAreUnsupportedAndLeaveTheGroupUsable) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2, 3});
    const auto expect_refusal = [&](const std::function<void()>& call) {
      const auto error = thrown_by<Unsupported>(call);
      EXPECT_TRUE(has(error.what(), "is being captured into a graph")) << error.what();
    };
    int own_stream = 0;  // its address stands for a stream, which nobody uses
    fake::capture(&own_stream, true);
    {
      const CurrentStream current(&own_stream);
      expect_refusal([&] { all_reduce(x.view(), ReduceOp::sum, group); });
      expect_refusal([&] { static_cast<void>(all_reduce_async(x.view(), ReduceOp::sum, group)); });
      expect_refusal([&] { send(x.view(), 1 - group.rank(), group); });
      expect_refusal([&] { all_reduce_params(std::vector{x.view()}, {}, group); });
      std::vector<int> host{1};
      all_reduce(host, ReduceOp::sum, group);  // of the host's memory
      EXPECT_EQ(host[0], 2);
    }
    all_reduce(x.view(), ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{2, 4, 6}));
  });
  fake::reset(1);
  on_ranks({.count = 1}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(0, {1, 2, 3});
    fake::answer("cudaStreamIsCapturing", CudaError::stream_capture_implicit);  // another stream is captured, which waits for the default one
    EXPECT_THROW(all_reduce(x.view(), ReduceOp::sum, group), Unsupported);
  });
}
TEST(Calls, CallsOfEveryFunctionFail) {
  using Call = std::function<void(const ProcessGroup&, const DeviceArray<int>&)>;
  const std::vector<std::pair<const char*, Call>> calls{
      {"ncclReduce", [](const ProcessGroup& group, const DeviceArray<int>& x) { reduce(x.view(), 0, ReduceOp::sum, group); }},
      {"ncclBroadcast", [](const ProcessGroup& group, const DeviceArray<int>& x) { broadcast(x.view(), 0, group); }},
      {"ncclAllGather",
       [](const ProcessGroup& group, const DeviceArray<int>& x) { all_gather(x.view(0, 1), DeviceArray<int>(group.rank(), 3).view(), group); }},
      {"ncclReduceScatter",
       [](const ProcessGroup& group, const DeviceArray<int>& x) {
         reduce_scatter(x.view(), DeviceArray<int>(group.rank(), 1).view(), ReduceOp::sum, group);
       }},
      {"ncclSend",
       [](const ProcessGroup& group, const DeviceArray<int>& x) { all_to_all(x.view(), DeviceArray<int>(group.rank(), 3).view(), group); }},
      {"ncclRecv",
       [](const ProcessGroup& group, const DeviceArray<int>& x) { all_to_all(x.view(), DeviceArray<int>(group.rank(), 3).view(), group); }},
      {"ncclGroupEnd",
       [](const ProcessGroup& group, const DeviceArray<int>& x) { all_to_all(x.view(), DeviceArray<int>(group.rank(), 3).view(), group); }}};
  for (const auto& [function, call] : calls) {
    fake::reset(3);
    fake::answer(function, Result::internal_error, {.rank = 1});
    expect_failure(function, call);
  }
}
TEST(Calls, CallsOfTheRuntimeFail) {
  const auto call = [](const ProcessGroup& group, const DeviceArray<int>& x) { all_reduce(x.view(), ReduceOp::sum, group); };
  for (const char* function : {"cudaEventCreateWithFlags", "cudaEventRecord"}) {
    for (const int skip : {0, 1}) {  // where the call begins, and where it is enqueued
      fake::reset(3);
      fake::answer(function, CudaError::launch_failure, {.rank = 1, .skip = skip});
      expect_failure(function, call);
    }
  }
  fake::reset(3);
  fake::answer("cudaStreamWaitEvent", CudaError::launch_failure, {.rank = 1});
  expect_failure("cudaStreamWaitEvent",
                 [](const ProcessGroup& group, const DeviceArray<int>& x) { all_reduce_async(x.view(), ReduceOp::sum, group).wait(); });
  fake::reset(3);
  fake::answer("cudaMemcpyAsync", CudaError::launch_failure, {.rank = 1});
  expect_failure("cudaMemcpyAsync",
                 [](const ProcessGroup& group, const DeviceArray<int>& x) { all_to_all(x.view(), DeviceArray<int>(group.rank(), 3).view(), group); });
}
// The group knows nothing of the program's own stream.
TEST(Calls, TheCurrentStreamCannotWait) {
  fake::reset(2);
  fake::answer("cudaStreamWaitEvent", CudaError::invalid_value, {.rank = 1, .skip = 1});
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    if (group.rank() == 1) {
      Work work = all_reduce_async(x.view(), ReduceOp::sum, group);
      EXPECT_TRUE(has(thrown_by<Error>([&] { work.wait(); }).what(), "cudaStreamWaitEvent"));
    } else {
      all_reduce(x.view(), ReduceOp::sum, group);
    }
    barrier(group);
  });
}
TEST(Calls, CallsFailInTheBackgroundWhileTheyAreEnqueued) {
  for (const Result result : all_results) {
    fake::reset(3);
    fake::in_progress("ncclGroupEnd", 5, result, {.rank = 1});
    expect_failure("rank 1: NCCL failed in the background",
                   [](const ProcessGroup& group, const DeviceArray<int>& x) { all_reduce(x.view(), ReduceOp::sum, group); });
  }
}
TEST(Calls, CallsAreInProgressForAWhile) {
  fake::reset(3);
  for (int r = 0; r < 3; ++r) fake::in_progress("ncclGroupEnd", 20 * r + 1, Result::success, {.rank = r});
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    all_reduce(x.view(), ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{3, 6}));
  });
}

/// A reduction that the stalled devices of all ranks have.
Work enqueue_on_stalled(const ProcessGroup& group, const DeviceArray<int>& x) {
  fake::stall_devices(group);
  Work work = all_reduce_async(x.view(), ReduceOp::sum, group);
  work.wait();
  barrier(group);
  return work;
}

// The device had it already: nobody waits in a call, and the group is over all the same.
TEST(Calls, CallsFailWhenTheDeviceHasThem) {
  for (const Result result : all_results) {
    fake::reset(2);
    on_ranks({.count = 2}, [&](const ProcessGroup& group) {
      const DeviceArray<int> x(group.rank(), {1, 2});
      Work work = enqueue_on_stalled(group, x);
      if (group.rank() == 0) {
        fake::break_communicators(1, result);
        fake::stall(false);
      }
      const auto error = thrown_by<PeerFailed>([&] { work.wait_for(20s); });
      EXPECT_TRUE(has(error.what(), "rank 1: NCCL failed in the background")) << error.what();
      EXPECT_EQ(error.culprit(), 1);
      EXPECT_TRUE(work.is_completed());
      EXPECT_NE(work.exception(), nullptr);
      thrown_by<PeerFailed>([&] { barrier(group); });
    });
  }
}
TEST(Calls, ADeviceThatFailsEndsTheCall) {
  fake::reset(2);
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    Work work = enqueue_on_stalled(group, x);
    if (group.rank() == 1) fake::answer("cudaEventQuery", CudaError::illegal_address);  // whoever asks next has it
    EXPECT_THROW(work.wait_for(20s), PeerFailed);
    EXPECT_TRUE(has(thrown_by<PeerFailed>([&] { barrier(group); }).what(), "illegal memory access"));
    if (group.rank() == 0) fake::stall(false);
  });
}

TEST(Calls, CallsNeverGetToTheDevice) {
  fake::reset(2);
  fake::in_progress("ncclGroupEnd", -1, Result::success, {.rank = 1});
  on_ranks({.count = 2, .timeout = 20s}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    const CallOptions soon{.timeout = 3s};
    barrier(group);
    if (group.rank() == 1) {
      const auto late = thrown_by<Timeout>([&] { all_reduce(x.view(), ReduceOp::sum, group, soon); });
      EXPECT_TRUE(has(late.what(), "waiting for the device")) << late.what();
    } else {
      Work work = all_reduce_async(x.view(), ReduceOp::sum, group, soon);
      EXPECT_THROW(
          {
            work.wait();
            work.wait_for(20s);
          },
          Timeout);
    }
    EXPECT_THROW(barrier(group), Timeout);
  });
}
TEST(Calls, CallsNeverEndOnTheDevice) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    fake::stall_devices(group);
    Work work = all_reduce_async(x.view(), ReduceOp::sum, group, {.timeout = 3s});
    work.wait();
    EXPECT_THROW(work.wait_for(20s), Timeout);  // the communicator is aborted, or the device would be at it for ever
    EXPECT_THROW(barrier(group), Timeout);
    fake::stall(false);
  });
  EXPECT_GE(fake::calls("ncclCommAbort"), 2);
}
TEST(Calls, AnAbortEndsTheCallThatIsUnderWay) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    ProcessGroup own = group;
    const DeviceArray<int> x(group.rank(), {1, 2});
    Work work = enqueue_on_stalled(group, x);
    if (group.rank() == 0) {
      own.abort("enough");
      fake::stall(false);
    }
    const auto error = thrown_by<PeerFailed>([&] { work.wait_for(20s); });
    EXPECT_TRUE(has(error.what(), "enough")) << error.what();
    EXPECT_EQ(error.culprit(), 0);
  });
}
// A rank that does not come is named, as on the host: NCCL has not been asked yet.
TEST(Calls, ARankThatDoesNotComeIsNamed) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 2) {
      std::vector<int> none(1);
      thrown_by<Timeout>([&] { recv(none, 0, group); });  // until the others have given up
      return;
    }
    const auto late = thrown_by<Timeout>([&] { all_reduce(x.view(), ReduceOp::sum, group, {.timeout = 3s}); });
    EXPECT_EQ(late.missing(), std::vector<int>{2}) << late.what();
  });
  EXPECT_EQ(fake::calls("ncclAllReduce"), 0);
}

TEST(Calls, CallsThatDifferAreAMismatchAndNothingIsMoved) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {1, 2, 3, 4});
    const DeviceArray<float> y(me, {1, 2, 3, 4});
    std::vector<int> host{1, 2, 3, 4};
    const auto differ = [&](const std::function<void()>& mine, const std::function<void()>& theirs) { thrown_by<Mismatch>(me == 0 ? mine : theirs); };
    const auto sum = [&] { all_reduce(x.view(), ReduceOp::sum, group); };
    differ(sum, [&] { all_reduce(y.view(), ReduceOp::sum, group); });
    differ(sum, [&] { all_reduce(x.view(), ReduceOp::max, group); });
    differ(sum, [&] { all_reduce(x.view(0, 3), ReduceOp::sum, group); });
    differ(sum, [&] { all_reduce(host, ReduceOp::sum, group); });
    differ(sum, [&] { broadcast(x.view(), 0, group); });
    differ([&] { broadcast(x.view(), 0, group); }, [&] { broadcast(x.view(), 1, group); });
    const auto exchange = [&](std::size_t sends, std::size_t receives) {
      const std::vector<std::size_t> send_counts{sends, sends}, recv_counts{sends, receives};
      std::vector<std::size_t> mine = recv_counts;
      if (me == 1) mine = {receives, sends};
      const DeviceArray<int> out(me, sends + receives);
      all_to_all_v(x.view(0, 2 * sends), send_counts, out.view(), mine, group);
    };
    const auto counts = thrown_by<Mismatch>([&] { exchange(1, 2); });
    EXPECT_TRUE(has(counts.what(), "which expects 2")) << counts.what();
    EXPECT_EQ(x.values(), (std::vector<int>{1, 2, 3, 4}));
    sum();
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{2, 4, 6, 8}));
  });
}

}  // namespace
