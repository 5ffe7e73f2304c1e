#pragma once

#include <torch/torch.h>

#include <vector>

#include "../../digits/data.h"

/// The images in the form of torch::data: 1 x 8 x 8 grey values and the digit that each shows.
struct Digits : torch::data::Dataset<Digits> {
  explicit Digits(const std::vector<Digit>& digits) {
    images = torch::empty({static_cast<std::int64_t>(digits.size()), 1, 8, 8});
    labels = torch::empty({images.size(0)}, torch::kLong);
    for (std::int64_t i = 0; i < images.size(0); ++i) {
      const Digit& digit = digits[static_cast<std::size_t>(i)];
      images[i].copy_(torch::tensor(at::ArrayRef<float>(digit.pixels.data(), digit.pixels.size())).view({1, 8, 8}));
      labels[i] = digit.label;
    }
  }
  torch::data::Example<> get(std::size_t i) override { return {images[static_cast<std::int64_t>(i)], labels[static_cast<std::int64_t>(i)]}; }
  std::optional<std::size_t> size() const override { return static_cast<std::size_t>(images.size(0)); }

  torch::Tensor images, labels;
};

/// Two convolutions and a layer above them; returns the logarithms of the ten digits' probabilities.
struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(first(x));
    x = torch::max_pool2d(torch::relu(second(x)), 2);
    return torch::log_softmax(last(x.flatten(1)), 1);
  }
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
  torch::nn::Conv2d second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(32 * 4 * 4, 10));
};
TORCH_MODULE(Net);
