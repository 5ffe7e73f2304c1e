#pragma once

#include <exception>
#include <string>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/error.h"
#include "unisono/export.h"

namespace unisono {

/// The reason why a group is over.
struct Failure {
  /// Whether a deadline passed or a peer failed: the call throws Timeout or PeerFailed.
  enum class Kind { timeout, peer_failed } kind = Kind::peer_failed;
  /// The end of the peer.
  PeerFailed::Cause cause = PeerFailed::Cause::disconnected;
  /// The rank in the group that caused it; -1 for nobody in particular.
  int culprit = -1;
  /// For a timeout: the ranks that were waited for.
  std::vector<int> missing = {};
  /// The sentence that errors begin with.
  std::string message = {};
  /// For a timeout: the rank in the group whose deadline passed; -1 if it is not known.
  int reporter = -1;
};

/// Thrown by a task or an engine that finds that its group is over. The group turns it into Timeout
/// or PeerFailed.
class UNISONO_API GroupFailure final : public std::exception {
 public:
  explicit GroupFailure(Failure failure) : failure_(std::make_shared<const Failure>(std::move(failure))) {}
  ~GroupFailure() override;
  const char* what() const noexcept override { return failure_->message.c_str(); }
  /// Returns the reason.
  const Failure& failure() const noexcept { return *failure_; }

 private:
  std::shared_ptr<const Failure> failure_;
};

}  // namespace unisono
