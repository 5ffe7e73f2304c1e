#include "store/waiters.h"

namespace unisono::store {

const std::string* Waiters::first_missing(const std::vector<std::string>& keys, const Table& table) {
  for (const std::string& key : keys) {
    if (table.find(key) == nullptr) return &key;
  }
  return nullptr;
}

const std::string* Waiters::next_missing(Waiter& waiter, const Table& table) {
  for (; waiter.seen < waiter.keys.size(); ++waiter.seen) {
    ++looks_;
    if (table.find(waiter.keys[waiter.seen]) == nullptr) return &waiter.keys[waiter.seen];
  }
  // A key that was there may have been erased meanwhile.
  looks_ += waiter.keys.size();
  const std::string* const erased = first_missing(waiter.keys, table);
  if (erased != nullptr) waiter.seen = static_cast<std::size_t>(erased - waiter.keys.data());
  return erased;
}

std::uint64_t Waiters::park(Waiter waiter, const Table& table) {
  const std::uint64_t id = next_++;
  const std::string* missing = next_missing(waiter, table);
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
  unfile(id);
  return waiter;
}

void Waiters::unfile(std::uint64_t id) {
  const auto key = filed_under_.extract(id);
  const auto under = by_key_.find(key.mapped());
  under->second.erase(id);
  if (under->second.empty()) by_key_.erase(under);
}

void Waiters::refile(std::uint64_t id, const std::string& key) {
  unfile(id);
  by_key_[key].insert(id);
  filed_under_.emplace(id, key);
}

void Waiters::drop(std::uint64_t id) { remove(id); }

std::optional<std::pair<std::uint64_t, Waiter>> Waiters::complete(const std::string& key, const Table& table) {
  // A waiter that misses another key is filed under that key, so that each is looked at once.
  for (auto under = by_key_.find(key); under != by_key_.end(); under = by_key_.find(key)) {
    const std::uint64_t id = *under->second.begin();
    const std::string* missing = next_missing(all_.at(id), table);
    if (missing == nullptr) return std::pair(id, remove(id));
    if (*missing == key) break;
    refile(id, *missing);
  }
  return std::nullopt;
}

std::optional<std::pair<std::uint64_t, Waiter>> Waiters::expire(base::Clock::time_point now) {
  if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
  const std::uint64_t id = by_time_.begin()->second;
  return std::pair(id, remove(id));
}

}  // namespace unisono::store
