#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/child.h"

// What `unisono` and the programs of its sub-commands have in common.
namespace unisono::tools {

// Each function adds one sub-command of `unisono` itself, with its options and a callback that does the work. The callback ends with
// `throw CLI::RuntimeError(code)` if the exit code is not 0. Each has a file of its own.
void add_run(CLI::App& app);
void add_info(CLI::App& app);
void add_status(CLI::App& app);

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

std::string own_version();

/// Looks at the words before they are parsed, and may change them. Returns the exit code if that was all there is to do.
using Serve = std::optional<int> (*)(const CLI::App& app, std::vector<std::string>& words);

/// Is the main of `unisono`, and of a program in libexec/unisono/, which has one sub-command. Completion asks it, and it writes its manual pages.
/// Says what is thrown on standard error, and returns the exit code that belongs to it.
int run_program(std::vector<std::string> words, const std::function<void(CLI::App&)>& add, Serve serve = nullptr);

/// Returns the program that a sub-command is to run, with its arguments: all words after "--", or from the first word on that is neither an option
/// nor an option's value. They are removed before the options are parsed, so that none of them is read as an option of ours.
std::vector<std::string>& program_arguments();

/// Returns how many of the words behind a sub-command's name are its options and their values: up to "--", to the program of `run` or its -m, else to
/// the end. One more than there are where the last one is an option whose value is missing.
std::size_t end_of_options(const CLI::App& command, const std::vector<std::string>& words);

/// Tells whether a program follows the options of this sub-command.
bool takes_program(const CLI::App& command);

/// Returns the sub-command of that name, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

}  // namespace unisono::tools
