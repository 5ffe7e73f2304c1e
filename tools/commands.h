#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

// Each adds one sub-command with its options and a callback that does the work; the callback ends with `throw CLI::RuntimeError(code)` where the
// exit code is not 0. One file each.
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_info(CLI::App& app);

}  // namespace unisono::tools
