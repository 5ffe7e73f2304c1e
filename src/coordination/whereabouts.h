#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "coordination/wait_chains.h"

namespace unisono::coordination {

/// Larger groups tell nothing: their ranks would wait for one late rank, and all of them would tell it so.
inline constexpr int most_ranks_that_tell = 64;

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
