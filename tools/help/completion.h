#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace unisono::tools {

/// Adds `unisono completion SHELL`, which prints a shell's completion script.
void add_completion(CLI::App& app);

/// Prints what the last of these words may become: the words of a command line behind `unisono`, up to the cursor, of which the last may be empty.
/// The first line says what may follow: "words" (one a line, with a tab and what it means), "files", "folders", or "program N", where the shell knows
/// better: the program to start is word N, counted from 1. The scripts in completions/ read it.
void complete(const CLI::App& app, std::vector<std::string> words);

}  // namespace unisono::tools
