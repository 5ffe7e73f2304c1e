// Work, streams and events as torch users expect them; messages; several devices in one process; memory.

#include <numeric>

#include "engines/device_memory.h"
#include "engines/nccl/runtime.h"
#include "covers.h"
#include "fake_ranks.h"
#include "unisono/cuda.h"
#include "unisono/device_runtime.h"

using namespace unisono;
using fake::DeviceArray;
using fake::on_ranks;
using fake::thrown_by;
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

TEST(Asynchronous, wait_orders_the_stream_and_not_the_host) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const OwnStream stream(me);
    const CurrentStream current(stream);
    const DeviceArray<int> x(me, {me + 1, 10}), copy(me, 2);
    barrier(group);
    if (me == 0) fake::stall(true);
    barrier(group);
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

// What was put on the stream before the call is done before it, whoever goes on with the call.
TEST(Asynchronous, the_call_waits_for_the_stream) {
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

TEST(Asynchronous, blocking_calls_return_when_they_are_enqueued) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), {1, 2});
    barrier(group);
    if (group.rank() == 0) fake::stall(true);
    barrier(group);
    all_reduce(x.view(), ReduceOp::sum, group);
    EXPECT_EQ(x.values(), (std::vector<int>{1, 2}));
    barrier(group);  // a barrier is the host's
    if (group.rank() == 0) fake::stall(false);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{2, 4}));
  });
}

TEST(Asynchronous, wait_any_and_dropped_works) {
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

TEST(Streams, are_of_a_thread_and_a_scope) {
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

TEST(Streams, synchronize_says_when_it_takes_too_long) {
  fake::reset(4);  // the process's device is that of the first engine it had
  on_ranks({.count = 1}, [](const ProcessGroup&) {
    const Stalled stalled;
    const auto late = thrown_by<Timeout>([] { synchronize_stream(nullptr, 5ms); });
    EXPECT_NE(std::string(late.what()).find("5 ms"), std::string::npos) << late.what();
  });
}

TEST(Memory, is_what_the_device_says) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const DeviceArray<char> x(group.rank(), std::size_t{3} << 20);
    const auto memory = device_runtime()->memory({Device::Type::cuda, group.rank()});
    EXPECT_EQ(memory.used, std::size_t{3} << 20);
    EXPECT_EQ(memory.total, std::size_t{64} << 20);
  });
}

// This process's own, where the driver tells it from that of others on the same device.
TEST(Memory, is_of_this_process_where_the_driver_tells) {
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
TEST(Memory, is_of_all_processes_where_the_driver_does_not_tell) {
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

// ---- messages -----------------------------------------------------------------------------------------------------------------------

// The tag of a message of device memory is told by its receive; how long it is, nobody tells before.
TEST(Messages, of_any_tag) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me, 7});
    if (me == 0) {
      isend(x.view(), 1, group, {.tag = -5}).wait();
      return;
    }
    const auto refused = thrown_by<Unsupported>([&] { static_cast<void>(probe(any_source, group, {.tag = any_tag})); });
    EXPECT_EQ(refused.culprit(), 0);
    Work work = irecv(x.view(), any_source, group, {.tag = any_tag});
    EXPECT_TRUE(work.wait_for(20s));
    EXPECT_EQ(work.tag(), -5);
    EXPECT_EQ(work.source_rank(), 0);
    EXPECT_EQ(x.values(), (std::vector<int>{0, 7}));
  });
}

TEST(Messages, by_tag_in_any_order_and_both_directions) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const int n = 3, me = group.rank(), next = (me + 1) % n, before = (me + n - 1) % n;
    const DeviceArray<int> a(me, {me, 1}), b(me, {me, 2, 2}), from_a(me, 2), from_b(me, 3);
    Work send_a = isend(a.view(), next, group, {.tag = 1}), send_b = isend(b.view(), next, group, {.tag = 2});
    // The second one is taken first.
    Work recv_b = irecv(from_b.view(), before, group, {.tag = 2});
    Work recv_a = irecv(from_a.view(), before, group, {.tag = 1});
    for (Work* work : {&send_a, &send_b, &recv_a, &recv_b}) EXPECT_TRUE(work->wait_for(20s));
    EXPECT_EQ(from_a.values(), (std::vector<int>{before, 1}));
    EXPECT_EQ(from_b.values(), (std::vector<int>{before, 2, 2}));
    EXPECT_EQ(recv_a.source_rank(), before);
  });
}

TEST(Messages, blocking_and_from_anybody) {
  fake::reset(3);
  on_ranks({.count = 3}, [](const ProcessGroup& group) {
    const int me = group.rank();
    if (me != 0) {
      const DeviceArray<int> x(me, {me});
      send(x.view(), 0, group);
    } else {
      int sum = 0;
      for (int i = 0; i < 2; ++i) {
        const DeviceArray<int> x(me, 1);
        const int source = recv(x.view(), any_source, group);
        fake::synchronize();
        EXPECT_EQ(x.values()[0], source);
        sum += source;
      }
      EXPECT_EQ(sum, 3);
    }
    // Host messages go beside them.
    std::vector<int> host{me};
    if (me == 1) send(host, 2, group);
    if (me == 2) {
      recv(host, 1, group);
      EXPECT_EQ(host[0], 1);
    }
  });
}

TEST(Messages, many_between_two) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    std::vector<DeviceArray<int>> out, in;
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) {
      out.emplace_back(me, std::vector<int>{me, i});
      in.emplace_back(me, std::size_t{2});
    }
    for (int i = 0; i < 50; ++i) {
      const auto k = static_cast<std::size_t>(i);
      works.push_back(isend(out[k].view(), 1 - me, group));
      works.push_back(irecv(in[k].view(), 1 - me, group));
    }
    for (Work& work : works) EXPECT_TRUE(work.wait_for(20s));
    for (int i = 0; i < 50; ++i) EXPECT_EQ(in[static_cast<std::size_t>(i)].values(), (std::vector<int>{1 - me, i}));
  });
}

TEST(Messages, that_do_not_fit_are_a_mismatch_on_both_sides) {
  fake::reset(2);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, {me, me, me});
    if (me == 0) {
      const auto error = thrown_by<Mismatch>([&] { send(x.view(), 1, group); });
      EXPECT_NE(std::string(error.what()).find("int32 x 3"), std::string::npos) << error.what();
    } else {
      const DeviceArray<int> other(me, 2);
      const auto error = thrown_by<Mismatch>([&] { recv(other.view(), 0, group); });
      EXPECT_NE(std::string(error.what()).find("rank 0 sent int32 x 3, but the receive is of int32 x 2"), std::string::npos) << error.what();
    }
    if (me == 0) send(x.view(), 1, group);
    else recv(x.view(), 0, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), (std::vector<int>{0, 0, 0}));
  });
}

// ---- several devices in a process -------------------------------------------------------------------------------------------------------

class SeveralDevices : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  void SetUp() override { fake::reset(GetParam().first * GetParam().second); }
  static std::vector<int> block(int participant, int count) {
    std::vector<int> x(static_cast<std::size_t>(count));
    std::iota(x.begin(), x.end(), 100 * (participant + 1));
    return x;
  }
  static std::vector<int> sum(int participants, int count) {
    std::vector<int> x(static_cast<std::size_t>(count));
    for (int p = 0; p < participants; ++p) {
      for (int i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] += block(p, count)[static_cast<std::size_t>(i)];
    }
    return x;
  }
};

TEST_P(SeveralDevices, take_part_each_for_itself) {
  const auto [ranks, len] = GetParam();
  on_ranks({.count = ranks}, [&, ranks = ranks, len = len](const ProcessGroup& group) {
    const int me = group.rank(), all = ranks * len;
    std::vector<DeviceArray<int>> memory;
    // Device j of rank k is k + j * ranks: the first is the rank's own.
    const auto make = [&](int count, bool filled) {
      std::vector<TensorView> views;
      for (int j = 0; j < len; ++j) {
        memory.emplace_back(me + j * ranks, filled ? block(me * len + j, count) : std::vector<int>(static_cast<std::size_t>(count)));
        views.push_back(memory.back().view());
      }
      return views;
    };
    const auto values = [](const TensorView& tensor) {
      const auto* data = static_cast<const int*>(tensor.data());
      return std::vector<int>(data, data + tensor.numel());
    };
    const auto settle = [&](const std::function<Work()>& start) { EXPECT_TRUE(start().wait_for(20s)); };

    auto x = make(5, true);
    settle([&] { return all_reduce_multigpu_async(x, ReduceOp::sum, group); });
    for (const TensorView& t : x) EXPECT_EQ(values(t), sum(all, 5));

    const int root = ranks - 1;
    x = make(5, true);
    settle([&] { return broadcast_multigpu_async(x, root, group); });
    for (const TensorView& t : x) EXPECT_EQ(values(t), block(root * len, 5));

    x = make(5, true);
    settle([&] { return reduce_multigpu_async(x, root, ReduceOp::sum, group); });
    for (int j = 0; j < len; ++j) {
      EXPECT_EQ(values(x[static_cast<std::size_t>(j)]), me == root && j == 0 ? sum(all, 5) : block(me * len + j, 5));
    }

    x = make(3, true);
    auto whole = make(3 * all, false);
    settle([&] { return all_gather_multigpu_async(whole, x, group); });
    for (const TensorView& t : whole) {
      for (int p = 0; p < all; ++p) {
        const auto got = values(t);
        EXPECT_EQ(std::vector<int>(got.begin() + 3 * p, got.begin() + 3 * p + 3), block(p, 3));
      }
    }

    whole = make(2 * all, true);
    x = make(2, false);
    settle([&] { return reduce_scatter_multigpu_async(x, whole, ReduceOp::sum, group); });
    for (int j = 0; j < len; ++j) {
      const auto expected = sum(all, 2 * all);
      const auto begin = expected.begin() + 2 * (me * len + j);
      EXPECT_EQ(values(x[static_cast<std::size_t>(j)]), std::vector<int>(begin, begin + 2));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(RanksAndDevices, SeveralDevices, ::testing::Values(std::pair(1, 2), std::pair(2, 1), std::pair(2, 2), std::pair(3, 2)));

TEST(SeveralDevicesRefusals, lists_that_do_not_fit) {
  fake::reset(4);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> a(me, {1, 2}), b(me + 2, {3, 4});
    std::vector<int> host(2);
    const std::vector<TensorView> mixed{a.view(), TensorView(host.data(), DType::int32, host.size())};
    thrown_by<InvalidArgument>([&] { all_reduce_multigpu(mixed, ReduceOp::sum, group); });
    // Lists of another length on one rank.
    const std::vector<TensorView> one{a.view()}, two{a.view(), b.view()};
    const auto mismatch = thrown_by<Mismatch>([&] { all_reduce_multigpu(me == 0 ? one : two, ReduceOp::sum, group); });
    EXPECT_NE(std::string(mismatch.what()).find("all_reduce_multigpu"), std::string::npos) << mismatch.what();
    all_reduce_multigpu(two, ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(a.values(), (std::vector<int>{8, 12}));
  });
}

}  // namespace
