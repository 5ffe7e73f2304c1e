// Collectives on device memory, over the stand-in: every operation, dtype and reduction.

#include <algorithm>
#include <complex>
#include <numeric>

#include "engines/nccl/calls.h"
#include "covers.h"
#include "fake_ranks.h"
#include "uneven_exchange.h"
#include "kernels/reduce.h"
#include "unisono/cuda.h"

using namespace unisono;
using fake::DeviceArray;
using fake::on_ranks;
using fake::thrown_by;

namespace {

std::vector<int> numbers(int rank, std::size_t count) {
  std::vector<int> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = 1000 * (rank + 1) + static_cast<int>(i);
  return x;
}
std::vector<int> sums(int ranks, std::size_t count) {
  std::vector<int> x(count);
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) x[i] += numbers(r, count)[i];
  }
  return x;
}

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { fake::reset(GetParam()); }
  void on_all(const std::function<void(const ProcessGroup&)>& body) { on_ranks({.count = GetParam()}, body); }
};

TEST_P(Collectives, AllReduceSumsOnTheDevice) {
  on_all([](const ProcessGroup& group) {
    for (const std::size_t count : {0U, 1U, 7U, 1000U}) {
      const DeviceArray<int> x(group.rank(), numbers(group.rank(), count));
      all_reduce(x.view(), ReduceOp::sum, group);
      fake::synchronize();
      EXPECT_EQ(x.values(), sums(group.size(), count));
      const DeviceArray<int> in(group.rank(), numbers(group.rank(), count)), out(group.rank(), count);
      all_reduce(in.view(), out.view(), ReduceOp::sum, group);
      fake::synchronize();
      EXPECT_EQ(out.values(), sums(group.size(), count));
      EXPECT_EQ(in.values(), numbers(group.rank(), count));
    }
  });
}

// NCCL multiplies, each rank by its own factor.
TEST_P(Collectives, SumsHaveFactors) {
  COVERS("R-10");
  on_all([](const ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto x_of = [](int r) { return std::vector<float>{1.0F + static_cast<float>(r), -2.0F}; };
    std::vector<float> sum(2);
    for (int r = 0; r < n; ++r) {
      for (std::size_t i = 0; i < 2; ++i) sum[i] += x_of(r)[i] * 0.5F * static_cast<float>(r + 1);
    }
    const double factor = 0.5 * (me + 1);
    const DeviceArray<float> x(me, x_of(me));
    all_reduce(x.view(), premul_sum(factor), group);
    fake::synchronize();
    EXPECT_EQ(x.values(), sum);
    const DeviceArray<float> y(me, x_of(me));
    reduce(y.view(), n - 1, premul_sum(factor), group);
    fake::synchronize();
    EXPECT_EQ(y.values(), me == n - 1 ? sum : x_of(me));
    EXPECT_EQ(all_reduce(2.0, premul_sum(factor), group), 0.5 * n * (n + 1));  // in host memory beside it
  });
}

TEST_P(Collectives, RootsSendAndReceive) {
  on_all([](const ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto ranks = static_cast<std::size_t>(n);
    for (int root = 0; root < n; ++root) {
      const DeviceArray<int> x(me, numbers(me, 5));
      broadcast(x.view(), root, group);
      fake::synchronize();
      EXPECT_EQ(x.values(), numbers(root, 5));

      const DeviceArray<int> y(me, numbers(me, 5));
      reduce(y.view(), root, ReduceOp::sum, group);
      fake::synchronize();
      EXPECT_EQ(y.values(), me == root ? sums(n, 5) : numbers(me, 5));

      const DeviceArray<int> part(me, numbers(me, 3)), whole(me, me == root ? 3 * ranks : 0);
      gather(part.view(), whole.view(), root, group);
      fake::synchronize();
      if (me == root) {
        std::vector<int> expected;
        for (int r = 0; r < n; ++r) {
          const auto block = numbers(r, 3);
          expected.insert(expected.end(), block.begin(), block.end());
        }
        EXPECT_EQ(whole.values(), expected);
      }
      const DeviceArray<int> back(me, 3);
      scatter(whole.view(), back.view(), root, group);
      fake::synchronize();
      EXPECT_EQ(back.values(), numbers(me, 3));
    }
  });
}

TEST_P(Collectives, BlocksGoToAll) {
  on_all([](const ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto ranks = static_cast<std::size_t>(n);
    const DeviceArray<int> part(me, numbers(me, 4)), whole(me, 4 * ranks);
    all_gather(part.view(), whole.view(), group);
    fake::synchronize();
    std::vector<int> expected;
    for (int r = 0; r < n; ++r) {
      const auto block = numbers(r, 4);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    EXPECT_EQ(whole.values(), expected);

    const DeviceArray<int> in(me, numbers(me, 4 * ranks)), out(me, 4);
    reduce_scatter(in.view(), out.view(), ReduceOp::sum, group);
    fake::synchronize();
    const auto all = sums(n, 4 * ranks);
    EXPECT_EQ(out.values(), std::vector<int>(all.begin() + 4 * me, all.begin() + 4 * me + 4));

    const DeviceArray<int> swapped(me, 4 * ranks);
    all_to_all(in.view(), swapped.view(), group);
    fake::synchronize();
    for (int r = 0; r < n; ++r) {
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(swapped.values()[static_cast<std::size_t>(4 * r + i)], numbers(r, 4 * ranks)[static_cast<std::size_t>(4 * me + i)]);
      }
    }
  });
}

TEST_P(Collectives, BlocksMayHaveDifferentLengths) {
  on_all([](const ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    std::vector<std::size_t> counts;
    for (int r = 0; r < n; ++r) counts.push_back(static_cast<std::size_t>(3 * r));  // rank 0 has nothing
    const std::size_t mine = counts[static_cast<std::size_t>(me)], total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    std::vector<int> expected;
    for (int r = 0; r < n; ++r) {
      const auto block = numbers(r, counts[static_cast<std::size_t>(r)]);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    const DeviceArray<int> part(me, numbers(me, mine)), whole(me, total);
    all_gather_v(part.view(), whole.view(), counts, group);
    fake::synchronize();
    EXPECT_EQ(whole.values(), expected);

    const DeviceArray<int> at_root(me, me == 0 ? total : 0), back(me, mine);
    gather_v(part.view(), at_root.view(), counts, 0, group);
    fake::synchronize();
    if (me == 0) {
      EXPECT_EQ(at_root.values(), expected);
    }
    scatter_v(at_root.view(), counts, back.view(), 0, group);
    fake::synchronize();
    EXPECT_EQ(back.values(), numbers(me, mine));

    const DeviceArray<int> in(me, numbers(me, total)), out(me, mine);
    reduce_scatter_v(in.view(), counts, out.view(), ReduceOp::sum, group);
    fake::synchronize();
    const auto all = sums(n, total);
    const auto begin = static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), counts.begin() + me, std::size_t{0}));
    EXPECT_EQ(out.values(), std::vector<int>(all.begin() + begin, all.begin() + begin + static_cast<std::ptrdiff_t>(mine)));

    const UnevenExchange exchange(n, me);
    const DeviceArray<int> sent(me, exchange.gives), received(me, exchange.gets.size());
    all_to_all_v(sent.view(), exchange.sends, received.view(), exchange.receives, group);
    fake::synchronize();
    EXPECT_EQ(received.values(), exchange.gets);
  });
}

TEST_P(Collectives, CallsWorkInPlaceWhereTheyMay) {
  on_all([](const ProcessGroup& group) {
    const int n = group.size(), me = group.rank();
    const auto own = static_cast<std::size_t>(me);
    const DeviceArray<int> whole(me, static_cast<std::size_t>(2 * n));
    whole.data()[2 * own] = me;
    whole.data()[2 * own + 1] = -me;
    all_gather(whole.view(2 * own, 2), whole.view(), group);
    fake::synchronize();
    for (int r = 0; r < n; ++r) EXPECT_EQ(whole.values()[static_cast<std::size_t>(2 * r)], r);
    reduce_scatter(whole.view(), whole.view(2 * own, 2), ReduceOp::max, group);
    fake::synchronize();
    EXPECT_EQ(whole.values()[2 * own], me);
    gather(whole.view(2 * own, 2), me == 0 ? whole.view() : whole.view(0, 0), 0, group);
    fake::synchronize();
    EXPECT_EQ(whole.values()[2 * own + 1], -me);
  });
}

// Calls that go through host memory beside it do so as ever.
TEST_P(Collectives, HostMemoryGoesToTheHost) {
  on_all([](const ProcessGroup& group) {
    std::vector<int> x = numbers(group.rank(), 100);
    all_reduce(x, ReduceOp::sum, group);
    EXPECT_EQ(x, sums(group.size(), 100));
    const DeviceArray<int> y(group.rank(), numbers(group.rank(), 10));
    all_reduce(y.view(), ReduceOp::sum, group);
    scan(x, ReduceOp::sum, group);
    barrier(group);
    fake::synchronize();
    EXPECT_EQ(y.values(), sums(group.size(), 10));
  });
  EXPECT_EQ(fake::calls("ncclAllReduce"), GetParam());
}

// A range of which nobody said where it lies.
TEST_P(Collectives, AnAddressHasADevice) {
  on_all([](const ProcessGroup& group) {
    const DeviceArray<int> x(group.rank(), numbers(group.rank(), 10));
    std::span<int> plain(x.data() + 2, 5);
    all_reduce(plain, ReduceOp::sum, group);
    fake::synchronize();
    auto expected = numbers(group.rank(), 10);
    const auto all = sums(group.size(), 10);
    std::copy(all.begin() + 2, all.begin() + 7, expected.begin() + 2);
    EXPECT_EQ(x.values(), expected);
  });
  EXPECT_EQ(fake::calls("ncclAllReduce"), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4));

constexpr DType all_dtypes[] = {DType::boolean,  DType::int8,    DType::int16,   DType::int32,     DType::int64,
                                DType::uint8,    DType::uint16,  DType::uint32,  DType::uint64,    DType::float16,
                                DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128};
constexpr ReduceOp all_operations[] = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min,  ReduceOp::max,  ReduceOp::avg,
                                       ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor, ReduceOp::land, ReduceOp::lor};

TensorView line(void* data, DType dtype, std::int64_t count, int device) {
  const std::int64_t shape[] = {count};
  return {data, dtype, shape, {}, {.type = Device::Type::cuda, .index = device}};
}

// Every pair that is defined gives what the host gives: what NCCL has by NCCL, everything else through the host.
TEST(Reductions, EveryDtypeIsReducedByEveryOperation) {
  fake::reset(2);
  int offered = 0, others = 0;
  on_ranks({.count = 2}, [&](const ProcessGroup& group) {
    for (const DType dtype : all_dtypes) {
      for (const ReduceOp op : all_operations) {
        if (!kernels::supports(dtype, op)) continue;
        constexpr std::size_t count = 16;
        const std::size_t bytes = count * size_of(dtype);
        // Small numbers of every dtype: element i of rank r is (r + 1) or 0 and 1 of booleans, as the host's own reduction of bytes makes them.
        std::vector<std::byte> own[2];
        for (int r = 0; r < 2; ++r) {
          own[r].resize(bytes);
          for (std::size_t i = 0; i < count; ++i) {
            std::byte* to = own[r].data() + i * size_of(dtype);
            const double value = dtype == DType::boolean ? static_cast<double>((i >> r) & 1U) : static_cast<double>(1 + r + static_cast<int>(i % 4));
            const auto put = [&](auto x) { std::memcpy(to, &x, sizeof x); };
            switch (dtype) {
              case DType::float16: put(float16(static_cast<float>(value))); break;
              case DType::bfloat16: put(bfloat16(static_cast<float>(value))); break;
              case DType::float32: put(static_cast<float>(value)); break;
              case DType::float64: put(value); break;
              case DType::complex64: put(std::complex<float>(static_cast<float>(value), static_cast<float>(i))); break;
              case DType::complex128: put(std::complex<double>(value, static_cast<double>(i))); break;
              default: {
                const auto whole = static_cast<std::uint64_t>(value);
                std::memcpy(to, &whole, size_of(dtype));
              }
            }
          }
        }
        const int me = group.rank();
        void* memory = fake::allocate(me, bytes);
        std::memcpy(memory, own[me].data(), bytes);
        TensorView x = line(memory, dtype, count, me);
        all_reduce(x, op, group);
        fake::synchronize();
        std::vector<std::byte> expected(bytes);
        const void* inputs[] = {own[0].data(), own[1].data()};
        kernels::reduce(expected.data(), inputs, 2, count, dtype, op, 2);
        EXPECT_EQ(std::memcmp(memory, expected.data(), bytes), 0) << to_string(dtype) << ' ' << to_string(op);
        if (me == 0) ++(engines::nccl::reduction_of(dtype, op) ? offered : others);
      }
    }
  });
  EXPECT_EQ(offered, 8 + 6 * 4 + 4 * 5 + 2 * 2);  // booleans, whole numbers, floating point, complex
  EXPECT_GT(others, 0);
  EXPECT_EQ(fake::calls("ncclAllReduce"), 2 * offered);
}

TEST(Refusals, MemoryThatDoesNotFit) {
  fake::reset(3);
  on_ranks({.count = 2}, [](const ProcessGroup& group) {
    const int me = group.rank();
    const DeviceArray<int> x(me, numbers(me, 8)), elsewhere(2, numbers(me, 8));
    std::vector<int> host(8);
    const auto wrong_device = thrown_by<InvalidArgument>([&] { all_reduce(elsewhere.view(), ReduceOp::sum, group); });
    EXPECT_NE(std::string(wrong_device.what()).find("cuda:2"), std::string::npos) << wrong_device.what();
    EXPECT_NE(std::string(wrong_device.what()).find("cuda:" + std::to_string(me)), std::string::npos) << wrong_device.what();
    const auto two_places = thrown_by<InvalidArgument>([&] { all_reduce(x.view(), host, ReduceOp::sum, group); });
    EXPECT_NE(std::string(two_places.what()).find("the output on cpu"), std::string::npos) << two_places.what();
    const std::int64_t shape[] = {4}, strides[] = {0};
    TensorView repeated(x.data(), DType::int32, shape, strides, {.type = Device::Type::cuda, .index = me});
    EXPECT_NE(std::string(thrown_by<InvalidArgument>([&] { all_reduce(repeated, ReduceOp::sum, group); }).what()).find("stride of 0"),
              std::string::npos);
    all_reduce(x.view(), ReduceOp::sum, group);
    fake::synchronize();
    EXPECT_EQ(x.values(), sums(2, 8));
  });
}

}  // namespace
