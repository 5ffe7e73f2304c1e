// Gradients travel compressed: as half of their bytes, as two thin factors, and as a user's hook pleases.
#include "data_parallel_world.h"

namespace unisono {
namespace {

using parallel::Net;
using parallel::rows;
using parallel::share;
using parallel::values;

constexpr auto everywhere = Compression::Where::everywhere;

/// The gradients of a float32 net after one pass, and the exact averages.
std::pair<torch::Tensor, torch::Tensor> gradient(const Compression& compression, torch::Dtype dtype) {
  Net alone;
  alone->to(dtype);
  Net net;
  net->to(dtype);
  auto model = auto_model(net, {.compression = compression});
  const torch::Tensor x = values({rows, 6}, 2, dtype);
  alone->forward(x).square().mean().backward();
  model(share(x)).square().mean().backward();
  return {model->first->weight.grad().clone(), alone->first->weight.grad().clone()};
}

MANY_TEST(Compression, HalfOfTheBytesTravel) {
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    const auto [half, exact] = gradient(Compression::float16(everywhere), dtype);
    const auto scale = exact.abs().max().item<double>();
    EXPECT_EQ(half.scalar_type(), dtype);
    EXPECT_EQ(parallel::difference(half, exact, scale * 0x1p-10), "");
    EXPECT_NE(parallel::difference(half, exact, scale * 0x1p-20), "");  // it has been rounded
    EXPECT_TRUE(torch::equal(half, half.to(torch::kHalf).to(dtype)));
    const auto [brain, same] = gradient(Compression::bfloat16(everywhere), dtype);
    EXPECT_EQ(parallel::difference(brain, same, scale * 0x1p-7), "");
    EXPECT_TRUE(torch::equal(brain, brain.to(torch::kBFloat16).to(dtype)));
  }
}

// Between hosts gradients are made narrower, and on one host they travel as they are, unless that is asked for.
MANY_TEST(Compression, GradientsTravelAsTheyAreOnOneHost) {
  const auto [averaged, exact] = gradient(Compression::float16(), torch::kDouble);
  EXPECT_EQ(torch::equal(averaged, averaged.to(torch::kHalf).to(torch::kDouble)), nnodes() > 1);
  if (nnodes() == 1) {
    EXPECT_EQ(parallel::difference(averaged, exact, 1e-12), "");
  }
}

// Summed in float32: eight times 40000 would not fit float16.
MANY_TEST(Compression, SumsDoNotOverflow) {
  torch::nn::Linear layer(torch::nn::LinearOptions(1, 1).bias(false));
  auto model = auto_model(layer, {.compression = Compression::float16(everywhere)});
  model(torch::full({1, 1}, 40000.F)).backward();
  EXPECT_EQ(layer->weight.grad().item<float>(), 40000.F);
}

// Factors of full rank lose nothing.
MANY_TEST(Compression, PowerSgdOfFullRankIsExact) {
  const PowerSgdOptions full{.rank = 100, .start_iteration = 0, .min_compression_rate = 1e-6};
  const auto [compressed, exact] = gradient(Compression::power_sgd(full), torch::kDouble);
  EXPECT_EQ(parallel::difference(compressed, exact, 1e-12), "");
  PowerSgdOptions one = full;
  one.rank = 1;
  const auto [rough, same] = gradient(Compression::power_sgd(one), torch::kDouble);
  EXPECT_NE(parallel::difference(rough, same, 1e-6), "");
}

// Factors of rank 1 are checked against the matrix itself: they span its dominant direction after a few steps with the same gradient.
MANY_TEST(Compression, PowerSgdFindsTheDominantDirection) {
  torch::nn::Linear layer(torch::nn::LinearOptions(12, 8).bias(false));
  const PowerSgdOptions options{.rank = 1, .start_iteration = 0, .min_compression_rate = 1, .use_error_feedback = false};
  auto model = auto_model(layer, {.compression = Compression::power_sgd(options)});
  torch::Tensor wanted;
  for (int step = 0; step < 25; ++step) {
    model->zero_grad();
    const torch::Tensor u = values({8, 1}, 1, torch::kFloat), v = values({1, 12}, 2, torch::kFloat);
    wanted = 5 * u.mm(v);
    const torch::Tensor target = wanted + values({8, 12}, 3 + rank(), torch::kFloat) * 0.1F;
    model.call([&](auto& module) { return (module.weight * target).sum(); }).backward();  // through its weight: its forward is not needed for it
  }
  const torch::Tensor got = layer->weight.grad();
  EXPECT_LT((got - wanted).norm().item<float>() / wanted.norm().item<float>(), 0.2F);
  // Rank 1, to rounding.
  const torch::Tensor minors = got.slice(0, 0, 1).slice(1, 0, 1) * got - got.slice(1, 0, 1).mm(got.slice(0, 0, 1));
  EXPECT_LT(minors.abs().max().item<float>(), 1e-3F);
}

/// Trains a net to the outputs of another; returns the first and the last loss.
std::pair<double, double> train(const Compression& compression, int steps) {
  Net teacher(8, 16, 4), net(8, 16, 4);
  parallel::fill(*teacher, 30);
  auto model = auto_model(net, {.compression = compression});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor x = share(values({4 * rows, 8}, step % 7));
    optimizer.zero_grad();
    const torch::Tensor loss = torch::mse_loss(model(x), teacher(x).detach());
    loss.backward();
    optimizer.step();
    last = average_across_processes(loss.item<double>());
    if (step == 0) first = last;
  }
  // All ranks have the same weights, to the last bit.
  for (const torch::Tensor& parameter : model.parameters()) {
    torch::Tensor root = parameter.detach().clone();
    broadcast(root);
    EXPECT_TRUE(torch::equal(root, parameter));
  }
  return {first, last};
}

MANY_TEST(Compression, PowerSgdConverges) {
  for (const bool warm : {true, false}) {
    const auto [first, last] = train(Compression::power_sgd({.rank = 2, .start_iteration = 3, .min_compression_rate = 1, .warm_start = warm}), 150);
    EXPECT_LT(last, first / 20) << "warm start " << warm;
  }
  const auto [first, last] = train(Compression::bfloat16(everywhere), 100);
  EXPECT_LT(last, first / 20);
}

// Before start_iteration nothing is compressed.
MANY_TEST(Compression, PowerSgdBeginsLater) {
  const auto [early, exact] = gradient(Compression::power_sgd({.rank = 1, .start_iteration = 1, .min_compression_rate = 1}), torch::kDouble);
  EXPECT_EQ(parallel::difference(early, exact, 1e-14), "");
}

// A callable on the tensor, one on the bucket, one that says when it is done.
MANY_TEST(Compression, UsersMayHaveHooks) {
  const auto on_tensor = [](torch::Tensor buffer, const ProcessGroup& group) {
    all_reduce(buffer, ReduceOp::sum, group);
    buffer.mul_(10);
  };
  const auto [a, exact] = gradient(on_tensor, torch::kDouble);
  EXPECT_SAME(a, exact * 10 * world_size());

  const auto shapes = std::make_shared<std::vector<std::vector<std::int64_t>>>();
  const auto on_bucket = [shapes](const GradientBucket& bucket, const ProcessGroup& group) {
    for (const torch::Tensor& part : bucket.gradients) {
      shapes->push_back(part.sizes().vec());
      all_reduce(part, ReduceOp::avg, group);
    }
    EXPECT_TRUE(bucket.is_last);
    EXPECT_EQ(bucket.parameters, (std::vector<std::size_t>{3, 2, 1, 0}));
  };
  const auto [b, same] = gradient(on_bucket, torch::kDouble);
  EXPECT_SAME(b, same);
  EXPECT_EQ(*shapes, (std::vector<std::vector<std::int64_t>>{{3}, {3, 9}, {9}, {9, 6}}));

  const auto finished = std::make_shared<int>(0);
  const auto asynchronous = [finished](const GradientBucket& bucket, const ProcessGroup& group) -> Compression::Finish {
    Work work = all_reduce_async(bucket.buffer, ReduceOp::avg, group);
    return [work, finished]() mutable {
      work.wait();
      ++*finished;
    };
  };
  const auto [c, again] = gradient(asynchronous, torch::kDouble);
  EXPECT_SAME(c, again);
  EXPECT_EQ(*finished, 1);
}

// Dtypes that do not shrink travel as they are.
MANY_TEST(Compression, ComplexGradientsStayWhole) {
  struct Module : torch::nn::Module {
    Module() : weight(register_parameter("weight", values({3, 4}, 1, torch::kComplexFloat))) {}
    torch::Tensor forward(const torch::Tensor& x) { return torch::real(weight * x).sum(); }
    torch::Tensor weight;
  };
  const torch::Tensor x = values({3, 4}, 5 + rank(), torch::kComplexFloat);
  torch::Tensor expected = x.conj().resolve_conj();
  all_reduce(expected, ReduceOp::avg);
  for (const auto& compression : {Compression::float16(everywhere), Compression::power_sgd({.start_iteration = 0, .min_compression_rate = 0.1})}) {
    auto model = auto_model(std::make_shared<Module>(), {.compression = compression});
    model(x).backward();
    EXPECT_EQ(parallel::difference(model->weight.grad(), expected, 1e-6), "");
  }
}

}  // namespace
}  // namespace unisono
