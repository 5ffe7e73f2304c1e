#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/registry.h"
#include "common/commands.h"
#include "run/flags.h"
#include "base/log.h"
#include "base/environment.h"
#include "hosts/host_list.h"
#include "hosts/host_child.h"
#include "hosts/options.h"
#include "hosts/start_words.h"
#include "launch/job/supervisor.h"
#include "launch/process/environment_block.h"
#include "launch/process/program.h"
#include "launch/process/python.h"
#include "launch/process/signals.h"
#include "recorder/trace_file.h"
#include "rendezvous/slurm.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr double longest_grace_seconds = 1e9;

/// Reports faults of the environment once, before the ranks start; otherwise each rank would end, or not notice them.
void check_environment(const RunFlags& flags) {
  const base::Environment& environment = flags.job.environment;
  schedule::check_override(environment.get("UNISONO_SCHEDULE").value_or(""));
  static_cast<void>(schedule::parse_network(environment.get("UNISONO_NETWORK").value_or("")));
  const std::string variable = environment.get("UNISONO_BACKEND").value_or("");
  const bool from_variable = flags.job.backend.empty() && !variable.empty();
  const std::string& backend = from_variable ? variable : flags.job.backend;
  if (!flags.own_backend && !backend.empty()) {
    try {
      engines::check_names(backend);
    } catch (const InvalidArgument& error) {
      const std::string where = from_variable ? "UNISONO_BACKEND: " : "";
      const std::string way_out = error.message().starts_with("unknown") ? "; --own-backend if the program registers it" : "";
      throw InvalidArgument(where + error.message(), {.hint = error.info().hint + way_out});
    }
  }
  const bool was_said = conducted().report >= 0;  // by the conductor, whose variables these are
  if (was_said || base::log_level() > base::LogLevel::warning) return;
  for (const std::string& odd : base::odd_variables(environment)) std::cerr << "[unisono] " << odd << "\n";
}

/// Takes over, under srun with one launcher on each node, the number of nodes, the number of this one, and where they meet, unless options say so.
void take_nodes_from_slurm(const CLI::App& command, launcher::JobOptions& job) {
  const base::Environment& environment = job.environment;
  // Only a step of srun counts. In the shell or the batch script of an allocation, no launchers are started on the other nodes.
  const bool is_step = environment.has("SLURM_PROCID") && environment.has("SLURM_STEP_NUM_NODES");
  if (!is_step || !rendezvous::is_slurm_task(environment)) return;
  const bool is_given = command.count("--nnodes") > 0;
  if (!is_given && environment.get_int("SLURM_NTASKS").value_or(1) == 1) return;
  const rendezvous::SlurmTask task = rendezvous::slurm_task(environment);
  const bool one_per_node = task.nodes > 1 && task.world_size == task.nodes;
  if (!one_per_node || (is_given && job.hosts.nnodes != task.nodes)) return;
  job.hosts.nnodes = task.nodes;
  job.hosts.node_rank_is_said = true;
  if (command.count("--node-rank") == 0) job.hosts.node_rank = environment.get_int("SLURM_NODEID").value_or(task.rank);
  if (job.hosts.master_addr.empty()) job.hosts.master_addr = environment.get("MASTER_ADDR").value_or(task.first_host);
  if (command.count("--master-port") == 0) job.hosts.master_port = environment.get_int("MASTER_PORT").value_or(task.port);
}

/// Takes over, in a pod of an indexed Job of Kubernetes, the number of this host and the name of the first, unless options say so.
void take_node_from_kubernetes(const CLI::App& command, launcher::JobOptions& job) {
  if (job.hosts.nnodes == 1 || command.count("--node-rank") > 0) return;
  const auto pod = indexed_pod(job.environment);
  if (!pod) return;
  job.hosts.node_rank = pod->index;
  job.hosts.node_rank_is_said = true;
  if (job.hosts.master_addr.empty()) job.hosts.master_addr = job.environment.get("MASTER_ADDR").value_or(pod->first_pod);
  if (command.count("--master-port") == 0) job.hosts.master_port = job.environment.get_int("MASTER_PORT").value_or(job.hosts.master_port);
  if (job.hosts.master_addr.empty()) {
    throw InvalidArgument("this is a pod of an indexed Job (JOB_COMPLETION_INDEX), and its pods have no names by which they find each other",
                          {.hint = "make a headless service, and name it in the pods' subdomain; or set MASTER_ADDR to the name of pod 0"});
  }
}

bool has_named_hosts(const RunFlags& flags) { return !flags.hosts.hosts.empty() || !flags.hosts.hostfile.empty(); }

/// Returns the hosts of the job: those that were named, else those of the allocation, unless options say which part of a job this host runs. Empty:
/// this host alone.
std::vector<HostEntry> hosts_of_job(RunFlags& flags, const CLI::App& command) {
  if (has_named_hosts(flags)) return named_hosts(flags.hosts);
  const bool is_part = !flags.job.hosts.store.empty() || command.count("--ranks") > 0 || command.count("--nnodes") > 0 || conducted().report >= 0;
  if (is_part) return {};
  std::vector<HostEntry> hosts = allocated_hosts(flags.job.environment);
  if (hosts.size() == 1 && is_this_host(hosts.front().name)) flags.job.ranks = std::exchange(hosts, {}).front().slots;
  return hosts;
}

void make_absolute(std::string& path) {
  if (!path.empty()) path = std::filesystem::absolute(path).string();
}

/// Does for the ranks of this host what agents do on others: their variables, and the folder in which they run.
void prepare_this_host(RunFlags& flags) {
  launcher::JobOptions& job = flags.job;
  if (!flags.hosts.ssh.empty()) {
    throw InvalidArgument("--ssh is about other hosts, and none is named", {.hint = "--hosts or --hostfile names them"});
  }
  launcher::EnvironmentBlock environment(job.environment);
  for (const std::string& variable : exported_variables(flags.hosts, job.environment)) {
    const auto equals = variable.find('=');
    environment.set(variable.substr(0, equals), variable.substr(equals + 1));
  }
  if (!flags.hosts.folder.empty()) {
    make_absolute(job.shown.log_directory);
    make_absolute(job.hosts.token_file);
    make_absolute(flags.hosts.folder);
    if (::chdir(flags.hosts.folder.c_str()) != 0) {
      throw launcher::StartFailed(fmt::format("the folder {} cannot be entered: {}", flags.hosts.folder, launcher::error_text(errno)), 1);
    }
    environment.set("PWD", flags.hosts.folder);
  }
  job.environment = environment.as_environment();
}

/// Hosts of an allocation meet at the name of the first, as tasks of Slurm do, unless a variable or an option says where.
void meet_by_name(const std::vector<HostEntry>& hosts, const CLI::App& command, launcher::JobOptions& job) {
  if (hosts.size() < 2) return;
  if (command.count("--master-port") == 0) job.hosts.master_port = job.environment.get_int("MASTER_PORT").value_or(0);
  if (!job.hosts.master_addr.empty()) return;
  const auto said = job.environment.get("MASTER_ADDR");
  if (said || !job.environment.has("UNISONO_INTERFACE")) job.hosts.master_addr = said.value_or(hosts.front().name);
}

int start_job(RunFlags& flags, const CLI::App& command, const std::vector<HostEntry>& hosts) {
  launcher::JobOptions& job = flags.job;
  if (!hosts.empty() && !job.hosts.store.empty()) {
    throw InvalidArgument(
        "--hosts starts the launchers of all hosts itself, and tells them where they meet; --store is for launchers that something "
        "else starts");
  }
  const bool are_named = has_named_hosts(flags);
  if (!are_named) meet_by_name(hosts, command, job);
  if (!hosts.empty() && job.min_ranks > 0) {
    throw InvalidArgument("-n MIN:MAX is not possible with --hosts, nor in the shell of an allocation",
                          {.hint = "start a launcher on each host, with --nnodes; or give -n a single number"});
  }
  if (!hosts.empty()) {
    const bool has_command = are_named || !flags.hosts.ssh.empty();
    return run_on_hosts(command, flags.hosts, hosts, has_command ? ssh_of(flags.hosts) : allocation_command(job.environment), job);
  }
  job.hosts.node_rank_is_said = command.count("--node-rank") > 0;
  if (job.hosts.store.empty()) {
    take_nodes_from_slurm(command, job);
    take_node_from_kubernetes(command, job);
  }
  job.hosts.any_node_rank = (!job.hosts.store.empty() || job.hosts.come_and_go()) && job.hosts.node_rank == 0 && command.count("--node-rank") == 0;
  job.shown.conductor = conducted().report;
  job.shown.log_name = conducted().log_name;
  return launcher::run_job(job).exit_code;
}

launcher::Binding binding_of(const std::string& word) {
  using launcher::Binding;
  if (word == "core") return Binding::core;
  if (word == "l3") return Binding::l3;
  if (word == "numa") return Binding::numa;
  return word.empty() ? Binding::share : Binding::none;
}

/// Reads "4", or "2:8" with a least number as well.
void take_numbers(const std::string& text, int& least, int& most) {
  const auto colon = text.find(':');
  if (colon != std::string::npos) least = std::stoi(text);
  most = std::stoi(colon == std::string::npos ? text : text.substr(colon + 1));
}

void run(RunFlags& flags, const CLI::App& command) {
  launcher::JobOptions& job = flags.job;
  take_numbers(flags.ranks, job.min_ranks, job.ranks);
  take_numbers(flags.nodes, job.hosts.min_nnodes, job.hosts.nnodes);
  job.hosts.last_call = std::chrono::milliseconds(std::llround(flags.last_call_seconds * 1000));
  job.command = program_arguments();
  if (job.command.empty()) throw CLI::RequiredError("a program to run");
  // Anything longer means "for ever". The limit keeps the clock's arithmetic from overflowing.
  job.grace = std::chrono::milliseconds(std::llround(std::min(flags.grace_seconds, longest_grace_seconds) * 1000));
  job.hosts.silence = std::chrono::milliseconds(std::llround(flags.silence_seconds * 1000));
  job.binding = binding_of(flags.binding);
  for (const auto& text : flags.forwarded) {
    const auto signal = launcher::parse_signal(text);
    if (!signal) throw CLI::ValidationError("--forward-signal", "\"" + text + "\" is no signal");
    if (*signal == SIGKILL || *signal == SIGSTOP)
      throw CLI::ValidationError("--forward-signal", text + " cannot be caught, so it cannot be forwarded");
    job.forwarded_signals.push_back(*signal);
  }
  if (flags.timeout_seconds > 0) {
    launcher::EnvironmentBlock environment(job.environment);
    environment.set("UNISONO_TIMEOUT", flags.timeout_seconds);
    job.environment = environment.as_environment();
  }
  const auto target = launcher::StdinTarget::parse(flags.standard_input);
  if (!target) throw CLI::ValidationError("--stdin", "\"" + flags.standard_input + "\" is neither all nor none nor a rank");
  job.standard_input = *target;
  if (job.trace_folder.empty()) job.trace_folder = job.environment.get(recorder::trace_variable).value_or("");
  make_absolute(job.trace_folder);
  if (flags.no_pty) job.shown.terminals = launcher::Terminals::none;
  int code = 1;
  try {
    const std::vector<HostEntry> hosts = hosts_of_job(flags, command);
    if (hosts.empty()) prepare_this_host(flags);
    check_environment(flags);
    job.command = launcher::with_python(job.command, hosts.empty() ? "" : flags.hosts.folder, job.environment);
    code = start_job(flags, command, hosts);
  } catch (const launcher::StartFailed& error) {
    std::cerr << "unisono run: " << error.message() << "\n";
    code = error.exit_code();
  }
  if (code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_run(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = add_command(app, "run");
  command->footer("unisono run [-n RANKS] [options] [--] PROGRAM [ARGUMENTS…]");
  add_run_options(command, *flags);
  command->callback([flags, command] { run(*flags, *command); });
}

}  // namespace unisono::tools
