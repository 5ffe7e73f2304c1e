#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/join_request.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

// The join, equal over every store. Every process takes a seat: that of its rank, or the next one of those for processes without a rank. The process
// that takes the last seat writes the verdict ("done") with all records in it, and all others wake. A process that finds the job impossible (sizes or
// versions differ, time is over) writes a verdict with the reason, and all others wake and throw it. The first verdict counts.
//
// A store or file may be used for job after job: each has a generation of its own. A generation is over when its verdict was a failure, when the
// asking process has left its seat there, or when none of its processes is alive (which only a file can tell, so that a crashed run does not block
// the next).
//
// A store that outlives its processes, as that of torchrun's agent does across restarts, holds seats of dead processes, and these have not left.
// There a generation is over as soon as it has any verdict. A process that finds its own seat taken by an earlier process that has ended abandons the
// generation, and all processes that still live in it go on to the next. The seats alone form no job there: the last process to come writes a list of
// them, and the job is complete when all processes in the list have confirmed it.

struct Joined {
  int rank = 0;
  std::vector<Member> members;
  std::string prefix;  ///< of this generation's keys; the job may use it as well
  std::string seat;    ///< set to `left` when the process is done with the job
  int generation = 1;
  std::string next;  ///< the first key of the next generation: once it is there, this one counts as over
};

/// Returns the ranks of the first generation that have not come yet.
std::vector<int> missing_ranks(Store& store, const JoinRequest& request);

/// Joins the job. Empty: all allowed generations are over. Every process makes a handful of calls. One of them reads all seats, in a call for many of
/// them where the store has such calls (store/batch.h).
std::optional<Joined> join(Store& store, const JoinRequest& request, const base::Deadline& deadline);

}  // namespace unisono::rendezvous
