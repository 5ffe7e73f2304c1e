// Blocking calls on device memory: past the queue where it is empty, in its order where it is not, and watched until the device is through.

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fake_ranks.h"
#include "group/progress/progress.h"
#include "group/progress/waiter.h"
#include "unisono/cuda.h"
#include "unisono/device_runtime.h"
#include "unisono/unisono.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Looks, during the next call of a function of NCCL, whether the queue of the calling rank is free: another thread can take its lock, which
/// everything in the queue is advanced under.
class QueueProbe {
 public:
  explicit QueueProbe(const std::string& function) {
    fake::during(function, [this] { look(); });
  }
  ~QueueProbe() {
    if (thread_.joinable()) thread_.join();
  }
  QueueProbe(const QueueProbe&) = delete;
  QueueProbe& operator=(const QueueProbe&) = delete;
  bool has_looked() const { return has_looked_; }
  bool was_free() const { return was_free_; }

 private:
  static constexpr std::chrono::seconds patience{20};
  void look() {
    has_looked_ = true;
    const auto progress = fake::progress();
    if (!progress) return;  // a thread of the library calls, on behalf of the queue
    thread_ = std::thread([this, progress] {
      progress->get_ready();
      is_through_ = true;
    });
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!is_through_ && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    was_free_ = is_through_.load();
  }

  std::thread thread_;
  std::atomic<bool> is_through_{false}, has_looked_{false}, was_free_{false};
};

TEST(BlockingCalls, BlockingCallsPassAnEmptyQueue) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {group.rank() + 1, 10});
    for (int round = 0; round < 2; ++round) {  // in the second the device may have the first
      barrier(group);
      std::optional<QueueProbe> probe;
      if (group.rank() == 0) probe.emplace("ncclAllReduce");
      barrier(group);
      all_reduce(x.view(), ReduceOp::sum, group);
      barrier(group);
      if (!probe) continue;
      EXPECT_TRUE(probe->has_looked());
      EXPECT_TRUE(probe->was_free());
    }
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{6, 40}));
  });
}

TEST(BlockingCalls, BlockingCallsOfMessagesPassAnEmptyQueue) {
  for (const char* function : {"ncclSend", "ncclRecv"}) {
    fake::reset(2);
    on_ranks({.count = 2}, [&](const ProcessGroup& group) {
      const DeviceArray<int> x(group.rank(), {group.rank() + 1, 10});
      std::optional<QueueProbe> probe;
      if (group.rank() == 0) probe.emplace(function);
      barrier(group);
      if (group.rank() == 0) send(x.view(), 1, group);
      else recv(x.view(), 0, group);
      barrier(group);
      EXPECT_TRUE(!probe || probe->was_free()) << function;
      fake::synchronize();
      EXPECT_EQ(x.values(), (std::vector<int>{1, 10}));
    });
  }
}

// The other rank comes late, so the first call is still in the queue when the second one is made.
TEST(BlockingCalls, BlockingCallsComeAfterWhatIsInTheQueue) {
  fake::reset(2);
  std::atomic<bool> is_queued{false};
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me + 1, me + 4});
    while (me == 1 && !is_queued) std::this_thread::yield();
    if (me == 1) std::this_thread::sleep_for(20ms);
    Work first = all_reduce_async(x.view(), ReduceOp::sum, group);
    is_queued = true;
    all_reduce(x.view(), ReduceOp::product, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{9, 81}));
    EXPECT_TRUE(first.wait_for(20s));
  });
}

// The first call has left the queue, and waits on the device for that of rank 1. A call through the host's memory must not read before it is through.
TEST(BlockingCalls, BlockingCallsThroughTheHostComeAfterWhatTheDeviceHas) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me + 1, 10 * me});
    barrier(group);
    if (me == 0) fake::stall_device(1, true);
    barrier(group);
    Work first = all_reduce_async(x.view(), ReduceOp::sum, group);
    while (fake::calls("ncclAllReduce") < 2) static_cast<void>(first.wait_for(1ms));
    std::jthread later;
    if (me == 0) {
      later = std::jthread([] {
        std::this_thread::sleep_for(50ms);
        fake::stall_device(1, false);
      });
    }
    all_reduce(x.view(), ReduceOp::avg, group);  // NCCL has no average of integers
    EXPECT_EQ(x.values(), (std::vector<int>{3, 10}));
    EXPECT_TRUE(first.wait_for(20s));
  });
}

/// A blocking call that the device has when it returns, and the error that ends the group afterwards.
template <class E>
void expect_late_error(const CallOptions& options, const std::function<void()>& happen, const std::function<void(const E&)>& check) {
  fake::reset(2);
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    stall_devices(group);
    all_reduce(x.view(), ReduceOp::sum, group, options);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 2}));
    barrier(group);
    if (group.rank() == 0) happen();
    const auto until = std::chrono::steady_clock::now() + 20s;
    check(thrown_by<E>([&] {
      while (std::chrono::steady_clock::now() < until) barrier(group);
    }));
    fake::stall(false);
  });
}

TEST(BlockingCalls, BlockingCallsFailWhenTheDeviceHasThem) {
  const auto fail = [] {
    fake::break_communicators(1, Result::internal_error);
    fake::stall(false);
  };
  expect_late_error<PeerFailed>({}, fail, [](const PeerFailed& error) {
    EXPECT_TRUE(has(error.what(), "rank 1: NCCL failed in the background")) << error.what();
    EXPECT_EQ(error.culprit(), 1);
  });
}

TEST(BlockingCalls, BlockingCallsNeverEndOnTheDevice) {
  expect_late_error<Timeout>(
      {.timeout = 4s}, [] {},
      [](const Timeout& late) {
        EXPECT_TRUE(has(late.what(), "all_reduce #")) << late.what();
        EXPECT_TRUE(has(late.what(), "within 4000 ms; waiting for the device")) << late.what();
      });
}

// Neither an event nor another stream lies between the caller's work and the operation, and events are used again.
TEST(BlockingCalls, BlockingCallsGoToTheStreamOfTheirCaller) {
  fake::reset(2);
  std::atomic<int> waits{-1};
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    const int me = group.rank();
    const auto own = device_runtime()->stream({.type = Device::Type::cuda, .index = me});
    const CurrentStream current(own->handle());
    const DeviceArray<int> x(me, {1, 0});
    for (int call = 0; call < 100; ++call) {
      barrier(group);
      if (call == 1 && me == 0) waits = fake::calls("cudaStreamWaitEvent");
      barrier(group);
      all_reduce(x.view(), ReduceOp::max, group);
    }
    barrier(group);
    if (me == 0) {
      EXPECT_EQ(fake::calls("cudaStreamWaitEvent"), waits);
      EXPECT_LE(fake::calls("cudaEventCreateWithFlags"), 2 * 33);  // of each rank's last calls, which it ends in rows
    }
    barrier(group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{1, 0}));
  });
}

// Of those that nobody waits for.
TEST(BlockingCalls, RowOfCallsSeldomAsksTheDevice) {
  fake::reset(1);
  on_ranks({.count = 1}, [&](const ProcessGroup& group) {
    const DeviceArray<int> x(0, {1, 0});
    all_reduce(x.view(), ReduceOp::max, group);
    const int before = fake::calls("cudaEventQuery");
    constexpr int calls = 160;
    [[maybe_unused]] const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) all_reduce(x.view(), ReduceOp::max, group);
      // The progress thread looks once in a period, which counts where a sanitizer makes the calls slow.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    const auto periods = (std::chrono::steady_clock::now() - begin) / group::unnotified_period;
#else
    constexpr int periods = 0;
#endif
    EXPECT_LT(fake::calls("cudaEventQuery") - before, calls / 2 + periods);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 0}));
  });
}

TEST(BlockingCalls, CallInPlaceAsksOnceWhereItsMemoryLies) {
  fake::reset(1);
  on_ranks({.count = 1}, [&](const ProcessGroup& group) {
    const DeviceArray<int> x(0, {1, 0});
    std::vector<int> host{1, 0};
    for (const std::span<int> range : {std::span(x.data(), 2), std::span(host)}) {
      const int before = fake::calls("cudaPointerGetAttributes");
      all_reduce(range, ReduceOp::max, group);
      EXPECT_EQ(fake::calls("cudaPointerGetAttributes"), before + 1);
    }
    EXPECT_EQ(fake::calls("ncclAllReduce"), 1);
  });
}

// The sum first, then the maximum, though the program has put neither stream behind the other.
TEST(BlockingCalls, BlockingCallsOnOneStreamComeBehindThoseOnAnother) {
  for (const bool first_is_async : {false, true}) {
    fake::reset(2);
    on_ranks({.count = 2}, [&](const ProcessGroup& group) {
      const int me = group.rank();
      const Device device{.type = Device::Type::cuda, .index = me};
      const auto one = device_runtime()->stream(device), other = device_runtime()->stream(device);
      const DeviceArray<int> x(me, {me + 1, 10});
      fake::stall_devices(group);
      Work work;
      {
        const CurrentStream current(one->handle());
        if (first_is_async) work = all_reduce_async(x.view(), ReduceOp::sum, group);
        else all_reduce(x.view(), ReduceOp::sum, group);
      }
      const CurrentStream current(other->handle());
      all_reduce(x.view(), ReduceOp::max, group);
      barrier(group);
      if (me == 0) fake::stall(false);
      fake::synchronize();
      EXPECT_EQ(x.values(), (std::vector<int>{3, 20}));
      if (first_is_async) {
        EXPECT_TRUE(work.wait_for(20s));
      }
    });
  }
}

}  // namespace
