// average_gradients: what auto_model does, in one call between backward and step.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "covers.h"
#include "unisono/torch.h"

namespace unisono {
namespace {

using torch::nn::Linear;

/// Two layers, the second of which a forward pass may leave out.
struct NetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x, bool whole) { return whole ? second(torch::tanh(first(x))) : first(x); }
  Linear first = register_module("first", Linear(torch::nn::LinearOptions(4, 3)));
  Linear second = register_module("second", Linear(torch::nn::LinearOptions(3, 3).bias(false)));
  Linear unused = register_module("unused", Linear(2, 2));
};
TORCH_MODULE(Net);

Net make_net() {
  Net net;
  net->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  double seed = 0;
  for (auto& parameter : net->parameters()) parameter.copy_(torch::arange(parameter.numel()).add(++seed).sin().view(parameter.sizes()));
  return net;
}

torch::Tensor rows_of(int rank) { return torch::arange(12.0, torch::kDouble).add(100 * rank).cos().view({3, 4}); }

class AverageGradients : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AverageGradients, testing::Values(1, 2, 3, 4));

TEST_P(AverageGradients, GradientsAreThoseOfOneProcessOnTheWholeBatch) {
  COVERS("T-47", "M-14");
  run_threads(GetParam(), [] {
    Net net = make_net(), reference = make_net();
    net->forward(rows_of(rank()), true).square().mean().backward();
    average_gradients(*net);
    std::vector<torch::Tensor> all;
    for (int r = 0; r < world_size(); ++r) all.push_back(rows_of(r));
    reference->forward(torch::cat(all), true).square().mean().backward();
    for (const auto& entry : reference->named_parameters()) {
      const torch::Tensor gradient = net->named_parameters()[entry.key()].grad();
      ASSERT_EQ(gradient.defined(), entry.value().grad().defined()) << entry.key();
      if (!gradient.defined()) continue;
      EXPECT_TRUE(torch::allclose(gradient, entry.value().grad())) << entry.key();
    }
    EXPECT_FALSE(net->unused->weight.grad().defined());  // on no rank
  });
}

TEST_P(AverageGradients, AGradientThatSomeRanksHaveIsAveragedWithZeros) {
  run_threads(GetParam(), [] {
    Net net = make_net();
    const bool whole = rank() == world_size() - 1;
    net->forward(rows_of(0), whole).sum().backward();
    const torch::Tensor own = whole ? net->second->weight.grad().clone() : torch::zeros({3, 3}, torch::kDouble);
    torch::Tensor sum = own.clone();
    all_reduce(sum);
    average_gradients(*net);
    EXPECT_TRUE(torch::allclose(net->second->weight.grad(), sum / world_size()));
  });
}

TEST(AverageGradientsOfMany, ModelsThatDifferAreAMismatch) {
  run_threads(2, [] {
    torch::nn::Sequential net(Linear(4, 3 + rank()));
    net->forward(torch::ones({1, 4})).sum().backward();
    EXPECT_THROW(average_gradients(*net), Mismatch);
    const torch::nn::Sequential none;
    average_gradients(*none);  // nothing to average
  });
}

TEST(AverageGradientsOfMany, ASparseGradientOfOneRankIsRefusedOnAll) {
  run_threads(2, [] {
    torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(rank() == 1)));
    net->forward(torch::tensor({1, 2})).sum().backward();
    try {
      average_gradients(*net);
      ADD_FAILURE() << "threw nothing";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(error.message().find("the gradient of parameter 0.weight is sparse"), std::string::npos) << error.what();
    }
  });
}

TEST(AverageGradientsOfMany, OnlyTheMembersOfTheGroupAverage) {
  run_threads(3, [] {
    Net net = make_net();
    net->forward(rows_of(rank()), true).sum().backward();
    const torch::Tensor before = net->first->weight.grad().clone();
    if (const auto group = new_group({2, 0})) {
      torch::Tensor sum = before.clone();
      all_reduce(sum, ReduceOp::sum, *group);
      average_gradients(*net, *group);
      EXPECT_TRUE(torch::allclose(net->first->weight.grad(), sum / 2));
    } else {
      EXPECT_TRUE(torch::equal(net->first->weight.grad(), before));
    }
  });
}

}  // namespace
}  // namespace unisono
