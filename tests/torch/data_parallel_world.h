#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "every_world.h"
#include "unisono/torch.h"
#include "unisono/torch/data_parallel.h"

// Models that ranks train together. Started alone, the program runs each test with several numbers of ranks that are threads; started by `unisono
// run`, its processes are the ranks. Everything is float64 unless a test is about dtypes, so that one process on the whole batch comes to the same
// numbers.
namespace parallel {

using torch_tests::on_every_world;

/// The rows of a batch: a multiple of 1, 2, 3 and 4.
constexpr int rows = 12;

/// Values that differ by element and by `seed`, between -1 and 1.
torch::Tensor values(torch::IntArrayRef sizes, double seed, torch::Dtype dtype = torch::kDouble);
/// Every parameter gets such values, in float64; buffers with a dimension become float64.
void fill(torch::nn::Module& module, double seed, double scale = 0.5);
/// The rows of this rank: the batch is cut into world_size() equal parts.
torch::Tensor share(const torch::Tensor& batch);

/// Names the first parameter or buffer that differs by more than `tolerance`; "" where none does.
std::string difference(const torch::nn::Module& actual, const torch::nn::Module& expected, double tolerance = 1e-10);
std::string difference(const torch::Tensor& actual, const torch::Tensor& expected, double tolerance = 1e-10);

/// torch::relu, which expects every input to be away from 0: the derivative jumps there, and an input that is 0 but for rounding would get another
/// gradient in another part of the batch, or with another instruction set. No tolerance covers that.
torch::Tensor relu(const torch::Tensor& x);

/// Two layers with a ReLU between.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int inputs = 6, int hidden = 9, int outputs = 3);
  torch::Tensor forward(const torch::Tensor& x) { return second->forward(parallel::relu(first->forward(x))); }
  torch::nn::Linear first, second;
};
TORCH_MODULE(Net);

/// A net that is the same on all ranks when wrapped and different before.
Net net_of_rank();

}  // namespace parallel

#define WORLD_TEST_OF(at_least, suite, name)                                \
  static void suite##_##name();                                             \
  TEST(suite, name) { parallel::on_every_world(at_least, suite##_##name); } \
  static void suite##_##name()
#define WORLD_TEST(suite, name) WORLD_TEST_OF(1, suite, name)
#define MANY_TEST(suite, name) WORLD_TEST_OF(2, suite, name)
#define EXPECT_SAME(actual, expected) EXPECT_EQ(parallel::difference(actual, expected), "")
