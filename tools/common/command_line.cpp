#include "common/command_line.h"

#include <algorithm>
#include <array>
#include <utility>

namespace unisono::tools {
namespace {

/// Names that mpirun and torchrun have for the number of ranks.
constexpr std::array same_as_ranks = {"-np", "--np", "--nprocs", "--nproc-per-node"};

/// Translates an option to our name: torchrun takes '_' for '-', and other launchers have other names for the number of ranks.
std::string in_our_words(const CLI::App& command, const std::string& word) {
  const std::size_t equals = std::min(word.find('='), word.size());
  std::string name = word.substr(0, equals);
  if (command.get_option_no_throw(name) != nullptr && name.size() > 2) return word;
  if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
  const bool means_ranks = std::ranges::find(same_as_ranks, name) != same_as_ranks.end();
  if (means_ranks && command.get_option_no_throw("--ranks") != nullptr) name = "--ranks";
  return command.get_option_no_throw(name) != nullptr ? name + word.substr(equals) : word;
}

}  // namespace

std::size_t values_after(const CLI::App& command, const std::string& word) {
  if (word.find('=') != std::string::npos) return 0;
  const bool is_long = word.starts_with("--");
  if (!is_long && word.size() > 2) return 0;  // such as -n4
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_expected_min() > 0 && option->get_type_size() > 0 ? 1 : 0;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::vector<std::string>& program_arguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

bool takes_program(const CLI::App& command) { return command.get_name() == "run"; }

std::size_t end_of_options(const CLI::App& command, std::vector<std::string>& words) {
  std::size_t i = 0;
  while (i < words.size() && words[i] != "--" && (!takes_program(command) || words[i].starts_with('-'))) {
    if (words[i].starts_with('-')) words[i] = in_our_words(command, words[i]);
    i += 1 + values_after(command, words[i]);
  }
  return i;
}

std::vector<std::string> take_program_off(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  const CLI::App* command = find_command(app, arguments.front());
  if (command == nullptr) return arguments;
  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const std::size_t end = std::min(end_of_options(*command, words), words.size());
  if (takes_program(*command)) {
    const std::size_t begin = end < words.size() && words[end] == "--" ? end + 1 : end;
    program_arguments().assign(words.begin() + static_cast<std::ptrdiff_t>(begin), words.end());
    words.resize(end);
  }
  words.insert(words.begin(), arguments.front());
  return words;
}

}  // namespace unisono::tools
