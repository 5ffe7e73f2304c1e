#pragma once

#include <chrono>
#include <optional>
#include <source_location>
#include <string_view>

#include "base/deadline.h"
#include "group/messages/recv_task.h"
#include "group/progress/work_state.h"
#include "recorder/recorder.h"

namespace unisono::group {

/// A receive of contiguous host memory that is under way beside its caller: the state of its Work and its place among the receives of a lane in one
/// piece of memory, which the thread that lets go of it keeps for its next one.
class PendingReceive final : public detail::WorkState {
 public:
  struct About {
    std::string_view operation;  // a string literal
    std::source_location where = {};
    recorder::Recorder::Call record = {};
    std::chrono::milliseconds timeout{};
  };
  /// Makes one for the lane, which holds it, and for `other`: a Work, or a further holder.
  static PendingReceive* make(const std::shared_ptr<Progress>& progress, const std::shared_ptr<Lane>& lane, const About& about, std::uint64_t other);
  void dispose() noexcept override;

  const About& about() const { return about_; }
  /// Returns the deadline, which counts from the first time that somebody asks: a receive that is soon over never looks at the clock.
  const base::Deadline& deadline() {
    if (!deadline_) deadline_.emplace(about_.timeout);
    return *deadline_;
  }
  /// The receive itself, as the matcher has it.
  struct Receive final : RecvTask {
    explicit Receive(PendingReceive& state) : pending(state) { report(); }
    PendingReceive& pending;
  };
  static PendingReceive& of(PostedReceive& receive) { return static_cast<Receive&>(receive).pending; }

  Receive task{*this};
  bool warned = false;
  bool is_moving = false;                               // its message has come in part
  PendingReceive *previous = nullptr, *next = nullptr;  // in the lane

 private:
  PendingReceive() = default;
  ~PendingReceive() override = default;
  friend class RecycledReceives;

  About about_;
  std::optional<base::Deadline> deadline_;
};

}  // namespace unisono::group
