// Callables of the program's that the ranks combine by: whether they are the same is decided by what they do, where their code does not show it.
#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "covers.h"
#include "unisono/detail/switches.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

/// Has as many types of one behaviour as there are ranks.
template <int Rank>
struct Larger {
  float operator()(float a, float b) const { return a > b ? a : b; }
};

template <class Call, int... Ranks>
void as_rank(Call&& call, std::integer_sequence<int, Ranks...>) {
  static_cast<void>(((rank() == Ranks && (call.template operator()<Ranks>(), true)) || ...));
}

int sum(int a, int b) { return a + b; }
int product(int a, int b) { return a * b; }

void expect_both_places(const Mismatch& error) {
  const std::string text = error.what();
  const auto first = text.find("with a callable at callables_test.cpp:");
  EXPECT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("with a callable at callables_test.cpp:", first + 1), std::string::npos) << text;
  EXPECT_NE(text.find("that makes"), std::string::npos) << text;
}

}  // namespace

// GCC names all lambdas of one function alike.
MANY_TEST(Callables, CallablesOfTwoKindsAreAMismatchThatNamesBothPlaces) {
  COVERS("C-33");
  for (const std::size_t count : {std::size_t{1}, std::size_t{5000}, std::size_t{300000}}) {
    for (const bool later : {false, true}) {
      std::vector<int> x(count, 5);
      const auto reduce_by = [&](auto f) { later ? all_reduce_async(x, f).wait() : all_reduce(x, f); };
      const auto error = thrown_by<Mismatch>([&] {
        if (rank() == 0) reduce_by([](int a, int b) { return a + b; });
        else reduce_by([](int a, int b) { return a * b; });
      });
      EXPECT_EQ(x, std::vector<int>(count, 5));
      EXPECT_EQ(error.operation(), "all_reduce");
      if (world_size() > 2) {
        EXPECT_EQ(error.culprit(), 0);
      }
      expect_usable();
    }
  }
  const auto error = thrown_by<Mismatch>([&] {
    if (rank() == 0) static_cast<void>(all_reduce(5, [](int a, int b) { return a + b; }));
    else static_cast<void>(all_reduce(5, [](int a, int b) { return a * b; }));
  });
  expect_both_places(error);
  EXPECT_NE(std::string(error.what()).find("makes 10 of 5 and 5"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("makes 25 of 5 and 5"), std::string::npos) << error.what();
}

MANY_TEST(Callables, CallablesThatDoTheSameCombineWhereverTheirCodeIs) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{100000}}) {
    for (const bool later : {false, true}) {
      auto x = values<float>(count, rank());
      as_rank([&]<int Rank>() { later ? all_reduce_async(x, Larger<Rank>()).wait() : all_reduce(x, Larger<Rank>()); },
              std::make_integer_sequence<int, 8>());
      ASSERT_EQ(difference(x, values<float>(count, world_size() - 1)), "") << count;
    }
  }
  as_rank([]<int Rank>() { EXPECT_EQ(scan(static_cast<float>(rank()), Larger<Rank>()), static_cast<float>(rank())); },
          std::make_integer_sequence<int, 8>());
  std::vector<float> blocks(static_cast<std::size_t>(2 * world_size()), static_cast<float>(rank())), mine(2);
  as_rank([&]<int Rank>() { reduce_scatter(blocks, mine, Larger<Rank>()); }, std::make_integer_sequence<int, 8>());
  EXPECT_EQ(mine, std::vector<float>(2, static_cast<float>(world_size() - 1)));
}

// Results of floating-point numbers may differ by rounding, as those of two compilers do.
MANY_TEST(Callables, CallablesThatDifferInRoundingOnlyCombine) {
  const double own = 0.1 * (rank() + 1);
  const double result = rank() == 0 ? all_reduce(own, [](double a, double b) { return a * b; })
                                    : all_reduce(own, [](double a, double b) { return std::fma(a, b, 1e-18); });
  EXPECT_GT(result, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(
      std::isnan(rank() == 0 ? all_reduce(nan, [](float a, float b) { return a + b; }) : all_reduce(nan, [](float a, float b) { return b + a; })));
}

MANY_TEST(Callables, CallablesThatHaveCapturedOtherValuesAreAMismatch) {
  const int mask = rank() == 0 ? 0xff : 0xf;
  expect_both_places(thrown_by<Mismatch>([&] { static_cast<void>(all_reduce(255, [mask](int a, int b) { return (a + b) & mask; })); }));
  const std::vector<int> list(1, mask);
  expect_both_places(thrown_by<Mismatch>([&] { static_cast<void>(all_reduce(255, [list](int a, int b) { return (a + b) & list[0]; })); }));
  expect_both_places(thrown_by<Mismatch>([&] { static_cast<void>(all_reduce(255, [&mask](int a, int b) { return (a + b) & mask; })); }));
  expect_usable();
}

MANY_TEST(Callables, CallablesThatHaveCapturedTheSameCombine) {
  const int own = rank() + 1, n = world_size(), mask = 0xff;
  const std::vector<int> list(1, mask);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all_reduce(own, [mask](int a, int b) { return (a + b) & mask; }), n * (n + 1) / 2);
    EXPECT_EQ(all_reduce(own, [&list](int a, int b) { return (a + b) & list[0]; }), n * (n + 1) / 2);
    EXPECT_EQ(all_reduce(own, [list](int a, int b) { return (a + b) & list[0]; }), n * (n + 1) / 2);
  }
}

MANY_TEST(Callables, GivenAsFunctionsAreComparedByTheFunction) {
  EXPECT_EQ(all_reduce(rank() + 1, sum), world_size() * (world_size() + 1) / 2);
  for (int i = 0; i < 2; ++i) {
    expect_both_places(thrown_by<Mismatch>([] { static_cast<void>(all_reduce(3, rank() == 0 ? sum : product)); }));
    const std::function<int(int, int)> function = rank() == 0 ? sum : product;
    expect_both_places(thrown_by<Mismatch>([&] { static_cast<void>(all_reduce(3, function)); }));
    const std::function<int(int, int)> lambda = rank() == 0 ? std::function<int(int, int)>([](int a, int b) { return a + b; })
                                                            : std::function<int(int, int)>([](int a, int b) { return a * b; });
    expect_both_places(thrown_by<Mismatch>([&] { static_cast<void>(all_reduce(3, lambda)); }));
  }
  expect_usable();
}

// A rank that is late, or calls something else, does not make the others decide by themselves.
MANY_TEST(Callables, CallablesOfTwoKindsBesideAnotherCallAreAMismatchOfAll) {
  detail::set_ballot_time(std::chrono::minutes(2));
  const auto error = thrown_by<Mismatch>([&] {
    if (rank() == world_size() - 1) barrier();
    else if (rank() == 0) static_cast<void>(all_reduce(5, [](int a, int b) { return a + b; }));
    else static_cast<void>(all_reduce(5, [](int a, int b) { return a * b; }));
  });
  if (world_size() > 2) {
    EXPECT_EQ(error.culprit(), world_size() - 1);
  }
  expect_usable();
  detail::set_ballot_time(std::chrono::milliseconds(500));
}

#if defined(__x86_64__)
using Control = unsigned;
Control control() { return _mm_getcsr(); }
void set_control(Control word) { _mm_setcsr(word); }
Control flushing() { return (control() | 0x8040U) & ~0x3fU; }  // results and operands that are denormal become 0
#elif defined(__aarch64__)
using Control = std::uint64_t;
Control control() {
  Control word = 0;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_control(Control word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
Control flushing() { return control() | (Control{1} << 24); }
#endif

/// The floating-point environment of the calling thread is another one.
class OtherEnvironment {
 public:
  explicit OtherEnvironment(bool rounds) {
    if (rounds) std::fesetround(FE_UPWARD);
    set_control(flushing());
    set_ = control() & ~Control{0x3f};
  }
  ~OtherEnvironment() {
    EXPECT_EQ(control() & ~Control{0x3f}, set_) << "a call has changed the environment of its caller";
    set_control(own_);
    std::fesetround(FE_TONEAREST);
  }
  OtherEnvironment(const OtherEnvironment&) = delete;
  OtherEnvironment& operator=(const OtherEnvironment&) = delete;

 private:
  Control own_ = control(), set_ = 0;
};

// Some ranks flush denormal numbers and round upward, as trainings and interval arithmetic do: all compute alike, on the callers' threads and others.
WORLD_TEST(AllReduce, AllReduceHasTheSameBitsWhateverEnvironmentTheCallersHave) {
  const auto bits = [](float x) {
    std::uint32_t word = 0;
    std::memcpy(&word, &x, sizeof word);
    return word;
  };
  const float tiny = 1e-40F, third = 1.0F / 3;  // sums of the first are exact, those of the second are rounded
  float sum_of_tiny = 0;
  for (int r = 0; r < world_size(); ++r) sum_of_tiny += tiny;
  ASSERT_NE(sum_of_tiny, 0);
  const auto add = [](float a, float b) { return a + b; };
  for (const std::size_t count : {std::size_t{2}, std::size_t{3000}, std::size_t{100000}}) {
    std::vector<float> x(count, tiny);
    x[1] = third;
    std::vector<std::vector<float>> found(4, x);
    {
      std::optional<OtherEnvironment> other;
      if (rank() % 2 == 0) other.emplace(rank() % 4 == 0);
      all_reduce(found[0]);
      all_reduce(found[1], add);
      all_reduce_async(found[2]).wait();
      all_reduce_async(found[3], add).wait();
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(bits(found[i][0]), bits(sum_of_tiny)) << count << ", call " << i;
      const auto all = all_gather(bits(found[i][1]));
      EXPECT_EQ(all, std::vector<std::uint32_t>(all.size(), all[0])) << count << ", call " << i;
    }
  }
  std::optional<OtherEnvironment> other;
  if (rank() % 2 == 0) other.emplace(rank() % 4 == 0);
  const double average = mean(0.1 * (rank() + 1));
  other.reset();
  const auto all = all_gather(average);
  EXPECT_EQ(all, std::vector<double>(all.size(), all[0]));
}

WORLD_TEST(AllReduce, AllReduceTakesFunctionObjectsOfTheStandardLibraryForItsOwnOperations) {
  const int n = world_size();
  const auto op_of = []<class F>(F f) { return Reduction<int>(f); };
  EXPECT_EQ(op_of(std::plus<>()).custom(), nullptr);
  EXPECT_EQ(op_of(std::multiplies<int>()).op(), ReduceOp::product);
  EXPECT_EQ(op_of(std::ranges::min).op(), ReduceOp::min);
  EXPECT_EQ(op_of(std::ranges::max).op(), ReduceOp::max);
  EXPECT_EQ(op_of(std::bit_and<>()).op(), ReduceOp::band);
  EXPECT_EQ(op_of(std::bit_or<>()).op(), ReduceOp::bor);
  EXPECT_EQ(op_of(std::bit_xor<>()).op(), ReduceOp::bxor);
  EXPECT_EQ(op_of(std::logical_and<>()).op(), ReduceOp::land);
  EXPECT_EQ(op_of(std::logical_or<>()).op(), ReduceOp::lor);
  EXPECT_NE(op_of(std::minus<>()).custom(), nullptr);
  EXPECT_NE(Reduction<float>(std::plus<double>()).custom(), nullptr);  // which rounds once more
  EXPECT_EQ(all_reduce(rank() + 1, rank() == 0 ? Reduction<int>(ReduceOp::sum) : Reduction<int>(std::plus<>())), n * (n + 1) / 2);
  EXPECT_EQ(all_reduce(rank() + 1, std::ranges::max), n);
}
