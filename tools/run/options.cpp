#include <CLI/CLI.hpp>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "engines/registry.h"
#include "help/usage.h"
#include "hosts/options.h"
#include "launch/process/host.h"
#include "run/flags.h"

namespace unisono::tools {
namespace {

constexpr long most_restarts = 1'000'000'000;
constexpr long longest_timeout_seconds = 1'000'000'000;

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
           {("All words after the options, or after `--`, are the program and its arguments. The program is searched in PATH. Python starts a file "
             "that ends with .py and is not a program by itself, and the module of -m: the Python of the virtual environment, or the first python3 "
             "in PATH. Each rank finds its number, the number of ranks and the way to the others in its environment: `unisono-environment`(7). A "
             "program of torch.distributed finds the variables of torchrun there."),
            ("The output of the ranks appears when they print it, with the rank in front of each line. If the launcher writes to a terminal, each "
             "rank has a terminal of its own. Standard input goes to rank 0."),
            ("Each rank is bound to its share of the cores that the launcher may use. If OMP_NUM_THREADS is 2 or more, each rank gets this many "
             "cores. Whole cores come before their hardware threads. No rank is bound if the ranks or their threads outnumber the cores, or if "
             "another job of `unisono run` on this host holds them. The same is true if taskset, numactl, mpirun or a similar command starts the "
             "program, also in a shell script. --bind none leaves all ranks unbound. UNISONO_LOG=info, and `unisono info` as a rank, show the "
             "binding."),
            ("With -n MIN:MAX the job goes on while MIN ranks live. The survivors of a lost rank form a smaller group. A new process takes its place "
             "after 1, 2, 4, … seconds, at most --max-restarts times in all, and the survivors accept it. The program must call unisono's "
             "shrink_group and grow_group for this, or run_elastic, which calls both. Ranks of other programs fail with the lost one. On several "
             "hosts each launcher replaces the ranks of its host. With --nnodes MIN:MAX hosts come and go as well, while MIN of them are there."),
            ("When a rank fails, the launcher prints it at once. The others have --grace seconds to end by themselves. Then they get SIGTERM, and "
             "after the same time SIGKILL. Ranks that share no group with the failed one have two seconds. The first failure is named at the end."),
            ("SIGTERM and Ctrl-C are passed on to the ranks, SIGTERM to each rank's own process and not to its helpers. Another signal, or the same "
             "one more than a second later, kills them."),
            ("Several hosts are named by --hosts or --hostfile, and reached by ssh without a password. They run the ranks in the current folder, and "
             "get the variables that begin with `UNISONO_` and those of -x. -n is then the number of all ranks. In the shell or the script of a "
             "Slurm allocation, without -n, the job uses all of it. The output, the exit code and the end are as on one host."),
            ("Or start a launcher on each host by hand, with the same program, --nnodes, --master-addr and secret, and with its own --node-rank. "
             "Under srun, with one launcher on each node, everything except the secret comes from Slurm. In a pod of an indexed Job of Kubernetes, "
             "the number of the pod and the name of the first pod are known. When a rank fails on one host, all launchers end, unless the job goes "
             "on without it.")},
       .examples = {{"unisono run -n 4 -- ./app --epochs 3", "Four ranks of a program on this host."},
                    {"unisono run -n 2 train.py", "A program in Python."},
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
                      {"126, 127", "The program may not be run (126), or does not exist (127)."},
                      {"128+S", "Signal S ended the rank that failed first, or the launcher."}}});
}

/// Adds what a rank is, and where it runs.
void add_ranks(CLI::App* command, RunFlags& flags) {
  launcher::JobOptions& job = flags.job;
  command->option_defaults()->group("Ranks");
  command->add_option("-n,--ranks", flags.ranks, "The number of ranks (1). MIN:MAX starts MAX, goes on while MIN live, and replaces lost ones")
      ->check(number_or_range(launcher::most_ranks))
      ->type_name("N|MIN:MAX");
  command->add_option("-m,--module", flags.module, "Run a module of Python; all words after it are its arguments")->type_name("MODULE");
  offer(command->add_option("--backend", job.backend,
                            "The backend of the ranks, as UNISONO_BACKEND: native, mpi, gloo, tcp, ucx, cpu:native,cuda:nccl, …"),
        {.words = engines::known_names, .separators = ",:"})
      ->type_name("NAME");
  command->add_flag("--own-backend", flags.own_backend, "The program registers its backend itself: accept a name that is unknown here");
  only(command->add_option(
           "--bind", flags.binding,
           "none: ranks run on any core. core: rank i runs on the i-th core alone. l3, numa: each rank runs on all cores of one third-level cache or "
           "NUMA node, by hwloc. (Each rank on its share of the cores, if they are free.)"),
       {"core", "l3", "numa", "none"});
  command
      ->add_option("--max-restarts", job.max_restarts,
                   "After a failure, start all ranks again, at most N times (0). With -n MIN:MAX: replace a lost rank, while enough live")
      ->check(whole_number(0, most_restarts))
      ->type_name("N");
  add_place_options(command, flags.hosts);
}

/// Adds what is shown and kept of the ranks, and what they read.
void add_streams(CLI::App* command, RunFlags& flags) {
  launcher::JobOptions& job = flags.job;
  launcher::ShownOptions& shown = job.shown;
  command->option_defaults()->group("Output and input");
  offer(command->add_option("--logs", shown.log_directory, "Write the output of each rank to a file, in a folder for each job below this one"),
        {.kind = Values::Kind::folder});
  offer(command->add_option("--stdin", flags.standard_input, "The rank that gets standard input, or all, or none (0)"), {"all", "none", "0"})
      ->type_name("RANK|all|none");
  command->add_flag("--no-pty", flags.no_pty, "Ranks write to pipes, even if the launcher writes to a terminal");
  command->add_flag("--summary", shown.summary, "Print at the end how long the job took, how the ranks ended, and which ones waited for the others");
  command->add_flag("--status", shown.status_line, "On a terminal: show in its last row what the ranks do, and for which rank the others wait");
  command
      ->add_option(
          "--metrics-port", shown.metrics_port,
          "Serve the ranks' counts to Prometheus at http://127.0.0.1:PORT/metrics, on this host alone; 0: at any free port, which is printed")
      ->check(whole_number(0, launcher::highest_port))
      ->type_name("PORT");
  offer(command->add_option("--trace", job.trace_folder,
                            "Write all calls of each rank to files in this folder (UNISONO_TRACE_DIR), which `unisono trace` shows"),
        {.kind = Values::Kind::folder});
}

/// Adds how long something may take, and which signals reach the ranks.
void add_times(CLI::App* command, RunFlags& flags) {
  command->option_defaults()->group("Time and signals");
  command->add_option("--grace", flags.grace_seconds, "How long the ranks have to end, before SIGTERM and before SIGKILL (15)")
      ->check(not_negative())
      ->type_name("SECONDS");
  command
      ->add_option(
          "--timeout", flags.timeout_seconds,
          "How long each call of a rank, and the start, may wait if the program sets no timeout, as UNISONO_TIMEOUT (1800 a call, 120 the start)")
      ->check(whole_number(1, longest_timeout_seconds))
      ->type_name("SECONDS");
  offer(command->add_option("--forward-signal", flags.forwarded, "Pass this signal on to the ranks, in addition to USR1 and USR2")
            ->delimiter(',')
            ->allow_extra_args(false),
        {.words = forwardable_signals, .separators = ","})
      ->type_name("SIGNAL,…");
}

/// Adds what several hosts need.
void add_hosts(CLI::App* command, RunFlags& flags) {
  launcher::HostOptions& hosts = flags.job.hosts;
  command->option_defaults()->group("Hosts that are reached by ssh");
  add_host_options(command, flags.hosts);
  command->option_defaults()->group("Launchers that are started on each host");
  command
      ->add_option("--nnodes", flags.nodes,
                   "The number of hosts, each with its own launcher and number of ranks (1). MIN:MAX begins with at least MIN, goes on while MIN are "
                   "there, and accepts later ones")
      ->check(number_or_range(launcher::most_ranks))
      ->type_name("N|MIN:MAX");
  command->add_option("--node-rank", hosts.node_rank, "The number of this host (0)")
      ->check(whole_number(0, launcher::most_ranks - 1))
      ->type_name("N");
  command->add_option("--master-addr", hosts.master_addr, "Address of host 0, where several hosts meet; the only address that is listened on")
      ->type_name("ADDRESS");
  command
      ->add_option("--master-port", hosts.master_port,
                   "Several hosts: the port at --master-addr where launchers and ranks meet (29500). One host: MASTER_PORT for programs that need a "
                   "fixed one (any free one)")
      ->check(whole_number(0, launcher::highest_port))
      ->type_name("PORT");
  command
      ->add_option("--store", hosts.store,
                   "Several hosts: meet at etcd://HOST:2379,…/JOB instead of at --master-addr. Each gets its number there, or with --nnodes MIN:MAX "
                   "finds host 0")
      ->type_name("URL");
  offer(command->add_option(
            "--token-file", hosts.token_file,
            "Several hosts: the file with the job's secret, which only you can read (UNISONO_TOKEN_FILE; or UNISONO_TOKEN is the secret)"),
        {.kind = Values::Kind::file});
  command->add_option("--last-call", flags.last_call_seconds, "With --nnodes MIN:MAX: how long MIN hosts wait for more hosts at the start (30)")
      ->check(number(0, 1e6))
      ->type_name("SECONDS");
  command->add_option("--silence", flags.silence_seconds, "Several hosts: how long another host may be silent before it is lost (30)")
      ->check(number(0.1, 1e6))
      ->type_name("SECONDS");
}

}  // namespace

void add_run_options(CLI::App* command, RunFlags& flags) {
  add_ranks(command, flags);
  add_streams(command, flags);
  add_times(command, flags);
  add_hosts(command, flags);
  explain_run(command);
}

}  // namespace unisono::tools
