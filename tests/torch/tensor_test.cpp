// at::Tensor as a buffer: every dtype, any strides, handles that are constants or temporaries, and what autograd sees of it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "refusal.h"
#include "unisono/torch.h"

namespace unisono {
namespace {

constexpr int ranks = 3;

TEST(TorchTensor, EveryDTypeIsSummed) {
  run_threads(ranks, [] {
    for (const auto dtype : {torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kByte, torch::kHalf, torch::kBFloat16, torch::kFloat,
                             torch::kDouble, torch::kComplexFloat, torch::kComplexDouble}) {
      torch::Tensor x = (torch::arange(7) + rank()).to(dtype);
      all_reduce(x);
      EXPECT_TRUE(torch::equal(x, (torch::arange(7) * ranks + 3).to(dtype))) << dtype;
    }
    torch::Tensor flag = torch::tensor(rank() == 1);
    all_reduce(flag, ReduceOp::lor);
    EXPECT_TRUE(flag.item<bool>());
  });
}

TEST(TorchTensor, StridesAreFollowed) {
  run_threads(ranks, [] {
    torch::Tensor whole = torch::arange(24).reshape({4, 6});
    const torch::Tensor before = whole.clone();
    torch::Tensor part = whole.t().slice(0, 1, 6, 2);  // distinct values, no two strides alike
    const torch::Tensor given = part.clone() * (rank() + 1);
    part.copy_(given);
    all_reduce(part);
    EXPECT_TRUE(torch::equal(part, before.t().slice(0, 1, 6, 2) * 6));
    EXPECT_TRUE(torch::equal(whole.t().slice(0, 0, 6, 2), before.t().slice(0, 0, 6, 2)));  // what lies between is untouched
  });
}

TEST(TorchTensor, TensorsAreGatheredFromAnyLayoutIntoAny) {
  run_threads(ranks, [] {
    const torch::Tensor mine = (torch::arange(6).reshape({2, 3}) + 10 * rank()).t();
    torch::Tensor all = torch::zeros({3 * ranks, 2}, torch::kLong);
    all_gather(mine.contiguous(), all.reshape({-1}), world());
    torch::Tensor out = torch::zeros({2 * ranks, 3, 2}, torch::kLong).slice(0, 0, 2 * ranks, 2);
    all_gather(mine, out);
    for (int r = 0; r < ranks; ++r) {
      const torch::Tensor expected = (torch::arange(6).reshape({2, 3}) + 10 * r).t();
      EXPECT_TRUE(torch::equal(out[r], expected));
      EXPECT_TRUE(torch::equal(all.slice(0, 3 * r, 3 * r + 3), expected));
    }
  });
}

TEST(TorchTensor, ScalarsAndEmptyTensorsAreTaken) {
  run_threads(ranks, [] {
    torch::Tensor scalar = torch::tensor(1.5);
    all_reduce(scalar);
    EXPECT_EQ(scalar.item<float>(), 4.5F);
    EXPECT_EQ(scalar.dim(), 0);
    torch::Tensor empty = torch::empty({0, 5});
    all_reduce(empty);
    EXPECT_EQ(empty.numel(), 0);
  });
}

TEST(TorchTensor, AHandleIsEnough) {
  run_threads(ranks, [] {
    const torch::Tensor constant = torch::ones({2});
    all_reduce(constant);
    EXPECT_TRUE(torch::equal(constant, torch::full({2}, 3.F)));
    torch::Tensor rows = torch::ones({2, 2});
    broadcast(rows[1].mul_(rank() + 1), 2);
    EXPECT_TRUE(torch::equal(rows[1], torch::full({2}, 3.F)));
    torch::nn::Linear model(2, 2);
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter.fill_(rank());
    all_reduce_params(model->parameters());
    EXPECT_TRUE(torch::equal(model->bias, torch::full({2}, 3.F)));
  });
}

TEST(TorchTensor, AutogradKnowsWhatWasWritten) {
  run_threads(ranks, [] {
    torch::Tensor x = torch::ones({2}, torch::requires_grad());
    torch::Tensor y = x * 2;
    torch::Tensor z = (y * y).sum();
    broadcast(y, 1);
    EXPECT_THROW(z.backward(), c10::Error);  // it needs the y that is no more
    torch::Tensor kept = x * 3;
    torch::Tensor sum = torch::empty({2});
    torch::Tensor square = (kept * kept).sum();
    all_reduce(kept, sum);
    square.backward();  // what was only read is as it was
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 18.F)));
    EXPECT_FALSE(sum.requires_grad());
  });
}

TEST(TorchTensor, AutogradIsNotPartOfIt) {
  run_threads(ranks, [] {
    torch::nn::Linear model(3, 1);
    broadcast(model->weight, 0);  // a leaf that requires a gradient
    EXPECT_TRUE(model->weight.requires_grad());
    EXPECT_TRUE(model->weight.is_leaf());
  });
}

TEST(TorchTensor, MessagesCarryTensors) {
  run_threads(2, [] {
    torch::Tensor x = torch::full({2, 2}, rank() + 1.0);
    if (rank() == 0) return send(x.t(), 1);
    EXPECT_EQ(recv(x.slice(0, 0, 2), 0), 0);
    EXPECT_TRUE(torch::equal(x, torch::ones({2, 2})));
  });
}

TEST(TorchTensor, WhatHasNoElementsOfItsOwnIsRefused) {
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::Tensor()); }).find("undefined"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::eye(3).to_sparse()); }).find("sparse"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] {
              all_reduce(at::_nested_tensor_from_tensor_list({torch::ones({2}), torch::ones({3})}));
            }).find("nested"),
            std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::ones({2}, torch::kComplexFloat).conj()); }).find("resolve_conj"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::empty({2}, torch::kFloat8_e5m2)); }).find("Float8_e5m2"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::empty({2}, torch::kMeta)); }).find("meta"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::_efficientzerotensor({3}, torch::kFloat)); }).find("no memory"), std::string::npos);
  EXPECT_NE(refusal<InvalidArgument>([] { all_reduce(torch::_efficientzerotensor({3, 2}, torch::kFloat)); }).find("no memory"), std::string::npos);
  const torch::Tensor freed = torch::ones({100});
  freed.storage().unsafeGetStorageImpl()->set_nbytes(0);
  freed.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr());
  EXPECT_NE(refusal<InvalidArgument>([&] { all_reduce(freed); }).find("no memory"), std::string::npos);
}

TEST(TorchTensor, ADifferenceBetweenRanksIsAMismatch) {
  run_threads(2, [] {
    torch::Tensor longer = torch::ones({2 + rank()});
    EXPECT_THROW(all_reduce(longer), Mismatch);
    EXPECT_TRUE(torch::equal(longer, torch::ones({2 + rank()})));
    torch::Tensor other = torch::ones({2}, rank() == 0 ? torch::kFloat : torch::kDouble);
    EXPECT_THROW(all_reduce(other), Mismatch);
  });
}

}  // namespace
}  // namespace unisono
