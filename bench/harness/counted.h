#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unisono::bench {

/// The counts of one function of the C library, by libunisono-counts.so, which is loaded before all other libraries.
struct CountedFunction {
  enum class Kind : std::uint8_t { plain, moves_bytes, waits, copies };
  const char* name = nullptr;
  Kind kind = Kind::plain;
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> in_vain{0};  ///< moved no byte, or waited until its time was over
  std::atomic<std::uint64_t> bytes{0};    ///< moved
  std::atomic<std::uint64_t> ns{0};       ///< of copies: of large ones alone
};

/// A call's counters: those of the thread that calls, and those of all other threads of its process.
struct CountedThreads {
  static constexpr std::size_t functions = 24;
  std::atomic<bool> is_counting{false};
  std::array<CountedFunction, functions> own{}, others{};
};

/// The library's one function.
inline constexpr const char* counts_entry = "unisono_counts";
using CountsEntry = CountedThreads* (*)();

}  // namespace unisono::bench
