#include "help/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "base/printable.h"
#include "common/command_line.h"
#include "common/text.h"
#include "help/described.h"

namespace unisono::tools {
namespace {

constexpr int usage_error = 2;
/// The column in which the descriptions of a help page begin.
constexpr std::size_t description_column = 28;

std::string full_name(const CLI::App& command) { return command.get_parent() == nullptr ? "unisono" : "unisono " + command.get_name(); }

/// Returns "usage: unisono run …", whose further lines begin below the first word of the usage.
std::string usage_of(const CLI::App& command) {
  const std::string begin = "usage: ";
  return begin + wrap(command.get_footer(), begin.size(), begin.size());
}

std::string no_such_value(std::string_view wanted, const std::string& text) { return fmt::format("must be {}, not '{}'", wanted, text); }

}  // namespace

std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string page = CLI::Formatter::make_help(app, std::move(name), mode);
  page.erase(page.find_last_not_of('\n') + 1);
  return page + "\n";
}

std::string Help::make_usage(const CLI::App* app, std::string) const { return usage_of(*app) + "\n"; }
std::string Help::make_description(const CLI::App* app) const { return wrap(app->get_description() + ".", 0) + "\n\n"; }
std::string Help::make_footer(const CLI::App* app) const {
  const std::vector<Example>& examples = details_of(app).examples;
  std::string page = examples.empty() ? "" : "Examples:\n";
  for (const Example& example : examples) page += fmt::format("  {}\n      {}\n", example.command, wrap(example.what, 6, 6));
  return page;
}

std::string Help::make_option(const CLI::Option* option, bool) const { return entry(heading_of(option), text_of(option), description_column); }

std::string Help::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description(), description_column);
}

CLI::Validator whole_number(long low, long high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        long value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return std::string();
        return no_such_value(fmt::format("a whole number from {} to {}", low, high), text);
      },
      "");
}

CLI::Validator number_or_range(long most) {
  return CLI::Validator(
      [most](std::string& text) {
        const auto parse = [&](std::string_view part) {
          long value = 0;
          const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
          return error == std::errc() && end == part.data() + part.size() && value >= 1 && value <= most ? value : 0;
        };
        const std::string_view whole = text;
        const auto colon = whole.find(':');
        if (colon == std::string_view::npos)
          return parse(whole) > 0 ? std::string() : no_such_value(fmt::format("a whole number from 1 to {}", most), text);
        const long low = parse(whole.substr(0, colon)), high = parse(whole.substr(colon + 1));
        if (low > 0 && low <= high) return std::string();
        return no_such_value(fmt::format("two whole numbers from 1 to {} as MIN:MAX, the smaller one first", most), text);
      },
      "");
}

CLI::Validator number(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == '\0' && value >= low && value <= high) return std::string();
        return no_such_value(std::isfinite(high) ? fmt::format("a number from {} to {:.0f}", low, high) : fmt::format("a number from {} on", low),
                             text);
      },
      "");
}

CLI::Validator not_negative() { return number(0, std::numeric_limits<double>::infinity()); }

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string& text) {
        std::string list;
        for (std::size_t i = 0; i < words.size(); ++i) {
          if (words[i] == text) return std::string();
          list.append(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ").append(words[i]);
        }
        return no_such_value(list, text);
      },
      "");
}

CLI::Option* only(CLI::Option* option, std::vector<std::string> words) {
  if (!option->get_positional()) option->type_name(fmt::format("{}", fmt::join(words, "|")));
  return offer(option->check(one_of(words)), words);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string_view meant = base::nearest(word, std::vector<std::string_view>(candidates.begin(), candidates.end()));
  return meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant);
}

std::string unknown_option(const CLI::App& command, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; i += 1 + values_after(command, words[i])) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') continue;
    const std::string name = word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
    if (command.get_option_no_throw(name) != nullptr) continue;
    const std::string typed = word.substr(0, word.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& known : option->get_lnames()) names.push_back(known);
    }
    // The dashes are left out, because they would make all short words look alike.
    const std::string_view letters = std::string_view(typed).substr(std::min(typed.find_first_not_of('-'), typed.size()));
    const std::string_view meant = base::nearest(letters, std::vector<std::string_view>(names.begin(), names.end()));
    return fmt::format("unknown option '{}'{}", typed, meant.empty() ? "" : fmt::format("; did you mean '--{}'?", meant));
  }
  return {};
}

std::string sentence_of(const CLI::ParseError& error) {
  std::string text = error.what();
  // The parser writes "--ranks: must be …".
  if (const auto colon = text.find(": must be"); colon != std::string::npos) text.erase(colon, 1);
  return text;
}

int complain(const CLI::App& command, const std::string& message) {
  const std::string name = full_name(command);
  std::cerr << name << ": " << wrap(message, 2, name.size() + 2) << "\n" << usage_of(command) << "\n       " << name << " --help tells more\n";
  return usage_error;
}

}  // namespace unisono::tools
