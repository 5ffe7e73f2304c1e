#include "hosts/options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/environment.h"
#include "help/usage.h"
#include "hosts/host_start.h"
#include "launch/process/host.h"
#include "store/authentication.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

/// Variables of this process's own, and secrets, which go another way.
constexpr std::array not_forwarded = {"UNISONO_TOKEN",       "UNISONO_TOKEN_FILE", "UNISONO_LAUNCHER_FD", "UNISONO_JOB_ID",
                                      "UNISONO_OUTPUT_PIPE", "UNISONO_ATTEMPT",    "UNISONO_NEWCOMER",    "UNISONO_TERMINAL"};

[[noreturn]] void refuse_flag(const std::string& what, const std::string& hint = {}) { throw InvalidArgument(what, {.hint = hint}); }

/// Options that say where the ranks run. The conductor says that to each launcher itself.
constexpr std::array of_the_conductor = {"--hosts",  "--hostfile",  "--ssh",         "--wdir",        "--export",     "--ranks",
                                         "--nnodes", "--node-rank", "--master-addr", "--master-port", "--token-file", "--help"};

bool is_launchers(const CLI::Option* option) {
  return option->count() > 0 && std::ranges::none_of(of_the_conductor, [&](const char* name) { return option->check_name(name); });
}

/// Returns the words of a launcher: the options that the user has given, and the program.
std::vector<std::string> launcher_words(const CLI::App& command, const std::vector<std::string>& program) {
  std::vector<std::string> words{"run"};
  for (const CLI::Option* option : command.get_options()) {
    if (!is_launchers(option)) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (option->get_expected_min() == 0) {
      words.push_back(name);
      continue;
    }
    for (const std::string& value : option->results()) words.push_back(name + "=" + value);
  }
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

/// Returns the current folder under the name by which the user has entered it, which other hosts are more likely to know.
std::string current_folder(const base::Environment& environment) {
  const std::string said = environment.get("PWD").value_or("");
  struct stat there {};
  struct stat here {};
  const bool is_same = said.starts_with('/') && ::stat(said.c_str(), &there) == 0 && ::stat(".", &here) == 0 && there.st_dev == here.st_dev &&
                       there.st_ino == here.st_ino;
  return is_same ? said : std::filesystem::current_path().string();
}

void check_options(const CLI::App& command, const launcher::JobOptions& job, int ranks) {
  for (const char* name : {"--nnodes", "--node-rank"})
    if (command.count(name) > 0)
      refuse_flag(fmt::format("{} is for launchers that are started by hand, one on each host; here the hosts are named", name));
  if (ranks > launcher::most_ranks) refuse_flag(fmt::format("a job has at most {} ranks, not {}", launcher::most_ranks, ranks));
  const launcher::StdinTarget& target = job.standard_input;
  if (target.kind == launcher::StdinTarget::Kind::one && target.rank >= ranks)
    refuse_flag(fmt::format("standard input cannot go to rank {}: the last rank is {}", target.rank, ranks - 1));
}

}  // namespace

void add_host_options(CLI::App* command, HostFlags& flags) {
  command->add_option("--hosts", flags.hosts, "Hosts with the number of ranks on each: a:4,b:4, or node[1-8]:2")->type_name("HOST:N,…");
  offer(command->add_option("--hostfile", flags.hostfile, "A file that names the hosts, one a line: \"host slots=4\" or \"host:4\""),
        {.kind = Values::Kind::file});
  command
      ->add_option("--ssh", flags.ssh,
                   "The command that reaches the hosts (ssh): \"ssh -p 2222\", or with a place for the name, \"kubectl exec -i {host} --\"")
      ->type_name("COMMAND");
}

void add_place_options(CLI::App* command, HostFlags& flags) {
  command
      ->add_option("-x,--export", flags.exported,
                   "Set a variable of the ranks, or pass one on to named hosts: NAME=VALUE, NAME, or NAME* for all that begin with NAME")
      ->allow_extra_args(false)
      ->type_name("NAME[=VALUE]");
  offer(command->add_option("--wdir", flags.folder, "The folder in which the ranks run (the current one, which every named host must have)"),
        {.kind = Values::Kind::folder});
}

std::vector<HostEntry> named_hosts(const HostFlags& flags) {
  if (!flags.hosts.empty() && !flags.hostfile.empty()) refuse_flag("the hosts are named twice, by --hosts and by --hostfile");
  if (!flags.hosts.empty()) return hosts_of_list(flags.hosts);
  if (!flags.hostfile.empty()) return hosts_of_file(flags.hostfile);
  return {};
}

std::string ssh_of(const HostFlags& flags) { return flags.ssh.empty() ? "ssh" : flags.ssh; }

std::vector<std::string> exported_variables(const HostFlags& flags, const base::Environment& environment) {
  std::vector<std::string> variables;
  for (const std::string& word : flags.exported) {
    const std::string name = word.substr(0, word.find('='));
    if (name.empty()) refuse_flag(fmt::format("-x {}: the name of the variable is missing", word));
    if (name.find(',') != std::string::npos)
      refuse_flag(fmt::format("-x {}: this is a list of variables", word), "-x takes one variable, and may be given several times");
    if (name == "UNISONO_TOKEN")
      refuse_flag("-x UNISONO_TOKEN: the secret reaches the hosts without this option, and it never stands in an environment");
    if (word.find('=') != std::string::npos) {
      variables.push_back(word);
    } else if (name.ends_with('*')) {
      for (const auto& [each, value] : environment.all())
        if (each.starts_with(name.substr(0, name.size() - 1)) && !each.starts_with("UNISONO_")) variables.push_back(each + "=" + value);
    } else if (const auto value = environment.get(name)) {
      variables.push_back(name + "=" + *value);
    } else {
      refuse_flag(fmt::format("-x {}: this variable is not set here", name), "-x NAME=VALUE sets it");
    }
  }
  return variables;
}

std::vector<std::string> forwarded_variables(const HostFlags& flags, const base::Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.all())
    if (name.starts_with("UNISONO_") && std::ranges::find(not_forwarded, name) == not_forwarded.end()) variables.push_back(name + "=" + value);
  const std::vector<std::string> exported = exported_variables(flags, environment);
  variables.insert(variables.end(), exported.begin(), exported.end());
  return variables;
}

int run_on_hosts(const CLI::App& command, const HostFlags& flags, std::vector<HostEntry> hosts, const std::string& start_command,
                 const launcher::JobOptions& job) {
  if (command.count("--ranks") > 0) limit_ranks(hosts, job.ranks);
  check_options(command, job, static_cast<int>(std::min<long>(slots_of(hosts), launcher::most_ranks + 1)));
  const auto secret = job.hosts.token_file.empty() ? store::said_token(job.environment) : store::token_of_file(job.hosts.token_file);
  ConductedJob conducted{.hosts = std::move(hosts),
                         .start_command = start_command,
                         .folder = flags.folder.empty() ? current_folder(job.environment) : flags.folder,
                         .variables = forwarded_variables(flags, job.environment),
                         .master_addr = job.hosts.master_addr,
                         .master_port = job.hosts.master_port,
                         .secret = secret.value_or(base::Secret()),
                         .words = [&](const HostEntry&) { return launcher_words(command, job.command); },
                         .options = &job};
  launcher::open_standard_descriptors();
  return conduct(conducted);
}

}  // namespace unisono::tools
