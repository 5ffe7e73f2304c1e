// Every block of docs/guide/libtorch.md that is no whole program, one after the other, as they stand there.
#include <filesystem>

#include "libtorch.h"

int main() {
  const unisono::Context context;
  torch::set_num_threads(1);
  if (unisono::is_main_process()) std::filesystem::remove("run.pt");
  unisono::barrier();
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  std::vector<torch::Tensor> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(torch::arange(24.0).reshape({6, 4}).mul(0.1 * (i + 1)).add(unisono::rank()).sin().to(torch::kFloat));
  run_fragments(net, batches);
  const bool written = std::filesystem::exists("run.pt");
  for (const auto& parameter : net->parameters()) {
    torch::Tensor same = parameter.detach().clone();
    unisono::broadcast(same, 0);
    if (!torch::equal(same, parameter) || !unisono::is_shared(parameter)) return 1;  // trained together, and moved where one of the blocks says
  }
  return written ? 0 : 1;
}
