// Tensors in memory that the ranks of a host share: where it lies, and how long it lives.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "unisono/shared_memory.h"
#include "unisono/torch.h"
#include "unisono/torch/memory.h"

namespace unisono {
namespace {

TEST(TorchMemory, SharedTensorsLieInThePool) {
  const torch::Tensor x = empty_shared({100, 30}, torch::kDouble);
  EXPECT_TRUE(is_shared(x));
  EXPECT_TRUE(is_shared(x.data_ptr(), 100 * 30 * 8));
  EXPECT_EQ(x.sizes(), torch::IntArrayRef({100, 30}));
  EXPECT_EQ(x.scalar_type(), torch::kDouble);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 64, 0U);
  EXPECT_TRUE(is_shared(x.t().slice(0, 1, 7)));
  EXPECT_FALSE(is_shared(torch::empty({100, 30})));
  EXPECT_FALSE(is_shared(torch::Tensor()));
  EXPECT_EQ(empty_shared({2}).scalar_type(), torch::kFloat);
  EXPECT_EQ(empty_shared({0, 3}).numel(), 0);
  EXPECT_EQ(empty_shared({}).dim(), 0);
  EXPECT_TRUE(empty_shared({2}, torch::requires_grad()).requires_grad());
  EXPECT_TRUE(empty_shared({1, 3, 2, 2}, torch::TensorOptions().memory_format(torch::MemoryFormat::ChannelsLast))
                  .is_contiguous(torch::MemoryFormat::ChannelsLast));
}

TEST(TorchMemory, ASharedTensorGrowsWhereItIs) {
  torch::Tensor x = empty_shared({10});
  x.copy_(torch::arange(10));
  x.resize_({100000});
  EXPECT_TRUE(is_shared(x));
  EXPECT_TRUE(torch::equal(x.slice(0, 0, 10), torch::arange(10, torch::kFloat)));
}

TEST(TorchMemory, ACopyKeepsValuesAndStrides) {
  const torch::Tensor given = torch::arange(24).reshape({2, 3, 4}).permute({2, 0, 1});
  const torch::Tensor shared = to_shared(given);
  EXPECT_TRUE(is_shared(shared));
  EXPECT_EQ(shared.strides(), given.strides());
  EXPECT_TRUE(torch::equal(shared, given));
  EXPECT_TRUE(to_shared(shared).is_same(shared));
  const torch::Tensor expanded = torch::arange(3).expand({2, 3});
  EXPECT_TRUE(to_shared(expanded).is_contiguous());
  EXPECT_TRUE(torch::equal(to_shared(expanded), expanded));
  const torch::Tensor conjugate = torch::view_as_complex(torch::arange(6.0).reshape({3, 2})).conj();
  EXPECT_TRUE(torch::equal(to_shared(conjugate), conjugate));
}

TEST(TorchMemory, AutogradFollowsTheCopy) {
  const torch::Tensor x = torch::ones({3}, torch::requires_grad());
  (to_shared(x) * 5).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({3}, 5.F)));
  torch::nn::Linear model(4, 2);
  const torch::Tensor before = model->weight.detach().clone();
  model->weight.set_data(to_shared(model->weight.detach()));
  EXPECT_TRUE(is_shared(model->weight));
  EXPECT_TRUE(model->weight.requires_grad() && model->weight.is_leaf());
  EXPECT_TRUE(torch::equal(model->weight, before));
}

TEST(TorchMemory, WhatCannotBeSharedIsRefused) {
  EXPECT_THROW(static_cast<void>(empty_shared({2}, torch::kMeta)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(empty_shared({2}, torch::kCUDA)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(empty_shared({2}, torch::kSparse)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(empty_shared({2, -1})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(to_shared(torch::Tensor())), InvalidArgument);
  EXPECT_THROW(static_cast<void>(to_shared(torch::empty({2}, torch::kMeta))), InvalidArgument);
  EXPECT_THROW(static_cast<void>(to_shared(torch::eye(2).to_sparse())), InvalidArgument);
  try {
    static_cast<void>(empty_shared({2}, torch::kMeta));
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("meta"), std::string::npos) << error.what();
  }
}

TEST(TorchMemory, MemoryIsFreedByTheLastTensorOnAnyThread) {
  // More than the address space of the pool in all, so that blocks must come back.
  for (int i = 0; i < 600; ++i) {
    torch::Tensor x = empty_shared({std::int64_t{1} << 28});
    ASSERT_TRUE(is_shared(x)) << i;
    std::thread([y = std::move(x)] {}).join();
  }
}

TEST(TorchMemory, SharedTensorsLivePastFinalize) {
  torch::Tensor kept;
  run_threads(2, [&] {
    torch::Tensor x = empty_shared({5000});
    x.copy_(torch::arange(5000) * (rank() + 1));
    all_reduce(x);
    if (rank() == 0) kept = x;
  });
  EXPECT_TRUE(torch::equal(kept, torch::arange(5000, torch::kFloat) * 3));
}

}  // namespace
}  // namespace unisono
