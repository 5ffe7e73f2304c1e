#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace unisono::store
