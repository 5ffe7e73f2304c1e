// Fits a straight line to measurements that are spread over the ranks, and tells the next rank after each step how far it is.
#include <unisono/unisono.h>

#include <array>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "A straight line through the measurements of all ranks. See docs/troubleshooting/six-hangs.md.";

struct Line {
  double slope = 0, offset = 0;
};

/// The measurements of one station: y = 3 x + 1, as exactly as the station measures.
struct Station {
  std::array<double, 8> x{}, y{};
  explicit Station(int rank) {
    constexpr std::array errors{0.3, 0.2, 0.0, 0.4};
    const double error = errors[static_cast<std::size_t>(rank) % errors.size()];
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = 0.1 * static_cast<double>(i + 1);
      y[i] = 3 * x[i] + 1 + (i % 2 == 0 ? error : -error);
    }
  }
  double loss(const Line& line, std::vector<double>& gradient) const {
    double sum = 0;
    gradient.assign(2, 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = line.slope * x[i] + line.offset - y[i];
      sum += off * off;
      gradient[0] += 2 * off * x[i];
      gradient[1] += 2 * off;
    }
    return sum / static_cast<double>(x.size());
  }
};

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    constexpr int steps = 500;
    constexpr double rate = 0.02, tolerance = 1e-2;
    unisono::Context context;
    const int rank = unisono::rank(), ranks = unisono::world_size();
    const Station station(rank);
    Line line;
    std::vector<double> gradient;
    std::array<double, 1> own{}, left{};
    for (int step = 0; step < steps; ++step) {
      own[0] = station.loss(line, gradient);
      if (own[0] > tolerance) {
        unisono::all_reduce(gradient, unisono::ReduceOp::avg);
        line.slope -= rate * gradient[0];
        line.offset -= rate * gradient[1];
      }
      if (ranks > 1) unisono::send_recv(own, (rank + 1) % ranks, left, (rank + ranks - 1) % ranks);
    }
    if (rank == 0) std::printf("y = %.2f x + %.2f\n", line.slope, line.offset);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
