// unisono/process_group.h: some of the ranks among themselves.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Groups: some of the ranks among themselves.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();
    const int last = unisono::world_size() - 1;

    // Every rank gives a color, and ranks of one color form a group. All groups work at the same time.
    const auto half = unisono::split_group(unisono::world(), rank % 2);
    const int sum = unisono::all_reduce(rank, unisono::ReduceOp::sum, *half);
    if (half->rank() == 0) std::printf("the %d %s ranks add up to %d\n", half->size(), rank % 2 == 0 ? "even" : "odd", sum);

    // Only the members of a new group call. Its ranks are in the order given: here the world's last rank is rank 0.
    if (last > 0 && (rank == 0 || rank == last)) {
      const auto ends = unisono::new_group({last, 0});
      std::vector<int> first{100 + rank};
      unisono::broadcast(first, 0, *ends);                          // a rank within the group …
      unisono::broadcast(first, unisono::GlobalRank{last}, *ends);  // … or within the world: the same process here
      if (rank == 0) std::printf("rank 0 is rank %d of %d here and got %d\n", ends->rank(), ends->size(), first[0]);
    }

    // A group knows who its members are in the world. current_world() is the default group of every call, without a copy.
    const unisono::ProcessGroup& world = unisono::current_world();
    const bool are_members = world.contains(unisono::GlobalRank{last}) && half->rank_of(unisono::GlobalRank{rank}) == half->rank();
    if (rank == 0) {
      std::printf("the last of %zu members is rank %d of the world%s\n", half->global_ranks().size(), half->global_rank(half->size() - 1),
                  are_members ? "" : ", and no member");
    }

    const unisono::ProcessGroup neighbours = unisono::local_group();  // the ranks of this host
    if (rank == 0) std::printf("%d on this host\n", neighbours.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
