#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"

namespace unisono::coordination {

/// The chains of waits that ranks of other hosts have sent to this one, as bytes (group/progress/waiter.cpp). All groups of a process share an
/// object. Any thread may call.
class WaitChains {
 public:
  /// Keeps a chain that has come. If there are more than 64, the oldest are dropped.
  void take(std::string_view chain);
  /// Returns the chains that have come lately, each once.
  std::vector<std::string> fetch();
  /// Returns true if it is time that this rank, which has waited for so long in a call, sends its chain. Towards the deadline that is more often.
  bool is_due(std::chrono::nanoseconds elapsed, std::chrono::nanoseconds timeout);
  /// Keeps the chain from this rank that has led back to it.
  void keep_circle(std::string chain);
  /// Returns the last one; empty if there was none lately. `now`: the present.
  std::string circle(base::Clock::time_point now = base::Clock::now()) const;

 private:
  struct Chain {
    std::string bytes;
    base::Clock::time_point at;
  };
  mutable std::mutex mutex_;
  std::vector<Chain> received_;
  Chain circle_;
  base::Clock::time_point sent_{};
};

}  // namespace unisono::coordination
