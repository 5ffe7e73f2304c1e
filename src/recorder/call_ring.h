#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/layout.h"

namespace unisono::recorder {

/// The entries of a record that are given to calls in turn. That of a trace grows as far as the room of its file goes; from there on, as in any other
/// ring, the earliest calls are lost.
class CallRing {
 public:
  /// `trace`: the descriptor of a trace's file; -1: it is none. `size`: where the header says how many entries there are.
  CallRing(RecordHeader& header, int trace, std::atomic<std::uint32_t>& size, std::uint32_t most, CallEntry* entries);

  CallEntry* begin() const noexcept { return entries_; }
  CallEntry* next() noexcept {
    CallEntry* const entry = entries_ + position_;
    if (++position_ == size_) [[unlikely]]
      extend();
    return entry;
  }

 private:
  /// Goes on in more room where it grows, or else at the beginning.
  void extend() noexcept;

  RecordHeader& header_;
  int trace_;  // -1 where it does not grow any more
  std::atomic<std::uint32_t>& said_;
  const std::uint32_t most_;
  CallEntry* const entries_;
  std::uint32_t position_ = 0, size_;
};

}  // namespace unisono::recorder
