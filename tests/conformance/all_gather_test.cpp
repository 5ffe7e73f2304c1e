#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>

#include "../unit/kernels/oracle.h"
#include "engines/shm/engine.h"
#include "covers.h"
#include "group/group.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

template <class T>
std::vector<T> all_values(std::size_t count) {
  std::vector<T> all;
  for (int r = 0; r < world_size(); ++r) {
    const auto block = values<T>(count, r);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

// An all_gather that fits at once takes one step, however many ranks there are; two where the ranks read each other's buffers.
MANY_TEST(AllGather, AllGatherTakesOneStep) {
  auto* native = dynamic_cast<engines::shm::ShmEngine*>(&world().implementation()->core().executor().engine());
  if (native == nullptr) GTEST_SKIP() << "backend " << world().backend() << " has no steps to count";
  for (const std::size_t count : {std::size_t{1}, native->lockstep().step_bytes() / sizeof(float)}) {
    const auto before = native->lockstep().step();
    std::vector<float> in = values<float>(count, rank());
    std::vector<float> out(count * static_cast<std::size_t>(world_size()));
    CollectiveCall call;
    call.operation = Operation::all_gather;
    call.in = TensorView(in.data(), DType::float32, count);
    call.count = count;
    const unsigned steps = native->lockstep().direct().begins(call) ? 2 : 1;
    all_gather(in, out);
    EXPECT_EQ(native->lockstep().step(), before + steps) << count;
  }
}

/// The bytes that this process has sent over its TCP connections.
std::size_t bytes_sent() {
  std::size_t all = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    if (getsockopt(std::stoi(entry.path().filename()), IPPROTO_TCP, TCP_INFO, &info, &size) == 0) all += info.tcpi_bytes_sent;
  }
  return all;
}

// No block goes over a connection to where it already is: a ring of n ranks has n - 1 steps.
MANY_TEST(AllGather, AllGatherSendsNoMoreThanIsMissing) {
  if (!launched() || world().backend() != "tcp") GTEST_SKIP() << "backend " << world().backend() << " has no bytes of its own to count";
  COVERS("K-12");
  const auto n = static_cast<std::size_t>(world_size());
  constexpr std::size_t count = std::size_t{1} << 18;
  std::vector<float> out(n * count);
  const auto in = values<float>(count, rank());
  barrier();
  const auto before = bytes_sent();
  all_gather(in, out);
  barrier();  // until then a connection may hold what another rank waits for
  const auto sent = all_reduce(bytes_sent() - before);
  const auto missing = n * (n - 1);
  if (!presents_hosts()) {  // inside a host they go through its memory
    EXPECT_GE(sent, missing * count * sizeof(float));
  }
  EXPECT_LE(sent, missing * count * sizeof(float) * 21 / 20);
}

// Every block, of every rank, everywhere.
WORLD_TEST(AllGather, ResultsAreRightAtEveryLength) {
  COVERS("T-32", "W-02", "K-74");
  const auto n = static_cast<std::size_t>(world_size());
  for (const std::size_t count : interesting_counts(sizeof(float))) {
    const auto in = values<float>(count, rank());
    std::vector<float> out(n * count, -1.0F);
    all_gather(in, out);
    ASSERT_EQ(difference(out, all_values<float>(count)), "") << count;
  }
}

// The caller's block of the output may be the input.
WORLD_TEST(AllGather, CallsWorkInPlace) {
  const auto n = static_cast<std::size_t>(world_size());
  for (const std::size_t count : {std::size_t{1}, std::size_t{100}, slot_bytes / 4 + 3}) {
    std::vector<float> out(n * count, -1.0F);
    const auto own = std::span(out).subspan(static_cast<std::size_t>(rank()) * count, count);
    const auto in = values<float>(count, rank());
    std::copy(in.begin(), in.end(), own.begin());
    all_gather(own, out);
    ASSERT_EQ(difference(out, all_values<float>(count)), "") << count;
  }
}

WORLD_TEST(AllGather, EveryDtypeIsCarriedBitForBit) {
  for (const DType dtype : oracle::every_dtype) {
    auto in = oracle::values(dtype, 67, static_cast<std::uint64_t>(rank()));
    oracle::Bytes out(in.size() * static_cast<std::size_t>(world_size())), expected;
    for (int r = 0; r < world_size(); ++r) {
      const auto block = oracle::values(dtype, 67, static_cast<std::uint64_t>(r));
      expected.insert(expected.end(), block.begin(), block.end());
    }
    all_gather(TensorView(in.data(), dtype, 67), TensorView(out.data(), dtype, out.size() / size_of(dtype)));
    ASSERT_TRUE(out == expected) << to_string(dtype);
  }
}

// The result is one element of each rank, in rank order, also in a world of one.
WORLD_TEST(AllGather, ValuesAreReturned) {
  COVERS("K-28", "C-04", "C-31");
  const auto numbers = all_gather(rank() * 3 - 1);
  ASSERT_EQ(numbers.size(), static_cast<std::size_t>(world_size()));
  for (int r = 0; r < world_size(); ++r) EXPECT_EQ(numbers[static_cast<std::size_t>(r)], r * 3 - 1);
  const std::vector<bool> odd = all_gather(rank() % 2 == 1);
  for (int r = 0; r < world_size(); ++r) EXPECT_EQ(odd[static_cast<std::size_t>(r)], r % 2 == 1);
}

WORLD_TEST(AllGather, AllGatherRefusesOtherLengths) {
  COVERS("T-32");
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> in(3), out(3 * n + 1);
  EXPECT_THROW(all_gather(in, out), InvalidArgument);
  std::vector<double> other(3 * n);
  EXPECT_THROW(all_gather(in, other), InvalidArgument);  // no element is converted
  EXPECT_EQ(all_gather(7).size(), n);
}

}  // namespace
