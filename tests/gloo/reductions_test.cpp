#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <complex>
#include <cstring>
#include <mutex>
#include <numeric>

#include "engine_ranks.h"

// Every operation that combines: results against sums that are exact in every order, and the same bits on all ranks where they are not.

namespace unisono::testing {
namespace {

constexpr ReduceOp all_ops[] = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min,  ReduceOp::max,  ReduceOp::avg,
                                ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor, ReduceOp::land, ReduceOp::lor};

template <class T>
CollectiveCall call_of(Operation operation, std::vector<T>& in, std::vector<T>& out, ReduceOp op, int root = -1) {
  CollectiveCall call;
  call.operation = operation;
  call.in = {in.data(), dtype_of<T>::value, in.size()};
  call.out = {out.data(), dtype_of<T>::value, out.size()};
  call.count = in.size();
  call.op = op;
  call.root = root;
  return call;
}

template <class T>
std::vector<T> small_numbers(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<int>((i * 5 + static_cast<std::size_t>(rank) * 3) % 7));
  return values;
}

template <class T>
T combined(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg: return static_cast<T>(a + b);
    case ReduceOp::product: return static_cast<T>(a * b);
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::land: return static_cast<T>(a != T{} && b != T{});
    case ReduceOp::lor: return static_cast<T>(a != T{} || b != T{});
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::band) return static_cast<T>(a & b);
    return op == ReduceOp::bor ? static_cast<T>(a | b) : static_cast<T>(a ^ b);
  }
  return a;
}

template <class T>
std::vector<T> oracle(ReduceOp op, int ranks, std::size_t count) {
  std::vector<T> result = small_numbers<T>(0, count);
  for (int r = 1; r < ranks; ++r) {
    const std::vector<T> next = small_numbers<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) result[i] = combined(op, result[i], next[i]);
  }
  if (ranks == 1 && (op == ReduceOp::land || op == ReduceOp::lor)) {
    for (T& value : result) value = static_cast<T>(value != T{});
  }
  if (op == ReduceOp::avg) {
    for (T& value : result) value = value / static_cast<T>(ranks);
  }
  return result;
}

template <class T>
void check_all_ops(int ranks, std::size_t count) {
  with_engines(ranks, [&](Engine& engine, int rank) {
    for (const ReduceOp op : all_ops) {
      if (!std::is_integral_v<T> && op >= ReduceOp::band && op <= ReduceOp::bxor) continue;
      std::vector<T> in = small_numbers<T>(rank, count);
      const std::vector<T> before = in;
      std::vector<T> out(count);
      const CollectiveCall call = call_of(Operation::all_reduce, in, out, op);
      if (std::is_integral_v<T> && op == ReduceOp::avg) {
        EXPECT_FALSE(engine.offers(call));
        continue;
      }
      ASSERT_TRUE(engine.offers(call));
      const std::vector<T> expected = oracle<T>(op, ranks, count);
      engine.run(call);
      EXPECT_EQ(out, expected) << to_string(op);
      EXPECT_EQ(in, before);
      for (int root = 0; root < ranks; ++root) {
        std::vector<T> result(rank == root ? count : 0);
        engine.run(call_of(Operation::reduce, in, result, op, root));
        EXPECT_EQ(result, rank == root ? expected : std::vector<T>{}) << to_string(op);
        EXPECT_EQ(in, before);
      }
      engine.run(call_of(Operation::all_reduce, in, in, op));
      EXPECT_EQ(in, expected) << to_string(op) << " in place";
    }
  });
}

class Reductions : public ::testing::TestWithParam<int> {};

TEST_P(Reductions, BuffersOfEverySizeAreReduced) {
  for (const std::size_t count : {0, 1, 3, 1000, 300'001}) check_all_ops<float>(GetParam(), count);
}
TEST_P(Reductions, IntegersAreReduced) {
  check_all_ops<std::int8_t>(GetParam(), 1001);
  check_all_ops<std::uint16_t>(GetParam(), 1001);
  check_all_ops<std::int32_t>(GetParam(), 1001);
  check_all_ops<std::uint64_t>(GetParam(), 1001);
}
TEST_P(Reductions, DoublesAreReduced) { check_all_ops<double>(GetParam(), 1001); }

TEST_P(Reductions, ComplexNumbersAreReduced) {
  with_engines(GetParam(), [&](Engine& engine, int rank) {
    using Complex = std::complex<double>;
    std::vector<Complex> in(777), out(777);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = {static_cast<double>(i) + rank, -2.0 * rank};
    const auto ranks = static_cast<double>(GetParam());
    const double others = ranks * (ranks - 1) / 2;
    engine.run(call_of(Operation::all_reduce, in, out, ReduceOp::avg));
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], Complex((ranks * static_cast<double>(i) + others) / ranks, -2 * others / ranks));
  });
}

TEST_P(Reductions, BooleansAreReduced) {
  with_engines(GetParam(), [&](Engine& engine, int rank) {
    bool in[3] = {true, rank == 0, false};
    bool out[3] = {};
    CollectiveCall call;
    call.operation = Operation::all_reduce;
    call.in = {in, DType::boolean, 3};
    call.out = {out, DType::boolean, 3};
    call.count = 3;
    call.op = ReduceOp::sum;
    engine.run(call);
    EXPECT_TRUE(out[0] && out[1] && !out[2]);
    call.op = ReduceOp::product;
    engine.run(call);
    EXPECT_TRUE(out[0] && out[1] == (GetParam() == 1) && !out[2]);
  });
}

// Rounded once, or not here at all.
TEST_P(Reductions, HalvesAreReduced) {
  with_engines(GetParam(), [&](Engine& engine, int rank) {
    std::vector<float16> in(100, float16(static_cast<float>(rank) + 0.5F)), out(100);
    const CollectiveCall call = call_of(Operation::all_reduce, in, out, ReduceOp::sum);
    EXPECT_FALSE(engine.offers(call_of(Operation::all_reduce, in, out, ReduceOp::avg)));
    EXPECT_EQ(engine.offers(call), GetParam() <= 2);
    if (!engine.offers(call)) return;
    engine.run(call);
    EXPECT_EQ(static_cast<float>(out[99]), GetParam() == 1 ? 0.5F : 2.0F);
  });
}

TEST_P(Reductions, ReductionsGiveAllRanksTheSameBits) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  with_engines(GetParam(), [&](Engine& engine, int rank) {
    std::vector<float> values(100'003);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::bit_cast<float>(0x3f800000U + static_cast<std::uint32_t>(i * 2654435761U % 0x7fffffU)) * (rank == 1 ? 1e7F : 1e-3F);
    engine.run(call_of(Operation::all_reduce, values, values, ReduceOp::sum));
    const std::lock_guard lock(mutex);
    results.push_back(values);
  });
  ASSERT_EQ(results.size(), static_cast<std::size_t>(GetParam()));
  for (const auto& result : results) EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
}

TEST_P(Reductions, CallablesReduceElements) {
  with_engines(GetParam(), [&](Engine& engine, int rank) {
    std::vector<std::int64_t> in(5000), out(5000);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = 12 * (rank + 1) * static_cast<std::int64_t>(i + 1);
    CollectiveCall call = call_of(Operation::all_reduce, in, out, ReduceOp::sum);
    call.custom = Reduction<std::int64_t>([](std::int64_t a, std::int64_t b) { return std::gcd(a, b); }).custom();
    ASSERT_TRUE(engine.offers(call));
    engine.run(call);
    for (std::size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], 12 * static_cast<std::int64_t>(i + 1));
  });
}

INSTANTIATE_TEST_SUITE_P(Gloo, Reductions, ::testing::Values(1, 2, 3, 4));

/// Memory that is there only where it is touched.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes), data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~Sparse() { ::munmap(data_, bytes_); }
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST(Reductions, MoreElementsThanAnIntCountsAreReduced) {
  constexpr std::size_t count = (std::size_t{1} << 31) + 12345;
  with_engines(2, [&](Engine& engine, int rank) {
    const Sparse memory(count);
    std::uint8_t* const data = memory.data();
    const std::size_t places[] = {0, count / 2 - 1, count / 2, (std::size_t{1} << 31) - 1, std::size_t{1} << 31, count - 1};
    for (const std::size_t place : places) data[place] = static_cast<std::uint8_t>(rank + 1);
    CollectiveCall call;
    call.operation = Operation::all_reduce;
    call.in = call.out = {data, DType::uint8, count};
    call.count = count;
    engine.run(call);
    for (const std::size_t place : places) EXPECT_EQ(data[place], 3) << place;
    EXPECT_EQ(data[1], 0);
    // A block of that size, one way.
    call.operation = Operation::all_to_all_v;
    const TensorView none{nullptr, DType::uint8, std::size_t{0}};
    if (rank == 0) data[count - 1] = 77;
    call.in = rank == 0 ? call.in : none;
    call.out = rank == 0 ? none : call.out;
    call.count = 0;
    call.counts = rank == 0 ? Counts{std::size_t{0}, count} : Counts{0, 0};
    call.recv_counts = rank == 0 ? Counts{0, 0} : Counts{count, std::size_t{0}};
    engine.run(call);
    EXPECT_EQ(data[count - 1], 77);
  });
}

}  // namespace
}  // namespace unisono::testing
