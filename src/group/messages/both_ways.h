#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "group/messages/recv_task.h"
#include "unisono/task.h"

namespace unisono::group {

/// A send and a receive at the same time, without a thread beside the caller: neither waits for the other one, so ranks that exchange messages copy
/// them at the same time.
class BothWays final : public Task {
 public:
  /// The receive is posted before `make_send` is called: the carrier then knows that messages go in both directions.
  template <class MakeSend>
  BothWays(MessageMatcher& matcher, const engines::MessageCall& received, MakeSend&& make_send)
      : receive_(matcher, received), send_(std::forward<MakeSend>(make_send)()) {}

  // The send comes first: its peer may begin while this rank copies what it receives. Where the receive throws, the message to the peer leaves all
  // the same.
  bool advance() override {
    is_sent_ = is_sent_ || send_->advance();
    if (!is_received_) {
      try {
        is_received_ = receive_.advance();
      } catch (...) {
        error_ = std::current_exception();
        is_received_ = true;
      }
    }
    if (!is_sent_ || !is_received_) return false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return true;
  }
  std::vector<int> waiting_for() const override { return is_received_ ? send_->waiting_for() : receive_.waiting_for(); }
  bool any_will_do() const override { return !is_received_ && receive_.any_will_do(); }
  bool wakes_waiter() const override { return (is_sent_ || send_->wakes_waiter()) && (is_received_ || receive_.wakes_waiter()); }
  Arrival arrival() const override { return receive_.arrival(); }
  std::string remark() const override { return is_received_ ? std::string() : receive_.remark(); }

 private:
  RecvTask receive_;
  std::unique_ptr<Task> send_;
  bool is_sent_ = false, is_received_ = false;
  std::exception_ptr error_;
};

}  // namespace unisono::group
