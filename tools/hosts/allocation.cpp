#include "hosts/allocation.h"

#include <netdb.h>
#include <sys/socket.h>

#include <charconv>
#include <initializer_list>
#include <memory>

#include <fmt/format.h>

#include "base/host.h"
#include "launch/job_options.h"
#include "launch/process/program.h"
#include "rendezvous/slurm.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

using base::Environment;

std::string first_set(const Environment& environment, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto value = environment.get(name)) return *value;
  return {};
}

[[noreturn]] void refuse_hosts(const std::string& what, const std::string& hint) { throw InvalidArgument(what, {.hint = hint}); }

int tasks_of(std::string_view text, std::string_view whole) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 1 || value > launcher::most_ranks)
    refuse_hosts(fmt::format("\"{}\" is no list of numbers of tasks, such as 2(x3),1", whole), "-n says how many ranks to start here");
  return value;
}

/// Returns how many ranks each node gets: as many as Slurm counts tasks there.
std::vector<int> ranks_per_node(const Environment& environment, std::size_t nodes) {
  const std::string text = first_set(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!text.empty()) {
    auto counts = repeated_numbers(text);
    if (counts.size() != nodes)
      refuse_hosts(fmt::format("SLURM_TASKS_PER_NODE {} is about {} nodes, and the job has {}", text, counts.size(), nodes),
                   "--hosts names the hosts");
    return counts;
  }
  if (const auto each = environment.get_int("SLURM_NTASKS_PER_NODE")) return std::vector<int>(nodes, *each);
  const int all = environment.get_int("SLURM_NTASKS").value_or(static_cast<int>(nodes));
  if (all < 1) refuse_hosts(fmt::format("SLURM_NTASKS is {}", all), "--hosts names the hosts");
  std::vector<int> counts(nodes, all / static_cast<int>(nodes));
  for (std::size_t i = 0; i < static_cast<std::size_t>(all) % nodes; ++i) ++counts[i];
  return counts;
}

/// Returns the whole name of this host, as /etc/hosts or the name server has it.
std::string canonical_name(const std::string& name) {
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  return found->ai_canonname != nullptr ? found->ai_canonname : name;
}

}  // namespace

std::vector<int> repeated_numbers(std::string_view text) {
  const std::string_view whole = text;
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const auto open = item.find("(x");
    if (open == std::string_view::npos) {
      numbers.push_back(tasks_of(item, whole));
      continue;
    }
    if (!item.ends_with(')')) tasks_of("", whole);
    const int times = tasks_of(item.substr(open + 2, item.size() - open - 3), whole);
    numbers.insert(numbers.end(), static_cast<std::size_t>(times), tasks_of(item.substr(0, open), whole));
  }
  return numbers;
}

std::vector<HostEntry> allocated_hosts(const Environment& environment) {
  if (first_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}).empty() || rendezvous::is_step_of_srun(environment)) return {};
  const std::string list = first_set(environment, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (list.empty()) return {};
  const auto names = rendezvous::parse_host_list(list);
  if (names.empty()) return {};
  const auto counts = ranks_per_node(environment, names.size());
  std::vector<HostEntry> hosts;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (counts[i] > 0) hosts.push_back({names[i], counts[i], "SLURM_JOB_NODELIST"});
  return hosts;
}

std::string allocation_command(const Environment& environment) {
  try {
    launcher::find_program("srun", environment);
  } catch (const launcher::StartFailed&) {
    return "ssh";
  }
  // A step of one task on one node, which takes nothing away from other steps. Its ranks are ours, so Slurm serves them no MPI.
  return "srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist={host} --overlap --cpu-bind=none --mem=0 --mpi=none --export=ALL --quiet";
}

std::optional<IndexedPod> indexed_pod(const Environment& environment) {
  const auto index = environment.get_int("JOB_COMPLETION_INDEX");
  if (!index) return std::nullopt;
  IndexedPod pod{.index = *index};
  const std::string name = canonical_name(base::host_name());
  const auto dot = name.find('.');
  const std::string ending = fmt::format("-{}", *index);
  const std::string own = name.substr(0, dot);
  // Without a domain, the name of another pod leads nowhere.
  if (dot != std::string::npos && own.ends_with(ending)) pod.first_pod = own.substr(0, own.size() - ending.size()) + "-0" + name.substr(dot);
  return pod;
}

}  // namespace unisono::tools
