// Writes the traces of a made job, for the tests of the page: make_traces FOLDER RANKS STEPS. In every step one rank is late; rank 3 more often than
// the others. Every second rank posts an asynchronous call as well, and waits for it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "unit/tools/made_trace.h"

namespace {

using unisono::Operation;
namespace recorder = unisono::recorder;
using unisono::testing::MadeCall;

struct Job {
  int ranks = 0;
  std::uint64_t steps = 0;
};

/// Returns how long a rank computes in a step, in microseconds.
std::uint64_t computed(const Job& job, std::uint64_t step, int rank) {
  std::minstd_rand random(static_cast<unsigned>(step * 7919 + static_cast<std::uint64_t>(rank) * 104729 + 1));
  random.discard(3);
  const int late = step % 3 == 0 ? 3 % job.ranks : static_cast<int>(step * 7 % static_cast<std::uint64_t>(job.ranks));
  return 900 + random() % 200 + (rank == late ? 1500 : 0);
}

void make(const std::string& folder, const Job& job, const std::vector<std::uint64_t>& ends, int rank) {
  std::vector<MadeCall> calls;
  const std::uint64_t origin = unisono::testing::began;
  std::uint64_t now = 0;
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    const std::uint64_t came = now + computed(job, step, rank);
    const bool is_asynchronous = rank % 2 == 1 && step % 2 == 1;
    const std::uint64_t begun = origin + came * unisono::testing::us, done = origin + ends[step] * unisono::testing::us;
    calls.push_back({.operation = step % 4 == 3 ? Operation::all_gather : Operation::all_reduce,
                     .begun = begun,
                     .done = done,
                     .sequence = step + 1,
                     .bytes = (step % 5 + 1) * 65536,
                     .queued = is_asynchronous ? begun : 0});
    const std::uint64_t waits_from = std::min(came + 200, ends[step] - 1);
    if (is_asynchronous)
      calls.push_back({.operation = Operation::barrier,
                       .begun = origin + waits_from * unisono::testing::us,
                       .done = done,
                       .bytes = 0,
                       .label = recorder::wait_label,
                       .group = ""});
    now = ends[step];
  }
  unisono::testing::make_trace(folder, {.rank = rank,
                                        .size = job.ranks,
                                        .host = rank < (job.ranks + 1) / 2 ? "node-a" : "node-b",
                                        .job = "7c1e",
                                        .real = 1'767'254'400 * unisono::testing::began,
                                        .calls = std::move(calls)});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const Job job{.ranks = std::atoi(argv[2]), .steps = std::strtoull(argv[3], nullptr, 10)};
  std::vector<std::uint64_t> ends;
  std::uint64_t now = 0;
  for (std::uint64_t step = 0; step < job.steps; ++step) {
    std::uint64_t last = 0;
    for (int rank = 0; rank < job.ranks; ++rank) last = std::max(last, now + computed(job, step, rank));
    now = last + 80 + 40 * (step % 5);
    ends.push_back(now);
  }
  for (int rank = 0; rank < job.ranks; ++rank) make(argv[1], job, ends, rank);
  return ::testing::Test::HasFailure() ? 1 : 0;
}
