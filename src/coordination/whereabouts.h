#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"

namespace unisono::coordination {

/// Larger groups tell nothing: their ranks would wait for one late rank, and all of them would tell it so.
inline constexpr int most_ranks_that_tell = 64;

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

/// The calls in which ranks of other hosts wait, as they have told: "is in recv #3 of world (train.cpp:57)". A rank that waits for long tells those
/// for which it waits, so that the error of the one names the call of the other, which may be in another group. All groups of a process share an
/// object. Any thread may call.
class Whereabouts {
 public:
  /// Keeps what the rank of the world says.
  void take(int global_rank, std::string_view text);
  /// Returns what the rank has said last; empty where it has said nothing lately, and so may have gone on. `now`: the present.
  std::string of(int global_rank, base::Clock::time_point now = base::Clock::now()) const;
  /// Returns what ranks have told of the waits of several.
  WaitChains& chains() { return chains_; }

 private:
  struct Said {
    std::string text;
    base::Clock::time_point at;
  };
  mutable std::mutex mutex_;
  std::map<int, Said> said_;
  WaitChains chains_;
};

}  // namespace unisono::coordination
