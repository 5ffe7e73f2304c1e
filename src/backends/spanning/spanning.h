#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "backends/native/native.h"
#include "backends/spanning/agreement.h"
#include "backends/spanning/messages.h"
#include "backends/spanning/place.h"
#include "backends/spanning/plan.h"
#include "backends/spanning/stages.h"
#include "backends/spanning/warden.h"
#include "engine/bell.h"
#include "transport/tcp/link.h"
#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::backends {

/// What a Spanning is made of.
struct SpanningParts {
  BackendOptions options;
  Place place;
  std::unique_ptr<Engine> engine;         // of the whole group
  std::unique_ptr<Engine> rail;           // of this rank's rail; null where there is none, or the group has one level
  std::unique_ptr<Native> host;           // of the ranks of this host; null where this rank is alone there
  std::shared_ptr<transport::Link> link;  // with the ranks of other hosts, or whatever the engine connects; null where there is nothing to connect
  std::shared_ptr<engine::Bell> bell;     // this rank's, of a world in which it is alone on its host
  bool owns_link = false;                 // it ends with this group
};

/// A group whose data an Engine moves. Everything else happens here: before each collective all ranks agree on it, in shared memory inside a host and
/// over the Link between hosts; what the engine does not offer is composed of what it does; on several hosts the ranks of each combine among
/// themselves first; messages go through shared memory or over channels; failures are looked for in the same two places, and end the engine's work.
class Spanning final : public Backend {
 public:
  explicit Spanning(SpanningParts parts);
  ~Spanning() override;

  std::string_view name() const noexcept override { return engine_->name(); }
  Capabilities capabilities() const override { return {.any_source = true, .custom_operations = true, .spans_hosts = true}; }
  void run(const CollectiveCall& call, Waiter& waiter) override;
  std::unique_ptr<Task> start(const CollectiveCall& call) override;
  std::unique_ptr<Task> start_send(const MessageCall& call) override;
  std::unique_ptr<Task> start_recv(const MessageCall& call) override;
  std::unique_ptr<Task> start_probe(const MessageCall& call) override;
  void poison(const Failure& failure) override;
  std::optional<Failure> failure() override;
  std::optional<Failure> look_for_failures(std::span<const int> waiting_for, bool any_will_do) override;
  std::optional<Failure> look_at(std::span<const int> ranks) override;
  std::vector<int> gone() override;
  engine::Bell* bell() override;
  engine::Bell* bell_of(int rank) override;
  std::shared_ptr<transport::Link> link() const override { return parts_.link; }
  bool crowded() const override { return parts_.host != nullptr && parts_.host->crowded(); }
  void leave() override;

 private:
  class CallTask;
  /// While a call is under way: whether all ranks have agreed on it.
  class Agreed {
   public:
    explicit Agreed(std::atomic<bool>& flag) : flag_(flag) { flag_.store(false, std::memory_order_release); }
    ~Agreed() { flag_.store(false, std::memory_order_release); }
    Agreed(const Agreed&) = delete;
    Agreed& operator=(const Agreed&) = delete;

   private:
    std::atomic<bool>& flag_;
  };

  bool one_host() const { return place_.host_count() == 1; }
  std::unique_ptr<Task> agreement(const CollectiveCall& call);
  std::vector<Stage> plan(const CollectiveCall& call);
  /// A collective as it reaches the engine of the group or of the rail.
  Worker& worker();
  std::unique_ptr<Task> start_on(const std::shared_ptr<Engine>& engine, const CollectiveCall& call, int rank, int size);
  void run_on(Engine& engine, const CollectiveCall& call, Waiter& waiter);
  void run_stage(const Stage& stage, Waiter& waiter, bool may_block);
  std::unique_ptr<Task> start_stage(const Stage& stage);
  std::vector<Stage> with_counts_compared(const CollectiveCall& call, std::vector<Stage> stages);
  /// What went wrong in a call of the engine that threw: a peer that is gone, as far as one is found in a second.
  std::unique_ptr<Task> blame(const std::exception_ptr& error);
  /// Of a receive or a probe: a half looks among the ranks of this host, a half at the others.
  using StartHalf = std::function<std::unique_ptr<Task>(const MessageCall& call)>;
  std::unique_ptr<Task> from_either(const MessageCall& call, const StartHalf& here, const StartHalf& elsewhere);
  /// A message's task, whose errors are explained as an engine's are.
  std::unique_ptr<Task> explained(std::unique_ptr<Task> task);
  void tell(int rank, std::string text);
  void tell_all(const std::string& text);
  void take_notice(int peer_of_world, std::string_view text);
  void poll();
  std::optional<Failure> look_for_peers(std::span<const int> waiting_for, bool any_will_do);
  std::optional<Failure> lost_peers();
  std::optional<Failure> lost_peer(int rank);
  bool has_left(int rank);
  std::optional<Failure> announced();

  SpanningParts parts_;
  const Place& place_;
  std::shared_ptr<Engine> engine_;  // shared with calls that a thread of ours may still be in
  std::shared_ptr<Engine> rail_;
  std::map<int, int> rank_of_global_;
  std::uint64_t group_id_ = 0;
  Statements statements_;
  std::unique_ptr<Messages> messages_;
  std::unique_ptr<Warden> warden_;
  std::unique_ptr<Worker> worker_;  // waits in calls that only block, on behalf of asynchronous ones
  Scratch scratch_;
  std::uint64_t agreements_ = 0;
  std::mutex mutex_;  // of what follows
  std::optional<Failure> failure_;
  std::optional<Failure> announced_;  // by a rank on another host; counts a moment later
  ground::Clock::time_point announced_at_{};
  std::set<int> left_;
  std::atomic<bool> agreed_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> is_announced_{false};
  std::atomic<bool> aborted_{false};
};

/// How an engine is made: as from a plug-in, or on connections of ours.
struct EngineMaker {
  std::function<std::unique_ptr<Engine>(const EngineOptions& options, const std::shared_ptr<transport::Link>& link)> make;
  EngineTraits traits;
  bool connects_all = false;  // it works on the Link, and needs it between the ranks of a host too
};

/// What an engine of a group is told. `prefix`: of its part of the group's store. `crowded`: as in EngineOptions.
EngineOptions engine_options(const BackendOptions& options, const std::string& prefix, bool crowded);

/// Makes a Spanning for a group: collective over its members.
std::unique_ptr<Backend> make_spanning(const BackendOptions& options, const EngineMaker& maker);

}  // namespace unisono::backends
