#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "transport/tcp/tcp_link.h"
#include "transport/tcp/transfer.h"
#include "unisono/error.h"
#include "unisono/task.h"

namespace unisono::transport {

/// A transfer that was done at once.
class DoneTask final : public Task {
 public:
  bool advance() override { return true; }
  std::vector<int> waiting_for() const override { return {}; }
  bool detach() override { return true; }
};

/// A transfer of a link, for its caller.
class Ticket final : public Task {
 public:
  Ticket(std::shared_ptr<TcpLink> link, TransferPtr transfer, bool sends)
      : link_(std::move(link)), transfer_(std::move(transfer)), sends_(sends), turns_(link_->turns()) {}
  ~Ticket() override {
    if (!detached_ && transfer_->pending()) link_->withdraw(transfer_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // A poll moves the bytes of all peers. One that came since the last call here will do, so that a wave of many transfers costs one poll and not one
  // for each of them.
  bool advance() override {
    if (is_done()) return true;
    if (turns_ == link_->turns()) link_->poll();
    turns_ = link_->turns();
    return is_done();
  }
  std::vector<int> waiting_for() const override { return {transfer_->peer}; }
  bool sleep(std::chrono::nanoseconds at_most) override {
    return link_->sleep([this] { return !transfer_->pending(); }, at_most);
  }
  bool detach() override {
    if (sends_ && !std::exchange(detached_, true)) link_->detach(transfer_);
    return sends_;
  }

 private:
  bool is_done() const {
    switch (transfer_->state.load(std::memory_order_acquire)) {
      case Transfer::State::pending: return false;
      case Transfer::State::done: return true;
      case Transfer::State::failed: throw PeerFailed(transfer_->text, {}, transfer_->cause);
      case Transfer::State::wrong: throw ProtocolError(transfer_->text);
    }
    return false;
  }

  const std::shared_ptr<TcpLink> link_;
  const TransferPtr transfer_;
  const bool sends_;
  bool detached_ = false;
  std::uint64_t turns_;  ///< of the link, at the last look
};

}  // namespace unisono::transport
