// Processes that find each other by multicast, without a launcher and without ranks; multicast_start.py is the same in Python.
// Start it three times, on any hosts of one network, which share a secret:  UNISONO_TOKEN=secret from-multicast_start [tcp://239.66.41.62:23456]
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  try {
    // Ranks are given out in the order of what the processes announce; group_name keeps several jobs apart at one address.
    const unisono::Context context({.init_method = argc > 1 ? argv[1] : "tcp://239.66.41.62:23456", .world_size = 3, .group_name = "first job"});
    int sum = unisono::all_reduce(unisono::rank());
    std::printf("one of %d, the ranks add up to %d\n", unisono::world_size(), sum);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
