#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "unisono/store.h"

namespace unisono::store {

/// A place in a store where the ranks of a group say that they have come, and wait for each other. Each makes four requests, however many they are.
class Assembly {
 public:
  /// `name`: of no other assembly in that store.
  Assembly(Store& store, std::string name, int size);

  /// Says that this rank has come, once, and waits for all. Throws Timeout, which says who is missing.
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
