#pragma once

#include <torch/torch.h>

// The data on which the programs of this folder train; pictures.py is the same in Python.

/// Pictures in the form of CIFAR-10, 3 x 32 x 32 numbers of ten kinds: each is the pattern of its kind with noise.
struct Pictures : torch::data::Dataset<Pictures> {
  Pictures(std::int64_t count, std::uint64_t seed) : labels(torch::arange(count) % 10) {
    const auto patterns = torch::randn({10, 3, 32, 32}, at::make_generator<at::CPUGeneratorImpl>(1));
    images = patterns.index_select(0, labels) + torch::randn({count, 3, 32, 32}, at::make_generator<at::CPUGeneratorImpl>(seed));
  }
  torch::data::Example<> get(std::size_t i) override { return {images[static_cast<std::int64_t>(i)], labels[static_cast<std::int64_t>(i)]}; }
  std::optional<std::size_t> size() const override { return static_cast<std::size_t>(labels.size(0)); }

  torch::Tensor images, labels;
};

/// A small convolutional network that tells the ten kinds.
inline torch::nn::Sequential make_net() {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(3, 8, 4).stride(4)), ReLU(), Flatten(), Linear(8 * 8 * 8, 10));
}
