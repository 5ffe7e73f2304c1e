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

}  // namespace unisono::store
