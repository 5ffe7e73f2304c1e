// auto_optim: the same object, made alike on all ranks, which averages gradients. optimizer_sharded_test.cpp has the state that is shared out.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "covers.h"
#include "optimizer_testing.h"
#include "refusal.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

INSTANTIATE_TEST_SUITE_P(TorchOptimizer, Ranks, testing::Values(1, 2, 3, 4));

TEST_P(Ranks, TheOptimizerIsTheSameObjectWithoutAnOption) {
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

// Two backward passes for each step: gradients are averaged by the optimizer, also where a rank has none of a parameter.
TEST_P(Ranks, TheOptimizerAveragesGradients) {
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
      // Gradients that the closure has computed are averaged after it.
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

TEST(TorchOptimizer, SmallBucketsAndOtherDTypesGiveTheSame) {
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
