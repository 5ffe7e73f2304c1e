#include "transport/tcp/membership.h"

namespace unisono::transport {

bool Membership::record(const Departure& departure) {
  Absence& absence = absences_[static_cast<std::size_t>(departure.rank)];
  if (departure.rank == rank_ || absence != Absence::none) return false;
  absence = departure.lost ? Absence::lost : Absence::left;
  departures_.emplace(departure.rank, departure);
  return true;
}

std::vector<int> Membership::adopted_from(int rank) const {
  std::vector<int> orphans = tree_.orphans_of(rank, [this](int other) { return is_gone(other); });
  std::erase_if(orphans, [this](int orphan) { return orphan == rank_ || parent_of(orphan) != rank_; });
  return orphans;
}

}  // namespace unisono::transport
