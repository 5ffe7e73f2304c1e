#include "model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace {

// The offsets of the parts in the vector of weights.
constexpr std::size_t hidden_weights = 0;  // [hidden][inputs]
constexpr std::size_t hidden_bias = hidden_weights + std::size_t{Model::hidden} * Model::inputs;
constexpr std::size_t output_weights = hidden_bias + Model::hidden;  // [outputs][hidden]
constexpr std::size_t output_bias = output_weights + std::size_t{Model::outputs} * Model::hidden;
constexpr std::size_t total = output_bias + Model::outputs;

constexpr float momentum = 0.9f;

}  // namespace

Model::Model(std::uint64_t seed) : weights_(total, 0.0f), velocity_(total, 0.0f) {
  Shuffler random(seed);
  const auto fill = [&](std::size_t begin, std::size_t end, int fan_in) {
    const float limit = std::sqrt(6.0f / static_cast<float>(fan_in));
    for (std::size_t i = begin; i < end; ++i) weights_[i] = (2.0f * random.uniform() - 1.0f) * limit;
  };
  fill(hidden_weights, hidden_bias, inputs);
  fill(output_weights, output_bias, hidden);
}

Model::Activations Model::forward(const Digit& digit) const {
  Activations result{};
  for (std::size_t unit = 0; unit < hidden; ++unit) {
    const float* row = &weights_[hidden_weights + unit * inputs];
    float sum = weights_[hidden_bias + unit];
    for (std::size_t i = 0; i < inputs; ++i) sum += row[i] * digit.pixels[i];
    result.hidden_layer[unit] = std::max(sum, 0.0f);
  }
  for (std::size_t unit = 0; unit < outputs; ++unit) {
    const float* row = &weights_[output_weights + unit * hidden];
    float sum = weights_[output_bias + unit];
    for (std::size_t i = 0; i < hidden; ++i) sum += row[i] * result.hidden_layer[i];
    result.scores[unit] = sum;
  }
  return result;
}

float Model::add_gradient(const Digit& digit, std::span<float> gradient) const {
  const Activations activations = forward(digit);
  const auto label = static_cast<std::size_t>(digit.label);

  // Softmax: the largest score is subtracted first, so that no exponential overflows.
  const float largest = std::ranges::max(activations.scores);
  std::array<float, outputs> output_error{};
  float sum = 0.0f;
  for (std::size_t unit = 0; unit < outputs; ++unit) sum += output_error[unit] = std::exp(activations.scores[unit] - largest);
  for (float& probability : output_error) probability /= sum;
  const float loss = std::log(sum) + largest - activations.scores[label];
  output_error[label] -= 1.0f;  // from here on the derivative of the loss by the scores

  std::array<float, hidden> hidden_error{};
  for (std::size_t unit = 0; unit < outputs; ++unit) {
    const float error = output_error[unit];
    const float* row = &weights_[output_weights + unit * hidden];
    float* row_gradient = &gradient[output_weights + unit * hidden];
    for (std::size_t i = 0; i < hidden; ++i) {
      row_gradient[i] += error * activations.hidden_layer[i];
      hidden_error[i] += error * row[i];
    }
    gradient[output_bias + unit] += error;
  }
  for (std::size_t unit = 0; unit < hidden; ++unit) {
    if (activations.hidden_layer[unit] <= 0.0f) continue;
    const float error = hidden_error[unit];
    float* row_gradient = &gradient[hidden_weights + unit * inputs];
    for (std::size_t i = 0; i < inputs; ++i) row_gradient[i] += error * digit.pixels[i];
    gradient[hidden_bias + unit] += error;
  }
  return loss;
}

int Model::classify(const Digit& digit) const {
  const Activations activations = forward(digit);
  return static_cast<int>(std::ranges::max_element(activations.scores) - activations.scores.begin());
}

void Model::step(std::span<const float> gradient, float learning_rate) {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    velocity_[i] = momentum * velocity_[i] - learning_rate * gradient[i];
    weights_[i] += velocity_[i];
  }
}

std::uint64_t Model::checksum() const {
  std::uint64_t sum = 0xcbf29ce484222325u;  // FNV-1a, a word at a time
  for (const float weight : weights_) sum = (sum ^ std::bit_cast<std::uint32_t>(weight)) * 0x100000001b3u;
  return sum;
}
