// Averages the weights of a model in each round, and counts how many samples all ranks have seen.
#include <unisono/unisono.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Rounds of averaging, with a count of samples. See docs/troubleshooting/six-hangs.md.";

/// Samples that arrive at a rank in a round.
int samples_of(int rank, int round) { return 100 + 7 * ((3 * rank + round) % 5); }

class Rounds {
 public:
  explicit Rounds(unisono::ProcessGroup counters) : counters_(std::move(counters)), weights_(256, 1.0F / static_cast<float>(1 + unisono::rank())) {}

  void run(int round) {
    const int fresh = samples_of(unisono::rank(), round);
    largest_ = std::max(largest_, fresh);
    if (round > 4 && fresh == largest_) {  // there is much to report
      count(fresh);
      average();
    } else {
      average();
      count(fresh);
    }
  }
  long samples() const { return samples_; }

 private:
  void average() { unisono::all_reduce(weights_, unisono::ReduceOp::avg); }
  void count(int fresh) { samples_ += unisono::all_reduce(fresh, unisono::ReduceOp::sum, counters_); }

  unisono::ProcessGroup counters_;
  std::vector<float> weights_;
  int largest_ = 0;
  long samples_ = 0;
};

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    constexpr int most = 10;
    unisono::Context context;
    Rounds rounds(unisono::new_group());
    for (int round = 0; round < most; ++round) rounds.run(round);
    if (unisono::rank() == 0) std::printf("%ld samples\n", rounds.samples());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
