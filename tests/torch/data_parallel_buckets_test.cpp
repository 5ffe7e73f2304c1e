// The places of gradients, and the order and time of their reduction.
#include <algorithm>

#include "covers.h"
#include "data_parallel_world.h"
#include "unisono/torch/memory.h"

namespace unisono {
namespace {

using parallel::Net;
using parallel::share;
using parallel::values;

/// Layers registered in the order in which they are used, or not.
struct TowerImpl : torch::nn::Module {
  TowerImpl(int depth, int width, bool backwards) {
    for (int i = 0; i < depth; ++i) layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(width, width)));
    if (backwards) std::ranges::reverse(layers);
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : layers) x = torch::tanh(layer(x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Tower);

std::vector<std::string> names(const BackwardTimes& times) {
  std::vector<std::string> all;
  for (const auto& bucket : times.buckets) all.insert(all.end(), bucket.parameters.begin(), bucket.parameters.end());
  return all;
}

constexpr double small = 0.01;  // MiB: a layer of 48 x 48 and its bias, or less

MANY_TEST(Buckets, BucketsAreRebuiltInTheOrderOfArrival) {
  for (const bool backwards : {false, true}) {
    auto model = auto_model(Tower(4, 48, backwards), {.bucket_cap_mb = small});
    std::vector<std::string> order[3];
    for (auto& pass : order) {
      model->zero_grad();
      model(torch::ones({2, 48})).sum().backward();
      pass = names(model.backward_times());
    }
    // At first the reverse of registration, then as gradients came: the layer that is used last is first.
    EXPECT_TRUE(order[0].front().starts_with("layer3"));
    EXPECT_TRUE(order[1].front().starts_with(backwards ? "layer0" : "layer3")) << order[1].front();
    EXPECT_TRUE(order[1].back().starts_with(backwards ? "layer3" : "layer0")) << order[1].back();
    EXPECT_EQ(order[1], order[2]);
    EXPECT_EQ(order[1].size(), 8U);
    const auto all = all_gather_object(order[1]);
    for (const auto& other : all) EXPECT_EQ(other, order[1]);
  }
}

// Rank 0's order counts, whatever the others saw.
MANY_TEST(Buckets, TheOrderIsThatOfRankZero) {
  auto model = auto_model(Tower(3, 48, rank() != 0), {.bucket_cap_mb = small});
  for (int pass = 0; pass < 3; ++pass) {
    model->zero_grad();
    const torch::Tensor x = values({2, 48}, 1 + rank(), torch::kFloat);
    model(x).sum().backward();
    const torch::Tensor own = model->named_parameters()["layer1.weight"].grad().clone();
    torch::Tensor gathered = torch::empty({world_size(), 48, 48});
    all_gather(own, gathered);
    for (int r = 0; r < world_size(); ++r) EXPECT_TRUE(torch::equal(gathered[r], own));  // bit for bit
  }
  EXPECT_TRUE(names(model.backward_times()).front().starts_with("layer2"));
}

MANY_TEST(Buckets, NoneIsLargerThanItsCapUnlessOneGradientIs) {
  auto model = auto_model(Tower(6, 64, false), {.bucket_cap_mb = 0.05});
  model(torch::ones({2, 64})).sum().backward();
  for (const auto& bucket : model.backward_times().buckets) {
    EXPECT_LE(bucket.bytes, static_cast<std::size_t>(0.05 * 1048576));
    EXPECT_GE(bucket.parameters.size(), 2U);
  }
  auto large = auto_model(Tower(2, 64, false), {.bucket_cap_mb = 0.001});
  large(torch::ones({2, 64})).sum().backward();
  EXPECT_EQ(large.backward_times().buckets.size(), 4U);
}

MANY_TEST(Buckets, TheFirstIsAMebibyteAtMost) {
  auto model = auto_model(Tower(6, 256, false), {.bucket_cap_mb = 100});  // 6 x 257 KiB
  model(torch::ones({2, 256})).sum().backward();
  const auto buckets = model.backward_times().buckets;
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_LE(buckets[0].bytes, std::size_t{1} << 20);
  EXPECT_GT(buckets[0].bytes, std::size_t{3} << 18);
}

MANY_TEST(Buckets, GradientsAreViewsOfSharedMemory) {
  auto model = auto_model(Net());
  for (int pass = 0; pass < 2; ++pass) {
    model->zero_grad();
    model(values({2, 6}, 1)).sum().backward();
    for (const auto& parameter : model.parameters()) {
      EXPECT_TRUE(is_shared(parameter.grad()));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.grad().data_ptr()) % 64, 0U);
      EXPECT_TRUE(parameter.grad().is_alias_of(model->second->bias.grad()));
    }
  }
  // They outlive the model and the next pass.
  const torch::Tensor kept = model->first->weight.grad(), copy = kept.clone();
  model->zero_grad();
  model = auto_model(Net());
  EXPECT_TRUE(torch::equal(kept, copy));
}

// Every bucket but those of the first layer is under way before the last gradient has arrived, and they begin in their order.
MANY_TEST(Buckets, BucketsAreReducedWhileBackwardGoesOn) {
  COVERS("A-31");
  auto model = auto_model(Tower(6, 48, false), {.bucket_cap_mb = small});
  for (int pass = 0; pass < 3; ++pass) {
    model->zero_grad();
    model(torch::ones({2, 48})).sum().backward();
    const BackwardTimes times = model.backward_times();
    ASSERT_EQ(times.buckets.size(), 6U);
    for (std::size_t b = 0; b < times.buckets.size(); ++b) {
      const BucketTimes& bucket = times.buckets[b];
      EXPECT_LE(times.first_gradient, bucket.started);
      EXPECT_LE(bucket.started, bucket.completed);
      EXPECT_LE(bucket.completed, times.end);
      const BucketTimes& before = times.buckets[b > 0 ? b - 1 : 0];
      EXPECT_LE(before.started, bucket.started);
      EXPECT_LE(before.completed, bucket.completed);
      EXPECT_LE(bucket.started, times.last_gradient);
    }
    EXPECT_LT(times.buckets.front().started, times.buckets.back().started);
  }
}

// The model's group is its own: what a hook of the user's calls on the world between two buckets does not disturb them.
MANY_TEST(Buckets, TheWorldIsFreeMeanwhile) {
  auto model = auto_model(Tower(3, 48, false), {.bucket_cap_mb = small});
  std::vector<float> sums;
  for (auto& layer : model->layers) {
    layer->weight.register_hook([&](const torch::Tensor& gradient) {
      torch::Tensor sum = gradient.abs().sum();
      all_reduce(sum);
      sums.push_back(sum.item<float>());
    });
  }
  for (int pass = 0; pass < 2; ++pass) model(values({2, 48}, 1 + rank(), torch::kFloat)).sum().backward();
  EXPECT_EQ(sums.size(), 6U);
  const auto all = all_gather_object(sums);
  for (const auto& other : all) EXPECT_EQ(other, sums);
}

WORLD_TEST(Buckets, AGroupOfOneIsThin) {
  COVERS("A-37", "A-41");
  Net net;
  auto model = auto_model(net, {.find_unused_parameters = true, .sync_bn = true, .group = new_group({rank()})});
  const NoSync quiet = model.no_sync();
  model(values({2, 6}, 1)).sum().backward();
  EXPECT_TRUE(net->first->weight.grad().defined());
  EXPECT_FALSE(is_shared(net->first->weight.grad()));
  EXPECT_TRUE(model.backward_times().buckets.empty());
  EXPECT_EQ(&*model, net.get());
}

}  // namespace
}  // namespace unisono
