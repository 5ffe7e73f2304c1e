#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::tools {

/// Formats the help pages: at most 80 columns wide, beginning with the line in the command's footer.
class Help final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

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

}  // namespace unisono::tools
