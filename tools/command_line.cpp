#include "command_line.h"

#include <algorithm>

namespace unisono::tools {
namespace {

/// How many words after this one belong to it. An unknown option takes none; parsing will complain about it.
std::size_t values_after(const CLI::App& command, const std::string& word) {
  if (word.find('=') != std::string::npos) return 0;
  const bool is_long = word.starts_with("--");
  if (!is_long && word.size() > 2) return 0;  // -n4
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_expected_min() > 0 && option->get_type_size() > 0 ? 1 : 0;
}

}  // namespace

std::vector<std::string>& program_arguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

std::vector<std::string> take_program_off(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "run") return arguments;
  const CLI::App* command = app.get_subcommand("run");
  std::size_t i = 1;
  while (i < arguments.size() && arguments[i] != "--" && arguments[i].starts_with('-')) i += 1 + values_after(*command, arguments[i]);
  i = std::min(i, arguments.size());
  const std::size_t begin = i < arguments.size() && arguments[i] == "--" ? i + 1 : i;
  program_arguments().assign(arguments.begin() + static_cast<std::ptrdiff_t>(begin), arguments.end());
  arguments.resize(i);
  return arguments;
}

}  // namespace unisono::tools
