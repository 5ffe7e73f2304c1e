// A program of somebody else's: knows the public headers and the target, nothing more. It names no C++ standard; the target brings it.
#include <unisono/unisono.h>

#include <cstdio>
#include <vector>

int main() {
  unisono::Context context;
  const int ranks = unisono::world_size();
  const int rank = unisono::rank();

  std::vector<float> values{1.0f + static_cast<float>(rank), 10.0f * static_cast<float>(rank)};
  unisono::all_reduce(values);

  const auto sum_of_ranks = static_cast<float>(ranks * (ranks - 1) / 2);
  const bool right = values[0] == static_cast<float>(ranks) + sum_of_ranks && values[1] == 10.0f * sum_of_ranks;
  std::printf("rank %d of %d: %s\n", rank, ranks, right ? "sum is right" : "sum is WRONG");
  return right ? 0 : 1;
}
