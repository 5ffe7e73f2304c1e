// unisono/error.h: every error has a type, and names the rank, the operation and a remedy.
#include <unisono/unisono.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "What is thrown when something goes wrong, and what it says.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  using namespace std::chrono_literals;
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    // A call that is wrong by itself throws at once; nothing has been sent.
    std::vector<float> x(3), y(4);
    try {
      unisono::all_reduce(x, y);
    } catch (const unisono::InvalidArgument& error) {
      if (rank == 0) std::printf("%s: %s\n", error.operation().c_str(), error.message().c_str());
    }

    // If ranks do not agree, each of them gets the error, and the group goes on.
    std::vector<float> uneven(rank == 0 ? 1000 : 2000);
    try {
      unisono::all_reduce(uneven);
    } catch (const unisono::Mismatch& error) {
      if (rank == 0) std::printf("mismatch in group %s, call %d\n", error.group().c_str(), static_cast<int>(error.sequence()));
    }
    const int ranks = unisono::all_reduce(1);
    if (rank == 0) std::printf("still %s\n", ranks == unisono::world_size() ? "usable" : "broken");

    // A group that has lost a member is over, and shrink_group makes one of the survivors. Of a sound group it makes none.
    try {
      static_cast<void>(unisono::shrink_group(unisono::world()));
    } catch (const unisono::InvalidArgument& error) {
      if (rank == 0) std::printf("%s: %s\n", error.operation().c_str(), error.message().c_str());
    }

    // A Timeout names the ranks that did not come. The group is over after it.
    if (rank != 0 || unisono::world_size() == 1) return 0;
    try {
      unisono::monitored_barrier(10s);
    } catch (const unisono::Timeout& error) {
      std::printf("missing: %zu ranks\n", error.missing().size());
    } catch (const unisono::PeerFailed& error) {
      std::printf("a peer has left\n");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
