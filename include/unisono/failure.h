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
  enum class Kind { timeout, peer_failed } kind = Kind::peer_failed;
  PeerFailed::Cause cause = PeerFailed::Cause::disconnected;
  int culprit = -1;               ///< rank in the group; -1: nobody in particular
  std::vector<int> missing = {};  ///< of a timeout: the ranks that were waited for
  std::string message = {};
};

/// Thrown by a task or an engine that finds that its group is over.
class UNISONO_API GroupFailure final : public std::exception {
 public:
  explicit GroupFailure(Failure failure) : failure_(std::make_shared<const Failure>(std::move(failure))) {}
  ~GroupFailure() override;
  const char* what() const noexcept override { return failure_->message.c_str(); }
  const Failure& failure() const noexcept { return *failure_; }

 private:
  std::shared_ptr<const Failure> failure_;
};

}  // namespace unisono
