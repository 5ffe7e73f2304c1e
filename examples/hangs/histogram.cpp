// Counts how often each value occurs in the data of all ranks.
#include <unisono/unisono.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <mutex>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "The histogram of what all ranks have. See docs/troubleshooting/six-hangs.md.";

/// Several threads may add to it.
class Histogram {
 public:
  void add(std::size_t value) {
    const std::lock_guard lock(mutex_);
    if (value >= counts_.size()) grow(value + 1);
    ++counts_[value];
  }
  void grow(std::size_t bins) {
    const std::lock_guard lock(mutex_);
    counts_.resize(bins);
  }
  std::vector<long> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<long> counts_ = std::vector<long>(64);
};

std::size_t value_of(int rank, int i) { return static_cast<std::size_t>((i * i + 5 * rank) % (rank == 1 ? 67 : 61)); }

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    constexpr int values = 1000;
    unisono::Context context;
    Histogram histogram;
    for (int part = 0; part < 4; ++part) {
      unisono::barrier();
      for (int i = 0; i < values; ++i) histogram.add(value_of(unisono::rank(), part * values + i));
    }
    std::vector<long> counts = histogram.counts();
    unisono::all_reduce(counts);
    if (unisono::rank() == 0) std::printf("%ld times 0\n", counts[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
