#include <CLI/CLI.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/command_line.h"
#include "common/commands.h"
#include "help/completion.h"
#include "help/described.h"
#include "help/manual.h"
#include "base/environment.h"
#include "base/socket.h"
#include "base/version.h"
#include "doctor/worker.h"
#include "hosts/agent.h"
#include "hosts/host_child.h"
#include "unisono/error.h"
#include "help/usage.h"

namespace {

using unisono::tools::command_names;
using unisono::tools::complain;
using unisono::tools::did_you_mean;

/// Returns the sub-command that was being parsed, or the whole command.
const CLI::App& concerned(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();  // NOLINT(bugprone-return-const-ref-from-parameter): main's
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list.append(list.empty() ? "" : ", ").append(word);
  return list;
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  std::string text = fmt::format("unknown command '{}'", word);
  if (const std::string meant = did_you_mean(word, names); !meant.empty()) return text + meant;
  struct stat about {};
  const bool is_file = ::stat(word.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  if (is_file || word.find('/') != std::string::npos) return fmt::format("'{}' is no command; to start it as ranks: unisono run -n 2 {}", word, word);
  return fmt::format("{}; there are {}", text, listed(names));
}

/// Returns what is wrong with the word in the place of the sub-command's name; empty if nothing is.
std::string objection(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> names = command_names(app);
  if (words.empty()) return "a command is missing; there are " + listed(names);
  const std::string& word = words.front();
  if (std::ranges::find(names, word) != names.end()) return {};
  if (!word.starts_with('-')) return unknown_command(app, word);
  if (app.get_option_no_throw(word) != nullptr) return {};
  return fmt::format("unknown option '{}'; options stand behind a command: {}", word, listed(names));
}

std::string own_version() { return "unisono " + unisono::base::to_string(unisono::base::library_version()); }

void add_version(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Say which version this is");
  command->footer("unisono version");
  command->callback([] { std::cout << own_version() << "\n"; });
}

void add_help(CLI::App& app) {
  const auto topic = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "Explain a command and its options");
  command->footer("unisono help [COMMAND]");
  unisono::tools::offer(command->add_option("COMMAND", *topic, "The command to explain; all of them where it is left out"),
                        {.words = [&app] { return command_names(app); }});
  command->callback([&app, topic] {
    const CLI::App* explained = topic->empty() ? &app : unisono::tools::find_command(app, *topic);
    if (explained == nullptr) throw CLI::RuntimeError(complain(app, unknown_command(app, *topic)));
    // explained->help() would show the sub-command that was parsed, which is `help`.
    std::cout << explained->get_formatter()->make_help(explained, {}, CLI::AppFormatMode::Normal);
  });
}

/// Adds the sub-command that is named, and no other, since `run` is to start a job soon; all where none is named, and where others are to be listed
/// or explained.
void add_commands(CLI::App& app, std::string_view named) {
  const std::pair<std::string_view, void (*)(CLI::App&)> commands[] = {
      {"run", unisono::tools::add_run},       {"bench", unisono::tools::add_bench},       {"info", unisono::tools::add_info},
      {"doctor", unisono::tools::add_doctor}, {"simulate", unisono::tools::add_simulate}, {"status", unisono::tools::add_status},
      {"trace", unisono::tools::add_trace},
  };
  const auto* const found = std::ranges::find(commands, named, [](const auto& command) { return command.first; });
  if (found != std::end(commands)) return found->second(app);
  for (const auto& command : commands) command.second(app);
  unisono::tools::add_completion(app);
  add_version(app);
  add_help(app);
}

void explain_all(const CLI::App& app) {
  unisono::tools::explain(
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

/// Does what is no sub-command, since nobody types it: completion asks, the build has the manual written, and another host has its part of a job
/// done. Returns the exit code; nothing: these words ask for none of them.
std::optional<int> was_asked_by_a_program(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  if (words[0] == "__host") return unisono::tools::serve_as_host();
  if (words[0] == "__complete") unisono::tools::complete(app, {words.begin() + 1, words.end()});
  else if (words[0] == "__manual" && words.size() == 3) unisono::tools::write_manual(app, words[1], words[2]);
  else return std::nullopt;
  return 0;
}

/// Takes off what `unisono __host` puts in front of the words. The ranks get none of the descriptors.
void take_conductor_off(std::vector<std::string>& words) {
  constexpr std::ptrdiff_t in_front = 5;  // __launch REPORT SECRET PASSWORD NAME
  if (std::ssize(words) <= in_front || words[0] != "__launch") return;
  auto& [report, log_name, etcd_password] = unisono::tools::conducted();
  report = std::stoi(words[1]);
  log_name = words[4];
  if (const int fd = std::stoi(words[3]); fd >= 0) etcd_password = unisono::tools::take_secret(fd);
  for (const int fd : {report, std::stoi(words[2])})
    if (fd >= 0) unisono::base::set_close_on_exec(fd);
  words.erase(words.begin(), words.begin() + in_front);
}

int run_command(CLI::App& app, std::vector<std::string> words) {
  if (const auto code = was_asked_by_a_program(app, words)) return *code;
  take_conductor_off(words);
  if (!words.empty() && words[0] == "__doctor") return unisono::tools::serve_as_doctor();
  if (const std::string wrong = objection(app, words); !wrong.empty()) return complain(app, wrong);
  std::vector<std::string> arguments = unisono::tools::take_program_off(app, words);
  if (const CLI::App* command = unisono::tools::find_command(app, arguments.front()); command != nullptr && !command->get_allow_extras()) {
    const std::string wrong = unisono::tools::unknown_option(*command, {arguments.begin() + 1, arguments.end()});
    if (!wrong.empty()) return complain(*command, wrong);
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them in reverse order
  app.parse(arguments);
  return 0;
}

}  // namespace

unisono::tools::Conducted& unisono::tools::conducted() {
  static Conducted instance;
  return instance;
}

int main(int argc, char** argv) {
  unisono::base::Environment::forget_secrets();
  CLI::App app("The command of unisono, with which the processes of a job act as one", "unisono");
  app.formatter(std::make_shared<unisono::tools::Help>());
  app.footer("unisono COMMAND …");
  app.set_help_flag("-h,--help", "Print this page");
  app.set_version_flag("-V,--version", own_version(), "Print the version");
  app.require_subcommand(1);
  add_commands(app, argc > 1 ? argv[1] : "");
  explain_all(app);
  for (CLI::App* command : app.get_subcommands({})) command->group("Commands");
  try {
    return run_command(app, {argv + std::min(argc, 1), argv + argc});
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::CallForHelp&) {
    std::cout << concerned(app).help();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(concerned(app), unisono::tools::sentence_of(error));
  } catch (const unisono::InvalidArgument& error) {
    return complain(concerned(app), error.what());
  } catch (const std::exception& error) {
    std::cerr << "unisono: " << error.what() << "\n";
    return 1;
  }
}
