#include "context/topology.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "ground/log.h"
#include "unisono/detail/switches.h"
#include "unisono/error.h"

namespace unisono {
namespace {

struct Presented {
  std::mutex mutex;
  std::vector<std::string> names;
};
Presented& presented() {
  static Presented& instance = *new Presented;  // lives as long as the process, whoever ends last
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

std::string link_target(const char* path) {
  std::array<char, 128> target{};
  const auto size = ::readlink(path, target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string("?");
}

}  // namespace

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? std::string(names.nodename) : std::string("localhost");
}

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot + "/" + link_target("/proc/self/ns/net") + "/" + link_target("/proc/self/ns/pid");
}

namespace {

HostRecord present(int rank, int world_size, const std::string& machine) {
  const std::vector<std::string> presented = detail::presented_hosts();
  if (presented.empty()) return {machine, machine, host_name()};
  if (presented.size() != static_cast<std::size_t>(world_size)) {
    throw InvalidArgument("hosts of " + std::to_string(presented.size()) + " ranks are to be presented, and there are " + std::to_string(world_size));
  }
  const std::string& name = presented[static_cast<std::size_t>(rank)];
  return {machine, "presented " + name, name};
}

}  // namespace

Topology topology_of(const std::vector<HostRecord>& records, int rank) {
  Topology topology;
  std::vector<std::string> hosts, machines;  // in the order of each one's lowest rank
  const auto index_of = [](std::vector<std::string>& known, const std::string& identity) {
    const auto found = std::find(known.begin(), known.end(), identity);
    if (found != known.end()) return static_cast<int>(found - known.begin());
    known.push_back(identity);
    return static_cast<int>(known.size()) - 1;
  };
  const std::string& own = records[static_cast<std::size_t>(rank)].identity;
  topology.nproc_per_node = 0;
  topology.local_members.clear();
  for (int r = 0; r < static_cast<int>(records.size()); ++r) {
    const HostRecord& record = records[static_cast<std::size_t>(r)];
    topology.host_names.push_back(record.name);
    topology.hosts.push_back(index_of(hosts, record.identity));
    index_of(machines, record.machine);
    if (record.identity != own) continue;
    if (r < rank) ++topology.local_rank;
    ++topology.nproc_per_node;
    topology.local_members.push_back(r);
  }
  topology.nnodes = static_cast<int>(hosts.size());
  topology.machines = static_cast<int>(machines.size());
  topology.node_rank = index_of(hosts, own);
  return topology;
}

Topology exchange_hosts(Store& store, int rank, int world_size, const ground::Deadline& deadline) {
  const HostRecord own = present(rank, world_size, host_identity());
  store.set("host/" + std::to_string(rank), own.machine + "\n" + own.identity + "\n" + own.name);
  std::vector<HostRecord> records;
  for (int r = 0; r < world_size; ++r) {
    std::istringstream text(store.get("host/" + std::to_string(r), deadline.left()));
    HostRecord& record = records.emplace_back();
    std::getline(text, record.machine);
    std::getline(text, record.identity);
    std::getline(text, record.name);
  }
  return topology_of(records, rank);
}

Topology topology_of_threads(int rank, int world_size) {
  const std::string machine = host_identity();
  std::vector<HostRecord> records;
  for (int r = 0; r < world_size; ++r) records.push_back(present(r, world_size, machine));
  return topology_of(records, rank);
}

int choose_local_rank(std::optional<int> given, std::optional<int> hint, const Topology& topology) {
  const std::optional<int> said = given ? given : hint;
  if (!said) return topology.local_rank;
  if (*said != topology.local_rank) {
    ground::warn("local rank " + std::to_string(*said) + " was given, but this process is number " + std::to_string(topology.local_rank) +
                 " of its host's " + std::to_string(topology.nproc_per_node) + "; using what was given");
  }
  return *said;
}

std::string describe_hosts(const Topology& topology) {
  std::map<std::string, std::string> ranks;
  for (std::size_t r = 0; r < topology.host_names.size(); ++r) {
    auto& text = ranks[topology.host_names[r]];
    text += (text.empty() ? "" : ", ") + std::to_string(r);
  }
  std::string text;
  for (const auto& [host, list] : ranks) text += (text.empty() ? "" : "; ") + host + " (rank " + list + ")";
  return text;
}

}  // namespace unisono::context
