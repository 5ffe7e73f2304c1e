#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "unisono/error.h"

namespace {

constexpr int usage_error = 2;

/// The sub-command that was being parsed, or the whole command.
const CLI::App& concerned(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

/// What is wrong with the word where the command's name stands; empty: nothing.
std::string objection(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::string word = arguments.empty() ? std::string() : arguments.front();
  if (word == "-h" || word == "--help") return {};
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == word) return {};
    if (!names.empty()) names += ", ";
    names += command->get_name();
  }
  if (arguments.empty()) return "a command is missing; there are " + names;
  if (word.starts_with('-')) return "unknown option '" + word + "'; options stand behind a command: " + names;
  return "unknown command '" + word + "'; there are " + names;
}

int complain(const CLI::App& app, const std::string& message) {
  const CLI::App& command = concerned(app);
  const std::string name = &command == &app ? "unisono" : "unisono " + command.get_name();
  std::cerr << name << ": " << message << "\nusage: " << command.get_footer() << "\n       " << name << " --help tells more\n";
  return usage_error;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The command of unisono, with which the processes of a job act as one.", "unisono");
  app.footer("unisono COMMAND …");
  app.require_subcommand(1);
  unisono::tools::add_run(app);
  unisono::tools::add_bench(app);
  unisono::tools::add_info(app);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (const std::string wrong = objection(app, words); !wrong.empty()) return complain(app, wrong);
  try {
    auto arguments = unisono::tools::take_program_off(app, words);
    std::reverse(arguments.begin(), arguments.end());  // as the parser wants them
    app.parse(arguments);
    return 0;
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::CallForHelp&) {
    std::cout << concerned(app).help();
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(app, error.what());
  } catch (const unisono::InvalidArgument& error) {
    return complain(app, error.what());
  } catch (const std::exception& error) {
    std::cerr << "unisono: " << error.what() << "\n";
    return 1;
  }
}
