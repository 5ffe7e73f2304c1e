#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace unisono::engines::shm {

/// The word in shared memory by which a sender lends its receiver the memory of a message: the address there, and who has it. All-zero is free.
///
///   free → lent → being read → returned → free      The receiver reads when it likes; the sender waits until it has returned the memory.
///          lent → lent                              The sender takes its memory back, and leaves a copy in the segment.
///          any  → taken back                        The sender gives up. What is being read then counts for nothing, and the word stays as it is.
///
/// The address 0 stands for the memory in the segment that belongs to the word.
class LentBuffer {
 public:
  // The sender's part.

  /// Lends memory by a free word. The receiver learns of the word after that.
  void lend(std::uint64_t address) noexcept { word_.store(lent | address, std::memory_order_relaxed); }  // litmus: lent-lend
  /// Returns true once the receiver has done with the memory, and frees the word.
  bool take_returned() noexcept {
    if (word_.load(std::memory_order_acquire) != returned) return false;  // litmus: lent-look
    word_.store(0, std::memory_order_relaxed);                            // litmus: lent-free
    return true;
  }
  /// Has the receiver take the copy in the segment in place of the memory. Returns false where it reads already.
  bool leave_copy(std::uint64_t address) noexcept {
    std::uint64_t expected = lent | address;
    return word_.compare_exchange_strong(expected, lent, std::memory_order_seq_cst);  // litmus: lent-leave-copy
  }
  /// An exchange, since nothing that the program writes into the memory after it may come before it; a store lets later writes overtake it.
  void take_back() noexcept { word_.exchange(taken_back, std::memory_order_acq_rel); }  // litmus: lent-take-back

  /// Returns true while nobody reads what is lent. `address`: 0 for the copy in the segment.
  bool is_lent(std::uint64_t address) const noexcept { return word_.load(std::memory_order_acquire) == (lent | address); }

  // The receiver's part.

  /// Returns the address; nullopt where the sender has given up.
  std::optional<std::uint64_t> begin_read() noexcept {
    std::uint64_t now = word_.load(std::memory_order_acquire);  // litmus: lent-begin
    while ((now & states) == lent) {
      const std::uint64_t address = now & ~states;
      if (word_.compare_exchange_weak(now, being_read | address, std::memory_order_seq_cst)) return address;  // litmus: lent-reading
    }
    return std::nullopt;
  }
  /// Returns false where the sender has given up meanwhile: what was read may have been overwritten.
  bool end_read(std::uint64_t address) noexcept {
    std::uint64_t expected = being_read | address;
    return word_.compare_exchange_strong(expected, returned, std::memory_order_seq_cst);  // litmus: lent-return
  }
  /// Returns memory that is not read.
  void decline() noexcept {
    if (const auto address = begin_read()) end_read(*address);
  }

 private:
  // The highest bits: addresses of programs have fewer than 60.
  static constexpr std::uint64_t unit = std::uint64_t{1} << 60;
  static constexpr std::uint64_t lent = 1 * unit, being_read = 2 * unit, returned = 3 * unit, taken_back = 4 * unit, states = 15 * unit;
  std::atomic<std::uint64_t> word_{0};
};

}  // namespace unisono::engines::shm
