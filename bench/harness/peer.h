#pragma once

#include <string>
#include <vector>

#include "harness/candidate.h"

namespace unisono::bench {

/// A library that a driver is linked with.
struct PeerVersion {
  std::string name;  ///< as in --peers
  std::string version;
};

// The ranks of a driver are started by an MPI, or by unisono run: exactly one implementation of these functions is linked into it.
Place join_processes(int& argc, char**& argv);
/// Adds the peer that has started the processes, if the plan asks for it.
void add_starter(Candidates& candidates, const Plan& plan, Place place);
std::vector<PeerVersion> starters();
void leave_processes();

/// A library that measures itself in any driver, if it was found.
struct Peer {
  void (*add)(Candidates& candidates, const Plan& plan, Place place);  ///< adds its candidates that the plan asks for
  std::vector<PeerVersion> (*versions)();
};
/// Returns the peers of this driver; each adds itself before main.
inline std::vector<Peer>& peers() {
  static std::vector<Peer> all;
  return all;
}
inline std::size_t add_peer(const Peer& peer) {
  peers().push_back(peer);
  return peers().size();
}

}  // namespace unisono::bench
