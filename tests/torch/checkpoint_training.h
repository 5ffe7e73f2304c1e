#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "refusal.h"
#include "unisono/torch/checkpoint.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"
#include "unisono/unisono.h"

// A small training with parameters, buffers and optimizer state, the same on all ranks.

namespace unisono::checkpoint_test {

/// A folder that is gone after the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "unisono-checkpoint-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline torch::Tensor numbers(at::IntArrayRef sizes, double seed) {
  return torch::sin(torch::arange(c10::multiply_integers(sizes), torch::kDouble) * 12.9898 + seed).to(torch::kFloat).reshape(sizes);
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(double seed, std::int64_t hidden = 5) {
    first = register_module("first", torch::nn::Linear(6, hidden));
    norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    last = register_module("last", torch::nn::Linear(hidden, 3));
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.copy_(numbers(parameter.sizes(), seed += 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(norm(first(x)))); }
  torch::nn::Linear first = nullptr, last = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};
TORCH_MODULE(Net);

struct Training {
  explicit Training(double seed, bool zero = false, double rate = 0.01) : model(seed) {
    optimizer = auto_optim(torch::optim::Adam(model->parameters(), torch::optim::AdamOptions(rate).amsgrad(true)), {.shard_state = zero});
  }
  void train(int from, int to) {
    for (int step = from; step < to; ++step) {
      optimizer->zero_grad();
      torch::mse_loss(model(numbers({12, 6}, 100 + step)), numbers({12, 3}, 200 + step)).backward();
      optimizer->step();
    }
  }
  std::vector<torch::Tensor> tensors() const {
    std::vector<torch::Tensor> all = model->parameters();
    for (const torch::Tensor& buffer : model->buffers()) all.push_back(buffer);
    for (torch::Tensor& each : all) each = each.detach().clone();
    return all;
  }
  Net model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

inline bool same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::ranges::equal(a, b, [](const torch::Tensor& x, const torch::Tensor& y) { return torch::equal(x, y); });
}

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write(const std::filesystem::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace unisono::checkpoint_test
