#include "store/wrappers.h"

#include <algorithm>
#include <utility>

#include "store/table.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {
constexpr auto period = std::chrono::milliseconds(100);  ///< between two looks
/// A wait looks less and less often: each look of its ends its request and makes another one, and thousands of ranks may wait at one store.
constexpr auto longest_slice = std::chrono::milliseconds(1000);
}  // namespace

WatchedStore::WatchedStore(std::shared_ptr<Store> inner, std::function<void()> look) : inner_(std::move(inner)), look_(std::move(look)) {
  set_timeout(inner_->timeout());
}
WatchedStore::~WatchedStore() = default;

void WatchedStore::look() {
  {
    const std::lock_guard lock(mutex_);
    const auto now = base::Clock::now();
    if (now < next_look_) return;
    next_look_ = now + period;
  }
  look_();
}

template <class Attempt>
auto WatchedStore::in_slices(std::span<const std::string> keys, std::optional<Milliseconds> timeout, Attempt&& attempt) {
  const base::Deadline deadline(timeout.value_or(this->timeout()));
  for (Milliseconds slice = period;; slice = std::min<Milliseconds>(2 * slice, longest_slice)) {
    try {
      return attempt(std::min<Milliseconds>(slice, deadline.left()));
    } catch (const Timeout&) {
      look();
      if (deadline.passed()) throw_missing("the job's store", keys, deadline.timeout());
    }
  }
}

std::string WatchedStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const std::string name(key);
  return in_slices({&name, 1}, timeout, [&](Milliseconds slice) { return inner_->get(key, slice); });
}

std::optional<std::string> WatchedStore::try_get(std::string_view key) {
  look();
  return inner_->try_get(key);
}

std::vector<std::optional<std::string>> WatchedStore::try_get_all(std::span<const std::string> keys) {
  look();
  return store::try_get_all(*inner_, keys);
}

void WatchedStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  in_slices(keys, timeout, [&](Milliseconds slice) { inner_->wait(keys, slice); });
}

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
