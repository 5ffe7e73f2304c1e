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

/// Starts the ranks of this driver: by an MPI, or by unisono run. Exactly one is linked into a driver.
class ProcessSet {
 public:
  virtual ~ProcessSet() = default;
  virtual Place join(int& argc, char**& argv) = 0;
  /// Adds the peer that starts the processes, if the plan asks for it.
  virtual void add_candidates(Candidates& candidates, const Plan& plan, Place place) = 0;
  virtual void leave() = 0;
};

std::unique_ptr<ProcessSet> make_process_set();
std::vector<PeerVersion> process_set_peers();

/// Adds Gloo, or nothing where the driver was built without it.
void add_gloo(Candidates& candidates, const Plan& plan, Place place);
std::vector<PeerVersion> gloo_peers();

/// Adds UCX and the engine over it, or nothing where the driver was built without UCX.
void add_ucx(Candidates& candidates, const Plan& plan, Place place);
std::vector<PeerVersion> ucx_peers();

}  // namespace unisono::bench
