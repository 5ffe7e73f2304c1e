#include "store/batch.h"

namespace unisono::store {

std::vector<std::optional<std::string>> try_get_all(Store& store, std::span<const std::string> keys) {
  if (auto* const batched = dynamic_cast<BatchedReads*>(&store)) return batched->try_get_all(keys);
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(store.try_get(key));
  return values;
}

}  // namespace unisono::store
