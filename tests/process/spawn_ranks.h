#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "coordination/host_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {

inline SpawnOptions ranks(int n) {
  SpawnOptions options;
  options.nproc_per_node = n;
  return options;
}

/// The account that a rank gives of itself.
struct Account {
  int rank = -1, world_size = 0, local_rank = -1, given = -1, sum = 0, pid = 0;
  std::string model, launcher;
  std::vector<double> halves;
  UNISONO_FIELDS(rank, world_size, local_rank, given, sum, pid, model, launcher, halves);
};

inline Account account_of(int given) {
  Account account{
      rank(), world_size(), local_rank(), given, all_reduce(rank() + 1), ::getpid(), model_name(), std::string(to_string(infer_launcher())), {}};
  for (int i = 0; i <= rank(); ++i) account.halves.push_back(i / 2.0 + rank());
  return account;
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
  void leave() override { ranks_.peers->leave(coordination::Leaving::in_order); }

 private:
  coordination::HostRanks ranks_;
};

}  // namespace unisono::testing
