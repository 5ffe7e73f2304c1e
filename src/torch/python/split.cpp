// Groups that are made of the ranks of another one.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "torch/python/named_group.h"
#include "torch/python/process_group.h"
#include "torch/python/versions.h"

namespace unisono::libtorch {

c10::intrusive_ptr<c10d::Backend> ProcessGroupUnisono::split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                                             const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto place = std::ranges::find(ranks, getRank());
  if (place == ranks.end()) return nullptr;
  // Torch asks once for each type of device. One group serves them all, as in the first call.
  std::string key = fmt::format("{} {}", options ? group_name_of(*options) : "", fmt::join(ranks, ","));
  if (auto same = last_split_.lock(); same && key == last_split_key_) return same;
  auto part = merge(place_of_group(ranks.front(), store), options, static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()));
  last_split_ = c10::weak_intrusive_ptr<c10d::Backend>(part);
  last_split_key_ = std::move(key);
  return part;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupUnisono::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                             const c10::intrusive_ptr<c10d::Backend::Options>& options, const int& rank,
                                                             const int& size) {
  auto own = c10::make_intrusive<Options>(options_->backend, options ? options->timeout : options_->timeout);
  own->library = options_->library;
  if (options) {
    own->name = group_name_of(*options);
    describe_group(*own, *options);
  }
  const std::string name = own->name;
  auto merged = c10::make_intrusive<ProcessGroupUnisono>(copy_of(store), rank, size, std::move(own), engine_);
  NamedGroup::add(name, merged);
  return merged;
}

}  // namespace unisono::libtorch
