#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/deadline.h"
#include "base/switches.h"
#include "store/requests.h"
#include "store/table.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {
namespace {

thread_local const base::Deadline* limit_of_thread = nullptr;

}  // namespace

store::RequestLimit::RequestLimit(std::chrono::milliseconds time)
    : deadline_(limit_of_thread == nullptr ? time : std::min(time, limit_of_thread->left())), outer_(std::exchange(limit_of_thread, &deadline_)) {}
store::RequestLimit::~RequestLimit() { limit_of_thread = outer_; }

Store::~Store() = default;

Store::Milliseconds Store::timeout() const noexcept {
  const auto own = Milliseconds(std::atomic_ref(timeout_ms_).load(std::memory_order_relaxed));
  return limit_of_thread == nullptr ? own : std::min<Milliseconds>(own, limit_of_thread->left());
}
void Store::set_timeout(Milliseconds timeout) noexcept {
  std::atomic_ref(timeout_ms_).store(base::clamped(timeout).count(), std::memory_order_relaxed);
}

}  // namespace unisono

namespace unisono::store {

/// Shows what a PrefixStore is made of, so that a store behind it is asked for many keys at once as well.
class Prefixed {
 public:
  static Store& inner(const PrefixStore& store) { return *store.inner_; }
  static const std::string& prefix(const PrefixStore& store) { return store.prefix_; }
};

std::vector<std::optional<std::string>> try_get_all(Store& store, std::span<const std::string> keys) {
  if (auto* const batched = dynamic_cast<BatchedReads*>(&store)) return batched->try_get_all(keys);
  if (const auto* const prefixed = dynamic_cast<PrefixStore*>(&store)) {
    std::vector<std::string> whole;
    whole.reserve(keys.size());
    for (const std::string& key : keys) whole.push_back(Prefixed::prefix(*prefixed) + key);
    return try_get_all(Prefixed::inner(*prefixed), whole);
  }
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(store.try_get(key));
  return values;
}

}  // namespace unisono::store

namespace unisono {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> inner) : prefix_(std::move(prefix) + "/"), inner_(std::move(inner)) {
  if (inner_ == nullptr) throw InvalidArgument("a PrefixStore was given no store");
  set_timeout(inner_->timeout());
}
PrefixStore::~PrefixStore() = default;

void PrefixStore::set(std::string_view key, std::string_view value) { inner_->set(prefix_ + std::string(key), value); }
std::string PrefixStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  return inner_->get(prefix_ + std::string(key), timeout.value_or(this->timeout()));
}
std::optional<std::string> PrefixStore::try_get(std::string_view key) { return inner_->try_get(prefix_ + std::string(key)); }
std::int64_t PrefixStore::add(std::string_view key, std::int64_t amount) { return inner_->add(prefix_ + std::string(key), amount); }

void PrefixStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  std::vector<std::string> whole;
  whole.reserve(keys.size());
  for (const std::string& key : keys) whole.push_back(prefix_ + key);
  inner_->wait(whole, timeout.value_or(this->timeout()));
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return inner_->compare_set(prefix_ + std::string(key), expected, desired);
}
bool PrefixStore::erase(std::string_view key) { return inner_->erase(prefix_ + std::string(key)); }
std::int64_t PrefixStore::num_keys() { return inner_->num_keys(); }

using base::Deadline;

struct MemoryStore::State {
  std::mutex mutex;
  std::condition_variable changed;
  store::Table table;

  template <class F>
  auto change(F&& f) {
    const std::lock_guard lock(mutex);
    auto result = f(table);
    changed.notify_all();
    return result;
  }

  // Returns with the lock held and all keys set, or throws.
  std::unique_lock<std::mutex> await(std::span<const std::string> keys, Milliseconds timeout) {
    const Deadline deadline(timeout);
    std::unique_lock lock(mutex);
    for (;;) {
      const std::vector<std::string> missing = table.missing(keys);
      if (missing.empty()) return lock;
      if (deadline.passed()) store::throw_missing("the store", missing, timeout);
      changed.wait_for(lock, base::interruptible(deadline.left()));
      base::check_interruption(lock);
    }
  }
};

MemoryStore::MemoryStore() : state_(std::make_unique<State>()) {}
MemoryStore::~MemoryStore() = default;

void MemoryStore::set(std::string_view key, std::string_view value) {
  state_->change([&](store::Table& table) {
    table.set(key, value);
    return true;
  });
}

std::string MemoryStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  const std::string name(key);
  const auto lock = state_->await({&name, 1}, timeout.value_or(this->timeout()));
  return *state_->table.find(key);
}

std::optional<std::string> MemoryStore::try_get(std::string_view key) {
  const std::lock_guard lock(state_->mutex);
  const std::string* value = state_->table.find(key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::int64_t MemoryStore::add(std::string_view key, std::int64_t amount) {
  return state_->change([&](store::Table& table) { return table.add(key, amount); });
}

void MemoryStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  state_->await(keys, timeout.value_or(this->timeout()));
}

std::string MemoryStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return state_->change([&](store::Table& table) { return table.compare_set(key, expected, desired); });
}

bool MemoryStore::erase(std::string_view key) {
  return state_->change([&](store::Table& table) { return table.erase(key); });
}

std::int64_t MemoryStore::num_keys() {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::int64_t>(state_->table.size());
}

}  // namespace unisono

namespace unisono::store {

Assembly::Assembly(Store& store, std::string name, int size) : store_(store), name_(std::move(name)), size_(size) {}

void Assembly::come(int rank, std::chrono::milliseconds timeout) {
  store_.set(key(std::to_string(rank)), "1");
  if (store_.add(key("count"), 1) == size_) store_.set(key("all"), "1");
  const std::string all = key("all");
  try {
    store_.wait({&all, 1}, timeout);
  } catch (const Timeout&) {
    const std::vector<int> absent = missing();
    if (absent.empty()) return;  // the last rank came at the last moment
    throw Timeout(fmt::format("rank {} did not come within {} ms", fmt::join(absent, ", "), timeout.count()), {.rank = rank}, absent);
  }
}

bool Assembly::has_come(int rank) const { return store_.try_get(key(std::to_string(rank))).has_value(); }

std::vector<int> Assembly::missing() const {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (!has_come(r)) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace unisono::store
