#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/record.h"

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

}  // namespace unisono::rendezvous
