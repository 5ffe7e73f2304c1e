#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

// What `unisono` and the programs of its sub-commands have in common.
namespace unisono::tools {

/// Gives the application its help pages, and the options that stand in front of a sub-command.
void set_up(CLI::App& app);

std::string own_version();

/// Parses the words, of which the first names a sub-command of the application, and carries it out. Throws what CLI11 throws, and what the
/// sub-command throws.
int carry_out(CLI::App& app, const std::vector<std::string>& words);

/// Returns what the function returns, or the exit code that belongs to what it throws, which is said on standard error.
int with_messages(const CLI::App& app, const std::function<int()>& work);

/// Is the main of a program in libexec/unisono/, which has one sub-command. It is asked for completions and its manual page as `unisono` is.
int run_program(const std::vector<std::string>& words, void (*add)(CLI::App&));

}  // namespace unisono::tools
