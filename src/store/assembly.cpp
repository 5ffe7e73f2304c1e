#include "store/assembly.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "unisono/error.h"

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
