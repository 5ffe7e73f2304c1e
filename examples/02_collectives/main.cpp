// unisono/collectives.h: every rank of the group makes the same call.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "../arguments.h"

template <class T>
std::string text(const std::vector<T>& values) {
  std::string line;
  for (const T& value : values) line.append(" ").append(std::to_string(value));
  return line;
}

constexpr const char* about = "Collectives: every rank of the group makes the same call.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();
    const auto ranks = static_cast<std::size_t>(unisono::world_size());
    std::vector<int> own{10 * rank, 10 * rank + 1};  // different on every rank

    std::vector<int> all(2 * ranks);
    unisono::all_gather(own, all);  // block r is rank r's
    if (rank == 0) std::printf("all_gather    %s\n", text(all).c_str());

    std::vector<int> sums(2);
    unisono::reduce_scatter(all, sums);  // rank r gets the sum of all ranks' blocks r
    if (rank == 0) std::printf("reduce_scatter%s\n", text(sums).c_str());

    std::vector<int> total = own, so_far = own;
    unisono::reduce(total, 0);  // rank 0 alone gets the sum
    unisono::scan(so_far);      // each rank gets the sum of the ranks up to itself
    if (rank == 0) std::printf("reduce        %s\n", text(total).c_str());
    if (static_cast<std::size_t>(rank) + 1 == ranks) std::printf("scan          %s\n", text(so_far).c_str());

    std::vector<int> swapped(2 * ranks);
    unisono::all_to_all(all, swapped);  // block r goes to rank r
    if (rank == 0) std::printf("all_to_all    %s\n", text(swapped).c_str());

    std::vector<int> parts(rank == 0 ? ranks : 0);  // only the source has values to give
    std::iota(parts.begin(), parts.end(), 100);
    std::vector<int> part(1);
    unisono::scatter(parts, part);
    unisono::broadcast(own);  // every rank has rank 0's from here on

    // Values are returned; a result that only some ranks get is an optional.
    const int before_me = unisono::exscan(part[0]);
    const double average = unisono::mean(rank);
    if (const auto received = unisono::gather(part[0] + own[1])) std::printf("gather        %s\n", text(*received).c_str());
    if (static_cast<std::size_t>(rank) + 1 == ranks) std::printf("exscan         %d, mean %g\n", before_me, average);
    unisono::barrier();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
