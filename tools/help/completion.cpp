// Completion in shells. The scripts in completions/ ask this program what may come next, so they know no option by themselves.

#include "help/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string_view>

#include "common/commands.h"
#include "help/foreign_options.h"

namespace unisono::tools {

// The files of completions/, compiled in.
extern const std::string_view bash_script, zsh_script, fish_script;

namespace {

void say(const std::string& word, const std::string& meaning) { std::cout << word << '\t' << meaning << '\n'; }

/// Says what may stand for a value, of which `typed` is there already. `before` is what stands in front of it in the same word: "--bind=".
void say_values(const CLI::Option* option, const std::string& typed, const std::string& before) {
  const Values* values = option == nullptr ? nullptr : offered(option);
  if (values != nullptr && values->kind != Values::Kind::words) {
    std::cout << (values->kind == Values::Kind::file ? "files\n" : "folders\n");
    return;
  }
  std::cout << "words\n";
  if (values == nullptr) return;
  const auto last = typed.find_last_of(values->separators);
  const std::string list = last == std::string::npos ? std::string() : typed.substr(0, last + 1);
  const bool once = values->separators == ",";  // in a map, "cpu:native,cuda:nccl", a name may come again
  for (const std::string& word : values->words())
    if (!once || ("," + list).find("," + word + ",") == std::string::npos) say(before + list + word, {});
}

void say_options(const CLI::App& command) {
  std::cout << "words\n";
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) say("--" + name, option->get_description());
    for (const std::string& name : option->get_snames()) say("-" + name, option->get_description());
  }
}

/// Returns the option that takes words which stand alone: OP of bench, COMMAND of help. Null: there is none, or it has all that it takes.
const CLI::Option* alone(const CLI::App& command, std::vector<std::string> words) {
  const auto options = command.get_options();
  const auto words_alone = positionals_of(command);
  if (words_alone.empty()) return nullptr;
  int count = 0;
  for (std::size_t i = 0; i < words.size(); i += 1 + values_after(command, read_option(command, words[i])))
    count += words[i].starts_with('-') ? 0 : 1;
  return count < words_alone.front()->get_expected_max() ? words_alone.front() : nullptr;
}

/// Says what may follow these words of a sub-command, of which `typed` is the beginning.
void complete_command(const CLI::App& command, const std::vector<std::string>& words, const std::string& typed) {
  const std::size_t end = end_of_options(command, words);
  if (end > words.size()) return say_values(command.get_option_no_throw(with_our_name(command, words.back())), typed, {});
  const bool has_ended = end < words.size();
  if (takes_program(command) && (has_ended || !typed.starts_with('-'))) {
    const std::size_t program = has_ended && words[end] == "--" ? end + 1 : end;
    std::cout << fmt::format("program {}\n", program + 2);  // after the command's name, and counted from 1
    return;
  }
  if (has_ended || !typed.starts_with('-')) return say_values(alone(command, words), typed, {});
  if (const auto equals = typed.find('='); equals != std::string::npos) {
    const std::string name = with_our_name(command, typed.substr(0, equals));
    return say_values(command.get_option_no_throw(name), typed.substr(equals + 1), typed.substr(0, equals + 1));
  }
  say_options(command);
}

}  // namespace

void complete(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty()) words.emplace_back();
  const std::string typed = words.back();
  words.pop_back();
  if (words.empty()) {
    if (typed.starts_with('-')) return say_options(app);
    std::cout << "words\n";
    for (const CLI::App* command : app.get_subcommands({})) say(command->get_name(), command->get_description());
  } else if (const CLI::App* command = find_command(app, words.front()); command != nullptr) {
    complete_command(*command, {words.begin() + 1, words.end()}, typed);
  }
}

void add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "completion");
  command->footer("unisono completion bash|zsh|fish");
  only(command->add_option("SHELL", *shell, "The shell: bash, zsh or fish")->required(), {"bash", "zsh", "fish"});
  command->callback([shell] { std::cout << (*shell == "bash" ? bash_script : *shell == "zsh" ? zsh_script : fish_script) << std::flush; });
  explain(command,
          {.paragraphs = {"The script asks the command itself what may come next, so it knows the options of the `unisono` that is typed. After the "
                          "options of `unisono run` the shell completes the program and its arguments as if they stood alone.",
                          "An installation below `/usr` or `/usr/local` has the scripts in the folders of the shells, and there is nothing to do. "
                          "For another installation, or a build folder, put the line of your shell into its file of settings."},
           .examples = {{"source <(unisono completion bash)",
                         "In ~/.bashrc. With the package bash-completion, a program after `unisono run` is completed by its own script."},
                        {"source <(unisono completion zsh)", "In ~/.zshrc, after compinit."},
                        {"unisono completion fish | source", "In ~/.config/fish/config.fish."}}});
}

}  // namespace unisono::tools
