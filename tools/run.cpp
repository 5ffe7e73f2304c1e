#include <CLI/CLI.hpp>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engines/registry.h"
#include "common/commands.h"
#include "help/usage.h"
#include "base/log.h"
#include "base/environment.h"
#include "hosts/host_list.h"
#include "hosts/host_child.h"
#include "hosts/options.h"
#include "hosts/start_words.h"
#include "launch/job/supervisor.h"
#include "launch/process/environment_block.h"
#include "launch/process/host.h"
#include "launch/process/signals.h"
#include "recorder/trace_file.h"
#include "rendezvous/slurm.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

constexpr long most_restarts = 1'000'000'000;
constexpr double longest_grace_seconds = 1e9;
constexpr long longest_timeout_seconds = 1'000'000'000;

struct RunFlags {
  launcher::JobOptions job;
  HostFlags hosts;
  std::string ranks = "1", nodes = "1";
  double last_call_seconds = 30;
  double grace_seconds = 15;
  double silence_seconds = 30;
  int timeout_seconds = 0;  ///< 0: as the environment says
  bool own_backend = false;
  std::string binding;  ///< empty: shares
  std::vector<std::string> forwarded;
  std::string standard_input = "0";
  bool no_pty = false;
};

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
      const std::string way_out = error.message().starts_with("unknown") ? "; --own-backend where the program registers it" : "";
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

/// Returns the hosts of the job: those that were named, else those of the allocation, unless options say which part of a job this host runs.
std::vector<HostEntry> hosts_of_job(const RunFlags& flags, const CLI::App& command) {
  std::vector<HostEntry> hosts = named_hosts(flags.hosts);
  const bool is_part = !flags.job.hosts.store.empty() || command.count("--ranks") > 0 || command.count("--nnodes") > 0 || conducted().report >= 0;
  if (hosts.empty() && !is_part) hosts = allocated_hosts(flags.job.environment);
  return hosts;
}

/// Hosts of an allocation meet at the name of the first, as tasks of Slurm do, unless a variable or an option says where.
void meet_by_name(const std::vector<HostEntry>& hosts, const CLI::App& command, launcher::JobOptions& job) {
  if (hosts.size() < 2) return;
  if (command.count("--master-port") == 0) job.hosts.master_port = job.environment.get_int("MASTER_PORT").value_or(0);
  if (!job.hosts.master_addr.empty()) return;
  const auto said = job.environment.get("MASTER_ADDR");
  if (said || !job.environment.has("UNISONO_INTERFACE")) job.hosts.master_addr = said.value_or(hosts.front().name);
}

int start_job(RunFlags& flags, const CLI::App& command) {
  launcher::JobOptions& job = flags.job;
  std::vector<HostEntry> hosts = hosts_of_job(flags, command);
  if (!hosts.empty() && !job.hosts.store.empty()) {
    throw InvalidArgument(
        "--hosts starts the launchers of all hosts itself, and tells them where they meet; --store is for launchers that something "
        "else starts");
  }
  const bool are_named = !flags.hosts.hosts.empty() || !flags.hosts.hostfile.empty();
  if (!are_named && hosts.size() == 1 && is_this_host(hosts.front().name)) job.ranks = std::exchange(hosts, {}).front().slots;
  if (!are_named) meet_by_name(hosts, command, job);
  if (!hosts.empty() && job.min_ranks > 0) {
    throw InvalidArgument("-n MIN:MAX is not possible with --hosts, nor in the shell of an allocation",
                          {.hint = "start a launcher on each host, with --nnodes; or give -n a single number"});
  }
  if (!hosts.empty()) {
    const bool has_command = are_named || !flags.hosts.ssh.empty();
    return run_on_hosts(command, flags.hosts, hosts, has_command ? ssh_of(flags.hosts) : allocation_command(job.environment), job);
  }
  if (!flags.hosts.exported.empty() || !flags.hosts.folder.empty() || !flags.hosts.ssh.empty()) {
    throw InvalidArgument("-x, --wdir and --ssh are about other hosts, and none is named", {.hint = "--hosts or --hostfile names them"});
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
  using launcher::Binding;
  job.binding = flags.binding.empty() ? Binding::share : flags.binding == "core" ? Binding::core : Binding::none;
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
  check_environment(flags);
  const auto target = launcher::StdinTarget::parse(flags.standard_input);
  if (!target) throw CLI::ValidationError("--stdin", "\"" + flags.standard_input + "\" is neither all nor none nor a rank");
  job.standard_input = *target;
  if (job.trace_folder.empty()) job.trace_folder = job.environment.get(recorder::trace_variable).value_or("");
  if (!job.trace_folder.empty()) job.trace_folder = std::filesystem::absolute(job.trace_folder).string();
  if (flags.no_pty) job.shown.terminals = launcher::Terminals::none;
  int code = 1;
  try {
    code = start_job(flags, command);
  } catch (const launcher::StartFailed& error) {
    std::cerr << "unisono run: " << error.message() << "\n";
    code = error.exit_code();
  }
  if (code != 0) throw CLI::RuntimeError(code);
}

std::vector<std::string> forwardable_signals() {
  std::vector<std::string> names;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = ::sigabbrev_np(signal);
    if (name != nullptr && signal != SIGKILL && signal != SIGSTOP) names.emplace_back(name);
  }
  return names;
}

void explain_run(const CLI::App* command) {
  explain(
      command,
      {.paragraphs =
           {("All words behind the options, or behind `--`, are the program and its arguments; it is looked for along PATH. Each rank finds its "
             "number, the number of ranks and the way to the others in its environment: `unisono-environment`(7). A program of torch.distributed "
             "finds there what torchrun sets."),
            ("The output of the ranks appears when they print it, with the rank in front of each line. Where that is a terminal, each rank has a "
             "terminal of its own. Standard input goes to rank 0."),
            ("Each rank is bound to its share of the cores that the launcher may use, or to as many as OMP_NUM_THREADS says from two on, whole cores "
             "before their hardware threads. None is bound where the ranks or their threads outnumber the cores, where another job of `unisono run` "
             "on this host holds them, or where the program is started by taskset, numactl, mpirun or the like, also in a shell script. --bind none "
             "leaves all ranks unbound; UNISONO_LOG=info, and `unisono info` as a rank, say what was done."),
            ("With -n MIN:MAX the job goes on while MIN ranks live: the survivors of a lost rank form a smaller group, and a process that takes "
             "its place, after 1, 2, 4, … seconds and at most --max-restarts times in all, is taken in by them. For that the program calls "
             "unisono's shrink_group and grow_group, or run_elastic, which does both; ranks of other programs fail with the lost one. On several "
             "hosts each launcher replaces the ranks of its host; with --nnodes MIN:MAX hosts come and go as well, while MIN of them are there."),
            ("When a rank fails, that is said at once. The others have --grace seconds to end by themselves, get SIGTERM, and after as long again "
             "SIGKILL; two seconds where they are in no group with it. What failed first is named at the end."),
            ("SIGTERM and Ctrl-C are handed on to the ranks, SIGTERM to each rank's own process and not to its helpers. Another signal, or the same "
             "one more "
             "than a second later, kills them."),
            ("On several hosts --hosts or --hostfile names them: they are reached by ssh without a password, run the ranks in the current folder, "
             "and get the variables that begin with `UNISONO_` and those of -x. -n is then the number of all ranks. In the shell or the script of "
             "a Slurm allocation, without -n, all of it is used. The output, the exit code and the end are as on one host. Or a launcher is "
             "started on each by hand, with the same program, --nnodes, --master-addr and secret, and with its own --node-rank. Under srun, with "
             "one launcher on each node, all but the secret come from Slurm, and in a pod of an indexed Job of Kubernetes its number and the name "
             "of the first. When a rank fails on one host, all launchers end, unless the job goes on without it.")},
       .examples = {{"unisono run -n 4 -- ./app --epochs 3", "Four ranks of a program on this host."},
                    {"unisono run -n 2 -- python train.py", "Any program: the ranks are in its environment."},
                    {"unisono run -n 2:4 --max-restarts 10 -- ./app", "Four ranks, of which two may be missing for a while."},
                    {"unisono run -n 8 --bind core --logs logs ./app", "Rank i on the i-th core, with files for the ranks' output."},
                    {"unisono run --nnodes 2 --node-rank 1 --master-addr 10.0.0.1 -n 4 -- ./app", "The second of two hosts."},
                    {"unisono run --nnodes 2:4 --master-addr 10.0.0.1 -n 4 -- ./app", "On each of two to four hosts, which come and go."},
                    {"unisono run --nnodes 2:4 --store etcd://10.0.0.9/train-17 -n 4 -- ./app", "The same, with host 0 found in etcd."},
                    {"unisono run --hosts a:4,b:4 -- ./app", "Four ranks on each of two hosts, by ssh."}},
       .exit_codes = {{"0", "All ranks ended with 0."},
                      {"N", "The rank that failed first ended with N."},
                      {"1", "The ranks ended well, but their output could not be written; or the job could not be started, or a host was lost."},
                      {"2", "Wrong use: no rank was started."},
                      {"126, 127", "The program may not be run; there is none."},
                      {"128+S", "Signal S ended the rank that failed first, or the launcher."}}});
}

/// Adds the options by which one looks into the job.
void add_views(CLI::App* command, launcher::JobOptions& job) {
  launcher::ShownOptions& shown = job.shown;
  command->add_flag("--summary", shown.summary, "Say at the end how long the job took, how the ranks ended, and which ones waited for the others");
  command->add_flag("--status", shown.status_line, "On a terminal: show in its last row what the ranks do, and who is waited for");
  command
      ->add_option("--metrics-port", shown.metrics_port,
                   "Serve the ranks' counts to Prometheus at http://127.0.0.1:PORT/metrics, to this host alone; 0: at any free port, which is said")
      ->check(whole_number(0, launcher::highest_port));
  offer(command->add_option("--trace", job.trace_folder,
                            "Keep all calls of each rank in files of this folder (UNISONO_TRACE_DIR), which `unisono trace` shows"),
        {.kind = Values::Kind::folder});
}

/// Adds the options that say how long something may take.
void add_times(CLI::App& to, RunFlags& flags) {
  CLI::App* const command = &to;
  command->add_option("--grace", flags.grace_seconds, "Seconds the ranks have to end, before SIGTERM and before SIGKILL (15)")->check(not_negative());
  command
      ->add_option(
          "--timeout", flags.timeout_seconds,
          "Seconds that each call of a rank, and the start, may wait, where the program leaves its timeout as it is: as UNISONO_TIMEOUT (1800 "
          "a call, 120 the start)")
      ->check(whole_number(1, longest_timeout_seconds));
  command->add_option("--silence", flags.silence_seconds, "Of several hosts: seconds without a word after which another one is lost (30)")
      ->check(number(0.1, 1e6));
}

}  // namespace

void add_run(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  launcher::JobOptions& job = flags->job;
  CLI::App* command = add_command(app, "run");
  command->footer("unisono run [-n RANKS] [options] [--] PROGRAM [ARGUMENTS…]");
  command
      ->add_option(
          "-n,--ranks", flags->ranks,
          "How many ranks to start (1); -np, --nprocs and --nproc-per-node are understood, too. MIN:MAX starts MAX, goes on while MIN live, and "
          "replaces those that are lost")
      ->check(number_or_range(launcher::most_ranks));
  offer(command->add_option("--backend", job.backend,
                            "What the ranks run on, as UNISONO_BACKEND: native, mpi, gloo, tcp, ucx, cpu:native,cuda:nccl, …"),
        {.words = engines::known_names, .separators = ",:"});
  command->add_flag("--own-backend", flags->own_backend, "The program registers its backend itself: do not refuse a name that is unknown here");
  command
      ->add_option("--max-restarts", job.max_restarts,
                   "After a failure, start all ranks again, at most so many times (0); with -n MIN:MAX, replace a lost rank, "
                   "while enough live")
      ->check(whole_number(0, most_restarts));
  offer(command->add_option("--logs", job.shown.log_directory, "Keep a file for each rank, in a folder for each job in this one"),
        {.kind = Values::Kind::folder});
  offer(command->add_option("--stdin", flags->standard_input, "Who gets standard input: a rank, all or none (0)"), {"all", "none", "0"});
  add_views(command, job);
  add_times(*command, *flags);
  command->add_flag("--no-pty", flags->no_pty, "Ranks write to pipes, also where the launcher writes to a terminal");
  only(command->add_option(
           "--bind", flags->binding,
           "Where ranks run: none: on any core; core: rank i on the i-th core alone (each on its share of the cores, where those are free)"),
       {"core", "none"});
  offer(command->add_option("--forward-signal", flags->forwarded, "Hand this signal on to the ranks, beside USR1 and USR2")
            ->delimiter(',')
            ->allow_extra_args(false),
        {.words = forwardable_signals, .separators = ","});
  command
      ->add_option("--master-port", job.hosts.master_port,
                   "Of several hosts: the port at --master-addr where their launchers and ranks meet (29500). Of one: MASTER_PORT for "
                   "programs that want a certain one (any free one)")
      ->check(whole_number(0, launcher::highest_port));
  command
      ->add_option(
          "--nnodes", flags->nodes,
          "How many hosts take part, each with a launcher of its own and its own number of ranks (1). MIN:MAX begins with at least MIN, goes "
          "on while MIN are there, and takes in those that come later")
      ->check(number_or_range(launcher::most_ranks));
  command->add_option("--last-call", flags->last_call_seconds, "With --nnodes MIN:MAX: seconds that MIN hosts wait for more, at the start (30)")
      ->check(number(0, 1e6));
  command->add_option("--node-rank", job.hosts.node_rank, "Which of them this one is (0)")->check(whole_number(0, launcher::most_ranks - 1));
  command->add_option("--master-addr", job.hosts.master_addr, "Address of host 0, where several hosts meet: the only one that is listened on");
  command->add_option("--store", job.hosts.store,
                      "Of several hosts: where they meet instead of at --master-addr, etcd://HOST:2379,…/JOB; there each gets its number, or with "
                      "--nnodes MIN:MAX finds host 0");
  offer(command->add_option(
            "--token-file", job.hosts.token_file,
            "Of several hosts: the file with the job's secret, which only you can read (UNISONO_TOKEN_FILE; or UNISONO_TOKEN is the secret)"),
        {.kind = Values::Kind::file});
  add_run_host_options(command, flags->hosts);
  explain_run(command);
  command->callback([flags, command] { run(*flags, *command); });
}

}  // namespace unisono::tools
