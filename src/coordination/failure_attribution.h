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

/// Finds out why an engine failed. An engine that throws says what happened to it, and seldom why: most often a peer has died, which the group
/// notices a moment later. So the exception is held back for that moment. Then a GroupFailure is thrown: with the peer that is gone, or with the
/// engine's own words where none is found.
class FailureAttribution final : public Task {
 public:
  /// The failure that is thrown where no peer is found.
  struct Unexplained {
    std::string_view engine = {};  ///< "gloo failed: …" is said then; empty: "rank 2: …"
    int culprit = -1;
    PeerFailed::Cause cause = PeerFailed::Cause::disconnected;
    std::chrono::milliseconds grace{1000};  ///< so long a peer is looked for
    bool passes_errors = false;             ///< errors of ours (Error) say by themselves what they are, and are thrown at once
  };
  FailureAttribution(Coordination& coordination, const Unexplained& unexplained) : coordination_(coordination), unexplained_(unexplained) {}

  /// Calls `step` and returns what it returns. From the first exception that is held back on it returns false, until it throws. A Mismatch and a
  /// GroupFailure are thrown at once.
  template <class Step>
  bool guard(Step&& step) {
    if (!is_holding() && attempt([&] { done_ = step(); })) return done_;
    return advance();
  }
  /// Calls `step`; false where its exception is held back.
  template <class Step>
  bool attempt(Step&& step) {
    try {
      step();
      return true;
    } catch (const Mismatch&) {
      throw;
    } catch (const GroupFailure&) {
      throw;
    } catch (const Error&) {
      if (unexplained_.passes_errors) throw;
      hold(std::current_exception());
    } catch (const std::exception&) {
      hold(std::current_exception());
    }
    return false;
  }
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
