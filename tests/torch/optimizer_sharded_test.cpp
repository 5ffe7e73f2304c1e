// auto_optim with the state shared out: ZeRO's first stage, bit for bit as the optimizer unsharded.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <sstream>

#include "covers.h"
#include "optimizer_testing.h"
#include "refusal.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"
#include "unisono/unisono.h"

namespace unisono {
namespace {

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

TEST(TorchOptimizer, MoreRanksThanParametersShareTheState) {
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

}  // namespace
}  // namespace unisono
