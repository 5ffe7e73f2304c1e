// UNISONO_COMPARE=shapes: tensors of as many elements, but of another shape, are a Mismatch.

#include <array>
#include <cstdlib>

#include "base/environment.h"
#include "group/calls/check.h"
#include "unisono/detail/switches.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// Before the library reads the environment.
const int set_before_main = ::setenv("UNISONO_COMPARE", "shapes", 1);

using Shape = std::vector<std::int64_t>;

/// 6 numbers for each of as many ranks as there are.
struct Buffer {
  std::vector<float> numbers = std::vector<float>(6 * static_cast<std::size_t>(world_size()), 1.0F);
  TensorView as(const Shape& shape) { return {numbers.data(), DType::float32, shape}; }
};

// Each rank gives one shape, and the odd one another.
struct Case {
  const char* name;
  void (*call)(const Shape& shape, Buffer& x, Buffer& y);
};
constexpr Case cases[] = {
    {"all_reduce", [](auto& shape, auto& x, auto&) { all_reduce(x.as(shape)); }},
    {"reduce", [](auto& shape, auto& x, auto&) { reduce(x.as(shape), 0); }},
    {"broadcast", [](auto& shape, auto& x, auto&) { broadcast(x.as(shape), world_size() - 1); }},
    {"scan", [](auto& shape, auto& x, auto&) { scan(x.as(shape)); }},
    {"all_gather", [](auto& shape, auto& x, auto& y) { all_gather(x.as(shape), y.numbers); }},
    {"gather", [](auto& shape, auto& x, auto& y) { gather(x.as(shape), y.numbers, 0); }},
    {"scatter", [](auto& shape, auto& x, auto& y) { scatter(y.numbers, x.as(shape), 0); }},
    {"reduce_scatter", [](auto& shape, auto& x, auto& y) { reduce_scatter(y.numbers, x.as(shape)); }},
};

MANY_TEST(Shapes, AnotherShapeIsAMismatch) {
  detail::set_ballot_time(std::chrono::minutes(2));
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    const int odd = world_size() - 1;
    Buffer x, y;
    const auto error = thrown_by<Mismatch>([&] { test.call(rank() == odd ? Shape{3, 2} : Shape{2, 3}, x, y); });
    const std::string text = error.what();
    EXPECT_NE(text.find("of [3, 2]"), std::string::npos) << text;
    EXPECT_NE(text.find("of [2, 3]"), std::string::npos) << text;
    EXPECT_EQ(error.operation(), test.name);
    EXPECT_EQ(x.numbers, Buffer().numbers);
    EXPECT_EQ(y.numbers, Buffer().numbers);
    expect_culprit(error, odd);
    expect_usable();
  }
}

MANY_TEST(Shapes, TheSameShapeIsNone) {
  for (const Case& test : cases) {
    Buffer x, y;
    EXPECT_NO_THROW(test.call({3, 1, 2}, x, y)) << test.name;
  }
  // Another number of dimensions, and none.
  Buffer x;
  EXPECT_THROW(all_reduce(x.as(rank() == 0 ? Shape{6} : Shape{1, 6})), Mismatch);
  EXPECT_THROW(all_reduce(x.as(rank() == 0 ? Shape{} : Shape{1})), Mismatch);
  EXPECT_NO_THROW(all_reduce(x.as({})));
}

// Strided views, and calls under way.
MANY_TEST(Shapes, ShapesOfViewsAndAsynchronousCallsAreCompared) {
  Buffer x;
  const std::array<std::int64_t, 2> shape{2, 2}, strides{3, 1};
  const TensorView strided(x.numbers.data(), DType::float32, shape, strides);
  EXPECT_NO_THROW(all_reduce(rank() == 0 ? strided : x.as({2, 2})));
  EXPECT_THROW(all_reduce(rank() == 0 ? strided : x.as({4})), Mismatch);
  Work good = all_reduce_async(x.as({2, 3})), bad = all_reduce_async(x.as(rank() == 0 ? Shape{2, 3} : Shape{6}));
  EXPECT_NO_THROW(good.wait());
  EXPECT_THROW(bad.wait(), Mismatch);
  expect_usable();
}

// Blocks of different length have different shapes.
MANY_TEST(Shapes, ShapesOfBlocksAreNotCompared) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(2 * static_cast<std::size_t>(r + 1));
  Buffer x;
  std::vector<float> all(static_cast<std::size_t>(world_size() * (world_size() + 1)));
  EXPECT_NO_THROW(all_gather_v(x.as({rank() + 1, 2}), all, counts));
  EXPECT_EQ(all_gather_object(rank()).size(), static_cast<std::size_t>(world_size()));
}

TEST(ShapesVariable, TheVariableSaysShapesOrNothing) {
  using Variables = std::map<std::string, std::string, std::less<>>;
  EXPECT_FALSE(group::wants_shapes(base::Environment()));
  EXPECT_FALSE(group::wants_shapes(base::Environment(Variables{{"UNISONO_COMPARE", ""}})));
  EXPECT_TRUE(group::wants_shapes(base::Environment(Variables{{"UNISONO_COMPARE", "shapes"}})));
  try {
    group::wants_shapes(base::Environment(Variables{{"UNISONO_COMPARE", "shape"}}));
    FAIL() << "not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.message(), "UNISONO_COMPARE is \"shape\"; it may be \"shapes\", or unset");
  }
}

}  // namespace
