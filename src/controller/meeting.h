#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "context/state.h"
#include "controller/frame.h"
#include "controller/introduction.h"
#include "unisono/detail/remote_call.h"

namespace unisono::controller {

/// The workers of a job: what all members know of them once they have met.
struct Roster {
  std::int32_t epoch = 0;               ///< how often the members have met
  int own = -1;                         ///< the number of this worker; -1: it is the controller
  std::vector<int> rank_of = {};        ///< by worker: its rank in the world of the job; -1: it is lost
  std::vector<std::string> hosts = {};  ///< by worker

  int size() const { return static_cast<int>(rank_of.size()); }
  /// Returns the workers that live, in order: their places in it are their ranks among each other.
  std::vector<int> living() const;
};

/// Has the members of the job tell each other who they are, and compares their functions. Collective over the job.
///
/// @throws Mismatch on all of them if they have different functions
Roster meet(context::State& whole, const Introduction& own, std::source_location where);

/// Makes the connections of the controller, one for each worker; null for a lost one. Every worker calls link_to_controller meanwhile.
std::vector<std::unique_ptr<FrameLink>> link_to_workers(const Roster& roster);
/// Makes this worker's connection to the controller.
std::unique_ptr<FrameLink> link_to_controller(context::State& whole);
/// Makes the world of the workers that live, of which this is one. Collective over them.
std::unique_ptr<context::State> form_workers(context::State& whole, const Roster& roster, const ControllerOptions& options);

/// Takes processes that the launcher has started in the place of lost ones into the job, which are waited for until the deadline. Collective over the
/// living members; this rank's state is another one afterwards. Returns false if none has come, and the job has only lost members then.
bool take_newcomers_in(std::chrono::milliseconds at_most);

}  // namespace unisono::controller
