#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "context/left_keys.h"
#include "group/group.h"
#include "group/group_core.h"
#include "unisono/process_group.h"
#include "unisono/store.h"

namespace unisono::context {

/// Makes this rank's core of a group. `backend` is the name asked for; empty stands for the world's.
using CoreMaker = std::function<std::unique_ptr<group::GroupCore>(const group::CoreOptions&, const std::string& backend)>;

/// The groups that this process forms beside its world: where members meet, which groups there have been, and which may still be open.
class FormedGroups {
 public:
  /// `store`: where groups are formed; null in a world of one.
  FormedGroups(std::shared_ptr<Store> store = nullptr, CoreMaker make_core = {}) : store_(std::move(store)), make_core_(std::move(make_core)) {}

  const std::shared_ptr<Store>& store() const { return store_; }
  std::unique_ptr<group::GroupCore> make_core(const group::CoreOptions& options, const std::string& backend) const {
    return make_core_(options, backend);
  }
  /// Returns how many groups of these members were counted before, and counts one more.
  int count(const std::string& members) { return counts_[members]++; }
  /// Returns the part of the store with this prefix, for the `number`-th group of these members. What this rank puts there is erased when it is of no
  /// use any more.
  std::shared_ptr<Store> part_for(const std::string& members, int number, const std::string& prefix) const;
  /// Erases what this rank has left of earlier groups than the `number`-th of these members, all of whom have come to that one.
  void erase_left_keys(const std::string& members, int number) const;

  void add(const std::shared_ptr<group::Group>& group);
  /// Returns the groups that may still be open.
  std::vector<std::shared_ptr<group::Group>> open() const;
  std::size_t known() const { return groups_.size(); }

 private:
  std::shared_ptr<Store> store_;
  CoreMaker make_core_;
  std::map<std::string, int> counts_;
  std::shared_ptr<LeftKeys> left_keys_ = std::make_shared<LeftKeys>();
  std::vector<std::weak_ptr<group::Group>> groups_;
};

/// Logs one line with what was decided for a group.
void log_group(const ProcessGroup& group);

}  // namespace unisono::context
