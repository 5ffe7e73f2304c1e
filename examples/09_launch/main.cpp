// unisono/launch.h: a program starts its ranks itself and gets their results. Run it without a launcher.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "../arguments.h"

struct Result {
  int rank = -1;
  std::string text;
  UNISONO_FIELDS(rank, text)
};

Result work(int local_rank, const std::string& greeting) {
  const int sum = unisono::all_reduce(local_rank + 1);
  return {unisono::rank(), greeting + " " + std::to_string(sum)};
}

constexpr const char* about = "A program that starts its ranks itself, and gets back what they returned. It runs without a launcher.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    for (const Result& result : unisono::spawn({.nproc_per_node = 3}, work, "sum is")) std::printf("rank %d: %s\n", result.rank, result.text.c_str());

    // spawn_async returns when the ranks have begun, and join gives what they have returned.
    auto ranks_at_work = unisono::spawn_async({.nproc_per_node = 2}, work, "meanwhile");
    const std::vector<Result> later = ranks_at_work.join();
    std::printf("rank %d: %s\n", later.back().rank, later.back().text.c_str());

    // Parallel works alone, under a launcher, and with ranks that it starts.
    unisono::Parallel parallel({.backend = "native", .nproc_per_node = 2});
    const std::vector<int> sizes = parallel.run([] { return unisono::world_size(); });
    std::printf("%zu ranks in a world of %d\n", sizes.size(), sizes[0]);

    // The error names the rank that failed and the exception it threw.
    try {
      unisono::spawn({.nproc_per_node = 2}, [](int local_rank) {
        if (local_rank == 1) throw std::runtime_error("out of luck");
        unisono::barrier();
      });
    } catch (const unisono::LaunchFailed& error) {
      const bool named = error.message().find("out of luck") != std::string::npos;
      std::printf("a rank failed: %s\n", named ? "out of luck" : error.what());
    }

    // In tests, ranks may be threads.
    const std::vector<int> ranks = unisono::run_threads(4, [] { return 10 * unisono::rank(); });
    std::printf("threads: %d … %d\n", ranks.front(), ranks.back());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
