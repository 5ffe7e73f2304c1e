#pragma once

#include <memory>

#include "backends/native/peers.h"
#include "engine/cooperative/lockstep.h"
#include "engine/cooperative/mailbox.h"
#include "engine/cooperative/segment.h"
#include "unisono/backend.h"

namespace unisono::backends {

/// The engine for ranks of one host, on a segment that all of them reach.
class Native final : public Backend {
 public:
  Native(std::shared_ptr<engine::Segment> segment, int rank, std::unique_ptr<Peers> peers);
  ~Native() override;

  std::string_view name() const noexcept override { return "native"; }
  Capabilities capabilities() const override { return {}; }
  void run(const CollectiveCall& call, Waiter& waiter) override;
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  std::unique_ptr<Task> start_send(const MessageCall& call) override { return mailbox_.send(call); }
  std::unique_ptr<Task> start_recv(const MessageCall& call) override { return mailbox_.recv(call); }
  std::unique_ptr<Task> start_probe(const MessageCall& call) override { return mailbox_.probe(call); }
  void poison(const Failure& failure) override;
  std::optional<Failure> failure() override;
  std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do) override;
  /// Lets all ranks compare what they are about to call, and does nothing else: who returns knows that everybody is here and agrees. Returns whether
  /// all ranks have come with the flag raised; those that come by `start_agreement` have not.
  bool agree(const CollectiveCall& call, Waiter& waiter, bool flag);
  std::unique_ptr<Task> start_agreement(const CollectiveCall& call);
  /// As look_for_failures, of all other ranks, but for those that have left.
  std::optional<Failure> look_at_all();
  engine::Bell* bell() override { return &segment_->bell(rank_); }
  engine::Bell* bell_of(int rank) override { return &segment_->bell(rank); }
  bool crowded() const override { return crowded_; }
  void leave() override { peers_->leave(); }
  std::optional<Failure> look_at(std::span<const int> ranks) override { return peers_->look_at(ranks); }
  std::vector<int> gone() override { return peers_->gone(); }
  const std::shared_ptr<engine::Segment>& segment() const { return segment_; }
  engine::Lockstep& lockstep() { return lockstep_; }

 private:
  std::shared_ptr<engine::Segment> segment_;
  int rank_;
  std::unique_ptr<Peers> peers_;
  engine::Lockstep lockstep_;
  engine::Mailbox mailbox_;
  bool crowded_;
};

/// Makes the segment of a group of processes: collective over its ranks.
std::unique_ptr<Native> make_native(const BackendOptions& options);
/// The engine of one of several ranks that are threads of this process.
std::unique_ptr<Backend> make_native_thread(std::shared_ptr<engine::Segment> segment, int rank, int cpus);
/// The bells of these ranks of the world, for a group of them: a process sleeps in one place, whatever it waits for.
std::vector<engine::Bell*> bells_of(Backend& world, const std::vector<int>& global_ranks);

}  // namespace unisono::backends
