#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engines/registry.h"
#include "command_line.h"
#include "commands.h"
#include "base/log.h"
#include "base/variables.h"
#include "launch/host.h"
#include "launch/signals.h"
#include "launch/supervisor.h"
#include "rendezvous/slurm.h"
#include "unisono/error.h"
#include "usage.h"

namespace unisono::tools {
namespace {

constexpr long most_restarts = 1'000'000'000;
constexpr double longest_grace_seconds = 1e9;

struct RunFlags {
  launcher::JobOptions job;
  double grace_seconds = 15;
  double silence_seconds = 30;
  bool own_backend = false;
  std::string binding = "none";
  std::vector<std::string> forwarded;
  std::string standard_input = "0";
  bool no_pty = false;
};

/// Reports faults of the environment once, before the ranks start; otherwise each rank would end, or not notice them.
void check_environment(const RunFlags& flags) {
  const base::Environment& environment = flags.job.environment;
  const std::string variable = environment.get("UNISONO_BACKEND").value_or("");
  const bool from_variable = flags.job.backend.empty() && !variable.empty();
  const std::string& backend = from_variable ? variable : flags.job.backend;
  if (!flags.own_backend && !backend.empty()) {
    try {
      engines::check_names(backend);
    } catch (const InvalidArgument& error) {
      const std::string where = from_variable ? "UNISONO_BACKEND: " : "";
      const std::string way_out = error.message().starts_with("unknown") ? "; --own-backend where the program registers it" : "";
      throw InvalidArgument(where + error.message(), {.hint = error.info().hint + way_out});
    }
  }
  if (base::log_level() > base::LogLevel::warning) return;
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
  if (!one_per_node || (is_given && job.nnodes != task.nodes)) return;
  job.nnodes = task.nodes;
  if (command.count("--node-rank") == 0) job.node_rank = environment.get_int("SLURM_NODEID").value_or(task.rank);
  if (job.master_addr.empty()) job.master_addr = environment.get("MASTER_ADDR").value_or(task.first_host);
  if (command.count("--master-port") == 0) job.master_port = environment.get_int("MASTER_PORT").value_or(task.port);
}

void run(RunFlags& flags, const CLI::App& command) {
  launcher::JobOptions& job = flags.job;
  take_nodes_from_slurm(command, job);
  job.command = program_arguments();
  if (job.command.empty()) throw CLI::RequiredError("a program to run");
  // Anything longer means "for ever". The limit keeps the clock's arithmetic from overflowing.
  job.grace = std::chrono::milliseconds(std::llround(std::min(flags.grace_seconds, longest_grace_seconds) * 1000));
  job.silence = std::chrono::milliseconds(std::llround(flags.silence_seconds * 1000));
  job.binding = flags.binding == "core" ? launcher::Binding::core : launcher::Binding::none;
  for (const auto& text : flags.forwarded) {
    const auto signal = launcher::parse_signal(text);
    if (!signal) throw CLI::ValidationError("--forward-signal", "\"" + text + "\" is no signal");
    if (*signal == SIGKILL || *signal == SIGSTOP)
      throw CLI::ValidationError("--forward-signal", text + " cannot be caught, so it cannot be forwarded");
    job.forwarded_signals.push_back(*signal);
  }
  check_environment(flags);
  const auto target = launcher::StdinTarget::parse(flags.standard_input);
  if (!target) throw CLI::ValidationError("--stdin", "\"" + flags.standard_input + "\" is neither all nor none nor a rank");
  job.standard_input = *target;
  if (flags.no_pty) job.terminals = launcher::Terminals::none;
  int code = 1;
  try {
    code = launcher::run_job(job).exit_code;
  } catch (const launcher::StartFailed& error) {
    std::cerr << "unisono run: " << error.message() << "\n";
    code = error.exit_code();
  }
  if (code != 0) throw CLI::RuntimeError(code);
}

}  // namespace

void add_run(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  launcher::JobOptions& job = flags->job;
  CLI::App* command = app.add_subcommand("run", "Start a program as several ranks, on one host or several, and watch over them");
  command->footer("unisono run [-n RANKS] [options] [--] PROGRAM [ARGUMENTS…]");
  command->add_option("-n,--ranks", job.ranks, "How many ranks to start (1); -np, --nprocs and --nproc-per-node are understood, too")
      ->check(whole_number(1, launcher::most_ranks));
  command->add_option("--backend", job.backend, "What the ranks run on, as UNISONO_BACKEND: native, mpi, gloo, tcp, cpu:native,cuda:nccl, …");
  command->add_flag("--own-backend", flags->own_backend, "The program registers its backend itself: do not refuse a name that is unknown here");
  command->add_option("--max-restarts", job.max_restarts, "After a failure, start all ranks again, at most so many times (0)")
      ->check(whole_number(0, most_restarts));
  command->add_option("--logs", job.log_directory, "Keep a file for each rank, in a folder for each job in this one");
  command->add_option("--stdin", flags->standard_input, "Who gets standard input: a rank, all or none (0)");
  command->add_flag("--no-pty", flags->no_pty, "Ranks write to pipes, also where the launcher writes to a terminal");
  command->add_option("--grace", flags->grace_seconds, "Seconds the ranks have to end, before SIGTERM and before SIGKILL (15)")
      ->check(not_negative());
  command->add_option("--bind", flags->binding, "Keep rank i on the i-th core: core, or none (none)")->check(one_of({"core", "none"}));
  command->add_option("--forward-signal", flags->forwarded, "Hand this signal on to the ranks, beside USR1 and USR2")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--master-port", job.master_port,
                   "Of several hosts: the port at --master-addr where their launchers and ranks meet (29500). Of one: MASTER_PORT for "
                   "programs that want a certain one (any free one)")
      ->check(whole_number(0, launcher::highest_port));
  command->add_option("--nnodes", job.nnodes, "How many hosts take part, each with a launcher of its own and its own number of ranks (1)")
      ->check(whole_number(1, launcher::most_ranks));
  command->add_option("--node-rank", job.node_rank, "Which of them this one is (0)")->check(whole_number(0, launcher::most_ranks - 1));
  command->add_option("--master-addr", job.master_addr, "Address of host 0, where several hosts meet: the only one that is listened on");
  command->add_option(
      "--token-file", job.token_file,
      "Of several hosts: the file with the job's secret, which only you can read (UNISONO_TOKEN_FILE; or UNISONO_TOKEN is the secret)");
  command->add_option("--silence", flags->silence_seconds, "Of several hosts: seconds without a word after which another one is lost (30)")
      ->check(number(0.1, 1e6));
  command->callback([flags, command] { run(*flags, *command); });
}

}  // namespace unisono::tools
