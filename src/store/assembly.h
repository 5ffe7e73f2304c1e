#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "unisono/store.h"

namespace unisono::store {

/// Lets the ranks of a group announce themselves in a store and wait for each other. Each rank makes four requests, however many ranks there are.
class Assembly {
 public:
  /// `name`: differs from that of every other assembly in the store.
  Assembly(Store& store, std::string name, int size);

  /// Announces this rank, which happens once, and waits for all. Throws Timeout, which names the missing ranks.
  void come(int rank, std::chrono::milliseconds timeout);
  bool has_come(int rank) const;
  std::vector<int> missing() const;

 private:
  std::string key(const std::string& of) const { return name_ + "/" + of; }

  Store& store_;
  std::string name_;
  int size_;
};

}  // namespace unisono::store
