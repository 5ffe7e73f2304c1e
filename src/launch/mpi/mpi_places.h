#pragma once

#include <functional>
#include <string>
#include <vector>

namespace unisono::launcher {

/// Where the ranks of an MPI job are: they are counted host by host.
struct MpiPlaces {
  struct Host {
    std::string name;  ///< each another one
    int ranks = 0;
  };
  std::vector<Host> hosts = {};
  int own = 0;  ///< the index of this host

  int ranks() const { return hosts[static_cast<std::size_t>(own)].ranks; }
  int first_rank() const { return first_rank_of(own); }
  int world_size() const { return first_rank_of(static_cast<int>(hosts.size())); }
  int first_rank_of(int host) const {
    int sum = 0;
    for (int h = 0; h < host; ++h) sum += hosts[static_cast<std::size_t>(h)].ranks;
    return sum;
  }
};

/// Exchanges a text among the launchers of some hosts, by their indices, under a name that all of them use. `done` gets the texts in that order,
/// later. Null: there is one host.
using MpiExchange = std::function<void(const std::string& name, const std::vector<int>& hosts, std::string own,
                                       std::function<void(const std::vector<std::string>& texts)> done)>;

}  // namespace unisono::launcher
