#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "unisono/call.h"

namespace unisono::group {

/// The callables with captures that all ranks of a group have tried once, by their code. Later calls are taken to be alike, whatever they have
/// captured. Any thread may use it.
class TriedCallables {
 public:
  void add(std::uint64_t code);
  /// Leaves out what the call's callable has captured, where it is known.
  void recognise(CollectiveCall& call) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::uint64_t> codes_;
};

}  // namespace unisono::group
