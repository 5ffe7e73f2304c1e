// Joins the job and leaves it. With --facts PIPE it makes one call in between, says what a rank costs, and waits for PIPE; with --once it makes a
// barrier and an all_reduce, and rank 0 says what they took and what a rank's memory is.
#include <unisono/unisono.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "facts.h"

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Prints the longest times of all ranks, and the memory that the library has added to the program's own.
void report_once(double own_kib, std::vector<double> seconds) {
  std::vector<double> kib{startup::own_kib() - own_kib};
  std::vector<double> all = kib;
  unisono::all_reduce(seconds, unisono::ReduceOp::max);
  unisono::all_reduce(all, unisono::ReduceOp::sum);
  unisono::all_reduce(kib, unisono::ReduceOp::max);
  if (unisono::rank() != 0) return;
  std::printf("startup-once {\"ranks\": %d, \"join_s\": %.3f, \"barrier_s\": %.3f, \"all_reduce_s\": %.3f, \"mean_kib\": %.0f, \"most_kib\": %.0f}\n",
              unisono::world_size(), seconds[0], seconds[1], seconds[2], all[0] / unisono::world_size(), kib[0]);
}

void start_once() {
  const double own_kib = startup::own_kib();
  std::vector<double> seconds;
  auto begin = std::chrono::steady_clock::now();
  const unisono::Context context;
  seconds.push_back(seconds_since(begin));
  begin = std::chrono::steady_clock::now();
  unisono::barrier();
  seconds.push_back(seconds_since(begin));
  begin = std::chrono::steady_clock::now();
  std::vector<float> data(1024, 1.0F);
  unisono::all_reduce(data);
  seconds.push_back(seconds_since(begin));
  if (data.back() != static_cast<float>(unisono::world_size())) throw std::runtime_error("the all_reduce is wrong");
  report_once(own_kib, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::strcmp(argv[1], "--once") == 0) {
      start_once();
      return 0;
    }
    unisono::Context context;
    const char* const pipe = startup::pipe_of(argc, argv);
    if (pipe == nullptr) return 0;
    std::vector<float> data(startup::numbers, 1.0F);
    unisono::all_reduce(data);
    startup::write_facts(pipe);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
