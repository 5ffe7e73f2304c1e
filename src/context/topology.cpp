#include "context/topology.h"

#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/processors.h"
#include "unisono/detail/switches.h"
#include "unisono/error.h"

namespace unisono {
namespace {

struct Presented {
  std::mutex mutex;
  std::vector<std::string> names;
};
Presented& presented() {
  static Presented& instance = *new Presented;  // never destroyed: static objects may end after it
  return instance;
}

}  // namespace

void detail::set_presented_hosts(std::vector<std::string> names) {
  const std::lock_guard lock(presented().mutex);
  presented().names = std::move(names);
}

std::vector<std::string> detail::presented_hosts() {
  const std::lock_guard lock(presented().mutex);
  return presented().names;
}

}  // namespace unisono

namespace unisono::context {
namespace {

/// The report of a rank on its host. `machine` and `identity` differ only where a test lets ranks present themselves as being elsewhere.
struct HostRecord {
  std::string_view machine;
  std::string_view identity;
  std::string_view name;
};

/// `presented`: the names that ranks present themselves by; empty: they do not.
void present(std::vector<HostRecord>& records, const std::vector<std::string>& presented) {
  if (presented.empty()) return;
  if (presented.size() != records.size()) {
    throw InvalidArgument("hosts of " + std::to_string(presented.size()) + " ranks are to appear, and there are " + std::to_string(records.size()));
  }
  for (std::size_t r = 0; r < records.size(); ++r) {
    records[r].identity = records[r].name = presented[r];
  }
}

Topology topology_of(std::vector<HostRecord> records, int rank) {
  const std::vector<std::string> presented = detail::presented_hosts();
  present(records, presented);
  Topology topology;
  std::unordered_map<std::string_view, int> hosts, machines;  // numbered in the order of each one's lowest rank
  const auto index_of = [](std::unordered_map<std::string_view, int>& known, std::string_view identity) {
    return known.try_emplace(identity, static_cast<int>(known.size())).first->second;
  };
  const std::string_view own = records[static_cast<std::size_t>(rank)].identity;
  const std::string_view kernel = base::kernel_of(records[static_cast<std::size_t>(rank)].machine);
  topology.nproc_per_node = 0;
  topology.ranks_under_kernel = 0;
  topology.local_members.clear();
  topology.hosts.reserve(records.size());
  for (int r = 0; r < static_cast<int>(records.size()); ++r) {
    const HostRecord& record = records[static_cast<std::size_t>(r)];
    topology.hosts.push_back(index_of(hosts, record.identity));
    index_of(machines, record.machine);
    if (base::kernel_of(record.machine) == kernel) ++topology.ranks_under_kernel;
    if (record.identity != own) continue;
    if (r < rank) ++topology.local_rank;
    ++topology.nproc_per_node;
    topology.local_members.push_back(r);
  }
  topology.host_names = base::RepeatedTexts(records.size(), [&](std::size_t r) { return records[r].name; });
  topology.nnodes = static_cast<int>(hosts.size());
  topology.machines = static_cast<int>(machines.size());
  topology.node_rank = index_of(hosts, own);
  return topology;
}

}  // namespace

Topology topology_of(std::span<const rendezvous::Member> members, int rank) {
  std::vector<HostRecord> records;
  for (const rendezvous::Member& member : members) records.push_back({member.machine.get(), member.machine.get(), member.host.get()});
  Topology topology = topology_of(std::move(records), rank);
  base::Processors all = base::own_processors();
  for (const rendezvous::Member& member : members) {
    if (member.machine == members[static_cast<std::size_t>(rank)].machine) all.add(base::processors_of(member.pid));
  }
  topology.processors = all.count();
  return topology;
}

Topology topology_of_threads(int rank, int world_size) {
  const std::string& machine = base::machine_id();
  const std::string name = base::host_name();
  const HostRecord here{machine, machine, name};
  return topology_of(std::vector<HostRecord>(static_cast<std::size_t>(world_size), here), rank);
}

int Topology::choose_local_rank(std::optional<int> given, std::optional<int> hint) const {
  const std::optional<int> said = given ? given : hint;
  // A launcher counts the processes of a machine. Ranks that present themselves as of other hosts are counted by those hosts.
  if (!said || !detail::presented_hosts().empty()) return local_rank;
  if (*said != local_rank) {
    base::warn("local rank " + std::to_string(*said) + " was given, but this process is number " + std::to_string(local_rank) + " of its host's " +
               std::to_string(nproc_per_node) + "; using what was given");
  }
  return *said;
}

std::string Topology::describe_hosts() const {
  std::map<std::string, std::string> ranks;
  for (std::size_t r = 0; r < host_names.size(); ++r) {
    auto& text = ranks[host_names[r]];
    text += (text.empty() ? "" : ", ") + std::to_string(r);
  }
  std::string text;
  for (const auto& [host, list] : ranks) text += (text.empty() ? "" : "; ") + host + " (rank " + list + ")";
  return text;
}

}  // namespace unisono::context
