#pragma once

#include "schedule/schedule.h"
#include "unisono/call.h"
#include "unisono/engine.h"

namespace unisono::schedule {

/// The abilities of a level's engine that an algorithm may ask for.
class Abilities {
 public:
  /// `engine` may be null: then there are connections between all ranks, or else only all_to_all_v, and no other collectives.
  explicit Abilities(const Engine* engine, bool has_channels = true) : engine_(engine), has_channels_(has_channels) {}
  /// Returns true where the engine carries the collective out as it stands. It must also reduce as exactly as our schedules, which round halves once
  /// and average integers exactly.
  bool offers(const Problem& problem) const;
  /// The same of a call among `size` ranks, without a copy of it.
  bool offers(const CollectiveCall& call, int size) const;
  /// Returns true where bytes can be sent from any rank to any other. An engine without channels offers all_to_all_v.
  bool has_channels() const { return engine_ == nullptr ? has_channels_ : engine_->has_channels(); }
  /// Returns the abilities of an engine that moves bytes as this one does, and offers no other collectives.
  Abilities without_collectives() const { return Abilities(nullptr, has_channels()); }

 private:
  const Engine* engine_;
  bool has_channels_;  // where there is no engine
};

/// Makes the call of a problem without its memory.
CollectiveCall call_without_memory(const Problem& problem);

}  // namespace unisono::schedule
