#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace unisono::tools {

/// The program that a sub-command is to run, with its arguments: what stands after "--", or from the first word that is no option (nor the value
/// of one) on. It is taken off before the options are parsed, so that nothing in it is ever read as an option of ours.
std::vector<std::string>& program_arguments();

/// Takes the program off the command line where the sub-command's name is `run`; returns the rest, ready to be parsed.
std::vector<std::string> take_program_off(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace unisono::tools
