// unisono/elastic.h: ranks in different states are brought to that of the one that has come furthest, and go on from there in a loop that loses no
// step.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "A state that all ranks have alike, and the loop of a job that goes on without a lost rank.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    // As if rank 1 had come furthest.
    std::vector<int> numbers(3, 10 * rank);
    std::string text = "of rank " + std::to_string(rank);
    unisono::ElasticState state;
    state.buffer("numbers", numbers).object("text", text);
    state.step = rank == 1 ? 5 : 2;
    const int source = unisono::synchronize(state);
    if (rank == 0) std::printf("step %d, numbers %d, text %s; from rank %d\n", static_cast<int>(state.step), numbers[2], text.c_str(), source);

    // With `unisono run -n 2:3` this loop also survives the loss of a rank.
    const auto group = unisono::run_elastic(state, [&](const unisono::ProcessGroup& members) {
      if (state.step == 8) return false;
      const int sum = unisono::all_reduce(members.rank() + 1, unisono::ReduceOp::sum, members);
      numbers[0] += sum;
      ++state.step;
      return true;
    });
    // run_elastic asks this before each step. A loop of the program's own takes the newcomers in like this.
    const bool are_there = unisono::newcomers_waiting(group);
    if (are_there) static_cast<void>(unisono::grow_group(group));
    if (group.rank() == 0) std::printf("newcomers: %s\n", are_there ? "some" : "none");
    if (group.rank() == 0) std::printf("step %d, numbers %d\n", static_cast<int>(state.step), numbers[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
