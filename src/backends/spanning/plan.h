#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "backends/spanning/place.h"
#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::backends {

/// One stage of a call: something that the ranks of the host, a rail or the whole group do together, or that this rank does alone.
struct Stage {
  enum class On { host, rail, group, here };
  On on = On::here;
  CollectiveCall call = {};
  std::function<void()> work = {};  ///< of On::here
};

/// Memory for what is on its way; kept from one call of a group to the next, since the first touch of new memory costs more than using it.
class Scratch {
 public:
  /// Valid until `reset`; aligned to 64 bytes.
  std::byte* take(std::size_t bytes);
  void reset();

 private:
  std::vector<std::pair<std::unique_ptr<std::byte[]>, std::size_t>> blocks_;
  std::size_t block_ = 0, used_ = 0;
};

/// What an engine of `size` ranks can be asked for at once: what it offers, and every collective that only moves bytes (see Exchange).
class Abilities {
 public:
  Abilities(Engine* engine, int size) : engine_(engine), size_(size) {}
  /// Whether it carries out a reduction as exactly as ours: halves are rounded once, integers are averaged exactly.
  bool reduces(const CollectiveCall& call) const;
  int size() const { return size_; }

 private:
  Engine* engine_;
  int size_;
};

/// The stages of a call among the ranks of one engine, of which this is `rank`. Where the engine does not offer a reduction:
///   reduce_scatter  every rank sends each its block (all_to_all_v), and combines what has come, in the order of the ranks
///   all_reduce      the same with equal shares, then all_gather_v; what is small: everything to everybody, everybody combines it
///   reduce          the same with equal shares, then gather_v
///   scan, exscan    every rank gets all of its share, makes the result of each rank of it, and sends it there
/// So each element is combined by one rank, once, from left to right: all ranks get the same bits, and halves are rounded once.
/// Bytes that a rank sends: S (P-1)/P for the first stage, and as many for the second. `on`: where the stages go.
std::vector<Stage> flat_plan(const CollectiveCall& call, const Abilities& engine, int rank, Stage::On on, Scratch& scratch);

/// The same on two levels: the ranks of each host among themselves, and the rails between the hosts. Empty where the flat plan is to be used.
std::vector<Stage> level_plan(const CollectiveCall& call, const Abilities& rail, const Place& place, Scratch& scratch);

}  // namespace unisono::backends
