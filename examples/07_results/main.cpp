// unisono/results.h: rank 0 collects the ranks' results for their parts of a data set, in the data set's order.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "What the ranks found out about their parts of a data set, in the data set's order, on rank 0.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    constexpr std::size_t samples = 7;

    // The sampler repeats samples so that all ranks have equally many; collect_results drops the repetitions.
    std::vector<std::pair<std::size_t, std::optional<std::string>>> part;
    for (const std::size_t index : unisono::DistributedSampler(samples, {.shuffle = false})) {
      part.emplace_back(index, index % 3 == 0 ? std::nullopt : std::optional("found in " + std::to_string(index)));
    }
    const auto results = unisono::collect_results(part, samples);
    if (results) {
      for (const auto& [index, text] : *results) std::printf("%zu: %s\n", index, text ? text->c_str() : "nothing");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
