#include "common/commands.h"

#include <algorithm>
#include <array>

#include "common/own_programs.h"

namespace unisono::tools {
namespace {

using Kind = SubCommand::Kind;

constexpr std::array all = {
    SubCommand{"run", "Start a program as several ranks, on one host or several, and watch over them"},
    SubCommand{"bench", "Measure collectives beside the roofline and other libraries, in the same processes", Kind::program},
    SubCommand{"info", "Say what was found: backends, host, shared memory, limits, active timeouts"},
    SubCommand{"doctor", "Look for what would keep a job from running, and say what to do", Kind::program},
    SubCommand{"simulate", "Carry out a call on a model of a network, with up to 100,000 ranks", Kind::program},
    SubCommand{"status", "Show what the ranks of a job do, and who is waited for"},
    SubCommand{"trace", "Show what the ranks of a job have done, and for whom they have waited", Kind::program},
    SubCommand{"completion", "Print the script with which a shell completes the words of this command"},
    SubCommand{"version", "Say which version this is", Kind::brief},
    SubCommand{"help", "Explain a command and its options", Kind::brief},
};

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

}  // namespace unisono::tools
