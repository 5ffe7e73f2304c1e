#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "unisono/error.h"

namespace unisono::transport {

/// The groups that ended last on this rank: what peers have sent for them before they knew is dropped when it comes. A peer knows soon, so the groups
/// that ended long before are forgotten: a program may make any number of them.
class EndedGroups {
 public:
  static constexpr std::size_t most = 4096;  // a group of the program's has three or four here

  bool contains(std::uint64_t group) const { return groups_.contains(group); }
  void insert(std::uint64_t group) {
    if (!groups_.insert(group).second) return;
    order_.push_back(group);
    if (order_.size() <= most) return;
    groups_.erase(order_.front());
    order_.pop_front();
  }

 private:
  std::unordered_set<std::uint64_t> groups_;
  std::deque<std::uint64_t> order_;
};

using ChannelKey = std::pair<std::uint64_t, std::uint32_t>;  ///< group, channel

/// A side of a message in transfer. The link's mutex guards all members but `state`, by which the task learns the end without it.
struct Transfer {
  enum class State : std::uint8_t { pending, done, failed, wrong };  ///< failed: PeerFailed; wrong: ProtocolError
  Transfer(std::byte* memory, std::size_t length, int with, ChannelKey on) : data(memory), bytes(length), peer(with), channel(on) {}

  std::byte* data;          ///< address of the next bytes; null: the owner has given the memory up
  const std::size_t bytes;  ///< of the whole message
  const int peer;
  const ChannelKey channel;
  std::size_t moved = 0;
  std::uint64_t id = 0;          ///< of the request, where there is one
  std::size_t may_move = 0;      ///< bytes that may be sent so far; of a send with a request
  std::vector<std::byte> own{};  ///< the unsent rest of a detached send
  std::atomic<State> state{State::pending};
  PeerFailed::Cause cause = PeerFailed::Cause::disconnected;  ///< of State::failed
  std::string text{};                                         ///< written before the state

  std::size_t rest() const { return bytes - moved; }
  bool pending() const { return state.load(std::memory_order_acquire) == State::pending; }
  void finish() { state.store(State::done, std::memory_order_release); }
  void fail(PeerFailed::Cause why, std::string what) {
    cause = why;
    text = std::move(what);
    state.store(State::failed, std::memory_order_release);
  }
  void fail_if_pending(PeerFailed::Cause why, const std::string& what) {
    if (pending()) fail(why, what);
  }
  /// Fails a transfer whose group is over: its memory is not used any more.
  void abort() {
    if (!pending()) return;
    data = nullptr;
    fail(PeerFailed::aborted, "the group is over");
  }
  void reject(std::string what) {
    text = std::move(what);
    state.store(State::wrong, std::memory_order_release);
  }
  /// Continues a send from a copy of its data.
  void detach() {
    if (!pending()) return;
    own.assign(data, data + rest());
    data = own.data();
  }
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace unisono::transport
