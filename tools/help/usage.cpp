#include "help/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <utility>

#include "base/printable.h"
#include "common/commands.h"
#include "common/text.h"
#include "help/foreign_options.h"

namespace unisono::tools {
namespace {

constexpr int usage_error = 2;
/// The column in which the descriptions of a help page begin.
constexpr std::size_t description_column = 28;
/// A narrower page would have no place for descriptions.
constexpr std::size_t least_columns = 48;

std::string full_name(const CLI::App& command) { return command.get_parent() == nullptr ? "unisono" : "unisono " + command.get_name(); }

/// Returns "usage: unisono run …", whose further lines begin below the first word of the usage.
std::string usage_of(const CLI::App& command, std::size_t columns) {
  const std::string begin = "usage: ";
  return begin + wrap(command.get_footer(), begin.size(), begin.size(), columns);
}

std::string no_such_value(std::string_view wanted, const std::string& text) { return fmt::format("must be {}, not '{}'", wanted, text); }

std::map<const CLI::Option*, Values>& all_values() {
  static std::map<const CLI::Option*, Values> instance;
  return instance;
}

std::map<const CLI::App*, Details>& all_details() {
  static std::map<const CLI::App*, Details> instance;
  return instance;
}

/// A help page, as wide as the terminal on which it is shown.
class Help final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    std::string page = make_description(app) + make_usage(app, std::move(name)) + make_positionals(app);
    for (const OptionGroup& group : groups_of(*app)) page += make_group(group.name, false, group.options);
    page += make_subcommands(app, CLI::AppFormatMode::Normal) + "\n" + make_footer(app);
    page.erase(page.find_last_not_of('\n') + 1);
    return page + "\n";
  }
  std::string make_usage(const CLI::App* app, std::string) const override { return usage_of(*app, columns()) + "\n"; }
  std::string make_description(const CLI::App* app) const override { return wrap(app->get_description() + ".", 0, 0, columns()) + "\n\n"; }
  std::string make_footer(const CLI::App* app) const override {
    const std::vector<Example>& examples = details_of(app).examples;
    std::string page = examples.empty() ? "" : "Examples:\n";
    for (const Example& example : examples) page += fmt::format("  {}\n      {}\n", example.command, wrap(example.what, 6, 6, columns()));
    return page;
  }
  std::string make_option(const CLI::Option* option, bool) const override {
    return entry(heading_of(option), text_of(option), description_column, columns());
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description(), description_column, columns());
  }

 private:
  static std::size_t columns() { return std::max(screen_size(STDOUT_FILENO).columns, least_columns); }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<Help>(); }

CLI::Validator whole_number(long low, long high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        if (const auto value = parse_number<long>(text); value && *value >= low && *value <= high) return std::string();
        return no_such_value(fmt::format("a whole number from {} to {}", low, high), text);
      },
      "");
}

CLI::Validator number_or_range(long most) {
  return CLI::Validator(
      [most](std::string& text) {
        const auto parse = [&](std::string_view part) {
          const long value = parse_number<long>(part).value_or(0);
          return value >= 1 && value <= most ? value : 0;
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
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; i += 1 + values_after(command, read_option(command, words[i]))) {
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
  std::cerr << name << ": " << wrap(message, 2, name.size() + 2) << "\n"
            << usage_of(command, screen_columns) << "\n       " << name << " --help tells more\n";
  return usage_error;
}

CLI::Option* offer(CLI::Option* option, Values values) {
  if (values.kind == Values::Kind::file) option->type_name("FILE");
  if (values.kind == Values::Kind::folder) option->type_name("FOLDER");
  all_values()[option] = std::move(values);
  return option;
}

CLI::Option* offer(CLI::Option* option, std::vector<std::string> words) {
  return offer(option, Values{.words = [words = std::move(words)] { return words; }});
}

const Values* offered(const CLI::Option* option) {
  const auto found = all_values().find(option);
  return found == all_values().end() ? nullptr : &found->second;
}

void explain(const CLI::App* command, Details details) { all_details()[command] = std::move(details); }

const Details& details_of(const CLI::App* command) { return all_details()[command]; }

std::string heading_of(const CLI::Option* option) {
  if (option->get_positional()) return option->get_name(true);
  std::string names = option->get_name(false, true);
  if (const auto comma = names.find(','); comma != std::string::npos) names.insert(comma + 1, " ");
  const std::string value = option->get_type_name();  // a flag has none
  return value.empty() ? names : names + " " + value;
}

std::string text_of(const CLI::Option* option) {
  const std::string value = option->get_positional() ? std::string() : option->get_default_str();
  return option->get_description() + (value.empty() ? "" : " (" + value + ")");
}

std::vector<OptionGroup> groups_of(const CLI::App& command) {
  std::vector<OptionGroup> groups;
  OptionGroup common{.name = "Options", .options = {}};  // CLI11's name, which the options have that were given none
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) continue;
    const auto found = std::ranges::find(groups, option->get_group(), &OptionGroup::name);
    if (option->get_group() == common.name) common.options.push_back(option);
    else if (found != groups.end()) found->options.push_back(option);
    else groups.push_back({.name = option->get_group(), .options = {option}});
  }
  if (!groups.empty()) common.name = "Others";
  if (!common.options.empty()) groups.push_back(std::move(common));
  return groups;
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

}  // namespace unisono::tools
