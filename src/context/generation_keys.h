#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "store/wrappers.h"

namespace unisono::context {

/// The keys that this process has made in the job's store for its world, for worlds that were to follow and were given up, and for the world before.
class GenerationKeys {
 public:
  using Stores = std::vector<std::shared_ptr<store::OwnKeysStore>>;

  void add(std::shared_ptr<store::OwnKeysStore> keys) { own_.push_back(std::move(keys)); }
  /// Makes the keys of the world before this one those of `before`. Returns what that one had of a world before: all its readers are gone.
  Stores follow(GenerationKeys& before) {
    before_ = std::exchange(before.own_, {});
    return std::exchange(before.before_, {});
  }

 private:
  Stores own_, before_;
};

}  // namespace unisono::context
