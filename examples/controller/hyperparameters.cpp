// Looks for the best of many settings: whichever worker is free tries the next one, and one that fails is left out.
#include <unisono/unisono.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Workers try settings, each when it is free, and the controller keeps the best.";

struct Setting {
  double rate = 0;
  int layers = 0;
  UNISONO_FIELDS(rate, layers)
};

/// Stands for a training: returns its loss.
double train(const Setting& setting) {
  if (setting.rate > 0.5) throw std::runtime_error("the loss is not finite");
  return std::abs(std::log10(setting.rate) + 2) + std::abs(setting.layers - 3);
}
UNISONO_REMOTE(train);

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    const unisono::Controller workers({.workers = 2});
    std::deque<Setting> left;
    for (const double rate : {1.0, 0.1, 0.01, 0.001}) {
      for (const int layers : {1, 2, 3, 4}) left.push_back({rate, layers});
    }
    std::vector<unisono::Future<double>> trials;
    std::vector<Setting> tried;
    const auto begin = [&](int worker) {
      trials.push_back(workers[worker].call(train, left.front()));
      tried.push_back(left.front());
      left.pop_front();
    };
    for (int i = 0; i < workers.size(); ++i) begin(i);
    double best = INFINITY;
    Setting winner;
    int failures = 0;
    while (!trials.empty()) {
      const std::size_t done = unisono::wait_any(trials);
      const auto trial = trials[done];
      const Setting setting = tried[done];
      trials.erase(trials.begin() + static_cast<std::ptrdiff_t>(done));
      tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(done));
      if (!left.empty()) begin(trial.worker());
      try {
        const double loss = trial.get();
        if (loss < best) {
          best = loss;
          winner = setting;
        }
      } catch (const unisono::RemoteError&) {  // of this setting alone
        ++failures;
      }
    }
    std::printf("best: rate %g, %d layers, loss %.2f; %d settings failed\n", winner.rate, winner.layers, best, failures);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
