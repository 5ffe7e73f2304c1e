#pragma once

#include <chrono>

#include "base/deadline.h"

namespace unisono::store {

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
