#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "coordination/coordination.h"
#include "unisono/error.h"
#include "unisono/failure.h"
#include "unisono/task.h"

namespace unisono::coordination {

/// Finds out why an engine failed. An engine's exception tells what happened to it, and seldom why: most often a peer has died, which the group
/// notices a moment later. So the exception is held back for that time. Then a GroupFailure is thrown that names the lost peer, or has the engine's
/// own text where none is found.
class FailureAttribution final : public Task {
 public:
  /// The failure that is thrown where no peer is found.
  struct Unexplained {
    std::string_view engine = {};  ///< begins the text "gloo failed: …"; empty: "rank 2: …"
    int culprit = -1;
    PeerFailed::Cause cause = PeerFailed::Cause::disconnected;
    std::chrono::milliseconds grace{1000};  ///< the time for which a peer is looked for
    bool passes_errors = false;             ///< errors of the library (Error) explain themselves and are thrown at once
  };
  FailureAttribution(Coordination& coordination, const Unexplained& unexplained) : coordination_(coordination), unexplained_(unexplained) {}

  /// Calls `step` and returns its result. After the first exception that is held back it returns false, until it throws. A Mismatch and a
  /// GroupFailure are thrown at once.
  template <class Step>
  bool guard(Step&& step) {
    if (!is_holding() && attempt([&] { done_ = step(); })) return done_;
    return advance();
  }
  /// Calls `step`; returns false where its exception is held back.
  template <class Step>
  bool attempt(Step&& step) {
    try {
      step();
      return true;
    } catch (...) {
      hold_current();
    }
    return false;
  }
  /// Holds the exception that is being handled back, or throws it again where it explains itself: a Mismatch, a GroupFailure.
  void hold_current();
  bool is_holding() const { return text_.has_value(); }

  /// Looks for the peer. Returns false, or throws.
  bool advance() override;
  std::vector<int> waiting_for() const override { return {}; }
  bool wakes_waiter() const override { return false; }

 private:
  void hold(const std::exception_ptr& error);

  Coordination& coordination_;
  Unexplained unexplained_;
  std::optional<std::string> text_;  // of the exception that is held back
  std::optional<base::Deadline> until_;
  bool done_ = false;
};

}  // namespace unisono::coordination
