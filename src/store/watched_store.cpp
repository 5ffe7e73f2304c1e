#include "store/watched_store.h"

#include <algorithm>

#include "store/waiting.h"
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

}  // namespace unisono::store
