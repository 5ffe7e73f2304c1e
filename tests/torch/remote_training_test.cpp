// Training on workers: equal to that of one process, bit by bit.

#include <filesystem>

#include "covers.h"
#include "remote_world.h"
#include "thrown_by.h"

namespace unisono::remote_testing {
namespace {

/// Two convolutions with batch norm beside a shortcut, as in ResNet.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int in, int out, int stride)
      : first(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        second(torch::nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        shortcut(torch::nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
        norm1(out),
        norm2(out) {
    register_module("first", first);
    register_module("second", second);
    register_module("shortcut", shortcut);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(norm2(second(torch::relu(norm1(first(x))))) + shortcut(x)); }
  torch::nn::Conv2d first, second, shortcut;
  torch::nn::BatchNorm2d norm1, norm2;
};
TORCH_MODULE(Block);

torch::nn::Sequential residual_network() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), Block(8, 8, 1), Block(8, 16, 2),
                               torch::nn::MaxPool2d(2), torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(16, 5));
}

struct Trained {
  std::vector<float> losses;
  std::vector<torch::Tensor> state;  // parameters and buffers, on the cpu
};

template <class MakeOptimizer>
Trained train(const torch::Device& device, int steps, MakeOptimizer&& make) {
  auto model = residual_network();
  model->to(device);
  auto optimizer = make(model->parameters());
  Trained trained;
  std::vector<torch::Tensor> losses;
  for (int step = 0; step < steps; ++step) {
    torch::manual_seed(100 + step);
    const auto images = torch::randn({8, 3, 12, 12}), labels = torch::randint(5, {8});
    optimizer.zero_grad();
    const auto loss = torch::nn::functional::cross_entropy(model->forward(images.to(device)), labels.to(device));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 5.0);
    optimizer.step();
    losses.push_back(loss.detach());
  }
  for (const auto& loss : losses) trained.losses.push_back(loss.template item<float>());
  for (const auto& parameter : model->parameters()) trained.state.push_back(parameter.detach().cpu());
  for (const auto& buffer : model->buffers()) trained.state.push_back(buffer.cpu());
  return trained;
}

void expect_equal(const Trained& own, const Trained& expected) {
  EXPECT_EQ(own.losses, expected.losses);
  ASSERT_EQ(own.state.size(), expected.state.size());
  for (std::size_t i = 0; i < own.state.size(); ++i) EXPECT_TRUE(torch::equal(own.state[i], expected.state[i])) << i;
}

TEST(RemoteTraining, AResidualNetworkIsTrainedAsByOneProcess) {
  const auto sgd = [](const std::vector<torch::Tensor>& parameters) {
    return torch::optim::SGD(parameters, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));
  };
  with_processes(2, [&](const Controller&) {
    const Trained expected = train(torch::kCPU, 6, sgd);
    EXPECT_NE(expected.losses.back(), expected.losses.front());  // the steps change something
    expect_equal(train(remote(1), 6, sgd), expected);
    expect_equal(train(remote(0), 6, sgd), expected);
  });
}

TEST(RemoteTraining, AdamAndItsStateAreThere) {
  const auto adam = [](const std::vector<torch::Tensor>& parameters) { return torch::optim::Adam(parameters, torch::optim::AdamOptions(0.01)); };
  with_processes(1, [&](const Controller&) { expect_equal(train(remote(0), 4, adam), train(torch::kCPU, 4, adam)); });
}

TEST(RemoteTraining, DataParallelTrainingAveragesGradientsAmongWorkers) {
  with_processes(2, [](const Controller& workers) {
    std::vector<torch::nn::Linear> replicas;
    std::vector<torch::Tensor> parts;
    torch::manual_seed(5);
    torch::nn::Linear model(4, 2);
    const auto data = torch::randn({6, 4});
    for (int i = 0; i < workers.size(); ++i) {
      replicas.emplace_back(torch::nn::Linear(4, 2));
      const torch::NoGradGuard no_grad;
      replicas.back()->weight.copy_(model->weight);
      replicas.back()->bias.copy_(model->bias);
      replicas.back()->to(remote(i));
    }
    for (int i = 0; i < workers.size(); ++i) {
      replicas[static_cast<std::size_t>(i)]->forward(data.slice(0, 3 * i, 3 * i + 3).to(remote(i))).pow(2).mean().backward();
    }
    model->forward(data).pow(2).mean().backward();
    RemoteTensors({replicas[0]->weight.grad(), replicas[1]->weight.grad()}).all_reduce(ReduceOp::avg);
    for (const auto& replica : replicas) EXPECT_TRUE(torch::allclose(replica->weight.grad().cpu(), model->weight.grad()));
  });
}

TEST(RemoteTraining, AModelIsSavedAndLoaded) {
  COVERS("T-14");
  with_processes(2, [](const Controller&) {
    auto model = residual_network();
    model->to(remote(0));
    std::stringstream file;
    torch::save(model, file);
    auto restored = residual_network();
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : restored->parameters()) parameter.zero_();
    }
    restored->to(remote(1));
    torch::load(restored, file, remote(1));
    const auto image = torch::randn({2, 3, 8, 8});
    model->eval();
    restored->eval();
    EXPECT_TRUE(torch::equal(model->forward(image.to(remote(0))).cpu(), restored->forward(image.to(remote(1))).cpu()));
  });
}

TEST(RemoteTraining, BackwardNoticesATensorThatWasChanged) {
  with_workers(1, [](const Controller& workers) {
    const torch::Tensor there = workers[0].tensor(torch::ones({3})).requires_grad_();
    const torch::Tensor doubled = there * 2, squared = doubled * doubled;
    doubled.detach().add_(1);
    EXPECT_NE(std::string(thrown_by<c10::Error>([&] { squared.sum().backward(); }).what()).find("modified by an inplace operation"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace unisono::remote_testing
