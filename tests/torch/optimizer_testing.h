#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "unisono/torch/optimizer.h"

namespace unisono {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Make = std::function<std::unique_ptr<Optimizer>(torch::nn::Sequential&)>;

/// Numbers that no two elements share, the same wherever they are computed.
inline torch::Tensor numbers(at::IntArrayRef sizes, double seed) {
  return torch::sin(torch::arange(c10::multiply_integers(sizes), torch::kDouble) * 12.9898 + seed).to(torch::kFloat).reshape(sizes);
}

inline torch::nn::Sequential make_model(double seed = 1) {
  torch::nn::Sequential model(torch::nn::Linear(6, 5), torch::nn::Tanh(), torch::nn::Linear(5, 9), torch::nn::Tanh(), torch::nn::Linear(9, 3));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.copy_(numbers(parameter.sizes(), seed += 1));
  return model;
}

inline void backward(torch::nn::Sequential& model, int step, int begin = 0, int end = 12) {
  const torch::Tensor x = numbers({12, 6}, 100 + step).slice(0, begin, end);
  const torch::Tensor y = numbers({12, 3}, 200 + step).slice(0, begin, end);
  torch::mse_loss(model->forward(x), y).backward();
}

/// Weights and biases with options of their own.
template <class O, class Options>
std::unique_ptr<Optimizer> two_groups(torch::nn::Sequential& model, const Options& weights, const Options& biases) {
  std::vector<torch::Tensor> first, second;
  for (const auto& entry : model->named_parameters()) (entry.key().ends_with("bias") ? second : first).push_back(entry.value());
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(first, std::make_unique<Options>(weights));
  groups.emplace_back(second, std::make_unique<Options>(biases));
  return std::make_unique<O>(groups, weights);
}

inline std::map<std::string, Make> optimizers() {
  using namespace torch::optim;
  return {
      {"SGD", [](auto& m) { return two_groups<SGD>(m, SGDOptions(0.1).momentum(0.9).nesterov(true), SGDOptions(0.05).momentum(0.5)); }},
      {"Adam", [](auto& m) { return two_groups<Adam>(m, AdamOptions(0.01).amsgrad(true), AdamOptions(0.02).weight_decay(0.1)); }},
      {"AdamW", [](auto& m) { return two_groups<AdamW>(m, AdamWOptions(0.01).weight_decay(0.1), AdamWOptions(0.03)); }},
      {"RMSprop", [](auto& m) { return two_groups<RMSprop>(m, RMSpropOptions(0.01).centered(true).momentum(0.9), RMSpropOptions(0.02)); }},
      {"Adagrad", [](auto& m) { return two_groups<Adagrad>(m, AdagradOptions(0.1).lr_decay(0.01), AdagradOptions(0.2)); }},
  };
}

inline void expect_same(torch::nn::Sequential& a, torch::nn::Sequential& b, const std::string& what) {
  const auto ours = a->named_parameters(), theirs = b->named_parameters();
  for (const auto& entry : ours) EXPECT_TRUE(torch::equal(entry.value(), theirs[entry.key()])) << what << ": " << entry.key();
}

inline DistributedOptimizer& distributed(const std::unique_ptr<Optimizer>& optimizer) { return dynamic_cast<DistributedOptimizer&>(*optimizer); }

class Ranks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }
};

}  // namespace unisono
