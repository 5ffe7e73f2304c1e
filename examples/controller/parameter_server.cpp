// A line is fitted to points. The workers have the points, each a part, and compute gradients; the controller keeps the parameters and takes the
// gradients as they come, without waiting for all.
#include <unisono/unisono.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "The controller keeps parameters, and workers compute gradients on data of their own.";

/// The points of one worker: y = 3 x + 1.
class Points {
 public:
  explicit Points(int count) {
    for (int i = 0; i < count; ++i) {
      const double x = (unisono::rank() + i * unisono::world_size()) % 10 / 10.0;
      points_.push_back({x, 3 * x + 1});
    }
  }
  std::vector<double> gradient(const std::vector<double>& line) const {
    std::vector<double> sum(2);
    for (const auto& [x, y] : points_) {
      const double difference = line[0] * x + line[1] - y;
      sum[0] += 2 * difference * x / static_cast<double>(points_.size());
      sum[1] += 2 * difference / static_cast<double>(points_.size());
    }
    return sum;
  }

 private:
  struct Point {
    double x, y;
  };
  std::vector<Point> points_;
};
UNISONO_ACTOR(Points, &Points::gradient);

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    const unisono::Controller workers({.workers = 2});
    const auto points = workers.make<Points>(100);
    std::vector<double> line{0, 0};
    std::vector<unisono::Future<std::vector<double>>> gradients;
    for (const auto& part : points) gradients.push_back(part.call(&Points::gradient, line));
    for (int step = 0; step < 2000; ++step) {
      const std::size_t first = unisono::wait_any(gradients);
      const std::vector<double> gradient = gradients[first].get();
      for (std::size_t i = 0; i < line.size(); ++i) line[i] -= 0.1 * gradient[i];
      gradients[first] = points[first].call(&Points::gradient, line);
    }
    std::printf("y = %.2f x + %.2f\n", line[0], line[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
