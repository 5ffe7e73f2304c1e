#include "rendezvous/departure.h"

#include <algorithm>
#include <optional>

#include "rendezvous/join.h"

namespace unisono::rendezvous {

Departure::Departure(std::shared_ptr<Store> store, std::string seat, std::shared_ptr<Presence> presence, Owner owner)
    : owner_(owner), store_(std::move(store)), seat_(std::move(seat)), presence_(std::move(presence)) {}

void Departure::leave(std::chrono::milliseconds at_most) noexcept {
  std::call_once(once_, [&] {
    try {
      std::optional<JoinTimeout> brief;
      if (owner_ == Owner::library) brief.emplace(*store_, std::min<std::chrono::milliseconds>(store_->timeout(), at_most));
      store_->set(seat_, left_mark);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the store is gone, so there is no process left to be told
    }
    presence_.reset();
    store_.reset();
  });
}

}  // namespace unisono::rendezvous
