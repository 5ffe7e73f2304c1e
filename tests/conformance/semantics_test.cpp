#include <array>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "../unit/kernels/oracle.h"
#include "covers.h"
#include "world.h"

// The results of calls and the values that they return: the same in every world, for every dtype and length, in every group.

using namespace unisono;
using namespace conformance;

namespace {

// In place and nothing returned; out of place the input stays, whatever dtype, length and number of ranks.
WORLD_TEST(Semantics, BuffersAreWorkedOnInPlace) {
  COVERS("C-01", "I-21", "M-01", "Q-01", "K-21");
  if (on_an_engine()) COVERS("B-26");
  static_assert(std::is_void_v<decltype(all_reduce(std::declval<std::vector<float>&>()))>);
  static_assert(std::is_void_v<decltype(all_reduce(std::declval<const std::vector<float>&>(), std::declval<std::vector<float>&>()))>);
  const auto check = [&]<class T>(T) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, slot_bytes / sizeof(T) + 1}) {
      if (count * 8 * 8 > 100000 && sizeof(T) < 4) continue;  // whose sums do not fit
      auto x = values<T>(count, rank());
      const T* memory = x.data();
      all_reduce(x);
      ASSERT_EQ(difference(x, sums<T>(count, world_size())), "");
      ASSERT_EQ(x.data(), memory);
      const auto in = values<T>(count, rank());
      std::vector<T> out(count, T(77));
      all_reduce(in, out);
      ASSERT_EQ(difference(in, values<T>(count, rank())), "") << "the input was written to";
      ASSERT_EQ(difference(out, x), "");
    }
  };
  check(float{});
  check(double{});
  check(std::int32_t{});
  check(std::int64_t{});
  check(std::uint16_t{});
  // Tensors of no and of two dimensions, as they are.
  double zero = rank() * 2.0 + 1;
  all_reduce(TensorView(&zero, DType::float64, std::span<const std::int64_t>{}), ReduceOp::product);
  double product = 1;
  for (int r = 0; r < world_size(); ++r) product *= 2 * r + 1;
  EXPECT_EQ(zero, product);
  std::array<std::int64_t, 16> square{};
  for (std::size_t i = 0; i < 16; ++i) square[i] = value<std::int64_t>(rank(), i);
  const std::array<std::int64_t, 2> shape{4, 4};
  all_reduce(TensorView(square.data(), DType::int64, shape), ReduceOp::max);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(square[i], value<std::int64_t>(world_size() - 1, i));
}

template <class T>
void values_come_back(T own, T most) {
  static_assert(std::is_same_v<decltype(all_reduce(own)), T>);
  static_assert(std::is_same_v<decltype(all_gather(own)), std::vector<T>>);
  ASSERT_EQ(all_reduce(own, ReduceOp::max), most);
  const auto all = all_gather(own);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world_size()));
  ASSERT_EQ(all[static_cast<std::size_t>(rank())], own);
  ASSERT_EQ(all.back(), most);
  ASSERT_EQ(broadcast(own, world_size() - 1), most);
}

// A number comes back as what it is, with all of its bits: nothing goes through a float.
WORLD_TEST(Semantics, ValuesAreReturnedExactly) {
  COVERS("C-01", "C-06", "I-22", "I-25", "I-31", "K-24", "K-40");
  const int n = world_size();
  const auto large = [&](int r) { return (std::int64_t{1} << 53) + 1 + r; };  // no double
  values_come_back<std::int64_t>(large(rank()), large(n - 1));
  values_come_back<std::int32_t>(16777217 + rank(), 16777217 + n - 1);  // no float
  values_come_back<std::uint64_t>(~std::uint64_t{0} - 100 + static_cast<std::uint64_t>(rank()),
                                  ~std::uint64_t{0} - 100 + static_cast<std::uint64_t>(n - 1));
  values_come_back<std::int8_t>(static_cast<std::int8_t>(rank() - 128), static_cast<std::int8_t>(n - 129));
  values_come_back<double>(1.0 + rank() + 0x1p-50, static_cast<double>(n) + 0x1p-50);
  values_come_back<float>(0.1F + static_cast<float>(rank()), 0.1F + static_cast<float>(n - 1));
  EXPECT_EQ(all_reduce(10), 10 * n);
  EXPECT_EQ(all_reduce(large(rank())), n * large(0) + n * (n - 1) / 2);
  EXPECT_EQ(all_reduce(true, ReduceOp::land), true);
  const std::complex<double> z(rank(), 1.0);
  EXPECT_EQ(all_reduce(z), std::complex<double>(n * (n - 1) / 2, n));
}

// The default operation is sum, and every spelling of the originals is read. Anything else is one kind of error, also alone.
WORLD_TEST(Semantics, OperationsAreGivenByName) {
  COVERS("C-02", "R-11", "M-38", "K-60", "K-76");
  const int n = world_size();
  EXPECT_EQ(all_reduce(rank() + 1), all_reduce(rank() + 1, parse_reduce_op("sum")));
  EXPECT_EQ(all_reduce(rank() + 1, parse_reduce_op("SUM")), n * (n + 1) / 2);
  EXPECT_EQ(all_reduce(rank() + 1, parse_reduce_op("Product")), all_reduce(rank() + 1, parse_reduce_op("PROD")));
  EXPECT_EQ(all_reduce(6.0 * rank(), parse_reduce_op("mean")), 3.0 * (n - 1));
  EXPECT_EQ(all_reduce(6.0 * rank(), parse_reduce_op("AVERAGE")), 3.0 * (n - 1));
  EXPECT_EQ(all_reduce(1 << rank(), parse_reduce_op("BOR")), (1 << n) - 1);
  EXPECT_EQ(all_reduce(7, parse_reduce_op("bxor")), n % 2 == 1 ? 7 : 0);
  EXPECT_EQ(all_reduce(rank() | 8, parse_reduce_op("AND")), 8);
  for (const char* name : {"ABC", "produce", "", "avg ", "adasum"}) EXPECT_THROW(static_cast<void>(parse_reduce_op(name)), InvalidArgument) << name;
}

// The four operations, in the world, which is what is meant where no group is named, and in groups.
WORLD_TEST(Semantics, FourOperationsWorkInTheWorldAndInGroups) {
  COVERS("T-15", "T-16", "I-23");
  if (on_an_engine()) COVERS("B-14");
  const auto half = split_group(world(), rank() % 2);
  for (const ProcessGroup& group : {world(), *half}) {
    const int m = group.size();
    EXPECT_EQ(all_reduce(group.rank() == 0 ? 2 : 10, ReduceOp::sum, group), 2 + 10 * (m - 1));
    std::int64_t tens = 2;
    for (int r = 1; r < m; ++r) tens *= 10;
    EXPECT_EQ(all_reduce(std::int64_t{group.rank() == 0 ? 2 : 10}, ReduceOp::product, group), tens);
    EXPECT_EQ(all_reduce(group.rank() == m - 1 ? 1 : 1010, ReduceOp::min, group), 1);
    EXPECT_EQ(all_reduce(group.rank() == m - 1 ? 10 : -1, ReduceOp::max, group), 10);
    EXPECT_EQ(all_gather(rank(), group), group.global_ranks());
  }
  EXPECT_EQ(all_reduce(rank()), all_reduce(rank(), ReduceOp::sum, world()));
  EXPECT_EQ(world().size(), world_size());
}

template <class G>
concept stands_as_group = requires(std::vector<float>& x, const G& group) {
  all_reduce(x, ReduceOp::sum, group);
};
static_assert(stands_as_group<ProcessGroup>);
// (Lists of ranks are refused by a sentence: tests/compile.)
static_assert(!stands_as_group<int> && !stands_as_group<std::string> && !stands_as_group<bool>);

// A group is a handle, never a list or a number; a handle is used again without anybody making anything.
WORLD_TEST(Semantics, AGroupIsAHandleThatIsUsedAgain) {
  COVERS("C-17", "K-25", "T-16");
  const auto group = new_group(world().global_ranks());
  ASSERT_TRUE(group);
  const ProcessGroup copy = *group;
  EXPECT_EQ(copy, *group);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(all_reduce(i + rank(), ReduceOp::max, i % 2 == 0 ? *group : copy), i + world_size() - 1);
  EXPECT_EQ(copy.name(), group->name());
}

// The blocks one behind the other, in group order and all of them, as many as the group has members.
WORLD_TEST(Semantics, AllGatherConcatenates) {
  COVERS("I-24", "M-02", "I-28", "TS-25", "K-28", "K-74", "M-03");
  if (on_an_engine()) COVERS("B-15");
  const auto turned = new_group([] {
    auto ranks = world().global_ranks();
    return std::vector<int>(ranks.rbegin(), ranks.rend());
  }());
  const auto half = split_group(world(), rank() / 2);
  for (const ProcessGroup& group : {world(), *turned, *half}) {
    auto in = values<std::int32_t>(100, rank());
    const std::array<std::int64_t, 2> shape{4, 25}, whole{4 * group.size(), 25};
    std::vector<std::int32_t> out(100 * static_cast<std::size_t>(group.size()));
    all_gather(TensorView(in.data(), DType::int32, shape), TensorView(out.data(), DType::int32, whole), group);
    for (int r = 0; r < group.size(); ++r) {
      ASSERT_EQ(difference(std::span(out).subspan(100 * static_cast<std::size_t>(r), 100), values<std::int32_t>(100, group.global_rank(r))), "");
    }
    const std::array<std::int64_t, 3> stack{group.size(), 4, 25};
    std::vector<std::int32_t> stacked(out.size());
    all_gather(TensorView(in.data(), DType::int32, shape), TensorView(stacked.data(), DType::int32, stack), group);
    ASSERT_EQ(stacked, out);
    const auto gathered = gather(rank() + 0.5F, 0, group);
    ASSERT_EQ(gathered.has_value(), group.rank() == 0);
    for (int r = 0; gathered && r < group.size(); ++r)
      ASSERT_EQ((*gathered)[static_cast<std::size_t>(r)], static_cast<float>(group.global_rank(r)) + 0.5F);
  }
}

// Only the root has to have an output; who is not the root leaves what it has as it is.
WORLD_TEST(Semantics, GatherAsksForAnOutputAtTheRootOnly) {
  COVERS("M-03", "M-40");
  const auto n = static_cast<std::size_t>(world_size());
  for (int dst = 0; dst < world_size(); ++dst) {
    std::vector<int> none, all(n, -1), elsewhere{5, 6, 7};
    std::vector<int>& out = rank() == dst ? all : rank() % 2 == 0 ? none : elsewhere;
    gather(std::vector<int>{rank() * 11}, out, dst);
    EXPECT_TRUE(none.empty());
    EXPECT_EQ(elsewhere, (std::vector<int>{5, 6, 7}));
    for (std::size_t r = 0; rank() == dst && r < n; ++r) EXPECT_EQ(all[r], static_cast<int>(r) * 11);
  }
  if (world_size() == 1) {  // where everybody is the root
    std::vector<int> none;
    EXPECT_THROW(gather(std::vector<int>{1}, none, 0), InvalidArgument);
  }
}

// Into the same memory, of any layout.
WORLD_TEST(Semantics, BroadcastFillsWhatIsThere) {
  COVERS("M-04", "I-30");
  for (int src = 0; src < world_size(); ++src) {
    auto x = values<float>(12, rank());
    const std::array<std::int64_t, 2> shape{2, 3}, strides{6, 2};
    broadcast(TensorView(x.data(), DType::float32, shape, strides), src);
    for (std::size_t i = 0; i < 12; ++i) ASSERT_EQ(x[i], value<float>(i % 2 == 0 ? src : rank(), i));
  }
}

// Every operation refuses memory of a device that the backend cannot work on, in the same way, also alone, and before anything is sent.
WORLD_TEST(Semantics, MemoryOfADeviceThatTheBackendCannotReach) {
  COVERS("K-57");
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> memory(2 * n), host(2 * n);
  const auto tensor = [&](std::size_t count) {
    const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(count)};
    return TensorView(memory.data(), DType::float32, shape, {}, Device{Device::Type::cuda, 0});
  };
  const TensorView one = tensor(1), all = tensor(n);
  const std::vector<std::function<void()>> calls{
      [&] { all_reduce(one); },
      [&] { reduce(one, 0); },
      [&] { broadcast(one); },
      [&] { all_gather(one, std::span(host).first(n)); },
      [&] { all_gather(std::span(host).first(1), all); },
      [&] { gather(one, std::span(host).first(n), rank()); },
      [&] { scatter(std::span(host).first(n), one, rank()); },
      [&] { reduce_scatter(all, std::span(host).first(1)); },
      [&] { all_to_all(all, std::span(host).first(n)); },
      [&] { scan(one); },
      [&] { exscan(one); },
      [&] { all_gather_v(one, std::span(host).first(n), std::vector<int>(n, 1)); },
  };
  for (const auto& call : calls) {
    const auto error = thrown_by<Unsupported>(call);
    EXPECT_NE(error.message().find("cuda:0"), std::string::npos) << error.what();
  }
  expect_usable();
}

// A barrier of the world and of any group, on the host; the calls that follow it go on.
WORLD_TEST(Semantics, BarriersAreOfTheWorldAndOfGroups) {
  COVERS("I-35", "M-28", "V-06", "TS-37", "K-78");
  barrier();
  synchronize();
  int x = rank();
  barrier();
  EXPECT_EQ(all_reduce(++x), world_size() * (world_size() + 1) / 2);
  const auto half = split_group(world(), rank() % 2);
  if (rank() % 2 == 0) {  // the other half does not take part
    barrier(*half);
    synchronize(*half);
    monitored_barrier(std::chrono::seconds(60), *half);
    barrier_async(*half).wait();
    EXPECT_EQ(broadcast(rank(), 0, *half), 0);
  }
  expect_usable();
}

// Every call has a deadline of its own, a barrier too.
WORLD_TEST_IN((Worlds{.at_least = 2, .poisons = true}), Semantics, ABarrierHasADeadline) {
  COVERS("K-48", "C-21");
  using namespace std::chrono_literals;
  const auto group = new_group(world().global_ranks());
  barrier(*group);
  if (rank() != 0) {
    EXPECT_THROW(barrier(*group, {.timeout = 30ms}), Timeout);
    EXPECT_THROW(barrier(*group), Error);
  } else {
    EXPECT_THROW(for (;;) static_cast<void>(recv(std::span<int>(), any_source, *group)), Error);
  }
}

// Each mistake is one kind of error, whichever backend it is made on.
static_assert(std::is_base_of_v<std::runtime_error, Error>);
template <class... E>
constexpr bool are_errors = (std::is_base_of_v<Error, E> && ...);
static_assert(are_errors<InvalidArgument, NotInitialized, AlreadyInitialized, NotMember, Unsupported, BackendUnavailable, Mismatch, Timeout,
                         PeerFailed, ProtocolError, LaunchFailed>);
static_assert(!std::is_base_of_v<Mismatch, InvalidArgument> && !std::is_base_of_v<InvalidArgument, Mismatch>);

WORLD_TEST(Semantics, EachMistakeIsOneKindOfError) {
  COVERS("C-23", "TS-09", "TS-43", "K-18");
#ifdef NDEBUG
  COVERS("K-03");  // nothing of it is an assert
#endif
  const auto n = static_cast<std::size_t>(world_size());
  std::vector<float> x(3), y(4), blocks(3 * n + 1);
  std::vector<double> doubles(3);
  const std::vector<std::function<void()>> mistakes{
      [&] { all_reduce(x, y); },
      [&] { all_reduce(x, doubles); },
      [&] { all_reduce(x, ReduceOp::band); },
      [&] { broadcast(x, world_size()); },
      [&] { reduce(x, -1); },
      [&] { gather(x, blocks, rank()); },
      [&] { scatter(blocks, x, GlobalRank{rank()}); },
      [&] { all_reduce(x, ReduceOp::sum, world(), {.timeout = std::chrono::milliseconds(-1)}); },
      [&] { send(x, rank()); },
      [&] { recv(x, rank()); },
      [&] { send(x, world_size()); },
  };
  for (const auto& mistake : mistakes) {
    const auto error = thrown_by<InvalidArgument>(mistake);
    EXPECT_FALSE(error.operation().empty());
    EXPECT_EQ(error.group(), "world");
    EXPECT_EQ(error.rank(), rank());
  }
  expect_usable();
}

// More ranks than the other tests have.
TEST(Semantics, SixteenRanksGiveTheSameResults) {
  if (launched()) GTEST_SKIP() << "the ranks of this test are threads";
  run_threads(16, [] {
    const int n = world_size();
    ASSERT_EQ(n, 16);
    std::vector<double> x(4099);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(16 * i) + rank();
    auto sum = x;
    all_reduce(sum);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], static_cast<double>(256 * i + 120));
    std::vector<double> all(16 * x.size());
    all_gather(x, all);
    std::vector<double> back(x.size()), exchanged(all.size());
    reduce_scatter(all, back, ReduceOp::max);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(back[i], static_cast<double>(16 * i) + rank());
    all_to_all(all, exchanged);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(exchanged[i], static_cast<double>(16 * (i % x.size())) + rank());
    const std::vector<std::size_t> counts = all_gather_v(std::span(x).first(static_cast<std::size_t>(rank())), all);
    ASSERT_EQ(all.size(), 120U);
    for (std::size_t r = 0; r < 16; ++r) ASSERT_EQ(counts[r], r);
    EXPECT_EQ(scan(rank()), rank() * (rank() + 1) / 2);
    EXPECT_EQ(broadcast(rank(), 15), 15);
  });
}

}  // namespace
