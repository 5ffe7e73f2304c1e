#include "context/formed_groups.h"

#include <chrono>

#include <fmt/format.h>

#include "base/log.h"
#include "store/wrappers.h"

namespace unisono::context {

std::shared_ptr<Store> FormedGroups::part_for(const std::string& members, int number, const std::string& prefix) const {
  return std::make_shared<store::OwnKeysStore>(std::make_shared<PrefixStore>(prefix, store_),
                                               [left = left_keys_, members, number, prefix](std::vector<std::string>&& keys) {
                                                 for (std::string& key : keys) key = prefix + "/" + key;  // as PrefixStore does
                                                 left->leave(members, number, std::move(keys));
                                               });
}

void FormedGroups::erase_left_keys(const std::string& members, int number) const {
  for (const std::string& key : left_keys_->take_before(members, number)) store_->erase(key);
}

void FormedGroups::add(const std::shared_ptr<group::Group>& group) {
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

std::vector<std::shared_ptr<group::Group>> FormedGroups::open() const {
  std::vector<std::shared_ptr<group::Group>> open;
  for (const auto& member : groups_) {
    if (auto group = member.lock()) open.push_back(std::move(group));
  }
  return open;
}

void log_group(const ProcessGroup& group) {
  const auto& facts = group.implementation()->facts();
  base::debug(fmt::format("group {}: rank {} of {}, engine {}, timeout {} s; compared: operation, dtype, count, op, root{}", group.name(),
                          group.rank(), group.size(), group.backend(), std::chrono::duration_cast<std::chrono::seconds>(facts.timeout()).count(),
                          facts.compares_shapes() ? ", shape" : ""));
}

}  // namespace unisono::context
