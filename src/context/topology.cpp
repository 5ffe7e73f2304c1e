#include "context/topology.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "ground/log.h"

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

Topology topology_of(const std::vector<std::string>& identities, const std::vector<std::string>& names, int rank) {
  Topology topology;
  topology.host_names = names;
  std::vector<std::string> hosts;  // in the order of each one's lowest rank
  const auto index_of = [&](const std::string& identity) {
    const auto found = std::find(hosts.begin(), hosts.end(), identity);
    if (found != hosts.end()) return static_cast<int>(found - hosts.begin());
    hosts.push_back(identity);
    return static_cast<int>(hosts.size()) - 1;
  };
  const std::string& own = identities[static_cast<std::size_t>(rank)];
  topology.nproc_per_node = 0;
  topology.local_members.clear();
  for (int r = 0; r < static_cast<int>(identities.size()); ++r) {
    const std::string& identity = identities[static_cast<std::size_t>(r)];
    index_of(identity);
    if (identity != own) continue;
    if (r < rank) ++topology.local_rank;
    ++topology.nproc_per_node;
    topology.local_members.push_back(r);
  }
  topology.nnodes = static_cast<int>(hosts.size());
  topology.node_rank = index_of(own);
  return topology;
}

Topology exchange_hosts(Store& store, int rank, int world_size, const ground::Deadline& deadline) {
  store.set("host/" + std::to_string(rank), host_identity() + "\n" + host_name());
  std::vector<std::string> identities, names;
  for (int r = 0; r < world_size; ++r) {
    const std::string text = store.get("host/" + std::to_string(r), deadline.left());
    const auto end = text.find('\n');
    identities.push_back(text.substr(0, end));
    names.push_back(end == std::string::npos ? std::string() : text.substr(end + 1));
  }
  return topology_of(identities, names, rank);
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
