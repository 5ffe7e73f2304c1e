// Everything that NCCL and the CUDA runtime may answer, as it reaches the program: typed, and naming whom it is about.

#include <atomic>

#include "covers.h"
#include "fake_ranks.h"
#include "unisono/cuda.h"

using namespace unisono;
using fake::CudaError;
using fake::DeviceArray;
using fake::on_making;
using fake::on_ranks;
using fake::Result;
using fake::thrown_by;
using namespace std::chrono_literals;

namespace {

constexpr Result all_results[] = {Result::unhandled_cuda_error, Result::system_error,  Result::internal_error,
                                  Result::invalid_argument,     Result::invalid_usage, Result::remote_error};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- making a communicator ----------------------------------------------------------------------------------------------------------------

TEST(Making, fails_on_one_rank) {
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
TEST(Making, fails_in_the_background) {
  for (const Result result : all_results) {
    fake::reset(2);
    fake::in_progress("ncclCommInitRankConfig", 3, result, {.rank = 0});
    const auto texts = on_making({.count = 2});
    EXPECT_TRUE(has(texts[0], "NCCL failed in the background")) << texts[0];
    EXPECT_TRUE(texts[1].empty() || has(texts[1], "rank 0 cannot make")) << texts[1];  // NCCL may be through with it there
  }
}
TEST(Making, a_device_for_each_rank_is_asked_for) {
  fake::reset(2);
  fake::answer("ncclCommInitRankConfig", Result::invalid_usage);
  fake::answer("ncclCommInitRankConfig", Result::invalid_usage);
  for (const auto& text : on_making({.count = 2})) EXPECT_TRUE(has(text, "NCCL_MULTI_RANK_GPU_ENABLE")) << text;
}
TEST(Making, has_no_identity) {
  fake::reset(2);
  fake::answer("ncclGetUniqueId", Result::system_error);
  const auto texts = on_making({.count = 2});
  EXPECT_TRUE(has(texts[0], "ncclGetUniqueId")) << texts[0];
  EXPECT_TRUE(has(texts[1], "rank 0 cannot make")) << texts[1];
}
TEST(Making, a_cuda_call_fails) {
  for (const char* function : {"cudaStreamCreateWithFlags", "cudaGetDevice", "cudaSetDevice"}) {
    fake::reset(2);
    // Of rank 1, whose thread is on device 0 until it says otherwise.
    fake::answer(function, CudaError::memory_allocation, {.rank = std::string(function) == "cudaStreamCreateWithFlags" ? 1 : -1});
    const auto texts = on_making({.count = 2});
    EXPECT_TRUE(has(texts[0] + texts[1], function)) << texts[0] << texts[1];
    EXPECT_TRUE(has(texts[0] + texts[1], "as the test says")) << texts[0] << texts[1];
  }
}
TEST(Making, takes_for_ever) {
  fake::reset(2);
  fake::in_progress("ncclCommInitRankConfig", -1, Result::success, {.rank = 0});
  fake::in_progress("ncclCommInitRankConfig", -1, Result::success, {.rank = 1});
  for (const auto& text : on_making({.count = 2, .timeout = 1000ms})) {
    EXPECT_TRUE(has(text, "within 1000 ms")) << text;
    EXPECT_TRUE(has(text, "all ranks are there")) << text;
  }
}
TEST(Making, more_ranks_than_devices) {
  fake::reset(2);
  const auto texts = on_making({.count = 3, .devices = 2, .timeout = 1000ms});
  EXPECT_TRUE(has(texts[2], "local rank 2 has no device of its own")) << texts[2];
  for (const int r : {0, 1}) EXPECT_TRUE(has(texts[static_cast<std::size_t>(r)], "rank 2 did not come")) << texts[static_cast<std::size_t>(r)];
}

// ---- a call ----------------------------------------------------------------------------------------------------------------------------------

/// What a call that fails on rank 1 throws on each rank, and that the next one does so too.
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

TEST(Calls, fail_when_they_are_enqueued) {
  for (const char* function : {"ncclAllReduce", "ncclGroupEnd"}) {
    for (const Result result : all_results) {
      fake::reset(3);
      fake::answer(function, result, {.rank = 1});
      expect_failure(std::string("rank 1: ") + function,
                     [](const ProcessGroup& group, const DeviceArray<int>& x) { all_reduce(x.view(), ReduceOp::sum, group); });
    }
  }
}
TEST(Calls, of_every_function_fail) {
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
       [](const ProcessGroup& group, const DeviceArray<int>& x) { all_to_all(x.view(), DeviceArray<int>(group.rank(), 3).view(), group); }}};
  for (const auto& [function, call] : calls) {
    fake::reset(3);
    fake::answer(function, Result::internal_error, {.rank = 1});
    expect_failure(function, call);
  }
}
TEST(Calls, of_the_runtime_fail) {
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
  expect_failure("cudaStreamWaitEvent", call);
  fake::reset(3);
  fake::answer("cudaMemcpyAsync", CudaError::launch_failure, {.rank = 1});
  expect_failure("cudaMemcpyAsync",
                 [](const ProcessGroup& group, const DeviceArray<int>& x) { all_to_all(x.view(), DeviceArray<int>(group.rank(), 3).view(), group); });
}
// The group knows nothing of the program's own stream.
TEST(Calls, the_current_stream_cannot_wait) {
  fake::reset(2);
  fake::answer("cudaStreamWaitEvent", CudaError::invalid_value, {.rank = 1, .skip = 1});
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    if (group.rank() == 1) {
      EXPECT_TRUE(has(thrown_by<Error>([&] { all_reduce(x.view(), ReduceOp::sum, group); }).what(), "cudaStreamWaitEvent"));
    } else {
      all_reduce(x.view(), ReduceOp::sum, group);
    }
    barrier(group);
  });
}
TEST(Calls, fail_in_the_background_while_they_are_enqueued) {
  for (const Result result : all_results) {
    fake::reset(3);
    fake::in_progress("ncclGroupEnd", 5, result, {.rank = 1});
    expect_failure("rank 1: NCCL failed in the background",
                   [](const ProcessGroup& group, const DeviceArray<int>& x) { all_reduce(x.view(), ReduceOp::sum, group); });
  }
}
TEST(Calls, are_in_progress_for_a_while) {
  fake::reset(3);
  for (int r = 0; r < 3; ++r) fake::in_progress("ncclGroupEnd", 20 * r + 1, Result::success, {.rank = r});
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    all_reduce(x.view(), ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{3, 6}));
  });
}

// The device had it already: nobody waits in a call, and the group is over all the same.
TEST(Calls, fail_when_the_device_has_them) {
  for (const Result result : all_results) {
    fake::reset(2);
    on_ranks({.count = 2}, [&](const ProcessGroup& group) {
      const DeviceArray<int> x(group.rank(), {1, 2});
      barrier(group);
      if (group.rank() == 0) fake::stall(true);
      barrier(group);
      Work work = all_reduce_async(x.view(), ReduceOp::sum, group);
      work.wait();
      barrier(group);
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
TEST(Calls, the_device_fails) {
  fake::reset(2);
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 0) fake::stall(true);
    barrier(group);
    Work work = all_reduce_async(x.view(), ReduceOp::sum, group);
    work.wait();
    barrier(group);
    if (group.rank() == 1) fake::answer("cudaEventQuery", CudaError::illegal_address);  // whoever asks next has it
    EXPECT_THROW(work.wait_for(20s), PeerFailed);
    EXPECT_TRUE(has(thrown_by<PeerFailed>([&] { barrier(group); }).what(), "illegal memory access"));
    if (group.rank() == 0) fake::stall(false);
  });
}

TEST(Calls, never_get_to_the_device) {
  fake::reset(2);
  fake::in_progress("ncclGroupEnd", -1, Result::success, {.rank = 1});
  on_ranks({.count = 2, .timeout = 20s}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    const CallOptions soon{.timeout = 1s};
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
TEST(Calls, never_end_on_the_device) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 0) fake::stall(true);
    barrier(group);
    Work work = all_reduce_async(x.view(), ReduceOp::sum, group, {.timeout = 1s});
    work.wait();
    EXPECT_THROW(work.wait_for(20s), Timeout);  // the communicator is aborted, or the device would be at it for ever
    EXPECT_THROW(barrier(group), Timeout);
    fake::stall(false);
  });
  EXPECT_GE(fake::calls("ncclCommAbort"), 2);
}
TEST(Calls, abort_while_one_is_under_way) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    ProcessGroup own = group;
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 0) fake::stall(true);
    barrier(group);
    Work work = all_reduce_async(x.view(), ReduceOp::sum, group);
    work.wait();
    barrier(group);
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
TEST(Calls, a_rank_does_not_come) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 2) {
      std::vector<int> none(1);
      thrown_by<Timeout>([&] { recv(none, 0, group); });  // until the others have given up
      return;
    }
    const auto late = thrown_by<Timeout>([&] { all_reduce(x.view(), ReduceOp::sum, group, {.timeout = 1s}); });
    EXPECT_EQ(late.missing(), std::vector<int>{2}) << late.what();
  });
  EXPECT_EQ(fake::calls("ncclAllReduce"), 0);
}

TEST(Calls, that_differ_are_a_mismatch_and_nothing_is_moved) {
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

// ---- messages ------------------------------------------------------------------------------------------------------------------------------

TEST(Messages, their_communicator_cannot_be_made) {
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
TEST(Messages, fail_when_they_are_enqueued) {
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

TEST(Leaving, is_orderly) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    all_reduce(x.view(), ReduceOp::sum, group);
  });
  EXPECT_EQ(fake::calls("ncclCommDestroy"), 2);
  EXPECT_EQ(fake::calls("ncclCommAbort"), 0);
}
TEST(Leaving, aborts_what_does_not_end) {
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
TEST(AtNeed, costs_nothing_until_it_is_used) {
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
TEST(Binding, a_rank_has_its_device_current) {
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
TEST(Binding, comes_before_the_others) {
  fake::reset(2);
  fake::answer("cudaSetDevice", fake::CudaError::invalid_device);
  fake::answer("cudaSetDevice", fake::CudaError::invalid_device);
  for (const auto& text : on_making({.count = 2})) EXPECT_TRUE(has(text, "cudaSetDevice") || has(text, "cannot make its NCCL communicator")) << text;
  EXPECT_EQ(fake::calls("ncclGetUniqueId"), 0);
}

}  // namespace
