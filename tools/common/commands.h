#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>

#include "common/own_programs.h"

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

/// A sub-command, as lists of them show it.
struct SubCommand {
  enum class Kind {
    built_in,  ///< a part of `unisono`
    program,   ///< unisono-NAME in libexec/unisono/, which `unisono` starts
    brief      ///< a part of `unisono` that its line in the list explains
  };
  std::string_view name, purpose;
  Kind kind = Kind::built_in;
};

/// Returns all sub-commands, in the order of the help page.
std::span<const SubCommand> sub_commands();
/// Returns the one of that name whose kind is `program`; null: there is none.
const SubCommand* find_program_command(std::string_view name);
/// Returns its program.
Helper program_of(const SubCommand& command);

/// Adds the sub-command of that name, as yet without options.
CLI::App* add_command(CLI::App& app, std::string_view name);

}  // namespace unisono::tools
