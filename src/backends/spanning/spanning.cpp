#include "backends/spanning/spanning.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>

#include <fmt/format.h>

#include "backends/spanning/exchange.h"
#include "ground/hash.h"

namespace unisono::backends {

Spanning::Spanning(SpanningParts parts)
    : parts_(std::move(parts)), place_(parts_.place), engine_(std::move(parts_.engine)), rail_(std::move(parts_.rail)) {
  for (std::size_t r = 0; r < parts_.options.global_ranks.size(); ++r) rank_of_global_[parts_.options.global_ranks[r]] = static_cast<int>(r);
  group_id_ = ground::stable_hash(parts_.options.key);
  if (engine_->blocks()) {
    warden_ = std::make_unique<Warden>([this] { return look_for_failures({}, false); }, [this](const Failure& failure) { poison(failure); });
  }
  if (one_host()) return;
  Messages::Parts channels;
  channels.rank = place_.rank;
  channels.size = place_.size();
  channels.is_remote = [this](int r) { return !place_.here(r); };
  channels.tell = [this](int r, std::string text) { tell(r, std::move(text)); };
  const auto global = [this](int r) { return parts_.options.global_ranks[static_cast<std::size_t>(r)]; };
  if (engine_->has_channels()) {
    channels.send = [this](const void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return engine_->start_send(data, bytes, peer, channel);
    };
    channels.recv = [this](void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return engine_->start_recv(data, bytes, peer, channel);
    };
    channels.discard = [this](std::size_t bytes, int peer, std::uint32_t channel) { return engine_->start_discard(bytes, peer, channel); };
    channels.largest_channel = engine_->largest_channel();
  } else {
    // Apart from the channels that a tcp engine of the same group would use.
    channels.send = [this, global](const void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return parts_.link->send(data, bytes, global(peer), {~group_id_, channel});
    };
    channels.recv = [this, global](void* data, std::size_t bytes, int peer, std::uint32_t channel) {
      return parts_.link->recv(data, bytes, global(peer), {~group_id_, channel});
    };
    channels.discard = [this, global](std::size_t bytes, int peer, std::uint32_t channel) {
      return parts_.link->recv(nullptr, bytes, global(peer), {~group_id_, channel});
    };
    channels.largest_channel = std::numeric_limits<std::uint32_t>::max();
  }
  channels.poll = [this] { poll(); };
  messages_ = std::make_unique<Messages>(std::move(channels));
  parts_.link->listen(group_id_, [this](int peer, std::string_view text) { take_notice(peer, text); });
}

Spanning::~Spanning() {
  if (!one_host()) {
    parts_.link->listen(group_id_, {});
    parts_.link->end(group_id_);
    parts_.link->end(~group_id_);
  }
  worker_.reset();
  warden_.reset();
}

engine::Bell* Spanning::bell() {
  if (parts_.host) return parts_.host->bell();
  return parts_.options.world ? parts_.options.world->bell() : parts_.bell.get();
}
engine::Bell* Spanning::bell_of(int rank) {
  if (rank == place_.rank) return bell();
  return parts_.host && place_.here(rank) ? parts_.host->bell_of(place_.local_of(rank)) : nullptr;
}

// ---- collectives ----------------------------------------------------------------------------------------------

std::unique_ptr<Task> Spanning::agreement(const CollectiveCall& call) {
  if (one_host()) return parts_.host->start_agreement(call);
  const AgreementParts parts{.place = &place_,
                             .host = parts_.host.get(),
                             .statements = &statements_,
                             .tell = [this](int r, std::string text) { tell(r, std::move(text)); },
                             .poll = [this] { poll(); },
                             .bell = bell(),
                             .is_over = [this] { return failure().has_value(); },
                             .gone = [this] { return gone(); },
                             .all_but_told = [this] { agreed_.store(true, std::memory_order_release); }};
  return backends::start_agreement(parts, ++agreements_, call);
}

std::vector<Stage> Spanning::plan(const CollectiveCall& call) {
  scratch_.reset();
  if (call.operation == Operation::barrier) return {};  // the agreement was one
  std::vector<Stage> stages;
  if (rail_ || place_.has_levels()) stages = level_plan(call, Abilities(rail_.get(), place_.host_count()), place_, scratch_);
  if (stages.empty()) stages = flat_plan(call, Abilities(engine_.get(), place_.size()), place_.rank, Stage::On::group, scratch_);
  return has_counts(call.operation) ? with_counts_compared(call, std::move(stages)) : stages;
}

std::vector<Stage> Spanning::with_counts_compared(const CollectiveCall& call, std::vector<Stage> stages) {
  CountsComparison comparison = compare_counts(call, place_.rank, place_.size(), scratch_);
  Stage gather{one_host() ? Stage::On::host : Stage::On::group, comparison.gather, {}};
  stages.insert(stages.begin(), {gather, Stage{Stage::On::here, {}, std::move(comparison.judge)}});
  return stages;
}

void Spanning::run(const CollectiveCall& call, Waiter& waiter) {
  const Agreed agreed(agreed_);
  // An engine that has both kinds of call may need all ranks to use the same one.
  bool may_block = engine_->blocks() && !engine_->starts();
  if (one_host()) [[likely]] {
    // A callable of the user's may throw in the middle of a call, and the others must not be stuck in it then.
    may_block = parts_.host->agree(call, waiter, engine_->blocks() && !call.custom) || may_block;
    agreed_.store(true, std::memory_order_release);
    // The shortest way for what an engine does by itself.
    if (may_block && reduces(call.operation) && !has_counts(call.operation) && Abilities(engine_.get(), place_.size()).reduces(call)) {
      return run_on(*engine_, call, waiter);
    }
  } else {
    const auto task = agreement(call);
    if (!task->advance()) waiter.wait(*task);
  }
  for (const Stage& stage : plan(call)) run_stage(stage, waiter, may_block);
}

void Spanning::run_stage(const Stage& stage, Waiter& waiter, bool may_block) {
  if (stage.on == Stage::On::here) return stage.work();
  if (may_block && stage.on != Stage::On::host) {
    const bool on_rail = stage.on == Stage::On::rail;
    Engine& engine = on_rail ? *rail_ : *engine_;
    if (engine.offers(stage.call)) return run_on(engine, stage.call, waiter);
    if (!engine.has_channels()) {
      const int size = on_rail ? place_.host_count() : place_.size();
      return run_on(engine, as_all_to_all_v(stage.call, on_rail ? place_.host() : place_.rank, size, scratch_), waiter);
    }
  }
  const auto task = start_stage(stage);
  if (!task->advance()) waiter.wait(*task);
}

void Spanning::run_on(Engine& engine, const CollectiveCall& call, Waiter& waiter) {
  std::unique_ptr<Task> blamed;
  try {
    const Warden::Guard guard(*warden_, call, waiter.timeout());
    return engine.run(call);
  } catch (const std::exception&) {
    blamed = blame(std::current_exception());
  }
  if (!blamed->advance()) waiter.wait(*blamed);
}

// All have agreed on the call by now, and the others are in it: where this rank cannot begin it, they are told.
Worker& Spanning::worker() {
  if (worker_) return *worker_;
  const auto give_up = [this](const std::string& why) {
    poison({.kind = Failure::Kind::peer_failed,
            .cause = PeerFailed::Cause::aborted,
            .culprit = place_.rank,
            .missing = {},
            .message = fmt::format("rank {} has given up a call that was under way{}", place_.rank, why)});
  };
  try {
    worker_ = std::make_unique<Worker>(bell(), [give_up] { give_up(""); });
  } catch (const Error& error) {
    give_up(": " + error.message());
    throw;
  }
  return *worker_;
}

std::unique_ptr<Task> Spanning::start_on(const std::shared_ptr<Engine>& engine, const CollectiveCall& call, int rank, int size) {
  if (engine->offers(call)) {
    if (engine->starts()) return engine->start(call);
    return worker().run(engine, call);
  }
  if (engine->has_channels()) return start_exchange(*engine, call, rank, size);
  return start_on(engine, as_all_to_all_v(call, rank, size, scratch_), rank, size);
}

std::unique_ptr<Task> Spanning::start_stage(const Stage& stage) {
  switch (stage.on) {
    case Stage::On::here: return std::make_unique<LocalWork>(stage.work);
    case Stage::On::host:
      // Alone on the host there is still memory to move from one place to another.
      if (!parts_.host) return std::make_unique<LocalWork>([call = stage.call] { copy_own(call); });
      return std::make_unique<Renamed>(parts_.host->start(stage.call), place_.members);
    case Stage::On::rail:
      return std::make_unique<Renamed>(
          std::make_unique<Watched>([this, call = stage.call] { return start_on(rail_, call, place_.host(), place_.host_count()); },
                                    [this](const std::exception_ptr& error) { return blame(error); }, [this] { poll(); }),
          place_.rail);
    case Stage::On::group:
      return std::make_unique<Watched>([this, call = stage.call] { return start_on(engine_, call, place_.rank, place_.size()); },
                                       [this](const std::exception_ptr& error) { return blame(error); }, [this] { poll(); });
  }
  return nullptr;
}

/// A whole call: the agreement, then one stage after the other.
class Spanning::CallTask final : public Task {
 public:
  CallTask(Spanning& group, const CollectiveCall& call) : group_(group), call_(call) {}
  bool advance() override {
    if (!begun_) {  // not before its turn among the group's calls
      begun_ = true;
      agreed_.emplace(group_.agreed_);
      current_ = group_.agreement(call_);
    }
    for (;;) {
      if (current_ && !current_->advance()) return false;
      current_.reset();
      if (!planned_) {
        planned_ = true;
        group_.agreed_.store(true, std::memory_order_release);
        stages_ = group_.plan(call_);
      }
      if (next_ == stages_.size()) return agreed_.reset(), true;
      current_ = group_.start_stage(stages_[next_++]);
    }
  }
  std::vector<int> waiting_for() const override { return current_ ? current_->waiting_for() : std::vector<int>(); }
  bool is_rung_for() const override { return !current_ || current_->is_rung_for(); }

 private:
  Spanning& group_;
  CollectiveCall call_;
  bool begun_ = false, planned_ = false;
  std::optional<Agreed> agreed_;
  std::vector<Stage> stages_;
  std::size_t next_ = 0;
  std::unique_ptr<Task> current_;
};

std::unique_ptr<Task> Spanning::start(const CollectiveCall& call) { return std::make_unique<CallTask>(*this, call); }

// ---- messages -------------------------------------------------------------------------------------------------

std::unique_ptr<Task> Spanning::start_send(const MessageCall& call) {
  if (!place_.here(call.peer)) return explained(messages_->send(call));
  MessageCall local = call;
  local.peer = place_.local_of(call.peer);
  return std::make_unique<Renamed>(parts_.host->start_send(local), place_.members);
}

std::unique_ptr<Task> Spanning::start_recv(const MessageCall& call) {
  return from_either(
      call, [this](const MessageCall& local) { return parts_.host->start_recv(local); },
      [this](const MessageCall& remote) { return messages_->recv(remote); });
}

std::unique_ptr<Task> Spanning::start_probe(const MessageCall& call) {
  return from_either(
      call, [this](const MessageCall& local) { return parts_.host->start_probe(local); },
      [this](const MessageCall& remote) { return messages_->probe(remote); });
}

std::unique_ptr<Task> Spanning::from_either(const MessageCall& call, const StartHalf& here, const StartHalf& elsewhere) {
  const auto remote = [&] { return explained(elsewhere(call)); };
  if (call.peer >= 0 && !place_.here(call.peer)) return remote();
  MessageCall on_host = call;
  if (call.peer >= 0) on_host.peer = place_.local_of(call.peer);
  const auto local = [&] { return std::make_unique<Renamed>(here(on_host), place_.members); };
  if (call.peer >= 0 || one_host()) return local();
  if (!parts_.host) return remote();
  return std::make_unique<EitherSource>(local, remote);
}

std::unique_ptr<Task> Spanning::explained(std::unique_ptr<Task> task) {
  return std::make_unique<Explained>(std::move(task), [this](const std::exception_ptr& error) { return blame(error); });
}

}  // namespace unisono::backends
