#include "store/batch.h"

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
