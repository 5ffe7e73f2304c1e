#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "unisono/store.h"

namespace unisono::store {

/// A store that answers for many keys at once.
class BatchedReads {
 public:
  virtual ~BatchedReads() = default;
  /// Returns the values of those keys that exist now.
  virtual std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) = 0;
};

/// Returns the values of those keys that exist now, by few requests where the store has them answered together.
std::vector<std::optional<std::string>> try_get_all(Store& store, std::span<const std::string> keys);

/// Gives all calls of this thread on stores that have no deadline of their own one in common, for its lifetime: a step of many requests takes no
/// longer than one of them, where the store does not answer. A limit within another one does not go beyond it. The deadlines of the stores hold where
/// they are shorter.
class RequestLimit {
 public:
  explicit RequestLimit(std::chrono::milliseconds time);
  ~RequestLimit();
  RequestLimit(const RequestLimit&) = delete;
  RequestLimit& operator=(const RequestLimit&) = delete;

 private:
  const base::Deadline deadline_;
  const base::Deadline* const outer_;
};

/// Lets the ranks of a group announce themselves in a store and wait for each other. Each rank makes four requests, however many ranks there are.
class Assembly {
 public:
  /// `name`: differs from that of every other assembly in the store.
  Assembly(Store& store, std::string name, int size);

  /// Announces this rank, which happens once, and waits for all. Throws Timeout, which names the missing ranks.
  void come(int rank, std::chrono::milliseconds timeout);
  bool has_come(int rank) const;
  std::vector<int> missing() const;

 private:
  std::string key(const std::string& of) const { return name_ + "/" + of; }

  Store& store_;
  std::string name_;
  int size_;
};

}  // namespace unisono::store
