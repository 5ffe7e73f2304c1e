// auto_model on a GPU, for scripts/test/gpu, which compiles it there for that machine's PyTorch: the ranks, which may share the GPU, train as one
// process on the whole batch does.
#include <torch/torch.h>

#include <cstdio>
#include <stdexcept>

#include "unisono/torch.h"

namespace {

torch::nn::Sequential make_net() {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(32, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  net->to(torch::kDouble);
  return net;
}

/// Trains `forward` on these rows of each batch.
template <class Forward>
void train(std::vector<torch::Tensor> parameters, const torch::Device& device, const Forward& forward, std::int64_t first, std::int64_t step) {
  torch::optim::SGD optimizer(std::move(parameters), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int i = 0; i < 20; ++i) {
    const torch::Tensor batch = torch::arange(16 * 32, torch::kDouble).add(i).mul(0.37).sin().view({16, 32}).to(device);
    const torch::Tensor x = batch.slice(0, first, 16, step);
    optimizer.zero_grad();
    (forward(x) - x.sin().sum(1, true)).square().mean().backward();
    optimizer.step();
  }
}

}  // namespace

int main() {
  try {
    const unisono::Context context;
    if (unisono::device().type != unisono::Device::Type::cuda) {
      std::printf("skipped, missing on this machine: a GPU, NCCL and the CUDA runtime\n");
      return 77;
    }
    const torch::Device device = unisono::torch_device(unisono::device());
    auto model = unisono::auto_model(make_net());  // moves it to the device
    train(
        model.parameters(), device, [&](const torch::Tensor& x) { return model(x); }, unisono::rank(), unisono::world_size());
    torch::nn::Sequential alone = make_net();
    alone->to(device);
    train(
        alone->parameters(), device, [&](const torch::Tensor& x) { return alone->forward(x); }, 0, 1);
    double apart = 0;
    for (std::size_t i = 0; i < alone->parameters().size(); ++i)
      apart = std::max(apart, (model.parameters()[i] - alone->parameters()[i]).abs().max().item<double>());
    if (apart > 1e-9) throw std::runtime_error("the parameters are " + std::to_string(apart) + " apart from those of one process");
    if (unisono::rank() == 0)
      std::printf("auto_model on %s, %d ranks: %.1e apart from one process\n", device.str().c_str(), unisono::world_size(), apart);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_training: %s\n", error.what());
    return 1;
  }
}
