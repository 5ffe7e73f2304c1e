// The program measures what an operator on a remote tensor costs beyond its work: a small network's steps, written as single operators, run on the
// cpu of this process and on a worker. It prints a line for each, and the difference.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "../../examples/arguments.h"
#include "unisono/torch.h"

namespace {

constexpr int steps = 1000;
constexpr int operators_a_step = 11;

struct Network {
  torch::Tensor weights1, bias1, weights2, bias2;

  explicit Network(const torch::Device& device)
      : weights1(torch::randn({16, 16}, device) * 0.1),
        bias1(torch::zeros({16}, device)),
        weights2(torch::randn({16, 4}, device) * 0.1),
        bias2(torch::zeros({4}, device)) {}

  /// Forward, backward and update.
  void step(const torch::Tensor& x, const torch::Tensor& y) {
    const auto hidden = torch::addmm(bias1, x, weights1), active = torch::relu(hidden);
    const auto error = torch::addmm(bias2, active, weights2) - y;
    const auto gradient2 = active.t().mm(error);
    const auto gradient1 = x.t().mm(error.mm(weights2.t()) * (hidden > 0));
    weights2.sub_(gradient2, 0.001);
    weights1.sub_(gradient1, 0.001);
  }
};

/// Returns the microseconds of an operator, at best of several times.
double measure(const torch::Device& device) {
  using Clock = std::chrono::steady_clock;
  torch::manual_seed(1);
  Network network(device);
  const auto x = torch::randn({8, 16}, device), y = torch::randn({8, 4}, device);
  const auto wait = [&] {
    if (!device.is_cpu()) unisono::synchronize(device);
  };
  double best = 1e9;
  for (int time = 0; time < 7; ++time) {
    wait();
    const auto begin = Clock::now();
    for (int i = 0; i < steps; ++i) network.step(x, y);
    wait();
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / (steps * operators_a_step));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = ended_by_arguments(argc, argv, "Measures what an operator on a tensor of a controller's worker costs beyond its work.");
  if (code >= 0) return code;
  const unisono::Controller workers({.workers = 1});
  torch::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const double here = measure(torch::kCPU), there = measure(torch::Device("remote:0"));
  std::printf("%d operators of a small network\n", steps * operators_a_step);
  std::printf("cpu       %6.2f us each\nremote:0  %6.2f us each\nbeyond    %6.2f us each\n", here, there, there - here);
}
