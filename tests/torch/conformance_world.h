#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "every_world.h"
#include "unisono/torch.h"
#include "unisono/torch/devices.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/objects.h"

// Every test runs in every kind of world: started alone, a program runs each test once for each of several numbers of ranks that are threads; started
// by `unisono run`, its processes are the ranks.
namespace conformance {

using torch_tests::on_every_world;

inline const std::vector<torch::Dtype> numbers{torch::kChar,   torch::kShort,  torch::kInt,          torch::kLong,         torch::kByte,
                                               torch::kUInt16, torch::kUInt32, torch::kUInt64,       torch::kHalf,         torch::kBFloat16,
                                               torch::kFloat,  torch::kDouble, torch::kComplexFloat, torch::kComplexDouble};
inline const std::vector<torch::Dtype> every_dtype = [] {
  std::vector<torch::Dtype> all = numbers;
  all.push_back(torch::kBool);
  return all;
}();

/// Element i of rank r: distinct in ranks and elements, and small enough for the sums of four ranks to be exact in every dtype and to fit int8.
/// `sizes` have 7 elements at most, else the dtypes of one byte wrap, in the same way on every rank.
torch::Tensor value(torch::IntArrayRef sizes, int r, torch::Dtype dtype = torch::kFloat);
/// The sum of the values of the ranks from `first` to `last - 1`.
torch::Tensor sum(torch::IntArrayRef sizes, int first, int last, torch::Dtype dtype = torch::kFloat);

/// "" or what differs: dtype, shape, or the first element.
std::string difference(const torch::Tensor& actual, const torch::Tensor& expected);

/// Layouts of one shape: contiguous, transposed, sliced with steps, with the last dimension first, a part of something larger at an odd offset. Each
/// has memory of its own, filled with other values.
std::vector<std::pair<const char*, torch::Tensor>> layouts(torch::IntArrayRef sizes, torch::Dtype dtype);

}  // namespace conformance

#define WORLD_TEST_OF(at_least, suite, name)                                   \
  static void suite##_##name();                                                \
  TEST(suite, name) { conformance::on_every_world(at_least, suite##_##name); } \
  static void suite##_##name()
#define WORLD_TEST(suite, name) WORLD_TEST_OF(1, suite, name)
#define MANY_TEST(suite, name) WORLD_TEST_OF(2, suite, name)
#define EXPECT_SAME(actual, expected) EXPECT_EQ(conformance::difference(actual, expected), "")
