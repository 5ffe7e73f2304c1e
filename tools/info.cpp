// unisono info prints what was found on this host and what applies here. It reads only; with --schedules in a job, its ranks measure as well.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>
#include <memory>
#include <string>

#include "engines/plugins.h"
#include "engines/registry.h"
#include "group/group.h"
#include "schedule/selection.h"
#include "common/commands.h"
#include "common/json.h"
#include "help/usage.h"
#include "base/deadline.h"
#include "base/processors.h"
#include "base/environment.h"
#include "base/file_descriptor.h"
#include "base/host.h"
#include "base/socket.h"
#include "base/tls.h"
#include "base/version.h"
#include "common/machine.h"
#include "common/text.h"
#include "kernels/vector.h"
#include "rendezvous/launcher_store.h"
#include "rendezvous/launchers.h"
#include "unisono/collectives_v.h"
#include "unisono/context.h"
#include "unisono/error.h"

namespace unisono::tools {

namespace {

constexpr std::array known_backends = {"serial", "native", "tcp", "gloo", "mpi", "ucx", "nccl"};

Json backend_facts() {
  Json facts = Json::object();
  std::vector<std::string> names(known_backends.begin(), known_backends.end());
  for (const std::string& name : available_backends())
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);  // one that the program registered
  const auto plugins = engines::find_plugins();
  for (const auto& plugin : plugins)
    if (std::ranges::find(names, plugin.name) == names.end()) names.push_back(plugin.name);
  for (const std::string& name : names) {
    const engines::Availability found = engines::availability(name, engines::Look::as_a_rank);
    std::string text = found.available ? "available" : found.why_not.empty() ? "not in this build" : "not available: " + found.why_not;
    const auto plugin = std::ranges::find(plugins, name, &engines::FoundPlugin::name);
    if (found.available && plugin != plugins.end() && plugin->plugin != nullptr)
      text += fmt::format(" ({}; {})", plugin->plugin->about != nullptr ? plugin->plugin->about : "a plug-in", plugin->path);
    put(facts, name, std::move(text));
  }
  return facts;
}

/// Says where this rank's launcher lets its ranks run.
std::string binding_facts(const base::Environment& environment) {
  constexpr std::chrono::seconds time_to_answer{5};
  try {
    const auto store = rendezvous::store_of_own_launcher(environment, base::Deadline(time_to_answer));
    if (store == nullptr) return "this process is not a rank of unisono run";
    return store->try_get(rendezvous::placement_key).value_or("not known");
  } catch (const Error& error) {
    return "not known: " + error.message();
  }
}

Json host_facts() {
  Json facts;
  put(facts, {{"name", base::host_name()},
              {"machine", base::machine_id()},
              {"system", kernel_version()},
              {"processor", cpu_model()},
              {"cpus usable", base::allowed_processors()},
              {"cpus", affinity_list()},
              {"binding", binding_facts(base::Environment::process())},
              {"cpu quota", base::allowed_processors() < affinity_count() ? "fewer cpus than the affinity allows (control group)" : "none"},
              {"reduce kernels", kernels::target_name()},
              {"huge pages", chosen_word("/sys/kernel/mm/transparent_hugepage/enabled")}});
  const auto limit = base::ControlGroups().memory();
  put(facts, "memory limit", limit ? fmt::format("{} MiB (control group)", *limit >> 20) : "none");
  return facts;
}

/// Says whether processes of one user can read each other's memory, as a child finds out about this one.
std::string reading_facts() {
  const pid_t tool = ::getpid();
  const std::uint64_t word = 4711;
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t copy = 0;
    iovec here{&copy, sizeof copy}, there{const_cast<std::uint64_t*>(&word), sizeof word};
    const ssize_t n = ::process_vm_readv(tool, &here, 1, &there, 1, 0);
    ::_exit(n == sizeof copy ? 0 : errno);
  }
  int status = 0;
  if (child < 0 || TEMP_FAILURE_RETRY(::waitpid(child, &status, 0)) != child || !WIFEXITED(status)) return "not known";
  if (WEXITSTATUS(status) == 0) return "can be read where they lie (process_vm_readv), as large messages may be";
  return fmt::format("cannot be read (process_vm_readv: {}{}): all messages are copied twice", base::error_text(WEXITSTATUS(status)),
                     WEXITSTATUS(status) == EPERM ? "; see /proc/sys/kernel/yama/ptrace_scope, or the container's filter of system calls" : "");
}

Json shared_memory_facts() {
  Json facts;
  const base::FileDescriptor memory(::memfd_create("unisono-info", MFD_CLOEXEC));
  put(facts, "memfd", memory.valid() ? "works" : "refused by this system: the native backend needs it");
  struct statvfs about {};
  if (::statvfs("/dev/shm", &about) == 0)
    put(facts, "/dev/shm",
        fmt::format("{} MiB free of {} MiB (not needed)", about.f_bavail * about.f_frsize >> 20, about.f_blocks * about.f_frsize >> 20));
  else put(facts, "/dev/shm", "absent (not needed)");
  put(facts, "other ranks' buffers", reading_facts());
  return facts;
}

std::string limit_text(rlim_t value, std::string_view unit) {
  return value == RLIM_INFINITY ? std::string("unlimited") : fmt::format("{}{}", value, unit);
}

Json limit_facts() {
  Json facts;
  const auto add = [&](const char* name, auto resource, std::string_view unit) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) return;
    put(facts, name,
        limit.rlim_cur == limit.rlim_max
            ? limit_text(limit.rlim_cur, unit)
            : fmt::format("{}, may be raised to {}", limit_text(limit.rlim_cur, unit), limit_text(limit.rlim_max, unit)));
  };
  add("open files", RLIMIT_NOFILE, "");
  add("locked memory", RLIMIT_MEMLOCK, " bytes");
  add("address space", RLIMIT_AS, " bytes");
  add("processes", RLIMIT_NPROC, "");
  return facts;
}

Json timeout_facts(const base::Environment& environment) {
  Json facts;
  const auto of_environment = environment.get("UNISONO_TIMEOUT");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(InitOptions{}.timeout).count();
  put(facts, {{"every call", of_environment ? *of_environment + " s (UNISONO_TIMEOUT)" : fmt::format("{} s", seconds)},
              {"finalize", "10 s"},
              {"warning of a long wait", "after 30 s"}});
  return facts;
}

Json environment_facts(const base::Environment& environment) {
  Json facts = Json::object();
  const auto add = [&](std::string_view name) {
    if (environment.has(name)) put(facts, name, environment.get(name).value_or("(set)"));  // the value of a secret is not shown
  };
  for (const std::string_view name : rendezvous::variables_read()) add(name);
  add("OMP_NUM_THREADS");
  return facts;
}

/// Returns remarks on the UNISONO_ variables whose errors would otherwise appear in the ranks, or never.
Json remarks_on(const base::Environment& environment) {
  Json remarks = Json::array();
  for (std::string& odd : base::odd_variables(environment)) remarks.push_back(std::move(odd));
  try {
    engines::check_names(environment.get("UNISONO_BACKEND").value_or("auto"));
  } catch (const InvalidArgument& error) {
    remarks.push_back("UNISONO_BACKEND: " + error.message());
  }
  return remarks;
}

std::string encryption_facts() {
  const base::TlsAvailability& found = base::tls_availability();
  if (found.library == nullptr) return "not available: " + found.why_not;
  return fmt::format("available (TLS 1.3 by {}; {}). Records are encrypted in the process: {}", found.library->version, found.path,
                     base::kernel_has_tls() ? "the kernel's TLS is not used" : "the kernel has no TLS");
}

Json gather_facts() {
  const base::Environment& environment = base::Environment::process();
  Json facts;
  put(facts, {{"version", base::to_string(base::library_version())},
              {"launcher", to_string(infer_launcher())},
              {"backends", backend_facts()},
              {"host", host_facts()},
              {"shared memory", shared_memory_facts()},
              {"limits", limit_facts()}});
  put(facts, {{"plug-ins from", fmt::format("{}", fmt::join(engines::plugin_directories(), ":"))},
              {"encryption", encryption_facts()},
              {"timeouts", timeout_facts(environment)},
              {"environment", environment_facts(environment)},
              {"remarks", remarks_on(environment)}});
  return facts;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string ranks_on_hosts(int ranks, int hosts) { return fmt::format("{} on {}", ranks, counted(static_cast<std::size_t>(hosts), "host")); }

void add_choices(const std::vector<std::pair<std::string, std::string>>& table, Json& facts) {
  put(facts, "assumed in any case", schedule::describe_assumed({}));
  put(facts, "sizes", "of the vector, or of a rank's block, in float32");
  put(facts, "small calls", "their elements travel with the comparison of the calls, by which the ranks agree, as the table says");
  for (const auto& [operation, algorithms] : table) put(facts, operation, algorithms);
}

/// What would hold for such ranks: nothing is measured.
Json schedule_facts(int ranks, int hosts) {
  Json facts;
  put(facts, "ranks", ranks_on_hosts(ranks, hosts));
  const auto given = schedule::parse_network(schedule::network_override());
  const schedule::NetworkParameters network = given.value_or(schedule::NetworkParameters());
  put(facts, "network", (given ? "given by UNISONO_NETWORK: " : "assumed: ") + schedule::describe(network));
  if (!given)
    put(facts, "measured figures", "unisono run … -- unisono info --schedules shows those between the hosts of a job, and its choice by them");
  add_choices(schedule::describe_table(ranks, hosts, network), facts);
  return facts;
}

/// What holds in this job: its ranks measure their network. All of them call it; only rank 0 gets facts.
Json schedule_facts_of_job() {
  const Context context;
  // Blocks of different lengths never travel with the comparison of the calls: before this call the network is measured.
  std::vector<std::size_t> counts(static_cast<std::size_t>(world_size()), 1);
  counts[0] = 2;
  const std::vector<float> own(counts[static_cast<std::size_t>(rank())]);
  std::vector<float> all(counts.size() + 1);
  all_gather_v(own, all, counts);
  Json facts;
  if (rank() != 0) return facts;
  schedule::Executor& executor = world().implementation()->core().executor();
  put(facts, "ranks", ranks_on_hosts(world_size(), executor.coordination().topology().host_count()) + ", those of this job");
  put(facts, "backend", world().backend());
  if (executor.comparing_engine(Operation::all_reduce) != nullptr) {
    put(facts, "network", "none: shared memory runs all calls, without schedules, and nothing is measured");
    return facts;
  }
  put(facts, "network", executor.choice().describe_network());
  add_choices(executor.choice().describe_choices(), facts);
  return facts;
}

/// Tells whether this process is a rank of `unisono run` among others. Under other launchers a process may look like a rank and have no peers.
bool is_rank_of_a_job() { return infer_launcher() == Launcher::unisono && base::Environment::process().get_int("WORLD_SIZE").value_or(1) > 1; }

/// The column in which the values begin.
constexpr std::size_t value_column = 28;

void print(const Json& facts) {
  for (const auto& [name, value] : facts.items()) {
    if (value.empty() && name == "remarks") continue;
    if (!value.is_structured() || value.empty()) {
      const std::string text = value.empty() ? "none of the variables that matter is set" : text_of(value);
      std::cout << pad_right(name, value_column) << wrap(text, value_column, value_column) << "\n";
      continue;
    }
    std::cout << name << "\n";
    for (const auto& [key, one] : value.items()) {
      if (value.is_array()) std::cout << "  " << wrap(text_of(one), 4, 2) << "\n";
      else std::cout << entry(key, text_of(one), value_column);
    }
  }
  std::cout << std::flush;
}

}  // namespace

void add_info(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  auto schedules = std::make_shared<bool>(false);
  auto ranks = std::make_shared<int>(8), hosts = std::make_shared<int>(0);
  CLI::App* command = add_command(app, "info");
  command->footer("unisono info [--schedules [--ranks N] [--hosts N]] [--json]");
  command->add_flag("--json", *as_json, "Print one JSON object");
  CLI::Option* of_schedules = command->add_flag(
      "--schedules", *schedules, "The algorithms of each operation between hosts, and the sizes from which each is chosen (UNISONO_SCHEDULE)");
  constexpr long most_ranks = 100000;
  command->add_option("--ranks", *ranks, "With --schedules: the number of ranks (8)")
      ->needs(of_schedules)
      ->check(whole_number(2, most_ranks))
      ->type_name("N");
  command->add_option("--hosts", *hosts, "With --schedules: the number of hosts (one for each rank)")
      ->needs(of_schedules)
      ->check(whole_number(1, most_ranks))
      ->type_name("N");
  explain(command,
          {.paragraphs =
               {"The command prints what it finds on this host, and changes nothing. A backend that cannot be used is listed with the reason. "
                "Mistyped variables that begin with `UNISONO_` are named at the end.",
                "Run it as a rank (`unisono run -n 1 -- unisono info`) to see what ranks see.",
                "With --schedules alone, as the program of several ranks, the ranks join and measure the network between their hosts. Rank 0 prints "
                "by which figures each algorithm is chosen in that job. Without a job the figures are assumed, or those of UNISONO_NETWORK."},
           .examples = {{"unisono info", "Show which parts work here, and why the others do not."},
                        {"unisono info --json | jq .backends", "For programs."},
                        {"unisono info --schedules --ranks 64 --hosts 8", "Show the algorithm of each operation, for 64 ranks on 8 hosts."},
                        {"unisono run --hosts a:4,b:4 -- unisono info --schedules", "The same in this job, by what its ranks measure."}}});
  command->callback([as_json, schedules, ranks, hosts, command] {
    if (*hosts > *ranks) throw CLI::ValidationError("--hosts", fmt::format("must be at most the number of ranks, {}, not '{}'", *ranks, *hosts));
    const bool is_imagined = command->count("--ranks") > 0 || command->count("--hosts") > 0 || !is_rank_of_a_job();
    const Json facts = !*schedules ? gather_facts() : is_imagined ? schedule_facts(*ranks, *hosts == 0 ? *ranks : *hosts) : schedule_facts_of_job();
    if (facts.is_null()) return;  // rank 0 says it
    if (*as_json) std::cout << facts.dump(2) << std::endl;
    else print(facts);
  });
}

}  // namespace unisono::tools
