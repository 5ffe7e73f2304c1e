#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "base/secret.h"

namespace unisono::tools {

// Each function adds one sub-command, with its options and a callback that does the work. The callback ends with `throw CLI::RuntimeError(code)`
// where the exit code is not 0. Each has a file of its own.
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_info(CLI::App& app);
void add_doctor(CLI::App& app);
void add_simulate(CLI::App& app);
void add_status(CLI::App& app);
void add_trace(CLI::App& app);

/// What a launcher is told by the process of its host that a conductor of several hosts has started:
/// `unisono __launch REPORT SECRET PASSWORD NAME run …`.
struct Conducted {
  int report = -1;                  ///< the descriptor for its messages; -1: nobody conducts it
  std::string log_name = {};        ///< of the folder in --logs
  base::Secret etcd_password = {};  ///< for the ranks, of which this launcher's own environment says nothing
};
Conducted& conducted();

}  // namespace unisono::tools
