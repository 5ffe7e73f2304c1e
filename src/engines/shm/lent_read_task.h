#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/shm/private_memory.h"
#include "engines/shm/segment.h"
#include "kernels/copy.h"
#include "unisono/task.h"

namespace unisono::engines::shm {

/// Copies a message out of the sender's memory. Where that cannot be, the sender has ended, or has given up: it stands still, and whoever waits for
/// it finds out.
class LentReadTask final : public Task {
 public:
  LentReadTask(const Segment& segment, int rank, int peer, std::size_t place, std::byte* to, std::uint64_t bytes)
      : segment_(segment), rank_(rank), peer_(peer), place_(place), word_(segment.ring(peer, rank).lent[place]), to_(to), bytes_(bytes) {}
  ~LentReadTask() override {
    if (state_ == State::begins) word_.decline();
  }

  bool advance() override {
    if (state_ != State::begins) return state_ == State::done;
    state_ = State::stands_still;
    const auto address = word_.begin_read();
    if (!address) return false;
    const auto bytes = static_cast<std::size_t>(bytes_);
    int error = 0;
    if (to_ != nullptr && *address == 0) kernels::copy(to_, segment_.lent_data(peer_, rank_, place_), bytes);
    else if (to_ != nullptr) error = read_memory(segment_, peer_, to_, *address, bytes);
    if (error == ESRCH || !word_.end_read(*address)) return false;
    if (error != 0) throw_unreadable(segment_, rank_, peer_, error, "it was sent");
    segment_.notifier(peer_).notify();
    state_ = State::done;
    return true;
  }
  std::vector<int> waiting_for() const override {
    if (state_ == State::done) return {};
    return {peer_};
  }

 private:
  enum class State { begins, stands_still, done };
  const Segment& segment_;
  int rank_;
  int peer_;
  std::size_t place_;
  LentBuffer& word_;
  std::byte* to_;
  std::uint64_t bytes_;
  State state_ = State::begins;
};

}  // namespace unisono::engines::shm
