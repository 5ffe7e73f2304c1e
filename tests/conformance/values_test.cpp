// UNISONO_CHECK: no rank sends a NaN or an infinity, and the error says where it is.

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/environment.h"
#include "group/calls/check.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

// Before the library reads the environment.
const int set_before_main = ::setenv("UNISONO_CHECK", "finite", 1);

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();

std::size_t size() { return static_cast<std::size_t>(world_size()); }

/// Each rank gives x, which has 4 numbers for each rank, and takes y.
struct Case {
  const char* name;
  bool (*sends)();  // whether this rank does
  void (*call)(std::vector<float>& x, std::vector<float>& y);
};

bool always() { return true; }
bool at_root() { return rank() == 1; }
std::vector<std::span<float>> blocks(std::vector<float>& all) {
  std::vector<std::span<float>> list;
  for (std::size_t r = 0; r < size(); ++r) list.push_back(std::span(all).subspan((size() - 1 - r) * 4, 4));  // from behind: not one piece of memory
  return list;
}

constexpr Case cases[] = {
    {"all_reduce", always, [](auto& x, auto& y) { all_reduce(x, y); }},
    {"all_reduce_async", always, [](auto& x, auto& y) { all_reduce_async(x, y).wait(); }},
    {"callable", always, [](auto& x, auto& y) { all_reduce(x, y, [](float a, float b) { return a + b; }); }},
    {"reduce", always, [](auto& x, auto&) { reduce(x, 1); }},
    {"scan", always, [](auto& x, auto&) { scan(x); }},
    {"reduce_scatter", always, [](auto& x, auto& y) { reduce_scatter(x, std::span(y).first(4)); }},
    {"all_to_all", always, [](auto& x, auto& y) { all_to_all(x, y); }},
    {"all_gather", always, [](auto& x, auto& y) { all_gather(std::span(x).last(4), y); }},
    {"all_gather_v", always, [](auto& x, auto& y) { all_gather_v(std::span(x).last(4), y, std::vector<std::size_t>(size(), 4)); }},
    {"gather", always, [](auto& x, auto& y) { gather(std::span(x).last(4), y, 1); }},
    {"broadcast", at_root, [](auto& x, auto&) { broadcast(x, 1); }},
    {"scatter", at_root, [](auto& x, auto& y) { scatter(x, std::span(y).first(4), 1); }},
    {"scatter of a list", at_root, [](auto& x, auto& y) { scatter(blocks(x), std::span(y).first(4), 1); }},
    {"message", at_root,
     [](auto& x, auto& y) {
       if (rank() == 1) send(x, 0);
       if (rank() == 0) recv(y, 1);
     }},
};

// The others wait for the rank meanwhile. It repeats the call with another value, and that is the call of all.
MANY_TEST(Values, ValuesAreRefusedWhereTheyAreAndBeforeAnythingIsSent) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    for (int odd = 0; odd < world_size(); ++odd) {
      auto x = values<float>(4 * size(), rank());
      std::vector<float> y(4 * size(), -1.0F);
      const std::size_t at = x.size() - 1;
      const float good = x[at];
      if (rank() == odd && test.sends()) {
        x[at] = odd % 2 == 0 ? nan : -infinity;
        const auto error = thrown_by<InvalidArgument>([&] { test.call(x, y); });
        const std::string text = error.what();
        EXPECT_NE(text.find(odd % 2 == 0 ? " is NaN" : " is infinite"), std::string::npos) << text;
        EXPECT_NE(text.find("element "), std::string::npos) << text;
        EXPECT_EQ(error.rank(), odd);
        EXPECT_EQ(error.group(), "world");
        EXPECT_GT(error.sequence(), 0U);
        EXPECT_EQ(y, std::vector<float>(y.size(), -1.0F));
        x[at] = good;
      }
      test.call(x, y);
      expect_usable();
    }
  }
}

// A buffer that is only received into may hold anything, and so may one of other elements than floating-point numbers.
MANY_TEST(Values, ValuesOfBuffersThatAreOnlyWrittenAreNotLookedAt) {
  std::vector<float> x(4 * size(), rank() == 1 ? 1.0F : nan), y(4 * size(), nan);
  broadcast(x, 1);
  EXPECT_EQ(x, std::vector<float>(x.size(), 1.0F));
  all_gather(std::span(x).first(4), y);
  EXPECT_EQ(y, x);
  std::vector<float> only_root(rank() == 0 ? 4 * size() : 0, 2.0F), block(4, nan);
  scatter(only_root, block, 0);
  EXPECT_EQ(block, std::vector<float>(4, 2.0F));
  std::vector<std::uint32_t> bits(3, 0x7fc00000U);
  all_reduce(bits, ReduceOp::max);
  float object = nan;
  broadcast_object(object, 0);
  EXPECT_TRUE(std::isnan(object));
}

TEST(RefusedValues, ValuesOfEveryDtypeAreRefused) {
  using group::RefusedValues;
  struct Row {
    DType dtype;
    std::vector<std::uint64_t> bits;  // of the largest number, infinity, the smallest NaN
    std::size_t bytes;
  };
  const Row rows[] = {{DType::float16, {0x7bff, 0x7c00, 0x7c01}, 2},
                      {DType::bfloat16, {0x7f7f, 0x7f80, 0x7f81}, 2},
                      {DType::float32, {0x7f7fffff, 0x7f800000, 0x7f800001}, 4},
                      {DType::float64, {0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001}, 8},
                      {DType::complex64, {0x7f7fffff, 0x7f800000, 0x7f800001}, 4},
                      {DType::complex128, {0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001}, 8},
                      {DType::int64, {0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001}, 8}};
  for (const Row& row : rows) {
    for (const bool negative : {false, true}) {
      for (std::size_t kind = 0; kind < 3; ++kind) {
        SCOPED_TRACE(std::string(to_string(row.dtype)) + (negative ? " -" : " ") + std::to_string(kind));
        std::vector<std::byte> memory(1 + 38 * row.bytes);  // at an odd address
        for (const std::size_t i : {21U, 30U}) {
          const std::uint64_t bits = row.bits[kind] | (negative ? std::uint64_t{1} << (8 * row.bytes - 1) : 0);
          std::memcpy(memory.data() + 1 + i * row.bytes, &bits, row.bytes);
        }
        const TensorView view(memory.data() + 1, row.dtype, 38 * row.bytes / size_of(row.dtype));
        for (const auto values : {RefusedValues::none, RefusedValues::nan, RefusedValues::not_finite}) {
          const group::Refused refused = group::look_for(values, view);
          const bool is_refused =
              row.dtype != DType::int64 && (values == RefusedValues::not_finite ? kind > 0 : values == RefusedValues::nan && kind == 2);
          EXPECT_EQ(refused.count, is_refused ? 2U : 0U);
          if (!is_refused) continue;
          EXPECT_EQ(refused.first, 21 * row.bytes / size_of(row.dtype));
          EXPECT_EQ(refused.is_nan, kind == 2);
        }
      }
    }
  }
}

TEST(RefusedValues, RefusedValuesOfAStridedViewAreThoseOfItsElements) {
  std::vector<float> memory(12, 1.0F);
  const std::vector<std::int64_t> shape{3, 2}, strides{4, 1};
  const TensorView view(memory.data(), DType::float32, shape, strides);
  memory[2] = memory[11] = nan;  // between the rows
  EXPECT_EQ(group::look_for(group::RefusedValues::nan, view).count, 0U);
  memory[5] = nan;
  EXPECT_EQ(group::look_for(group::RefusedValues::nan, view).count, 1U);
  EXPECT_EQ(group::look_for(group::RefusedValues::nan, view).first, 3U);
}

TEST(RefusedValues, RefusedValuesAreNamedByTheVariable) {
  using Variables = std::map<std::string, std::string, std::less<>>;
  const auto of = [](const char* text) { return group::refused_values(base::Environment(Variables{{"UNISONO_CHECK", text}})); };
  EXPECT_EQ(group::refused_values(base::Environment()), group::RefusedValues::none);
  EXPECT_EQ(of(""), group::RefusedValues::none);
  EXPECT_EQ(of("nan"), group::RefusedValues::nan);
  EXPECT_EQ(of("finite"), group::RefusedValues::not_finite);
  try {
    of("inf");
    FAIL() << "not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.message(), "UNISONO_CHECK is \"inf\"; it may be \"nan\" or \"finite\", or unset");
  }
}

}  // namespace
