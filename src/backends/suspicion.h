#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "ground/deadline.h"
#include "unisono/backend.h"
#include "unisono/error.h"

namespace unisono::backends {

/// An engine that fails says what happened to it, and seldom why: most often a peer has died, which is seen a moment later by whoever watches the
/// peers. So its error is held back for that moment.
class Suspicion {
 public:
  /// `rank`: the caller's own, who is to blame if nobody else is.
  Suspicion(Backend& watcher, int rank) : watcher_(watcher), rank_(rank) {}

  /// What comes before the first step. An error is held back.
  template <class First>
  void prepare(First&& first) {
    try {
      first();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      hold(error);
    }
  }

  /// What `step` returns; false while an error is held back. Throws GroupFailure then, and at once what says by itself what it is.
  template <class Step>
  bool guard(Step&& step) {
    if (!error_) {
      try {
        return step();
      } catch (const Error&) {
        throw;
      } catch (const GroupFailure&) {
        throw;
      } catch (const std::exception& error) {
        hold(error);
      }
    }
    if (auto failure = watcher_.failure()) throw GroupFailure(*failure);
    if (auto failure = watcher_.look_for_failures({}, false)) throw GroupFailure(*failure);
    if (until_->passed()) {
      throw GroupFailure(
          {.kind = Failure::Kind::peer_failed, .cause = PeerFailed::Cause::aborted, .culprit = rank_, .missing = {}, .message = *error_});
    }
    return false;
  }

 private:
  void hold(const std::exception& error) {
    error_ = fmt::format("rank {}: {}", rank_, error.what());
    until_.emplace(grace);
  }

  static constexpr std::chrono::milliseconds grace{300};
  Backend& watcher_;
  int rank_;
  std::optional<std::string> error_;
  std::optional<ground::Deadline> until_;
};

}  // namespace unisono::backends
