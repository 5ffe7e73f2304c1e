// Measures without an MPI: unisono run starts the ranks.

#include <stdexcept>

#include "base/environment.h"
#include "harness/peer.h"

namespace unisono::bench {

namespace {

class PlainSet final : public ProcessSet {
 public:
  Place join(int&, char**&) override {
    const base::Environment& environment = base::Environment::process();
    const std::optional<int> rank = environment.get_int("RANK");
    const std::optional<int> ranks = environment.get_int("WORLD_SIZE");
    if (!rank || !ranks) throw std::runtime_error("RANK and WORLD_SIZE are not set; this program is started by unisono bench");
    return {.rank = *rank, .ranks = *ranks};
  }
  void add_candidates(Candidates&, const Plan&, Place) override {}
  void leave() override {}
};

}  // namespace

std::unique_ptr<ProcessSet> make_process_set() { return std::make_unique<PlainSet>(); }
std::vector<PeerVersion> process_set_peers() { return {}; }

}  // namespace unisono::bench
