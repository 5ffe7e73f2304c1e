// Replaces bench.cpp in a build without the benchmarks, so that the command explains what is missing.

#include <CLI/CLI.hpp>
#include <iostream>

#include "common/commands.h"

namespace unisono::tools {

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure collectives (not in this build)");
  command->allow_extras();
  command->callback([] {
    std::cerr << "unisono bench: this unisono was built without the benchmarks (UNISONO_BUILD_BENCH=OFF)" << std::endl;
    throw CLI::RuntimeError(2);
  });
}

}  // namespace unisono::tools
