#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a sub-command knows of itself beyond its options. Help pages, completion and manual pages are all made from it.
namespace unisono::tools {

/// Returns what formats the help pages: as wide as the terminal, 80 columns where there is none, beginning with the line in the command's footer.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// These validators check an option's value. Their error continues the option's name as a sentence: "must be …, not 'four'".

CLI::Validator whole_number(long low, long high);
/// Accepts a whole number from 1 to `most`, or two of them, the smaller one first: "4", "2:8".
CLI::Validator number_or_range(long most);
CLI::Validator number(double low, double high);
CLI::Validator not_negative();
CLI::Validator one_of(std::vector<std::string> words);
/// Notes the words for completion and help, and refuses all others. Returns the option.
CLI::Option* only(CLI::Option* option, std::vector<std::string> words);

/// Returns "; did you mean 'run'?", or nothing where no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// Returns what is wrong with the options among these words of the sub-command; empty if nothing is. A word after an option that takes a value is no
/// option.
std::string unknown_option(const CLI::App& command, const std::vector<std::string>& words);

/// Returns the message of a failed parse as one sentence.
std::string sentence_of(const CLI::ParseError& error);

/// Prints the message and the usage to standard error, and returns the exit code of wrong use.
int complain(const CLI::App& command, const std::string& message);

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

/// Options that stand together on a help page, under a name.
struct OptionGroup {
  std::string name;
  std::vector<const CLI::Option*> options;
};
/// Returns the options of a command in the order of its help page, without the words that belong to none; at last those that were given no group.
std::vector<OptionGroup> groups_of(const CLI::App& command);
/// Returns what takes words without an option.
std::vector<const CLI::Option*> positionals_of(const CLI::App& command);

/// Returns the names of the sub-commands.
std::vector<std::string> command_names(const CLI::App& app);

/// Writes the pages of the sub-commands that this program has into the folders man1 and man7 of this one; `unisono` itself, those of the whole
/// command and of the environment as well. Throws Error if it cannot.
void write_manual(const CLI::App& app, const std::filesystem::path& folder, const std::string& date);

/// Adds `unisono completion SHELL`, which prints a shell's completion script.
void add_completion(CLI::App& app);

/// Prints what the last of these words may become: the words of a command line behind `unisono`, up to the cursor, of which the last may be empty.
/// The first line says what may follow: "words" (one a line, with a tab and what it means), "files", "folders", or "program N", where the shell knows
/// better: the program to start is word N, counted from 1. The scripts in completions/ read it.
void complete(const CLI::App& app, std::vector<std::string> words);

}  // namespace unisono::tools
