#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

// What a sub-command knows of itself beyond its options. Help pages, completion and manual pages are all made from it.
namespace unisono::tools {

/// What may stand for the value of an option, or for a word that belongs to none.
struct Values {
  enum class Kind { words, file, folder };
  Kind kind = Kind::words;
  std::function<std::vector<std::string>()> words = {};  ///< asked only when they are needed
  std::string separators = {};                           ///< characters of which each may stand between several of the words
};

/// Notes what may stand for the option's value. Other values are as valid as they were. Returns the option.
CLI::Option* offer(CLI::Option* option, Values values);
CLI::Option* offer(CLI::Option* option, std::vector<std::string> words);
/// Returns what was noted; null: nothing was.
const Values* offered(const CLI::Option* option);

struct Example {
  std::string_view command;
  std::string_view what;  ///< what it does
};
struct ExitCode {
  std::string_view code;
  std::string_view meaning;
};

/// What the manual page says beyond the options; help shows the examples. In the paragraphs and meanings, `words` in backquotes are to be typed.
/// All texts are literals.
struct Details {
  std::vector<std::string_view> paragraphs = {};
  std::vector<Example> examples = {};
  std::vector<ExitCode> exit_codes = {};
};

void explain(const CLI::App* command, Details details);
/// Returns empty details for a command that was not explained.
const Details& details_of(const CLI::App* command);

/// Returns the names of an option and what its value is: "-n, --ranks INT". A word without an option has one name.
std::string heading_of(const CLI::Option* option);
/// Returns what the option does, with its default in parentheses.
std::string text_of(const CLI::Option* option);
/// Returns the options of a command in the order of its help page, words without an option first.
std::vector<const CLI::Option*> options_of(const CLI::App& command);

/// Returns the names of the sub-commands.
std::vector<std::string> command_names(const CLI::App& app);

}  // namespace unisono::tools
