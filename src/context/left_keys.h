#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace unisono::context
