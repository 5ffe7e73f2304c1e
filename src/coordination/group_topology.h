#pragma once

#include <algorithm>
#include <vector>

namespace unisono::coordination {

/// The hosts of a group's ranks, from the view of one of its ranks. All numbers are ranks in the group unless said otherwise.
///
/// A *rail* is the set of ranks with the same place on each host. The ranks of a host combine among themselves first; then each rail combines a share
/// of the result with the other hosts, so that all ranks of a host use the network. There are as many rails as the host with the fewest ranks has
/// ranks.
struct GroupTopology {
  int rank = 0;
  std::vector<int> hosts;    ///< of every rank, the number of its host
  std::vector<int> members;  ///< the ranks of this rank's host
  int local = 0;             ///< this rank's place among them
  std::vector<int> leaders;  ///< of every host, its first rank
  int rails = 1;
  std::vector<int> places;           ///< of every rank, its place where the ranks are ordered by host
  std::vector<int> first_places{0};  ///< of every host, the place of its first rank; then the number of ranks
  std::vector<int> rail;             ///< by host, the ranks with this rank's place; empty if there is no such rail

  GroupTopology(int own, std::vector<int> hosts_of_ranks) : rank(own), hosts(std::move(hosts_of_ranks)) {
    int next_place = 0;
    const int host_count = *std::max_element(hosts.begin(), hosts.end()) + 1;
    std::vector<std::vector<int>> by_host(static_cast<std::size_t>(host_count));
    for (int r = 0; r < size(); ++r) by_host[static_cast<std::size_t>(hosts[static_cast<std::size_t>(r)])].push_back(r);
    members = by_host[static_cast<std::size_t>(host())];
    local = static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
    rails = static_cast<int>(members.size());
    places.resize(hosts.size());
    for (const auto& ranks : by_host) {
      for (const int r : ranks) places[static_cast<std::size_t>(r)] = next_place++;
      first_places.push_back(next_place);
      leaders.push_back(ranks.front());
      rails = std::min(rails, static_cast<int>(ranks.size()));
    }
    if (local < rails) {
      for (const auto& ranks : by_host) rail.push_back(ranks[static_cast<std::size_t>(local)]);
    }
  }

  int size() const { return static_cast<int>(hosts.size()); }
  int host_count() const { return static_cast<int>(leaders.size()); }
  int host() const { return hosts[static_cast<std::size_t>(rank)]; }
  int host_of(int r) const { return hosts[static_cast<std::size_t>(r)]; }
  int place_of(int r) const { return places[static_cast<std::size_t>(r)]; }
  int first_place_of(int host) const { return first_places[static_cast<std::size_t>(host)]; }
  bool here(int r) const { return host_of(r) == host(); }
  bool is_leader() const { return local == 0; }
  /// Returns the place of a rank of this host among its host's ranks.
  int local_of(int r) const { return static_cast<int>(std::find(members.begin(), members.end(), r) - members.begin()); }
  /// Returns true where there are several hosts, and ranks that can combine among themselves before they communicate with other hosts.
  bool has_levels() const { return host_count() > 1 && size() > host_count(); }
};

}  // namespace unisono::coordination
