#pragma once

#include "coordination/coordination.h"
#include "unisono/unisono.h"

namespace unisono::testing {

inline SpawnOptions ranks(int n) {
  SpawnOptions options;
  options.nproc_per_node = n;
  return options;
}

/// An engine of somebody else's: another name, the same work.
class Borrowed final : public Engine {
 public:
  explicit Borrowed(const EngineOptions& options)
      : ranks_(coordination::join_host({.group_name = options.group_name,
                                        .rank = options.rank,
                                        .global_ranks = options.global_ranks,
                                        .store = options.store,
                                        .timeout = options.timeout})) {}
  std::string_view name() const noexcept override { return "borrowed"; }
  bool offers(const CollectiveCall&) const override { return true; }
  std::unique_ptr<Task> start(const CollectiveCall& call) override { return ranks_.engine->start(call); }
  void abort(const Failure&) noexcept override {}
  void leave() override { ranks_.peers->leave(); }

 private:
  coordination::HostRanks ranks_;
};

}  // namespace unisono::testing
