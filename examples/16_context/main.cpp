// unisono/context.h: a program joins its job and asks about it.
#include <unisono/unisono.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>

#include "../arguments.h"

constexpr const char* about = "How a program joins its job, and what it then knows of it.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  using namespace std::chrono_literals;
  try {
    // Before initialize a program may ask who started it, and whether it has joined.
    const bool launched = unisono::infer_launcher() != unisono::Launcher::none;
    const bool before = unisono::is_initialized();

    unisono::initialize({.backend = "auto", .timeout = 60s});  // every call of this job takes at most a minute
    const auto [rank, world_size] = unisono::dist_info();
    const bool first_of_host = unisono::local_rank() == 0;
    const int hosts_first = unisono::all_reduce(first_of_host ? 1 : 0);

    std::ostringstream config;
    unisono::show_config(config);  // ten lines, on rank 0
    int lines = 0;
    for (const char c : config.str()) lines += c == '\n' ? 1 : 0;

    if (rank == 0) {
      std::printf("launched: %s, initialized before: %s\n", launched ? "yes" : "no", before ? "yes" : "no");
      std::printf("%s, backend %s, %d of %d on this host, %d hosts (%d), %d lines\n", unisono::model_name().c_str(),
                  unisono::backend().value_or("none").c_str(), unisono::nproc_per_node(), world_size, unisono::nnodes(), hosts_first, lines);
    }
    unisono::finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
