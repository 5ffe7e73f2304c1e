#include "data_parallel_world.h"

namespace parallel {

torch::Tensor values(torch::IntArrayRef sizes, double seed, torch::Dtype dtype) {
  const torch::Tensor x = torch::arange(c10::multiply_integers(sizes), torch::kDouble);
  const auto wave = [&](double step) { return ((x + 1) * step + seed * 1.7).sin().reshape(sizes); };
  if (torch::isComplexType(dtype)) return torch::complex(wave(0.9), wave(1.3)).to(dtype);
  return wave(0.9).to(dtype);
}

void fill(torch::nn::Module& module, double seed, double scale) {
  const torch::NoGradGuard no_grad;
  module.to(torch::kDouble);
  for (auto& parameter : module.parameters()) parameter.copy_(values(parameter.sizes(), seed += 1).mul_(scale));
}

torch::Tensor share(const torch::Tensor& batch) {
  const auto own = batch.size(0) / unisono::world_size();
  return batch.narrow(0, unisono::rank() * own, own);
}

std::string difference(const torch::Tensor& actual, const torch::Tensor& expected, double tolerance) {
  if (actual.defined() != expected.defined()) return expected.defined() ? "there is none" : "there is one";
  if (!actual.defined()) return "";
  if (actual.sizes() != expected.sizes()) return c10::str("shape ", actual.sizes(), " instead of ", expected.sizes());
  if (actual.numel() == 0) return "";
  const double most = (actual.detach() - expected.detach()).abs().max().to(torch::kDouble).item<double>();
  return most <= tolerance ? "" : c10::str("off by ", most);
}

std::string difference(const torch::nn::Module& actual, const torch::nn::Module& expected, double tolerance) {
  const auto compare = [&](const auto& a, const auto& b) -> std::string {
    if (a.size() != b.size()) return c10::str(a.size(), " items instead of ", b.size());
    for (const auto& item : b) {
      const std::string text = difference(a[item.key()], item.value(), tolerance);
      if (!text.empty()) return item.key() + ": " + text;
    }
    return "";
  };
  const std::string text = compare(actual.named_parameters(), expected.named_parameters());
  return text.empty() ? compare(actual.named_buffers(), expected.named_buffers()) : text;
}

torch::Tensor relu(const torch::Tensor& x) {
  // Thousands of roundings, and far less than the distance of neighbours among the values of the tests.
  const double least = x.scalar_type() == torch::kDouble ? 1e-9 : 1e-4;
  EXPECT_GT(x.detach().abs().min().to(torch::kDouble).item<double>(), least) << "an input of the ReLU is too near to 0: take other data";
  return torch::relu(x);
}

NetImpl::NetImpl(int inputs, int hidden, int outputs)
    : first(register_module("first", torch::nn::Linear(inputs, hidden))), second(register_module("second", torch::nn::Linear(hidden, outputs))) {
  fill(*this, 1);
}

Net net_of_rank() {
  Net net;
  fill(*net, 1 + 10 * unisono::rank());
  return net;
}

}  // namespace parallel
