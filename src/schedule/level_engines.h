#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "coordination/coordination.h"
#include "coordination/failure_attribution.h"
#include "schedule/schedule.h"
#include "unisono/call.h"
#include "unisono/engine.h"
#include "unisono/task.h"

namespace unisono::schedule {

/// Temporary memory of a group's calls. It is kept from one call to the next, since the first touch of new memory costs more than using it.
class Scratch {
 public:
  /// Returns memory that is valid until `reset`, aligned to 64 bytes.
  std::byte* take(std::size_t bytes);
  void reset();

 private:
  std::vector<std::pair<std::unique_ptr<std::byte[]>, std::size_t>> blocks_;
  std::size_t block_ = 0, used_ = 0;
};

/// The engines of a group.
struct Engines {
  std::shared_ptr<Engine> group;   ///< of all ranks of the group
  std::shared_ptr<Engine> rail;    ///< of this rank's rail; null where there is none, or the group has one level
  std::shared_ptr<Engine> device;  ///< of all ranks, for memory of devices; null where there is none
};

class BlockingCalls;

/// The engines that carry out the steps of a group's calls, by level, and what these steps share. One thread at a time may use it.
class LevelEngines {
 public:
  LevelEngines(coordination::Coordination& coordination, Engines engines);
  ~LevelEngines();
  LevelEngines(const LevelEngines&) = delete;
  LevelEngines& operator=(const LevelEngines&) = delete;

  coordination::Coordination& coordination() const { return coordination_; }
  /// Shared with calls in which a thread of ours may still be.
  const Engines& all() const { return engines_; }
  Engine& group() const { return *engines_.group; }
  const std::shared_ptr<Engine>& at(Level level) const;
  /// Starts a call on an engine, which may be one that can only block.
  std::unique_ptr<Task> start(const std::shared_ptr<Engine>& engine, const CollectiveCall& call);
  /// Returns the attribution of a failure of the group's engine.
  coordination::FailureAttribution attribution() const;
  Scratch& scratch() { return scratch_; }

 private:
  BlockingCalls& blocking_calls();

  coordination::Coordination& coordination_;
  Engines engines_;
  std::shared_ptr<Engine> host_;                   // of the ranks of this host; null where this rank is alone there
  std::unique_ptr<BlockingCalls> blocking_calls_;  // for asynchronous calls of an engine that can only block
  Scratch scratch_;
};

}  // namespace unisono::schedule
