// Batch normalisation over all ranks' samples: the numbers of one process on the whole batch, forward and backward. On the cpu as well.
#include <sstream>

#include "covers.h"
#include "data_parallel_world.h"

namespace unisono {
namespace {

using parallel::fill;
using parallel::values;

/// Rank r has r + 2 samples, the last rank none (of several).
torch::Tensor uneven(const torch::Tensor& batch) {
  const int r = rank();
  return batch.narrow(0, r * (r + 3) / 2, r > 0 && r == world_size() - 1 ? 0 : r + 2);
}
std::int64_t uneven_rows() {
  const int n = std::max(world_size() - 1, 1);
  return n * (n + 3) / 2;
}

struct Case {
  const char* name;
  torch::nn::BatchNormOptions options;
};

template <class Reference>
void compare(const std::vector<std::int64_t>& shape, torch::Dtype dtype, double tolerance) {
  const std::int64_t channels = shape[1];
  const std::vector<Case> cases{{"default", torch::nn::BatchNormOptions(channels)},
                                {"cumulative", torch::nn::BatchNormOptions(channels).momentum(std::nullopt)},
                                {"plain", torch::nn::BatchNormOptions(channels).affine(false)},
                                {"no statistics", torch::nn::BatchNormOptions(channels).track_running_stats(false).eps(1e-3)}};
  for (const auto& [name, options] : cases) {
    SCOPED_TRACE(name);
    Reference whole(options);
    SyncBatchNorm own(options);
    fill(*whole, 4);
    fill(*own, 4);
    whole->to(dtype);
    own->to(dtype);
    for (int step = 0; step < 3; ++step) {
      // Means far from zero, and different in each sample.
      std::vector<std::int64_t> along(shape.size(), 1);
      along[0] = shape[0];
      const torch::Tensor batch = values(shape, step, dtype) * 2 + 30 + torch::arange(shape[0]).reshape(along).to(dtype);
      const torch::Tensor weights = values(shape, 90 + step, dtype);
      const torch::Tensor x = batch.clone().requires_grad_();
      const torch::Tensor part = uneven(batch).clone().requires_grad_();
      whole->zero_grad();
      own->zero_grad();
      const torch::Tensor expected = whole->forward(x);
      const torch::Tensor actual = own->forward(part);
      (expected * weights).sum().backward();
      (actual * uneven(weights)).sum().backward();
      EXPECT_EQ(parallel::difference(actual, uneven(expected), tolerance), "");
      EXPECT_EQ(parallel::difference(part.grad(), uneven(x.grad()), tolerance), "");
      if (options.affine()) {
        torch::Tensor weight = own->weight.grad().clone(), bias = own->bias.grad().clone();
        all_reduce(weight);
        all_reduce(bias);
        EXPECT_EQ(parallel::difference(weight, whole->weight.grad(), tolerance), "");
        EXPECT_EQ(parallel::difference(bias, whole->bias.grad(), tolerance), "");
      }
      for (const auto& item : whole->named_buffers()) {
        EXPECT_EQ(parallel::difference(own->named_buffers()[item.key()], item.value(), tolerance), "") << item.key();
      }
    }
    whole->eval();
    own->eval();
    const torch::Tensor probe = values(shape, 7 + rank(), dtype);  // each rank its own: nothing is exchanged
    EXPECT_EQ(parallel::difference(own->forward(probe), whole->forward(probe), tolerance), "");
  }
}

WORLD_TEST(SyncBatchNorm, OneDimensionIsNormalizedOverAllRanks) {
  compare<torch::nn::BatchNorm1d>({uneven_rows(), 3}, torch::kDouble, 1e-9);
  compare<torch::nn::BatchNorm1d>({uneven_rows(), 3, 4}, torch::kDouble, 1e-9);
}
WORLD_TEST(SyncBatchNorm, TwoDimensionsAreNormalizedOverAllRanks) { compare<torch::nn::BatchNorm2d>({uneven_rows(), 2, 3, 4}, torch::kDouble, 1e-9); }
WORLD_TEST(SyncBatchNorm, ThreeDimensionsAreNormalizedOverAllRanks) {
  compare<torch::nn::BatchNorm3d>({uneven_rows(), 2, 3, 2, 2}, torch::kDouble, 1e-9);
}
WORLD_TEST(SyncBatchNorm, Float32IsNormalizedOverAllRanks) { compare<torch::nn::BatchNorm2d>({uneven_rows(), 2, 3, 4}, torch::kFloat, 2e-4); }

MANY_TEST(SyncBatchNorm, HalfPrecisionIsNormalizedOverAllRanks) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    SyncBatchNorm norm(2);
    const torch::Tensor all = values({2L * world_size(), 2, 3}, 1, dtype);
    const torch::Tensor y = norm(all.narrow(0, 2 * rank(), 2));
    EXPECT_EQ(y.scalar_type(), dtype);
    torch::nn::BatchNorm1d whole(2);
    const torch::Tensor expected = whole(all.to(torch::kFloat)).narrow(0, 2 * rank(), 2);
    EXPECT_EQ(parallel::difference(y.to(torch::kFloat), expected, dtype == torch::kHalf ? 2e-3 : 2e-2), "");
  }
}

/// Typed members, which in C++ no conversion could replace; an instance norm, which is none of it; one kept in evaluation.
struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    instance = register_module("instance", torch::nn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(4)));
    layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(16, 5), torch::nn::BatchNorm1d(5), torch::nn::Tanh()));
    last = register_module("last", torch::nn::Linear(5, 3));
    fill(*this, 2);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = norm(conv(x));
    const torch::Tensor z = parallel::relu(y) + instance(y) * 0.1;
    return last(layers->forward(torch::adaptive_avg_pool2d(z, {2, 2}).flatten(1)));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::InstanceNorm2d instance{nullptr};
  torch::nn::Sequential layers{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Normed);

// The whole of it: a convolutional network with batch normalisation, trained by N ranks as by one.
WORLD_TEST(SyncBatchNorm, AModelOfAnyMembersIsConverted) {
  COVERS("A-36", "Q-22");
  Normed alone;
  auto model = auto_model(Normed(), {.sync_bn = true});
  torch::optim::SGD alone_optimizer(alone->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  for (int step = 0; step < 4; ++step) {
    const torch::Tensor x = values({12, 2, 5, 6}, step), y = values({12, 3}, 40 + step);
    alone_optimizer.zero_grad();
    optimizer.zero_grad();
    torch::mse_loss(alone(x), y).backward();
    torch::mse_loss(model(parallel::share(x)), parallel::share(y)).backward();
    alone_optimizer.step();
    optimizer.step();
  }
  EXPECT_EQ(parallel::difference(*model, *alone, 1e-9), "");
  EXPECT_NE(model->norm->running_mean.abs().sum().item<double>(), 0);
  // In evaluation nothing is exchanged: rank 0 does it alone.
  model->eval();
  alone->eval();
  if (rank() == 0) {
    EXPECT_EQ(parallel::difference(model(values({3, 2, 5, 6}, 1)), alone(values({3, 2, 5, 6}, 1)), 1e-9), "");
  }
}

// Without the option the ranks normalise by themselves, also beside a model that does not.
MANY_TEST(SyncBatchNorm, BatchNormIsSynchronizedOnlyWhereAskedFor) {
  auto synced = auto_model(torch::nn::BatchNorm1d(2), {.sync_bn = true});
  auto plain = auto_model(torch::nn::BatchNorm1d(2));
  const torch::Tensor x = values({4, 2}, 1 + rank(), torch::kFloat);
  const torch::Tensor own = torch::nn::BatchNorm1d(2)(x);
  EXPECT_NE(parallel::difference(synced(x), own, 1e-4), "");
  EXPECT_EQ(parallel::difference(plain(x), own, 1e-6), "");
  EXPECT_EQ(parallel::difference(torch::nn::BatchNorm1d(2)(x), own, 1e-6), "");
}

MANY_TEST(SyncBatchNorm, SyncBatchNormLoadsWhatBatchNormHasSaved) {
  torch::nn::BatchNorm2d norm(3);
  norm->running_mean.fill_(5);
  std::stringstream stream;
  torch::save(norm, stream);
  SyncBatchNorm other(3);
  torch::load(other, stream);
  EXPECT_SAME(*other, *norm);
  EXPECT_NE(c10::str(*other).find("SyncBatchNorm(3, eps=1e-05, momentum=0.1"), std::string::npos);
}

}  // namespace
}  // namespace unisono
