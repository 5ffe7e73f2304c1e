#pragma once

#include <cstdint>
#include <optional>

#include "engines/shm/copy_tuner.h"
#include "engines/shm/segment.h"
#include "unisono/operation.h"

namespace unisono::engines::shm {

/// The times of a program's own calls, by which the ranks tune how they exchange private buffers (CopyTuner). A call's time is known at the next one,
/// in which the ranks announce when they began and ended it. An all_to_all_v has a tuner of its own, since each rank decides for itself there, by its
/// own times.
class CallTimes {
 public:
  explicit CallTimes(bool is_crowded)
      : is_crowded_(is_crowded), tuner_(is_crowded ? CopyTuner::clear_gain_of_sharing : CopyTuner::clear_gain), own_tuner_(tuner_) {}

  CopyTuner::Method method(Operation operation, CopyTuner::Cell cell, CopyTuner::Method by_rule) const {
    return (operation == Operation::all_to_all_v ? own_tuner_ : tuner_).method(cell, by_rule);
  }
  /// A call begins; `is_timed`: its time tells something.
  void begin(bool is_timed);
  /// Returns true where the call that ends was timed.
  bool stop();
  /// Takes down how the call that has ended was carried out; `is_disturbed`: by a trial.
  void ended(Operation operation, CopyTuner::Cell cell, CopyTuner::Method method, CopyTuner::Method by_rule, bool is_disturbed);
  void announce(Announcement& announcement) const;
  /// Tells the tuner how long the last timed call took, from when the last rank began it until the last one had ended
  /// it. Where ranks share processors it is from when the first one began, since a rank may have done its part before another one gets a processor.
  void take(const Segment& segment, std::uint32_t step);

 private:
  bool is_crowded_;
  CopyTuner tuner_, own_tuner_;
  bool is_timed_ = false;                                // this call
  bool is_undisturbed_ = false;                          // the last timed one, by a trial
  CopyTuner::Ticks begins_ = 0, began_ = 0, ended_ = 0;  // this call, and the last timed one
};

}  // namespace unisono::engines::shm
