#include "context/goodbye.h"

#include <exception>
#include <vector>

#include "base/log.h"
#include "store/wrappers.h"

namespace unisono::context {

std::string world_prefix(const rendezvous::JobIdentity& identity) { return "unisono/world/" + std::to_string(identity.generation) + "/"; }

Goodbye::Goodbye(const rendezvous::JobIdentity& identity, const Terms& terms)
    : store_(identity.store),
      rank_(identity.rank),
      world_size_(identity.world_size),
      serves_store_(identity.serves_store),
      leave_job_(identity.leave) {
  if (terms.are_job && identity.world_size > 1 && identity.store != identity.launcher_store) key_ = world_prefix(identity) + "goodbye/";
}

void Goodbye::say(const base::Deadline& deadline, const std::function<void(std::span<const int> others)>& look) const {
  if (key_.empty()) return;
  try {
    if (!serves_store_) return store_->set(key_ + std::to_string(rank_), "1");
    std::vector<std::string> keys;
    std::vector<int> others;
    for (int r = 0; r < world_size_; ++r) {
      if (r == rank_) continue;
      keys.push_back(key_ + std::to_string(r));
      others.push_back(r);
    }
    store::WatchedStore watched(store_, [&] { look(others); });
    watched.wait(keys, deadline.left());
  } catch (const std::exception& error) {
    // A late rank finds the store gone, and needed it only for its goodbye. Stores of the user's may throw any exception.
    base::log(base::LogLevel::debug, error.what());
  }
}

}  // namespace unisono::context
