// unisono/parameters.h: all parameters of a model, all entries of a dictionary, one seed for all ranks.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "All parameters of a model, all entries of a dictionary, one seed for all ranks.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    // Three gradients are reduced in as few calls as their dtypes allow.
    std::vector<std::vector<float>> gradients{std::vector<float>(10, 1.0F), std::vector<float>(1000, static_cast<float>(rank)), {}};
    unisono::all_reduce_params(gradients, {.bucket_size_mb = 25, .op = unisono::ReduceOp::avg});
    if (rank == 0) std::printf("averages %g %g\n", static_cast<double>(gradients[0][9]), static_cast<double>(gradients[1][999]));

    // Metrics are matched by name, whatever their order.
    std::map<std::string, double> metrics{{"loss", 0.5 + rank}, {"accuracy", 0.25 * rank}};
    unisono::average_across_processes(metrics);
    std::map<std::string, std::vector<int>> counts{{"right", {rank, 1}}, {"wrong", {1}}};
    unisono::all_reduce_dict(counts);
    if (rank == 0)
      std::printf("loss %g, accuracy %g, right %d %d, wrong %d\n", metrics["loss"], metrics["accuracy"], counts["right"][0], counts["right"][1],
                  counts["wrong"][0]);

    // A difference in names is an error on every rank, so that unrelated values are never added up.
    if (rank == 1) metrics["only here"] = 1;
    try {
      unisono::average_across_processes(metrics);
      if (rank == 0) std::printf("nobody to differ from\n");
    } catch (const unisono::Mismatch&) {
      if (rank == 0) std::printf("the ranks' metrics have different names\n");
    }

    // The seed is the same on every rank, so all draw the same numbers.
    std::mt19937 generator(unisono::sync_random_seed());
    const auto drawn = static_cast<double>(generator());
    const bool same = unisono::all_reduce(drawn, unisono::ReduceOp::min) == unisono::all_reduce(drawn, unisono::ReduceOp::max);
    if (rank == 0) std::printf("same numbers: %s\n", same ? "yes" : "no");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
