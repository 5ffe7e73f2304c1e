// Measures without an MPI: unisono run starts the ranks.

#include <stdexcept>

#include "base/environment.h"
#include "harness/candidate.h"

namespace unisono::bench {

Place join_processes(const Plan&) {
  const base::Environment& environment = base::Environment::process();
  const std::optional<int> rank = environment.get_int("RANK");
  const std::optional<int> ranks = environment.get_int("WORLD_SIZE");
  if (!rank || !ranks) throw std::runtime_error("RANK and WORLD_SIZE are not set; this program is started by unisono bench");
  return {.rank = *rank, .ranks = *ranks};
}
void add_starter(Candidates&, const Plan&, Place) {}
std::vector<PeerVersion> starters(const std::string&) { return {}; }
void leave_processes() {}

}  // namespace unisono::bench
