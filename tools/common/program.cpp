#include "common/program.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>

#include "base/environment.h"
#include "base/version.h"
#include "common/command_line.h"
#include "help/completion.h"
#include "help/manual.h"
#include "help/usage.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

/// Returns the sub-command that was being parsed, or the whole command.
const CLI::App& concerned(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();  // NOLINT(bugprone-return-const-ref-from-parameter): main's
}

}  // namespace

void set_up(CLI::App& app) {
  app.description("The command of unisono, with which the processes of a job act as one");
  app.name("unisono");
  app.formatter(std::make_shared<Help>());
  app.footer("unisono COMMAND …");
  app.set_help_flag("-h,--help", "Print this page");
  app.set_version_flag("-V,--version", own_version(), "Print the version");
  app.require_subcommand(1);
}

std::string own_version() { return "unisono " + base::to_string(base::library_version()); }

int carry_out(CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> arguments = take_program_off(app, words);
  if (const CLI::App* command = find_command(app, arguments.front()); command != nullptr && !command->get_allow_extras()) {
    const std::string wrong = unknown_option(*command, {arguments.begin() + 1, arguments.end()});
    if (!wrong.empty()) return complain(*command, wrong);
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them in reverse order
  app.parse(arguments);
  return 0;
}

int with_messages(const CLI::App& app, const std::function<int()>& work) {
  try {
    return work();
  } catch (const CLI::RuntimeError& end) {
    return end.get_exit_code();
  } catch (const CLI::CallForHelp&) {
    std::cout << concerned(app).help();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(concerned(app), sentence_of(error));
  } catch (const InvalidArgument& error) {
    return complain(concerned(app), error.what());
  } catch (const std::exception& error) {
    std::cerr << "unisono: " << error.what() << "\n";
    return 1;
  }
}

int run_program(const std::vector<std::string>& words, void (*add)(CLI::App&)) {
  base::Environment::forget_secrets();
  CLI::App app;
  set_up(app);
  add(app);
  return with_messages(app, [&] {
    if (words.empty()) return complain(app, "a command is missing");
    if (words[0] == "__complete") complete(app, {words.begin() + 1, words.end()});
    else if (words[0] == "__manual" && words.size() == 3) write_pages_of_commands(app, words[1], words[2]);
    else return carry_out(app, words);
    return 0;
  });
}

}  // namespace unisono::tools
