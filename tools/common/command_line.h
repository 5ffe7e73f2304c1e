#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace unisono::tools {

/// Returns the program that a sub-command is to run, with its arguments: all words after "--", or from the first word on that is neither an option
/// nor an option's value. They are removed before the options are parsed, so that none of them is read as an option of ours.
std::vector<std::string>& program_arguments();

/// Removes the program from the command line where the sub-command is `run`, and returns the rest for the parser. Options that other launchers have
/// under another name (-np, --nproc-per-node, --master_addr) get their name here.
std::vector<std::string> take_program_off(const CLI::App& app, std::vector<std::string> arguments);

/// Returns how many of the words behind a sub-command's name are its options and their values: up to "--", to the program of `run`, else to the end.
/// One more than there are where the last one is an option whose value is missing. Options get our names.
std::size_t end_of_options(const CLI::App& command, std::vector<std::string>& words);

/// Tells whether a program follows the options of this sub-command.
bool takes_program(const CLI::App& command);

/// Returns the sub-command of that name, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// Returns how many words after this one belong to it. An unknown option has none.
std::size_t values_after(const CLI::App& command, const std::string& word);

}  // namespace unisono::tools
