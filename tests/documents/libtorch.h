#pragma once

#include <filesystem>

#include <torch/torch.h>

#include "unisono/torch.h"

// The program around those blocks of docs/guide/libtorch.md and the pages libtorch-*.md that are no whole programs: a model, and batches of this rank
// for it. They need not use what they make.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

#define FRAGMENTS_BEGIN(name) void name(torch::nn::Sequential net, [[maybe_unused]] const std::vector<torch::Tensor>& batches) {
#define FRAGMENT_BEGIN {
#define FRAGMENT_END }
#define FRAGMENTS_END }

void run_fragments(torch::nn::Sequential net, const std::vector<torch::Tensor>& batches);

/// Runs the blocks with a model that differs between the ranks, and returns it.
inline torch::nn::Sequential after_fragments() {
  torch::set_num_threads(1);
  torch::manual_seed(static_cast<std::uint64_t>(unisono::rank()));
  if (unisono::is_main_process()) std::filesystem::remove("run.pt");
  unisono::barrier();
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  std::vector<torch::Tensor> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(torch::arange(24.0).reshape({6, 4}).mul(0.1 * (i + 1)).add(unisono::rank()).sin().to(torch::kFloat));
  run_fragments(net, batches);
  return net;
}

/// Tells whether all ranks have the same parameters.
inline bool is_alike(const torch::nn::Sequential& net) {
  for (const auto& parameter : net->parameters()) {
    torch::Tensor same = parameter.detach().clone();
    unisono::broadcast(same, 0);
    if (!torch::equal(same, parameter)) return false;
  }
  return true;
}
