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

/// A request to join a job over a store (join.h).
struct JoinRequest {
  Record self;
  int world_size = 1;
  std::string group_name = {};
  std::string library = {};  ///< of the caller: compared with the version of unisono
  /// Returns true while the process of a record is alive; empty: all count as alive.
  std::function<bool(const Record&)> is_alive = {};
  bool store_outlives_processes = false;
  /// Used with such a store for the process that has this one's seat: returns true where it has ended. False: this process is a second one with the
  /// same rank.
  std::function<bool(const Record&)> is_over = {};
  int most_generations = 0;                                                                        ///< 0: any number
  std::string hint_where_missing = "were all of them started, and can they reach the store?";      ///< of the Timeout
  std::string_view who = "rank", size = "world size", size_option = "WORLD_SIZE, or world_size,";  ///< words for messages
};

/// What a process writes into its seat when it is done with the job.
inline constexpr std::string_view left_mark = "left";

struct Seat {
  std::string key;
  std::optional<Record> record;  ///< empty: the seat is free
  bool left = false, alive = false;
};

/// The seats of a generation (join.h), and who sits there.
class Seats {
 public:
  /// `prefix`: of the generation's keys.
  Seats(Store& store, const JoinRequest& request, std::string prefix) : store_(store), request_(request), prefix_(std::move(prefix)) {}

  static std::string key_of(const std::string& prefix, int rank) { return prefix + "rank/" + std::to_string(rank); }

  Seat of_rank(int rank);
  /// Returns the ranks' seats first, then the seats of processes without a rank, in their order.
  std::vector<Seat> all();
  /// Returns true where processes have come, and none of them lives.
  bool are_deserted();
  /// Returns the present processes by rank; those without a rank fill the gaps in the order of arrival.
  std::vector<std::optional<Record>> assign();

 private:
  Seat with(std::string key, const std::optional<std::string>& text) const;

  Store& store_;
  const JoinRequest& request_;
  const std::string prefix_;
};

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
/// them where the store has such calls (store/requests.h).
std::optional<Joined> join(Store& store, const JoinRequest& request, const base::Deadline& deadline);

}  // namespace unisono::rendezvous
