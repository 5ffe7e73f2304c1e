// unisono/work.h: communication goes on while the rank computes.
#include <unisono/unisono.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <numeric>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Communication goes on while the rank computes.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  using namespace std::chrono_literals;
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    // The gradients of three layers: each is handed over as soon as it is complete, and belongs to the library until its Work is done.
    std::array<std::vector<float>, 3> gradients;
    std::array<unisono::Work, 3> works;
    for (std::size_t layer = 0; layer < gradients.size(); ++layer) {
      gradients[layer].assign(10000, static_cast<float>(rank + 1) * static_cast<float>(layer + 1));
      works[layer] = unisono::all_reduce_async(gradients[layer], unisono::ReduceOp::avg);
    }

    // The rank computes meanwhile.
    std::vector<double> local(1000, 0.5);
    const double sum = std::accumulate(local.begin(), local.end(), 0.0);

    const bool in_time = works[0].wait_for(10s);
    unisono::wait_all(works);
    if (rank == 0) {
      std::printf("computed %g; first in time: %s; averages %g %g %g\n", sum, in_time ? "yes" : "no", static_cast<double>(gradients[0][9999]),
                  static_cast<double>(gradients[1][9999]), static_cast<double>(gradients[2][9999]));
    }
    // Each collective has a form that returns at once. Operations of a group end in the order in which they began.
    const auto ranks = static_cast<std::size_t>(unisono::world_size());
    std::vector<int> own{rank}, first{rank}, total{rank + 1}, so_far{rank + 1}, before{rank + 1}, part(1), share(1);
    std::vector<int> everybody(ranks), collected(ranks), parts(ranks, rank), swapped(ranks);
    std::array<unisono::Work, 10> all{unisono::broadcast_async(first, 0),
                                      unisono::all_gather_async(own, everybody),
                                      unisono::gather_async(own, collected, 0),
                                      unisono::scatter_async(parts, part, 0),
                                      unisono::all_to_all_async(parts, swapped),
                                      unisono::reduce_async(total, 0),
                                      unisono::reduce_scatter_async(parts, share),
                                      unisono::scan_async(so_far),
                                      unisono::exscan_async(before),
                                      unisono::barrier_async()};
    unisono::wait_all(all);
    if (static_cast<std::size_t>(rank) + 1 == ranks) {
      std::printf("the last rank: first %d, all %d, part %d, swapped %d, sum %d, so far %d\n", first[0], everybody.back(), part[0], swapped.back(),
                  share[0], so_far[0]);
    }
    if (rank == 0) std::printf("rank 0: collected %d, total %d\n", collected.back(), total[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
