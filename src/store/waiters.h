#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "store/table.h"

namespace unisono::store {

/// A parked get or wait request.
struct Waiter {
  std::uint64_t session = 0;
  std::uint64_t request = 0;
  bool wants_value = false;  ///< it is a get of its only key
  std::vector<std::string> keys;
  base::Clock::time_point expires;

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string& key : keys) sum += sizeof key + key.size();  // NOLINT(bugprone-sizeof-container): both
    return sum;
  }
};

/// The requests that wait for keys. Each is filed under the first key it misses and is looked at again only when that key is set.
class Waiters {
 public:
  std::uint64_t park(Waiter waiter, const Table& table);
  void drop(std::uint64_t id);
  /// Removes and returns a waiter that `key`, which was just set, completes.
  std::optional<std::pair<std::uint64_t, Waiter>> complete(const std::string& key, const Table& table);
  /// Removes and returns a waiter whose time is over at `now`.
  std::optional<std::pair<std::uint64_t, Waiter>> expire(base::Clock::time_point now);
  base::Clock::time_point next_expiry() const { return by_time_.empty() ? base::Clock::time_point::max() : by_time_.begin()->first; }
  std::size_t size() const { return all_.size(); }

  static const std::string* first_missing(const std::vector<std::string>& keys, const Table& table);

 private:
  Waiter remove(std::uint64_t id);
  void unfile(std::uint64_t id);
  void refile(std::uint64_t id, const std::string& key);

  std::unordered_map<std::uint64_t, Waiter> all_;
  std::unordered_map<std::uint64_t, std::string> filed_under_;
  std::unordered_map<std::string, std::set<std::uint64_t>> by_key_;
  std::set<std::pair<base::Clock::time_point, std::uint64_t>> by_time_;
  std::uint64_t next_ = 1;
};

}  // namespace unisono::store
