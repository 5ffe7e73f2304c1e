#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/notifier.h"

namespace unisono::group {

/// A way of waiting on a machine that may have fewer processors than ranks: it spins a little, gives way a little, then sleeps until a peer notifies.
/// On a processor of one's own a flag arrives within a spin (a wake-up costs 25 µs); on a shared one a spinning rank only keeps away the rank
/// it waits for, so it gives way almost at once.
class Backoff {
 public:
  /// `looks_far`: a look is a system call, on connections, instead of a read of memory. `neighbours`: of a rank with a processor of its own, which
  /// gives way almost at once as well while the system has put another rank on the same one; null: that is not looked for.
  Backoff(base::Notifier* notifier, bool crowded, bool looks_far = false, base::Neighbours* neighbours = nullptr)
      : notifier_(notifier),
        neighbours_(crowded ? nullptr : neighbours),
        spins_(!crowded    ? neighbours == nullptr            ? many_spins
                             : neighbours->shared_processor() ? few_spins
                                                              : spins_before_asking
               : looks_far ? far_spins
                           : few_spins),
        yields_(crowded ? crowded_yields : many_yields),
        crowded_(crowded) {}

  /// Makes one for a thread that works beside the caller, from which it must not take the processor.
  static Backoff modest(base::Notifier* notifier) {
    Backoff backoff(notifier, true);
    backoff.spins_ = few_spins;
    backoff.yields_ = modest_yields;
    return backoff;
  }

  /// Waits a moment; `look_again` is asked once more before sleeping, and if it says that something has happened, there is no sleep.
  template <class LookAgain>
  void pause(LookAgain&& look_again, std::chrono::nanoseconds at_most) {
    pause(look_again, at_most, [](std::chrono::nanoseconds) { return false; });
  }
  /// The same for something that may have an event of its own: `sleep_there` sleeps on it, or returns false at once.
  template <class LookAgain, class SleepThere>
  void pause(LookAgain&& look_again, std::chrono::nanoseconds at_most, SleepThere&& sleep_there) {
    ++count_;
    if (count_ <= spins_ || goes_on_spinning()) {
      base::relax();
    } else if (count_ <= spins_ + yields_) {
      give_way();
      if (crowded_) notice_futility();
    } else if (sleep_there(at_most)) {
      count_ = spins_ + yields_;
    } else {
      sleep(look_again, at_most);
    }
  }
  /// Waits as the next pause would, where that spins; false, at once, where it would not.
  bool spin() {
    if (count_ >= spins_ && !goes_on_spinning()) return false;
    ++count_;
    base::relax();
    return true;
  }
  bool is_spinning() const { return count_ <= spins_; }
  bool is_sleeping() const { return count_ > spins_ + yields_; }
  /// Begins anew, after something has happened: the next thing may come soon.
  void reset() { count_ = 0; }

 private:
  static constexpr std::uint32_t spins_before_asking = 100;  // a few microseconds
  static constexpr std::uint32_t far_spins = 1, few_spins = 3, many_spins = 3000;
  static constexpr std::uint32_t modest_yields = 10, crowded_yields = 500, many_yields = 1000;
  // Giving way that comes back at once gives way to nobody: the rank that is waited for runs elsewhere, or the kernel keeps it in another group of
  // tasks.
  static constexpr std::uint32_t trial = 100;
  // Where each way takes long, hundreds of ranks share the processor and all give way to each other: none of them would sleep for a second.
  static constexpr std::uint32_t first_trial = 10;
  static constexpr std::chrono::microseconds longest_way{500};
  static constexpr std::chrono::microseconds shortest_way{1};    // that a useful one takes
  static constexpr std::chrono::microseconds longest_rest{200};  // where nobody notifies
  void notice_futility() noexcept {
    const std::uint32_t ways = count_ - spins_;
    if (ways == 1) first_yield_ = std::chrono::steady_clock::now();
    if (ways != first_trial && ways != trial) return;
    const auto taken = std::chrono::steady_clock::now() - first_yield_;
    if (ways == trial ? taken < trial * shortest_way : taken > first_trial * longest_way) count_ = spins_ + yields_;
  }
  /// Asks once, after the first spins, whether a neighbour is on this processor. Where none is, there are as many spins as without neighbours.
  bool goes_on_spinning() noexcept {
    if (neighbours_ == nullptr) return false;
    base::Neighbours* const neighbours = std::exchange(neighbours_, nullptr);
    if (neighbours->share_processor()) return false;
    spins_ = many_spins;
    return true;
  }
  static void give_way() noexcept { ::sched_yield(); }
  static void rest(std::chrono::nanoseconds duration) noexcept {
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(duration.count())};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  }

  template <class LookAgain>
  void sleep(LookAgain&& look_again, std::chrono::nanoseconds at_most) {
    if (notifier_ == nullptr) {  // nobody notifies
      rest(std::min<std::chrono::nanoseconds>(at_most, longest_rest));
      return;
    }
    const std::uint32_t seen = notifier_->prepare_wait();
    struct Finish {
      base::Notifier* notifier;
      ~Finish() { notifier->finish_wait(); }
    } finish{notifier_};
    const bool has_fenced = base::AsymmetricFence::heavy();
    if (look_again()) return;
    if (!has_fenced && at_most > base::Notifier::settling_time) {
      notifier_->wait(seen, base::Notifier::settling_time);
      if (look_again()) return;
    }
    notifier_->wait(seen, at_most);
    count_ = spins_;  // notified, perhaps for another caller: give way for a while before the next sleep
  }

  base::Notifier* notifier_;
  base::Neighbours* neighbours_;  // that have not been asked
  std::uint32_t spins_;
  std::uint32_t yields_;
  bool crowded_;
  std::uint32_t count_ = 0;
  std::chrono::steady_clock::time_point first_yield_{};
};

}  // namespace unisono::group
