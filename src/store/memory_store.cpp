#include <condition_variable>
#include <mutex>

#include "base/deadline.h"
#include "base/interruption.h"
#include "store/table.h"
#include "store/waiting.h"
#include "unisono/store.h"

namespace unisono {

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
      std::vector<std::string> missing;
      for (const std::string& key : keys) {
        if (table.find(key) == nullptr) missing.push_back(key);
      }
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
