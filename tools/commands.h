#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

// Each function adds one sub-command, with its options and a callback that does the work. The callback ends with `throw CLI::RuntimeError(code)`
// where the exit code is not 0. Each has a file of its own.
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_info(CLI::App& app);

}  // namespace unisono::tools
