// auto_optim: the same object, made alike on all ranks; ZeRO's first stage, bit for bit as the optimizer unsharded.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <sstream>

#include "covers.h"
#include "unisono/torch/optimizer.h"
#include "unisono/unisono.h"
#include "unisono/torch/tensor.h"

namespace unisono {
namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Make = std::function<std::unique_ptr<Optimizer>(torch::nn::Sequential&)>;

/// Numbers that no two elements share, the same wherever they are computed.
torch::Tensor numbers(at::IntArrayRef sizes, double seed) {
  return torch::sin(torch::arange(c10::multiply_integers(sizes), torch::kDouble) * 12.9898 + seed).to(torch::kFloat).reshape(sizes);
}

torch::nn::Sequential make_model(double seed = 1) {
  torch::nn::Sequential model(torch::nn::Linear(6, 5), torch::nn::Tanh(), torch::nn::Linear(5, 9), torch::nn::Tanh(), torch::nn::Linear(9, 3));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.copy_(numbers(parameter.sizes(), seed += 1));
  return model;
}

void backward(torch::nn::Sequential& model, int step, int begin = 0, int end = 12) {
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

std::map<std::string, Make> optimizers() {
  using namespace torch::optim;
  return {
      {"SGD", [](auto& m) { return two_groups<SGD>(m, SGDOptions(0.1).momentum(0.9).nesterov(true), SGDOptions(0.05).momentum(0.5)); }},
      {"Adam", [](auto& m) { return two_groups<Adam>(m, AdamOptions(0.01).amsgrad(true), AdamOptions(0.02).weight_decay(0.1)); }},
      {"AdamW", [](auto& m) { return two_groups<AdamW>(m, AdamWOptions(0.01).weight_decay(0.1), AdamWOptions(0.03)); }},
      {"RMSprop", [](auto& m) { return two_groups<RMSprop>(m, RMSpropOptions(0.01).centered(true).momentum(0.9), RMSpropOptions(0.02)); }},
      {"Adagrad", [](auto& m) { return two_groups<Adagrad>(m, AdagradOptions(0.1).lr_decay(0.01), AdagradOptions(0.2)); }},
  };
}

void expect_same(torch::nn::Sequential& a, torch::nn::Sequential& b, const std::string& what) {
  const auto ours = a->named_parameters(), theirs = b->named_parameters();
  for (const auto& entry : ours) EXPECT_TRUE(torch::equal(entry.value(), theirs[entry.key()])) << what << ": " << entry.key();
}

DistributedOptimizer& distributed(const std::unique_ptr<Optimizer>& optimizer) { return dynamic_cast<DistributedOptimizer&>(*optimizer); }

template <class E, class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing of the kind was thrown";
}

class Ranks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(TorchOptimizer, Ranks, testing::Values(1, 2, 3, 4));

TEST_P(Ranks, WithoutAnOptionItIsTheSameObject) {
  COVERS("A-50", "A-53");
  run_threads(GetParam(), [] {
    auto model = make_model();
    auto optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), 0.1);
    const Optimizer* const given = optimizer.get();
    EXPECT_EQ(auto_optim(std::move(optimizer)).get(), given);
    const auto moved_in = auto_optim(torch::optim::Adam(model->parameters(), 0.25));
    EXPECT_EQ(moved_in->param_groups()[0].options().get_lr(), 0.25);
  });
}

// State and options of rank 0 are everybody's.
TEST_P(Ranks, StateIsThatOfRankZero) {
  COVERS("A-52");
  for (const auto& [name, make] : optimizers()) {
    run_threads(GetParam(), [&name = name, &make = make] {
      auto model = make_model(), reference = make_model();
      auto expected = make(reference);
      for (int step = 0; step < 3; ++step, expected->zero_grad()) backward(reference, step), expected->step();
      auto own = make(model);
      for (int step = 0; step < 3; ++step, own->zero_grad()) backward(model, step + rank()), own->step();
      own->param_groups()[0].options().set_lr(own->param_groups()[0].options().get_lr() * (rank() + 1));
      const auto optimizer = auto_optim(std::move(own));
      broadcast(model->parameters()[0], 0);
      const torch::NoGradGuard no_grad;
      for (const auto& entry : reference->named_parameters()) model->named_parameters()[entry.key()].copy_(entry.value());
      torch::AutoGradMode grad(true);
      backward(model, 7), backward(reference, 7);
      optimizer->step(), expected->step();
      expect_same(model, reference, name);
    });
  }
}

TEST_P(Ranks, ShardedIsBitForBitUnsharded) {
  for (const auto& [name, make] : optimizers()) {
    run_threads(GetParam(), [&name = name, &make = make] {
      auto model = make_model(), reference = make_model();
      const auto expected = make(reference);
      const auto optimizer = auto_optim(make(model), {.shard_state = true});
      torch::optim::StepLR schedule(*optimizer, 2, 0.5), expected_schedule(*expected, 2, 0.5);
      for (int step = 0; step < 6; ++step) {
        optimizer->zero_grad(), expected->zero_grad();
        if (step == 3) expected->param_groups()[1].options().set_lr(0.004), optimizer->param_groups()[1].options().set_lr(0.004);
        backward(model, step), backward(reference, step);
        optimizer->step(), expected->step();
        schedule.step(), expected_schedule.step();
        expect_same(model, reference, name);
      }
    });
  }
}

TEST_P(Ranks, EveryRankKeepsItsShareOfTheState) {
  run_threads(GetParam(), [] {
    auto model = make_model();
    const auto optimizer = auto_optim(std::make_unique<torch::optim::Adam>(model->parameters()), {.shard_state = true});
    backward(model, 0);
    optimizer->step();
    if (world_size() == 1) return;
    auto& shared = distributed(optimizer);
    EXPECT_TRUE(shared.is_sharded());
    std::size_t own = 0;
    std::vector<std::int64_t> elements(static_cast<std::size_t>(world_size()));
    const std::vector<torch::Tensor> parameters = model->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      elements[static_cast<std::size_t>(shared.owner(i))] += parameters[i].numel();
      if (shared.owner(i) != rank()) continue;
      ++own;
      EXPECT_TRUE(shared.local().state().count(parameters[i].unsafeGetTensorImpl()) == 1);
    }
    EXPECT_EQ(shared.local().state().size(), own);
    // 30, 5, 45, 9, 27 and 3 elements, the largest first to whom has least
    const std::map<int, std::vector<std::int64_t>> expected = {{2, {59, 60}}, {3, {45, 38, 36}}, {4, {45, 30, 27, 17}}};
    EXPECT_EQ(elements, expected.at(world_size()));
    EXPECT_NE(refusal<InvalidArgument>([&] { shared.owner(6); }).find("no parameter 6"), std::string::npos);
  });
}

TEST(TorchOptimizer, MoreRanksThanParameters) {
  run_threads(4, [] {
    const auto make = [] { return torch::nn::Sequential(torch::nn::Linear(torch::nn::LinearOptions(6, 3).bias(false))); };
    auto model = make(), reference = make();
    const torch::NoGradGuard no_grad;
    model->parameters()[0].copy_(numbers({3, 6}, 5)), reference->parameters()[0].copy_(numbers({3, 6}, 5));
    const torch::AutoGradMode grad(true);
    const auto optimizer = auto_optim(torch::optim::Adam(model->parameters(), 0.1), {.shard_state = true, .average_gradients = true});
    torch::optim::Adam expected(reference->parameters(), 0.1);
    for (int step = 0; step < 3; ++step) {
      optimizer->zero_grad(), expected.zero_grad();
      backward(model, step), backward(reference, step);
      optimizer->step(), expected.step();
    }
    EXPECT_TRUE(torch::allclose(model->parameters()[0], reference->parameters()[0]));
    EXPECT_EQ(distributed(optimizer).local().state().size(), rank() == 0 ? 1U : 0U);
    consolidate_state(*optimizer, 3);
    if (rank() == 3) {
      std::stringstream file;
      torch::save(*optimizer, file);
      torch::optim::Adam loaded(model->parameters(), 0.7);
      torch::load(loaded, file);
      EXPECT_EQ(loaded.state().size(), 1U);
      EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.1);
    }
  });
}

// Two backward passes for each step: gradients are averaged by the optimizer, also where a rank has none of a parameter.
TEST_P(Ranks, AveragesGradients) {
  COVERS("A-51", "A-52");
  for (const bool shard : {false, true}) {
    run_threads(GetParam(), [shard] {
      const int ranks = world_size(), each = 12 / ranks;
      auto model = make_model(rank() == 0 ? 1 : 40), reference = make_model();
      for (auto& parameter : model->parameters()) broadcast(parameter, 0);
      const auto optimizer = auto_optim(torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
                                        {.shard_state = shard, .average_gradients = true});
      torch::optim::SGD expected(reference->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int step = 0; step < 4; ++step) {
        optimizer->zero_grad(), expected.zero_grad();
        for (const int pass : {0, 1}) backward(model, 10 * step + pass, rank() * each, (rank() + 1) * each), backward(reference, 10 * step + pass);
        optimizer->step(), expected.step();
      }
      for (const auto& entry : reference->named_parameters()) {
        EXPECT_TRUE(torch::allclose(model->named_parameters()[entry.key()], entry.value(), 1e-4, 1e-6)) << entry.key();
      }
      if (ranks == 1) return;
      optimizer->zero_grad();
      auto unused = model->parameters().back();
      const torch::Tensor before = unused.detach().clone();
      if (rank() == 1) unused.mutable_grad() = torch::full_like(unused, static_cast<float>(ranks));
      dynamic_cast<torch::optim::SGDOptions&>(optimizer->param_groups()[0].options()).momentum(0);
      optimizer->step();
      EXPECT_TRUE(torch::allclose(unused, before - 0.1));
    });
  }
}

TEST_P(Ranks, TheClosureIsCalledAndItsLossReturned) {
  COVERS("A-51", "K-43");
  for (const bool shard : {false, true}) {
    run_threads(GetParam(), [shard] {
      auto model = make_model(), reference = make_model();
      const auto optimizer = auto_optim(torch::optim::SGD(model->parameters(), 0.1), {.shard_state = shard});
      torch::optim::SGD expected(reference->parameters(), 0.1);
      int calls = 0;
      const torch::NoGradGuard no_grad;
      const torch::Tensor loss = optimizer->step([&] {
        ++calls;
        EXPECT_TRUE(torch::GradMode::is_enabled());
        backward(model, 3);
        return torch::tensor(4.5 + rank());
      });
      EXPECT_EQ(calls, 1);
      EXPECT_EQ(loss.item<double>(), 4.5 + rank());
      const torch::AutoGradMode grad(true);
      backward(reference, 3);
      expected.step();
      expect_same(model, reference, "after a closure");
      EXPECT_FALSE(optimizer->step().defined());
      // What the closure has computed is averaged after it.
      model = make_model(), reference = make_model();
      const auto averaging = auto_optim(torch::optim::SGD(model->parameters(), 0.1), {.shard_state = shard, .average_gradients = true});
      torch::optim::SGD on_all(reference->parameters(), 0.1);
      const int each = 12 / world_size();
      const torch::Tensor own_loss = averaging->step([&] {
        backward(model, 4, rank() * each, (rank() + 1) * each);
        return torch::tensor(8 - rank());
      });
      EXPECT_EQ(own_loss.item<int>(), 8 - rank());
      backward(reference, 4);
      on_all.step();
      for (const auto& entry : reference->named_parameters()) {
        EXPECT_TRUE(torch::allclose(model->named_parameters()[entry.key()], entry.value(), 1e-4, 1e-6)) << entry.key();
      }
    });
  }
}

TEST_P(Ranks, TheConsolidatedStateIsTheUnshardedOne) {
  for (const auto& [name, make] : optimizers()) {
    run_threads(GetParam(), [&name = name, &make = make] {
      auto model = make_model(), reference = make_model();
      auto expected = make(reference);
      const auto optimizer = auto_optim(make(model), {.shard_state = true});
      const auto train = [&](int from, int to, Optimizer& a, Optimizer& b) {
        for (int step = from; step < to; ++step) {
          a.zero_grad(), b.zero_grad();
          backward(model, step), backward(reference, step);
          a.step(), b.step();
        }
      };
      train(0, 3, *optimizer, *expected);
      const int last = world_size() - 1;
      consolidate_state(*optimizer, last);
      std::string file;
      if (rank() == last) {
        std::ostringstream out;
        torch::save(*optimizer, out);
        file = out.str();
        auto plain = make(reference);  // goes on where the sharded one stands
        plain->param_groups()[1].options().set_lr(77);
        std::istringstream in(file);
        torch::load(*plain, in);
        expected = std::move(plain);
      } else if (world_size() > 1) {
        torch::serialize::OutputArchive archive(std::make_shared<torch::jit::CompilationUnit>());
        EXPECT_NE(refusal<InvalidArgument>([&] { optimizer->save(archive); }).find("consolidate_state"), std::string::npos);
      }
      train(3, 5, *optimizer, *expected);
      expect_same(model, reference, name);

      // and back: every rank takes its share of a whole one
      broadcast_object(file, last);
      const auto again = auto_optim(make(model), {.shard_state = true});
      auto plain = make(reference);
      std::istringstream first(file), second(file);
      torch::load(*again, first);
      torch::load(*plain, second);
      train(5, 7, *again, *plain);
      expect_same(model, reference, name + " loaded");
    });
  }
}

TEST(TorchOptimizer, ParametersMayBeAddedLater) {
  run_threads(3, [] {
    auto model = make_model(), reference = make_model();
    auto head = make_model(50), reference_head = make_model(50);
    const auto optimizer = auto_optim(torch::optim::Adam(model->parameters(), 0.1), {.shard_state = true});
    torch::optim::Adam expected(reference->parameters(), 0.1);
    const auto train = [&](int step) {
      optimizer->zero_grad(), expected.zero_grad();
      backward(model, step), backward(reference, step), backward(head, step), backward(reference_head, step);
      optimizer->step(), expected.step();
    };
    train(0);
    const auto kept = distributed(optimizer).local().state().size();
    optimizer->add_param_group(OptimizerParamGroup(head->parameters(), std::make_unique<torch::optim::AdamOptions>(0.01)));
    expected.add_param_group(OptimizerParamGroup(reference_head->parameters(), std::make_unique<torch::optim::AdamOptions>(0.01)));
    train(1), train(2);
    expect_same(model, reference, "the first group"), expect_same(head, reference_head, "the second group");
    EXPECT_GT(distributed(optimizer).local().state().size(), kept);
  });
}

TEST(TorchOptimizer, SmallBucketsAndOtherDTypes) {
  run_threads(3, [] {
    std::vector<torch::Tensor> own, theirs;
    for (auto* list : {&own, &theirs}) {
      for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
        for (const std::int64_t n : {400'000, 7, 0, 90'000}) list->push_back(numbers({n}, static_cast<double>(n)).to(dtype).requires_grad_(true));
      }
      list->push_back(numbers({4, 3, 5, 6}, 3).to(torch::kFloat, false, true, torch::MemoryFormat::ChannelsLast).requires_grad_(true));
    }
    const auto optimizer = auto_optim(torch::optim::SGD(own, 0.5), {.shard_state = true, .bucket_cap_mb = 1});
    torch::optim::SGD expected(theirs, 0.5);
    for (auto* list : {&own, &theirs}) {
      for (torch::Tensor& x : *list) x.mutable_grad() = (x * 3).detach();
    }
    optimizer->step(), expected.step();
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(torch::equal(own[i], theirs[i])) << i;
  });
}

TEST(TorchOptimizer, WhatCannotBeIsRefused) {
  EXPECT_NE(refusal<InvalidArgument>([] { (void)auto_optim(std::unique_ptr<Optimizer>()); }).find("null"), std::string::npos);
  run_threads(2, [] {
    auto model = make_model();
    EXPECT_NE(refusal<InvalidArgument>([&] { (void)auto_optim(torch::optim::LBFGS(model->parameters()), {.shard_state = true}); }).find("LBFGS"),
              std::string::npos);
    EXPECT_NE(refusal<InvalidArgument>([&] { (void)auto_optim(torch::optim::SGD(model->parameters(), 0.1), {.bucket_cap_mb = 0}); }).find("0 MiB"),
              std::string::npos);
    const auto lbfgs = auto_optim(torch::optim::LBFGS(model->parameters()));
    EXPECT_NE(dynamic_cast<torch::optim::LBFGS*>(lbfgs.get()), nullptr);
    std::vector<torch::Tensor> parameters = model->parameters();
    if (rank() == 1) parameters[2] = torch::zeros({9, 6}, torch::requires_grad());
    const std::string text = refusal<Mismatch>([&] { (void)auto_optim(torch::optim::SGD(parameters, 0.1)); });
    EXPECT_NE(text.find("parameter 2 of group 0: Float [9, 5]"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1 has parameter 2 of group 0: Float [9, 6]"), std::string::npos) << text;
    if (rank() == 1) parameters.pop_back();
    EXPECT_THROW((void)auto_optim(torch::optim::SGD(parameters, 0.1), {.shard_state = true}), Mismatch);
    EXPECT_NE(refusal<Mismatch>([&] {
                if (rank() == 0) (void)auto_optim(torch::optim::SGD(model->parameters(), 0.1));
                else (void)auto_optim(torch::optim::Adam(model->parameters(), 0.1));
              }).find("torch::optim::Adam"),
              std::string::npos);
    EXPECT_EQ(all_reduce(rank() + 1), 3);  // the group is as good as ever
  });
}

}  // namespace
}  // namespace unisono
