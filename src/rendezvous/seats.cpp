#include "rendezvous/seats.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "store/batch.h"

namespace unisono::rendezvous {

Seat Seats::with(std::string key, const std::optional<std::string>& text) const {
  Seat seat{std::move(key), {}};
  if (!text) return seat;
  seat.left = *text == left_mark;
  if (seat.left) return seat;
  seat.record = decode(*text);
  seat.alive = !request_.is_alive || seat.record->nonce == request_.self.nonce || request_.is_alive(*seat.record);
  return seat;
}

Seat Seats::of_rank(int rank) {
  std::string key = key_of(prefix_, rank);
  const auto text = store_.try_get(key);
  return with(std::move(key), text);
}

std::vector<Seat> Seats::all() {
  // Another size may have been agreed on. Its seats count as well in the search for living processes.
  int size = request_.world_size;
  if (const auto world = store_.try_get(prefix_ + "world")) size = std::max(size, std::atoi(world->c_str()));
  const auto open = std::atoll(store_.try_get(prefix_ + "autos").value_or("0").c_str());
  std::vector<std::string> keys;
  for (int r = 0; r < size; ++r) keys.push_back(key_of(prefix_, r));
  for (std::int64_t k = 0; k < open; ++k) keys.push_back(fmt::format("{}auto/{}", prefix_, k));
  const auto texts = store::try_get_all(store_, keys);
  std::vector<Seat> all;
  for (std::size_t i = 0; i < keys.size(); ++i) all.push_back(with(std::move(keys[i]), texts[i]));
  return all;
}

bool Seats::are_deserted() {
  const auto seats = all();
  const auto taken = std::ranges::count_if(seats, [](const Seat& seat) { return seat.record || seat.left; });
  return taken > 0 && std::ranges::none_of(seats, &Seat::alive);
}

std::vector<std::optional<Record>> Seats::assign() {
  std::vector<std::optional<Record>> by_rank(static_cast<std::size_t>(request_.world_size));
  for (Seat& seat : all()) {
    if (!seat.alive) continue;
    const int rank = seat.record->member.rank;
    auto place = by_rank.begin();
    if (rank >= 0) {
      place += std::min(rank, request_.world_size);
    } else {
      place = std::ranges::find_if(by_rank, [](const auto& taken) { return !taken; });
    }
    if (place == by_rank.end()) continue;
    seat.record->member.rank = static_cast<int>(place - by_rank.begin());
    *place = std::move(seat.record);
  }
  return by_rank;
}

}  // namespace unisono::rendezvous
