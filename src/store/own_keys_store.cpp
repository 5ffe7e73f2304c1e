#include "store/own_keys_store.h"

#include <utility>

namespace unisono::store {

OwnKeysStore::OwnKeysStore(std::shared_ptr<Store> inner, AtEnd at_end) : inner_(std::move(inner)), at_end_(std::move(at_end)) {
  set_timeout(inner_->timeout());
}

OwnKeysStore::~OwnKeysStore() {
  if (at_end_) at_end_({keys_.begin(), keys_.end()});
}

// Before the request: a key may be there even where its answer is lost.
void OwnKeysStore::note(std::string_view key) {
  const std::lock_guard lock(mutex_);
  keys_.emplace(key);
}

void OwnKeysStore::set(std::string_view key, std::string_view value) {
  note(key);
  inner_->set(key, value);
}

std::int64_t OwnKeysStore::add(std::string_view key, std::int64_t amount) {
  const std::int64_t sum = inner_->add(key, amount);
  if (sum == amount) note(key);  // it was new
  return sum;
}

std::string OwnKeysStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  std::string value = inner_->compare_set(key, expected, desired);
  if (value == desired) note(key);
  return value;
}

bool OwnKeysStore::erase(std::string_view key) {
  const bool existed = inner_->erase(key);
  const std::lock_guard lock(mutex_);
  if (const auto found = keys_.find(key); found != keys_.end()) keys_.erase(found);
  return existed;
}

void OwnKeysStore::erase_own() {
  std::set<std::string, std::less<>> keys;
  {
    const std::lock_guard lock(mutex_);
    keys.swap(keys_);
  }
  for (const std::string& key : keys) inner_->erase(key);
}

}  // namespace unisono::store
