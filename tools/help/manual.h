#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

namespace unisono::tools {

/// Writes the manual pages of the command, of each sub-command with options, and of the environment into the folders man1 and man7 of this one.
/// Throws Error where it cannot.
void write_manual(const CLI::App& app, const std::filesystem::path& folder, const std::string& date);

}  // namespace unisono::tools
