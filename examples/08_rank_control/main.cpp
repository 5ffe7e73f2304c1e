// unisono/rank_control.h: code that runs on one rank only, or on one rank before the others.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "../arguments.h"

constexpr const char* about = "One rank for all, and one rank before all.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int last = unisono::world_size() - 1;

    // The function runs on the last rank only; no rank goes on before it has returned.
    auto count = unisono::one_rank_only([](int n) { return 2 * n; }, {.rank = last, .with_barrier = true});
    if (const auto doubled = count(21)) std::printf("the last rank counted %d\n", *doubled);

    // Rank 0 makes the file that the others then find.
    {
      const unisono::OneRankFirst first;
      if (unisono::is_main_process()) std::printf("rank 0 downloads\n");
    }
    unisono::barrier();
    if (unisono::rank() == last && unisono::gpu_mem_peak() < unisono::gpu_mem_usage()) std::printf("a peak is never below what is used now\n");

    // An exception on the one rank reaches the others, too.
    auto broken = unisono::one_rank_only([] { throw std::runtime_error("no space left"); }, {.rank = 0, .with_barrier = true});
    try {
      broken();
    } catch (const unisono::PeerFailed& error) {
      if (unisono::rank() == last)
        std::printf("rank %d failed: %s\n", error.culprit().value_or(-1),
                    error.message().find("no space left") != std::string::npos ? "no space left" : "?");
    } catch (const std::runtime_error& error) {
      std::printf("rank 0 itself threw: %s\n", error.what());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
