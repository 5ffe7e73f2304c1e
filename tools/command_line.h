#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace unisono::tools {

/// The program that a sub-command is to run, with its arguments: what stands after "--", or from the first word that is no option (nor the value
/// of one) on. It is taken off before the options are parsed, so that nothing in it is ever read as an option of ours.
std::vector<std::string>& program_arguments();

/// Takes the program off the command line where the sub-command's name is `run`; returns the rest, ready to be parsed. Options that other launchers
/// have under another name (-np, --nproc-per-node, --master_addr) get the name that they have here.
std::vector<std::string> take_program_off(const CLI::App& app, std::vector<std::string> arguments);

/// The sub-command of that name; null: there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

/// How many words after this one belong to it. An option that nobody knows takes none.
std::size_t values_after(const CLI::App& command, const std::string& word);

}  // namespace unisono::tools
