#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/join_request.h"
#include "unisono/store.h"

namespace unisono::rendezvous {

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

}  // namespace unisono::rendezvous
