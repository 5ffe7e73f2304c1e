#include "store/waiters.h"

namespace unisono::store {

const std::string* Waiters::first_missing(const std::vector<std::string>& keys, const Table& table) {
  for (const std::string& key : keys) {
    if (table.find(key) == nullptr) return &key;
  }
  return nullptr;
}

std::uint64_t Waiters::park(Waiter waiter, const Table& table) {
  const std::uint64_t id = next_++;
  const std::string* missing = first_missing(waiter.keys, table);
  const std::string key = missing == nullptr ? std::string() : *missing;
  by_key_[key].insert(id);
  by_time_.emplace(waiter.expires, id);
  filed_under_.emplace(id, key);
  all_.emplace(id, std::move(waiter));
  return id;
}

Waiter Waiters::remove(std::uint64_t id) {
  Waiter waiter = std::move(all_.at(id));
  all_.erase(id);
  by_time_.erase({waiter.expires, id});
  const auto key = filed_under_.extract(id);
  const auto under = by_key_.find(key.mapped());
  under->second.erase(id);
  if (under->second.empty()) by_key_.erase(under);
  return waiter;
}

void Waiters::drop(std::uint64_t id) { remove(id); }

std::vector<Waiter> Waiters::complete(const std::string& key, const Table& table, std::vector<std::uint64_t>& ids) {
  std::vector<Waiter> done;
  const auto under = by_key_.find(key);
  if (under == by_key_.end()) return done;
  const std::set<std::uint64_t> candidates = under->second;
  for (const std::uint64_t id : candidates) {
    const std::string* missing = first_missing(all_.at(id).keys, table);
    if (missing == nullptr) {
      ids.push_back(id);
      done.push_back(remove(id));
    } else if (*missing != key) {
      by_key_[*missing].insert(id);
      filed_under_[id] = *missing;
      by_key_[key].erase(id);
    }
  }
  const auto rest = by_key_.find(key);
  if (rest != by_key_.end() && rest->second.empty()) by_key_.erase(rest);
  return done;
}

std::optional<std::pair<std::uint64_t, Waiter>> Waiters::expire(ground::Clock::time_point now) {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  const std::uint64_t id = by_time_.begin()->second;
  return std::pair(id, remove(id));
}

}  // namespace unisono::store
