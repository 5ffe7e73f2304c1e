#include "backends/native/native.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/cooperative/collectives.h"
#include "engine/cooperative/moves.h"
#include "ground/log.h"
#include "ground/processors.h"
#include "store/assembly.h"
#include "transport/shm/handover.h"

namespace unisono::backends {
namespace {

enum RecordState : std::uint32_t { none = 0, writing = 1, there = 2 };

}  // namespace

Native::Native(std::shared_ptr<engine::Segment> segment, int rank, std::unique_ptr<Peers> peers)
    : segment_(segment),
      rank_(rank),
      peers_(std::move(peers)),
      lockstep_(segment, rank),
      mailbox_(segment, rank),
      crowded_(segment->ranks() > peers_->fewest_cpus()) {}

Native::~Native() = default;

void Native::run(const CollectiveCall& call, Waiter& waiter) { engine::with_collective(lockstep_, call, waiter); }

bool Native::agree(const CollectiveCall& call, Waiter& waiter, bool flag) {
  engine::Agreement task(lockstep_, call, flag);
  if (!task.advance()) waiter.wait(task);
  return task.all();
}

std::unique_ptr<Task> Native::start_agreement(const CollectiveCall& call) { return std::make_unique<engine::Agreement>(lockstep_, call, false); }

std::unique_ptr<Task> Native::start(const CollectiveCall& call) { return engine::make_collective(lockstep_, call); }

void Native::poison(const Failure& failure) {
  engine::FailureRecord& record = segment_->failure();
  std::uint32_t expected = none;
  if (record.state.compare_exchange_strong(expected, writing)) {
    record.kind = static_cast<std::uint8_t>(failure.kind);
    record.cause = static_cast<std::uint8_t>(failure.cause);
    record.culprit = failure.culprit;
    record.missing_count = static_cast<std::uint32_t>(std::min(failure.missing.size(), engine::FailureRecord::max_missing));
    std::copy_n(failure.missing.begin(), record.missing_count, record.missing);
    record.message_size = static_cast<std::uint32_t>(std::min(failure.message.size(), engine::FailureRecord::max_message));
    std::memcpy(record.message, failure.message.data(), record.message_size);
    record.state.store(there, std::memory_order_seq_cst);
  }
  for (int r = 0; r < segment_->ranks(); ++r) segment_->bell(r).ring();
}

std::optional<Failure> Native::failure() {
  const engine::FailureRecord& record = segment_->failure();
  if (record.state.load(std::memory_order_acquire) != there) return std::nullopt;  // one that dies while writing is found dead instead
  Failure failure;
  failure.kind = static_cast<Failure::Kind>(record.kind);
  failure.cause = static_cast<PeerFailed::Cause>(record.cause);
  failure.culprit = record.culprit;
  failure.missing.assign(record.missing, record.missing + std::min<std::size_t>(record.missing_count, engine::FailureRecord::max_missing));
  failure.message.assign(record.message, std::min<std::size_t>(record.message_size, engine::FailureRecord::max_message));
  return failure;
}

std::optional<Failure> Native::look_for_failures(std::span<const int> waiting_for, bool any_will_do) {
  if (auto known = failure()) return known;
  return peers_->look(waiting_for, any_will_do);
}

std::optional<Failure> Native::look_at_all() {
  if (auto known = failure()) return known;
  return peers_->look_at_all();
}

std::unique_ptr<Native> make_native(const BackendOptions& options) {
  const int ranks = static_cast<int>(options.global_ranks.size());
  if (ranks > engine::Segment::most_ranks) {
    throw Unsupported(
        "the native engine serves at most " + std::to_string(engine::Segment::most_ranks) + " ranks of a host, not " + std::to_string(ranks),
        {.operation = "initialize", .group = options.group_name, .hint = "start fewer ranks on this host"});
  }
  const ground::Deadline deadline(options.timeout);
  const engine::Segment::Shape shape{.ranks = ranks};
  const auto memory =
      transport::share_memory(*options.store, "segment", options.rank, ranks, engine::Segment::size_for(shape), deadline, options.names);
  std::vector<engine::Bell*> bells;
  std::shared_ptr<void> keep_alive = memory.address;
  if (options.world) {
    bells = bells_of(*options.world, options.global_ranks);
    keep_alive = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<Backend>>>(memory.address, options.world);
  }
  auto segment = std::make_shared<engine::Segment>(shape, memory.address.get(), std::move(keep_alive), std::move(bells));
  segment->name_ranks(options.names);
  auto peers = std::make_unique<Peers>(segment, options.rank, options.global_ranks, options.job_store);
  peers->arrive(::getpid(), ground::allowed_processors());
  // Everybody has mapped it and is in the table before anybody watches or waits.
  store::Assembly(*options.store, "mapped", ranks).come(options.rank, deadline.left());
  peers->watch();
  ground::debug("schedule of group " + options.group_name + ": shared memory, " + std::to_string(shape.slot_bytes >> 10) +
                " KiB a step for each of " + std::to_string(ranks) + " ranks");
  return std::make_unique<Native>(std::move(segment), options.rank, std::move(peers));
}

std::vector<engine::Bell*> bells_of(Backend& world, const std::vector<int>& global_ranks) {
  std::vector<engine::Bell*> bells;
  for (const int r : global_ranks) bells.push_back(world.bell_of(r));
  if (std::find(bells.begin(), bells.end(), nullptr) != bells.end()) return {};
  return bells;
}

std::unique_ptr<Backend> make_native_thread(std::shared_ptr<engine::Segment> segment, int rank, int cpus) {
  auto peers = std::make_unique<Peers>(segment, rank, std::vector<int>{}, nullptr);
  peers->arrive(0, cpus);
  return std::make_unique<Native>(std::move(segment), rank, std::move(peers));
}

}  // namespace unisono::backends
