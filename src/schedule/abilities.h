#pragma once

#include "schedule/schedule.h"
#include "unisono/call.h"
#include "unisono/engine.h"

namespace unisono::schedule {

/// The abilities of the engine of a level, as far as an algorithm may ask.
class Abilities {
 public:
  /// Null: connections between all ranks, and no collective.
  explicit Abilities(const Engine* engine) : engine_(engine) {}
  /// Whether it carries the collective out as it stands. Of a reduction also: as exactly as ours, which rounds halves once and averages integers
  /// exactly.
  bool offers(const Problem& problem) const;
  /// Whether bytes go from any rank to any other. An engine without channels offers all_to_all_v.
  bool has_channels() const { return engine_ == nullptr || engine_->has_channels(); }

 private:
  const Engine* engine_;
};

/// The call of a problem without its memory.
CollectiveCall call_without_memory(const Problem& problem);

}  // namespace unisono::schedule
