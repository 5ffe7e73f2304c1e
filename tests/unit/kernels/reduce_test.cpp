#include "kernels/reduce.h"
#include "kernels/vector.h"
#include "kernels/dispatch.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include "base/environment.h"
#include "oracle.h"
#include "unisono/error.h"

namespace unisono {
namespace {

using oracle::Bytes;

// The short run of the sanitizers, in which every byte of the comparisons is checked: more than one block of the scalar kernels, and each number of
// inputs that has a branch of its own, with one more.
#if defined(UNISONO_SHORT_SWEEP)
constexpr std::size_t counts[] = {0, 1, 9, 300};
constexpr std::size_t fan_ins[] = {1, 2, 3, 4, 5};
constexpr std::size_t counts_written_over[] = {1, 65};
constexpr std::size_t steps[] = {3, 333};
#else
constexpr std::size_t counts[] = {0, 1, 7, 8, 9, 63, 64, 65, 1000, 4093};
constexpr std::size_t fan_ins[] = {1, 2, 3, 4, 5, 8, 17};
constexpr std::size_t counts_written_over[] = {1, 9, 65, 1000};
constexpr std::size_t steps[] = {1, 3, 17, 64, 333};
#endif
constexpr std::byte guard{0xa5};

std::string named(DType dtype, ReduceOp op, std::size_t fan_in, std::size_t count) {
  return std::string(to_string(dtype)) + " " + std::string(to_string(op)) + " of " + std::to_string(fan_in) + " x " + std::to_string(count);
}

// Elements at a chosen distance from an aligned address, between guard bytes.
class Placed {
 public:
  Placed(const Bytes& content, std::size_t offset) : size_(content.size()), memory_(64 + offset + content.size() + 64, guard) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    begin_ = (64 - address % 64) % 64 + offset;
    std::copy(content.begin(), content.end(), memory_.begin() + static_cast<std::ptrdiff_t>(begin_));
  }
  std::byte* data() { return memory_.data() + begin_; }
  Bytes content() const {
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {first, first + static_cast<std::ptrdiff_t>(size_)};
  }
  bool guards_intact() const {
    const auto intact = [](std::byte b) { return b == guard; };
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), first, intact) && std::all_of(first + static_cast<std::ptrdiff_t>(size_), memory_.end(), intact);
  }

 private:
  std::size_t size_;
  std::size_t begin_ = 0;
  Bytes memory_;
};

std::vector<Bytes> inputs_of(DType dtype, std::size_t fan_in, std::size_t count) {
  std::vector<Bytes> inputs;
  for (std::size_t k = 0; k < fan_in; ++k) inputs.push_back(oracle::values(dtype, count, 1000 * count + k));
  return inputs;
}

Bytes run(const std::vector<Bytes>& inputs, std::size_t count, DType dtype, ReduceOp op, std::size_t divisor) {
  std::vector<const void*> addresses;
  for (const auto& input : inputs) addresses.push_back(input.data());
  Bytes out(count * size_of(dtype));
  kernels::reduce(out.data(), addresses.data(), addresses.size(), count, dtype, op, divisor);
  return out;
}

template <class T>
T run_one(ReduceOp op, std::vector<T> x, std::size_t divisor = 1) {
  std::vector<const void*> addresses;
  for (const auto& value : x) addresses.push_back(&value);
  T out{};
  kernels::reduce(&out, addresses.data(), addresses.size(), 1, dtype_of<T>::value, op, divisor);
  return out;
}

template <class F>
void for_each_pair(F&& f) {
  for (const DType dtype : oracle::every_dtype) {
    for (const ReduceOp op : oracle::every_op) {
      if (kernels::supports(dtype, op)) f(dtype, op);
    }
  }
}

// Every test of this kind runs on each instruction set that this machine has.
class Reduce : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((kernels::usable_targets() & GetParam()) == 0) GTEST_SKIP() << "not on this machine";
    if ((HWY_DISABLED_TARGETS & GetParam()) != 0) GTEST_SKIP() << "not in a sanitized build";
    kernels::use_targets(GetParam());
    ASSERT_EQ(kernels::target_name(), hwy::TargetName(GetParam()));
  }
  void TearDown() override { kernels::use_targets(0); }
};

TEST_P(Reduce, AReductionGivesWhatTheOracleGives) {
  for_each_pair([](DType dtype, ReduceOp op) {
    for (const std::size_t fan_in : fan_ins) {
      for (const std::size_t count : counts) {
        const auto inputs = inputs_of(dtype, fan_in, count);
        const std::size_t divisor = fan_in + count % 3;
        const Bytes expected = oracle::reduce(inputs, count, dtype, op, divisor);
        for (const std::size_t offset : {0, 1, 4, 39}) {
          if (offset > 1 && count > 100) continue;
          std::vector<Placed> placed;
          std::vector<const void*> addresses;
          for (std::size_t k = 0; k < fan_in; ++k) placed.emplace_back(inputs[k], (offset * (k + 1)) % 64);
          for (auto& input : placed) addresses.push_back(input.data());
          Placed out(Bytes(count * size_of(dtype)), offset);
          kernels::reduce(out.data(), addresses.data(), fan_in, count, dtype, op, divisor);
          ASSERT_EQ(out.content(), expected) << named(dtype, op, fan_in, count) << " at " << offset;
          ASSERT_TRUE(out.guards_intact()) << named(dtype, op, fan_in, count) << " at " << offset;
          for (std::size_t k = 0; k < fan_in; ++k) ASSERT_EQ(placed[k].content(), inputs[k]) << "an input changed";
        }
      }
    }
  });
}

TEST_P(Reduce, AReductionWritesOverAnyOfItsInputs) {
  for_each_pair([](DType dtype, ReduceOp op) {
    for (const std::size_t fan_in : fan_ins) {
      for (const std::size_t count : counts_written_over) {
        const auto inputs = inputs_of(dtype, fan_in, count);
        const Bytes expected = oracle::reduce(inputs, count, dtype, op, fan_in);
        for (std::size_t target = 0; target < fan_in; ++target) {
          auto copies = inputs;
          std::vector<const void*> addresses;
          for (const auto& copy : copies) addresses.push_back(copy.data());
          kernels::reduce(copies[target].data(), addresses.data(), fan_in, count, dtype, op, fan_in);
          ASSERT_EQ(copies[target], expected) << named(dtype, op, fan_in, count) << " over input " << target;
        }
      }
    }
  });
}

TEST_P(Reduce, AReductionGivesTheSameBitsWhereverItIsCut) {
  constexpr std::size_t count = 1000;
  for_each_pair([](DType dtype, ReduceOp op) {
    const std::size_t size = size_of(dtype);
    for (const std::size_t fan_in : {2, 4, 5}) {
      const auto inputs = inputs_of(dtype, fan_in, count);
      const Bytes whole = run(inputs, count, dtype, op, fan_in);
      for (const std::size_t step : steps) {
        Bytes pieces(whole.size());
        for (std::size_t at = 0; at < count; at += step) {
          std::vector<const void*> addresses;
          for (const auto& input : inputs) addresses.push_back(input.data() + at * size);
          kernels::reduce(pieces.data() + at * size, addresses.data(), fan_in, std::min(step, count - at), dtype, op, fan_in);
        }
        ASSERT_EQ(pieces, whole) << named(dtype, op, fan_in, count) << " in pieces of " << step;
      }
    }
  });
}

// Every float16 and bfloat16 there is, rounded from the sum and from the mean of two neighbours.
TEST_P(Reduce, EveryHalfIsRoundedLikeTheConversions) {
  constexpr std::size_t count = 65536;
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    std::vector<Bytes> inputs(2, Bytes(count * 2));
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = static_cast<std::uint16_t>(i);
      const auto second = static_cast<std::uint16_t>(i * 40503U + 1);
      std::memcpy(inputs[0].data() + 2 * i, &first, 2);
      std::memcpy(inputs[1].data() + 2 * i, &second, 2);
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::avg, ReduceOp::min}) {
      EXPECT_EQ(run(inputs, count, dtype, op, 3), oracle::reduce(inputs, count, dtype, op, 3)) << named(dtype, op, 2, count);
    }
  }
}

TEST_P(Reduce, HalvesAreAccumulatedInFloatAndRoundedOnce) {
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<bfloat16>(300, bfloat16(1.0F))), 300.0F);                // rounded at each step it would stop at 256
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<float16>(2100, float16(1.0F))), 2100.0F);                // at 2048
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<float16>(4, float16(60000.0F)), 4), float16(60000.0F));  // the sum is no float16
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<float16>{float16(65504.0F), float16(65504.0F), float16(-65504.0F)}), 65504.0F);
}

TEST_P(Reduce, ElementsAreFoldedFromLeftToRight) {
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<float>{1e8F, -1e8F, 1.0F}), 1.0F);
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<float>{1.0F, 1e8F, -1e8F}), 0.0F);
  EXPECT_EQ(run_one(ReduceOp::product, std::vector<double>{1e300, 1e300, 1e-300}), INFINITY);
  EXPECT_EQ(run_one(ReduceOp::product, std::vector<double>{1e300, 1e-300, 1e300}), 1e300);
}

TEST_P(Reduce, ZerosAreOrderedAndNaNIsKept) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  EXPECT_EQ(bits(run_one(ReduceOp::min, std::vector<float>{0.0F, -0.0F})), bits(-0.0F));
  EXPECT_EQ(bits(run_one(ReduceOp::min, std::vector<float>{-0.0F, 0.0F})), bits(-0.0F));
  EXPECT_EQ(bits(run_one(ReduceOp::max, std::vector<float>{0.0F, -0.0F})), bits(0.0F));
  EXPECT_EQ(bits(run_one(ReduceOp::max, std::vector<float>{-0.0F, 0.0F})), bits(0.0F));
  for (std::size_t where = 0; where < 5; ++where) {
    std::vector<float> x = {1.0F, -3.0F, 7.0F, -INFINITY, INFINITY};
    x[where] = std::bit_cast<float>(0xff812345U);  // signalling, negative, with a payload
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum, ReduceOp::product, ReduceOp::avg}) {
      EXPECT_EQ(bits(run_one(op, x, 5)), bits(nan)) << "NaN at " << where << " " << to_string(op);
    }
    EXPECT_EQ(run_one(ReduceOp::land, x), 1.0F);
  }
  EXPECT_EQ(bits(run_one(ReduceOp::sum, std::vector<float>{INFINITY, -INFINITY})), bits(nan));
  EXPECT_EQ(bits(run_one(ReduceOp::land, std::vector<float>{-0.0F, 1.0F})), bits(0.0F));
  EXPECT_EQ(bits(run_one(ReduceOp::lor, std::vector<float>{-0.0F, 0.0F})), bits(0.0F));
  EXPECT_EQ(run_one(ReduceOp::lor, std::vector<float>{0.0F, std::numeric_limits<float>::denorm_min()}), 1.0F);
}

TEST_P(Reduce, IntegersWrapAndTheirMeanIsTruncated) {
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<std::int8_t>{127, 1}), -128);
  EXPECT_EQ(run_one(ReduceOp::sum, std::vector<std::int64_t>{INT64_MIN, -1}), INT64_MAX);
  EXPECT_EQ(run_one(ReduceOp::product, std::vector<std::int32_t>{65536, 65536, 3}), 0);
  EXPECT_EQ(run_one(ReduceOp::product, std::vector<std::uint16_t>{65535, 65535}), 1);
  EXPECT_EQ(run_one(ReduceOp::product, std::vector<std::int64_t>{INT64_MAX, -3}), -9223372036854775805);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::int32_t>{-7, 0}, 2), -3);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::int32_t>{7, 0}, 2), 3);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::int8_t>{-128, -128, -127}, 3), -127);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::uint8_t>(17, 255), 17), 255);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::int64_t>{INT64_MIN, INT64_MIN, INT64_MIN}, 3), INT64_MIN);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::uint64_t>{UINT64_MAX, UINT64_MAX}, 2), UINT64_MAX);
  EXPECT_EQ(run_one(ReduceOp::avg, std::vector<std::int64_t>{-9}, 4), -2);
}

TEST_P(Reduce, AnyByteButZeroIsTrue) {
  const std::vector<Bytes> inputs = {{std::byte{2}, std::byte{0}, std::byte{128}}, {std::byte{255}, std::byte{0}, std::byte{0}}};
  const auto is = [&](ReduceOp op, int a, int b, int c) {
    EXPECT_EQ(run(inputs, 3, DType::boolean, op, 1), (Bytes{std::byte(a), std::byte(b), std::byte(c)})) << to_string(op);
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bor, ReduceOp::lor}) is(op, 1, 0, 1);
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::band, ReduceOp::land}) is(op, 1, 0, 0);
  is(ReduceOp::bxor, 0, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(On, Reduce, testing::Values(HWY_STATIC_TARGET, HWY_SSE4, HWY_AVX2, HWY_AVX3),
                         [](const auto& target) { return std::string(hwy::TargetName(target.param)) + "_" + std::to_string(target.index); });

// Highway's own library, which no program of ours loads, knows the processor as well.
TEST(ReduceTargets, TargetsAreThoseThatHighwayFinds) {
  if (base::Environment::process().has("UNISONO_INSTRUCTION_SET")) GTEST_SKIP() << "UNISONO_INSTRUCTION_SET leaves some out";
  constexpr std::int64_t known = HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL;
  EXPECT_EQ(kernels::usable_targets() & known, hwy::SupportedTargets() & known);
}

TEST(ReduceSupports, SupportIsTheTableOfTheHeader) {
  std::size_t pairs = 0;
  for_each_pair([&](DType, ReduceOp) { ++pairs; });
  EXPECT_EQ(pairs, 9U + 8 * 10 + 4 * 7 + 2 * 3);  // boolean, integers, floats, complex
  EXPECT_FALSE(kernels::supports(DType::boolean, ReduceOp::avg));
  EXPECT_FALSE(kernels::supports(DType::complex64, ReduceOp::max));
  EXPECT_FALSE(kernels::supports(DType::complex128, ReduceOp::lor));
  EXPECT_FALSE(kernels::supports(DType::float32, ReduceOp::bxor));
  EXPECT_TRUE(kernels::supports(DType::boolean, ReduceOp::bxor));
}

// Each thread owns a slice of the result and reads all inputs; the first of them finds out which instructions there are.
TEST(ReduceThreads, ThreadsShareTheirInputs) {
  constexpr std::size_t count = 4093;
  constexpr std::size_t thread_count = 4;
  const auto inputs = inputs_of(DType::float32, 5, count);
  Bytes out(count * sizeof(float));
  kernels::chosen_target.DeInit();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      const std::size_t first = count * t / thread_count;
      const std::size_t end = count * (t + 1) / thread_count;
      std::vector<const void*> addresses;
      for (const auto& input : inputs) addresses.push_back(input.data() + first * sizeof(float));
      kernels::reduce(out.data() + first * sizeof(float), addresses.data(), addresses.size(), end - first, DType::float32, ReduceOp::sum, 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(out, oracle::reduce(inputs, count, DType::float32, ReduceOp::sum, 1));
}

TEST(ReduceNames, NamesOfOperationsAreReadInAnyCaseAndWrittenBack) {
  for (const ReduceOp op : oracle::every_op) EXPECT_EQ(parse_reduce_op(to_string(op)), op) << to_string(op);
  const std::pair<const char*, ReduceOp> names[] = {
      {"SUM", ReduceOp::sum},  {"PROD", ReduceOp::product}, {"PRODUCT", ReduceOp::product}, {"MIN", ReduceOp::min},
      {"Max", ReduceOp::max},  {"MEAN", ReduceOp::avg},     {"AVG", ReduceOp::avg},         {"AVERAGE", ReduceOp::avg},
      {"AND", ReduceOp::band}, {"BAND", ReduceOp::band},    {"or", ReduceOp::bor},          {"BOR", ReduceOp::bor},
      {"XOR", ReduceOp::bxor}, {"BXOR", ReduceOp::bxor},    {"LAND", ReduceOp::land},       {"lOr", ReduceOp::lor}};
  for (const auto& [text, op] : names) EXPECT_EQ(parse_reduce_op(text), op) << text;
  for (const char* text : {"", "su", "sums", " sum", "nand"}) EXPECT_THROW(parse_reduce_op(text), InvalidArgument) << text;
}

TEST(ReduceErrors, ErrorsOfReductionsAreInvalidArguments) {
  float value = 1.0F;
  const void* input = &value;
  EXPECT_THROW(kernels::reduce(&value, &input, 1, 1, DType::float32, ReduceOp::band, 1), InvalidArgument);
  EXPECT_THROW(kernels::reduce(&value, &input, 0, 1, DType::float32, ReduceOp::sum, 1), InvalidArgument);
  EXPECT_THROW(kernels::reduce(&value, &input, 1, 1, DType::float32, ReduceOp::avg, 0), InvalidArgument);
  EXPECT_EQ(value, 1.0F);
}

}  // namespace
}  // namespace unisono
