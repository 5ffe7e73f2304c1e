#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/deadline.h"
#include "rendezvous/record.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

// The join, the same over every store. Every process takes a seat: that of its rank, or the next one of those for whoever has none. The one that
// takes the last seat writes the verdict ("done") with all records in it, and everybody wakes. Whoever sees that the job cannot be (sizes or
// versions differ, time is over) writes a verdict that says so, and everybody wakes and throws it. The first verdict stands.
//
// One store or file may carry job after job: each has a generation of its own. A generation is over when its verdict was a failure, when the
// process that asks has left its seat there, or when nobody of it is alive (only a file can tell: a crashed run must not poison the next). Where
// nobody says that it has left (`complete_is_over`), it is over as soon as it is complete.

struct JoinRequest {
  Record self;
  int world_size = 1;
  std::string group_name = {};
  /// Of another process's record; empty: everybody counts as alive.
  std::function<bool(const Record&)> is_alive = {};
  /// Who comes when a generation is complete belongs to the next one: for stores in which nobody says that it has left.
  bool complete_is_over = false;
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

/// Empty: all generations that may be are over.
std::optional<Joined> join(Store& store, const JoinRequest& request, const ground::Deadline& deadline);

}  // namespace unisono::rendezvous
