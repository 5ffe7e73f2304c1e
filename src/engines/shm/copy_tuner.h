#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "unisono/call.h"

namespace unisono::engines::shm {

/// Finds out, while a program calls, whether the ranks of a group exchange private buffers faster by reading them where they lie or through the
/// slots. That depends on the caches, on how far the cores are from each other, and on what the program does with its data between two calls, so that
/// no rule knows it. Calls of one kind whose sizes lie between two powers of two share a cell. A cell begins with the way of the rule. After some
/// calls it takes the other way three times, and keeps the one that was clearly faster; the next such trial comes after twice as many calls, or soon
/// where the way has changed. All ranks see the same times (DirectAccess), in the same order, and so take the same way in every call.
class CopyTuner {
 public:
  enum class Method : std::uint8_t { staged, read };
  using Cell = std::uint16_t;
  /// A time in units of 16 ns.
  using Ticks = std::uint32_t;

  static constexpr std::uint16_t trial_calls = 3;  ///< the first of them is not counted: it finds the caches as the other way has left them
  static constexpr std::uint16_t first_pause = 4;  ///< calls before the first trial of a cell
  static constexpr std::uint16_t pause_after_change = 16;
  static constexpr std::uint16_t longest_pause = 256;
  static constexpr std::size_t least_bytes = std::size_t{16} << 10;  ///< of all data of a rank: less takes no longer than what a trial can tell

  static constexpr double clear_gain = 0.95, clear_gain_of_sharing = 0.9;  ///< of the time; the second where ranks share processors

  /// `gain`: the part of the time of its own method that the other one has to need less than, so that a cell takes that.
  explicit CopyTuner(double gain = clear_gain) : gain_(gain) {}

  /// Returns the cell of calls of this kind in which a rank has so many bytes; nullopt where the rule alone decides.
  static std::optional<Cell> cell_of(Operation operation, std::size_t bytes);

  /// Returns the way of the next call. `by_rule`: of a cell that has had no call.
  Method method(Cell cell, Method by_rule) const;
  /// Takes a call down that has ended.
  void ended(Cell cell, Method method, Method by_rule);
  /// Takes the time of that call down, which is known at the next one; nullopt where it tells nothing.
  void measured(std::optional<Ticks> time);

 private:
  static constexpr std::size_t kinds = 8, sizes = 22;
  static constexpr Ticks none = std::numeric_limits<Ticks>::max();
  struct State {
    Method method = Method::staged;
    std::uint16_t pause = 0;  // calls before the trial; 0: no call yet
    std::uint16_t calls = 0;  // since the last trial, and those of this one
    Ticks best = none, other = none;
    bool tries() const { return calls >= pause && calls < pause + trial_calls; }
  };
  struct Last {
    Cell cell;
    Method method;
    bool counts, ends_trial;
  };
  void decide(State& state) const;

  std::array<State, kinds * sizes> states_{};
  std::optional<Last> last_;
  double gain_;
};

}  // namespace unisono::engines::shm
