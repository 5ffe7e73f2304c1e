#include "help/described.h"

#include <fmt/ranges.h>

#include <map>
#include <utility>

namespace unisono::tools {
namespace {

std::map<const CLI::Option*, Values>& all_values() {
  static std::map<const CLI::Option*, Values> instance;
  return instance;
}

std::map<const CLI::App*, Details>& all_details() {
  static std::map<const CLI::App*, Details> instance;
  return instance;
}

}  // namespace

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

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  std::vector<const CLI::Option*> words, options;
  for (const CLI::Option* option : command.get_options()) (option->get_positional() ? words : options).push_back(option);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

}  // namespace unisono::tools
