#include "common/commands.h"

#include <algorithm>
#include <array>
#include <exception>
#include <iostream>
#include <memory>
#include <utility>

#include "base/environment.h"
#include "base/version.h"
#include "common/child.h"
#include "help/foreign_options.h"
#include "help/usage.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using Kind = SubCommand::Kind;

constexpr std::array all = {
    SubCommand{"run", "Start a program as several ranks, on one host or several, and watch over them"},
    SubCommand{"bench", "Measure collectives beside the roofline and other libraries, in the same processes", Kind::program},
    SubCommand{"info", "Show what was found: backends, host, shared memory, limits, active timeouts"},
    SubCommand{"doctor", "Look for problems that keep a job from running, and say what to do", Kind::program},
    SubCommand{"simulate", "Simulate a call on a model of a network, with up to 100,000 ranks", Kind::program},
    SubCommand{"status", "Show what the ranks of a job do, and for which rank the others wait"},
    SubCommand{"trace", "Show what the ranks of a job have done, and for which ranks they have waited", Kind::program},
    SubCommand{"completion", "Print the script with which a shell completes the words of this command"},
    SubCommand{"version", "Print the version", Kind::brief},
    SubCommand{"help", "Explain a command and its options", Kind::brief},
};

/// Returns the sub-command that was being parsed, or the whole command.
const CLI::App& concerned(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();  // NOLINT(bugprone-return-const-ref-from-parameter): main's
}

}  // namespace

std::span<const SubCommand> sub_commands() { return all; }

const SubCommand* find_program_command(std::string_view name) {
  const auto* const found = std::ranges::find_if(all, [&](const SubCommand& each) { return each.name == name && each.kind == Kind::program; });
  return found == all.end() ? nullptr : found;
}

Helper program_of(const SubCommand& command) { return helper("unisono-" + std::string(command.name)); }

CLI::App* add_command(CLI::App& app, std::string_view name) {
  const auto* const found = std::ranges::find(all, name, &SubCommand::name);
  return app.add_subcommand(std::string(name), std::string(found->purpose));
}

std::string own_version() { return "unisono " + base::to_string(base::library_version()); }

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands({});
  const auto found = std::ranges::find(commands, name, &CLI::App::get_name);
  return found == commands.end() ? nullptr : *found;
}

std::vector<std::string>& program_arguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

namespace {

bool is_module(const OptionWord& option) { return option.name == "-m" || option.name == "--module"; }

}  // namespace

bool takes_program(const CLI::App& command) { return command.get_name() == "run"; }

std::size_t end_of_options(const CLI::App& command, const std::vector<std::string>& words) {
  std::size_t i = 0;
  while (i < words.size() && words[i] != "--" && (!takes_program(command) || words[i].starts_with('-'))) {
    const OptionWord option = read_option(command, words[i]);
    if (takes_program(command) && is_module(option)) break;
    i += 1 + values_after(command, option);
  }
  return i;
}

namespace {

/// Gives the application its help pages, and the options that stand in front of a sub-command.
void set_up(CLI::App& app) {
  app.description("The command of unisono, with which the processes of a job act as one");
  app.name("unisono");
  app.formatter(help_formatter());
  app.footer("unisono COMMAND …");
  app.set_help_flag("-h,--help", "Print this page");
  app.set_version_flag("-V,--version", own_version(), "Print the version");
  app.require_subcommand(1);
}

/// Returns what is wrong with a program whose words go on as mpirun starts another one: "./app : -n 2 ./other".
std::string several_programs(const std::vector<std::string>& program) {
  const auto colon = std::ranges::find(program, ":");
  if (colon == program.end() || colon + 1 == program.end() || !(colon + 1)->starts_with('-')) return {};
  return "':' starts another program under mpirun; here all ranks run one program, which may act by RANK; -- in front of the program leaves the ':' "
         "to it";
}

/// Removes the program from the words behind `run`. A module of Python begins with "-m". Returns what is wrong with it.
std::string take_program_off(const CLI::App& command, std::vector<std::string>& words) {
  const std::size_t end = std::min(end_of_options(command, words), words.size());
  const bool is_marked = end < words.size() && words[end] == "--";
  std::vector<std::string>& program = program_arguments();
  program.assign(words.begin() + static_cast<std::ptrdiff_t>(is_marked ? end + 1 : end), words.end());
  words.resize(end);
  if (program.empty() || is_marked) return {};
  if (const OptionWord first = read_option(command, program.front()); is_module(first)) {
    program.front() = "-m";
    if (first.has_value) program.insert(program.begin() + 1, first.value);
  }
  return several_programs(program);
}

/// Parses the words, of which the first names a sub-command of the application, and carries it out.
int carry_out(CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> arguments = words;
  if (const CLI::App* command = find_command(app, words.front()); command != nullptr && !command->get_allow_extras()) {
    arguments.erase(arguments.begin());
    std::string wrong = takes_program(*command) ? take_program_off(*command, arguments) : "";
    OurWords ours = in_our_words(*command, arguments);
    if (!ours.objection.empty()) wrong = ours.objection;
    if (wrong.empty()) wrong = unknown_option(*command, ours.words);
    if (!wrong.empty()) return complain(*command, wrong);
    arguments = std::move(ours.words);
    arguments.insert(arguments.begin(), words.front());
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them in reverse order
  app.parse(arguments);
  return 0;
}

/// Returns what the function returns, or the exit code that belongs to what it throws, which is said on standard error.
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

/// Returns the exit code of what no person types: completion asks, or the build has the manual written. Nothing: the words ask for none of them.
std::optional<int> answer(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  if (words[0] == "__complete") complete(app, {words.begin() + 1, words.end()});
  else if (words[0] == "__manual" && words.size() == 3) write_manual(app, words[1], words[2]);
  else return std::nullopt;
  return 0;
}

}  // namespace

int run_program(std::vector<std::string> words, const std::function<void(CLI::App&)>& add, Serve serve) {
  base::Environment::forget_secrets();
  CLI::App app;
  set_up(app);
  add(app);
  return with_messages(app, [&] {
    if (const auto code = answer(app, words)) return *code;
    if (const auto code = serve != nullptr ? serve(app, words) : std::nullopt) return *code;
    if (words.empty()) return complain(app, "a command is missing");
    return carry_out(app, words);
  });
}

}  // namespace unisono::tools
