#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/commands.h"
#include "common/text.h"
#include "help/usage.h"
#include "hosts/host_child.h"
#include "launch/process/program.h"

namespace {

using namespace unisono::tools;

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  std::string text = fmt::format("unknown command '{}'", word);
  if (const std::string meant = did_you_mean(word, names); !meant.empty()) return text + meant;
  struct stat about {};
  const bool is_file = ::stat(word.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  if (is_file || word.find('/') != std::string::npos)
    return fmt::format("'{}' is not a command; to start it as ranks: unisono run -n 2 {}", word, word);
  return fmt::format("{}; there are {}", text, fmt::join(names, ", "));
}

/// Returns what is wrong with the word in the place of the sub-command's name; empty if nothing is.
std::string objection(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> names = command_names(app);
  if (words.empty()) return fmt::format("a command is missing; there are {}", fmt::join(names, ", "));
  const std::string& word = words.front();
  if (std::ranges::find(names, word) != names.end()) return {};
  if (!word.starts_with('-')) return unknown_command(app, word);
  if (app.get_option_no_throw(word) != nullptr) return {};
  return fmt::format("unknown option '{}'; options come after a command: {}", word, fmt::join(names, ", "));
}

void add_version(CLI::App& app) {
  CLI::App* command = add_command(app, "version");
  command->footer("unisono version");
  command->callback([] { std::cout << own_version() << "\n"; });
}

void add_help(CLI::App& app) {
  const auto topic = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "help");
  command->footer("unisono help [COMMAND]");
  offer(command->add_option("COMMAND", *topic, "The command to explain (all of them)"), {.words = [&app] { return command_names(app); }});
  command->callback([&app, topic] {
    const CLI::App* explained = topic->empty() ? &app : find_command(app, *topic);
    if (explained == nullptr) throw CLI::RuntimeError(complain(app, unknown_command(app, *topic)));
    // explained->help() would show the sub-command that was parsed, which is `help`.
    std::cout << explained->get_formatter()->make_help(explained, {}, CLI::AppFormatMode::Normal);
  });
}

/// Adds a sub-command whose program carries it out, for lists, and for where the program is missing.
void add_program(CLI::App& app, std::string_view name) {
  CLI::App* command = add_command(app, name);
  command->footer(fmt::format("unisono {} …", name));
  const Helper program = program_of(*find_program_command(name));
  if (program.path.empty()) command->description(command->get_description() + (program.objection.empty() ? " (not in this build)" : " (not usable)"));
  command->allow_extras();
  command->callback([name, objection = program.objection] {
    const std::string missing = fmt::format(
        "its program libexec/unisono/unisono-{0} is missing; `cmake --preset release && cmake --build --preset release --target "
        "unisono-{0}` builds it, and every package of unisono has it",
        name);
    const std::string text = fmt::format("unisono {}: {}", name, objection.empty() ? missing : objection);
    std::cerr << wrap(text, 2) << "\n";
    throw CLI::RuntimeError(2);
  });
}

/// Adds the sub-command that is named, and no other, since `run` is to start a job soon; all where none is named, and where others are to be listed
/// or explained.
void add_commands(CLI::App& app, std::string_view named) {
  const std::pair<std::string_view, void (*)(CLI::App&)> own[] = {
      {"run", add_run}, {"info", add_info}, {"status", add_status}, {"completion", add_completion}, {"version", add_version}, {"help", add_help},
  };
  const bool is_alone = named == "run" || named == "info" || named == "status";
  for (const SubCommand& each : sub_commands()) {
    if (is_alone && each.name != named) continue;
    const auto* const found = std::ranges::find(own, each.name, [](const auto& command) { return command.first; });
    if (found != std::end(own)) found->second(app);
    else add_program(app, each.name);
  }
}

void explain_all(const CLI::App& app) {
  explain(
      &app,
      {.paragraphs = {"unisono is a C++20 library with which the processes of a job act as one: collectives, messages and objects between "
                      "processes, in C++ and Python. This is its command, which starts such jobs, measures them, and says what was found on a host.",
                      "A program needs no launcher: alone it is rank 0 of 1. `unisono run -n 4 -- PROGRAM` makes it four ranks."},
       .examples = {{"unisono run -n 4 -- ./app", "Start four ranks of a program."},
                    {"unisono bench all_reduce -n 2", "Measure a collective."},
                    {"unisono help run", "List the options of a command."}},
       .exit_codes = {{"0", "The command did what it was asked for."},
                      {"1", "It could not, for the reason on standard error."},
                      {"2", "Wrong use: an unknown command, option or value. Nothing was done."}}});
}

/// Another host has its part of a job done; any other word in the place of a sub-command's name is refused.
std::optional<int> serve(const CLI::App& app, std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "__host") return serve_as_host();
  take_conductor_off(words);
  if (!words.empty() && words[0] == "__doctor") words[0] = "doctor";  // whose program cannot be started here, which is said
  const std::string wrong = objection(app, words);
  return wrong.empty() ? std::nullopt : std::optional(complain(app, wrong));
}

/// Becomes the program of the sub-command that the words are for. Returns where they are for none, or its program is missing.
void become_program(const char* own_name, std::vector<std::string> words) {
  std::size_t at = conductor_words(words);
  if (words.size() == 2 && (words[0] == "help" || words[0] == "--help" || words[0] == "-h")) words = {words[1], "--help"};
  if (words.size() > 2 && words[0] == "__complete") at = 1;
  if (at >= words.size()) return;
  const SubCommand* command = find_program_command(words[at] == "__doctor" ? "doctor" : words[at]);
  const std::string program = command == nullptr ? std::string() : program_of(*command).path;
  if (program.empty()) return;
  std::vector<char*> arguments{const_cast<char*>(own_name)};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  std::cerr << "unisono: cannot start " << program << ": " << unisono::launcher::error_text(errno) << "\n";
  ::_exit(unisono::launcher::exit_not_executable);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  become_program(argc > 0 ? argv[0] : "unisono", words);  // in front of what follows: it has to find the environment as it is
  const auto add = [&](CLI::App& app) {
    add_commands(app, words.empty() ? "" : words[0]);
    explain_all(app);
    for (CLI::App* command : app.get_subcommands({})) command->group("Commands");
  };
  return run_program(words, add, serve);
}
