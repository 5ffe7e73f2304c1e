#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

namespace unisono::tools {

// The pages are written into the folders man1 and man7 of this one. Both functions throw Error where they cannot.

/// Writes the pages of the whole command, of the environment, and of the sub-commands that this program has.
void write_manual(const CLI::App& app, const std::filesystem::path& folder, const std::string& date);
/// Writes the pages of the sub-commands alone.
void write_pages_of_commands(const CLI::App& app, const std::filesystem::path& folder, const std::string& date);

}  // namespace unisono::tools
