// Heat flows round a ring of rods, one on each rank. The rods' ends travel from rank to rank.
#include <unisono/unisono.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Heat in a ring of rods. See docs/troubleshooting/six-hangs.md.";

class Rod {
 public:
  Rod(int rank, int ranks) : left_((rank + ranks - 1) % ranks), right_((rank + 1) % ranks), heat_(64, 1.0), is_heated_(rank == 2) {}

  /// One step of the time `step`, or two short ones where much flows. Returns the number of the next one.
  int advance(int step) {
    if (is_heated_) heat_[heat_.size() / 2] += 10;
    exchange(step);
    const double change = flow(0.2);
    if (change < limit_) return step + 1;
    limit_ = 2 * change;
    flow(0.1);
    return step + 2;
  }
  double end() const { return heat_.back(); }

 private:
  void exchange(int step) {
    const std::array<double, 1> own{heat_.back()};
    std::array<double, 1> got{};
    unisono::send(own, right_, unisono::world(), {.tag = step});
    unisono::recv(got, left_, unisono::world(), {.tag = step});
    inflow_ = got[0];
  }
  double flow(double part) {
    double before = inflow_, most = 0;
    for (double& heat : heat_) {
      const double change = part * (before - heat);
      before = heat;
      heat += change;
      most = std::max(most, std::abs(change));
    }
    return most;
  }

  int left_, right_;
  double inflow_ = 0, limit_ = 5;
  std::vector<double> heat_;
  bool is_heated_;
};

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    constexpr int steps = 200;
    unisono::Context context;
    if (unisono::world_size() < 2) {
      std::printf("one rod is no ring\n");
      return 0;
    }
    Rod rod(unisono::rank(), unisono::world_size());
    for (int step = 1; step <= steps;) step = rod.advance(step);
    std::printf("rank %d: %.3f\n", unisono::rank(), rod.end());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
