#include "engines/shm/call_times.h"

#include <chrono>
#include <utility>

namespace unisono::engines::shm {
namespace {

/// Returns the time of a clock that all processes of the host share.
CopyTuner::Ticks ticks_now() {
  constexpr int shift = 4;  // 16 ns
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<CopyTuner::Ticks>(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) >> shift);
}

/// Returns true where a time is after another one, less than half a round of the clock apart, which takes 68 s.
bool is_after(CopyTuner::Ticks time, CopyTuner::Ticks other) { return static_cast<std::int32_t>(time - other) > 0; }

}  // namespace

void CallTimes::begin(bool is_timed) {
  is_timed_ = is_timed;
  if (is_timed_) begins_ = ticks_now();
}

bool CallTimes::stop() { return std::exchange(is_timed_, false); }

void CallTimes::ended(Operation operation, CopyTuner::Cell cell, CopyTuner::Method method, CopyTuner::Method by_rule, bool is_disturbed) {
  const CopyTuner::Ticks ends = ticks_now();
  if (operation == Operation::all_to_all_v) {
    own_tuner_.ended(cell, method, by_rule);
    own_tuner_.measured(is_disturbed ? std::nullopt : std::optional(ends - begins_));
    return;
  }
  tuner_.ended(cell, method, by_rule);
  began_ = begins_;
  ended_ = ends;
  is_undisturbed_ = !is_disturbed;
}

void CallTimes::announce(Announcement& announcement) const {
  announcement.began = began_;
  announcement.ended = ended_;
}

void CallTimes::take(const Segment& segment, std::uint32_t step) {
  const Announcement first = segment.line(0, step).announcement();
  CopyTuner::Ticks began = first.began, ended = first.ended;
  for (int r = 1; r < segment.ranks(); ++r) {
    const Announcement other = segment.line(r, step).announcement();
    if (is_after(other.began, began) != is_crowded_) began = other.began;
    if (is_after(other.ended, ended)) ended = other.ended;
  }
  tuner_.measured(is_undisturbed_ && is_after(ended, began) ? std::optional(ended - began) : std::nullopt);
}

}  // namespace unisono::engines::shm
