// Work, streams and events as torch users expect them; memory.

#include "engines/device_memory.h"
#include "engines/nccl/runtime.h"
#include "covers.h"
#include "fake_ranks.h"
#include "unisono/cuda.h"
#include "unisono/device_runtime.h"

using namespace unisono;
using namespace fake;
using namespace std::chrono_literals;

namespace {

/// The device does nothing meanwhile.
struct Stalled {
  Stalled() { fake::stall(true); }
  ~Stalled() { fake::stall(false); }
};

/// A stream of the program's.
class OwnStream {
 public:
  explicit OwnStream(int device) : vendor_(fake::vendor()) {
    const engines::nccl::OnDevice on_device(*vendor_, device);
    vendor_->cuda.stream_create(&stream_, engines::nccl::stream_non_blocking);
  }
  ~OwnStream() { vendor_->cuda.stream_destroy(stream_); }
  operator void*() const { return stream_; }  // NOLINT(google-explicit-constructor)
  void copy(void* to, const void* from, std::size_t bytes) const {
    vendor_->cuda.memcpy_async(to, from, bytes, engines::nccl::MemcpyKind::automatic, stream_);
  }

 private:
  std::shared_ptr<const fake::Vendor> vendor_;
  engines::nccl::Stream stream_ = nullptr;
};

TEST(Asynchronous, WaitOrdersTheStreamAndNotTheHost) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const OwnStream stream(me);
    const CurrentStream current(stream);
    const DeviceArray<int> x(me, {me + 1, 10}), copy(me, 2);
    fake::stall_devices(group);
    Work work = all_reduce_async(x.view(), ReduceOp::sum, group);
    work.wait();  // the device does nothing, and the host goes on
    EXPECT_FALSE(work.is_completed());
    EXPECT_EQ(work.exception(), nullptr);
    EXPECT_FALSE(work.wait_for(1ms));
    stream.copy(copy.data(), x.data(), 2 * sizeof(int));  // behind the reduction
    EXPECT_EQ(x.values(), (std::vector<int>{me + 1, 10}));
    barrier(group);
    if (me == 0) fake::stall(false);
    EXPECT_TRUE(work.wait_for(20s));
    EXPECT_TRUE(work.is_completed());
    fake::synchronize();
    EXPECT_EQ(copy.values(), (std::vector<int>{3, 20}));
  });
}

// Work that was put on the stream before the call is done before it, whoever goes on with the call.
TEST(Asynchronous, TheCallWaitsForTheStream) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const OwnStream stream(me);
    const CurrentStream current(stream);
    const DeviceArray<int> source(me, {me + 1, 7}), x(me, 2);
    stream.copy(x.data(), source.data(), 2 * sizeof(int));
    Work first = all_reduce_async(x.view(), ReduceOp::sum, group);
    Work second = all_reduce_async(x.view(), ReduceOp::sum, group);
    second.wait();
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{6, 28}));
    EXPECT_TRUE(first.wait_for(20s));
  });
}

TEST(Asynchronous, BlockingCallsReturnWhenTheyAreEnqueued) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    fake::stall_devices(group);
    all_reduce(x.view(), ReduceOp::sum, group);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 2}));
    barrier(group);  // a barrier is the host's
    if (group.rank() == 0) fake::stall(false);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{2, 4}));
  });
}

TEST(Asynchronous, WaitAnyAndDroppedWorksAreInOrder) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2}), y(group.rank(), {3});
    static_cast<void>(all_reduce_async(x.view(), ReduceOp::sum, group));
    std::vector<Work> works{all_reduce_async(y.view(), ReduceOp::sum, group)};
    EXPECT_EQ(wait_any(works), 0U);
    EXPECT_EQ(x.values(), (std::vector<int>{2, 4}));  // on the same stream, before it
    EXPECT_EQ(y.values(), (std::vector<int>{6}));
  });
}

TEST(Streams, StreamsAreOfAThreadAndAScope) {
  COVERS("T-39");
  int a = 0, b = 0;
  EXPECT_EQ(current_stream(), nullptr);
  {
    const CurrentStream outer(&a);
    EXPECT_EQ(current_stream(), &a);
    {
      const CurrentStream inner(&b);
      EXPECT_EQ(current_stream(), &b);
    }
    EXPECT_EQ(current_stream(), &a);
  }
  set_current_stream(&b);
  EXPECT_EQ(current_stream(), &b);
  set_current_stream(nullptr);
}

TEST(Streams, SynchronizeSaysWhenItTakesTooLong) {
  fake::reset(4);  // the process's device is that of the first engine it had
  on_ranks({.count = 1}, [](const ProcessGroup&) {
    const Stalled stalled;
    const auto late = thrown_by<Timeout>([] { synchronize_stream(nullptr, 5ms); });
    EXPECT_NE(std::string(late.what()).find("5 ms"), std::string::npos) << late.what();
  });
}

TEST(Memory, TheMemoryInUseIsWhatTheDeviceSays) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<char> x(group.rank(), std::size_t{3} << 20);
    const auto memory = device_runtime()->memory({Device::Type::cuda, group.rank()});
    EXPECT_EQ(memory.used, std::size_t{3} << 20);
    EXPECT_EQ(memory.total, std::size_t{64} << 20);
  });
}

// This process's own, where the driver tells it from that of others on the same device.
TEST(Memory, TheMemoryInUseIsOfThisProcessWhereTheDriverTells) {
  COVERS("V-11", "K-56");
  fake::reset(2);
  fake::others(std::size_t{7} << 20);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const Device device{Device::Type::cuda, group.rank()};
    const DeviceArray<char> x(group.rank(), std::size_t{3 + static_cast<unsigned>(group.rank())} << 20);
    const auto memory = device_runtime()->memory(device);
    EXPECT_EQ(memory.used, std::size_t{10 + static_cast<unsigned>(group.rank())} << 20);
    EXPECT_EQ(memory.own, std::size_t{3 + static_cast<unsigned>(group.rank())} << 20);
    EXPECT_EQ(engines::device_memory_in_use(device), *memory.own);
  });
}
TEST(Memory, TheMemoryInUseIsOfAllProcessesWhereTheDriverDoesNotTell) {
  fake::reset(1);
  fake::others(std::size_t{7} << 20);
  static_cast<void>(fake::allocate(0, std::size_t{3} << 20));
  auto vendor = std::make_shared<engines::nccl::Vendor>(*fake::vendor());
  for (const bool lists_others_only : {false, true}) {
    vendor->nvml = lists_others_only ? fake::vendor()->nvml : engines::nccl::NvmlApi{};
    if (lists_others_only) {
      vendor->nvml.get_processes = [](engines::nccl::NvmlDevice, unsigned* count, engines::nccl::NvmlProcess* processes) {
        *count = 1;  // as in a container, whose processes the driver knows by other numbers
        processes[0] = {0, 5, 0, 0};
        return engines::nccl::NvmlResult::success;
      };
    }
    const auto memory = engines::nccl::CudaRuntime(vendor, 0).memory({Device::Type::cuda, 0});
    EXPECT_EQ(memory.own, std::nullopt);
    EXPECT_EQ(memory.used, std::size_t{10} << 20);
  }
}

}  // namespace
