#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "group/group.h"
#include "group/group_core.h"
#include "store/wrappers.h"
#include "unisono/process_group.h"
#include "unisono/store.h"

namespace unisono::context {

/// The keys that this rank made for groups which it has given up, until it may erase them. Groups of the same members are formed in the same order on
/// all of them: once all have come to form a later one, none forms an earlier one any more, and nobody reads the keys of a rank that has left a
/// group.
class LeftKeys {
 public:
  /// Takes over the keys of a group: the `number`-th of these members.
  void leave(const std::string& members, int number, std::vector<std::string>&& keys) {
    const std::lock_guard lock(mutex_);
    auto& left = of_members_[members];
    for (std::string& key : keys) left.emplace_back(number, std::move(key));
  }
  /// Returns the keys of all earlier groups than the `number`-th of these members, which have all come to form that one.
  std::vector<std::string> take_before(const std::string& members, int number) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    auto& left = of_members_[members];
    std::erase_if(left, [&](auto& one) {
      if (one.first >= number) return false;
      keys.push_back(std::move(one.second));
      return true;
    });
    return keys;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::pair<int, std::string>>> of_members_;
};

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
