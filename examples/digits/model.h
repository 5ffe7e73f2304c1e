#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data.h"

/// 64 inputs, a hidden layer of rectified units, softmax over 10 digits. All weights lie in one vector, and so does their gradient, so that the ranks
/// exchange one buffer.
class Model {
 public:
  static constexpr int inputs = 64, hidden = 64, outputs = 10;

  /// Draws random weights; the optimiser's velocity starts at zero.
  explicit Model(std::uint64_t seed);

  std::vector<float>& weights() { return weights_; }
  /// What the steps so far have left for the next one.
  std::vector<float>& velocity() { return velocity_; }
  std::size_t size() const { return weights_.size(); }

  /// Adds the gradient of the digit's cross-entropy loss to `gradient` (size() values) and returns that loss.
  float add_gradient(const Digit& digit, std::span<float> gradient) const;
  int classify(const Digit& digit) const;
  /// Takes one step of gradient descent with momentum.
  void step(std::span<const float> gradient, float learning_rate);

  /// Returns a checksum of every bit of the weights.
  std::uint64_t checksum() const;

 private:
  struct Activations {
    std::array<float, hidden> hidden_layer;
    std::array<float, outputs> scores;
  };
  Activations forward(const Digit& digit) const;

  std::vector<float> weights_, velocity_;
};
