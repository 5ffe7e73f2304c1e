#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/record.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

// The join, the same over every store. Every process takes a seat: that of its rank, or the next one of those for whoever has none. The one that
// takes the last seat writes the verdict ("done") with all records in it, and everybody wakes. Whoever sees that the job cannot be (sizes or
// versions differ, time is over) writes a verdict that says so, and everybody wakes and throws it. The first verdict stands.
//
// One store or file may carry job after job: each has a generation of its own. A generation is over when its verdict was a failure, when the
// process that asks has left its seat there, or when nobody of it is alive (only a file can tell: a crashed run must not poison the next).
//
// A store that outlives its processes, as torchrun's agent keeps one across restarts, holds seats of dead processes, and nobody says that it has
// left. There a generation is over as soon as it has any verdict; who finds its own seat taken by a process that is over with abandons the
// generation, and all who still live in it go on to the next; and taken seats are no job yet: the last one to come writes a list of them, and the job
// is complete when all in the list have read it and said so.

struct JoinRequest {
  Record self;
  int world_size = 1;
  std::string group_name = {};
  /// Of another process's record; empty: everybody counts as alive.
  std::function<bool(const Record&)> is_alive = {};
  bool store_outlives_processes = false;
  /// In such a store, of the process that has this one's seat: whether it is over with it. False: this process is the second one.
  std::function<bool(const Record&)> is_over = {};
  int most_generations = 0;                                                                        ///< 0: any number
  std::string_view who = "rank", size = "world size", size_option = "WORLD_SIZE, or world_size,";  ///< as messages call them
};

struct Joined {
  int rank = 0;
  std::vector<Member> members;
  std::string prefix;  ///< where this generation's keys are; free for the job's own ones
  std::string seat;    ///< set it to `left` when the process is done with the job
  int generation = 1;
};

inline constexpr std::string_view left_mark = "left";

/// Which of the ranks of the first generation have not come yet.
std::vector<int> missing_ranks(Store& store, const JoinRequest& request);

/// Empty: all generations that may be are over. A store that outlives its processes takes a handful of calls of each process, and of one of them a
/// call for each seat.
std::optional<Joined> join(Store& store, const JoinRequest& request, const base::Deadline& deadline);

}  // namespace unisono::rendezvous
